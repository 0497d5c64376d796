"""Exponentials of whole vectors and extrema of rows in compiled kernels, at every width."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import pallas as pl


def native(function, x, shape=None):
    def kernel(x, out):
        out[...] = function(x[...])

    return np.asarray(pl.pallas_call(kernel, weft.ShapeDtypeStruct(shape or x.shape, x.dtype))(x))


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7, 8, 12, 16, 20, 33])
def test_the_exponential_of_an_element_does_not_depend_on_the_length_of_its_row(rng, columns):
    x = rng.uniform(-87, 88, (24, columns)).astype("f4")
    want = np.exp(x.astype("f8"))
    got = native(jnp.exp, x)
    assert (np.abs(got - want) <= np.spacing(want.astype("f4"))).all()
    np.testing.assert_array_equal(
        got, native(jnp.exp, np.resize(x, (1, 1024)))[0, : x.size].reshape(x.shape)
    )


def test_exponentials_under_a_condition_are_those_of_the_elements_it_holds_for(rng):
    x = rng.normal(size=(8, 40)).astype("f4")

    def kernel(x, out):
        out[...] = jnp.zeros(out.shape, "f4")

        @pl.loop(0, 8)
        def _(i):
            @pl.when(x[i, 0] > 0)
            def _():
                pl.store(out, (i,), jnp.exp(x[i]), mask=x[i] < 1)

    got = np.asarray(pl.pallas_call(kernel, weft.ShapeDtypeStruct(x.shape, "f4"))(x))
    want = np.where((x[:, :1] > 0) & (x < 1), np.exp(x), 0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


SPECIAL = [
    [1.0, -2.0, 3.0],
    [-1.0, -2.0, -3.0],
    [0.0, -0.0, -1.0],
    [-0.0, -0.0, -1.0],
    [1.0, 0.0, -0.0],
    [np.inf, 1.0, -np.inf],
    [-np.inf, -np.inf, -np.inf],
    [np.inf, np.inf, np.inf],
    [np.nan, 1.0, -1.0],
    [-np.nan, 1.0, -1.0],
    [-np.nan, -3.0, -1.0],
    [np.nan, np.inf, -np.inf],
    [-np.nan, -np.inf, -np.inf],
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("copies", [1, 11])
def test_extrema_of_rows_heed_nan_of_either_sign_and_the_sign_of_zero(name, dtype, copies):
    with weft.enable_x64(dtype == "float64"):
        x = np.tile(np.array(SPECIAL, dtype), (1, copies))
        got = native(lambda x: getattr(jnp, name)(x, axis=1), x, (len(x),))
    want = getattr(np, name)(x, axis=1)
    np.testing.assert_array_equal(got, want)
    for row, value in zip(x, got, strict=True):
        if value == 0:
            signs = np.signbit(row[row == 0])
            assert np.signbit(value) == (signs.all() if name == "max" else signs.any())

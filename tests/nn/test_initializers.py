"""Initializers: shapes, dtypes, moments, fans and orthogonality."""

import numpy as np
import pytest

import weft
from weft.nn import initializers as init

KEY = weft.random.key(3)
SHAPE = (60, 80)

# name → (initializer, its standard deviation for SHAPE)
SPREADS = {
    "uniform": (init.uniform(0.6), 0.6 / 12**0.5),
    "normal": (init.normal(0.2), 0.2),
    "truncated_normal": (init.truncated_normal(0.2), 0.2 * 0.87962566),
    "lecun_normal": (init.lecun_normal(), (1 / 60) ** 0.5),
    "lecun_uniform": (init.lecun_uniform(), (1 / 60) ** 0.5),
    "glorot_normal": (init.glorot_normal(), (1 / 70) ** 0.5),
    "xavier_uniform": (init.xavier_uniform(), (1 / 70) ** 0.5),
    "he_normal": (init.he_normal(), (2 / 60) ** 0.5),
    "kaiming_uniform": (init.kaiming_uniform(), (2 / 60) ** 0.5),
    "fan_out": (init.variance_scaling(3.0, "fan_out", "normal"), (3 / 80) ** 0.5),
    "fan_geo_avg": (
        init.variance_scaling(1.0, "fan_geo_avg", "normal"),
        (60 * 80) ** -0.25,
    ),
}


@pytest.mark.parametrize("name", SPREADS)
def test_numbers_have_the_spread_of_the_formula(name):
    fun, spread = SPREADS[name]
    x = np.asarray(fun(KEY, SHAPE))
    assert x.shape == SHAPE and x.dtype == np.float32
    np.testing.assert_allclose(x.std(), spread, rtol=0.05)
    if name != "uniform":
        assert abs(x.mean()) < 0.1 * spread


def test_uniform_starts_at_zero_and_truncated_stays_within():
    x = np.asarray(init.uniform(0.6)(KEY, SHAPE))
    assert 0 <= x.min() < 0.01 and 0.59 < x.max() < 0.6
    y = np.asarray(init.truncated_normal(1.0, lower=-1.0, upper=0.5)(KEY, SHAPE))
    assert y.min() >= -1 and y.max() <= 0.5


def test_a_receptive_field_counts_in_both_fans():
    x = np.asarray(init.lecun_normal()(KEY, (3, 3, 20, 50)))
    np.testing.assert_allclose(x.std(), (1 / (9 * 20)) ** 0.5, rtol=0.05)
    y = np.asarray(init.lecun_normal(in_axis=-1, out_axis=0, batch_axis=1)(KEY, (50, 9, 20)))
    np.testing.assert_allclose(y.std(), (1 / 20) ** 0.5, rtol=0.05)


@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_complex_numbers_have_the_variance_too(distribution):
    fun = init.variance_scaling(1.0, "fan_in", distribution, dtype=np.complex64)
    x = np.asarray(fun(KEY, SHAPE))
    assert x.dtype == np.complex64
    np.testing.assert_allclose((np.abs(x) ** 2).mean(), 1 / 60, rtol=0.06)


def test_constants():
    np.testing.assert_array_equal(init.zeros(None, (2, 3)), np.zeros((2, 3)))
    np.testing.assert_array_equal(init.ones(None, (2,), np.int32), np.ones(2, np.int32))
    got = init.constant(np.float32([1, 2]))(None, (3, 2))
    np.testing.assert_array_equal(got, [[1, 2]] * 3)


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 3, 4)])
def test_orthogonal_matrices_have_orthonormal_rows_or_columns(shape):
    q = np.asarray(init.orthogonal(2.0)(KEY, shape)).reshape(-1, shape[-1])
    small = q.T @ q if q.shape[0] >= q.shape[1] else q @ q.T
    np.testing.assert_allclose(small, 4 * np.eye(min(q.shape)), atol=1e-5)


def test_delta_orthogonal_kernels_keep_norms():
    kernel = np.asarray(init.delta_orthogonal()(KEY, (3, 3, 4, 6)))
    assert (kernel[[0, 2]] == 0).all() and (kernel[:, [0, 2]] == 0).all()
    np.testing.assert_allclose(kernel[1, 1] @ kernel[1, 1].T, np.eye(4), atol=1e-5)


def test_initializers_take_dtypes_and_shardings():
    mesh = weft.make_mesh((8,), ("x",))
    rows = weft.NamedSharding(mesh, weft.P("x"))
    for fun in (init.normal(), init.lecun_uniform(), init.zeros):
        x = fun(KEY, (16, 2), np.float16, out_sharding=rows)
        assert x.dtype == np.float16
        assert x.sharding.is_equivalent_to(rows, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: init.lecun_normal()(KEY, (3,)), "at least 2 dimensions"),
        (lambda: init.variance_scaling(1.0, "fan", "normal"), "mode must be one of"),
        (lambda: init.variance_scaling(1.0, "fan_in", "cauchy"), "distribution must be"),
        (lambda: init.orthogonal()(KEY, (3,)), "at least 2 dimensions"),
        (lambda: init.delta_orthogonal()(KEY, (3, 3, 6, 4)), "as many outputs"),
        (lambda: init.delta_orthogonal()(KEY, (3, 3)), "3, 4 or 5 dimensions"),
    ],
)
def test_errors_say_what_is_needed(call, words):
    with pytest.raises(ValueError, match=words):
        call()

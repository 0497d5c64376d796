"""Sorts by native kernels, or by XLA where these are off, against stable sorts of NumPy."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.native import calls

SHAPES = [(20000,), (3, 17000), (700, 3), (9, 1000)]
DTYPES = ["float32", "float16", "bfloat16", "int8", "int16", "int32", "uint8", "uint16", "uint32"]


def values(rng, shape, dtype):
    """Few distinct values and many; of floats also NaNs, infinities and zeros of both signs."""
    x = rng.standard_normal(shape) * 100
    if dtype.startswith("u"):
        x = np.abs(x)
    x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if "float" in dtype:
        for k, special in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
            x.flat[k::17] = special
    return x


def stable_order(x):
    """Indices that sort the last dimension, NaNs last."""
    wide = x.astype(np.float64) if x.dtype.kind in "fV" else x.astype(np.int64)
    return np.argsort(wide, axis=-1, kind="stable")


def bits(x):
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_order_are_those_of_a_stable_sort(shape, dtype, rng):
    x = values(rng, shape, dtype)
    order = stable_order(x)
    expected = np.take_along_axis(x, order, -1)
    np.testing.assert_array_equal(bits(wnp.sort(x)), bits(expected))
    np.testing.assert_array_equal(wnp.argsort(x), order)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_64_bit_values_are_sorted(dtype, rng):
    with options["enable_x64"](True):
        x = (rng.standard_normal(20000) * 2.0**40).astype("int64").astype(dtype)
        np.testing.assert_array_equal(wnp.sort(x), np.sort(x))
        np.testing.assert_array_equal(wnp.argsort(x), np.argsort(x, kind="stable"))


def test_other_dimensions_are_sorted(rng):
    x = rng.standard_normal((30, 20, 10)).astype(np.float32)
    for axis in range(3):
        np.testing.assert_array_equal(wnp.sort(x, axis=axis), np.sort(x, axis=axis))
        np.testing.assert_array_equal(wnp.argsort(x, axis=axis), np.argsort(x, axis=axis))


@pytest.mark.parametrize("shape", [(3000,), (20000,), (5, 400)], ids=str)
def test_several_keys_matter_in_their_order(shape, rng):
    last = rng.integers(0, 5, shape).astype(np.int32)
    first = rng.integers(0, 3, shape).astype(np.float32)
    payload = rng.standard_normal(shape).astype(np.float32) + 1j
    outs = weft.lax.sort((first, last, payload.astype(np.complex64)), num_keys=2)
    order = np.lexsort((last, first), axis=-1)
    for out, x in zip(outs, (first, last, payload), strict=True):
        np.testing.assert_allclose(out, np.take_along_axis(x, order, -1), rtol=1e-6)


@pytest.mark.parametrize("x", [np.zeros(2000, np.float32), np.arange(20000)[::-1].astype(np.int32)])
def test_equal_and_reversed_values_are_sorted(x):
    np.testing.assert_array_equal(wnp.sort(x), np.sort(x))
    np.testing.assert_array_equal(wnp.argsort(x), np.argsort(x, kind="stable"))


def test_derivatives_batches_and_shards_are_those_of_any_sort(rng):
    x = rng.standard_normal((16, 400)).astype(np.float32)
    weights = np.arange(400, dtype=np.float32)
    grad = weft.jit(weft.grad(lambda x: (wnp.sort(x) * weights).sum()))(x)
    np.testing.assert_array_equal(grad, np.argsort(np.argsort(x)))
    np.testing.assert_array_equal(weft.vmap(wnp.sort)(x), np.sort(x))
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        np.testing.assert_array_equal(weft.jit(lambda x: wnp.sort(x, axis=1))(placed), np.sort(x))


def hlo(x):
    return weft.jit(wnp.sort).lower(x).compile().as_text()


def test_kernels_are_called_where_they_pay_and_can_be_switched_off():
    large, small = np.zeros(5000, np.float32), np.zeros(50, np.float32)
    assert "weft_native_sort" in hlo(large)
    assert "weft_native" not in hlo(small)
    with options["native_ops"](False):
        assert "weft_native" not in hlo(large)


def test_without_a_compiler_of_kernels_xla_sorts(monkeypatch):
    monkeypatch.setattr(calls, "has_compiler", lambda: False)
    monkeypatch.setattr("weft.native.sorting.has_compiler", lambda: False)
    assert "weft_native" not in hlo(np.zeros(6000, np.float32))


def test_the_program_that_is_shown_has_no_calls_of_kernels():
    assert "custom_call" not in weft.jit(wnp.sort).lower(np.zeros(5000, np.float32)).as_text()

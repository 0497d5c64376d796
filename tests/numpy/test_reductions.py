"""Reductions in dtypes without infinities and of 64-bit whole numbers, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanargmax", "nanargmin"])
def test_nans_are_left_out_in_floats_without_infinities(name):
    x = np.array([np.nan, -3, 448, 2, np.nan, -448], ml_dtypes.float8_e4m3fn)
    assert float(getattr(wnp, name)(x)) == float(getattr(np, name)(x.astype(np.float32)))


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax", "ptp", "nanmin", "nanargmin"])
def test_extrema_of_unsigned_64_bit_numbers_are_numpys(name):
    x = np.array([2**64 - 1, 5, 2**63], np.uint64)
    with weft.enable_x64(True):
        assert int(getattr(wnp, name)(x)) == int(getattr(np, name)(x))


def test_ands_and_minima_of_unsigned_64_bit_numbers_start_from_all_bits():
    x = np.array([2**64 - 1, 2**63 + 5, 2**63 + 6], np.uint64)
    with weft.enable_x64(True):
        assert int(lax.reduce_and(wnp.asarray(x), (0,))) == 2**63 + 4
        np.testing.assert_array_equal(lax.cummin(wnp.asarray(x)), np.minimum.accumulate(x))
        full = wnp.full((2,), 2**64 - 1, np.uint64)
        np.testing.assert_array_equal(full, np.full((2,), 2**64 - 1, np.uint64))


def test_minmax_is_the_minimum_and_the_maximum():
    x = np.array([[3, 1, 2], [5, 5, 4]], np.int32)
    for got, want in zip(
        wnp.minmax(x, axis=1, initial=(2, 4), where=x > 1), ([2, 2], [4, 5]), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    assert [int(v) for v in wnp.minmax(x, initial=9)] == [1, 9]


def test_quantiles_are_of_the_arrays_dtype():
    x, q = np.float16([1, 2, 4]), np.float32([0.25, 0.5])
    for f in (wnp.quantile, wnp.nanquantile):
        got = f(x, q)
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, [1.5, 2])
        assert f(np.int32([1, 2]), np.float16(0.5)).dtype == np.float32


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_beyond_the_ends_are_those_of_the_ends(method):
    x = np.float32([[3, 1, 2], [5, 9, 7]])
    q = np.float32([-0.5, 0.5, 1 + 2e-7, np.nan])
    want = [[1, 2, 3, np.nan], [5, 7, 9, np.nan]]
    for f in (wnp.quantile, wnp.nanquantile):
        known = f(x, q, axis=1, method=method)
        traced = weft.jit(lambda x, q, f=f: f(x, q, axis=1, method=method))(x, q)
        np.testing.assert_array_equal(known, np.transpose(want))
        np.testing.assert_array_equal(traced, np.transpose(want))
    assert wnp.percentile(x, 100.01, method=method) == 9
    weighted = wnp.quantile(x, q, weights=x, method="inverted_cdf")
    np.testing.assert_array_equal(weighted, [1, 7, 9, np.nan])


def test_reductions_run_over_axes_of_vmap_by_name():
    x = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5

    def mapped(f):
        return np.asarray(weft.vmap(f, axis_name="b")(x))

    for name in ("sum", "max", "min", "mean", "var", "std"):
        function, expected = getattr(wnp, name), getattr(np, name)
        over_all = mapped(lambda row, f=function: f(row, axis=(0, "b")))
        np.testing.assert_allclose(over_all, np.full(3, expected(x)), rtol=1e-6)
        over_rows = mapped(lambda row, name=name: getattr(row, name)("b"))
        np.testing.assert_allclose(over_rows, np.tile(expected(x, 0), (3, 1)), rtol=1e-6)
    counted = mapped(lambda row: wnp.mean(row, axis=("b", 0), where=row > 3))
    np.testing.assert_allclose(counted, np.full(3, x[x > 3].mean()), rtol=1e-6)
    spread = mapped(lambda row: wnp.var(row, axis="b", ddof=1))
    np.testing.assert_allclose(spread[0], x.var(0, ddof=1), rtol=1e-6)
    started = mapped(lambda row: wnp.sum(row, "b", initial=1.0))
    np.testing.assert_allclose(started[0], x.sum(0) + 1, rtol=1e-6)
    with pytest.raises(NameError, match="axis name 'q' is not bound"):
        mapped(lambda row: wnp.sum(row, "q"))
    with pytest.raises(TypeError, match="axis must be an integer, got 'b'"):
        mapped(lambda row: wnp.prod(row, "b"))

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

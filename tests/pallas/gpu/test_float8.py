"""Narrow floats on the GPU: converted exactly, computed in float32."""

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.pallas.test_gpu import elementwise, normal

np_ = weft.numpy


def test_floats_of_8_bits_are_put_together_and_taken_apart_exactly():
    every = np.arange(256, dtype=np.uint8)
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        x = every.view(kind)
        got = elementwise(lambda x: x.astype("float32"), x, out=x.astype(np.float32))
        np.testing.assert_array_equal(got, x.astype(np.float32))
        numbers = np.concatenate(
            [x[np.isfinite(x.astype(np.float32))].astype(np.float32) * f for f in (1, 1.03125, 1.1)]
            + [np.float32([464, 464.01, 480, -500, 61439, 61440, 1e9, np.inf, -np.inf, np.nan])]
            + [np.float32([2.0**-10, 2.0**-9 * 1.5, -(2.0**-17), 2.0**-7 * 0.999, 1e-30])]
        )
        got = elementwise(lambda x, kind=kind: x.astype(kind), numbers, out=numbers.astype(kind))
        np.testing.assert_array_equal(
            got.astype(np.float32), numbers.astype(kind).astype(np.float32)
        )


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_narrow_floats_are_computed_in_float32_and_rounded(dtype):
    dtype = np_.dtype(dtype)
    x, y = normal(5, 12).astype(dtype), (np.abs(normal(5, 12)) + 0.5).astype(dtype)
    wide = [v.astype(np.float32) for v in (x, y)]
    for function in (np.add, np.multiply, np.divide, np.fmod, np.maximum):
        name = function.__name__
        want = function(*wide).astype(dtype)
        got = elementwise(getattr(np_, name), x, y, out=want)
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32), name)
    order = elementwise(lambda x: np_.argmax(x, 1), x, out=np.argmax(wide[0], 1).astype(np.int32))
    np.testing.assert_array_equal(order, np.argmax(wide[0], 1))
    got = elementwise(lambda x: np_.sort(x, 1), x, out=x)
    np.testing.assert_array_equal(got.astype(np.float32), np.sort(wide[0], 1))

"""Convolutions by parts that floats can do: exact for integers, equal for complex numbers."""

import numpy as np
import pytest

import weft
from tests.gpu_machine import compiled, mesh_of, placed
from weft import lax
from weft.ops import conv_decompose


def convolve(x, y):
    return lax.conv_general_dilated(x, y, (1,), [(1, 2)])


def reference(x, y):
    """Every product by Python's own numbers, added up and cut to the dtype."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2))).astype(object)
    n, width = padded.shape[2] - y.shape[2] + 1, y.shape[2]
    out = np.zeros((x.shape[0], y.shape[0], n), object)
    for at in range(n):
        window = padded[:, :, at : at + width]
        out[:, :, at] = (window[:, None] * y.astype(object)).sum((2, 3))
    return out


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_exact_and_wrap(dtype, rng):
    with weft.enable_x64(True):
        info = np.iinfo(dtype)
        x, y = (
            rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            for shape in ((2, 3, 7), (4, 3, 3))
        )
        got = weft.jit(lambda x, y: conv_decompose.of_integers(convolve, x, y, np.dtype(dtype)))(
            x, y
        )
    bits = info.bits
    wrapped = reference(x, y) % 2**bits
    expected = np.where(wrapped > info.max, wrapped - 2**bits, wrapped).astype(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected)


def test_small_integers_sum_in_wide_ones(rng):
    x, y = (rng.integers(-128, 128, s, np.int8) for s in ((2, 3, 7), (4, 3, 3)))
    got = weft.jit(lambda x, y: conv_decompose.of_integers(convolve, x, y, np.dtype(np.int32)))(
        x, y
    )
    np.testing.assert_array_equal(got, reference(x, y).astype(np.int32))


def test_complex_numbers_are_four_convolutions(rng):
    x, y = (
        (rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64)
        for s in ((2, 3, 7), (4, 3, 3))
    )
    got = weft.jit(lambda x, y: conv_decompose.of_complex(convolve, x, y))(x, y)
    np.testing.assert_allclose(got, reference(x, y).astype(np.complex64), rtol=1e-5, atol=1e-5)


@pytest.mark.accelerators
@pytest.mark.parametrize("dtype", ["int8", "int32", "complex64"])
def test_convolutions_that_gpus_lack_compile_there(dtype):
    x, y = (placed((s, np.dtype(dtype)), mesh_of("h100:1")) for s in ((2, 3, 7), (4, 3, 3)))
    program = compiled(convolve, x, y)
    assert program.out_info.shape == (2, 4, 8) and program.out_info.dtype == dtype

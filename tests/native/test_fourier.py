"""Long Fourier transforms by native kernels, against NumPy's in twice the precision."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options

SHAPES = [(1 << 16,), (1 << 17,), (3, 1 << 16), (2, 1 << 19)]


def numbers(rng, shape):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def close(found, expected):
    """To some units of the last place of the greatest element."""
    assert np.abs(np.asarray(found) - expected).max() < 1e-6 * np.abs(expected).max()


def hlo(function, x):
    return weft.jit(function).lower(x).compile().as_text()


@pytest.mark.parametrize("name", ["fft", "ifft"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_long_rows_are_transformed_there_and_back(shape, name, rng):
    x = numbers(rng, shape)
    function = getattr(wnp.fft, name)
    assert "weft_native_fourier" in hlo(function, x)
    close(weft.jit(function)(x), getattr(np.fft, name)(x.astype(np.complex128)))


def test_single_frequencies_have_single_coefficients():
    n = 1 << 16
    for frequency in (0, 1, 255, 256, 40_000, n - 1):
        expected = np.zeros(n)
        expected[frequency] = n
        wave = np.exp(2j * np.pi * (frequency * np.arange(n) % n) / n).astype(np.complex64)
        assert np.abs(weft.jit(wnp.fft.fft)(wave) - expected).max() < 1e-6 * n


@pytest.mark.parametrize("shape", [(1000, 64), (60_000,), (1 << 15,), (1 << 12, 4)], ids=str)
def test_other_lengths_are_left_to_xla(shape, rng):
    x = numbers(rng, shape)
    assert "weft_native" not in hlo(wnp.fft.fft, x)
    close(weft.jit(wnp.fft.fft)(x), np.fft.fft(x.astype(np.complex128)))


def test_derivatives_batches_and_shards_are_those_of_any_transform(rng):
    x = numbers(rng, (8, 1 << 16))
    wide = x.astype(np.complex128)
    expected = np.fft.fft(wide)
    close(weft.vmap(wnp.fft.fft)(x), expected)
    power = weft.jit(weft.grad(lambda x: (wnp.abs(wnp.fft.fft(x)) ** 2).sum()))(x)
    close(power, 2 * (1 << 16) * wide.conj())
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        close(weft.jit(wnp.fft.fft)(placed), expected)


def test_kernels_can_be_switched_off(rng):
    with options["native_ops"](False):
        assert "weft_native" not in hlo(wnp.fft.fft, numbers(rng, (1 << 16,)))

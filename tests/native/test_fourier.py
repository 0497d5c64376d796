"""Fourier transforms by native kernels, against NumPy's in twice the precision."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.lowering.limits import ROW_TRANSFORMS
from weft.native import fourier

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


ROWS = [(80, 128), (500, 20), (77, 120), (100, 1000), (9, 16, 250), (16, 4096), (3, 16, 27, 30)]


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_rows_and_columns_are_transformed_side_by_side(shape, rng):
    x = numbers(rng, shape)
    for name in ("fft", "ifft", "fft2", "ifft2", "rfft", "rfft2", "irfft", "irfft2"):
        given = x.real if name.startswith("r") else x
        if name.startswith("i") and "r" in name:
            given = x[..., : shape[-1] // 2 + 1]
        expected = getattr(np.fft, name)(given.astype(np.complex128 if name[0] != "r" else float))
        close(weft.jit(getattr(wnp.fft, name))(given), expected)
        if name in ("fft", "rfft", "irfft"):
            assert "weft_native_fourier" in hlo(getattr(wnp.fft, name), given)


def test_imaginary_parts_of_real_coefficients_do_not_count(rng):
    x = numbers(rng, (64, 129))
    real = x.copy()
    real.imag[:, [0, -1]] = 0
    expected = np.fft.irfft(real.astype(np.complex128))
    close(weft.jit(wnp.fft.irfft)(x), expected)


def test_every_length_is_cut_into_rows_that_fit_the_memory_of_a_line():
    for n in range(1, ROW_TRANSFORMS + 1):
        if fourier._is_smooth(n):
            rows = fourier._rows(n)
            assert n % rows == 0 and rows <= n // rows <= 256


@pytest.mark.parametrize(
    "shape", [(1000, 7), (60_000,), (1 << 15,), (4, 1 << 12), (3000, 2)], ids=str
)
def test_other_lengths_are_left_to_xla(shape, rng):
    x = numbers(rng, shape)
    for name in ("fft", "rfft") if shape[-1] != 2 else ("rfft",):
        given = x.real if name == "rfft" else x
        assert "weft_native" not in hlo(getattr(wnp.fft, name), given)
    close(weft.jit(wnp.fft.fft)(x), np.fft.fft(x.astype(np.complex128)))


def test_derivatives_batches_and_shards_are_those_of_any_transform(rng):
    x = numbers(rng, (8, 1 << 16))
    wide = x.astype(np.complex128)
    expected = np.fft.fft(wide)
    close(weft.vmap(wnp.fft.fft)(x), expected)
    rows = numbers(rng, (16, 8, 64))
    close(weft.vmap(wnp.fft.ifft, in_axes=1, out_axes=1)(rows), np.fft.ifft(rows))
    waves = rows.real
    energy = weft.jit(weft.grad(lambda x: (wnp.abs(wnp.fft.rfft(x)) ** 2).sum()))(waves)
    halves = np.fft.rfft(waves)
    whole = np.concatenate([halves, np.zeros((16, 8, 31))], axis=-1)
    close(energy, 2 * np.fft.fft(whole.conj()).real)
    power = weft.jit(weft.grad(lambda x: (wnp.abs(wnp.fft.fft(x)) ** 2).sum()))(x)
    close(power, 2 * (1 << 16) * wide.conj())
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        close(weft.jit(wnp.fft.fft)(placed), expected)


def test_kernels_can_be_switched_off(rng):
    with options["native_ops"](False):
        assert "weft_native" not in hlo(wnp.fft.fft, numbers(rng, (1 << 16,)))

"""Fourier transforms against NumPy's."""

import numpy as np
import pytest

from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(8)
REAL = R.standard_normal((2, 3, 6))
COMPLEX = REAL + 1j * R.standard_normal((2, 3, 6))


def case(kind, ref, x, lengths, name):
    return Case("fft", lambda x: lax.fft(x, kind, lengths), ref, (x,), (0,), f"{kind} {name}")


AXES = (-2, -1)
CASES = [
    case("FFT", np.fft.fft, COMPLEX, (6,), "1d"),
    case("IFFT", lambda x: np.fft.ifft2(x), COMPLEX, (3, 6), "2d"),
    case("RFFT", np.fft.rfft, REAL, (6,), "even"),
    case("RFFT", lambda x: np.fft.rfftn(x), REAL[..., :5], (2, 3, 5), "3d odd"),
    case("IRFFT", lambda x: np.fft.irfft(x, 6), COMPLEX[..., :4], (6,), "even"),
    case("IRFFT", lambda x: np.fft.irfft2(x, (3, 7)), COMPLEX[..., :4], (3, 7), "2d odd"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_reals_become_complex_and_kinds_have_numbers():
    x = REAL.astype(np.float32)
    out = lax.fft(x, lax.FftType.FFT, (6,))
    assert out.dtype == np.complex64
    np.testing.assert_allclose(out, np.fft.fft(x), atol=1e-4)
    assert lax.fft(x, 2, (6,)).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lax.fft(COMPLEX, "RFFT", (6,)), "takes a real operand"),
        (lambda: lax.fft(COMPLEX, "FFT", (5,)), r"must be \(5,\)"),
        (lambda: lax.fft(COMPLEX, "DCT", (6,)), "fft_type must be one of"),
        (lambda: lax.fft(COMPLEX, "FFT", ()), "1 to 3 entries"),
    ],
)
def test_errors_say_what_is_expected(call, words):
    with pytest.raises(ValueError, match=words):
        call()

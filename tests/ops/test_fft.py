"""Fourier transforms against NumPy's."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import P, lax
from weft.numpy import fft

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


def _power_gradient(x):
    """d/dx of sum |rfftn(x)|², by Parseval's theorem with the frequencies that rfftn leaves out."""
    half = np.fft.rfftn(x)
    full = np.zeros((*x.shape[:-1], x.shape[-1]), complex)
    full[..., : half.shape[-1]] = half
    return 2 * x.size * np.fft.ifftn(full).real


SPECTRAL = {
    "rows": (lambda x: fft.fft(x), np.fft.fft),
    "columns": (lambda x: fft.fft(x, axis=0), lambda x: np.fft.fft(x, axis=0)),
    "all": (lambda x: fft.fftn(x), np.fft.fftn),
    "real": (lambda x: fft.irfft2(fft.rfft2(x) * 2), lambda x: 2 * x),
    "turned": (
        lambda x: fft.fft(x.transpose(2, 0, 1)).transpose(1, 2, 0),
        lambda x: np.fft.fft(x, axis=1),
    ),
    "gradient": (
        weft.grad(lambda x: (abs(fft.rfftn(x)) ** 2).sum()),
        _power_gradient,
    ),
    "a loop": (
        lambda x: weft.lax.fori_loop(0, 2, lambda i, x: fft.ifft2(fft.fft2(x)).real, x),
        lambda x: x,
    ),
}


@pytest.mark.parametrize(
    "spec", [P("x", "y"), P(None, "x"), P("y", None, "x"), P(None, ("x", "y"))], ids=str
)
def test_spectral_programs_run_however_their_arrays_are_split(spec, rng):
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.sharding.AxisType.Auto,) * 2)
    x = rng.standard_normal((8, 16, 8)).astype(np.float32)
    split = weft.device_put(x, weft.NamedSharding(mesh, spec))
    outs = weft.jit(lambda x: {name: f(x) for name, (f, _) in SPECTRAL.items()})(split)
    alone = weft.jit(SPECTRAL["gradient"][0])(split)
    for name, (_, reference) in SPECTRAL.items():
        want = reference(x)
        np.testing.assert_allclose(outs[name], want, atol=1e-5 * abs(want).max(), err_msg=name)
    want = _power_gradient(x)
    np.testing.assert_allclose(alone, want, atol=1e-5 * abs(want).max())

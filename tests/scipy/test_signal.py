"""weft.scipy.signal, fft and ndimage against SciPy."""

import itertools

import numpy as np
import pytest
import scipy.fft as sf
import scipy.ndimage as sn
import scipy.signal as ss

import weft
from tests.ops.numerics import leaves
from weft.scipy import fft, ndimage, signal

_rng = np.random.default_rng(2)
LONG, SHORT = _rng.standard_normal(12), _rng.standard_normal(5)
A, B = _rng.standard_normal((7, 6)), _rng.standard_normal((3, 4))
S, T = _rng.standard_normal((2, 2, 70))
CONVOLVED = [(LONG, SHORT), (SHORT, LONG), (A, B), (LONG * 1j + 1, SHORT + 1j)]
IMAGES = [(A, B), (A[:, :3] + 1j, B[:2, :2] * 1j)]
POINTS = [_rng.uniform(-7, 12, 20), _rng.uniform(-7, 12, 20)]
SEGMENTS = [
    {"nperseg": 16},
    {"nperseg": 15, "noverlap": 4, "nfft": 20, "window": "hamming"},
    {"nperseg": 16, "noverlap": 12, "window": np.hanning(16), "fs": 10.0},
]


def times(*choices, **named):
    """Every choice of keywords."""
    rows = [dict(zip(named, row, strict=True)) for row in itertools.product(*named.values())]
    return [(*c, row) for c in itertools.product(*choices) for row in rows]


# (function, operands of each call, keywords of each call)
GROUPS = {
    **{
        name: (getattr(fft, name), getattr(sf, name), times(
            [A[:5]], type=(1, 2, 3, 4), norm=(None, "ortho", "forward"), n=(None, 4, 9),
            axis=(0,)))
        for name in ("dct", "idct")
    },
    "dctn": (fft.dctn, sf.dctn, [(A, {"s": (4, 8)}), (A, {"axes": [1], "norm": "ortho"})]),
    "idctn": (fft.idctn, sf.idctn, [(A, {"s": (4, 8)}), (A, {"axes": [1], "norm": "ortho"})]),
    **{
        name: (getattr(signal, name), getattr(ss, name), [
            (*pair, {"mode": mode, "method": method})
            for pair in CONVOLVED for mode in ("full", "same", "valid")
            for method in ("direct", "fft")])
        for name in ("convolve", "correlate")
    },
    **{
        name: (getattr(signal, name), getattr(ss, name), [
            (*pair, {"mode": mode, "boundary": b, "fillvalue": fill})
            for pair in IMAGES for mode in ("full", "same", "valid")
            for b, fill in (("fill", 0), ("fill", 2), ("wrap", 0), ("symm", 0))])
        for name in ("convolve2d", "correlate2d")
    },
    "fftconvolve": (signal.fftconvolve, ss.fftconvolve, [(A, A[:3], {"axes": 0}), (A, B, {})]),
    "detrend": (signal.detrend, ss.detrend, [
        *times([A], axis=(0, -1), type=("linear", "constant")), (LONG, {"bp": [4, 9]})]),
    "welch": (signal.welch, ss.welch, [
        *[(S, kw | extra) for kw in SEGMENTS for extra in (
            {}, {"scaling": "spectrum", "detrend": False},
            {"average": "median", "detrend": "linear", "return_onesided": False})],
        (S.T, {"nperseg": 16, "axis": 0})]),
    "csd": (signal.csd, ss.csd, [
        (S, T, kw | {"average": a}) for kw in SEGMENTS for a in ("mean", "median")]),
    "stft": (signal.stft, ss.stft, [
        *[(S, kw | extra) for kw in SEGMENTS for extra in (
            {}, {"boundary": None, "return_onesided": False}, {"boundary": "even"},
            {"boundary": "odd", "detrend": "constant"}, {"padded": False})],
        (S.T, {"nperseg": 16, "axis": 0})]),
    "istft": (signal.istft, ss.istft, [(ss.stft(S[0], **kw)[2], kw) for kw in SEGMENTS]),
    "map_coordinates": (ndimage.map_coordinates, sn.map_coordinates, [
        (A, POINTS, {"order": o, "mode": m, "cval": 3.0}) for o in (0, 1)
        for m in ("constant", "nearest", "mirror", "reflect", "wrap")]),
}  # fmt: skip

# SciPy's other names for what JAX means by them.
SCIPY_MODES = {"constant": "grid-constant", "wrap": "grid-wrap"}


@pytest.mark.parametrize("name", GROUPS)
def test_results_are_scipys(name):
    ours, theirs, calls = GROUPS[name]
    with weft.enable_x64(True):
        run = weft.jit(lambda rows: [ours(*r, **kw) for r, (*_, kw) in zip(rows, calls)])  # noqa: B905
        results = run([list(operands) for *operands, _ in calls])
    for (*operands, kw), got in zip(calls, results, strict=True):
        if name == "map_coordinates":
            kw = kw | {"mode": SCIPY_MODES.get(kw["mode"], kw["mode"])}
        for g, w in zip(leaves(got), leaves(theirs(*operands, **kw)), strict=True):
            np.testing.assert_allclose(g, w, atol=1e-11, err_msg=f"{name} {kw}")


def test_inverses_give_back_what_they_had():
    x = A.astype(np.float32)
    for kind in (1, 2, 3, 4):
        np.testing.assert_allclose(fft.idct(fft.dct(x, kind), kind), x, atol=1e-5)
    np.testing.assert_allclose(fft.idctn(fft.dctn(x)), x, atol=1e-5)
    wave = S.astype(np.float32)
    back = signal.istft(signal.stft(wave, nperseg=16)[2], nperseg=16)[1]
    np.testing.assert_allclose(back[:, :70], wave, atol=1e-5)


def test_derivatives_of_linear_functions_are_their_transposes():
    with weft.enable_x64(True):
        for fun, x in (
            (lambda v: fft.dct(v, norm="ortho"), LONG),
            (lambda v: signal.convolve(v, SHORT), LONG),
            (lambda v: signal.stft(v, nperseg=4)[2], LONG),
            (lambda v: ndimage.map_coordinates(v, POINTS, 1), A),
        ):
            y, pull = weft.vjp(fun, x)
            ct = _rng.standard_normal(y.shape).astype(y.dtype)
            again = np.sum(np.asarray(fun(2 * x) - fun(x)) * ct).real
            assert np.sum(pull(ct)[0] * x) == pytest.approx(again, abs=1e-10)


def test_the_slope_at_a_position_is_that_of_the_line():
    slope = weft.grad(lambda c: ndimage.map_coordinates(np.float32([1, 5, 2]), [c], 1)[0])
    assert np.asarray(slope(np.float32([0.5]))).tolist() == [4.0]


def test_integers_are_rounded():
    got = ndimage.map_coordinates(np.array([0, 10, 3]), [np.array([0.26, 1.5])], 1)
    assert np.asarray(got).tolist() == [3, 6] and got.dtype == "int32"


def test_batches_of_signals_stay_sharded():
    mesh = weft.make_mesh((8,), ("x",))
    rows = weft.NamedSharding(mesh, weft.P("x"))
    x = weft.ShapeDtypeStruct((16, 64), "float32", sharding=rows)
    for call in (fft.dct, lambda v: signal.welch(v, nperseg=16), signal.detrend):
        assert weft.comm(call, x).counts() == {}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fft.dct(LONG, 5), ValueError, "type must be"),
        (lambda: fft.dct(LONG, norm="unit"), ValueError, "norm must be"),
        (lambda: fft.dct(LONG + 1j), ValueError, "real"),
        (lambda: fft.dctn(A, s=(3, 3), axes=(0,)), ValueError, "one length"),
        (lambda: signal.convolve(A, LONG), ValueError, "one rank"),
        (lambda: signal.convolve(A, B.T[:, :1], "middle"), ValueError, "mode must be"),
        (lambda: signal.convolve(A, np.ones((2, 9)), "valid"), ValueError, "at least as large"),
        (lambda: signal.convolve2d(LONG, LONG), ValueError, "two dimensions"),
        (lambda: signal.welch(S, window="kaiser"), ValueError, "window must be"),
        (lambda: signal.stft(S, nperseg=8, noverlap=8), ValueError, "less than nperseg"),
        (lambda: signal.stft(S, nperseg=8, nfft=4), ValueError, "at least nperseg"),
        (lambda: signal.detrend(LONG, bp=20), ValueError, "bp"),
        (lambda: ndimage.map_coordinates(A, POINTS, 3), NotImplementedError, "order must be"),
        (lambda: ndimage.map_coordinates(A, POINTS[:1], 1), ValueError, "dimensions"),
        (lambda: ndimage.map_coordinates(A, POINTS, 1, "edge"), ValueError, "mode must be"),
    ],
)
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()

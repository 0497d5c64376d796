"""Every case of the table under jit, vmap, jvp and vjp, by types alone: nothing is compiled."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as wnp

from .table import CASES, OPERANDS

SAVED = Path(__file__).parents[1] / "oracle" / "numpy_types.json"
ORACLE = json.loads(SAVED.read_text())["cases"]
ARRAYS = {name: wnp.asarray(value) for name, value in OPERANDS.items()}

# Cases whose results have a size that depends on values, and what they lack under jit.
NEEDS_VALUES = re.compile(
    r"xp\.(where\(b34\)|nonzero|flatnonzero|argwhere|compress|extract|unique|union1d|intersect1d"
    r"|setdiff1d|setxor1d|bincount|choose\(n34|repeat\(f34, n|sort\(xp\.abs\(xp\.roots)"
)
NO_DERIVATIVE = {"xp.sort(xp.linalg.eig(f33)[0].real)": "eigenvectors have no unique scale"}


def flat(x):
    return [a for part in x for a in flat(part)] if isinstance(x, list | tuple) else [x]


def program(text):
    """The case as a function of its operands, and these."""
    names = sorted(set(re.findall(r"(?<![\w.'])[a-z]\w*", text)) & set(OPERANDS))
    code = compile(text, text, "eval")

    def run(*args):
        scope = {"xp": wnp, **dict(zip(names, args, strict=True))}
        return [wnp.asarray(a) for a in flat(eval(code, scope))]

    return run, [ARRAYS[n] for n in names]


def is_inexact(x):
    return wnp.issubdtype(x.dtype, wnp.inexact)


TEXTS = [text for text, _ in CASES]
SIZED = [t for t in TEXTS if not NEEDS_VALUES.search(t) or re.search(r"\b(size|length)=", t)]


@pytest.mark.parametrize("text", SIZED)
def test_programs_of_tracers_have_the_types(text):
    run, args = program(text)
    types = weft.eval_shape(run, *args)
    if text in ORACLE:
        want = [(dtype, tuple(shape)) for dtype, _, shape in ORACLE[text]]
        assert [(str(a.dtype), a.shape) for a in types] == want
    if args:
        batch = weft.eval_shape(weft.vmap(run), *[wnp.stack([a, a]) for a in args])
        assert [a.shape for a in batch] == [(2, *a.shape) for a in types]


@pytest.mark.parametrize("text", [t for t in SIZED if t not in NO_DERIVATIVE])
def test_derivatives_have_the_types_of_what_they_belong_to(text):
    run, args = program(text)
    chosen = [i for i, a in enumerate(args) if is_inexact(a)]

    def part(*xs):
        given = list(args)
        for i, x in zip(chosen, xs, strict=True):
            given[i] = x
        return [out for out in run(*given) if is_inexact(out)]

    def derivatives(*xs):
        ys, tangents = weft.jvp(part, xs, xs)
        return ys, tangents, weft.vjp(part, *xs)[1](ys)

    xs = [args[i] for i in chosen]
    if xs and weft.eval_shape(part, *xs):
        ys, tangents, cotangents = weft.eval_shape(derivatives, *xs)
        same = lambda a, b: [(v.shape, v.dtype) for v in a] == [(v.shape, v.dtype) for v in b]
        assert same(ys, tangents)
        assert same(xs, cotangents)


@pytest.mark.parametrize("text", [t for t in TEXTS if t not in SIZED])
def test_sizes_that_depend_on_values_name_what_is_missing(text):
    run, args = program(text)
    with pytest.raises(TypeError, match="must be known while tracing"):
        weft.eval_shape(run, *args)


@pytest.mark.parametrize("method", ["lu", "qr"])
@pytest.mark.parametrize("name", ["f33", "c33"])
def test_the_derivative_of_slogdet_is_the_trace_of_the_inverse_times_the_change(method, name, rng):
    a = OPERANDS[name]
    t = rng.standard_normal(a.shape).astype(a.dtype)
    run = lambda a: tuple(wnp.linalg.slogdet(a, method=method))
    (sign, log), (turn, change) = weft.jvp(run, (a,), (t,))
    want_sign, want_log = np.linalg.slogdet(a)
    trace = np.trace(np.linalg.solve(a, t))
    np.testing.assert_allclose(sign, want_sign, rtol=1e-4)
    np.testing.assert_allclose(log, want_log, rtol=1e-4)
    np.testing.assert_allclose(change, trace.real, rtol=1e-3)
    np.testing.assert_allclose(turn, want_sign * 1j * trace.imag, rtol=1e-3, atol=1e-5)


def test_a_ufunc_is_applied_at_indices_inside_shard_map():
    """The array may be the same on all devices while the values are not."""
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    index = np.array([1, 1, 2])

    def body(v):
        return wnp.logaddexp.at(wnp.ones(4), index, v[:3], inplace=False)

    x = np.arange(32, dtype=np.float32)
    got = weft.shard_map(body, mesh=mesh, in_specs=weft.P("d"), out_specs=weft.P("d"))(x)
    expected = np.ones((8, 4), np.float32)
    for row, values in zip(expected, x.reshape(8, 4), strict=True):
        np.logaddexp.at(row, index, values[:3])
    np.testing.assert_allclose(got, expected.ravel(), rtol=1e-6)


def test_half_floats_have_a_hermitian_spectrum():
    x = np.array([1.5, -0.5, 2.0, 0.25], np.float16)
    np.testing.assert_allclose(wnp.fft.hfft(x), np.fft.hfft(x.astype(np.float32)), rtol=1e-5)

"""One case of a table: a function of arrays beside SciPy's, and how to check it in one program."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import weft
from tests.ops.numerics import leaves


@dataclass(frozen=True)
class Case:
    """fun, of weft, and ref, of SciPy, on args; diff: the arguments it is differentiated in."""

    id: str
    fun: Callable
    ref: Callable
    args: tuple
    diff: tuple[int, ...] = ()
    rtol: float = 1e-11
    slope_rtol: float = 1e-6
    batch: bool = True
    step: float = 1e-6


def close(got, want, rtol, what):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        scale = np.abs(w[np.isfinite(w)]).max(initial=0) if w.size else 0
        assert g.shape == w.shape, what
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * scale, err_msg=what)


def check(case, rng):
    """Compare values, a batch and both derivatives, in float64, with SciPy and its differences."""
    with weft.enable_x64(True):
        chosen = [np.asarray(case.args[i]) for i in case.diff]
        direction = [rng.standard_normal(x.shape) for x in chosen]

        def along(*xs):
            args = list(case.args)
            for i, x in zip(case.diff, xs, strict=True):
                args[i] = x
            return args

        @weft.jit
        def run(args, chosen, direction, cotangents):
            value = case.fun(*args)
            batch = weft.vmap(case.fun)(*[np.stack([a, a]) for a in case.args])
            if not chosen:
                return value, batch if case.batch else None, None, None
            part = lambda *xs: case.fun(*along(*xs))
            tangent = weft.jvp(part, tuple(chosen), tuple(direction))[1]
            cotangent = weft.vjp(part, *chosen)[1](cotangents)
            return value, batch if case.batch else None, tangent, cotangent

        shapes = weft.eval_shape(case.fun, *case.args)
        cotangents = weft.tree.map(lambda s: rng.standard_normal(s.shape).astype(s.dtype), shapes)
        value, batch, tangent, cotangent = run(case.args, chosen, direction, cotangents)
        want = case.ref(*case.args)
        close(value, want, case.rtol, "value")
        if case.batch:
            close(batch, [np.stack([w, w]) for w in leaves(want)], case.rtol, "batch")
        if chosen:
            h, pairs = case.step, list(zip(chosen, direction, strict=True))
            up, down = (
                leaves(case.ref(*along(*[x + s * h * d for x, d in pairs]))) for s in (1, -1)
            )
            slopes = [(a - b) / (2 * h) for a, b in zip(up, down, strict=True)]
            close(tangent, slopes, case.slope_rtol, "jvp")
            products = zip(leaves(cotangents), leaves(tangent), strict=True)
            left = sum(np.sum(c * t).real for c, t in products)
            right = sum(
                np.sum(np.asarray(c) * d) for c, (_, d) in zip(cotangent, pairs, strict=True)
            )
            np.testing.assert_allclose(right, left, rtol=1e-8, atol=1e-8)


def check_narrow(case, rtol=1e-3):
    """In float32: values and dtypes."""
    narrow = {"f": np.float32, "c": np.complex64, "i": np.int32}
    args = [a.astype(narrow.get(a.dtype.kind, a.dtype)) for a in map(np.asarray, case.args)]
    wide = [a.astype(np.result_type(a, "d")) if a.dtype.kind in "fc" else a for a in args]
    for g, w in zip(leaves(weft.jit(case.fun)(*args)), leaves(case.ref(*wide)), strict=True):
        assert g.dtype in (np.float32, np.complex64, np.int32, bool)
        with np.errstate(over="ignore"):
            w = np.asarray(w).astype(g.dtype)
        scale = np.abs(w[np.isfinite(w)]).max(initial=0) if w.size else 0
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * min(1, scale))

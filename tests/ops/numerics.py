"""Checks of one op by numbers: values against NumPy, derivatives against differences, vmap.

Everything about a case is computed in few compiled functions: compiling is what these tests cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft
from weft.core.tree import flatten


@dataclass(frozen=True)
class Case:
    """One op on one set of operands.

    op: the primitive's name. fun: of arrays, through weft.lax. ref: the same by NumPy; None where
    another test has the values. args: NumPy arrays. diff: the arguments to differentiate, None if
    the op has no derivative. Tolerances hold for float64.
    """

    op: str
    fun: Callable
    ref: Callable | None
    args: tuple
    diff: tuple[int, ...] | None = ()
    name: str = ""
    rtol: float = 1e-10
    batch: bool = True
    order2: bool = True
    step: float = 1e-5
    derivative_tolerance: float = 2e-6
    extra: dict = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in flatten(tree)[0]]


def assert_close(got: Any, want: Any, rtol: float, what: str, atol: float | None = None) -> None:
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape, f"{what}: shape {g.shape}, expected {w.shape}"
        scale = np.abs(w[np.isfinite(w)]).max(initial=1.0) if w.size else 1.0
        np.testing.assert_allclose(
            g, w, rtol=rtol, atol=rtol * scale if atol is None else atol, err_msg=what
        )


def random_like(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    t = rng.standard_normal(x.shape)
    if np.iscomplexobj(x):
        t = t + 1j * rng.standard_normal(x.shape)
    return np.asarray(t).astype(x.dtype)


def check_value(case: Case) -> None:
    """The op's value equals the reference, eagerly and compiled."""
    want = case.ref(*case.args)
    got = weft.jit(case.fun)(*case.args)
    assert_close(got, want, case.rtol, "value")
    for g, w in zip(leaves(got), leaves(want), strict=True):
        assert g.dtype.kind == w.dtype.kind, f"dtype {g.dtype}, expected kind of {w.dtype}"


def check_batching(case: Case) -> None:
    """vmap over each operand and all of them, at several dims, equals a loop of the reference."""
    arrays = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]
    plans = [{i: 0} for i in arrays] + [dict.fromkeys(arrays, 0)]
    plans.append({i: np.ndim(case.args[i]) for i in arrays})
    if len(arrays) > 1:
        plans.append({i: (k % (np.ndim(case.args[i]) + 1)) for k, i in enumerate(arrays)})
    size = 2
    stacks, axes_of = [], []
    for plan in plans:
        examples = [[_vary(a, k) if i in plan else a for i, a in enumerate(case.args)] for k in range(size)]
        stacked = [
            np.stack([e[i] for e in examples], plan[i]) if i in plan else a
            for i, a in enumerate(case.args)
        ]
        stacks.append((stacked, examples))
        axes_of.append(tuple(plan.get(i) for i in range(len(case.args))))

    @weft.jit
    def run(inputs):
        return [
            weft.vmap(case.fun, in_axes=axes)(*args)
            for axes, args in zip(axes_of, inputs, strict=True)
        ]

    outs = run([s for s, _ in stacks])
    ref = case.ref or case.fun
    for out, (_, examples), axes in zip(outs, stacks, axes_of, strict=True):
        wants = [leaves(ref(*e)) for e in examples]
        want = [np.stack(column) for column in zip(*wants, strict=True)]
        assert_close(out, want, case.rtol * 10, f"vmap with in_axes {axes}")


def _vary(a: np.ndarray, k: int) -> np.ndarray:
    """Another example of the same kind: the elements in another order."""
    if a.ndim == 0:
        return a
    return np.roll(a, k, axis=tuple(range(a.ndim)))


def check_derivatives(case: Case, rng: np.random.Generator) -> None:
    """Forward and reverse derivatives of first and second order agree with differences."""
    base = list(case.args)
    x = [np.asarray(base[i]) for i in case.diff]

    def f(*xs):
        args = list(base)
        for i, v in zip(case.diff, xs, strict=True):
            args[i] = v
        return [o for o in flatten(case.fun(*args))[0] if _inexact(o)]

    t = [random_like(v, rng) for v in x]
    shapes = weft.eval_shape(f, *x)
    cts = [random_like(np.zeros(s.shape, s.dtype), rng) for s in shapes]

    def both(*xs):
        y, tangent = weft.jvp(f, xs, tuple(t))
        _, pull = weft.vjp(f, *xs)
        return y, tangent, list(pull(list(cts)))

    direction = [random_like(v, rng) for v in x]
    compiled = weft.jit(both)
    y, tangent, cotangent = compiled(*x)
    h = case.step
    up = compiled(*[a + h * d for a, d in zip(x, direction, strict=True)])
    down = compiled(*[a - h * d for a, d in zip(x, direction, strict=True)])
    quotient = [(np.asarray(a) - np.asarray(b)) / (2 * h) for a, b in zip(leaves(up), leaves(down), strict=True)]
    n = len(y)
    dot_ct = sum(np.sum(c * np.asarray(v)) for c, v in zip(cts, tangent, strict=True))
    dot_t = sum(np.sum(np.asarray(c) * v) for c, v in zip(cotangent, t, strict=True))
    scale = 1 + sum(np.sum(np.abs(c) * np.abs(np.asarray(v))) for c, v in zip(cts, tangent, strict=True))
    # Cotangents of complex values pair bilinearly; real parts are what both sides share.
    np.testing.assert_allclose(
        np.real(dot_ct), np.real(dot_t), rtol=0, atol=1e-9 * scale, err_msg="vjp against jvp"
    )
    first = weft.jit(lambda *xs: weft.jvp(f, xs, tuple(direction))[1])(*x)
    tol = case.derivative_tolerance
    assert_close(first, quotient[:n], tol, "jvp against differences")
    if not case.order2:
        return

    @weft.jit
    def second(*xs):
        _, (_, jj, jv) = weft.jvp(both, xs, tuple(direction))

        def paired(*vs):
            _, pull = weft.vjp(f, *vs)
            return sum(
                weft.lax.reduce_sum(weft.lax.real(c * s) if np.iscomplexobj(s) else c * s, tuple(range(s.ndim)))
                for c, s in zip(pull(list(cts)), t, strict=True)
            )

        return jj, jv, weft.grad(paired, argnums=tuple(range(len(xs))))(*xs)

    forward, reverse, twice = second(*x)
    assert_close(forward, quotient[n : 2 * n], tol * 10, "forward over forward")
    assert_close(reverse, quotient[2 * n :], tol * 10, "forward over reverse")
    left = sum(np.sum(np.asarray(g) * d) for g, d in zip(twice, direction, strict=True))
    right = sum(np.sum(np.asarray(r) * s) for r, s in zip(reverse, t, strict=True))
    size = 1 + sum(np.sum(np.abs(np.asarray(g) * d)) for g, d in zip(twice, direction, strict=True))
    np.testing.assert_allclose(
        np.real(left), np.real(right), rtol=0, atol=1e-8 * size, err_msg="reverse over reverse"
    )


def _inexact(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "fc"


def check(case: Case, rng: np.random.Generator) -> None:
    """All of the above, in float64."""
    with weft.enable_x64(True):
        if case.ref is not None:
            check_value(case)
        if case.batch:
            check_batching(case)
        if case.diff:
            check_derivatives(case, rng)


def check_all(cases: Sequence[Case]) -> None:
    names = [c.id for c in cases]
    assert len(names) == len(set(names)), "two cases have one name"

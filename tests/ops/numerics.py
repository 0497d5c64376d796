"""Checks of one op by numbers: values against NumPy, derivatives against differences, vmap.

Everything about a case is computed in few compiled functions: compiling is what these tests cost.
"""

from collections.abc import Callable
from dataclasses import dataclass
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


def check_values(case: Case) -> None:
    """The op, and vmap over each operand and all of them at several dims, equal the reference."""
    plans: list[dict[int, int]] = [{}] if case.ref is not None else []
    if case.batch:
        arrays = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]
        plans += [{i: 0} for i in arrays] + [{i: np.ndim(case.args[i]) for i in arrays}]
        if len(arrays) > 1:
            plans.append(dict.fromkeys(arrays, 0))
            plans.append({i: k % (np.ndim(case.args[i]) + 1) for k, i in enumerate(arrays)})
    if not plans:
        return
    inputs, wants, axes_of = [], [], []
    # Without a reference, one example at a time stands for it: its values are tested elsewhere.
    ref = case.ref or weft.jit(case.fun)
    for plan in plans:
        examples = [
            [_vary(a, k) if i in plan else a for i, a in enumerate(case.args)] for k in range(2)
        ]
        if plan:
            columns = zip(*(leaves(ref(*e)) for e in examples), strict=True)
            wants.append([np.stack(column) for column in columns])
        else:
            wants.append(leaves(ref(*case.args)))
        inputs.append(
            [
                np.stack([e[i] for e in examples], plan[i]) if i in plan else a
                for i, a in enumerate(case.args)
            ]
        )
        axes_of.append(tuple(plan.get(i) for i in range(len(case.args))))

    @weft.jit
    def run(inputs):
        return [
            (weft.vmap(case.fun, in_axes=axes) if plan else case.fun)(*args)
            for plan, axes, args in zip(plans, axes_of, inputs, strict=True)
        ]

    for out, want, axes in zip(run(inputs), wants, axes_of, strict=True):
        assert_close(out, want, case.rtol, f"vmap with in_axes {axes}")
        for g, w in zip(leaves(out), leaves(want), strict=True):
            assert g.dtype.kind == w.dtype.kind, f"dtype {g.dtype}, expected kind of {w.dtype}"


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

    direction = tuple(random_like(v, rng) for v in x)

    def both(*xs):
        y, tangent = weft.jvp(f, xs, tuple(t))
        _, pull = weft.vjp(f, *xs)
        return y, tangent, list(pull(list(cts)))

    @weft.jit
    def everything(*xs):
        if not case.order2:
            return both(*xs), weft.jvp(f, xs, direction)[1]
        values, (first, forward, reverse) = weft.jvp(both, xs, direction)

        def paired(*vs):
            _, pull = weft.vjp(f, *vs)
            return sum(_pairing(c, s) for c, s in zip(pull(list(cts)), t, strict=True))

        twice = weft.grad(paired, argnums=tuple(range(len(xs))))(*xs)
        return values, first, forward, reverse, twice

    h = case.step
    (y, tangent, cotangent), first, *second = everything(*x)
    up, down = (
        leaves(everything(*[a + s * h * d for a, d in zip(x, direction, strict=True)])[0])
        for s in (1, -1)
    )
    quotient = [(a - b) / (2 * h) for a, b in zip(up, down, strict=True)]
    n = len(y)
    assert_paired(cts, tangent, cotangent, t, 1e-9, "vjp against jvp")
    tol = case.derivative_tolerance
    assert_close(first, quotient[:n], tol, "jvp against differences")
    if second:
        forward, reverse, twice = second
        assert_close(forward, quotient[n : 2 * n], tol * 10, "forward over forward")
        assert_close(reverse, quotient[2 * n :], tol * 10, "forward over reverse")
        assert_paired(twice, direction, reverse, t, 1e-8, "reverse over reverse")


def _pairing(c: Any, s: np.ndarray) -> Any:
    product = c * s
    if np.iscomplexobj(s):
        product = weft.lax.real(product)
    return weft.lax.reduce_sum(product, tuple(range(s.ndim)))


def assert_paired(a: Any, b: Any, c: Any, d: Any, tol: float, what: str) -> None:
    """<a, b> == <c, d>; complex cotangents pair bilinearly, and the real parts are compared."""
    left = [np.asarray(p) * np.asarray(q) for p, q in zip(a, b, strict=True)]
    right = [np.asarray(p) * np.asarray(q) for p, q in zip(c, d, strict=True)]
    size = 1 + sum(np.abs(p).sum() for p in (*left, *right))
    got, want = (np.real(sum(np.sum(p) for p in side)) for side in (left, right))
    np.testing.assert_allclose(got, want, rtol=0, atol=tol * size, err_msg=what)


def _inexact(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "fc"


def check(case: Case, rng: np.random.Generator) -> None:
    """All of the above, in float64."""
    with weft.enable_x64(True):
        check_values(case)
        if case.diff:
            check_derivatives(case, rng)

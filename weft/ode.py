"""Ordinary differential equations: odeint, as jax.experimental.ode has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax, tree
from weft.core.namespace import seal
from weft.custom_derivatives import closure_convert
from weft.flatten_util import ravel_pytree

__all__ = ["odeint"]

# Dormand and Prince, A family of embedded Runge-Kutta formulae, 1980. The last stage is the first
# of the next step; _ERROR is the difference of the solutions of order 5 and 4.
_TIMES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (
    *(71 / 57600, 0.0, -71 / 16695, 71 / 1920),
    *(-17253 / 339200, 22 / 525, -1 / 40),
)
# Shampine, Some practical Runge-Kutta formulas, 1986: the solution in the middle of a step.
_MIDDLE = (
    *(6025192743 / 30085553152 / 2, 0.0, 51252292925 / 65400821598 / 2),
    *(-2691868925 / 45128329728 / 2, 187940372067 / 1594534317056 / 2),
    *(-1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2),
)


def odeint(
    func: Callable,
    y0: Any,
    t: Any,
    *args: object,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """Return the solution of dy/dt = func(y, t, *args) with y0 at t[0], at each time of t.

    y0: a pytree of floats or complex numbers; the result has an axis for the times before its own.
    t: increasing.
    args: pytrees that the function depends on and that are differentiated. rtol, atol: the error
    of a step, relative and absolute. mxstep: the most steps between two times. hmax: the longest
    step. Gradients integrate the adjoint equation backwards, in constant memory.

    Source: Dormand and Prince, 1980; Chen et al., Neural ordinary differential equations, 2018.

    >>> import weft
    >>> from weft.ode import odeint
    >>> y = odeint(lambda y, t: -y, 1.0, weft.numpy.array([0.0, 1.0]), rtol=1e-6)
    >>> round(float(y[1]), 4)
    0.3679
    """
    t = wnp.asarray(t)
    for leaf in [t, *tree.leaves(y0)]:
        kind = wnp.floating if leaf is t else wnp.inexact
        if not wnp.issubdtype(wnp.result_type(leaf), kind):
            raise TypeError(
                "odeint: y0 must be arrays of floats or complex numbers, and t of floats; got "
                f"{wnp.result_type(leaf)}"
            )
    if t.ndim != 1 or not t.shape[0]:
        raise ValueError(f"odeint: t must be a vector of times, got shape {t.shape}")
    y0 = tree.map(wnp.asarray, y0)
    converted, consts = closure_convert(func, y0, t[0], *args)
    flat, unravel = ravel_pytree(y0)

    def flat_func(y: Any, time: object, *args: object) -> Any:
        return ravel_pytree(converted(unravel(y), time, *args))[0].astype(y.dtype)

    options = (float(rtol), float(atol), mxstep, hmax)
    out = _solve(flat_func, options, flat, t, (*args, *consts))
    return weft.vmap(unravel)(out)


def _combined(weights: tuple, ks: list) -> Any:
    return sum(w * k for w, k in zip(weights, ks, strict=False) if w)


def _step(f: Callable, y: Any, dy: object, time: Any, h: Any) -> tuple:
    ks = [dy]
    for at, weights in zip(_TIMES[1:], _STAGES[1:], strict=True):
        ks.append(f(y + h * _combined(weights, ks), time + at * h))
    new = y + h * _combined(_STAGES[6], ks)
    return new, ks[-1], h * _combined(_ERROR, ks), y + h * _combined(_MIDDLE, ks)


def _error(e: Any, options: tuple, y: object, new: object) -> Any:
    scale = options[1] + options[0] * wnp.maximum(wnp.abs(y), wnp.abs(new))
    return wnp.sqrt(wnp.mean((wnp.abs(e) / scale) ** 2)) if e.size else wnp.zeros(())


def _first_step(f: Callable, y: object, dy: object, time: object, options: tuple) -> Any:
    """Hairer, Norsett and Wanner, Solving ordinary differential equations I, II.4."""
    scale = options[1] + options[0] * wnp.abs(y)
    d0, d1 = wnp.linalg.norm(y / scale), wnp.linalg.norm(dy / scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = wnp.where(small, 1e-6, 0.01 * d0 / wnp.where(small, 1, d1))
    d2 = wnp.linalg.norm((f(y + h0 * dy, time + h0) - dy) / scale) / h0
    most = wnp.maximum(d1, d2)
    h1 = wnp.where(
        most <= 1e-15, wnp.maximum(1e-6, h0 * 1e-3), (0.01 / wnp.where(most == 0, 1, most)) ** 0.2
    )
    return wnp.minimum(100 * h0, h1)


def _quartic(y: Any, new: Any, middle: Any, dy: Any, dnew: Any, h: Any, share: Any) -> Any:
    """Return the polynomial of degree 4 through both ends, their slopes, and the middle."""
    a = -2 * h * dy + 2 * h * dnew - 8 * y - 8 * new + 16 * middle
    b = 5 * h * dy - 3 * h * dnew + 18 * y + 14 * new - 32 * middle
    c = -4 * h * dy + h * dnew - 11 * y - 5 * new + 16 * middle
    return (((a * share + b) * share + c) * share + h * dy) * share + y


def _integrate(func: Callable, options: tuple, y0: Any, t: Any, args: tuple) -> Any:
    dtype = y0.dtype
    f = lambda y, time: func(y, time, *args)
    start = t[0]
    dy0 = f(y0, start)
    h = wnp.clip(_first_step(f, y0, dy0, start, options), 0, options[3]).astype(t.dtype)
    # A step: its two ends, and what the polynomial between them needs.
    state = (y0, dy0, start, h, start, (y0, y0, y0, dy0, dy0))

    def to_target(state: tuple, target: object) -> tuple:
        def go_on(s: tuple) -> Any:
            (_, _, time, h, _, _), i = s
            return (time < target) & (i < options[2]) & (h > 0)

        def body(s: tuple) -> tuple:
            (y, dy, time, h, last, between), i = s
            new, dnew, e, middle = _step(f, y, dy, time, h)
            ratio = _error(e, options, y, new)
            # Steps grow at most tenfold, and shrink to a fifth where one is refused.
            factor = wnp.where(ratio == 0, 10.0, 0.9 * wnp.maximum(ratio, 1e-12) ** -0.2)
            factor = wnp.clip(factor, wnp.where(ratio < 1, 1.0, 0.2), 10.0)
            accepted = ratio <= 1
            pick = lambda a, b: wnp.where(accepted, a, b).astype(wnp.result_type(b))
            next_h = wnp.clip(h * factor, 0, options[3]).astype(h.dtype)
            kept = tuple(
                pick(a, b) for a, b in zip((y, new, middle, dy, dnew), between, strict=True)
            )
            moved = (
                pick(new, y),
                pick(dnew, dy),
                pick(time + h, time),
                next_h,
                pick(time, last),
                kept,
            )
            return moved, i + 1

        state, _ = lax.while_loop(go_on, body, (state, 0.0))
        y, _, time, _, last, (old, new, middle, dy, dnew) = state
        width = time - last
        share = wnp.where(width == 0, 0, (target - last) / wnp.where(width == 0, 1, width))
        between = _quartic(old, new, middle, dy, dnew, width, share.astype(dtype))
        value = wnp.where(width == 0, y, between).astype(dtype)
        return state, wnp.where(time < target, wnp.nan, value).astype(dtype)

    rest: Any = lax.scan(to_target, state, t[1:])[1]
    return wnp.concatenate([y0[None], rest])


def _forward(func: Callable, options: tuple, y0: object, t: object, args: tuple) -> tuple:
    ys = _solve(func, options, y0, t, args)  # has derivatives itself, for second derivatives
    return ys, (ys, t, args)


def _backward(func: Callable, options: tuple, residuals: tuple, g: Any) -> tuple:
    """Integrate the solution and the cotangents from the last time back to the first."""
    ys, t, args = residuals
    flat_args, unravel = ravel_pytree(args)

    def augmented(state: object, minus_t: Any, flat: object) -> Any:
        y, ct, _, _ = parts(state)
        dy, pull = weft.vjp(lambda y, s, a: func(y, s, *unravel(a)), y, -minus_t, flat)
        return ravel_pytree((-dy, *pull(ct)))[0]

    zeros = (ys[-1], g[-1], wnp.zeros((), t.dtype), wnp.zeros_like(flat_args))
    parts = ravel_pytree(zeros)[1]

    def segment(carry: tuple, inputs: tuple) -> tuple:
        ct, t0_ct, args_ct = carry
        y, ct_here, ct_before, after, before = inputs
        slope = wnp.real(wnp.dot(func(y, after, *args), ct_here))
        start = ravel_pytree((y, ct, t0_ct - slope, args_ct))[0]
        times = wnp.stack([-after, -before])
        end = _solve(augmented, options, start, times, (flat_args,))[1]
        _, ct, t0_ct, args_ct = parts(end)
        return (ct + ct_before, t0_ct, args_ct), slope

    start = (g[-1], wnp.zeros((), t.dtype), wnp.zeros_like(flat_args))
    backwards = tuple(v[::-1] for v in (ys[1:], g[1:], g[:-1], t[1:], t[:-1]))
    ends: Any = lax.scan(segment, start, backwards)
    (ct, t0_ct, args_ct), slopes = ends
    t_ct = wnp.concatenate([t0_ct[None], slopes[::-1].astype(t.dtype)])
    return ct, t_ct, unravel(args_ct)


_solve = weft.custom_vjp(_integrate, nondiff_argnums=(0, 1))
_solve.defvjp(_forward, _backward)

seal(globals())

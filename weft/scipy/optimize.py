# Tests: tests/scipy/test_solvers.py
"""Minimization, under the names and with the semantics of jax.scipy.optimize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.scipy.special.factorials import as_float

if TYPE_CHECKING:
    from weft.runtime.array import Array

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """The result of minimize: the point x, whether and why it ended, and values at x.

    status: 0 converged, 1 iterations ran out, 3 the line search failed.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any | None
    nfev: Any
    njev: Any
    nit: Any


class _Search(NamedTuple):
    """A step along a line that meets Wolfe's conditions, or did not."""

    step: Any
    value: Any
    slope: Any
    gradient: Any
    failed: Any
    calls: Any


def _line_search(
    along: Callable, value: Array, slope: Array, gradient: Array, first: Array, most: int
) -> _Search:
    """Find a step of enough descent and small slope: Wolfe's strong conditions.

    along(step): value, slope, gradient. Brackets by doubling, then halves by cubic interpolation.
    Source: Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6.
    """
    enough, flat = 1e-4, 0.9
    zero = wnp.zeros_like(value)

    def falls(step: Array, f: Array) -> Any:
        return f <= value + enough * step * slope

    def is_flat(d: Array) -> Any:
        return wnp.abs(d) <= -flat * slope

    # low and high: (step, value, slope) at the ends of an interval that contains a good step; low
    # is the end that falls most. high's step is infinite until there is an interval.
    def go_on(s: dict) -> Any:
        return ~s["done"] & (s["calls"] < most)

    def body(s: dict) -> dict:
        step = s["trial"]
        f, d, g = along(step)
        good = falls(step, f) & is_flat(d)
        low, f_low, d_low, high = s["low"], s["f_low"], s["d_low"], s["high"]
        # Too far, or not below the best: the interval ends here.
        over = ~falls(step, f) | (f >= f_low) | ~wnp.isfinite(f)
        turns = d * (high - low) >= 0
        new_high = wnp.where(over, step, wnp.where(turns, low, high))
        f_high = wnp.where(over, f, wnp.where(turns, f_low, s["f_high"]))
        d_high = wnp.where(over, d, wnp.where(turns, d_low, s["d_high"]))
        best = lambda a, b: wnp.where(over, b, a)
        new_low, f_new, d_new = best(step, low), best(f, f_low), best(d, d_low)
        # The cubic through both ends, kept well inside of the interval.
        width = new_high - new_low
        bounded = wnp.isfinite(new_high)
        w = wnp.where(bounded, width, 1)
        theta = d_new + d_high - 3 * (f_high - f_new) / w
        root = wnp.sqrt(wnp.maximum(theta * theta - d_new * d_high, 0))
        share = 1 - (d_high + root - theta) / (d_high - d_new + 2 * root)
        share = wnp.where(wnp.isfinite(share), wnp.clip(share, 0.1, 0.9), 0.5)
        trial = wnp.where(bounded, new_low + share * w, 2 * step)
        return {
            "trial": trial, "low": new_low, "f_low": f_new, "d_low": d_new, "high": new_high,
            "f_high": f_high, "d_high": d_high, "done": good, "calls": s["calls"] + 1,
            "step": best(step, s["step"]), "f": best(f, s["f"]), "d": best(d, s["d"]),
            "g": best(g, s["g"]),
        }  # fmt: skip

    start = {
        "trial": first, "low": zero, "f_low": value, "d_low": slope, "high": zero + wnp.inf,
        "f_high": value, "d_high": slope, "done": wnp.asarray(False), "calls": wnp.asarray(0),
        "step": zero, "f": value, "d": slope, "g": gradient,
    }  # fmt: skip
    end = lax.while_loop(go_on, body, start)
    # A step that falls enough is of use though its slope is not small.
    failed = ~end["done"] & ~((end["step"] > 0) & (end["f"] < value))
    return _Search(end["step"], end["f"], end["d"], end["g"], failed, end["calls"])


def minimize(
    fun: Callable,
    x0: object,
    args: tuple = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Return a local minimum of fun(x, *args), a number, near x0 (n,).

    method: 'BFGS'. tol: the size of the gradient at which it ends, 1e-5. options: 'maxiter',
    'gtol', 'norm' (of the gradient, inf) and 'line_search_maxiter'.
    Source: Nocedal and Wright, Numerical Optimization, algorithm 6.1.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import optimize
    >>> result = optimize.minimize(lambda x: ((x - 3) ** 2).sum(), wnp.zeros(2), method='BFGS')
    >>> [round(float(v), 3) for v in result.x]
    [3.0, 3.0]
    """
    if options is None:
        options = {}
    if not isinstance(args, tuple):
        raise ArgumentError(
            f"minimize: args must be a tuple, got {type(args).__name__}; write (a,)"
        )
    if method.lower() != "bfgs":
        raise ArgumentError(f"minimize: method must be 'BFGS', got {method!r}")
    option_names = {"maxiter", "gtol", "norm", "line_search_maxiter"}
    if set(options) - option_names:
        raise ArgumentError(
            f"minimize: options may have {', '.join(sorted(option_names))}; got {sorted(options)}"
        )
    x = as_float(x0)
    if x.ndim != 1:
        raise ArgumentError(f"minimize: x0 must be a vector, got shape {x.shape}; use ravel_pytree")
    n = x.shape[0]
    most = options.get("maxiter") or 200 * n
    small = options.get("gtol", 1e-5) if tol is None else tol
    order = options.get("norm", wnp.inf)
    line_steps = options.get("line_search_maxiter", 20)
    both = weft.value_and_grad(lambda v: fun(v, *args))

    def converged(g: Array) -> Any:
        return wnp.linalg.norm(g, order) < small

    def go_on(s: dict) -> Any:
        return ~converged(s["g"]) & (s["nit"] < most) & ~s["failed"]

    def body(s: dict) -> dict:
        direction = -(s["h"] @ s["g"])
        slope = s["g"] @ direction

        def along(step: Array) -> tuple:
            f, g = both(s["x"] + step * direction)
            return f, g @ direction, g

        # The first step is at most of length 1 in the 1-norm: nothing is known of the scale.
        first = wnp.where(
            s["nit"] == 0, wnp.minimum(1, 1 / wnp.sum(wnp.abs(s["g"]))), wnp.ones_like(slope)
        )
        point = _line_search(along, s["f"], slope, s["g"], first, line_steps)
        # Update the inverse Hessian (6.17), unless the curvature would make it indefinite.
        move = point.step * direction
        change = point.gradient - s["g"]
        curvature = change @ move
        useful = curvature > 0
        rho = wnp.where(useful, 1 / wnp.where(useful, curvature, 1), 0)
        hy = s["h"] @ change
        update = (rho * rho * (change @ hy) + rho) * wnp.outer(move, move)
        update = update - rho * (wnp.outer(hy, move) + wnp.outer(move, hy))
        return {
            "x": s["x"] + move, "f": point.value, "g": point.gradient, "h": s["h"] + update,
            "nit": s["nit"] + 1, "calls": s["calls"] + point.calls, "failed": point.failed,
        }  # fmt: skip

    f, g = both(x)
    start = {
        "x": x, "f": f, "g": g, "h": wnp.eye(n, dtype=x.dtype), "nit": wnp.asarray(0),
        "calls": wnp.asarray(1), "failed": wnp.asarray(False),
    }  # fmt: skip
    s = lax.while_loop(go_on, body, start)
    success = converged(s["g"])
    status = wnp.where(success, 0, wnp.where(s["failed"], 3, 1))
    return OptimizeResults(
        x=s["x"], success=success, status=status, fun=s["f"], jac=s["g"], hess_inv=s["h"],
        nfev=s["calls"], njev=s["calls"], nit=s["nit"],
    )  # fmt: skip


seal(globals())

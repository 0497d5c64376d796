# Tests: tests/scipy/test_special.py
"""Elementwise functions from a formula and its partial derivatives: one op each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.core.trace import typeof
from weft.numpy.common import strong, to_array
from weft.ops.promote import broadcast_args, broadcast_to, promote_inexact
from weft.ops.special_functions import _formula as formula_op
from weft.ops.special_functions import no_derivative, wide_enough

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def special_op(
    name: str,
    formula: Callable,
    *partials: Callable | None,
    of_complex: Callable | None = None,
    weak_type: bool = False,
    doubled: bool = False,
) -> Callable:
    """Return a function of arrays that is one elementwise op: sharded and batched as such.

    formula: of float operands of one shape and dtype, float32 at least, in weft.numpy's functions.
    partials: for each operand the derivative in it, a function of (result, *operands); None where
    none is known, which raises. of_complex: the function of complex operands, made of other ops.
    weak_type: the result of Python numbers alone is weakly typed; the approximations are not.
    doubled: narrower operands are computed in float64 on the CPU.
    """

    def rule(index: int, partial: Callable | None) -> Callable:
        if partial is None:
            return lambda t, out, *primals: no_derivative(name, f"argument {index}")
        return lambda t, out, *primals: t * partial(out, *_same_shape(primals))

    prim = formula_op(name, formula, [rule(i, p) for i, p in enumerate(partials)], doubled)
    compute = wide_enough(formula)
    prim.formula = lambda *primals: compute(*_same_shape(primals))

    def call(*operands: Array) -> Any:
        xs = promote_inexact(*map(to_array, operands))
        xs = broadcast_args(*(xs if weak_type else map(strong, xs)))
        if of_complex is not None and wnp.iscomplexobj(xs[0]):
            return of_complex(*xs)
        return prim.bind(*xs)

    return call


def _same_shape(operands: tuple) -> list:
    """Broadcast operands where some are scalars."""
    shape = next((s for x in operands if (s := typeof(x).shape)), ())
    return [broadcast_to(x, shape) for x in operands]


def choose(*cases: ArrayLike) -> Any:
    """Return the value of the first condition that holds; the last argument is the default."""
    *pairs, value = cases
    for condition, other in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
        value = wnp.where(condition, other, value)
    return value


def polynomial(x: ArrayLike, coefficients: Any) -> Any:
    """Return the sum of coefficients[k] * x**k, by Horner's rule."""
    value = wnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + float(c)
    return value


def chebyshev_fit(fun: Callable, low: float, high: float, degree: int) -> Callable:
    """Make a function of arrays that agrees with `fun`, of host arrays of float64, on [low, high].

    Outside of the interval its values mean nothing, but are finite.
    Source: Clenshaw, A note on the summation of Chebyshev series, 1955.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    # NumPy's interpolation loses two digits: it makes its polynomials by their recurrence.
    count = degree + 1
    k, odd = np.arange(count), 2 * np.arange(count) + 1
    cosines = np.cos(np.pi / (2 * count) * np.arange(4 * count))
    waves = cosines[k[:, None] * odd % (4 * count)]
    values = fun(middle + half * cosines[odd])
    coefficients = waves @ values * np.where(k == 0, 1, 2) / count

    def evaluate(x: Array) -> Any:
        # Terms below the precision of the operands cost time only.
        least = np.abs(coefficients).max() * float(wnp.finfo(typeof(x).dtype).eps) / 16
        kept = coefficients[: np.flatnonzero(np.abs(coefficients) > least)[-1] + 1]
        u = wnp.clip((x - middle) / half, -1, 1)
        b1 = b2 = wnp.zeros_like(x)
        for c in kept[:0:-1]:
            b1, b2 = 2 * u * b1 - b2 + float(c), b1
        return u * b1 - b2 + float(kept[0])

    return evaluate


def half_line_integral(fun: Callable, x: np.ndarray) -> np.ndarray:
    """Return the integral of fun(s, x) e^-s over s from 0 to infinity, on the host, for each x.

    Source: Takahasi and Mori, Double exponential formulas for numerical integration, 1974.
    """
    count = 400
    u, step = np.linspace(-4.5, 5.0, count), 9.5 / (count - 1)  # a difference of u has fewer bits
    s = np.exp(u - np.exp(-u))
    weights = s * (1 + np.exp(-u)) * np.exp(-s) * step
    return (fun(s, np.asarray(x, np.float64)[..., None]) * weights).sum(axis=-1)

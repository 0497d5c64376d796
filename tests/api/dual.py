"""A reference for derivatives: nested forward mode over NumPy, independent of weft.

A `Dual` is a value with its derivative along one direction; its parts may be duals of outer
derivatives. Tags tell the directions apart (Siskind and Pearlmutter, "Nesting forward-mode AD in a
functional framework", 2008).
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

_tags = itertools.count(1)


class Dual:
    __slots__ = ("primal", "tag", "tangent")

    def __init__(self, primal: Any, tangent: Any, tag: int) -> None:
        self.primal, self.tangent, self.tag = primal, tangent, tag


def value(x: Any) -> np.ndarray:
    """The value without any derivative, for comparisons."""
    while isinstance(x, Dual):
        x = x.primal
    return x


def split(x: Any, tag: int) -> tuple[Any, Any]:
    if isinstance(x, Dual) and x.tag == tag:
        return x.primal, x.tangent
    return x, None


def _innermost(xs: Any) -> int:
    return max((x.tag for x in xs if isinstance(x, Dual)), default=0)


def linear(fun: Callable, *xs: Any) -> Any:
    """A function that is linear in all of its operands together."""
    tag = _innermost(xs)
    if not tag:
        return fun(*xs)
    primals, tangents = zip(*(split(x, tag) for x in xs), strict=True)
    tangents = [0.0 * p if t is None else t for p, t in zip(map(value, primals), tangents)]  # noqa: B905
    return Dual(linear(fun, *primals), linear(fun, *tangents), tag)


def add(x: Any, y: Any) -> Any:
    return linear(np.add, x, y)


def sub(x: Any, y: Any) -> Any:
    return linear(np.subtract, x, y)


def mul(x: Any, y: Any) -> Any:
    tag = _innermost((x, y))
    if not tag:
        return x * y
    (px, tx), (py, ty) = split(x, tag), split(y, tag)
    terms = [mul(t, p) for t, p in ((tx, py), (ty, px)) if t is not None]
    return Dual(mul(px, py), terms[0] if len(terms) == 1 else add(*terms), tag)


def _smooth(fun: Callable, slope: Callable) -> Callable:
    """An elementwise function whose derivative is `slope`."""

    def apply(x: Any) -> Any:
        if not isinstance(x, Dual):
            return fun(x)
        return Dual(apply(x.primal), mul(slope(x.primal), x.tangent), x.tag)

    return apply


sin = _smooth(np.sin, lambda x: cos(x))
cos = _smooth(np.cos, lambda x: mul(-1.0, sin(x)))
exp = _smooth(np.exp, lambda x: exp(x))
tanh = _smooth(np.tanh, lambda x: sub(1.0, mul(tanh(x), tanh(x))))
reciprocal = _smooth(lambda x: 1.0 / x, lambda x: mul(-1.0, mul(reciprocal(x), reciprocal(x))))
log = _smooth(np.log, lambda x: reciprocal(x))


def derivative(fun: Callable, x: Any, direction: Any) -> tuple[Any, Any]:
    """The value of `fun` at x and its derivative along a direction."""
    tag = next(_tags)
    primal, tangent = split(fun(Dual(x, direction, tag)), tag)
    return primal, mul(0.0, primal) if tangent is None else tangent


def pullback(fun: Callable, x: Any, weights: np.ndarray) -> Any:
    """The gradient of `weights @ fun(x)`: one direction for each element of x."""
    columns = [
        linear(lambda t: np.sum(t * weights), derivative(fun, x, e)[1])
        for e in np.eye(value(x).size)
    ]
    return linear(lambda *cs: np.stack(cs), *columns)

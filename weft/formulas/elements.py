# Tests: tests/pallas/test_scalar_formulas.py
"""The formula of each op on elements, as the jaxpr of one element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import options
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import trace_to_jaxpr
from weft.formulas import elementary, floats, inverse, special
from weft.formulas.language import by_squaring, ldexp, plainly, where
from weft.ops.arithmetic import max_p, min_p
from weft.ops.transcendental import sqrt_p

if TYPE_CHECKING:
    from weft.runtime.array import Array


def _sign(x: Array) -> Array:
    """Return the sign of x; zeros keep theirs, NaN stays NaN."""
    positive = where(x > 0, x.dtype.type(1), x)
    return positive if dtypes.is_unsigned(x.dtype) else where(x < 0, x.dtype.type(-1), positive)


def _integer_pow(x: Array, *, y: int) -> Array:
    if not y:
        return where(x == x, x.dtype.type(1), x.dtype.type(1))
    power = by_squaring(x, abs(y), lambda a, b: a * b)
    return 1 / power if y < 0 else power


ANY: dict[str, Callable] = {
    "clamp": lambda low, x, high: min_p.bind(max_p.bind(low, x), high),
    "integer_pow": _integer_pow,
    "is_finite": lambda x: abs(x) < x.dtype.type(np.inf),
    "sign": _sign,
}
"""Op → formula, for operands of any real dtype."""

FLOATS: dict[str, Callable] = {
    "exp": elementary.exp,
    "exp2": elementary.exp2,
    "expm1": elementary.expm1,
    "log": elementary.log,
    "log1p": elementary.log1p,
    "tanh": elementary.tanh,
    "logistic": elementary.logistic,
    "sin": elementary.sin,
    "cos": elementary.cos,
    "tan": elementary.tan,
    "rsqrt": lambda x: 1 / sqrt_p.bind(x),
    "atan": inverse.atan,
    "atan2": inverse.atan2,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "sinh": inverse.sinh,
    "cosh": inverse.cosh,
    "asinh": inverse.asinh,
    "acosh": inverse.acosh,
    "atanh": inverse.atanh,
    "cbrt": inverse.cbrt,
    "pow": inverse.power,
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": special.erf_inv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "lgamma_near_roots": special.lgamma_near_roots,
    "digamma_near_root": special.digamma_near_root,
    "ldexp": ldexp,
}
"""Op → formula, for operands in float32 or float64."""


def has_formula(name: str) -> bool:
    """Return whether an op on elements of real dtypes has a formula."""
    return name in ANY or name in FLOATS


@functools.lru_cache(maxsize=1024)
def element_formula(name: str, kinds: tuple, result: np.dtype, params: tuple = ()) -> ClosedJaxpr:
    """Return the jaxpr for one element of an op with a formula, or of a narrow float's conversion.

    kinds: the operands' dtypes; result: the result's. params: those of the op, as pairs.
    """
    function = ANY.get(name) or FLOATS.get(name)
    if function is None:
        widens = kinds[0].name in dtypes.float8_names
        function = floats.widen if widens else lambda x: floats.narrow(x, result)
    import_module("weft.numpy.methods")  # the operators of traced values

    with options["enable_x64"](True):
        avals = [ShapedArray((), kind) for kind in kinds]
        one = lambda *xs: [function(*xs, **dict(params))]
        jaxpr, consts = trace_to_jaxpr(one, avals, name)
    return ClosedJaxpr(jaxpr.replace(eqns=list(map(plainly, jaxpr.eqns))), consts)

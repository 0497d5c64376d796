# Tests: tests/scipy/test_stats.py
"""Modules of distributions, each from a few functions of the standardized variable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf
from types import ModuleType
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.core.namespace import public
from weft.numpy.eager import eager_programs
from weft.scipy.special.factorials import floats

if TYPE_CHECKING:
    from weft.runtime.array import Array

_MEANING = {
    "logpdf": "Return the logarithm of the density",
    "pdf": "Return the density",
    "logpmf": "Return the logarithm of the probability",
    "pmf": "Return the probability",
    "cdf": "Return the probability of at most x",
    "logcdf": "Return the logarithm of the probability of at most x",
    "sf": "Return the probability of more than x",
    "logsf": "Return the logarithm of the probability of more than x",
    "ppf": "Return the value with q of the probability below it",
    "isf": "Return the value with q of the probability above it",
    "entropy": "Return the entropy",
}
Formula = Callable[..., Any]
_PROGRAMS = eager_programs(" ".join(_MEANING), operands="loc scale k n p", options="allow_singular")


def make_module(name: str, doc: str, functions: dict[str, Callable]) -> ModuleType:
    """Return the module weft.scipy.stats.`name` of the functions."""
    module = ModuleType(f"weft.scipy.stats.{name}", doc)
    for key, function in functions.items():
        setattr(module, key, public(function, module.__name__, key, programs=_PROGRAMS))
    module.__all__ = sorted(functions)  # type: ignore[attr-defined]
    module.__dir__ = lambda: module.__all__  # type: ignore[method-assign]
    sys.modules[module.__name__] = module
    return module


def signed(
    method: str, parameters: tuple[str, ...], defaults: tuple[str, ...], call: Callable, doc: str
) -> Callable:
    """`call`, which takes its arguments in a row, with the parameters written out."""
    listed = ", ".join([*parameters, *defaults])
    names = ", ".join(p.split("=")[0] for p in (*parameters, *defaults))
    scope: dict[str, Any] = {"call": call, "__name__": __name__}
    exec(f"def {method}({listed}):\n    return call({names})", scope)
    function = scope[method]
    function.__doc__ = doc
    return function


def distribution(
    name: str,
    title: str,
    methods: str,
    shapes: str = "",
    support: tuple[float, float] = (-inf, inf),
    *,
    scaled: bool = True,
    discrete: bool = False,
    valid: Callable | None = None,
    interior: Callable | None = None,
    **formulas: Formula,
) -> ModuleType:
    """Return a distribution of numbers.

    methods: the functions that it has, with `:name` after one whose first parameter is so called.
    shapes: names of its shape parameters. support: what it is distributed over, when standardized;
    the ends are functions of the shape parameters where they depend on them. scaled: functions take
    loc and scale (loc alone where it is discrete). formulas: logpdf (logpmf), and cdf, sf, logcdf,
    logsf, ppf, isf, functions of the standardized variable and the shape parameters; what is not
    given follows from another. valid: of the shape parameters; NaN where it does not hold.
    """
    mass = "logpmf" if discrete else "logpdf"

    def end(i: int, parameters: tuple) -> Any:
        limit: Any = support[i]
        return limit(*parameters) if callable(limit) else limit

    # Formulas are evaluated there where an argument is outside of the support.
    if interior is None:
        bounded_above = not callable(support[1]) and support[1] == 1 and not discrete
        point = 0 if support[0] == -inf else support[0] + (0.5 if bounded_above else 1 - discrete)
        interior = lambda *parameters: point

    # One formula gives the others: sf = 1 - cdf, and logarithms of both.
    def cumulative(method: str, y: Array, parameters: tuple) -> Any:
        """cdf, sf or a logarithm of them, inside of the support."""
        if method in formulas:
            return formulas[method](y, *parameters)
        if method.startswith("log"):
            value = cumulative(method[3:], y, parameters)
            rest = cumulative({"cdf": "sf", "sf": "cdf"}[method[3:]], y, parameters)
            # Near 1 what is left tells more.
            return wnp.where(value > 0.5, wnp.log1p(-rest), wnp.log(value))
        if f"log{method}" in formulas:
            return wnp.exp(formulas[f"log{method}"](y, *parameters))
        return 1 - cumulative("sf" if method == "cdf" else "cdf", y, parameters)

    def evaluate(method: str, *arguments: Array) -> Any:
        x, *rest = floats(*arguments)
        loc, scale = 0, 1
        if scaled:
            loc, scale = rest[-2:] if not discrete else (rest[-1], 1)
            rest = rest[: -1 if discrete else -2]
        x, *rest = wnp.broadcast_arrays(x, *rest) if rest else (x,)
        parameters = tuple(rest)
        wrong = False if discrete else wnp.asarray(scale) <= 0
        if valid is not None:
            wrong = wrong | ~valid(*parameters)
        if method in ("ppf", "isf"):
            if method in formulas:
                value = formulas[method](x, *parameters)
            else:
                # isf(x) = ppf(1 - x) where there is no formula of its own.
                value = formulas["ppf"](1 - x, *parameters)
            value = value * scale + loc
            return wnp.where(wrong | (x < 0) | (x > 1), wnp.nan, value)
        y = (x - loc) / scale if not discrete else x - loc
        low, high = end(0, parameters), end(1, parameters)
        if method.removeprefix("log") in ("pdf", "pmf"):
            inside = (y >= low) & (y <= high)
            if discrete:
                inside = inside & (y == wnp.floor(y))
            # Outside the support the formula runs at an inner point, so that gradients have no NaN.
            value = formulas[mass](wnp.where(inside, y, interior(*parameters)), *parameters)
            if not discrete and scaled:
                value = value - wnp.log(scale)
            value = wnp.where(inside, value, -wnp.inf)
            value = value if method.startswith("log") else wnp.exp(value)
        else:
            inside = (y > low) & (y < high)
            if discrete:
                y = wnp.floor(y)
                inside = (y >= low) & (y < high)
            value = cumulative(method, wnp.where(inside, y, interior(*parameters)), parameters)
            first = "cdf" if method.endswith("cdf") else "sf"
            least, most = (-wnp.inf, 0.0) if method.startswith("log") else (0.0, 1.0)
            below, above = (least, most) if first == "cdf" else (most, least)
            value = wnp.where(inside, value, wnp.where(y >= high, above, below))
        return wnp.where(wrong | wnp.isnan(y), wnp.nan, value)

    functions = {}
    for item in methods.split():
        method, _, first = item.partition(":")
        first = first or ("k" if discrete else "q" if method in ("ppf", "isf") else "x")
        defaults = () if not scaled else ("loc=0",) if discrete else ("loc=0", "scale=1")
        call = lambda *args, method=method: evaluate(method, *args)
        doc = (
            f"{_MEANING[method]} of the {title}.\n\n    Source: scipy.stats.{name}.{method}.\n    "
        )
        functions[method] = signed(method, (first, *shapes.split()), defaults, call, doc)
    return make_module(name, f"The {title}.", functions)

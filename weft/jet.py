"""Taylor mode: jet pushes truncated Taylor polynomials through a function, as jax.experimental.jet.

Linear and bilinear ops act on coefficients; for exp, sin and others there are recurrences. Any
other op that has a derivative follows from it: the coefficients of y' are those of the op's own
tangent, one order lower. So every differentiable op has a Taylor rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax, tree
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.jaxpr import ClosedJaxpr, Eqn, interpret
from weft.core.namespace import seal
from weft.core.primitive import Primitive
from weft.core.source import function_name
from weft.core.trace import trace_to_jaxpr, typeof
from weft.driver.staging import check_callable

__all__ = ["jet"]


def jet(
    fun: Callable,
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: object,
) -> tuple[Any, Any]:
    """Return the value and the derivatives of fun along a curve: its truncated Taylor polynomial.

    primals: the arguments, arrays or pytrees of them. series: for each argument the terms of order
    1 and up of its curve, as many for each; terms are like the argument. factorial_scaled: terms
    are derivatives; if False, they are coefficients of the polynomial, derivatives / order!.

    The result is fun(*primals), and the same pytree with the list of terms at each array.

    Raises TypeError for what is no function, ArgumentError, a TypeError and a ValueError, for
    series that do not fit.

    Source: Griewank and Walther, Evaluating derivatives, 2008, chapter 13.

    >>> import weft.numpy as wnp
    >>> from weft.jet import jet
    >>> y, (dy, ddy) = jet(wnp.exp, (0.0,), ((1.0, 0.0),))
    >>> float(y), float(dy), float(ddy)
    (1.0, 1.0, 1.0)
    """
    check_callable(fun, "jet")
    primals, series = list(primals), list(series)
    orders = {len(terms) for terms in series}
    if len(primals) != len(series) or len(orders) > 1:
        raise ArgumentError(
            f"jet: series must have the same number of terms for each of the {len(primals)} "
            f"primals, got {[len(terms) for terms in series]} terms"
        )
    order = orders.pop() if orders else 0
    leaves: list[Any]
    leaves, in_tree = tree.flatten(tuple(primals))
    # Terms of one order form a pytree like the primals; column k has those of order k + 1.
    columns = []
    for k in range(order):
        ahead = tuple(terms[k] for terms in series)
        if tree.structure(ahead) != in_tree:
            raise ArgumentError(
                f"jet: terms of order {k + 1} must have the structure of primals, {in_tree}, got "
                f"{tree.structure(ahead)}"
            )
        columns.append(tree.leaves(ahead))
    scale = [float(math.factorial(k)) if factorial_scaled else 1.0 for k in range(order + 1)]
    inputs: list[Any] = []
    for i, leaf in enumerate(leaves):
        x: Any = wnp.asarray(leaf)
        terms = [wnp.asarray(column[i]) for column in columns]
        for k, term in enumerate(terms, 1):
            if term.shape != x.shape:
                raise ArgumentError(
                    f"jet: the term of order {k} of argument {i} must have its shape {x.shape}, "
                    f"got {term.shape}"
                )
        # Whole numbers and booleans have no derivatives.
        if not dtypes.is_inexact(x.dtype):
            inputs.append(x)
            continue
        # Rules compute with coefficients of the polynomial: derivatives / order!.
        terms = [term.astype(x.dtype) / scale[k] for k, term in enumerate(terms, 1)]
        inputs.append(Series([x, *terms]))
    out_tree: Any = None

    def flat(*args: object) -> list:
        nonlocal out_tree
        outs, out_tree = tree.flatten(fun(*tree.unflatten(in_tree, args)))
        return outs

    avals = [typeof(_primal(x)) for x in inputs]
    jaxpr, consts = trace_to_jaxpr(flat, avals, function_name(fun))
    outs = [as_series(y, order) for y in _run(ClosedJaxpr(jaxpr, consts), inputs, order)]
    lists = [[c * scale[k] for k, c in enumerate(y.terms) if k] for y in outs]
    firsts = [y.terms[0] for y in outs]
    return tree.unflatten(out_tree, firsts), tree.unflatten(out_tree, lists)


class Series:
    """A polynomial: its coefficients, from order 0 up. What is constant is a plain array."""

    __slots__ = ("terms",)

    def __init__(self, terms: Sequence[Any]) -> None:
        self.terms = list(terms)


def as_series(x: Any, order: int) -> Series:
    """Return a series, of zeros after the first term where x is constant."""
    if isinstance(x, Series):
        return x
    dtype = typeof(x).dtype if dtypes.is_inexact(typeof(x).dtype) else np.float32
    return Series([x, *[wnp.zeros(np.shape(x), dtype)] * order])


def _primal(x: object) -> Any:
    return x.terms[0] if isinstance(x, Series) else x


def _run(closed: ClosedJaxpr, args: Sequence[Any], order: int) -> list:
    return interpret(closed, args, lambda eqn, ins: _apply(eqn, ins, order))


def _apply(eqn: Eqn, ins: list, order: int) -> Any:
    prim, params = eqn.primitive, eqn.rule_params
    varying = [i for i, x in enumerate(ins) if isinstance(x, Series)]
    if not varying or not order:
        return prim.bind(*map(_primal, ins), **params)
    rule = _RULES.get(prim.name)
    if rule is not None:
        return rule(order, ins, params)
    avals = [v.aval for v in eqn.invars]
    linear = prim.linear(avals, params) if callable(prim.linear) else prim.linear
    if linear and linear[-1] is ...:
        linear = tuple(range(linear[0], len(ins)))
    if linear and set(varying) <= set(linear):
        return _linear(prim, order, ins, params, linear)
    if set(varying) <= set(prim.bilinear) and (len(varying) == 1 or len(ins) == 2):
        return _bilinear(prim, order, ins, params)
    return _by_derivative(prim, order, ins, params)


def _joined(results: list, multiple: bool) -> Any:
    """Return results of each order as series; integers have no further terms."""
    columns = zip(*results, strict=True) if multiple else [results]
    outs = [
        Series(c) if dtypes.is_inexact(typeof(c[0]).dtype) else c[0] for c in map(list, columns)
    ]
    return outs if multiple else outs[0]


def _linear(prim: Primitive, order: int, ins: list, params: dict, linear: Sequence[int]) -> Any:
    """Apply the op to each order's coefficients; constants take part in the first alone."""
    results = [prim.bind(*map(_primal, ins), **params)]
    zeros = {i: wnp.zeros_like(x) for i, x in enumerate(ins) if i in linear and not _is(x)}
    for k in range(1, order + 1):
        at = [x.terms[k] if _is(x) else zeros.get(i, x) for i, x in enumerate(ins)]
        results.append(prim.bind(*at, **params))
    return _joined(results, prim.multiple_results)


def _is(x: object) -> bool:
    return isinstance(x, Series)


def _bilinear(prim: Primitive, order: int, ins: list, params: dict) -> Any:
    product = lambda *pair: prim.bind(*pair, **params)
    if not all(map(_is, ins)):
        at = lambda k: [x.terms[k] if _is(x) else x for x in ins]
        return _joined([product(*at(k)) for k in range(order + 1)], prim.multiple_results)
    a, b = (x.terms for x in ins)
    return Series([_convolved(a, b, k, product) for k in range(order + 1)])


def _convolved(a: Sequence, b: Sequence, k: int, product: Callable = wnp.multiply) -> Any:
    """Return the coefficient of order k of a product."""
    total = product(a[0], b[k])
    for j in range(1, k + 1):
        total = total + product(a[j], b[k - j])
    return total


def _by_derivative(prim: Primitive, order: int, ins: list, params: dict) -> Any:
    """Derive terms of order k + 1: those of order k of the op's tangent on the curve, / (k + 1)."""
    moving = [i for i, x in enumerate(ins) if _is(x)]

    def tangent(*args: object) -> list:
        values, slopes = list(args[: len(ins)]), args[len(ins) :]

        def op(*xs: object) -> Any:
            full = list(values)
            for i, x in zip(moving, xs, strict=True):
                full[i] = x
            return prim.bind(*full, **params)

        moved = weft.jvp(op, tuple(values[i] for i in moving), tuple(slopes))[1]
        return list(moved) if prim.multiple_results else [moved]

    slopes = [Series([c * k for k, c in enumerate(ins[i].terms) if k]) for i in moving]
    shorter = [Series(x.terms[:order]) if _is(x) else x for x in ins]
    avals = [typeof(_primal(x)) for x in (*ins, *slopes)]
    jaxpr, consts = trace_to_jaxpr(tangent, avals, prim.name)
    coefficients = _run(ClosedJaxpr(jaxpr, consts), [*shorter, *slopes], order - 1)
    firsts = prim.bind(*map(_primal, ins), **params)
    outs: list = []
    for y, slope in zip(firsts if prim.multiple_results else [firsts], coefficients, strict=True):
        if not dtypes.is_inexact(typeof(y).dtype):
            outs.append(y)
            continue
        terms = as_series(slope, order - 1).terms
        outs.append(Series([y, *(c / (k + 1) for k, c in enumerate(terms))]))
    return outs if prim.multiple_results else outs[0]


# Recurrences --------------------------------------------------------------------------------------


def _slopes(x: Series) -> list:
    """Return the coefficients of the derivative."""
    return [c * k for k, c in enumerate(x.terms) if k]


def _exp(order: int, ins: list, params: dict) -> Series:
    """y' = y x'"""
    dx, y = _slopes(ins[0]), [wnp.exp(ins[0].terms[0])]
    for k in range(order):
        y.append(_convolved(y, dx, k) / (k + 1))
    return Series(y)


def _log(order: int, ins: list, params: dict) -> Series:
    """Return x y' = x'"""
    x, dx = ins[0].terms, _slopes(ins[0])
    y, dy = [wnp.log(x[0])], list[Any]()
    for k in range(order):
        rest = dx[k] - sum((dy[j] * x[k - j] for j in range(k)), wnp.zeros_like(x[0]))
        dy.append(rest / x[0])
        y.append(dy[k] / (k + 1))
    return Series(y)


def _pair(first: Callable, second: Callable, sign: int, which: int) -> Callable:
    """s' = c x' and c' = sign s x'"""

    def rule(order: int, ins: list, params: dict) -> Series:
        dx = _slopes(ins[0])
        s, c = [first(ins[0].terms[0])], [second(ins[0].terms[0])]
        for k in range(order):
            new = _convolved(c, dx, k) / (k + 1), sign * _convolved(s, dx, k) / (k + 1)
            s.append(new[0])
            c.append(new[1])
        return Series((s, c)[which])

    return rule


def _own_square(first: Callable, slope: Callable) -> Callable:
    """y' = g(y) x', where g(y, k) is the coefficient of order k of a polynomial of y."""

    def rule(order: int, ins: list, params: dict) -> Series:
        dx, y, g = _slopes(ins[0]), [first(ins[0].terms[0])], []
        for k in range(order):
            g.append(slope(y, k))
            y.append(_convolved(g, dx, k) / (k + 1))
        return Series(y)

    return rule


def _one_minus_square(y: list, k: int) -> Any:
    return (1 if k == 0 else 0) - _convolved(y, y, k)


def _minus_square(y: list, k: int) -> Any:
    return y[k] - _convolved(y, y, k)


def _one_plus_square(y: list, k: int) -> Any:
    return (1 if k == 0 else 0) + _convolved(y, y, k)


def _div(order: int, ins: list, params: dict) -> Series:
    """y b = a"""
    if not _is(ins[1]):
        return Series([c / ins[1] for c in ins[0].terms])
    a, b, y = as_series(ins[0], order).terms, ins[1].terms, list[Any]()
    for k in range(order + 1):
        rest = a[k]
        for j in range(k):
            rest = rest - y[j] * b[k - j]
        y.append(rest / b[0])
    return Series(y)


# Ops that run jaxprs ------------------------------------------------------------------------------


def _call(order: int, ins: list, params: dict) -> list:
    return _run(params["jaxpr"], ins, order)


def _packed(values: Sequence[Any], like: Sequence[Any], order: int) -> list:
    """Pack the terms of inexact values as lists, so that branches have one structure."""
    return [
        as_series(x, order).terms if dtypes.is_inexact(a.dtype) else _primal(x)
        for x, a in zip(values, like, strict=True)
    ]


def _opened(values: Sequence[Any]) -> list:
    return [Series(x) if isinstance(x, list) else x for x in values]


def _cond(order: int, ins: list, params: dict) -> list:
    branches = params["branches"]
    operands, types = ins[1:], branches[0].out_avals
    packed = [x.terms if _is(x) else x for x in operands]
    runs = [lambda *xs, b=b: _packed(_run(b, _opened(xs), order), types, order) for b in branches]
    return _opened(lax.switch(ins[0], runs, *packed))


def _while(order: int, ins: list, params: dict) -> list:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    body, test = params["body_jaxpr"], params["cond_jaxpr"]
    types = body.out_avals

    def step(carry: Any) -> Any:
        return _packed(_run(body, [*ins[n : n + m], *_opened(carry)], order), types, order)

    def go_on(carry: Any) -> Any:
        return _run(test, [*ins[:n], *_opened(carry)], 0)[0]

    return _opened(lax.while_loop(go_on, step, _packed(ins[n + m :], types, order)))


def _scan(order: int, ins: list, params: dict) -> list:
    n, count = params["num_consts"], params["num_carry"]
    types = params["jaxpr"].out_avals
    xs = [x.terms if _is(x) else x for x in ins[n + count :]]

    def body(carry: list, xs: list) -> tuple:
        outs = _run(params["jaxpr"], [*ins[:n], *_opened(carry), *_opened(xs)], order)
        packed = _packed(outs, types, order)
        return packed[:count], packed[count:]

    options = {k: params[k] for k in ("length", "reverse", "unroll")}
    init = _packed(ins[n : n + count], types[:count], order)
    result: Any = lax.scan(body, init, xs, **options)
    carry, ys = result
    return [*_opened(carry), *_opened(ys)]


_RULES: dict[str, Callable] = {
    "exp": _exp,
    "log": _log,
    "sin": _pair(wnp.sin, wnp.cos, -1, 0),
    "cos": _pair(wnp.sin, wnp.cos, -1, 1),
    "sinh": _pair(wnp.sinh, wnp.cosh, 1, 0),
    "cosh": _pair(wnp.sinh, wnp.cosh, 1, 1),
    "tan": _own_square(wnp.tan, _one_plus_square),
    "tanh": _own_square(wnp.tanh, _one_minus_square),
    "logistic": _own_square(weft.nn.sigmoid, _minus_square),
    "div": _div,
    "stop_gradient": lambda order, ins, params: _primal(ins[0]),
    **dict.fromkeys(("jit", "remat2", "custom_vjp_call", "custom_vmap_call"), _call),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}

seal(globals())

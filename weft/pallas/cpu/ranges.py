"""Ranges of whole numbers in kernels, by interval arithmetic: which positions need no check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, Literal

Range = tuple[int, int]
"""The least and the greatest value that elements can have."""

Known = Range | None
"""A range, or None where nothing but the dtype is known."""


def whole(dtype: object) -> Known:
    """All values of a dtype of integers or truth values."""
    if dtype == np.bool_:
        return 0, 1
    if not dtypes.is_integer(dtype):
        return None
    limits = dtypes.iinfo(dtype)
    return int(limits.min), int(limits.max)


def of_values(values: object) -> Known:
    """The range of a constant."""
    array = np.asarray(values)
    if not array.size or array.dtype.kind not in "biu":
        return None
    return int(array.min()), int(array.max())


def of_result(eqn: Eqn, ranges: Sequence[Known]) -> Known:
    """The range of an equation's result, from those of its operands."""
    aval = eqn.outvars[0].aval
    name = eqn.primitive.name
    if whole(aval.dtype) is None:
        return None
    if name == "iota":
        return 0, max(aval.shape[eqn.params["dimension"]] - 1, 0)
    rule = _RULES.get(name)
    if rule is None:
        return None
    full = [r or whole(v.aval.dtype) for r, v in zip(ranges, eqn.invars, strict=True)]
    if not full or any(r is None for r in full):
        return None
    return within(aval.dtype, rule(*full))  # what may have wrapped around can be anything


def within(dtype: object, known: Known) -> Known:
    """The range, if no value of it leaves the dtype; None else."""
    limits = whole(dtype)
    if known is None or limits is None or known[0] < limits[0] or known[1] > limits[1]:
        return None
    return known


def increment(body: ClosedJaxpr, carry: int, place: int) -> int | None:
    """Returns the positive constant that every iteration adds to a carried number, if it does.

    carry: the position of its operand in the loop's body; place: of its result.
    """
    out, variable = body.jaxpr.outvars[place], body.jaxpr.invars[carry]
    if out is variable:
        return 0
    for eqn in body.jaxpr.eqns:
        if eqn.primitive.name == "add" and out in eqn.outvars:
            for a, b in (eqn.invars, eqn.invars[::-1]):
                if a is variable and isinstance(b, Literal) and np.ndim(b.val) == 0 and b.val > 0:
                    return int(b.val)
    return None


def of_while(params: dict[str, Any], operands: Sequence[Known]) -> list[Known]:
    """The ranges of a while loop's carries in its body.

    given: of the constants of its condition, and of the first carries. One that only grows by
    constants, and that the condition compares with a bound, stays between its start and the bound.
    """
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond = params["cond_jaxpr"].jaxpr
    first = operands[n_cond:]
    steps = [increment(params["body_jaxpr"], n_body + k, k) for k in range(len(first))]
    ranges = [r if step == 0 else None for r, step in zip(first, steps, strict=True)]
    if len(cond.eqns) != 1 or cond.eqns[0].primitive.name != "lt":
        return ranges
    counter, bound = cond.eqns[0].invars
    if isinstance(counter, Literal) or cond.eqns[0].outvars[0] is not cond.outvars[0]:
        return ranges
    place = cond.invars.index(counter) - n_cond
    if isinstance(bound, Literal):
        most = of_values(bound.val)
    else:
        most = [*operands[:n_cond], *ranges][cond.invars.index(bound)]
    if most is None:
        most = whole(counter.aval.dtype)
    if place >= 0 and steps[place] and first[place] is not None and most is not None:
        ranges[place] = (first[place][0], max(most[1] - 1, first[place][0]))
    return ranges


def _union(*ranges: Range) -> Range:
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def _corners(op: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    def rule(x: Range, y: Range) -> Range:
        values = [op(a, b) for a in x for b in y]
        return min(values), max(values)

    return rule


def _quotient(a: int, b: int) -> int:
    """Division that rounds to zero, as the op."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _div(x: Range, y: Range) -> Known:
    return _corners(_quotient)(x, y) if y[0] > 0 else None


def _rem(x: Range, y: Range) -> Known:
    if y[0] <= 0:
        return None
    least = 0 if x[0] >= 0 else max(x[0], 1 - y[1])
    return least, max(min(x[1], y[1] - 1), 0)


def _and(x: Range, y: Range) -> Known:
    bounds = [r[1] for r in (x, y) if r[0] >= 0]
    return (0, min(bounds)) if bounds else None


def _or(x: Range, y: Range) -> Known:
    if x[0] < 0 or y[0] < 0:
        return None
    return max(x[0], y[0]), (1 << max(x[1], y[1]).bit_length()) - 1


def _shift(x: Range, y: Range) -> Known:
    return _corners(lambda a, b: a >> b)(x, y) if y[0] >= 0 and y[1] < 64 else None


def _select(which: Range, *cases: Range) -> Range:
    if which[0] < 0 or which[1] >= len(cases):
        return _union(*cases)
    return _union(*cases[which[0] : which[1] + 1])


def _compare(surely: Callable[[Range, Range], bool], never: Callable[[Range, Range], bool]) -> Any:
    return lambda x, y: (int(surely(x, y)), int(not never(x, y)))


def _same(x: Range, *rest: Range) -> Range:
    return x


_RULES: dict[str, Callable[..., Known]] = {
    "add": _corners(lambda a, b: a + b),
    "sub": _corners(lambda a, b: a - b),
    "mul": _corners(lambda a, b: a * b),
    "max": _corners(max),
    "min": _corners(min),
    "div": _div,
    "rem": _rem,
    "and": _and,
    "or": _or,
    "shift_right_arithmetic": _shift,
    "neg": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (max(x[0], -x[1], 0), max(x[1], -x[0])),
    "clamp": lambda low, x, high: (
        min(max(x[0], low[0]), high[0]),
        min(max(x[1], low[1]), high[1]),
    ),
    "select_n": _select,
    "concatenate": _union,
    "lt": _compare(lambda x, y: x[1] < y[0], lambda x, y: x[0] >= y[1]),
    "le": _compare(lambda x, y: x[1] <= y[0], lambda x, y: x[0] > y[1]),
    "gt": _compare(lambda x, y: x[0] > y[1], lambda x, y: x[1] <= y[0]),
    "ge": _compare(lambda x, y: x[0] >= y[1], lambda x, y: x[1] < y[0]),
    **dict.fromkeys(
        (
            *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "rev", "slice"),
            *("dynamic_slice", "convert_element_type", "reduce_max", "reduce_min", "copy"),
        ),
        _same,
    ),
}
"""Op → the range of its result from its operands'."""

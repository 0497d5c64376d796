# Tests: tests/pallas/test_array_functions.py
"""Convolutions and reductions of windows: what every place in the window covers, one by one.

What a place covers is a strided part of the padded operand, so nothing is copied but the padding:
https://arxiv.org/abs/1808.05567 calls such a sum of products a shifted one. With one feature for
each weight (depthwise, or a signal) the products are elementwise and one loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.vmap_api import vmap
from weft.autodiff.shape import moveaxis, transpose
from weft.autodiff.zeros import full
from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, eval_closed
from weft.ops import elementwise_api
from weft.ops.control.loops import fori_loop
from weft.ops.dot import dot_general
from weft.ops.dynamic_slicing import dynamic_slice
from weft.ops.joining import pad
from weft.ops.promote import broadcast_to
from weft.ops.reduce import highest, lowest
from weft.ops.slicing import slice as window_of

if TYPE_CHECKING:
    from weft.runtime.array import Array

UNROLLED = 16
"""Places of a window up to which each has code of its own, if that is an elementwise product:
they are one loop. Products of matrices are not joined, and their code takes long to compile."""


def _wide(dtype: np.dtype) -> Array:
    """Return the dtype in which elements of a dtype are accumulated."""
    return dtypes.float32 if dtypes.is_float(dtype) and dtype.itemsize < 4 else dtype


def _place(number: Array, window: Sequence[int]) -> list[Array]:
    """Return the indices of an element in a window, from its row-major number."""
    index: list[Any] = []
    for n in reversed(window):
        index.insert(0, number % n)
        number = number // n
    return index


def _convolution(eqn: Eqn, x: Array, y: Array) -> Array:
    result, params = eqn.outvars[0].aval, eqn.rule_params
    shape, dtype = result.shape, _wide(result.dtype)
    ls, rs, os = params["dimension_numbers"]
    groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
    strides, steps = params["window_strides"], params["rhs_dilation"]
    rank = len(strides)
    x = transpose(x, (ls[0], *ls[2:], ls[1]))
    y = transpose(y, (*rs[2:], rs[1], rs[0]))
    zero = x.dtype.type(0)
    between = [
        (low, high, d - 1)
        for (low, high), d in zip(params["padding"], params["lhs_dilation"], strict=True)
    ]
    x = pad(x, zero, [(0, 0, 0), *between, (0, 0, 0)])
    out = [shape[d] for d in os[2:]]
    window, outs = y.shape[:rank], y.shape[-1]
    split = max(groups, batch_groups)
    # [groups, batch, *space, features] and [*window, groups, features, results].
    if batch_groups > 1:
        x = x.reshape(split, x.shape[0] // split, *x.shape[1:])
    else:
        x = moveaxis(x.reshape(*x.shape[:-1], split, x.shape[-1] // split), rank + 1, 0)
    y = moveaxis(y.reshape(*window, y.shape[rank], split, outs // split), rank + 1, rank)
    spans = [(n - 1) * s + 1 for n, s in zip(out, strides, strict=True)]
    features = x.shape[-1]

    def term(covered: Array, weights: Array) -> Array:
        """Return [groups, batch, *out, results] of one place in the window."""
        if features == 1:
            scale = weights.reshape(split, *(1,) * (rank + 1), outs // split)
            return covered.astype(dtype) * scale.astype(dtype)
        flat = covered.reshape(split, -1, features)
        part = dot_general(
            flat, weights, (((2,), (1,)), ((0,), (0,))), preferred_element_type=dtype
        )
        return part.reshape(*covered.shape[:-1], outs // split)

    def at(index: Sequence[Array], steady: bool) -> Array:
        first = [p * step for p, step in zip(index, steps, strict=True)]
        if steady:
            ends = [f + n for f, n in zip(first, spans, strict=True)]
            starts, limits = [0, 0, *first, 0], [*x.shape[:2], *ends, features]
            covered = window_of(x, starts, limits, (1, 1, *strides, 1))
            return term(covered, y[tuple(index)])
        covered = dynamic_slice(x, (0, 0, *first, 0), (*x.shape[:2], *spans, features))[
            (slice(None), slice(None), *(slice(None, None, s) for s in strides))
        ]
        weights = dynamic_slice(y, (*index, 0, 0, 0), (*(1,) * rank, *y.shape[rank:]))
        return term(covered, weights.reshape(y.shape[rank:]))

    start = full((*x.shape[:2], *out, outs // split), 0, dtype)
    if 0 in (*shape, math.prod(window), features):
        total = start
    elif math.prod(window) <= (UNROLLED if features == 1 else 1):
        places = itertools.product(*map(range, window))
        total = at(next(places), True)
        for index in places:
            total = total + at(index, True)
    else:

        def add(k: Array, total: Array) -> Array:
            return total + at(_place(k, window), False)

        total = fori_loop(0, math.prod(window), add, start)
    # Results of a group are adjacent: groups stand before them, or before the batch.
    total = moveaxis(total, 0, rank + 1).reshape(*total.shape[1:-1], outs)
    inverse = [0] * (rank + 2)
    for k, d in enumerate((os[0], *os[2:], os[1])):
        inverse[d] = k
    return transpose(total, inverse).astype(result.dtype)


# Reductions -------------------------------------------------------------------------------------


def _reduced(
    p: dict[str, Any], shape: Sequence[int], xs: Sequence[Array], fills: Sequence, combine: Callable
) -> list:
    """combine(totals, parts) over all places in order, from the fills on."""
    window, strides = p["window_dimensions"], p["window_strides"]
    config = [
        (low, high, base - 1)
        for (low, high), base in zip(p["padding"], p["base_dilation"], strict=True)
    ]
    xs = [pad(x, fill, config) for x, fill in zip(xs, fills, strict=True)]
    totals = [broadcast_to(fill, tuple(shape)) for fill in fills]
    if 0 in shape:
        return totals
    spans = [(n - 1) * s + 1 for n, s in zip(shape, strides, strict=True)]
    every = tuple(slice(None, None, s) for s in strides)

    def add(k: int, totals: list) -> list:
        first = [i * d for i, d in zip(_place(k, window), p["window_dilation"], strict=True)]
        return combine(totals, [dynamic_slice(x, first, spans)[every] for x in xs])

    count = math.prod(window)
    if count > UNROLLED:
        return fori_loop(0, count, add, totals)
    for k in range(count):
        totals = add(k, totals)
    return totals


def _monoid(operation: str, identity: Callable) -> Callable:
    def make(eqn: Eqn, x: Array) -> Array:
        dtype = _wide(x.dtype)
        bind = getattr(elementwise_api, operation).bind
        combine = lambda totals, parts: [bind(totals[0], parts[0])]
        shape, fill = eqn.outvars[0].aval.shape, dtype.type(identity(dtype))
        (total,) = _reduced(eqn.rule_params, shape, [x.astype(dtype)], [fill], combine)
        return total.astype(x.dtype)

    return make


def _by_any_function(
    p: dict[str, Any], jaxpr: ClosedJaxpr, shape: Sequence[int], operands: Sequence[Array]
) -> list:
    count = len(operands) // 2
    function: Callable = lambda *xs: eval_closed(jaxpr, *xs)
    for _ in shape:
        function = vmap(function)
    combine = lambda totals, parts: function(*totals, *parts)
    return _reduced(p, shape, operands[:count], operands[count:], combine)


def _windows(eqn: Eqn, *operands: Array) -> list:
    p = eqn.rule_params
    return _by_any_function(p, p["jaxpr"], eqn.outvars[0].aval.shape, operands)


def _reduce(eqn: Eqn, *operands: Array) -> list:
    """Reduce by one window over all of the reduced dimensions."""
    whole, dims = operands[0].shape, eqn.rule_params["dimensions"]
    ones = (1,) * len(whole)
    p = {
        "window_dimensions": [n if d in dims else 1 for d, n in enumerate(whole)],
        "padding": ((0, 0),) * len(whole),
        **dict.fromkeys(("window_strides", "base_dilation", "window_dilation"), ones),
    }
    shape = [1 if d in dims else n for d, n in enumerate(whole)]
    outs = _by_any_function(p, eqn.rule_params["jaxpr"], shape, operands)
    return [x.reshape(v.aval.shape) for x, v in zip(outs, eqn.outvars, strict=True)]


FORMULAS: dict[str, Callable] = {
    "conv_general_dilated": _convolution,
    "reduce_window_sum": _monoid("add_p", lambda dtype: 0),
    "reduce_window_max": _monoid("max_p", lowest),
    "reduce_window_min": _monoid("min_p", highest),
    "reduce_window": _windows,
    "reduce": _reduce,
}
"""Op → function(equation, *operands)."""

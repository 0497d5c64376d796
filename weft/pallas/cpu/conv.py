"""Convolutions: for every place in the window, the product of what it covers with its weights.

The windows of a place are a strided part of the padded operand, so nothing is copied but the
padding: https://arxiv.org/abs/1808.05567 calls such a sum of products a shifted one. With one
feature for each weight (depthwise, or a signal) the products are elementwise and one loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.trace import trace_to_jaxpr
from weft.pallas.cpu import types
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array, size_of

UNROLLED = 16
"""Places of a window up to which each has code of its own, if that is an elementwise product:
they are one loop. Products of matrices are not joined, and their code takes long to compile."""


@rule("conv_general_dilated")
def _convolution(t: Translator, eqn: Any, x: Array, y: Array) -> Any:
    t.check_dtypes(eqn, (x, y))
    result = eqn.outvars[0].aval
    wide = dtypes.float32 if types.is_small_float(result.dtype) else result.dtype

    def formula(x: Any, y: Any) -> list:
        return [convolved(x, y, eqn.params, wide, tuple(result.shape)).astype(result.dtype)]

    avals = [ShapedArray(o.shape, o.dtype) for o in (x, y)]
    jaxpr, consts = trace_to_jaxpr(formula, avals)
    return t.run(jaxpr, [*(t.literal(c) for c in consts), x, y])


def convolved(x: Any, y: Any, params: dict[str, Any], dtype: Any, shape: Sequence[int]) -> Any:
    """The convolution as other ops, summed in `dtype`; shape: of the result."""
    from weft.ops.control.loops import fori_loop
    from weft.ops.dot import dot_general
    from weft.ops.dynamic_slicing import dynamic_slice
    from weft.ops.joining import pad
    from weft.ops.shape import moveaxis, transpose
    from weft.ops.slicing import slice as window_of
    from weft.ops.special import full

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

    def term(covered: Any, weights: Any) -> Any:
        """[groups, batch, *out, results] of one place in the window."""
        if features == 1:
            scale = weights.reshape(split, *(1,) * (rank + 1), outs // split)
            return covered.astype(dtype) * scale.astype(dtype)
        flat = covered.reshape(split, -1, features)
        part = dot_general(
            flat, weights, (((2,), (1,)), ((0,), (0,))), preferred_element_type=dtype
        )
        return part.reshape(*covered.shape[:-1], outs // split)

    def at(place: Sequence[Any], steady: bool) -> Any:
        first = [p * step for p, step in zip(place, steps, strict=True)]
        if steady:
            ends = [f + n for f, n in zip(first, spans, strict=True)]
            starts, limits = [0, 0, *first, 0], [*x.shape[:2], *ends, features]
            covered = window_of(x, starts, limits, (1, 1, *strides, 1))
            return term(covered, y[tuple(place)])
        covered = dynamic_slice(x, (0, 0, *first, 0), (*x.shape[:2], *spans, features))[
            (slice(None), slice(None), *(slice(None, None, s) for s in strides))
        ]
        weights = dynamic_slice(y, (*place, 0, 0, 0), (*(1,) * rank, *y.shape[rank:]))
        return term(covered, weights.reshape(y.shape[rank:]))

    start = full((*x.shape[:2], *out, outs // split), 0, dtype)
    if 0 in (*shape, size_of(window), features):
        total = start
    elif size_of(window) <= (UNROLLED if features == 1 else 1):
        places = itertools.product(*map(range, window))
        total = at(next(places), True)
        for place in places:
            total = total + at(place, True)
    else:

        def add(k: Any, total: Any) -> Any:
            place: list[Any] = []
            for n in reversed(window):
                place.insert(0, k % n)
                k = k // n
            return total + at(place, False)

        total = fori_loop(0, size_of(window), add, start)
    # Results of a group are adjacent: groups stand before them, or before the batch.
    total = moveaxis(total, 0, rank + 1).reshape(*total.shape[1:-1], outs)
    inverse = [0] * (rank + 2)
    for k, d in enumerate((os[0], *os[2:], os[1])):
        inverse[d] = k
    return transpose(total, inverse)

"""Reductions of windows: all of one offset into their window at a time, rows added to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import dtypes
from weft.pallas.cpu import loops, scalar, types
from weft.pallas.cpu.arrays import converted, padded
from weft.pallas.cpu.llvm import Index
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array, Buffer, no_indices, register

Combine = Callable[[list[str], list[str]], list[str]]
"""From what was reduced so far and the next elements to what is reduced with them."""


def _filled(t: Translator, shape: Sequence[int], fill: Array) -> Buffer:
    target = t.temporary(shape, fill.dtype)
    shape = tuple(shape)
    t.store(target, Array(shape, fill.dtype, lambda f, i: fill.at(f, ()), [(fill, no_indices)]))
    return target


def _reduced(
    t: Translator, params: Any, xs: Sequence[Array], fills: Sequence[Array], combine: Combine
) -> list[Array]:
    f = t.f
    sizes, steps = params["window_dimensions"], params["window_strides"]
    dilation = params["window_dilation"]
    config = [
        (low, high, base - 1)
        for (low, high), base in zip(params["padding"], params["base_dilation"], strict=True)
    ]
    sources = [
        t.materialize(padded(t, x, fill, config) if any(map(any, config)) else x)
        for x, fill in zip(xs, fills, strict=True)
    ]
    shape = tuple(
        0 if n < (size - 1) * wide + 1 else (n - (size - 1) * wide - 1) // step + 1
        for n, size, wide, step in zip(sources[0].shape, sizes, dilation, steps, strict=True)
    )
    targets = [_filled(t, shape, fill) for fill in fills]

    def at_offset(offset: list[Index]) -> None:
        views = []
        for source in sources:
            first = f.dot(offset, source.strides)
            strides = [f.mul(s, k) for s, k in zip(source.strides, steps, strict=True)]
            views.append(source.view(f, first, shape, strides))

        def body(indices: tuple[Index, ...]) -> None:
            before = [target.load(f, indices) for target in targets]
            results = combine(before, [view.load(f, indices) for view in views])
            for target, result in zip(targets, results, strict=True):
                target.store(f, indices, result)

        loops.nest(f, shape, body)

    def level(offset: list[Index]) -> None:
        d = len(offset)
        if d == len(sizes):
            at_offset(offset)
        elif sizes[d] == 1:
            level([*offset, 0])
        else:
            with f.loop(0, sizes[d]) as loop:
                level([*offset, f.mul(loop.index, dilation[d])])

    with f.scope():
        level([])
    return [Array(shape, target.dtype, buffer=target) for target in targets]


def _monoid(kind: str, op: str) -> None:
    @rule(f"reduce_window_{kind}")
    def code(t: Translator, eqn: Any, x: Array) -> Array:
        t.check_dtypes(eqn, (x,))
        if kind != "sum":
            t.check_ordered(eqn, x)
        dtype = dtypes.float32 if types.is_small_float(x.dtype) else x.dtype
        fill = register(scalar.identity_of(kind, dtype), dtype)

        def combine(total: list[str], new: list[str]) -> list[str]:
            return [scalar.emit(t.f, op, dtype, [*total, *new], {}, dtype)]

        (out,) = _reduced(t, eqn.params, [converted(x, dtype)], [fill], combine)
        return converted(out, x.dtype)


for _kind, _op in (("sum", "add"), ("max", "max"), ("min", "min")):
    _monoid(_kind, _op)


@rule("reduce_window")
def _any_function(t: Translator, eqn: Any, *operands: Array) -> list[Array]:
    t.check_dtypes(eqn, operands)
    count = len(operands) // 2
    xs, fills = operands[:count], operands[count:]

    def combine(total: list[str], new: list[str]) -> list[str]:
        values = [t.scalar(v, x.dtype) for v, x in zip((*total, *new), (*xs, *xs), strict=True)]
        return [out.at(t.f, ()) for out in t.run(eqn.params["jaxpr"], values)]

    return _reduced(t, eqn.params, xs, fills, combine)

# Tests: tests/pallas/test_cpu.py
"""Ops that move elements: broadcasts, reshapes, slices, joins, iota, conversions, selections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import weft.pallas.cpu.loops as loops
import weft.pallas.cpu.scalar as scalar
import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.core.shapes import dimension_groups
from weft.pallas.combiners import CUMULATIVE, REDUCTIONS
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import (
    COSTLY,
    Array,
    Buffer,
    no_indices,
    same_indices,
    size_of,
)
from weft.pallas.ir import row_major

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn


def selected(
    t: Translator, x: Array, shape: Sequence[int], dims: Sequence[tuple[Index, int, int | None]]
) -> Array:
    """Return the elements of x whose index along each dimension is start + step * i[k].

    dims: (start, step, k) for each dimension of x; k is a dimension of the result, or None for the
    start alone.
    """
    f, shape, moves = t.f, tuple(shape), any(d[:2] != (0, 1) for d in dims)
    if x.producer is not None:
        t.materialize(x)
    if x.buffer is not None:
        strides: list[Index] = [0] * len(shape)
        for (_, step, k), stride in zip(dims, x.buffer.strides, strict=True):
            if k is not None:
                strides[k] = f.mul(stride, step)
        offset = f.dot([start for start, _, _ in dims], x.buffer.strides)
        return Array(shape, x.dtype, buffer=x.buffer.view(f, offset, shape, strides))

    def of_operand(i: tuple) -> tuple:
        if not moves:
            return tuple(0 if k is None else i[k] for _, _, k in dims)
        return tuple(s if k is None else f.add(f.mul(i[k], n), s) for s, n, k in dims)

    inputs = [(x, None if moves else of_operand)]
    return Array(shape, x.dtype, lambda f, i: x.at(f, of_operand(i)), inputs)


@rule("broadcast_in_dim")
def _broadcast(t: Translator, eqn: Eqn, x: Array, *rest: object) -> Array:
    shape, dims = eqn.rule_params["shape"], eqn.rule_params["broadcast_dimensions"]
    if not x.shape:
        return pointwise(shape, x.dtype, lambda f, i: x.at(f, ()), [x], 0)
    if x.buffer is None and x.cost >= COSTLY and size_of(shape) > size_of(x.shape):
        x.kept = True
    one = [x.shape[k] == 1 and shape[d] != 1 for k, d in enumerate(dims)]
    return selected(t, x, shape, [(0, 1, None if n else d) for d, n in zip(dims, one, strict=True)])


@rule("iota")
def _iota(t: Translator, eqn: Eqn, *rest: object) -> Array:
    p = eqn.rule_params
    dtype, dim = p["dtype"], p["dimension"]

    def element(f: Function, indices: tuple) -> str:
        value = str(indices[dim])
        if dtypes.is_float(dtype):
            return scalar.convert(f, value, dtypes.uint64, dtype)
        if types.bits(dtype) == 64:
            return value
        return f.op(f"trunc i64 {value} to {types.register(dtype)}")

    return Array(p["shape"], dtype, element, (), 1)


@rule("convert_element_type")
def _convert(t: Translator, eqn: Eqn, x: Array) -> Array:
    new = eqn.rule_params["new_dtype"]
    if new == x.dtype:
        return x
    return converted(x, new)


def converted(x: Array, dtype: np.dtype) -> Array:
    """Return the array in another dtype."""
    if x.dtype == dtype:
        return x
    wider = types.is_small_float(x.dtype) and dtypes.is_float(dtype)
    element = lambda f, i: scalar.convert(f, x.at(f, i), x.dtype, dtype)
    return pointwise(x.shape, dtype, element, [x], 0 if wider else 1)


def pointwise(
    shape: Sequence[int],
    dtype: np.dtype,
    element: Callable,
    operands: Sequence[Array],
    cost: int = 1,
) -> Array:
    """Return a formula of the elements of operands at the same indices, or of scalars."""
    inputs = [(o, same_indices if o.shape or not shape else no_indices) for o in operands]
    return Array(tuple(shape), dtype, element, inputs, cost, pointwise=True)


@rule("elements")
def _elements(t: Translator, eqn: Eqn, x: Array, *places: Array) -> Array:
    for operand in (x, *places):
        if operand.waiting():
            t.materialize(operand)

    def element(f: Function, i: tuple) -> str:
        return x.at(f, tuple(scalar.convert(f, p.at(f, i), p.dtype, dtypes.int64) for p in places))

    inputs = [(x, None), *((p, same_indices) for p in places)]
    return Array(places[0].shape, x.dtype, element, inputs, 4)


# Shapes ----------------------------------------------------------------------------------------


@rule("transpose")
def _transpose(t: Translator, eqn: Eqn, x: Array) -> Array:
    return transposed(t, x, eqn.rule_params["permutation"])


def transposed(t: Translator, x: Array, permutation: Sequence[int]) -> Array:
    shape = tuple(x.shape[d] for d in permutation)
    return selected(t, x, shape, [(0, 1, permutation.index(d)) for d in range(len(shape))])


def reshaped_strides(buffer: Buffer, shape: Sequence[int]) -> list[Index] | None:
    """Return strides of the same elements in another shape, where there are such."""
    if 0 in shape:
        return list(row_major(shape))
    result: list[Index] = [0] * len(shape)
    for old, new in dimension_groups(buffer.shape, tuple(shape)):
        # A run is adjacent in memory if each dimension steps over all of the next one.
        strides = [buffer.strides[d] for d in old]
        step = strides[-1]
        if len(old) + len(new) > 2 and not all(isinstance(s, int) for s in strides):
            return None
        inner = zip(strides, strides[1:], old[1:], strict=False)
        if any(outer != buffer.shape[d] * int(s) for outer, s, d in inner):
            return None
        for d in reversed(new):
            result[d] = step
            step = step if d == new[0] else int(step) * shape[d]
    return result


@rule("reshape")
def _reshape(t: Translator, eqn: Eqn, x: Array) -> Array:
    return reshaped(t, x, tuple(eqn.outvars[0].aval.shape))


def reshaped(t: Translator, x: Array, shape: tuple[int, ...]) -> Array:
    if x.shape == shape:
        return x
    if size_of(shape) == 1 and x.buffer is None and x.producer is None:
        zeros = (0,) * len(x.shape)
        return Array(shape, x.dtype, lambda f, i: x.at(f, zeros), [(x, lambda i: zeros)])
    old = [d for d, n in enumerate(x.shape) if n != 1]
    new = [d for d, n in enumerate(shape) if n != 1]
    by_formula = x.buffer is None and x.producer is None
    if by_formula and [x.shape[d] for d in old] == [shape[d] for d in new]:
        new_dim = dict(zip(old, new, strict=True))
        return selected(t, x, shape, [(0, 1, new_dim.get(d)) for d in range(len(x.shape))])
    buffer = t.materialize(x)
    strides = reshaped_strides(buffer, shape)
    if strides is None:
        fresh = t.temporary(x.shape, x.dtype)
        loops.copy_elements(t.f, fresh, buffer)
        buffer, strides = fresh, list(row_major(shape))
    return Array(shape, x.dtype, buffer=buffer.view(t.f, 0, shape, strides))


@rule("rev")
def _rev(t: Translator, eqn: Eqn, x: Array) -> Array:
    dims = eqn.rule_params["dimensions"]
    if x.producer is not None:
        t.materialize(x)

    def element(f: Function, i: tuple) -> str:
        return x.at(f, tuple(f.sub(x.shape[d] - 1, v) if d in dims else v for d, v in enumerate(i)))

    return Array(x.shape, x.dtype, element, [(x, None)])


@rule("slice")
def _slice(t: Translator, eqn: Eqn, x: Array) -> Array:
    starts = eqn.rule_params["start_indices"]
    steps = eqn.rule_params["strides"] or (1,) * len(starts)
    shape = tuple(eqn.outvars[0].aval.shape)
    return sliced(t, x, starts, steps, shape)


def sliced(
    t: Translator, x: Array, starts: Sequence, steps: tuple, shape: tuple[int, ...]
) -> Array:
    if x.kept:
        t.materialize(x)
    return selected(t, x, shape, list(zip(starts, steps, range(len(shape)), strict=True)))


def _clamped_starts(t: Translator, starts: Sequence[Array], shape: tuple, sizes: tuple) -> list:
    return [
        t.f.minimum(t.f.maximum(t.index(s), 0), n - k)
        for s, n, k in zip(starts, shape, sizes, strict=True)
    ]


@rule("dynamic_slice")
def _dynamic_slice(t: Translator, eqn: Eqn, x: Array, *starts: Array) -> Array:
    sizes = tuple(eqn.rule_params["slice_sizes"])
    where = _clamped_starts(t, starts, x.shape, sizes)
    return sliced(t, x, where, (1,) * len(sizes), sizes)


@rule("dynamic_update_slice")
def _dynamic_update(t: Translator, eqn: Eqn, x: Array, update: Array, *starts: Array) -> Array:
    where = _clamped_starts(t, starts, x.shape, update.shape)
    target = t.temporary(x.shape, x.dtype)
    t.store(target, x)
    part = target.view(t.f, t.f.dot(where, target.strides), update.shape, target.strides)
    t.store(part, update)
    return Array(x.shape, x.dtype, buffer=target)


@rule("concatenate")
def _concatenate(t: Translator, eqn: Eqn, *parts: Array) -> Array:
    dim = eqn.rule_params["dimension"]
    shape = tuple(eqn.outvars[0].aval.shape)
    target = t.temporary(shape, parts[0].dtype)
    start = 0
    for part in parts:
        offset = start * target.strides[dim]
        t.store(target.view(t.f, offset, part.shape, target.strides), part)
        start += part.shape[dim]
    return Array(shape, parts[0].dtype, buffer=target)


@rule("pad")
def _pad(t: Translator, eqn: Eqn, x: Array, fill: Array) -> Array:
    return padded(t, x, fill, eqn.rule_params["padding_config"])


def padded(t: Translator, x: Array, fill: Array, config: Sequence[tuple[int, int, int]]) -> Array:
    """Return x with (low, high, between) elements of fill around and between its own."""
    shape = tuple(
        low + high + n + max(n - 1, 0) * interior
        for n, (low, high, interior) in zip(x.shape, config, strict=True)
    )
    target = t.temporary(shape, x.dtype)
    t.store(target, Array(shape, x.dtype, lambda f, i: fill.at(f, ()), [(fill, no_indices)]))
    offset, sizes, strides, starts = 0, [], [], []
    for n, out, stride, (low, _, interior) in zip(
        x.shape, shape, target.strides, config, strict=True
    ):
        step = interior + 1
        # The elements of x that land inside: low + k * step in [0, out).
        first = max(0, -(low // step)) if low < 0 else 0
        end = min(n, (out - 1 - low) // step + 1)
        starts.append(first)
        sizes.append(max(0, end - first))
        offset += (low + first * step) * int(stride) if sizes[-1] else 0
        strides.append(int(stride) * step)
    if 0 not in sizes:
        part = sliced(t, x, starts, (1,) * len(sizes), tuple(sizes))
        t.store(target.view(t.f, offset, tuple(sizes), strides), part)
    return Array(shape, x.dtype, buffer=target)


# Reductions and scans --------------------------------------------------------------------------


@rule(*REDUCTIONS)
def _reduce(t: Translator, eqn: Eqn, x: Array) -> Array:
    op = REDUCTIONS[eqn.primitive.name]
    return loops.reduce(t.f, t.memory, x, eqn.rule_params["axes"], op)


@rule(*CUMULATIVE)
def _accumulate(t: Translator, eqn: Eqn, x: Array) -> Array:
    f, op, axis = t.f, CUMULATIVE[eqn.primitive.name], eqn.rule_params["axis"]
    target = t.temporary(x.shape, x.dtype)
    t.store(target, x)
    n = x.shape[axis]
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    if 0 in x.shape:
        return Array(x.shape, x.dtype, buffer=target)

    def place(indices: tuple, k: Index) -> tuple:
        k = f.sub(n - 1, k) if eqn.rule_params["reverse"] else k
        return (*indices[:axis], k, *indices[axis:])

    with f.loop(1, n) as loop:
        before = f.sub(loop.index, 1)

        def body(indices: tuple) -> None:
            where = place(indices, loop.index)
            pair = [target.load(f, place(indices, before)), target.load(f, where)]
            target.store(f, where, scalar.emit(f, op, x.dtype, pair, {}, x.dtype))

        loops.nest(f, rest, body)
    return Array(x.shape, x.dtype, buffer=target)

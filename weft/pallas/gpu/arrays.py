# Tests: tests/pallas/test_gpu.py
"""Shape ops, reductions, prefix sums and products of matrices in Triton IR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.jaxpr import Eqn
from weft.core.shapes import dimension_groups
from weft.ops.combiner import IDENTITIES
from weft.pallas.combiners import CUMULATIVE, REDUCTIONS
from weft.pallas.gpu.elementwise import convert, is_narrow
from weft.pallas.gpu.emitter import INT, Emitter, Number, i32_attr, padded, rule

# Shapes ------------------------------------------------------------------------------------------


@rule("broadcast_in_dim")
def _broadcast(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    shape, dims = eqn.rule_params["shape"], eqn.rule_params["broadcast_dimensions"]
    for axis in range(len(shape)):
        if dims and axis not in dims:
            x = e.expand(x, axis)
    return e.broadcast(x, shape)


@rule("reshape")
def _reshape(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    old, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if 0 not in old and all(
        [old[d] for d in a] == [new[d] for d in b] or _fill(old, a) and _fill(new, b)
        for a, b in dimension_groups(old, new)
    ):
        return e.reshape(x, new)
    # Sizes that are no powers of two are split or merged: what is padded lies elsewhere.
    number = e.constant(0, new)
    for d in range(len(new)):
        step = e.binary("mul", e.iota_along(new, d), math.prod(new[d + 1 :]))
        number = e.binary("add", number, step)
    return elements(e, x, dict(enumerate(e.unflatten(number, old))), old, new)


def _fill(shape: Sequence[int], dims: Sequence[int]) -> bool:
    """Return whether the array fills its tensor along these dimensions."""
    sizes = tuple(shape[d] for d in dims)
    return padded(sizes) == sizes


@rule("transpose")
def _transpose(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    return transpose(e, x, eqn.rule_params["permutation"])


def transpose(e: Emitter, x: ir.Value, order: tuple) -> ir.Value:
    if tuple(order) == tuple(range(len(order))):
        return x
    sizes = e.sizes(x)
    type_ = e.type([sizes[i] for i in order], e.element(x))
    attr = ir.DenseI32ArrayAttr.get(list(order), type_.context)
    return e.value("tt.trans", [x], type_, order=attr)


@rule("iota")
def _iota(e: Emitter, eqn: Eqn, *_: object) -> ir.Value:
    aval, axis = eqn.outvars[0].aval, eqn.rule_params["dimension"]
    return convert(e, e.iota_along(aval.shape, axis), INT, aval.dtype)


# Parts of values: Triton reads another position along one axis by tt.gather ----------------------


def take(e: Emitter, x: ir.Value, position: ir.Value, axis: int) -> ir.Value:
    """Return x at int32 `position`, a vector of (padded) size n: the axis gets that size."""
    sizes = e.sizes(x)
    (n,) = e.sizes(position)
    position = e.binary("max", e.binary("min", position, sizes[axis] - 1), 0)
    shape = (*sizes[:axis], n, *sizes[axis + 1 :])
    index = e.broadcast(e.along(position, axis, len(sizes)), shape)
    return e.value("tt.gather", [x, index], e.type(shape, e.element(x)), axis=i32_attr(axis))


def elements(
    e: Emitter, x: ir.Value, where: dict[int, ir.Value], old: Sequence[int], new: Sequence[int]
) -> ir.Value:
    """Return an array of shape `new` of those elements of x, of shape `old`, at these indices.

    where: dimension of x -> int32 indices of shape `new`, 0 along others. What lies past the end of
    the result may point anywhere.
    """
    linear, sizes = e.constant(0, new), padded(old)
    for d, index in where.items():
        linear = e.binary("add", linear, e.binary("mul", index, math.prod(sizes[d + 1 :])))
    flat = e.reshape(x, (math.prod(sizes),))
    return e.reshape(take(e, flat, e.reshape(linear, (math.prod(padded(new)),)), 0), new)


@rule("elements")
def _elements(e: Emitter, eqn: Eqn, x: ir.Value, *places: ir.Value) -> ir.Value:
    old, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    return elements(e, x, dict(enumerate(places)), old, new)


def affine(e: Emitter, n: int, start: Number, step: int = 1) -> ir.Value:
    """start + step * (0, 1, …), of (padded) size n; start an int or an int32 scalar."""
    return e.binary("add", e.binary("mul", e.iota(n), step), start)


@rule("slice")
def _slice(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    old, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    strides = eqn.rule_params["strides"] or (1,) * len(old)
    for axis, start in enumerate(eqn.rule_params["start_indices"]):
        if (start, new[axis], strides[axis]) != (0, old[axis], 1):
            x = take(e, x, affine(e, new[axis], start, strides[axis]), axis)
    return x


@rule("dynamic_slice")
def _dynamic_slice(e: Emitter, eqn: Eqn, x: ir.Value, *starts: ir.Value) -> ir.Value:
    old, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    for axis, (start, var) in enumerate(zip(starts, eqn.invars[1:], strict=True)):
        if old[axis] != new[axis]:
            start = convert(e, start, var.aval.dtype, INT)
            start = e.binary("max", e.binary("min", start, old[axis] - new[axis]), 0)
            x = take(e, x, affine(e, new[axis], start), axis)
    return x


@rule("rev")
def _rev(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    aval = eqn.invars[0].aval
    for axis in eqn.rule_params["dimensions"]:
        if aval.shape[axis] == 2:
            x = _swapped(e, x, axis, aval.dtype)
        else:
            x = take(e, x, affine(e, aval.shape[axis], aval.shape[axis] - 1, -1), axis)
    return x


def _swapped(e: Emitter, x: ir.Value, axis: int, dtype: np.dtype) -> ir.Value:
    """Return the two elements along an axis exchanged: each is the other one xor both.

    Threads pass them to each other so, where gathering goes through memory.
    """
    sizes, bits = e.sizes(x), dtype
    if dtypes.is_float(dtype):
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        x = e.value("tt.bitcast", [x], e.type(sizes, bits))
    (both,) = e.reduce_with([x], axis, lambda a, b: [e.binary("xor", a[0], b[0], bits)])
    other = e.binary("xor", x, e.broadcast(e.expand(both, axis), sizes), bits)
    return e.value("tt.bitcast", [other], e.type(sizes, dtype)) if bits != dtype else other


@rule("pad")
def _pad(e: Emitter, eqn: Eqn, x: ir.Value, value: ir.Value) -> ir.Value:
    shape, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    current = list(shape)
    for axis, (low, _, interior) in enumerate(eqn.rule_params["padding_config"]):
        n, step = shape[axis], interior + 1
        if new[axis] == n and low == 0:
            continue
        shifted = affine(e, new[axis], -low)
        position = e.binary("div", shifted, step)
        current[axis] = new[axis]
        inside = e.compare("ge", shifted, 0)
        if interior:
            inside = e.both(inside, e.compare("eq", e.binary("rem", shifted, step), 0))
        inside = e.both(inside, e.compare("lt", position, n))
        x = take(e, x, position, axis)
        mask = e.broadcast(e.along(inside, axis, len(shape)), current)
        x = e.select(mask, x, e.splat(value, current))
    return x


@rule("concatenate")
def _concatenate(e: Emitter, eqn: Eqn, *xs: ir.Value) -> ir.Value:
    aval, axis = eqn.outvars[0].aval, eqn.rule_params["dimension"]
    shape = aval.shape
    position, result, start = e.iota_along(shape, axis), None, 0
    for x, var in zip(xs, eqn.invars, strict=True):
        part = take(e, x, affine(e, shape[axis], -start), axis)
        if result is None:
            result = part
        else:
            result = e.select(e.compare("ge", position, start), part, result)
        start += var.aval.shape[axis]
    return result


# Reductions --------------------------------------------------------------------------------------


@rule(*REDUCTIONS)
def _reduce(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    op = REDUCTIONS[eqn.primitive.name]
    aval, axes = eqn.invars[0].aval, eqn.rule_params["axes"]
    x = e.masked(x, aval.shape, axes, IDENTITIES[op](aval.dtype), aval.dtype)
    for axis in sorted(axes, reverse=True):
        combine = lambda a, b: [e.binary(op, a[0], b[0], aval.dtype)]
        (x,) = e.reduce_with([x], axis, combine)
    return x


@rule(*CUMULATIVE)
def _cumulative(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    op = CUMULATIVE[eqn.primitive.name]
    aval, axis = eqn.invars[0].aval, eqn.rule_params["axis"]
    reverse = eqn.rule_params["reverse"]
    if reverse:  # what is past the end comes first
        x = e.masked(x, aval.shape, (axis,), IDENTITIES[op](aval.dtype), aval.dtype)
    combine = lambda a, b: [e.binary(op, a[0], b[0], aval.dtype)]
    return e.scan_with([x], axis, reverse, combine)[0]


# Products ----------------------------------------------------------------------------------------


@rule("dot_general")
def _dot(e: Emitter, eqn: Eqn, x: ir.Value, y: ir.Value) -> ir.Value:
    a, b, out = eqn.invars[0].aval, eqn.invars[1].aval, eqn.outvars[0].aval
    kind, lead = factor_dtype(e, eqn), a.ndim - 2
    x, y = convert(e, x, a.dtype, kind), convert(e, y, b.dtype, kind)
    *many, m, k = e.sizes(x)
    n, inner = e.sizes(y)[-1], a.shape[-1]
    # The matrix units take 16 × 16 and, of numbers of a byte, 32 along the summed dimension.
    rows, columns = max(m, 16), max(n, 16)
    depth = max(k, 32 if kind.itemsize == 1 else 16)
    x = repeat(e, repeat(e, x, lead, rows), lead + 1, depth)
    y = repeat(e, repeat(e, y, lead, depth), lead + 1, columns)
    x, y = cut(e, x, lead + 1, inner, kind), cut(e, y, lead, inner, kind)
    total = e.constant(0, (*many, rows, columns), accumulator(kind))
    attrs = {"inputPrecision": i32_attr(_precision(eqn)), "maxNumImpreciseAcc": i32_attr(0)}
    product = e.value("tt.dot", [x, y, total], total.type, **attrs)
    product = first(e, first(e, product, lead, m), lead + 1, n)
    return convert(e, product, accumulator(kind), out.dtype)


def cut(e: Emitter, x: ir.Value, axis: int, size: int, dtype: np.dtype) -> ir.Value:
    """Return the tensor with zeros from place `size` of an axis on."""
    sizes = e.sizes(x)
    if sizes[axis] == size:
        return x
    in_bounds = e.compare("lt", e.iota_along(sizes, axis), size)
    return e.select(in_bounds, x, e.constant(0, sizes, dtype))


def repeat(e: Emitter, x: ir.Value, axis: int, size: int) -> ir.Value:
    """Return the array repeated along an axis until it has that size."""
    sizes = e.sizes(x)
    if sizes[axis] == size:
        return x
    times = size // sizes[axis]
    x = e.broadcast(e.expand(x, axis), (*sizes[:axis], times, *sizes[axis:]))
    return e.reshape(x, (*sizes[:axis], size, *sizes[axis + 1 :]))


def first(e: Emitter, x: ir.Value, axis: int, size: int) -> ir.Value:
    """Return the first of the repetitions along an axis."""
    sizes = e.sizes(x)
    if sizes[axis] == size:
        return x
    x = e.reshape(x, (*sizes[:axis], sizes[axis] // size, size, *sizes[axis + 1 :]))
    return e.one_of(x, axis)


def factor_dtype(e: Emitter, eqn: Eqn) -> Any:
    """Return the dtype that factors of a product are multiplied in."""
    a, b = eqn.invars[0].aval.dtype, eqn.invars[1].aval.dtype
    if dtypes.is_float(a):
        if is_narrow(a) and is_narrow(b):  # both are exact in float16
            return a if a == b and e.converts_float8 else np.dtype(np.float16)
        return a if a == b else np.dtype(np.float64 if np.float64 in (a, b) else np.float32)
    if a == b == np.int8:
        return a
    long = max(a.itemsize, b.itemsize, eqn.outvars[0].aval.dtype.itemsize) > 4
    return np.dtype(np.int64) if long else INT


def accumulator(kind: np.dtype) -> Any:
    """Return the dtype in which products of factors of a dtype are added up."""
    if dtypes.is_integer(kind):
        return kind if kind.itemsize == 8 else INT
    return kind if kind == np.float64 else np.dtype(np.float32)


def _precision(eqn: Eqn) -> int:
    """Triton's input precision: TF32 by default, IEEE float32 for Precision.HIGHEST and HIGH."""
    return 2 if "HIGH" in str(eqn.rule_params["precision"]).upper() else 0

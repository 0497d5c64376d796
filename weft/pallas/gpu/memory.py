# Tests: tests/pallas/test_gpu.py
"""Refs of kernels on the GPU: pointers, masked loads and stores, atomics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft._xla import mlir, triton
from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.jaxpr import Eqn
from weft.core.ref import Indexer, Pick, Window, whole
from weft.pallas.gpu.elementwise import convert
from weft.pallas.gpu.emitter import BOOL, INT, Emitter, element_type, i32_attr, rule
from weft.pallas.gpu.registers import Cell
from weft.pallas.ir import ref_operands, row_major

LONG = np.dtype(np.int64)
BYTE = np.dtype(np.int8)


@dataclass(frozen=True, slots=True)
class View:
    """A ref: part of an array in global memory.

    pointer: to the array's first element. storage: tells arrays in different memory apart.
    shape, strides: of the ref's dimensions, in elements. offset: of the ref's first element from
    the pointer, in the index type. bounds: for each dimension None, or (low, high), int32 scalars
    or None: positions outside of low <= position < high are not in memory.
    """

    pointer: ir.Value
    storage: Any
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: ir.Value | None
    bounds: tuple
    wide: bool = False  # offsets need 64 bits

    @property
    def index_dtype(self) -> Any:
        return LONG if self.wide else INT

    def moved(self, e: Emitter, by: ir.Value) -> View:
        """Return the view `by` elements (an index scalar) further."""
        offset = by if self.offset is None else e.binary("add", self.offset, by, self.index_dtype)
        return replace(self, offset=offset)


def pointer_type(dtype: np.dtype) -> ir.Type:
    """Return the type of a pointer; booleans are bytes in memory."""
    return triton.pointer_type(element_type(BYTE if np.dtype(dtype) == BOOL else dtype))


def array_view(
    pointer: ir.Value, storage: int | tuple, shape: Sequence[int], dtype: np.dtype, copies: int = 1
) -> View:
    """Return a whole array as a ref, the first of so many that lie one after the other."""
    wide, none = math.prod(shape) * copies >= 1 << 31, (None,) * len(shape)
    strides = row_major(shape)
    return View(pointer, storage, np.dtype(dtype), tuple(shape), strides, None, none, wide)


# Order: threads of one program see each other's writes after a barrier --------------------------


def barrier(e: Emitter) -> None:
    """Have the program's threads wait for each other; their memory operations are done."""
    e.op("gpu.barrier", [])
    e.written.clear()
    e.read.clear()


def before_read(e: Emitter, view: View) -> None:
    if view.storage in e.written:
        barrier(e)
    e.read.add(view.storage)


def before_write(e: Emitter, view: View) -> None:
    e.stores += 1
    if view.storage in e.written or view.storage in e.read:
        barrier(e)
    e.written.add(view.storage)


# Addresses ---------------------------------------------------------------------------------------


def addresses(
    e: Emitter, view: View, indexer: Indexer, dynamic: Sequence[Any], types: Sequence[Any]
) -> tuple[ir.Value, ir.Value | None]:
    """Return pointers to the indexed elements, and where they may be used (None: everywhere).

    dynamic: the index operands, of the dtypes `types`.
    """
    shape, rank = indexer.shape, len(indexer.shape)
    kind = view.index_dtype
    positions = [convert(e, x, t, INT) for x, t in zip(dynamic, types, strict=True)]
    offset, mask = view.offset, e.inside(shape, range(rank))
    spread = None  # the offset as a tensor

    def scaled(index: ir.Value, stride: int) -> ir.Value:
        return e.binary("mul", convert(e, index, INT, kind), stride, kind)

    places = zip(indexer.attach(positions), indexer.axes(), strict=True)
    for ((dim, position), axes), size, stride, bound in zip(
        places, view.shape, view.strides, view.bounds, strict=True
    ):
        start = e.constant(position) if isinstance(position, int) else position
        if dim.__class__ is not Window and not isinstance(position, int):
            start = _from_start(e, start, size)
        index = start
        if dim.__class__ is Pick:
            for axis in range(rank):
                if axis not in axes:
                    index = e.expand(index, axis)
        elif dim.__class__ is Window:
            # The start is added to the one pointer: what the threads add to it stays constant.
            index = e.along(e.iota(dim.size), axes[0], rank)
            index = e.binary("mul", index, dim.stride)
            if position != 0:
                step = scaled(start, stride)
                offset = step if offset is None else e.binary("add", offset, step, kind)
                if bound is not None:
                    bound = tuple(b if b is None else e.binary("sub", b, start) for b in bound)
        mask = _bounded(e, mask, index, bound, shape)
        step = scaled(index, stride)
        if e.sizes(step):
            step = e.broadcast(step, shape)
            spread = step if spread is None else e.binary("add", spread, step, kind)
        else:
            offset = step if offset is None else e.binary("add", offset, step, kind)
    pointer = view.pointer
    if offset is not None:
        pointer = e.same("tt.addptr", pointer, offset)
    if not shape:
        return pointer, mask
    pointer = e.splat(pointer, shape)
    return (pointer if spread is None else e.same("tt.addptr", pointer, spread)), mask


def _from_start(e: Emitter, index: ir.Value, size: int) -> ir.Value:
    """Positions, negative ones counted from the end of the dimension."""
    return e.select(e.compare("lt", index, 0), e.binary("add", index, size), index)


def _bounded(
    e: Emitter, mask: ir.Value | None, index: ir.Value, bound: tuple | None, shape: Sequence[int]
) -> Any:
    if bound is None:
        return mask
    low, high = bound
    for limit, how in ((low, "ge"), (high, "lt")):
        if limit is not None:
            inside = e.compare(how, index, limit)
            mask = e.both(mask, e.broadcast(inside, shape) if shape else inside)
    return mask


# Loads and stores --------------------------------------------------------------------------------


def _segments(*counts: int) -> ir.Attribute:
    return ir.DenseI32ArrayAttr.get(list(counts), mlir.context())


_CACHE = {"cache": 1, "evict": 1}


def load(e: Emitter, pointer: ir.Value, mask: object, other: Any, dtype: Any, shape: Any) -> Any:
    """Return the elements at the pointers; `other`, or zero, where masked out."""
    kind = BYTE if dtype == BOOL else dtype
    operands = [pointer]
    if mask is not None:
        if other is None:
            other = e.constant(0, shape, kind)
        elif dtype == BOOL:
            other = convert(e, other, BOOL, BYTE)
        operands += [mask, other]
    attrs = {k: i32_attr(v) for k, v in _CACHE.items()}
    attrs["isVolatile"] = ir.BoolAttr.get(False, mlir.context())
    attrs["operandSegmentSizes"] = _segments(1, int(mask is not None), int(mask is not None))
    value = e.value("tt.load", operands, e.type(shape, kind), **attrs)
    return convert(e, value, BYTE, BOOL) if dtype == BOOL else value


def store(
    e: Emitter, pointer: ir.Value, value: ir.Value, mask: ir.Value | None, dtype: np.dtype
) -> None:
    if dtype == BOOL:
        value = convert(e, value, BOOL, BYTE)
    attrs = {k: i32_attr(v) for k, v in _CACHE.items()}
    e.op("tt.store", [pointer, value] + ([] if mask is None else [mask]), [], attrs)


def _spread(e: Emitter, x: object, var: Any, shape: Sequence[int]) -> Any:
    return e.splat(x, shape) if shape and not var.aval.shape else x


def _access(e: Emitter, eqn: Eqn, xs: Sequence[Any]) -> tuple:
    of, atoms = ref_operands(eqn, xs), ref_operands(eqn, eqn.invars)
    indexer = eqn.rule_params["indexer"]
    shape = indexer.shape
    pointer, mask = addresses(
        e, of.ref, indexer, of.positions, [v.aval.dtype for v in atoms.positions]
    )
    other = None
    if of.mask is not None:
        mask = e.both(mask, _spread(e, of.mask, atoms.mask, shape))
    if of.other is not None:
        other = _spread(e, of.other, atoms.other, shape)
    values = [_spread(e, x, v, shape) for x, v in zip(of.values, atoms.values, strict=True)]
    return of.ref, shape, pointer, mask, other, values


@rule("get")
def _get(e: Emitter, eqn: Eqn, *xs: ir.Value | View | Cell) -> ir.Value:
    if isinstance(xs[0], Cell):
        return e.cells[xs[0]]
    view, shape, pointer, mask, other, _ = _access(e, eqn, xs)
    before_read(e, view)
    return load(e, pointer, mask, other, view.dtype, shape)


@rule("set")
def _set(e: Emitter, eqn: Eqn, *xs: ir.Value | View | Cell) -> list:
    if isinstance(xs[0], Cell):
        e.cells[xs[0]] = _spread(e, xs[1], eqn.invars[1], xs[0].shape)
        return []
    view, _, pointer, mask, _, (value,) = _access(e, eqn, xs)
    before_write(e, view)
    store(e, pointer, value, mask, view.dtype)
    return []


@rule("addupdate")
def _addupdate(e: Emitter, eqn: Eqn, *xs: ir.Value | View) -> list:
    """At index arrays, where positions may repeat."""
    view, _, pointer, mask, _, (value,) = _access(e, eqn, xs)
    before_write(e, view)
    atomic(e, "add", pointer, value, mask, view.dtype)
    return []


def read_whole(e: Emitter, view: View) -> ir.Value:
    """Read all of a ref, as `ref[...]`."""
    pointer, mask = addresses(e, view, whole(view.shape), (), ())
    before_read(e, view)
    return load(e, pointer, mask, None, view.dtype, view.shape)


def write_whole(e: Emitter, view: View, value: ir.Value) -> None:
    pointer, mask = addresses(e, view, whole(view.shape), (), ())
    before_write(e, view)
    store(e, pointer, value, mask, view.dtype)


# Atomics -----------------------------------------------------------------------------------------

ACQUIRE, RELEASE, BOTH = 2, 3, 4  # Triton's memory orders
_ON_GPU = 1  # of scope: all programs of the launch
_RMW = {"and": 1, "or": 2, "xor": 3, "xchg": 10}


def atomic(
    e: Emitter,
    how: str,
    pointer: ir.Value,
    value: ir.Value,
    mask: object,
    dtype: np.dtype,
    order: int = BOTH,
) -> ir.Value:
    """Return an atomic read-modify-write; the old values."""
    check_atomic(e, how, dtype)
    if how in _RMW:
        code = _RMW[how]
    elif how == "add":
        code = 5 if dtypes.is_float(dtype) else 4
    else:
        if dtypes.is_float(dtype):
            raise e.fail("atomic max and min work on integers; use atomic_cas in a loop")
        code = {"max": 6, "min": 7}[how] + (0 if dtypes.is_signed(dtype) else 2)
    attrs = {
        "atomic_rmw_op": i32_attr(code),
        "sem": i32_attr(order),
        "scope": i32_attr(_ON_GPU),
    }
    operands = [pointer, value] + ([] if mask is None else [mask])
    return e.value("tt.atomic_rmw", operands, value.type, **attrs)


def check_atomic(e: Emitter, how: str, dtype: np.dtype) -> None:
    """Raise for what Triton has no atomic operation of."""
    short = dtypes.is_float(dtype) and dtype.itemsize == 2
    if dtype.itemsize < 4 and not (short and how == "add"):
        raise e.fail(
            f"atomic {how} of {dtype.name}: Triton has atomics of numbers of 32 and 64 bits, of "
            "float16 and bfloat16 only add; convert the array outside of the kernel"
        )


@rule("atomic_rmw")
def _atomic_rmw(e: Emitter, eqn: Eqn, *xs: ir.Value | View) -> ir.Value:
    view, _, pointer, mask, _, (value,) = _access(e, eqn, xs)
    before_write(e, view)
    return atomic(e, eqn.rule_params["op"], pointer, value, mask, view.dtype)


@rule("atomic_cas")
def _atomic_cas(e: Emitter, eqn: Eqn, *xs: object) -> ir.Value:
    view, _, pointer, _, _, (compare, value) = _access(e, eqn, xs)
    if view.dtype == BOOL or view.dtype.itemsize < 2:
        raise e.fail(f"atomic_cas of {view.dtype.name}: it works on 16, 32 and 64 bits")
    before_write(e, view)
    return compare_and_swap(e, pointer, compare, value)


def compare_and_swap(e: Emitter, pointer: ir.Value, old: ir.Value, new: ir.Value) -> ir.Value:
    attrs = {"sem": i32_attr(BOTH), "scope": i32_attr(_ON_GPU)}
    return e.value("tt.atomic_cas", [pointer, old, new], new.type, **attrs)

# Tests: tests/refs/test_api.py, tests/refs/test_indexing.py
"""Ops on refs: get, set, swap, addupdate and atomics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import moveaxis
from weft.autodiff.vmap import move_dim
from weft.core.aval import ShapedArray
from weft.core.caches import clearable
from weft.core.cell import DISCHARGE
from weft.core.dtypes import is_integer, short_name
from weft.core.effects import WRITES
from weft.core.errors import MissingRuleError
from weft.core.primitive import Primitive
from weft.core.ref import AbstractRef, Indexer, Pick, Window
from weft.core.trace import trace_to_jaxpr, typeof
from weft.ops.elementwise_api import convert, eq_p, select
from weft.refs.values import all_picks, read, write

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.typing import ArrayLike

_WRITES = frozenset((WRITES,))


def _value_aval(ref: AbstractRef, indexer: Indexer, index: Sequence[Any] = ()) -> ShapedArray:
    sharding = None if ref.inner.sharding is None else _sharding(ref.inner, indexer, tuple(index))
    return ShapedArray(indexer.shape, ref.dtype, ref.weak_type, sharding, ref.mat)


@clearable
@lru_cache(maxsize=1024)
def _sharding(inner: ShapedArray, indexer: Indexer, index: tuple) -> Any:
    """Return how the part of a ref is split: as the ops that read it from the array say."""
    jaxpr, _ = trace_to_jaxpr(lambda x, *at: [read(x, indexer, at)], [inner, *index], "a ref")
    return jaxpr.out_avals[0].sharding


def _check_ref(name: str, ref: AbstractRef) -> None:
    if not isinstance(ref, AbstractRef):
        raise TypeError(f"{name} works on a Ref, got {ref.str_short()}")


def _check_value(name: str, ref: AbstractRef, value: ShapedArray, indexer: Indexer) -> None:
    _check_ref(name, ref)
    if value.dtype != ref.dtype or value.shape != indexer.shape:
        raise TypeError(
            f"{name}: the value {value.str_short()} must have the type of the part of the ref it "
            f"goes to, {_value_aval(ref, indexer).str_short()}; convert it with "
            f".astype({short_name(ref.dtype)!r}) or broadcast it"
        )


# Batching --------------------------------------------------------------------------------------


def _batch_operands(
    axis: AxisData, args: Sequence[Any], dims: Sequence[Any], indexer: Indexer, num_values: int
) -> tuple[Indexer, list, int]:
    """(indexer, operands, batch dimension of the result) of an op for all examples at once.

    args: the ref, `num_values` values, the index operands, and mask and other if there are any;
    those and the values get the batch dimension where the result has it.
    """
    end = 1 + num_values + indexer.num_operands
    index, index_dims = args[1 + num_values : end], dims[1 + num_values : end]
    ref_dim, size = dims[0], axis.size
    if ref_dim is not None and not indexer.has_picks and all(d is None for d in index_dims):
        places = (*indexer.dims[:ref_dim], Window(0, size), *indexer.dims[ref_dim:])
        new, index = Indexer(places), list(index)
        at = sum(d.__class__ is Window for d in places[:ref_dim])
    else:
        index = [
            x if d is None else moveaxis(x, d, 0) for x, d in zip(index, index_dims, strict=True)
        ]
        new, index = all_picks(indexer, index, [d is not None for d in index_dims], size)
        at = 0
        if ref_dim is not None:
            rows = np.arange(size, dtype=np.int32).reshape((size,) + (1,) * (len(new.block) - 1))
            index.insert(ref_dim, np.broadcast_to(rows, new.block).copy())
            new = Indexer((Pick(), *new.dims), new.block)

    def aligned(x: ArrayLike, d: int) -> Any:
        if d is None and not typeof(x).ndim:
            return x if num_values == 0 else move_dim(x, None, at, axis)
        return move_dim(x, d, at, axis)

    values = [aligned(x, d) for x, d in zip(args[1 : 1 + num_values], dims[1:], strict=False)]
    rest = [aligned(x, d) for x, d in zip(args[end:], dims[end:], strict=True)]
    return new, [args[0], *values, *index, *rest], at


def _batch_write(prim: Callable[[], Primitive], name: str, num_values: int = 1) -> Callable:
    def batch(
        axis: AxisData, args: list, dims: list, *, indexer: Indexer, **params: object
    ) -> tuple:
        if dims[0] is None:
            raise TypeError(
                f"{name}: under vmap, a value or index that differs between the examples is "
                "written to a ref that all examples share; pass the ref to the mapped function "
                "as a mapped argument"
            )
        new, operands, at = _batch_operands(axis, args, dims, indexer, num_values)
        out = prim().bind(*operands, indexer=new, **params)
        return (out, []) if prim().multiple_results else (out, at)

    return batch


def _get_batch(
    axis: AxisData, args: list, dims: list, *, indexer: Indexer, **params: object
) -> tuple:
    new, operands, at = _batch_operands(axis, args, dims, indexer, 0)
    return get_p.bind(*operands, indexer=new, **params), at


# Derivatives -----------------------------------------------------------------------------------


def _get_jvp(primals: list, tangents: list, *, has_other: bool, **params: object) -> tuple:
    out = get_p.bind(*primals, has_other=has_other, **params)
    if tangents[0] is None:
        return out, None
    rest = list(primals[1:])
    if has_other:
        zero = np.zeros(typeof(rest[-1]).shape, typeof(out).dtype)
        rest[-1] = zero if tangents[-1] is None else tangents[-1]
    return out, get_p.bind(tangents[0], *rest, has_other=has_other, **params)


def _write_jvp(prim: Callable[[], Primitive], name: str) -> Callable:
    """Return the tangent of what is written is written to the tangent of the ref."""

    def jvp(primals: list, tangents: list, **params: object) -> tuple:
        out = prim().bind(*primals, **params)
        none: Any = [] if prim().multiple_results else None
        ref_t, value_t = tangents[:2]
        if ref_t is None:
            if value_t is None:
                return out, none
            raise TypeError(
                f"{name}: a differentiated value is written to a ref that is not differentiated; "
                "make the ref inside the differentiated function, or write "
                "weft.lax.stop_gradient(value)"
            )
        if value_t is None:
            value_t = np.zeros(typeof(primals[1]).shape, typeof(primals[1]).dtype)
        out_t = prim().bind(ref_t, value_t, *primals[2:], **params)
        return out, none if prim().multiple_results else out_t

    return jvp


def _no_derivative(prim: Callable[[], Primitive], name: str) -> Callable:
    def jvp(primals: list, tangents: list, *, op: str = "", **params: object) -> tuple:
        if op == "add" and tangents[0] is not None:
            value_t = tangents[1]
            if value_t is None:
                value_t = np.zeros(typeof(primals[1]).shape, typeof(primals[1]).dtype)
            out = prim().bind(*primals, op=op, **params)
            return out, prim().bind(tangents[0], value_t, *primals[2:], op=op, **params)
        if all(t is None for t in tangents):
            if op:
                params["op"] = op
            return prim().bind(*primals, **params), None
        raise MissingRuleError(
            f"{name}{f' ({op})' if op else ''} has no derivative: its result depends on the order "
            "of the programs; give the kernel a rule with weft.custom_vjp"
        )

    return jvp


# The ops ---------------------------------------------------------------------------------------


def _get_abstract(
    ref: AbstractRef, *rest: ShapedArray, indexer: Indexer, **params: object
) -> ShapedArray:
    _check_ref("get", ref)
    return _value_aval(ref, indexer, rest[: indexer.num_operands])


get_p = Primitive(
    "get",
    abstract=_get_abstract,
    jvp=_get_jvp,
    batch=_get_batch,
    own_types=True,
    takes_refs=True,
)


def _write_abstract(name: str, returns: bool, num_values: int = 1) -> Callable:
    def abstract(ref: AbstractRef, *rest: ShapedArray, indexer: Indexer, **params: Any) -> Any:
        for value in rest[:num_values]:
            _check_value(name, ref, value, indexer)
        _check_op(name, ref, params.get("op"))
        index = rest[num_values : num_values + indexer.num_operands]
        return _value_aval(ref, indexer, index) if returns else []

    return abstract


_INTEGERS_ONLY = ("and", "or", "xor")


def _check_op(name: str, ref: AbstractRef, op: str | None) -> None:
    if op in _INTEGERS_ONLY and not (is_integer(ref.dtype) or ref.dtype == np.bool_):
        raise TypeError(
            f"{name} ({op}) works on refs of integers, got {ref.str_short()}; use another "
            "operation or dtype"
        )


def _writer(name: str, *, returns: bool, num_values: int = 1, jvp: Callable = _write_jvp) -> Any:
    prim = Primitive(
        name,
        abstract=_write_abstract(name, returns, num_values),
        effects=lambda avals, params: _WRITES,
        jvp=jvp(lambda: prim, name),
        batch=_batch_write(lambda: prim, name, num_values),
        multiple_results=not returns,
        own_types=True,
        takes_refs=True,
    )
    return prim


set_p = _writer("set", returns=False)
swap_p = _writer("swap", returns=True)
addupdate_p = _writer("addupdate", returns=False)
atomic_rmw_p = _writer("atomic_rmw", returns=True, jvp=_no_derivative)
atomic_cas_p = _writer("atomic_cas", returns=True, num_values=2, jvp=_no_derivative)


# On open refs ----------------------------------------------------------------------------------


def _parts(args: Sequence[Any], indexer: Indexer, num_values: int = 1) -> tuple:
    """(cell, values, index operands, mask and other)."""
    end = 1 + num_values + indexer.num_operands
    return args[0], args[1 : 1 + num_values], args[1 + num_values : end], args[end:]


def _read(cell: Any, indexer: Indexer, index: Sequence[Any], *rest: object) -> Any:
    """Return the value at an index, of weak type if the ref's is."""
    value = read(cell.get(), indexer, index, *rest)
    return convert(value, cell.aval.dtype, True) if cell.aval.weak_type else value


def _discharge_get(args: tuple, *, indexer: Indexer, masked: bool, has_other: bool) -> Any:
    cell, _, index, rest = _parts(args, indexer, 0)
    return _read(cell, indexer, index, *rest)


def _discharge_set(args: tuple, *, indexer: Indexer, masked: bool) -> list:
    cell, (value,), index, rest = _parts(args, indexer)
    cell.put(write(cell.get(), indexer, index, value, *rest))
    return []


def _discharge_swap(args: tuple, *, indexer: Indexer, masked: bool) -> Any:
    cell, (value,), index, rest = _parts(args, indexer)
    old = _read(cell, indexer, index, *rest)
    cell.put(write(cell.get(), indexer, index, value, *rest))
    return old


def _discharge_add(args: tuple, *, indexer: Indexer) -> list:
    cell, (value,), index, _ = _parts(args, indexer)
    cell.put(write(cell.get(), indexer, index, value, how="add"))
    return []


def _discharge_rmw(args: tuple, *, indexer: Indexer, masked: bool, op: str) -> Any:
    cell, (value,), index, rest = _parts(args, indexer)
    _check_op("atomic_rmw", cell.aval, op)
    old = _read(cell, indexer, index, *rest)
    how = "set" if op == "xchg" else op
    mask = rest[0] if rest else None
    cell.put(write(cell.get(), indexer, index, value, mask, how))
    return old


def _discharge_cas(args: tuple, *, indexer: Indexer) -> Any:
    cell, (compare, value), index, _ = _parts(args, indexer, 2)
    old = _read(cell, indexer, index)
    cell.put(write(cell.get(), indexer, index, select(eq_p.bind(old, compare), value, old)))
    return old


DISCHARGE[get_p] = _discharge_get
DISCHARGE[set_p] = _discharge_set
DISCHARGE[swap_p] = _discharge_swap
DISCHARGE[addupdate_p] = _discharge_add
DISCHARGE[atomic_rmw_p] = _discharge_rmw
DISCHARGE[atomic_cas_p] = _discharge_cas

__all__ = [
    "addupdate_p",
    "atomic_cas_p",
    "atomic_rmw_p",
    "get_p",
    "set_p",
    "swap_p",
]

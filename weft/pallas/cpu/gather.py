"""gather and the scatters: windows whose places are in an array of index vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.core import dtypes
from weft.ops.gather import GatherScatterMode, default_fill
from weft.pallas.cpu import scalar, types
from weft.pallas.cpu.arrays import nest_sequential
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn


def _starts(
    f: Function,
    indices: Array,
    batch: tuple,
    dims: Sequence[int],
    shape: Sequence[int],
    sizes: Sequence[int],
    clip: bool,
) -> tuple[dict[int, Index], str]:
    """The window's first position along each indexed dimension, moved inside, and whether it was
    inside before."""
    starts: dict[int, Index] = {}
    fits = "true"
    for k, d in enumerate(dims):
        text = scalar.convert(f, indices.at(f, (*batch, k)), indices.dtype, dtypes.int64)
        last = shape[d] - sizes[d]
        if not clip:
            fits = f.op(f"and i1 {fits}, {f.op(f'icmp ule i64 {text}, {last}')}")
        starts[d] = f.minimum(f.maximum(text, 0), last)
    return starts, fits


@rule("gather")
def _gather(t: Translator, eqn: Eqn, x: Array, indices: Array) -> Array:
    p = eqn.params
    t.check_dtypes(eqn, (x, indices))
    numbers, sizes = p["dimension_numbers"], p["slice_sizes"]
    clip = p["mode"] in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
    fill = default_fill(x.dtype) if p.get("fill_value") is None else p["fill_value"]
    rest = types.constant(fill, x.dtype)
    for operand in (x, indices):
        if operand.waiting():
            t.materialize(operand)
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    inside = [d for d in range(len(x.shape)) if d not in gone]
    pairs = list(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )

    def element(f: Function, i: tuple) -> str:
        batch = tuple(v for d, v in enumerate(i) if d not in numbers.offset_dims)
        starts, fits = _starts(f, indices, batch, numbers.start_index_map, x.shape, sizes, clip)
        where: list[Index] = [starts.get(d, 0) for d in range(len(x.shape))]
        for d, at in pairs:
            where[d] = f.add(where[d], batch[at])
        for d, at in zip(inside, numbers.offset_dims, strict=True):
            where[d] = f.add(where[d], i[at])
        value = x.at(f, tuple(where))
        if fits == "true":
            return value
        type_ = types.register(x.dtype)
        return f.op(f"select i1 {fits}, {type_} {value}, {type_} {rest}")

    out = eqn.outvars[0].aval
    return Array(out.shape, x.dtype, element, [(x, None), (indices, None)], 4)


def _scatter(name: str, op: str | None) -> None:
    @rule(name)
    def code(t: Translator, eqn: Eqn, x: Array, indices: Array, updates: Array) -> Array:
        t.check_dtypes(eqn, (x, indices, updates))
        f, numbers = t.f, eqn.params["dimension_numbers"]
        clip = eqn.params["mode"] is GatherScatterMode.CLIP
        for operand in (indices, updates):
            t.materialize(operand)
        target = t.temporary(x.shape, x.dtype)
        t.store(target, x)
        gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        inside = [d for d in range(len(x.shape)) if d not in gone]
        sizes = [1] * len(x.shape)
        for d, at in zip(inside, numbers.update_window_dims, strict=True):
            sizes[d] = updates.shape[at]
        batching = zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        )
        pairs = list(batching)

        def body(i: tuple) -> None:
            batch = tuple(v for d, v in enumerate(i) if d not in numbers.update_window_dims)
            dims = numbers.scatter_dims_to_operand_dims
            starts, fits = _starts(f, indices, batch, dims, x.shape, sizes, clip)
            where: list[Index] = [starts.get(d, 0) for d in range(len(x.shape))]
            for d, at in pairs:
                where[d] = f.add(where[d], batch[at])
            for d, at in zip(inside, numbers.update_window_dims, strict=True):
                where[d] = f.add(where[d], i[at])
            with f.when(fits):
                value = updates.at(f, i)
                if op is not None:
                    both = [target.load(f, where), value]
                    value = scalar.emit(f, op, x.dtype, both, {}, x.dtype)
                target.store(f, where, value)

        nest_sequential(f, updates.shape, body)
        return Array(x.shape, x.dtype, buffer=target)


for _name, _op in (
    ("scatter", None),
    ("scatter_add", "add"),
    ("scatter_mul", "mul"),
    ("scatter_min", "min"),
    ("scatter_max", "max"),
):
    _scatter(_name, _op)

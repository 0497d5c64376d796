"""gather of values on the GPU: elements of a whole tensor by their numbers in it."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.core.jaxpr import Eqn
from weft.ops.gather import GatherScatterMode, default_fill
from weft.pallas.gpu.arrays import elements, take
from weft.pallas.gpu.elementwise import convert
from weft.pallas.gpu.emitter import INT, Emitter, rule


@rule("gather")
def _gather(e: Emitter, eqn: Eqn, x: ir.Value, indices: ir.Value) -> ir.Value:
    p, (array, places) = eqn.params, (v.aval for v in eqn.invars)
    kind = places.dtype if places.dtype.itemsize >= 4 else INT
    indices = convert(e, indices, places.dtype, kind)
    numbers, sizes, shape = p["dimension_numbers"], p["slice_sizes"], eqn.outvars[0].aval.shape
    clip = p["mode"] in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
    batch = [d for d in range(len(shape)) if d not in numbers.offset_dims]
    where: dict[int, ir.Value] = {}
    fits = None
    for k, d in enumerate(numbers.start_index_map):
        start = take(e, indices, e.constant(k, (1,)), places.ndim - 1)
        start = e.reshape(start, places.shape[:-1])
        last = e.constant(array.shape[d] - sizes[d], places.shape[:-1], kind)
        zero = e.constant(0, places.shape[:-1], kind)
        inside = e.binary("max", e.binary("min", start, last, kind), zero, kind)
        if not clip:
            fits = e.both(fits, e.compare("eq", inside, start, kind))
        where[d] = _spread(e, convert(e, inside, kind, INT), batch, shape)
    for d, at in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        where[d] = e.iota_along(shape, batch[at])
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    rest = [d for d in range(array.ndim) if d not in gone]
    for d, at in zip(rest, numbers.offset_dims, strict=True):
        step = e.iota_along(shape, at)
        where[d] = e.binary("add", where[d], step, INT) if d in where else step
    found = elements(e, x, where, array.shape, shape)
    if fits is None:
        return found
    fill = default_fill(array.dtype) if p.get("fill_value") is None else p["fill_value"]
    return e.select(_spread(e, fits, batch, shape), found, e.constant(fill, shape, array.dtype))


def _spread(e: Emitter, x: ir.Value, dims: list[int], shape: tuple[int, ...]) -> ir.Value:
    """An array over some dimensions of a shape repeated along the others."""
    for d in range(len(shape)):
        if dims and d not in dims:
            x = e.expand(x, d)
    return e.broadcast(x, shape)

"""Products of batches whose large operands are computed for a part of the batch at a time.

softmax(q @ kᵀ) @ v of attention computes arrays much larger than its operands and its result. XLA
writes each to memory that the operating system has to map first. A loop over the batch dimensions
needs memory for one example, which stays in cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.context import MARK
from weft.lowering.limits import LARGE_OPERAND, OPERAND_PART
from weft.native.attention import attention
from weft.native.calls import count_to, has_compiler, untouched
from weft.native.parallel import threads
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import combiner_of, maker, only_user

Dims = tuple[int | None, ...]
"""The dimensions of a value that the loop counts along; None for those that it has not."""


class Region:
    """The operations that one loop takes over, with the dimensions of their results."""

    def __init__(self, block: ir.Block, size: int) -> None:
        self.block, self.size = block, size
        self.dims: dict[ir.Value, Dims] = {}
        self.outside: dict[tuple[ir.Value, Dims], None] = {}  # what is read, in order
        self.leads = cache(self._leads)

    def add(self, op: ir.Operation, dims: Dims) -> bool:
        """Take an operation and what makes its operands; False where that cannot be done."""
        result = op.results[0]
        if result in self.dims:
            return self.dims[result] == dims
        self.dims[result] = dims
        for x, along in zip(op.operands, operand_dims(op, dims), strict=True):
            source = maker(x)
            if x in self.dims or (
                source is not None
                and source.block == self.block
                and None not in along
                and is_supported(source, along)
                and self.leads(source)
            ):
                if source is None or not self.add(source, along):
                    return False
            else:
                self.outside[x, along] = None
        return True

    def _leads(self, op: ir.Operation) -> bool:
        """Return whether an operation makes a large value, or something of one."""
        if math.prod(op.results[0].type.shape) >= self.size:
            return True
        if op.name == "stablehlo.dot_general":
            return False
        sources = [maker(x) for x in op.operands]
        return any(
            s is not None and s.block == self.block and is_supported(s) and self.leads(s)
            for s in sources
        )

    def products(self) -> Iterator[tuple[ir.Operation, Dims]]:
        """Further products of large values."""
        for value, dims in list(self.dims.items()):
            for use in value.uses:
                user = use.owner.operation
                if user.name == "stablehlo.dot_general" and user.block == self.block:
                    of_result = result_dims(user, use.operand_number, dims)
                    if user.results[0] not in self.dims and None not in of_result:
                        yield user, of_result

    def operations(self) -> list[ir.Operation]:
        return [v.operation for v in self.block.operations if is_in(self.dims, v.operation)]


def is_in(values: dict, op: ir.Operation) -> bool:
    return any(result in values for result in op.results)


def is_supported(op: ir.Operation, dims: Dims = ()) -> bool:
    if op.name == "stablehlo.constant":
        return ir.DenseElementsAttr(op.attributes["value"]).is_splat
    if op.name == "stablehlo.iota":
        return op.attributes["iota_dimension"].value not in dims
    if op.name == "stablehlo.reduce":
        return len(op.results) == 1
    if op.name == "stablehlo.bitcast_convert":  # as in formulas of tanh, between equal widths
        return list(op.operands[0].type.shape) == list(op.results[0].type.shape)
    others = ("stablehlo.broadcast_in_dim", "stablehlo.dot_general")
    return (facts(op).pointwise and len(op.results) == 1) or op.name in others


def is_repeated(op: ir.Operation) -> bool:
    """Return whether computing an operation again costs next to nothing."""
    return op.name in ("stablehlo.constant", "stablehlo.iota", "stablehlo.broadcast_in_dim")


def operand_dims(op: ir.Operation, dims: Dims) -> list[Dims]:
    """Return where an operation's operands have the dimensions of its result."""
    if op.name == "stablehlo.dot_general":
        places = places_of(op)
        return [tuple(None if d is None else places[d][k] for d in dims) for k in (0, 1)]
    if op.name == "stablehlo.reduce":
        reduced = list(op.attributes["dimensions"])
        kept = [d for d in range(op.operands[0].type.rank) if d not in reduced]
        return [tuple(None if d is None else kept[d] for d in dims), (None,) * len(dims)]
    if op.name == "stablehlo.broadcast_in_dim":
        (x,), shape = op.operands, op.results[0].type.shape
        along = list(op.attributes["broadcast_dimensions"])
        at = [along.index(d) if d in along else None for d in dims]
        same = [None if i is None or x.type.shape[i] != shape[along[i]] else i for i in at]
        return [tuple(same)]
    return [dims if x.type.rank else (None,) * len(dims) for x in op.operands]


def result_dims(product: ir.Operation, operand: int, dims: Dims) -> Dims:
    """Return the result's dimension for each dimension of an operand; None if summed over."""
    places = [pair[operand] for pair in places_of(product)]
    return tuple(places.index(d) if d in places else None for d in dims)


def places_of(product: ir.Operation) -> list[tuple[int | None, int | None]]:
    """Return for each dimension of a product's result, those of its operands."""
    d = stablehlo.dot_dimensions(product.attributes["dot_dimension_numbers"])
    taken = ((*d.lhs_batch, *d.lhs_contract), (*d.rhs_batch, *d.rhs_contract))
    left, right = (
        [i for i in range(x.type.rank) if i not in dims]
        for x, dims in zip(product.operands, taken, strict=True)
    )
    return [
        *zip(d.lhs_batch, d.rhs_batch, strict=True),
        *((i, None) for i in left),
        *((None, i) for i in right),
    ]


def batches(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a product, what computes its large operand, and other products of that."""
    numbers = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
    size, side = max((math.prod(x.type.shape), k) for k, x in enumerate(op.operands))
    large = op.operands[side]
    if size < LARGE_OPERAND or not any(True for _ in op.results[0].uses) or not has_compiler():
        return None
    if (results := attention(e, op, side)) is not None:
        return results
    # Leading batch dimensions are the loop's, as long as a step leaves each thread enough.
    counts: list[int] = []
    for dim in (numbers.lhs_batch, numbers.rhs_batch)[side]:
        if size // large.type.shape[dim] < OPERAND_PART * threads():
            break
        counts.append(large.type.shape[dim])
        size //= counts[-1]
    if math.prod(counts) < 2:
        return None

    root = _divided_late(e, op, side) or op
    large = op.operands[side]
    region = Region(op.block, math.prod(large.type.shape) // 2)
    along: Dims = tuple(range(len(counts)))
    if not region.add(op, along) or not region.add(root, along) or large not in region.dims:
        return None
    # Other products of the operand join where they can wait for the loop's end.
    for product, dims in list(region.products()):
        before = dict(region.dims), dict(region.outside)
        if not region.add(product, dims) or _delayed(region) is None:
            region.dims, region.outside = before
    members = region.operations()
    outputs = [
        m
        for m in members
        if not is_repeated(m) and any(not is_in(region.dims, u) for u in users(m))
    ]
    if sum(math.prod(m.results[0].type.shape) >= region.size for m in outputs) > 1:
        return None  # what is kept of it for others would be mapped all the same
    delayed = _delayed(region)
    if delayed is None:
        return None
    # Users of results that come late move behind the loop.
    behind = members[-1]
    for user in delayed:
        user.move_after(behind)
        behind = user
    results = _loop(Emitter.before(members[-1], e.mesh), region, members, outputs, counts)
    for output, new in zip(outputs, results, strict=True):
        if output is not op:
            output.results[0].replace_all_uses_with(new)
    return [results[outputs.index(root)]]


def _divided_late(e: Emitter, product: ir.Operation, side: int) -> ir.Operation | None:
    """Make (exp(x - max(x)) / s) @ v of a softmax (exp(x - max(x)) @ v) / s; give the division.

    The quotients are many more than the results. Other numerators could make the product overflow.
    """
    divide = maker(product.operands[side])
    if divide is None or divide.name != "stablehlo.divide" or not only_user(divide.results[0]):
        return None
    numerator, divisor = divide.operands
    spread, result = maker(divisor), product.results[0]
    element = result.type.element_type
    if (
        spread is None
        or spread.name != "stablehlo.broadcast_in_dim"
        or not _is_at_most_1(numerator)
    ):
        return None
    places = [pair[side] for pair in places_of(product)]
    along = list(spread.attributes["broadcast_dimensions"])
    if (
        not set(along) <= set(places)
        or divisor.type.element_type != element
        or str(element) == "f16"
    ):
        return None
    dims = [places.index(d) for d in along]
    sums = e.broadcast(spread.operands[0], list(result.type.shape), dims)
    product.operands[side] = numerator
    divide.erase()
    late = e.binary("divide", result, sums).owner
    late.move_after(product)
    result.replace_all_uses_with(late.results[0])
    late.operands[0] = result
    return late


def _is_at_most_1(x: ir.Value) -> bool:
    """Return whether a value is that of exp(y - max(y))."""
    names = ("stablehlo.exponential", "stablehlo.subtract", "stablehlo.broadcast_in_dim")
    y = None
    for name in (*names, "stablehlo.reduce"):
        op = maker(x)
        if op is None or op.name != name:
            return False
        y = op.operands[0] if name == "stablehlo.subtract" else y
        x = op.operands[1 if name == "stablehlo.subtract" else 0]
    return x == y and combiner_of(op) == "stablehlo.maximum"


def users(op: ir.Operation) -> Iterator[ir.Operation]:
    """Return the operations of the same block that use results, or hold one that does."""
    for result in op.results:
        for use in result.uses:
            user = use.owner.operation
            while user.block != op.block:
                user = user.parent.operation
            yield user


def _delayed(region: Region) -> list[ir.Operation] | None:
    """Find what uses the loop's results in front of its last operation; None if it needs them."""
    order = [view.operation for view in region.block.operations]
    members = [op for op in order if is_in(region.dims, op)]
    made = {m for m in members if not is_repeated(m)}
    delayed: list[ir.Operation] = []
    for op in order[order.index(members[0]) : order.index(members[-1])]:
        if not is_in(region.dims, op) and _reads(op, made):
            delayed.append(op)
            made.add(op)
    late = {result for op in delayed for result in op.results}
    return None if any(x in late for x, _ in region.outside) else delayed


def _reads(op: ir.Operation, made: set[ir.Operation]) -> bool:
    """Tell whether an operation, or one in its regions, has operands that some operations made."""
    if any(maker(x) in made for x in op.operands):
        return True
    return any(
        _reads(view.operation, made) for r in op.regions for b in r.blocks for view in b.operations
    )


def _loop(
    e: Emitter,
    region: Region,
    members: list[ir.Operation],
    outputs: list[ir.Operation],
    counts: list[int],
) -> list[ir.Value]:
    """Emit the loop; its steps take one index of each dimension."""
    read = list(region.outside)
    read_once = list(dict.fromkeys(x for x, _ in read))

    def step(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        block_of = dict(zip(read_once, carried, strict=False))
        # One counter of all steps, taken apart into an index of each dimension.
        at, left = [], math.prod(counts)
        for n in counts:
            left //= n
            of_dim = e.binary("divide", index, e.const(left))
            at.append(e.binary("remainder", of_dim, e.const(n)))
        values: dict[tuple[ir.Value, Dims], ir.Value] = {}
        for x, dims in read:
            part = block_of[x]
            for dim, i in zip(dims, at, strict=True):
                part = part if dim is None else e.dynamic_slice(part, dim, i, 1)
            values[x, dims] = part
        # Each operation again, on shapes with 1 in the dimensions of the loop.
        for op in members:
            result = op.results[0]
            dims = region.dims[result]
            shape = [1 if d in dims else n for d, n in enumerate(result.type.shape)]
            type_ = e.type(shape, result.type.element_type)
            operands = zip(op.operands, operand_dims(op, dims), strict=True)
            if op.name == "stablehlo.constant":
                splat = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
                new = e.constant(ir.DenseElementsAttr.get_splat(type_, splat))
            else:
                copied = op.clone(e.ip)
                for k, operand in enumerate(operands):
                    copied.operands[k] = values[operand]
                if MARK in copied.attributes:
                    del copied.attributes[MARK]
                new = copied.results[0]
                new.set_type(type_)
            values[result, dims] = new
        # Results are written into their places in the carried arrays.
        after = carried[: len(read_once)]
        for output, old in zip(outputs, carried[len(read_once) :], strict=True):
            result = output.results[0]
            dims, zero = region.dims[result], e.const(0)
            starts = [at[dims.index(d)] if d in dims else zero for d in range(result.type.rank)]
            update = [old, values[result, dims], *starts]
            after.append(e.make("stablehlo.dynamic_update_slice", update, result.type))
        return after

    start = [*read_once, *untouched(e, [m.results[0].type for m in outputs])]
    return count_to(e, math.prod(counts), start, step)[len(read_once) :]

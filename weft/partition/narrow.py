"""Sends integers of fewer than 8 bits as bytes.

XLA:CPU writes past the end of a collective's result where its elements are narrower than a byte, or
refuses them (jaxlib 0.10.2); on GPUs NCCL has no such types. What only moves is packed, so that it
sends no more; what is reduced is widened.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft._xla.mlir import ir

_REDUCTIONS = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")


def send_bytes(op: ir.Operation) -> ir.Operation | None:
    """Rewrites a collective that sends narrow integers; returns the one in its place, if any."""
    return _rewrite(op) if _bits(op.operands[0].type) else None


def _bits(kind: ir.Type) -> int:
    """Bits of a narrow integer element, or 0."""
    element = kind.element_type
    return element.width if isinstance(element, ir.IntegerType) and 1 < element.width < 8 else 0


def _rewrite(op: ir.Operation) -> ir.Operation:
    per_byte = 8 // _bits(op.operands[0].type)
    dims = [_packed_dim(op, v, r, per_byte) for v, r in zip(op.operands, op.results, strict=True)]
    sent = [
        _widen(op, v) if d is None else _pack(op, v, d, per_byte)
        for v, d in zip(op.operands, dims, strict=True)
    ]
    byte = sent[0].type.element_type
    kinds = []
    for result, d in zip(op.results, dims, strict=True):
        shape = list(result.type.shape)
        if d is not None:
            shape[d] //= per_byte
        kinds.append(ir.RankedTensorType.get(shape, byte))
    made = ir.Operation.create(
        op.name,
        results=kinds,
        operands=sent,
        attributes={k: op.attributes[k] for k in op.attributes},
        regions=len(op.regions),
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    if op.name in _REDUCTIONS:
        _combine_alike(op, made, byte)
    for old, new, d in zip(op.results, made.results, dims, strict=True):
        element = old.type.element_type
        value = _convert(op, new, element) if d is None else _unpack(op, new, d, per_byte, element)
        old.replace_all_uses_with(value)
    op.erase()
    return made


def _packed_dim(op: ir.Operation, value: ir.Value, result: ir.Value, per_byte: int) -> int | None:
    """A dimension whose elements stay together by bytes on their way, the minor ones first."""
    if op.name in _REDUCTIONS or 8 % _bits(value.type):
        return None
    groups = 1
    if op.name == "stablehlo.all_to_all":
        groups = op.attributes["split_count"].value
    for d in reversed(range(len(value.type.shape))):
        held, given = value.type.shape[d], result.type.shape[d]
        part = held // groups if groups > 1 and given < held else held
        if held and part % per_byte == 0:
            return d
    return None


def _pack(op: ir.Operation, value: ir.Value, dim: int, per_byte: int) -> ir.Value:
    shape, element = list(value.type.shape), value.type.element_type
    inside = [*shape[:dim], shape[dim] // per_byte, per_byte, *shape[dim + 1 :]]
    value = _make(op, "stablehlo.reshape", value, inside, element)
    order = [i for i in range(len(inside)) if i != dim + 1] + [dim + 1]
    value = _transposed(op, value, order)
    return _make(
        op, "stablehlo.bitcast_convert", value, list(value.type.shape)[:-1], _byte(element)
    )


def _unpack(op: ir.Operation, value: ir.Value, dim: int, per_byte: int, to: ir.Type) -> ir.Value:
    shape = list(value.type.shape)
    value = _make(op, "stablehlo.bitcast_convert", value, [*shape, per_byte], to)
    last = len(shape)
    value = _transposed(op, value, [*range(dim + 1), last, *range(dim + 1, last)])
    shape[dim] *= per_byte
    return _make(op, "stablehlo.reshape", value, shape, to)


def _widen(op: ir.Operation, value: ir.Value) -> ir.Value:
    return _convert(op, value, _byte(value.type.element_type))


def _convert(op: ir.Operation, value: ir.Value, element: ir.Type) -> ir.Value:
    return _make(op, "stablehlo.convert", value, list(value.type.shape), element)


def _byte(element: ir.Type) -> ir.Type:
    unsigned = ir.IntegerType(element).is_unsigned
    return ir.IntegerType.get_unsigned(8) if unsigned else ir.IntegerType.get_signless(8)


def _transposed(op: ir.Operation, value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == list(range(len(order))):
        return value
    shape = [value.type.shape[i] for i in order]
    permutation = ir.DenseI64ArrayAttr.get(list(order))
    kind = value.type.element_type
    return _make(op, "stablehlo.transpose", value, shape, kind, permutation=permutation)


def _make(
    op: ir.Operation,
    name: str,
    value: ir.Value,
    shape: Sequence[int],
    element: ir.Type,
    **attributes: ir.Attribute,
) -> ir.Value:
    return ir.Operation.create(
        name,
        results=[ir.RankedTensorType.get(list(shape), element)],
        operands=[value],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    ).results[0]


def _combine_alike(old: ir.Operation, made: ir.Operation, element: ir.Type) -> None:
    """Gives a reduction of bytes the combiner of the narrow one."""
    name = next(iter(old.regions[0].blocks[0].operations)).operation.name
    scalar = ir.RankedTensorType.get([], element)
    loc = old.location
    block = made.regions[0].blocks.append(scalar, scalar, arg_locs=[loc, loc])
    ip = ir.InsertionPoint(block)
    both = list(block.arguments)
    total = ir.Operation.create(name, results=[scalar], operands=both, loc=loc, ip=ip)
    ir.Operation.create("stablehlo.return", operands=list(total.results), loc=loc, ip=ip)

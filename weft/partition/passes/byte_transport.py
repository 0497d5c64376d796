"""Sends integers of fewer than 8 bits as bytes.

XLA:CPU cannot send elements narrower than a byte (quirks.NARROW_COLLECTIVES); on GPUs NCCL has no
such types. Elements that only move are packed, which sends no more; those that are reduced are
widened.
"""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.axis_layout import DeviceMesh
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import attributes_of, combine_by, combiner_of


def send_bytes(op: ir.Operation, mesh: DeviceMesh) -> ir.Operation | None:
    """Rewrite a collective that sends narrow integers; return the one in its place, if any."""
    if not (bits := _bits(op.operands[0].type)):
        return None
    e, per_byte = Emitter.before(op, mesh), 8 // bits
    element = ir.IntegerType(op.operands[0].type.element_type)
    byte = (ir.IntegerType.get_unsigned if element.is_unsigned else ir.IntegerType.get_signless)(8)
    dims = [_packed_dim(op, v, r, per_byte) for v, r in zip(op.operands, op.results, strict=True)]
    sent = [
        e.convert(v, byte) if d is None else _pack(e, v, d, per_byte, byte)
        for v, d in zip(op.operands, dims, strict=True)
    ]
    kinds = []
    for result, d in zip(op.results, dims, strict=True):
        shape = list(result.type.shape)
        if d is not None:
            shape[d] //= per_byte
        kinds.append(e.type(shape, byte))
    narrow = e.op(op.name, sent, kinds, attributes_of(op), regions=len(op.regions))
    if facts(op).combines:
        combine_by(narrow, combiner_of(op), byte)
    for old, new, d in zip(op.results, narrow.results, dims, strict=True):
        value = e.convert(new, element) if d is None else _unpack(e, new, d, per_byte, element)
        old.replace_all_uses_with(value)
    op.erase()
    return narrow


def _bits(kind: ir.Type) -> int:
    """Return bits of a narrow integer element, or 0."""
    element = kind.element_type
    return element.width if isinstance(element, ir.IntegerType) and 1 < element.width < 8 else 0


def _packed_dim(op: ir.Operation, value: ir.Value, result: ir.Value, per_byte: int) -> int | None:
    """Return a dimension whose elements stay adjacent in bytes when sent, minor ones first."""
    if facts(op).combines or 8 % _bits(value.type):
        return None
    groups = 1
    if op.name == "stablehlo.all_to_all":
        groups = op.attributes["split_count"].value
    for d in reversed(range(len(value.type.shape))):
        size_before, size_after = value.type.shape[d], result.type.shape[d]
        part = size_before // groups if groups > 1 and size_after < size_before else size_before
        if size_before and part % per_byte == 0:
            return d
    return None


def _pack(e: Emitter, value: ir.Value, dim: int, per_byte: int, byte: ir.Type) -> ir.Value:
    shape = list(value.type.shape)
    value = e.reshape(value, [*shape[:dim], shape[dim] // per_byte, per_byte, *shape[dim + 1 :]])
    rank = len(shape) + 1
    value = e.transpose(value, [*(i for i in range(rank) if i != dim + 1), dim + 1])
    kind = e.type(list(value.type.shape)[:-1], byte)
    return e.make("stablehlo.bitcast_convert", (value,), kind)


def _unpack(e: Emitter, value: ir.Value, dim: int, per_byte: int, to: ir.Type) -> ir.Value:
    shape = list(value.type.shape)
    value = e.make("stablehlo.bitcast_convert", (value,), e.type([*shape, per_byte], to))
    last = len(shape)
    value = e.transpose(value, [*range(dim + 1), last, *range(dim + 1, last)])
    shape[dim] *= per_byte
    return e.reshape(value, shape)

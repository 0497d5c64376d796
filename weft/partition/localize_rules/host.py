# Tests: tests/api/test_callback.py
"""Calls into Python: a program over many devices makes each of them once."""

from __future__ import annotations

import math

from weft._xla.mlir import ir
from weft.lowering.call_device import marked
from weft.partition.axis_layout import AxisLayout
from weft.partition.local_value import LocalValue
from weft.partition.localize import Localizer

_TARGETS = ("xla_ffi_python_", "xla_ffi_partitioned_python_", "xla_buffer_python_")


def is_host_call(op: ir.Operation) -> bool:
    target = op.attributes["call_target_name"].value
    return target.startswith(_TARGETS)


def host_call(
    lz: Localizer, op: ir.Operation, xs: list[LocalValue], outs: list[AxisLayout]
) -> list[LocalValue]:
    """Whole operands; the first device of each group that has the same ones makes the call.

    Python serves one caller at a time, so eight calls would take eight times as long as one and the
    sum that hands out its results. The target for shards takes them as they are.
    """
    if "partitioned" in op.attributes["call_target_name"].value:
        return lz.keep(op, [x.value for x in xs], outs)
    values = [lz.at(x, x.layout.whole) for x in xs]
    whole = [o.whole for o in outs]
    free = tuple(i for i in range(len(lz.mesh.atoms)) if i not in lz.manual[-1])
    attributes = op.attributes
    effectful = "has_side_effect" in attributes and attributes["has_side_effect"].value
    # A call on buffers cannot say that it failed: better that all fail alike.
    if not free or (_on_buffers(op) and not effectful):
        got = lz.keep(op, values, whole)
    else:
        got = _once(lz, op, values, whole, free)
    return [lz.move(x, o) for x, o in zip(got, outs, strict=True)]


def _on_buffers(op: ir.Operation) -> bool:
    return "buffer" in op.attributes["call_target_name"].value


def _once(
    lz: Localizer,
    op: ir.Operation,
    values: list[ir.Value],
    whole: list[AxisLayout],
    free: tuple[int, ...],
) -> list[LocalValue]:
    """The call in a branch that one device takes; the others have zeros until it has results."""
    e = lz.e
    tensors = [r.type for r in op.results if isinstance(r.type, ir.RankedTensorType)]
    # The call on a device of many has the number of its error as one more result.
    tells = bool(tensors) and not _on_buffers(op)
    number = e.type((), ir.IntegerType.get_signless(32))
    asked = marked(op)
    coordinate = e.coordinate(free) if asked is None else e.position()
    first = e.compare(coordinate, e.const(asked or 0), "EQ")
    types = [r.type for r in op.results] + [number] * tells
    branch = e.op("stablehlo.if", [first], types, regions=2)
    outside = e.ip
    called, skipped = (region.blocks.append() for region in branch.regions)
    e.ip = ir.InsertionPoint(called)
    attributes = {n: op.attributes[n] for n in op.attributes if n != "sdy.sharding"}
    if not _on_buffers(op):
        attributes["backend_config"] = _variant(op, 1)
    if tells:
        layouts = ir.ArrayAttr(attributes["result_layouts"])
        attributes["result_layouts"] = ir.ArrayAttr.get([*layouts, _scalar_layout()])
    inner = e.op(op.name, values, types, attributes)
    e.op("stablehlo.return", list(inner.results), [])
    e.ip = ir.InsertionPoint(skipped)
    tokens = iter(v for v in values if not isinstance(v.type, ir.RankedTensorType))
    others = [
        e.splat(0, t.shape, t.element_type) if isinstance(t, ir.RankedTensorType) else next(tokens)
        for t in types
    ]
    e.op("stablehlo.return", others, [])
    e.ip = outside
    results, failed = _handed_out(lz, list(branch.results), free, tells)
    if failed is not None:
        _fail_together(lz, op, failed)
    return lz.replace(op, *(LocalValue(r, o) for r, o in zip(results, whole, strict=True)))


def _variant(op: ir.Operation, which: int) -> ir.Attribute:
    """The call's configuration for another variant of its function (weft/runtime/host_calls.py)."""
    index = ir.IntegerAttr(ir.DictAttr(op.attributes["backend_config"])["index"]).value
    return ir.Attribute.parse(f"{{index = {index + which} : ui64}}")


def _scalar_layout() -> ir.Attribute:
    return ir.Attribute.parse("dense<> : tensor<0xindex>")


def _fail_together(lz: Localizer, op: ir.Operation, number: ir.Value) -> None:
    """If the one call failed, a call that raises its error on every device."""
    e = lz.e
    failed = e.compare(number, e.const(0), "NE")
    branch = e.op("stablehlo.if", [failed], [], regions=2)
    outside = e.ip
    raising, fine = (region.blocks.append() for region in branch.regions)
    e.ip = ir.InsertionPoint(raising)
    attributes = {
        "call_target_name": op.attributes["call_target_name"],
        "api_version": op.attributes["api_version"],
        "backend_config": _variant(op, 2),
        "has_side_effect": ir.BoolAttr.get(True),
        "operand_layouts": ir.ArrayAttr.get([_scalar_layout()]),
        "result_layouts": ir.ArrayAttr.get([]),
    }
    e.op("stablehlo.custom_call", [number], [], attributes)
    e.op("stablehlo.return", [], [])
    e.ip = ir.InsertionPoint(fine)
    e.op("stablehlo.return", [], [])
    e.ip = outside


_PACKED = 2**16
"""Elements up to which results travel together: packing copies them."""


def _handed_out(
    lz: Localizer, values: list[ir.Value], across: tuple[int, ...], tells: bool
) -> tuple[list[ir.Value], ir.Value | None]:
    """Broadcast the result of the one call to all devices, with its error's number.

    A collective costs more than what it carries here, so small results of one width and the number
    share one.
    """
    e = lz.e
    number = values.pop() if tells else None
    groups: dict[int, list[int]] = {}
    for i, x in enumerate(values):
        if isinstance(x.type, ir.RankedTensorType):
            groups.setdefault(_width(x), []).append(i)
    for i in groups.pop(0, ()):
        values[i] = _summed(lz, values[i], across)
    told = None if groups or number is None else e.all_reduce(number, across, "add")
    for width, members in groups.items():
        parts = [values[i] for i in members]
        if number is not None and told is None:
            parts.append(number)
        words = [_bits(lz, x, width) for x in parts]
        summed = e.all_reduce(e.concatenate(words, 0), across, "add")
        start = 0
        for k, (x, word) in enumerate(zip(parts, words, strict=True)):
            end = start + word.type.shape[0]
            value = _from_bits(lz, e.slice(summed, 0, start, end), x.type)
            start = end
            if k < len(members):
                values[members[k]] = value
            else:
                told = value
    return values, told


def _width(x: ir.Value) -> int:
    """The element width in bits of a value that can be sent as bits; 0 otherwise."""
    if not isinstance(x.type, ir.RankedTensorType) or math.prod(x.type.shape) > _PACKED:
        return 0
    kind = x.type.element_type
    if isinstance(kind, ir.ComplexType):
        kind = kind.element_type
    if not isinstance(kind, ir.FloatType | ir.IntegerType):
        return 0
    return {1: 8, 8: 8, 16: 16, 32: 32, 64: 64}.get(kind.width, 0)


def _bits(lz: Localizer, x: ir.Value, width: int) -> ir.Value:
    """The value as a list of words of so many bits; a narrower one is widened."""
    e = lz.e
    kind = x.type.element_type
    if isinstance(kind, ir.ComplexType):
        real = e.type(x.type.shape, kind.element_type)
        halves = [e.make(f"stablehlo.{part}", (x,), real) for part in ("real", "imag")]
        return e.concatenate([_bits(lz, half, width) for half in halves], 0)
    if kind.width == 1:
        return e.convert(e.reshape(x, [math.prod(x.type.shape)]), ir.IntegerType.get_unsigned(8))
    bits = kind.width
    word = ir.IntegerType.get_unsigned(min(bits, width))
    more = [bits // width] if bits > width else []
    x = e.op("stablehlo.bitcast_convert", [x], [e.type([*x.type.shape, *more], word)]).result
    x = e.reshape(x, [math.prod(x.type.shape)])
    return e.convert(x, ir.IntegerType.get_unsigned(width))


def _from_bits(lz: Localizer, x: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """The value of this type from its words."""
    e = lz.e
    if isinstance(kind.element_type, ir.ComplexType):
        real, n = e.type(kind.shape, kind.element_type.element_type), x.type.shape[0] // 2
        halves = [e.slice(x, 0, i * n, (i + 1) * n) for i in range(2)]
        return e.make("stablehlo.complex", [_from_bits(lz, half, real) for half in halves], kind)
    bits, width = kind.element_type.width, x.type.element_type.width
    if bits == 1:
        return e.reshape(e.convert(x, kind.element_type), kind.shape)
    x = e.convert(x, ir.IntegerType.get_unsigned(min(bits, width)))
    more = [bits // width] if bits > width else []
    x = e.reshape(x, [*kind.shape, *more])
    return e.op("stablehlo.bitcast_convert", [x], [kind]).result


def _summed(lz: Localizer, x: ir.Value, across: tuple[int, ...]) -> ir.Value:
    """The one value that is not zero: the sum, of bits, so that -0.0 and every NaN stay
    (many complex numbers are summed as such)."""
    e = lz.e
    kind = x.type.element_type
    if not isinstance(kind, ir.FloatType):
        return e.all_reduce(x, across, "add")
    bits = e.type(x.type.shape, ir.IntegerType.get_unsigned(kind.width))
    summed = e.all_reduce(e.op("stablehlo.bitcast_convert", [x], [bits]).result, across, "add")
    return e.op("stablehlo.bitcast_convert", [summed], [x.type]).result

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
    """Put the call in a branch one device takes; others have zeros until it has results."""
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
    """Configure the call for another variant of its function (weft/runtime/host_calls.py)."""
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


_SMALL = 2**16
"""Elements up to which narrow results travel as words of the error number's width."""


def _handed_out(
    lz: Localizer, values: list[ir.Value], across: tuple[int, ...], tells: bool
) -> tuple[list[ir.Value], ir.Value | None]:
    """Broadcast the results of the one call to all devices, with its error's number.

    The others have zeros, so sums hand them out; `combine` joins small ones of one width.
    """
    number = values.pop() if tells else None
    shares = [isinstance(x.type, ir.RankedTensorType) for x in values]
    long = any(s and _width(x) == 64 for s, x in zip(shares, values, strict=True))
    width = 64 if long else 32
    values = [
        _summed(lz, x, across, width) if s else x for s, x in zip(shares, values, strict=True)
    ]
    return values, None if number is None else _summed(lz, number, across, width)


def _width(x: ir.Value) -> int:
    """Count an element's bits, of a complex one those of a part; a truth value has a byte."""
    kind = x.type.element_type
    return max((kind.element_type if isinstance(kind, ir.ComplexType) else kind).width, 8)


def _summed(lz: Localizer, x: ir.Value, across: tuple[int, ...], width: int) -> ir.Value:
    """Return the one value that is not zero: the sum, of bits, so that -0.0 and every NaN stay.

    width: of the words that small values are sent as.
    """
    e, kind = lz.e, x.type.element_type
    if isinstance(kind, ir.ComplexType):
        real = e.type(x.type.shape, kind.element_type)
        parts = [e.make(f"stablehlo.{part}", (x,), real) for part in ("real", "imag")]
        parts = [_summed(lz, v, across, width) for v in parts]
        return e.make("stablehlo.complex", parts, x.type)
    unsigned = ir.IntegerType.get_unsigned(_width(x))
    size = math.prod(x.type.shape)
    word = ir.IntegerType.get_unsigned(max(unsigned.width, width if size <= _SMALL else 0))
    is_bool = kind == e.i1
    bits = e.convert(x, unsigned) if is_bool else _bitcast(lz, x, unsigned)
    summed = e.convert(e.all_reduce(e.convert(bits, word), across, "add"), unsigned)
    return e.convert(summed, kind) if is_bool else _bitcast(lz, summed, kind)


def _bitcast(lz: Localizer, x: ir.Value, element: ir.Type) -> ir.Value:
    e = lz.e
    return e.op("stablehlo.bitcast_convert", [x], [e.type(x.type.shape, element)]).results[0]

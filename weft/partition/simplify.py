"""Rewrites that spare communication, on the global program before shardings are propagated.

A slice of a pad is one pad that may cut, so a stencil fetches its neighbours' edges at once instead
of building an array of another size and shifting that. A slice of a slice, or of one operand of a
concatenation, reads its source.
"""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.walk import inner_first


def simplify(module: ir.Module) -> None:
    """Applies the rewrites, in place."""
    for op in inner_first(module.body):
        if op.name == "stablehlo.slice":
            piece: ir.Operation | None = op
            while piece is not None:
                piece = _slice(piece)


def _slice(op: ir.Operation) -> ir.Operation | None:
    """Moves a slice past what made its operand; returns the slice that replaced it, if any."""
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block):
        return None
    maker = owner.operation
    if maker.name == "stablehlo.concatenate":
        return _of_concatenation(op, maker)
    if maker.name not in ("stablehlo.pad", "stablehlo.slice"):
        return None
    # Where the whole value is needed too, taking pieces of its source would fetch them twice.
    if any(use.owner.operation.name != "stablehlo.slice" for use in maker.results[0].uses):
        return None
    if maker.name == "stablehlo.slice":
        return _of_slice(op, maker)
    _of_pad(op, maker)
    return None


def _of_pad(op: ir.Operation, pad: ir.Operation) -> None:
    begin, limit, stride = _bounds(op)
    if any(s != 1 for s in stride) or any(pad.attributes["interior_padding"]):
        return
    low, high = (list(pad.attributes[f"edge_padding_{side}"]) for side in ("low", "high"))
    shape = pad.results[0].type.shape
    amounts = {
        "edge_padding_low": [p - b for p, b in zip(low, begin, strict=True)],
        "edge_padding_high": [p - (n - e) for p, n, e in zip(high, shape, limit, strict=True)],
        "interior_padding": [0] * len(low),
    }
    _replace(op, "stablehlo.pad", list(pad.operands), amounts)
    _drop_unused(pad)


def _of_slice(op: ir.Operation, before: ir.Operation) -> ir.Operation:
    begin, limit, stride = _bounds(op)
    first, _, step = _bounds(before)
    bounds = {
        "start_indices": [f + b * s for f, b, s in zip(first, begin, step, strict=True)],
        "limit_indices": [
            f + (e - 1) * s + 1 if e > b else f + b * s
            for f, b, e, s in zip(first, begin, limit, step, strict=True)
        ],
        "strides": [a * b for a, b in zip(stride, step, strict=True)],
    }
    made = _replace(op, "stablehlo.slice", [before.operands[0]], bounds)
    _drop_unused(before)
    return made


def _of_concatenation(op: ir.Operation, joined: ir.Operation) -> ir.Operation | None:
    begin, limit, stride = _bounds(op)
    dim = joined.attributes["dimension"].value
    offset = 0
    for operand in joined.operands:
        size = operand.type.shape[dim]
        if offset <= begin[dim] < limit[dim] <= offset + size:
            begin[dim] -= offset
            limit[dim] -= offset
            bounds = {"start_indices": begin, "limit_indices": limit, "strides": stride}
            made = _replace(op, "stablehlo.slice", [operand], bounds)
            _drop_unused(joined)
            return made
        offset += size
    return None


def _bounds(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    names = ("start_indices", "limit_indices", "strides")
    begin, limit, stride = (list(op.attributes[name]) for name in names)
    return begin, limit, stride


def _replace(
    op: ir.Operation, name: str, operands: list[ir.Value], attributes: dict[str, list[int]]
) -> ir.Operation:
    made = ir.Operation.create(
        name,
        results=[op.results[0].type],
        operands=operands,
        attributes={k: ir.DenseI64ArrayAttr.get(v) for k, v in attributes.items()},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return made


def _drop_unused(op: ir.Operation) -> None:
    if not list(op.results[0].uses):
        op.erase()

"""Rewrites that spare communication, on the global program before shardings are propagated.

A slice of a pad is one pad that may cut, so a stencil fetches its neighbours' edges at once instead
of building an array of another size and shifting that. A slice of a slice, or of one operand of a
concatenation, reads its source. The gradient of a maximum over padded windows pads by itself, as
an array that is padded, scattered to and cut again has a size that its shards do not fit. What
arranges equal constants is a constant. A product that is computed twice is computed, and adds up
its parts, once. A reduction of merged or split dimensions reduces those they were, so that no
shards move for a result that is smaller. An update of single rows says so by its dimension numbers,
not by a window of size 1: Shardy then leaves the rows split.
"""

from __future__ import annotations

import numpy as np

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.core.shapes import corresponding_dimensions
from weft.partition.ops import facts, neutral
from weft.partition.walk import (
    attributes_of,
    inner_first,
    insert,
    maker,
    only_user,
    ops_in,
    supersede,
)


def simplify(module: ir.Module) -> None:
    """Apply the rewrites, in place."""
    _compute_once(module)
    for op in inner_first(module.body):
        if facts(op).moves and op.name != "stablehlo.broadcast_in_dim" and _uniform(op):
            continue
        if op.name == "stablehlo.reduce":
            _reduce(op)
        elif op.name == "stablehlo.scatter":
            _insert_rows(op)
        elif op.name == "stablehlo.slice":
            piece: ir.Operation | None = op
            while piece is not None:
                piece = _slice(piece)


def _compute_once(module: ir.Module) -> None:
    """Merge products that a block computes twice, so that their sums are communicated once.

    Other equal operations stay: they cost little, and may be wanted in different layouts.
    """
    products: dict[tuple, list[ir.Operation]] = {}
    equal: dict[tuple[ir.Value, ir.Value], bool] = {}
    for op in inner_first(module.body):
        row = facts(op)
        if not row.bilinear or row.pointwise or "sdy.sharding" in op.attributes:
            continue
        key = (op.block, *op.results.types, *attributes_of(op).items())
        alike = products.setdefault(key, [])
        for before in alike:
            pairs = zip(op.operands, before.operands, strict=True)
            if all(_equal(a, b, equal) for a, b in pairs):
                supersede(op, *before.results)
                break
        else:
            alike.append(op)


def _equal(a: ir.Value, b: ir.Value, compared: dict, steps: int = 64) -> bool:
    """Return whether two values are computed alike, as far as some steps show."""
    if a == b:
        return True
    if (a, b) not in compared:
        one, two = maker(a), maker(b)
        compared[a, b] = (
            one is not None
            and two is not None
            and steps > 0
            and _alike(one, two)
            and all(
                _equal(x, y, compared, steps - 1)
                for x, y in zip(one.operands, two.operands, strict=True)
            )
        )
    return compared[a, b]


def _alike(a: ir.Operation, b: ir.Operation) -> bool:
    """Return whether two operations are the same but for their operands."""
    if a.name != b.name or not facts(a).pure or len(a.regions) or len(a.results) != 1:
        return False
    if a.results[0].type != b.results[0].type or len(a.operands) != len(b.operands):
        return False
    if not len(a.operands) and isinstance(a.results[0].type.element_type, ir.ComplexType):
        return False  # quirks.COMPLEX_ELEMENTS
    return attributes_of(a) == attributes_of(b)


def _uniform(op: ir.Operation) -> bool:
    """Replace an operation that rearranges equal elements, such as zeros, by a constant."""
    scalars = {_scalar_of(value) for value in op.operands}
    kind = op.results[0].type
    if len(scalars) != 1 or None in scalars or "sdy.sharding" in op.attributes:
        return False
    value = ir.DenseElementsAttr.get_splat(kind, *scalars)
    supersede(op, *insert(op, "stablehlo.constant", [kind], (), {"value": value}).results)
    return True


def _scalar_of(value: ir.Value) -> ir.Attribute | None:
    """Return the one element of a splat constant; None if complex: quirks.COMPLEX_ELEMENTS."""
    source = maker(value)
    if source is None or source.name != "stablehlo.constant":
        return None
    if isinstance(value.type.element_type, ir.ComplexType):
        return None
    content = source.attributes["value"]
    return content.get_splat_value() if getattr(content, "is_splat", False) else None


def _reduce(op: ir.Operation) -> None:
    """Reduce the source of a reshape, and reshape the result, where dimensions correspond."""
    reshape = maker(op.operands[0])
    if len(op.results) > 1 or reshape is None or reshape.name != "stablehlo.reshape":
        return
    source, result = reshape.operands[0], op.results[0]
    before, after = source.type.shape, op.operands[0].type.shape
    if 0 in before or only_user(op.operands[0]) is None or "sdy.sharding" in op.attributes:
        return
    reduced, gone = set(op.attributes["dimensions"]), []
    for was, now in corresponding_dimensions(before, after):
        if reduced.issuperset(now):
            gone += was
        elif not reduced.isdisjoint(now):
            return
    clone = op.clone(ip=ir.InsertionPoint(op))
    clone.operands[0] = source
    clone.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(sorted(gone))
    kept = [n for i, n in enumerate(before) if i not in gone]
    clone.results[0].set_type(ir.RankedTensorType.get(kept, result.type.element_type))
    shape = list(result.type.shape)
    new = clone.results[0] if kept == shape else _reshape(op, clone.results[0], shape)
    supersede(op, new)
    reshape.erase()


def _single(shape: list[int], window: list[int], sizes: list[int]) -> list[tuple[int, int]]:
    """(place in the window, dimension) of dimensions of which a window takes one of several."""
    pairs = zip(window, sizes, strict=True)
    return [(k, i) for k, (i, size) in enumerate(pairs) if size == 1 and shape[i] > 1]


def _without(dims: tuple[int, ...], gone: list[int]) -> tuple[int, ...]:
    """Return numbers of dimensions after others are gone."""
    return tuple(d - sum(g < d for g in gone) for d in dims if d not in gone)


def _reshape(op: ir.Operation, value: ir.Value, shape: list[int]) -> ir.Value:
    """Return a value in another shape, in front of an operation."""
    kind = ir.RankedTensorType.get(shape, value.type.element_type)
    return insert(op, "stablehlo.reshape", [kind], [value]).results[0]


def _insert_rows(op: ir.Operation) -> None:
    """Make window dimensions of size 1 of a scatter's updates inserted ones."""
    count = (len(op.operands) - 1) // 2
    shape, updates = op.operands[0].type.shape, op.operands[count + 1].type.shape
    d = stablehlo.scatter_dimensions(op.attributes["scatter_dimension_numbers"])
    apart = (*d.inserted_window_dims, *d.operand_batching_dims)
    window = [i for i in range(len(shape)) if i not in apart]
    rows = _single(shape, window, [updates[u] for u in d.update_window_dims])
    if not rows:
        return
    gone = [d.update_window_dims[k] for k, _ in rows]
    kept = [n for i, n in enumerate(updates) if i not in gone]
    for i in range(count + 1, 2 * count + 1):
        op.operands[i] = _reshape(op, op.operands[i], kept)
    changed = d._replace(
        update_window_dims=_without(d.update_window_dims, gone),
        inserted_window_dims=tuple(sorted((*d.inserted_window_dims, *(i for _, i in rows)))),
    )
    op.attributes["scatter_dimension_numbers"] = stablehlo.scatter_attribute(changed)


def _slice(op: ir.Operation) -> ir.Operation | None:
    """Move a slice past what made its operand; return the slice that replaced it, if any."""
    source = maker(op.operands[0])
    if source is None:
        return None
    if source.name == "stablehlo.concatenate":
        return _of_concatenation(op, source)
    if source.name == "stablehlo.select_and_scatter":
        _of_scatter(op, source)
        return None
    if source.name not in ("stablehlo.pad", "stablehlo.slice"):
        return None
    # Where the whole value is needed too, taking pieces of its source would fetch them twice.
    if any(use.owner.operation.name != "stablehlo.slice" for use in source.results[0].uses):
        return None
    if source.name == "stablehlo.slice":
        return _of_slice(op, source)
    _of_pad(op, source)
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
    sliced = _replace(op, "stablehlo.slice", [before.operands[0]], bounds)
    _drop_unused(before)
    return sliced


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
            sliced = _replace(op, "stablehlo.slice", [operand], bounds)
            _drop_unused(joined)
            return sliced
        offset += size
    return None


def _of_scatter(op: ir.Operation, scatter: ir.Operation) -> None:
    """Cut off padding that is never selected again: it becomes the operation's own.

    StableHLO selects among elements of the operand only; localization pads as it needs.
    """
    pad = maker(scatter.operands[0])
    if pad is None or pad.name != "stablehlo.pad":
        return
    begin, limit, stride = _bounds(op)
    low, high, between = (
        list(pad.attributes[f"{name}_padding{side}"])
        for name, side in (("edge", "_low"), ("edge", "_high"), ("interior", ""))
    )
    shape = op.results[0].type.shape
    # The slice must take off just what the pad put on, and nothing else may read either.
    cuts = begin == low and limit == [a + n for a, n in zip(low, shape, strict=True)]
    alone = all(len(list(v.results[0].uses)) == 1 for v in (pad, scatter))
    if not (cuts and alone) or any(between) or {*stride} != {1} or min(*low, *high, 0) < 0:
        return
    inside = np.array(scatter.attributes["padding"]) if "padding" in scatter.attributes else None
    fill = maker(pad.operands[1])
    # The padding must be a value that never wins, such as -inf where maxima are selected.
    never = never_selected(scatter)
    if (inside is not None and inside.any()) or never is None or fill is None:
        return
    wanted = ir.Attribute.parse(f"dense<{never}> : {pad.operands[1].type}")
    if fill.name != "stablehlo.constant" or str(fill.attributes["value"]) != str(wanted):
        return
    amounts = np.array([low, high], np.int64).T
    padding = ir.DenseIntElementsAttr.get(np.ascontiguousarray(amounts))
    attributes = attributes_of(scatter) | {"padding": padding}
    operands = [pad.operands[0], *list(scatter.operands)[1:]]
    padded = insert(scatter, scatter.name, op.results.types, operands, attributes, regions=2)
    for region, theirs in zip(padded.regions, scatter.regions, strict=True):
        theirs.blocks[0].append_to(region)
    supersede(op, *padded.results)
    scatter.erase()
    pad.erase()


def never_selected(scatter: ir.Operation) -> str | None:
    """Return a value, in MLIR's notation, that a selection of extrema never picks for its sum."""
    compare, combine = (ops_in(region.blocks[0]) for region in scatter.regions)
    element = scatter.operands[0].type.element_type
    if [o.name for o in combine] != ["stablehlo.add", "stablehlo.return"] or len(compare) != 2:
        return None
    if compare[0].name != "stablehlo.compare" or not isinstance(element, ir.FloatType):
        return None
    if list(compare[0].operands) != list(scatter.regions[0].blocks[0].arguments):
        return None
    direction = str(compare[0].attributes["comparison_direction"])
    largest = "GE" in direction or "GT" in direction
    return neutral(f"stablehlo.{'maximum' if largest else 'minimum'}", element)


def _bounds(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    names = ("start_indices", "limit_indices", "strides")
    begin, limit, stride = (list(op.attributes[name]) for name in names)
    return begin, limit, stride


def _replace(
    op: ir.Operation, name: str, operands: list[ir.Value], attributes: dict[str, list[int]]
) -> ir.Operation:
    numbers = {k: ir.DenseI64ArrayAttr.get(v) for k, v in attributes.items()}
    replacement = insert(op, name, op.results.types, operands, numbers)
    supersede(op, *replacement.results)
    return replacement


def _drop_unused(op: ir.Operation) -> None:
    if not list(op.results[0].uses):
        op.erase()

# Tests: tests/partition/test_localize.py
"""Operations that make or rearrange elements: constant, iota, broadcast, reshape."""

from __future__ import annotations

import re

from weft._xla.mlir import ir
from weft.core.shapes import corresponding_dimensions
from weft.partition.axis_layout import Atoms, AxisLayout
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue
from weft.partition.localize import Localizer, rule
from weft.partition.plan import Planner
from weft.partition.reshard import relayout


@rule("sdy.constant", "stablehlo.constant")
def constant(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    if op == lz.e.anchor:
        return [LocalValue(op.results[0], lz.layout(None, ()))]
    layout = lz.layouts(op)[0]
    element = op.results[0].type.element_type
    splat, whole = _constant_parts(op)

    def make(e: Emitter, target: AxisLayout) -> ir.Value:
        if splat is not None:
            return splat(e, e.type(target.local, element))
        return relayout(e, LocalValue(whole(e), target.whole), target).value

    return lz.replace(op, LocalValue(make(lz.e, layout), layout, remake=make))


def _constant_parts(op: ir.Operation):
    """Return functions that make a splat of a type (or None), and the whole constant."""
    type = op.results[0].type
    if isinstance(type.element_type, ir.ComplexType):
        # Through text: quirks.COMPLEX_ELEMENTS.
        dense = re.search(r"dense<(.*)> : tensor<", str(op), re.DOTALL)
        assert dense is not None, "constants are printed as dense elements"
        text = dense[1]
        splat = None if "[" in text else lambda e, t: e.constant_text(text, t)
        return splat, lambda e: e.constant_text(text, type)
    value = op.attributes["value"]
    if not getattr(value, "is_splat", False):
        return None, lambda e: e.constant(value)
    scalar = value.get_splat_value()
    return lambda e, t: e.constant(ir.DenseElementsAttr.get_splat(t, scalar)), None


@rule("stablehlo.iota")
def iota(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    layout = lz.layouts(op)[0]
    element = op.results[0].type.element_type
    dim = op.attributes["iota_dimension"].value

    def make(e: Emitter, target: AxisLayout) -> ir.Value:
        value = e.iota(target.local, dim, element)
        if not target.dims[dim]:
            return value
        start = e.convert(e.first_index(target, dim), element)
        return e.add(value, e.broadcast(start, target.local))

    return lz.replace(op, LocalValue(make(lz.e, layout), layout, remake=make))


@rule("stablehlo.broadcast_in_dim")
def broadcast_in_dim(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    layout = lz.layouts(op)[0]
    x = lz.operand(op, 0)
    shape, places = x.layout.shape, list(op.attributes["broadcast_dimensions"])

    def source(e: Emitter, target: AxisLayout) -> ir.Value:
        dims: list[Atoms] = [()] * len(shape)
        for i, to in enumerate(places):
            if shape[i] == target.shape[to]:
                dims[i] = target.dims[to]
        return relayout(e, x, AxisLayout(lz.mesh, shape, tuple(dims))).value

    def make(e: Emitter, target: AxisLayout) -> ir.Value:
        return e.broadcast(source(e, target), target.local, places)

    [out] = lz.keep(op, [source(lz.e, layout)], [layout])
    out.remake = make  # the operand is smaller: move it rather than the result
    return [out]


@rule("stablehlo.reshape")
def reshape(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Local where both layouts cut the flattened elements at the same strides.

    Otherwise the runs of dimensions whose split the result cannot express become whole, and the
    result is moved to its layout afterwards.
    """
    layout = lz.layouts(op)[0]
    layout_before = lz.operand(op, 0).layout
    shape = layout_before.shape
    groups = corresponding_dimensions(shape, layout.shape)
    back = [(b, a) for a, b in groups]

    def at_hand() -> tuple[AxisLayout, AxisLayout]:
        source = layout_before
        while (middle := _carry(source, layout.shape, groups)) is None:
            source = _without_crossing(source, layout.shape, groups)
        return source, middle

    def fit(out: AxisLayout) -> AxisLayout:
        return out if _carry(out, shape, back) is not None else at_hand()[1]

    def need(index: int, out: AxisLayout) -> AxisLayout:
        return _carry(out, shape, back) or at_hand()[0]

    planner = Planner(lz, op, layout, [0], need, fit=fit)
    [x], way = planner.moved()
    got = LocalValue(lz.e.reshape(x.value, way.out.local), way.out)
    return lz.replace(op, planner.deliver(got, layout))


def _carry(source: AxisLayout, shape: tuple[int, ...], groups) -> AxisLayout | None:
    """Return the layout that `source`'s atoms make of `shape`; None if it cannot express them."""
    mesh = source.mesh
    dims: list[Atoms] = [()] * len(shape)
    for left, right in groups:
        split = [d for d in left if source.dims[d]]
        if not split:
            continue
        big_left = [d for d in left if source.shape[d] != 1]
        big_right = [d for d in right if shape[d] != 1]
        if len(big_left) == len(big_right) == 1 and split == big_left:
            dims[big_right[0]] = source.dims[big_left[0]]
            continue
        if any(source.padded(d) for d in split) or 0 in shape:
            return None
        at = {}  # stride in the flattened group -> atom
        inner = 1
        for d in reversed(left):
            stride = inner * source.shape[d]
            for i in source.dims[d]:
                stride //= mesh.atoms[i].size
                at[stride] = i
            inner *= source.shape[d]
        inner = 1
        for d in reversed(right):
            stride = inner * shape[d]
            carried: Atoms = ()
            while (step := _splitting(mesh, at, stride, inner)) is not None:
                carried += (step,)
                stride //= mesh.atoms[step].size
                del at[stride]
            dims[d] = carried
            inner *= shape[d]
        if at:
            return None
    return AxisLayout(mesh, tuple(shape), tuple(dims))


def _splitting(mesh, at: dict[int, int], stride: int, inner: int) -> int | None:
    """Return the atom that cuts blocks of `stride` elements into whole multiples of `inner`."""
    for s, i in at.items():
        if s * mesh.atoms[i].size == stride and s % inner == 0:
            return i
    return None


def _without_crossing(source: AxisLayout, shape: tuple[int, ...], groups) -> AxisLayout:
    """`source` without the split of the first run of dimensions that is in the way."""
    for left, _ in groups:
        alone = source.without(*(d for d in range(len(source.shape)) if d not in left))
        if _carry(alone, shape, groups) is None:
            return source.without(*left)
    raise AssertionError("a replicated operand can always be reshaped")

"""stablehlo.convolution: batch, features, groups and spatial dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, free_of
from weft.partition.collect import byte_size_of, bytes_sent
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.windowed import held_window, listed, padding_of, window_of
from weft.partition.plan import FLOPS_PER_BYTE, comes_split, scattered_to, share
from weft.partition.window import window


@dataclass(slots=True)
class _Convolution:
    """A convolution's attributes, absent ones filled in; lists are by spatial dimension."""

    dims: stablehlo.ConvDimensions
    stride: list[int]
    base: list[int]
    dilation: list[int]
    padding: list[list[int]]
    reversal: list[bool]
    groups: int
    batch_groups: int

    @property
    def spatial(self) -> list[tuple[int, int, int, int]]:
        """(number, dimension of the operand, of the kernel, of the result)."""
        d = self.dims
        each = zip(d.lhs_spatial, d.rhs_spatial, d.out_spatial, strict=True)
        return [(i, a, b, o) for i, (a, b, o) in enumerate(each)]


def _read(op: ir.Operation) -> _Convolution:
    attributes = op.attributes
    dims = stablehlo.conv_dimensions(attributes["dimension_numbers"])
    rank = len(dims.lhs_spatial)
    return _Convolution(
        dims=dims,
        stride=listed(op, "window_strides", rank),
        base=listed(op, "lhs_dilation", rank),
        dilation=listed(op, "rhs_dilation", rank),
        padding=padding_of(op, rank),
        reversal=[bool(r) for r in listed(op, "window_reversal", rank, 0)],
        groups=attributes["feature_group_count"].value,
        batch_groups=attributes["batch_group_count"].value,
    )


@dataclass(slots=True)
class _Plan:
    """Where a convolution's result and operands lie while every device computes its part."""

    result: AxisLayout
    by_group: bool  # the groups of features are split over devices
    left: list[Atoms]
    right: list[Atoms]
    across: Atoms  # axes over which the results are partial sums
    contracted: list[int]  # spatial dimensions summed over devices


def _result_layout(conv: _Convolution, batch: int, out: AxisLayout) -> tuple[AxisLayout, bool]:
    """The layout that the devices can compute in, and whether it splits the groups."""
    dims, now = conv.dims, out
    if conv.batch_groups > 1:
        now = now.without(dims.out_feature)
        if batch != out.shape[dims.out_batch]:
            now = now.without(dims.out_batch)
    by_group = conv.groups > 1 and conv.groups % now.counts[dims.out_feature] == 0
    if conv.groups > 1 and not by_group:
        now = now.without(dims.out_feature)
    for i, d in enumerate(dims.out_spatial):
        if now.dims[d] and (now.local[d] * conv.stride[i] % conv.base[i] or 0 in out.shape):
            now = now.without(d)
    return now, by_group


def _plan(
    conv: _Convolution, lhs: AxisLayout, rhs: AxisLayout, out: AxisLayout, sum_features: bool = True
) -> _Plan:
    """Split features of the operand give partial sums, or are gathered."""
    dims = conv.dims
    now, by_group = _result_layout(conv, lhs.shape[dims.lhs_batch], out)
    left: list[Atoms] = [()] * len(lhs.shape)
    right: list[Atoms] = [()] * len(rhs.shape)
    left[dims.lhs_batch] = now.dims[dims.out_batch]
    right[dims.rhs_out] = now.dims[dims.out_feature]
    taken = set(now.used)
    across: Atoms = ()
    if by_group:
        left[dims.lhs_feature] = now.dims[dims.out_feature]
    elif conv.groups == 1 and sum_features:
        across = free_of(lhs.dims[dims.lhs_feature], taken) or free_of(rhs.dims[dims.rhs_in], taken)
        left[dims.lhs_feature] = right[dims.rhs_in] = across
        taken.update(across)
    contracted = []
    for i, a, b, o in conv.spatial:
        left[a] = now.dims[o]
        # A kernel as large as its operand (a filter gradient) is split like it and summed.
        large = rhs.shape[b] > 2 * out.shape[o]
        atoms = free_of(rhs.dims[b], taken) or free_of(lhs.dims[a], taken)
        if large and atoms and not now.dims[o] and conv.base[i] == 1 and not conv.reversal[i]:
            left[a] = right[b] = atoms
            taken.update(atoms)
            across += atoms
            contracted.append(i)
    return _Plan(now, by_group, left, right, across, contracted)


def _cheapest(
    lz: Localizer,
    op: ir.Operation,
    conv: _Convolution,
    lhs: LocalValue,
    rhs: LocalValue,
    out: AxisLayout,
) -> tuple[_Plan, LocalValue, LocalValue]:
    """Sums of features over devices, or features gathered where that sends less; its operands."""
    assert lhs.layout is not None and rhs.layout is not None
    split = _plan(conv, lhs.layout, rhs.layout, out)
    features = (conv.dims.lhs_feature,), (conv.dims.rhs_in,)
    natural = all(comes_split(x, f) for x, f in zip((lhs, rhs), features, strict=True))
    both = lhs.layout.dims[features[0][0]] and rhs.layout.dims[features[1][0]]
    if not split.across or split.contracted or (natural and both):
        return split, lhs, rhs
    whole = _plan(conv, lhs.layout, rhs.layout, out, sum_features=False)
    size = math.prod(split.result.local) * byte_size_of(op.results[0].type.element_type)
    kind = "all_reduce" if scattered_to(lz, op) is None else "reduce_scatter"
    saved = float(bytes_sent(kind, int(size), lz.mesh.count(split.across)))
    sources = []
    for i, (x, now, then) in enumerate(
        ((lhs, split.left, whole.left), (rhs, split.right, whole.right))
    ):
        pays = share(lz, op, op.operands[i])
        at = [AxisLayout(lz.mesh, x.layout.shape, tuple(dims)) for dims in (now, then)]
        least, source = min(
            ((pays.cost(lz.e, s, at[1]), s) for s in (x, x.before) if s is not None),
            key=lambda option: option[0],
        )
        saved += pays.cost(lz.e, x, at[0]) - least
        sources.append(source)
    terms = math.prod(rhs.layout.shape) // max(1, rhs.layout.shape[conv.dims.rhs_out])
    repeated = 1 - 1 / lz.mesh.count(split.across)
    flops = 2 * terms * math.prod(split.result.local) * repeated
    if saved > 0 and flops <= FLOPS_PER_BYTE * saved:
        return whole, sources[0], sources[1]
    return split, lhs, rhs


def _windows(
    e: Emitter, conv: _Convolution, plan: _Plan, x: LocalValue, y: LocalValue
) -> tuple[ir.Value, LocalValue, list[list[int]]]:
    """The operand that each device reads, the kernel, and the padding that is left to do."""
    value, held = x.value, x.layout
    padding = [list(p) for p in conv.padding]
    for i, a, b, o in conv.spatial:
        stride, dilation = conv.stride[i], conv.dilation[i]
        if i in plan.contracted:
            y = fill_padding(e, y, [b])
            part = y.layout.local[b]
            first = np.arange(y.layout.counts[b]) * part * dilation - padding[i][0]
            length = (plan.result.shape[o] - 1) * stride + (part - 1) * dilation + 1
            padding[i] = [0, 0]
        elif held.dims[a]:
            extent = (y.layout.shape[b] - 1) * dilation + 1
            first, length, lead, tail = window_of(
                plan.result, o, stride, conv.base[i], extent, padding[i][0]
            )
            padding[i] = [lead, tail]
        else:
            continue
        value = window(e, LocalValue(value, held), a, first, length)
        held = held_window(held, a, length)
    return value, y, padding


@rule("stablehlo.convolution")
def convolution(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Batch and features like a contraction; split spatial dimensions by halo exchange."""
    e = lz.e
    out = lz.layouts(op)[0]
    lhs, rhs = lz.operands(op)
    conv = _read(op)
    plan, lhs, rhs = _cheapest(lz, op, conv, lhs, rhs, out)
    now, across = plan.result, plan.across
    x = lz.move(lhs, AxisLayout(lz.mesh, lhs.layout.shape, tuple(plan.left)))
    y = lz.move(rhs, AxisLayout(lz.mesh, rhs.layout.shape, tuple(plan.right)))
    x = fill_padding(e, x, [conv.dims.lhs_feature])
    y = fill_padding(e, y, [conv.dims.rhs_in])
    value, y, padding = _windows(e, conv, plan, x, y)
    op.attributes["padding"] = e.table(np.array(padding, np.int64).reshape(len(padding), 2))
    if plan.by_group:
        groups = conv.groups // now.counts[conv.dims.out_feature]
        op.attributes["feature_group_count"] = e.i64_attr(groups)
    [got] = lz.keep(op, [value, y.value], [now])
    if now.dims == out.dims:
        got.partial = (across, "add") if across else None
        return [got]
    if across:
        got = LocalValue(e.all_reduce(got.value, across, "add"), now)
    return [lz.move(got, out)]

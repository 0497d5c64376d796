# Tests: tests/partition/test_localize.py, tests/ops/test_conv.py
"""stablehlo.convolution: batch, features, groups and spatial dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, free_of
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.windowed import HeldWindow, listed, padding_of, window_of
from weft.partition.plan import FLOPS_PER_BYTE, comes_split, result_cost, scattered_to, share
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
    by_group: bool  # the groups of features, or of the batch, are split over devices
    left: AxisLayout
    right: AxisLayout
    across: Atoms  # axes over which the results are partial sums
    contracted: list[int]  # spatial dimensions summed over devices


def _group_dims(conv: _Convolution) -> tuple[int, int]:
    """Return the dimensions of the operand and the kernel that the groups run through."""
    dims = conv.dims
    return dims.lhs_batch if conv.batch_groups > 1 else dims.lhs_feature, dims.rhs_out


def _result_layout(conv: _Convolution, out: AxisLayout) -> tuple[AxisLayout, bool]:
    """Return the layout that the devices can compute in, and whether it splits the groups."""
    dims, now = conv.dims, out
    groups = max(conv.groups, conv.batch_groups)
    if conv.batch_groups > 1:
        now = now.without(dims.out_batch)
    by_group = groups > 1 and groups % now.counts[dims.out_feature] == 0
    if groups > 1 and not by_group:
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
    now, by_group = _result_layout(conv, out)
    left: list[Atoms] = [()] * len(lhs.shape)
    right: list[Atoms] = [()] * len(rhs.shape)
    left[dims.lhs_batch] = now.dims[dims.out_batch]
    right[dims.rhs_out] = now.dims[dims.out_feature]
    taken = set(now.used)
    across: Atoms = ()
    if by_group:
        left[_group_dims(conv)[0]] = now.dims[dims.out_feature]
    if conv.groups == 1 and sum_features:
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
    at = [AxisLayout(x.mesh, x.shape, tuple(d)) for x, d in ((lhs, left), (rhs, right))]
    return _Plan(now, by_group, at[0], at[1], across, contracted)


def _cheapest(
    lz: Localizer,
    op: ir.Operation,
    conv: _Convolution,
    lhs: LocalValue,
    rhs: LocalValue,
    out: AxisLayout,
) -> tuple[_Plan, LocalValue, LocalValue]:
    """Return the plan that sends least without much more work, and its operands."""
    first = _plan(conv, lhs.layout, rhs.layout, out)
    plans = [first]
    features = (conv.dims.lhs_feature,), (conv.dims.rhs_in,)
    natural = all(comes_split(x, f) for x, f in zip((lhs, rhs), features, strict=True))
    both = lhs.layout.dims[features[0][0]] and rhs.layout.dims[features[1][0]]
    if first.across and not first.contracted and not (natural and both):
        plans.append(_plan(conv, lhs.layout, rhs.layout, out, sum_features=False))
    if len(plans) == 1:
        return first, lhs, rhs
    terms = 2 * math.prod(rhs.layout.shape) // max(1, rhs.layout.shape[conv.dims.rhs_out])
    pays = [share(lz, op, v) for v in op.operands]
    best: tuple[_Plan, LocalValue, LocalValue] | None = None
    cost = work = 0.0
    for plan in plans:
        sent = result_cost(lz, op, plan.result, scattered_to(lz, op) or out, across=plan.across)
        sources = []
        for x, layout, paid in zip((lhs, rhs), (plan.left, plan.right), pays, strict=True):
            # What is summed as it comes stays split as it comes.
            options = [x] if x.before is None or plan.across else [x, x.before]
            each, source = min(
                ((paid.cost(lz.e, s, layout), s) for s in options), key=lambda option: option[0]
            )
            sent += each
            sources.append(source)
        flops = terms * math.prod(plan.result.local) / lz.mesh.count(plan.across)
        if best is None or sent < cost and flops - work <= FLOPS_PER_BYTE * (cost - sent):
            best, cost, work = (plan, sources[0], sources[1]), sent, flops
    assert best is not None
    return best


def _windows(
    e: Emitter, conv: _Convolution, plan: _Plan, x: LocalValue, y: LocalValue
) -> tuple[ir.Value, LocalValue, list[list[int]]]:
    """Return the operand that each device reads, the kernel, and the padding that is left to do."""
    value, windowed = x.value, x.layout
    padding = [list(p) for p in conv.padding]
    for i, a, b, o in conv.spatial:
        stride, dilation = conv.stride[i], conv.dilation[i]
        if i in plan.contracted:
            y = fill_padding(e, y, [b])
            part = y.layout.local[b]
            first = np.arange(y.layout.counts[b]) * part * dilation - padding[i][0]
            length = (plan.result.shape[o] - 1) * stride + (part - 1) * dilation + 1
            padding[i] = [0, 0]
        elif windowed.dims[a]:
            extent = (y.layout.shape[b] - 1) * dilation + 1
            first, length, lead, tail = window_of(
                plan.result, o, stride, conv.base[i], extent, padding[i][0]
            )
            padding[i] = [lead, tail]
        else:
            continue
        value = window(e, LocalValue(value, windowed), a, first, length)
        windowed = HeldWindow(windowed, a, length)
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
    x, y = lz.move(lhs, plan.left), lz.move(rhs, plan.right)
    x = fill_padding(e, x, [conv.dims.lhs_feature])
    y = fill_padding(e, y, [conv.dims.rhs_in])
    value, y, padding = _windows(e, conv, plan, x, y)
    op.attributes["padding"] = e.table(np.array(padding, np.int64).reshape(len(padding), 2))
    if plan.by_group:
        for name, groups in (("feature", conv.groups), ("batch", conv.batch_groups)):
            if groups > 1:
                local_count = e.i64_attr(groups // now.counts[conv.dims.out_feature])
                op.attributes[f"{name}_group_count"] = local_count
    [got] = lz.keep(op, [value, y.value], [now])
    if now.dims == out.dims:
        got.partial = (across, "add") if across else None
        return [got]
    if across:
        got = LocalValue(e.all_reduce(got.value, across, "add"), now)
    return [lz.move(got, out)]

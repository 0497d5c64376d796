"""stablehlo.convolution: batch, features, groups and spatial dimensions."""

from __future__ import annotations

import numpy as np

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.layout import Atoms, Layout
from weft.partition.local import Local, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.windowed import held_window, window_of
from weft.partition.window import window


@rule("stablehlo.convolution")
def convolution(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Batch and features like a contraction; split spatial dimensions by halo exchange."""
    e = lz.e
    out = lz.layouts(op)[0]
    lhs, rhs = lz.operands(op)
    dims = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
    rank = len(dims.lhs_spatial)
    stride = _list(op, "window_strides", rank)
    base = _list(op, "lhs_dilation", rank)
    dilation = _list(op, "rhs_dilation", rank)
    padding = (
        np.array(op.attributes["padding"]).reshape(rank, 2).tolist()
        if "padding" in op.attributes
        else [[0, 0] for _ in range(rank)]
    )
    reversed_ = (
        list(op.attributes["window_reversal"])
        if "window_reversal" in op.attributes
        else [False] * rank
    )
    groups = op.attributes["feature_group_count"].value
    batch_groups = op.attributes["batch_group_count"].value
    now = out
    if batch_groups > 1:
        now = now.without(dims.out_feature)
        if lhs.layout.shape[dims.lhs_batch] != out.shape[dims.out_batch]:
            now = now.without(dims.out_batch)
    by_group = groups > 1 and groups % now.counts[dims.out_feature] == 0
    if groups > 1 and not by_group:
        now = now.without(dims.out_feature)
    for i, d in enumerate(dims.out_spatial):
        if now.dims[d] and (now.local[d] * stride[i] % base[i] or 0 in out.shape):
            now = now.without(d)

    left: list[Atoms] = [()] * len(lhs.layout.shape)
    right: list[Atoms] = [()] * len(rhs.layout.shape)
    left[dims.lhs_batch] = now.dims[dims.out_batch]
    right[dims.rhs_out] = now.dims[dims.out_feature]
    taken = set(now.used)
    across: Atoms = ()
    if by_group:
        left[dims.lhs_feature] = now.dims[dims.out_feature]
    elif groups == 1:
        across = _free(lhs.layout.dims[dims.lhs_feature], taken) or _free(
            rhs.layout.dims[dims.rhs_in], taken
        )
        left[dims.lhs_feature] = right[dims.rhs_in] = across
        taken.update(across)
    contracted = []
    for i, (a, b, o) in enumerate(
        zip(dims.lhs_spatial, dims.rhs_spatial, dims.out_spatial, strict=True)
    ):
        left[a] = now.dims[o]
        # A kernel as large as its operand (a filter gradient) is split like it and summed.
        atoms = _free(rhs.layout.dims[b], taken) or _free(lhs.layout.dims[a], taken)
        if (
            not now.dims[o]
            and atoms
            and base[i] == 1
            and not reversed_[i]
            and _is_large(rhs, b, out, o)
        ):
            left[a] = right[b] = atoms
            taken.update(atoms)
            across += atoms
            contracted.append(i)
    x = lz.move(lhs, Layout(lz.mesh, lhs.layout.shape, tuple(left)))
    y = lz.move(rhs, Layout(lz.mesh, rhs.layout.shape, tuple(right)))
    x = fill_padding(e, x, [dims.lhs_feature])
    y = fill_padding(e, y, [dims.rhs_in])
    held = x.layout
    value = x.value
    for i, (a, b, o) in enumerate(
        zip(dims.lhs_spatial, dims.rhs_spatial, dims.out_spatial, strict=True)
    ):
        if i in contracted:
            y = fill_padding(e, y, [b])
            part = y.layout.local[b]
            first = np.arange(y.layout.counts[b]) * part * dilation[i] - padding[i][0]
            length = (out.shape[o] - 1) * stride[i] + (part - 1) * dilation[i] + 1
            value = window(e, Local(value, held), a, first, length)
            held = held_window(held, a, length)
            padding[i] = [0, 0]
        elif held.dims[a]:
            extent = (rhs.layout.shape[b] - 1) * dilation[i] + 1
            first, length, lead, tail = window_of(now, o, stride[i], base[i], extent, padding[i][0])
            value = window(e, Local(value, held), a, first, length)
            held = held_window(held, a, length)
            padding[i] = [lead, tail]
    op.attributes["padding"] = e.table(np.array(padding, np.int64).reshape(rank, 2))
    if by_group:
        op.attributes["feature_group_count"] = e.i64_attr(groups // now.counts[dims.out_feature])
    [got] = lz.keep(op, [value, y.value], [now])
    lz.after(op)
    if now.dims == out.dims:
        got.partial = (across, "add") if across else None
        return [got]
    if across:
        got = Local(e.all_reduce(got.value, across, "add"), now)
    return [lz.move(got, out)]


def _is_large(rhs: Local, b: int, out: Layout, o: int) -> bool:
    return rhs.layout.shape[b] > 2 * out.shape[o]


def _list(op: ir.Operation, name: str, rank: int) -> list[int]:
    return list(op.attributes[name]) if name in op.attributes else [1] * rank


def _free(atoms: Atoms, taken: set[int]) -> Atoms:
    stop = next((j for j, i in enumerate(atoms) if i in taken), len(atoms))
    return atoms[:stop]

# Tests: tests/pallas/test_transforms.py
"""Kernel calls: split as their rule says, where the kernel can run on the shards."""

from __future__ import annotations

import weakref
from typing import Any

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.localize import Localizer
from weft.partition.localize_rules.factored import by_factor, split_factors, whole, whole_sums
from weft.partition.reshard import LocalValue

KERNELS: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""Name in a call's attribute `weft.kernel` -> object with
counts (of operands and results that are the kernel's, others follow them), fits(marked dimensions
of these, parts) and emit(operands, local shapes), which gives an operation."""


def is_kernel(op: ir.Operation) -> bool:
    return "weft.kernel" in op.attributes


def kernel_call(
    lz: Localizer, op: ir.Operation, xs: list[LocalValue], outs: list[AxisLayout]
) -> list[LocalValue]:
    """Run the kernel on each device's part; factors that do not fit are whole."""
    kernel = KERNELS[op.attributes["weft.kernel"].value]
    del op.attributes["weft.kernel"]
    r = sdy.sharding_rule(op.attributes["sdy.sharding_rule"])
    del op.attributes["sdy.sharding_rule"]
    n, count = kernel.counts
    mappings = [*r.operands[:n], *r.results[:count]]
    layouts = [*(x.layout for x in xs[:n]), *outs[:count]]
    splittable = {f for mapping in r.results for dim in mapping for f in dim} | set(r.reduction)

    def fits(factor: int, parts: int) -> bool:
        marks = [[bool(f) and f[0] == factor for f in mapping] for mapping in mappings]
        return factor in splittable and r.sizes[factor] % parts == 0 and kernel.fits(marks, parts)

    results = zip(outs[:count], r.results[:count], strict=True)
    split = split_factors(r, [*results, *zip(layouts, mappings, strict=True)], fits)
    if not split:
        return whole(lz, op)
    now = [by_factor(split, layout, m) for layout, m in zip(layouts, mappings, strict=True)]
    values = [lz.at(x, layout) for x, layout in zip(xs[:n], now[:n], strict=True)]
    with lz.e.ip:
        call = kernel.emit(values, [layout.local for layout in now])
    got = [LocalValue(v, o) for v, o in zip(call.results, [*now[n:], *outs[count:]], strict=True)]
    got = whole_sums(lz, r, split, got)
    moved = [lz.move(x, o) for x, o in zip(got[:count], outs[:count], strict=True)]
    return lz.replace(op, *moved, *got[count:])

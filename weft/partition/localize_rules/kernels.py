"""Kernel calls: split as their rule says, where the kernel can run on the shards."""

from __future__ import annotations

import weakref
from typing import Any

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.layout import Atoms, Layout
from weft.partition.localize import Localizer
from weft.partition.reshard import Local

KERNELS: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""Name in a call's attribute `weft.kernel` -> object with
fits(marked dimensions of operands and results, parts) and attributes(local shapes)."""


def is_kernel(op: ir.Operation) -> bool:
    return "weft.kernel" in op.attributes


def kernel_call(
    lz: Localizer, op: ir.Operation, xs: list[Local], outs: list[Layout]
) -> list[Local]:
    """Each device runs the kernel on its part; factors that do not fit are whole."""
    kernel = KERNELS[op.attributes["weft.kernel"].value]
    del op.attributes["weft.kernel"]
    r = sdy.sharding_rule(op.attributes["sdy.sharding_rule"])
    del op.attributes["sdy.sharding_rule"]
    mappings = [*r.operands, *r.results]
    layouts = [*(x.layout for x in xs), *outs]
    in_results = {f for mapping in r.results for dim in mapping for f in dim}
    split: dict[int, Atoms] = {}
    taken: set[int] = set()
    for layout, mapping in [
        *zip(outs, r.results, strict=True),
        *zip(layouts, mappings, strict=True),
    ]:
        for d, factors in enumerate(mapping):
            atoms = layout.dims[d]
            factor = factors[0] if factors else None
            if not atoms or factor is None or factor in split or set(atoms) & taken:
                continue
            if factor in r.need_replication or not {factor} <= in_results | set(r.reduction):
                continue
            parts = lz.mesh.count(atoms)
            marks = [[bool(f) and f[0] == factor for f in mapping] for mapping in mappings]
            if r.sizes[factor] % parts or not kernel.fits(marks, parts):
                continue
            split[factor] = atoms
            taken.update(atoms)

    def target(layout: Layout, mapping: Any) -> Layout:
        dims = tuple(split.get(f[0], ()) if f else () for f in mapping)
        return Layout(lz.mesh, layout.shape, dims)

    now = [target(layout, m) for layout, m in zip(layouts, mappings, strict=True)]
    n = len(xs)
    values = [lz.at(x, layout) for x, layout in zip(xs, now[:n], strict=True)]
    if split:
        for name, value in kernel.attributes([layout.local for layout in now]).items():
            op.attributes[name] = value
    across = tuple(i for f in sorted(r.reduction) for i in split.get(f, ()))
    got = lz.keep(op, values, now[n:])
    lz.after(op)
    if across:
        got = [Local(lz.e.all_reduce(x.value, across, "add"), x.layout) for x in got]
    return [lz.move(x, o) for x, o in zip(got, outs, strict=True)]

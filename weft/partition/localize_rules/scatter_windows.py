"""select_and_scatter, the gradient of a maximum over windows."""

from __future__ import annotations

import numpy as np

from weft._xla.mlir import ir
from weft.partition.local_value import LocalValue
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.windowed import HeldWindow, listed, padding_of
from weft.partition.simplify import never_selected
from weft.partition.window import window


@rule("stablehlo.select_and_scatter")
def select_and_scatter(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Redo on each device every window that touches its elements, which it then keeps.

    That needs windows that start at the same phase on every device, and padding that is never
    selected; other cases make the dimension whole. Where such padding is known, the operand is
    padded with it also along whole dimensions: see quirks.SCATTER_PADDING.
    """
    e = lz.e
    out = lz.layouts(op)[0]
    x, init = lz.operand(op, 0), lz.operand(op, 2)
    source = lz.operand(op, 1)
    if source.before is not None and op.operands[1] not in lz.shared:
        source = source.before  # what was moved for this operation only
    rank = len(out.shape)
    size, stride = (listed(op, f"window_{name}", rank) for name in ("dimensions", "strides"))
    padding = padding_of(op, rank)
    never = never_selected(op)
    fill = never and e.constant_text(never, e.type((), x.value.type.element_type))
    # Split dimensions stay split where every shard starts at the same phase of the windows.
    trivial = [size[d] == stride[d] == 1 and padding[d] == [0, 0] for d in range(rank)]
    drop = [
        d
        for d in range(rank)
        if not trivial[d] and (out.local[d] % stride[d] or fill is None or out.padded(d))
    ]
    now = out.without(*drop)
    x = lz.move(x, now)
    split = [d for d in range(rank) if not trivial[d] and now.dims[d]]
    source = lz.move(
        source,
        now.of_shape(source.layout.shape).without(
            *(d for d in split if source.layout.shape[d] * stride[d] != out.shape[d])
        ),
    )
    zero = e.const(0, source.value.type.element_type)
    # Whole dimensions are padded by values that are never selected (quirks.SCATTER_PADDING).
    values, windowed, held_source, keep = [x.value, source.value], now, source.layout, {}
    for d in range(rank):
        if fill is None or padding[d] == [0, 0] or d in split:
            continue
        low, high = padding[d]
        values[0] = e.pad(values[0], d, low, high, fill)
        windowed = HeldWindow(windowed, d, values[0].type.shape[d])
        keep[d] = (low, windowed.local[d])
        padding[d] = [0, 0]
    # Split ones read the neighbours' elements that their own windows reach into.
    for d in split:
        low, step, width = padding[d][0], stride[d], size[d]
        before = -(-(low - width + 1) // step)  # first window that touches a shard's first element
        count = (now.local[d] - 1 + low) // step - before + 1
        first = np.arange(now.counts[d]) * (now.local[d] // step) + before
        length = (count - 1) * step + width
        values[0] = window(e, LocalValue(values[0], windowed), d, first * step - low, length, fill)
        if held_source.dims[d]:
            values[1] = window(e, LocalValue(values[1], held_source), d, first, count, zero)
        else:
            pad_low = max(0, -int(first.min()))
            pad_high = max(0, int(first.max()) + count - held_source.shape[d])
            values[1] = e.pad(values[1], d, pad_low, pad_high, zero)
            values[1] = e.dynamic_slice(values[1], d, e.lookup(now.dims[d], first + pad_low), count)
        windowed, held_source = HeldWindow(windowed, d, length), HeldWindow(held_source, d, count)
        keep[d] = (int(-(first[0] * step - low)), length)
        padding[d] = [0, 0]
    op.attributes["padding"] = e.table(np.array(padding, np.int64).reshape(rank, 2))
    # Of the elements that windows reach, a device keeps its own.
    wide = now
    for d, (_, length) in keep.items():
        wide = HeldWindow(wide, d, length)
    [got] = lz.keep(op, [*values, init.value], [wide])
    value = got.value
    for d, (offset, length) in keep.items():
        value = e.pad(value, d, 0, max(0, offset + now.local[d] - length), init.value)
        value = e.slice(value, d, offset, offset + now.local[d])
    return [lz.move(LocalValue(value, now), out)]

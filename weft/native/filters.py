"""Gradients of the filters of convolutions as calls of a kernel.

XLA:CPU takes them for convolutions with windows as large as images, after transposes of both
operands, and runs them at half the speed of its other convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.limits import FILTERS
from weft.native.calls import call, has_compiler, target
from weft.native.convolution import ints
from weft.native.dense import BYTES, arranged, tile
from weft.native.engine import host
from weft.native.kernels.filters import POSITIONS
from weft.native.parallel import threads
from weft.partition.emit import Emitter

_PANELS = 4
"""Panels of outputs for which inputs are copied once: what is read of them stays in cache."""


def filters(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a convolution that sums over places, in one or two dimensions, and the batch."""
    x, w = op.operands
    out = op.results[0].type
    name, spatial = str(out.element_type), out.rank - 2
    if spatial not in (1, 2) or name not in BYTES or not has_compiler():
        return None
    if {str(v.type.element_type) for v in (x, w)} != {name}:
        return None
    if any(ints(op, "window_reversal", spatial, 0)) or set(ints(op, "lhs_dilation", 1, 1)) != {1}:
        return None
    d = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
    order = [
        [d.lhs_feature, *d.lhs_spatial, d.lhs_batch],
        [d.rhs_in, *d.rhs_spatial, d.rhs_out],
        [*d.out_spatial, d.out_batch, d.out_feature],
    ]
    x_shape, w_shape, out_shape = (
        [v.shape[d] for d in o] for v, o in zip((x.type, w.type, out), order, strict=True)
    )
    if math.prod(out_shape) * math.prod(w_shape[:-1]) < FILTERS:
        return None

    # Distances by images, lines, columns and features.
    x_steps, w_steps = (
        [steps[0], *steps[2:], steps[1]]
        for _, steps in (
            arranged(x, d.lhs_feature, d.lhs_batch, d.lhs_spatial),
            arranged(w, d.rhs_in, d.rhs_out, d.rhs_spatial),
        )
    )
    two = [1] * (2 - spatial)
    taps = [*two, *out_shape[:spatial]]
    places_of_w = [*two, *w_shape[1:-1]]
    strides = [*two, *ints(op, "rhs_dilation", spatial, 1)]
    dilation = [*two, *ints(op, "window_strides", spatial, 1)]
    low = [*[0] * (2 - spatial), *ints(op, "padding", 2 * spatial, 0)[::2]]
    inputs, outputs = out_shape[spatial:]

    # A tile of sums stays in registers; the part of x that it reads is copied once for all taps.
    lanes = host().vector_bytes // BYTES[name]
    rows, vectors = tile(outputs, lanes)
    rows = min(rows, inputs)
    width = vectors * lanes
    block = blocks(x_shape[0], *places_of_w)
    extent = [
        (n - 1) * s + (t - 1) * d + 1
        for n, s, t, d in zip(block[1:], strides, taps, dilation, strict=True)
    ]
    region = block[0] * math.prod(extent) * rows
    # Inputs are copied once for all outputs, where that leaves enough to share.
    ranges = -(-inputs // rows)
    panels = min(_PANELS, -(-outputs // width))
    while panels > 1 and ranges * -(-outputs // (panels * width)) < 2 * threads():
        panels -= 1
    group = grouped(ranges, -(-outputs // (panels * width)))
    # More parts than threads, so that none waits long for the last.
    num_parts = 4 * threads() if threads() > 1 else 1
    scratch = POSITIONS * panels * width + region + 2 * width + 64
    size = [x_shape[0], *two, *x_shape[1:]]
    parameters = [
        *size, *places_of_w, outputs, *taps, *strides, *dilation, *low, *block,
        group, panels, scratch, *x_steps, *w_steps,
    ]  # fmt: skip
    sizes = {"LANES": lanes, "ROWS": rows, "VECTORS": vectors, "PARTS": num_parts}
    kernel = target("filters", "filters", {"T": name, **sizes})
    types = [e.type(n, out.element_type) for n in (out_shape, [num_parts * scratch])]
    result, _unused = call(e, kernel, [x, w], types, parameters)
    back = [order[2].index(d) for d in range(out.rank)]
    return [result if back == sorted(back) else e.transpose(result, back)]


def blocks(images: int, down: int, across: int) -> list[int]:
    """Images, rows and columns whose positions are summed at once."""
    columns = min(across, POSITIONS)
    rows = min(down, POSITIONS // columns)
    return [min(images, POSITIONS // (rows * columns)), rows, columns]


def grouped(ranges: int, others: int) -> int:
    """Count the ranges of inputs that read the same outputs; all threads have as many such jobs."""
    jobs = -(-ranges // 4)
    while jobs < ranges and jobs * others % threads():
        jobs += 1
    return -(-ranges // jobs)

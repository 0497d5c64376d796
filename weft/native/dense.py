"""Convolutions of all features as calls of a kernel.

XLA:CPU copies every window out for them, and spreads operands with gaps out with zeros.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.native.calls import call, has_compiler, target
from weft.native.convolution import ints, parts
from weft.native.engine import host
from weft.native.kernels.dense import DEPTH, PLACES
from weft.native.parallel import threads
from weft.partition.emit import Emitter
from weft.partition.walk import maker

BYTES = {"f32": 4, "f64": 8}
_WINDOW, _REGION = 256, 1 << 17
"""Elements of a window, or phases of the places, up to which they are listed; elements of inputs
that a block reads, where a smaller one can do with fewer."""


def dense(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a convolution in one or two dimensions, with any strides, dilation and order."""
    x, w = op.operands
    out = op.results[0].type
    name, spatial = str(out.element_type), out.rank - 2
    if spatial not in (1, 2) or name not in BYTES or not has_compiler():
        return None
    if {str(v.type.element_type) for v in (x, w)} != {name}:
        return None
    d = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
    flips = [bool(n) for n in ints(op, "window_reversal", spatial, 0)]
    turned = maker(w)
    if turned is not None and turned.name == "stablehlo.reverse":  # as in gradients
        dims = set(turned.attributes["dimensions"])
        if dims <= set(d.rhs_spatial):
            w = turned.operands[0]
            flips = [f != (n in dims) for f, n in zip(flips, d.rhs_spatial, strict=True)]
    (images, inputs, *size), x_steps = arranged(x, d.lhs_batch, d.lhs_feature, d.lhs_spatial)
    (outputs, _, *window), w_steps = arranged(w, d.rhs_out, d.rhs_in, d.rhs_spatial)
    (_, _, *places), out_steps = arranged(op.results[0], d.out_batch, d.out_feature, d.out_spatial)
    lanes = host().vector_bytes // BYTES[name]
    taps = math.prod(window)
    if math.prod(out.shape) == 0 or taps > _WINDOW or outputs < lanes:
        return None

    def two(attribute: str, missing: int) -> list[int]:
        return [*[missing] * (2 - spatial), *ints(op, attribute, spatial, missing)]

    strides, gaps = two("window_strides", 1), two("lhs_dilation", 1)
    low = [*[0] * (2 - spatial), *ints(op, "padding", 2 * spatial, 0)[::2]]
    flips = [*[False] * (2 - spatial), *flips]
    axes = list(map(phases, places, window, strides, two("rhs_dilation", 1), gaps, low, flips))
    shared = list(map(math.gcd, strides, gaps))
    stride = [s // g for s, g in zip(strides, shared, strict=True)]
    step = [gap // g for gap, g in zip(gaps, shared, strict=True)]

    # How much is computed at once: places, inputs, outputs, taps.
    rows, vectors = tile(outputs, lanes)
    rows = min(rows, 8)
    width = vectors * lanes
    extents = [images, *(max(p.count for p in axis) for axis in axes)]
    most_taps = max(1, math.prod(max(len(p.taps) for p in axis) for axis in axes))
    num_phases = math.prod(map(len, axes))
    if num_phases > _WINDOW:
        return None
    some_inputs, some_taps = depths(inputs, most_taps)
    spans = [max(p.span for p in axis) for axis in axes]
    some_outputs = min(outputs, max(64, width) // width * width)
    for count in (PLACES, PLACES // 2, PLACES // 4, PLACES // 8):
        block = blocks(extents, count)
        read = [(b - 1) * s + n for b, s, n in zip(block[1:], stride, spans, strict=True)]
        region = _aligned(block[0] * math.prod(read) * some_inputs)
        num_blocks = [-(-n // b) for n, b in zip(extents, block, strict=True)]
        jobs = math.prod(num_blocks) * -(-outputs // some_outputs) * num_phases
        if region <= _REGION and jobs >= 2 * threads():
            break
    if region > 4 * _REGION:  # strides or dilation read far more than is used
        return None
    panels = -(-some_outputs // width)
    filter_size = _aligned(some_taps * some_inputs * panels * width)
    scratch = region + panels * (PLACES + rows) * width
    packs = [-(-inputs // some_inputs), -(-outputs // some_outputs), -(-most_taps // some_taps)]
    num_parts = min(parts(), jobs)

    records: list[int] = []
    table: list[int] = []
    for a, b in itertools.product(*axes):
        first = len(table) // 3
        for (i, down), (j, across) in itertools.product(a.taps, b.taps):
            table += [down - a.low, across - b.low, i * w_steps[2] + j * w_steps[3]]
        records += [a.first, b.first, a.count, b.count, first, len(table) // 3 - first]
        records += [a.low, b.low, a.span, b.span]
    parameters = [
        images, *size, inputs, outputs, x_steps[0], *x_steps[2:], x_steps[1],
        out_steps[0], *out_steps[2:], out_steps[1], w_steps[1], w_steps[0], *stride, *step,
        *block, some_inputs, some_outputs, some_taps, *num_blocks, *packs, num_phases,
        region, filter_size, scratch, num_parts, *records, *table,
    ]  # fmt: skip
    kernel = target("dense", "dense", {"T": name, "LANES": lanes, "ROWS": rows, "VECTORS": vectors})
    memory = math.prod(packs) * num_phases * filter_size + num_parts * scratch
    types = [e.type(n, out.element_type) for n in (out.shape, [memory])]
    return [call(e, kernel, [x, w], types, parameters)[0]]


def arranged(x: ir.Value, batch: int, feature: int, space: Sequence[int]) -> tuple:
    """Return sizes and distances by batch, feature and two spatial dimensions."""
    shape, dims = list(x.type.shape), [batch, feature, *space]
    sizes = [shape[k] for k in dims]
    apart = [math.prod(shape[k + 1 :]) for k in dims]
    if len(space) == 1:
        sizes.insert(2, 1)
        apart.insert(2, 0)
    return sizes, apart


class Phase:
    """Places of an axis that the same taps reach: the first of them, and the taps' distances."""

    def __init__(self, first: int, count: int, taps: list[tuple[int, int]]) -> None:
        self.first, self.count, self.taps = first, count, taps
        distances = [distance for _, distance in taps] or [0]
        self.low = min(distances)
        self.span = max(distances) - self.low + 1


def phases(
    size: int, window: int, stride: int, dilation: int, gap: int, low: int, flipped: bool
) -> list[Phase]:
    """Divide the places of an axis by the taps that meet elements rather than gaps between them."""
    step = gap // math.gcd(stride, gap)
    result = []
    for first in range(min(step, size)):
        starts = [first * stride + t * dilation - low for t in range(window)]
        taps = [
            (window - 1 - t if flipped else t, start // gap)
            for t, start in enumerate(starts)
            if start % gap == 0
        ]
        result.append(Phase(first, -(-(size - first) // step), taps))
    return result


def tile(outputs: int, lanes: int) -> tuple[int, int]:
    """Return how many rows, and vectors of outputs, have their sums in registers."""
    registers = 24 if host().registers == 32 else 12
    needed = -(-outputs // lanes)
    counts = [n for n in (4, 3, 2, 1) if registers // n >= 6]
    vectors = min(counts, key=lambda n: (-(-needed // n) * n, -n))
    return registers // vectors, vectors


def blocks(sizes: Sequence[int], places: int) -> list[int]:
    """Images, lines and columns of a block of up to so many places, in blocks of equal sizes."""
    result: list[int] = []
    for size in reversed(sizes):
        result.insert(0, even(size, places))
        places //= result[0]
    return result


def depths(inputs: int, taps: int) -> tuple[int, int]:
    """Return how many inputs and taps are summed over at once: up to DEPTH together."""
    some_inputs = even(inputs, max(64, DEPTH // taps))
    return some_inputs, even(taps, max(1, DEPTH // some_inputs))


def even(size: int, most: int) -> int:
    """Return the size of parts of nearly equal sizes."""
    return -(-size // -(-size // min(size, most)))


def _aligned(count: int) -> int:
    return -(-count // 64) * 64

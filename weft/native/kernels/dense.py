# Tests: tests/native/test_dense.py
"""Convolutions: out[n, y, x, o] = Σ in[n, y', x', i] w[tap, i, o] over taps and inputs i.

Bound by the caller: T, the dtype; LANES, how many of them a vector holds; ROWS and VECTORS, the
places and the vectors of outputs whose sums stay in registers. For a block of places and some
inputs, what all taps read is copied to where the cache holds it, with its padding and with inputs
last. There a tap is one and the same distance away from every place. The filters of some taps are
copied in the order in which they are read.

Arrays may have any order of dimensions: they are given by how far apart neighbours are. With gaps
between the places of the operand, outputs fall into phases, each of which some of the taps reach.

The parameters by position are made by `weft.native.dense`.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.depthwise import clear
from weft.native.kernels.turn import turn
from weft.native.language import (
    i64,
    load_wide,
    outlined,
    parallel,
    ptr,
    splat,
    stack,
    store_wide,
    unrolled,
)

BATCHES, HEIGHT, WIDTH, INPUTS, OUTPUTS = 0, 1, 2, 3, 4
X_IMAGE, X_LINE, X_COLUMN, X_INPUT = 5, 6, 7, 8
OUT_IMAGE, OUT_LINE, OUT_COLUMN, OUT_OUTPUT = 9, 10, 11, 12
W_INPUT, W_OUTPUT = 13, 14
STRIDE_Y, STRIDE_X, STEP_Y, STEP_X = 15, 16, 17, 18
IMAGES, LINES, COLUMNS, SOME_INPUTS, SOME_OUTPUTS, SOME_TAPS = 19, 20, 21, 22, 23, 24
IMAGE_BLOCKS, LINE_BLOCKS, COLUMN_BLOCKS = 25, 26, 27
INPUT_BLOCKS, OUTPUT_BLOCKS, TAP_BLOCKS, PHASES = 28, 29, 30, 31
REGION, FILTER, SCRATCH, PARTS = 32, 33, 34, 35
FIRST_PHASE, PHASE = 36, 10
FIRST_Y, FIRST_X, DOWN, ACROSS, TAP, TAPS, OFFSET_Y, OFFSET_X, SPAN_Y, SPAN_X = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
)  # fmt: skip
PLACES, DEPTH = 512, 256


@outlined
def products(
    x: ptr[T], w: ptr[T], at: ptr[i64], n: i64, starts: ptr[i64], out: ptr[T], fresh: boolean
):
    """out[i, j] (+)= Σ x[place[i] + at[k]] w[k, j] over k, all of them in registers."""
    rows = stack(ptr[T], ROWS)
    sums = stack(T, ROWS * VECTORS * LANES)
    for i in unrolled(ROWS):
        rows[i] = x + starts[i]
    for i in unrolled(ROWS * VECTORS):
        store_wide(sums + i * LANES, splat(T(0)))
    for k in range(n):
        right = w + k * (VECTORS * LANES)
        offset = at[k]
        for i in unrolled(ROWS):
            factor = splat(rows[i][offset])
            for j in unrolled(VECTORS):
                total = sums + (i * VECTORS + j) * LANES
                store_wide(total, load_wide(total) + factor * load_wide(right + j * LANES))
    if fresh:
        for i in unrolled(ROWS * VECTORS):
            store_wide(out + i * LANES, load_wide(sums + i * LANES))
    else:
        for i in unrolled(ROWS * VECTORS):
            store_wide(out + i * LANES, load_wide(out + i * LANES) + load_wide(sums + i * LANES))


@outlined
def copy_line(source: ptr[T], target: ptr[T], p: ptr[i64], columns: i64, inputs: i64):
    """Copy some inputs of neighbouring columns, inputs last."""
    if p[X_INPUT] == 1 and p[X_COLUMN] == inputs:
        for i in range(columns * inputs):
            target[i] = source[i]
    elif p[X_INPUT] == 1:
        apart = p[X_COLUMN]
        for column in range(columns):
            pixel = source + column * apart
            packed = target + column * inputs
            for i in range(inputs):
                packed[i] = pixel[i]
    else:
        turn(source, p[X_INPUT], p[X_COLUMN], target, inputs, inputs, columns)


@outlined
def pack_inputs(
    x: ptr[T], packed: ptr[T], p: ptr[i64], first: i64, inputs: i64, n: i64, images: i64,
    y: i64, lines: i64, column: i64, columns: i64,
):  # fmt: skip
    """Copy the inputs that taps read at a block of places, zeros around the images."""
    left = max(0, min(columns, -column))
    right = max(left, min(columns, p[WIDTH] - column))
    target = packed
    for image in range(n, n + images):
        for line in range(y, y + lines):
            if line < 0 or line >= p[HEIGHT] or left == right:
                clear(target, columns * inputs)
            else:
                clear(target, left * inputs)
                source = x + image * p[X_IMAGE] + line * p[X_LINE] + first * p[X_INPUT]
                source += (column + left) * p[X_COLUMN]
                copy_line(source, target + left * inputs, p, right - left, inputs)
                clear(target + right * inputs, (columns - right) * inputs)
            target += columns * inputs


@outlined
def pack_filters(
    w: ptr[T], packed: ptr[T], p: ptr[i64], taps: ptr[i64], num_taps: i64,
    first: i64, inputs: i64, output: i64, outputs: i64,
):  # fmt: skip
    """Copy filters as [panel, tap, input, VECTORS * LANES], zeros behind the last output."""
    width = VECTORS * LANES
    target = packed
    for start in range(output, output + outputs, width):
        valid = min(width, output + outputs - start)
        for tap in range(num_taps):
            source = w + taps[3 * tap + 2] + first * p[W_INPUT] + start * p[W_OUTPUT]
            if p[W_OUTPUT] == 1 and valid == width:
                for i in range(inputs):
                    filter = source + i * p[W_INPUT]
                    for j in unrolled(VECTORS):
                        store_wide(target + i * width + j * LANES, load_wide(filter + j * LANES))
            else:
                if valid < width:
                    clear(target, inputs * width)
                turn(source, p[W_OUTPUT], p[W_INPUT], target, width, valid, inputs)
            target += inputs * width


@outlined
def write_line(
    sums: ptr[T], out: ptr[T], p: ptr[i64], columns: i64, outputs: i64, pitch: i64
):  # fmt: skip
    """Write the sums of neighbouring columns to the result; their panels are `pitch` apart."""
    width = VECTORS * LANES
    apart = p[OUT_COLUMN] * p[STEP_X]
    for start in range(0, outputs, width):
        valid = min(width, outputs - start)
        source = sums + start // width * pitch
        target = out + start * p[OUT_OUTPUT]
        if p[OUT_OUTPUT] == 1 and valid == width:
            for column in range(columns):
                for j in unrolled(VECTORS):
                    some = load_wide(source + column * width + j * LANES)
                    store_wide(target + column * apart + j * LANES, some)
        elif apart == 1:
            turn(source, width, 1, target, p[OUT_OUTPUT], columns, valid)
        else:
            for j in range(valid):
                feature = target + j * p[OUT_OUTPUT]
                for column in range(columns):
                    feature[column * apart] = source[column * width + j]


@outlined
def block(
    x: ptr[T], filters: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64], q: ptr[i64],
    output: i64, n: i64, y: i64, column: i64,
):  # fmt: skip
    """Compute some outputs of a block of places of a phase."""
    starts = stack(i64, PLACES + ROWS)
    at = stack(i64, DEPTH)
    width = VECTORS * LANES
    images = min(p[IMAGES], p[BATCHES] - n)
    lines = min(p[LINES], q[DOWN] - y)
    columns = min(p[COLUMNS], q[ACROSS] - column)
    outputs = min(p[SOME_OUTPUTS], p[OUTPUTS] - output)
    high = (lines - 1) * p[STRIDE_Y] + q[SPAN_Y]
    wide = (columns - 1) * p[STRIDE_X] + q[SPAN_X]
    taps = p + FIRST_PHASE + p[PHASES] * PHASE + 3 * q[TAP]
    sums = scratch + p[REGION]
    pitch = (PLACES + ROWS) * width
    panels = (outputs + width - 1) // width
    count = images * lines * columns
    if q[TAPS] == 0:
        clear(sums, panels * pitch)
    for first in range(0, p[INPUTS], p[SOME_INPUTS]):
        inputs = min(p[SOME_INPUTS], p[INPUTS] - first)
        # Where the window of each place starts in the packed inputs; rows past the last repeat it.
        k = 0
        for image in range(images):
            for line in range(lines):
                for step in range(columns):
                    pixel = (image * high + line * p[STRIDE_Y]) * wide + step * p[STRIDE_X]
                    starts[k] = pixel * inputs
                    k += 1
        for i in unrolled(ROWS):
            starts[count + i] = starts[count - 1]
        top = y * p[STRIDE_Y] + q[OFFSET_Y]
        pack_inputs(
            x, scratch, p, first, inputs, n, images, top, high,
            column * p[STRIDE_X] + q[OFFSET_X], wide,
        )  # fmt: skip
        packed = filters + first // p[SOME_INPUTS] * p[TAP_BLOCKS] * p[FILTER]
        for tap in range(0, q[TAPS], p[SOME_TAPS]):
            # The same distances from it to what is summed serve all places.
            depth = 0
            for t in range(tap, min(tap + p[SOME_TAPS], q[TAPS])):
                apart = (taps[3 * t] * wide + taps[3 * t + 1]) * inputs
                for i in range(inputs):
                    at[depth] = apart + i
                    depth += 1
            for panel in range(panels):
                filter = packed + panel * depth * width
                total = sums + panel * pitch
                for row in range(0, count, ROWS):
                    fresh = first + tap == 0
                    products(scratch, filter, at, depth, starts + row, total + row * width, fresh)
            packed += p[FILTER]
    for image in range(images):
        for line in range(lines):
            target = out + (n + image) * p[OUT_IMAGE] + output * p[OUT_OUTPUT]
            target += (q[FIRST_Y] + (y + line) * p[STEP_Y]) * p[OUT_LINE]
            target += (q[FIRST_X] + column * p[STEP_X]) * p[OUT_COLUMN]
            pixel = (image * lines + line) * columns
            write_line(sums + pixel * width, target, p, columns, outputs, pitch)


def pack_part(k: i64, w: ptr[T], filters: ptr[T], p: ptr[i64]):
    """Pack the filters of some outputs, of a phase, some inputs and some taps."""
    rest = k // p[TAP_BLOCKS]
    tap = k % p[TAP_BLOCKS] * p[SOME_TAPS]
    first = rest % p[INPUT_BLOCKS] * p[SOME_INPUTS]
    rest = rest // p[INPUT_BLOCKS]
    q = p + FIRST_PHASE + rest % p[PHASES] * PHASE
    output = rest // p[PHASES] * p[SOME_OUTPUTS]
    if tap < q[TAPS]:
        taps = p + FIRST_PHASE + p[PHASES] * PHASE + 3 * (q[TAP] + tap)
        inputs = min(p[SOME_INPUTS], p[INPUTS] - first)
        outputs = min(p[SOME_OUTPUTS], p[OUTPUTS] - output)
        num_taps = min(p[SOME_TAPS], q[TAPS] - tap)
        pack_filters(w, filters + k * p[FILTER], p, taps, num_taps, first, inputs, output, outputs)


def dense_part(
    k: i64, x: ptr[T], filters: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64],
    jobs: i64, parts: i64,
):  # fmt: skip
    each = p[INPUT_BLOCKS] * p[TAP_BLOCKS] * p[FILTER]
    for job in range(k * jobs // parts, (k + 1) * jobs // parts):
        output = job % p[OUTPUT_BLOCKS]
        rest = job // p[OUTPUT_BLOCKS]
        column = rest % p[COLUMN_BLOCKS] * p[COLUMNS]
        rest = rest // p[COLUMN_BLOCKS]
        y = rest % p[LINE_BLOCKS] * p[LINES]
        rest = rest // p[LINE_BLOCKS]
        n = rest % p[IMAGE_BLOCKS] * p[IMAGES]
        phase = rest // p[IMAGE_BLOCKS]
        q = p + FIRST_PHASE + phase * PHASE
        if y < q[DOWN] and column < q[ACROSS]:
            packed = filters + (output * p[PHASES] + phase) * each
            first = output * p[SOME_OUTPUTS]
            block(x, packed, out, scratch + k * p[SCRATCH], p, q, first, n, y, column)


def dense(x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64]):
    packs = p[OUTPUT_BLOCKS] * p[PHASES] * p[INPUT_BLOCKS] * p[TAP_BLOCKS]
    parallel(pack_part, packs, w, scratch, p)
    jobs = p[OUTPUT_BLOCKS] * p[COLUMN_BLOCKS] * p[LINE_BLOCKS] * p[IMAGE_BLOCKS] * p[PHASES]
    rest = scratch + packs * p[FILTER]
    parallel(dense_part, p[PARTS], x, scratch, out, rest, p, jobs, p[PARTS])

# Tests: tests/native/test_filters.py
"""Gradients of the filters of convolutions: out[tap, i, o] = Σ x[n, y', x', i] w[n, y, x, o].

Bound by the caller: T, the dtype; LANES, how many of them a vector holds; ROWS and VECTORS, the
inputs and the vectors of outputs whose sums stay in registers. A block of positions (n, y, x) is
copied to where the cache holds it: w in the order in which it is read, and what all taps read of x,
with its padding. There a tap is one and the same distance away from every position.

The parameters by position are made by `weft.native.filters`.
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

BATCHES, HEIGHT, WIDTH, INPUTS = 0, 1, 2, 3
DOWN, ACROSS, OUTPUTS = 4, 5, 6
TAPS_Y, TAPS_X, STRIDE_Y, STRIDE_X = 7, 8, 9, 10
DILATION_Y, DILATION_X, PAD_Y, PAD_X = 11, 12, 13, 14
IMAGES, LINES, COLUMNS, GROUP, PANELS, SCRATCH = 15, 16, 17, 18, 19, 20
X_IMAGE, X_LINE, X_COLUMN, X_INPUT = 21, 22, 23, 24
W_IMAGE, W_LINE, W_COLUMN, W_OUTPUT = 25, 26, 27, 28
POSITIONS = 256


@outlined
def products(x: ptr[T], w: ptr[T], at: ptr[i64], n: i64, out: ptr[T]):
    """out[i, j] = Σ x[at[k] + i] w[k, j] over k, all of them in registers."""
    sums = stack(T, ROWS * VECTORS * LANES)
    for i in unrolled(ROWS * VECTORS):
        store_wide(sums + i * LANES, splat(T(0)))
    for k in range(n):
        left = x + at[k]
        right = w + k * (VECTORS * LANES)
        for i in unrolled(ROWS):
            factor = splat(left[i])
            for j in unrolled(VECTORS):
                total = sums + (i * VECTORS + j) * LANES
                store_wide(total, load_wide(total) + factor * load_wide(right + j * LANES))
    for i in unrolled(ROWS * VECTORS):
        store_wide(out + i * LANES, load_wide(sums + i * LANES))


def copy_inputs(x: ptr[T], packed: ptr[T], columns: i64, p: ptr[i64], at: i64, first: i64):
    """ROWS inputs of neighbouring columns; what vectors write past them the next overwrites."""
    vectors = (ROWS + LANES - 1) // LANES
    last = at + (columns - 1) * p[X_COLUMN] + vectors * LANES
    if p[X_INPUT] == 1 and last <= p[BATCHES] * p[HEIGHT] * p[WIDTH] * p[INPUTS]:
        for column in range(columns):
            source = x + at + column * p[X_COLUMN]
            target = packed + column * ROWS
            for i in unrolled((ROWS + LANES - 1) // LANES):
                store_wide(target + i * LANES, load_wide(source + i * LANES))
    else:
        inputs = min(ROWS, p[INPUTS] - first)
        turn(x + at, p[X_INPUT], p[X_COLUMN], packed, ROWS, inputs, columns)


@outlined
def pack_inputs(
    x: ptr[T], packed: ptr[T], p: ptr[i64], first: i64, n: i64, images: i64,
    y: i64, lines: i64, column: i64, columns: i64,
):  # fmt: skip
    """Copy the ROWS inputs that taps read at a block of positions, zeros around the images."""
    left = max(0, min(columns, -column))
    right = max(left, min(columns, p[WIDTH] - column))
    target = packed
    for image in range(n, n + images):
        for line in range(y, y + lines):
            if line < 0 or line >= p[HEIGHT] or left == right:
                clear(target, columns * ROWS)
            else:
                clear(target, left * ROWS)
                at = image * p[X_IMAGE] + line * p[X_LINE] + first * p[X_INPUT]
                at += (column + left) * p[X_COLUMN]
                copy_inputs(x, target + left * ROWS, right - left, p, at, first)
                clear(target + right * ROWS, (columns - right) * ROWS)
            target += columns * ROWS


@outlined
def pack_outputs(
    w: ptr[T], packed: ptr[T], p: ptr[i64], first: i64, n: i64, images: i64,
    y: i64, lines: i64, column: i64, columns: i64,
):  # fmt: skip
    """Return the outputs of a block of positions, VECTORS * LANES of each."""
    width = VECTORS * LANES
    outputs = min(width, p[OUTPUTS] - first)
    target = packed
    for image in range(n, n + images):
        for line in range(y, y + lines):
            source = w + image * p[W_IMAGE] + line * p[W_LINE]
            source += column * p[W_COLUMN] + first * p[W_OUTPUT]
            if p[W_OUTPUT] == 1 and outputs == width:
                for k in range(columns):
                    pixel = source + k * p[W_COLUMN]
                    for j in unrolled(VECTORS):
                        store_wide(target + k * width + j * LANES, load_wide(pixel + j * LANES))
            else:
                turn(source, p[W_OUTPUT], p[W_COLUMN], target, width, outputs, columns)
            target += columns * width


def add_to(out: ptr[T], sums: ptr[T], p: ptr[i64], inputs: i64, outputs: i64, fresh: boolean):
    for i in range(inputs):
        target = out + i * p[OUTPUTS]
        source = sums + i * (VECTORS * LANES)
        if fresh:
            for j in range(outputs):
                target[j] = source[j]
        else:
            for j in range(outputs):
                target[j] += source[j]


@outlined
def block(
    x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64],
    job: i64, n: i64, y: i64, column: i64,
):  # fmt: skip
    """Add what a block of positions gives to the filters of some inputs and outputs."""
    at = stack(i64, POSITIONS)
    sums = stack(T, ROWS * VECTORS * LANES)
    images = min(p[IMAGES], p[BATCHES] - n)
    lines = min(p[LINES], p[DOWN] - y)
    columns = min(p[COLUMNS], p[ACROSS] - column)
    high = (lines - 1) * p[STRIDE_Y] + (p[TAPS_Y] - 1) * p[DILATION_Y] + 1
    wide = (columns - 1) * p[STRIDE_X] + (p[TAPS_X] - 1) * p[DILATION_X] + 1
    k = 0
    for image in range(images):
        for line in range(lines):
            for step in range(columns):
                pixel = (image * high + line * p[STRIDE_Y]) * wide + step * p[STRIDE_X]
                at[k] = pixel * ROWS
                k += 1
    width = VECTORS * LANES
    wide_panels = p[PANELS] * width
    ranges = (p[OUTPUTS] + wide_panels - 1) // wide_panels
    first = job % ranges * wide_panels
    last = min(p[OUTPUTS], first + wide_panels)
    packed = scratch
    for output in range(first, last, width):
        pack_outputs(w, packed, p, output, n, images, y, lines, column, columns)
        packed += POSITIONS * width
    start = job // ranges * p[GROUP] * ROWS
    for input in range(start, min(start + p[GROUP] * ROWS, p[INPUTS]), ROWS):
        top = y * p[STRIDE_Y] - p[PAD_Y]
        pack_inputs(
            x, packed, p, input, n, images, top, high, column * p[STRIDE_X] - p[PAD_X], wide
        )
        inputs = min(ROWS, p[INPUTS] - input)
        for output in range(first, last, width):
            outputs = min(width, p[OUTPUTS] - output)
            panel = scratch + (output - first) * POSITIONS
            for row in range(p[TAPS_Y]):
                for step in range(p[TAPS_X]):
                    apart = row * p[DILATION_Y] * wide + step * p[DILATION_X]
                    products(packed + apart * ROWS, panel, at, k, sums)
                    tap = row * p[TAPS_X] + step
                    target = out + (tap * p[INPUTS] + input) * p[OUTPUTS] + output
                    add_to(target, sums, p, inputs, outputs, n + y + column == 0)


def filters_part(
    k: i64, x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64], jobs: i64, parts: i64
):  # fmt: skip
    for job in range(k * jobs // parts, (k + 1) * jobs // parts):
        for n in range(0, p[BATCHES], p[IMAGES]):
            for y in range(0, p[DOWN], p[LINES]):
                for column in range(0, p[ACROSS], p[COLUMNS]):
                    block(x, w, out, scratch + k * p[SCRATCH], p, job, n, y, column)


def filters(x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64]):
    width = p[PANELS] * VECTORS * LANES
    rows = p[GROUP] * ROWS
    jobs = (p[INPUTS] + rows - 1) // rows * ((p[OUTPUTS] + width - 1) // width)
    parts = min(jobs, PARTS)
    parallel(filters_part, parts, x, w, out, scratch, p, jobs, parts)

# Tests: tests/native/test_attention.py
"""Attention: out[i] = Σ softmax(scale q[i] · k)[j] v[j] over keys j, for each batch and head.

Bound by the caller: T, which is f32; LANES, ROWS and VECTORS as in `dense`. For a block of queries
the scores of some keys at a time are computed, in panels of VECTORS * LANES keys, and sums and
products are kept relative to the greatest score so far (online softmax). Sources: M. Milakov,
N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao et al., "FlashAttention",
2022.

Operands may have any order of dimensions: they are given by how far apart neighbours are. A NaN or
a positive infinity among the scores of a query makes its result NaN, by the sum.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.dense import products
from weft.native.kernels.depthwise import clear
from weft.native.kernels.softmax import exponential
from weft.native.kernels.turn import turn
from weft.native.language import (
    bitcast,
    f32,
    i64,
    load_wide,
    max_wide,
    outlined,
    parallel,
    ptr,
    splat,
    stack,
    store_wide,
    sum_wide,
    u8,
    u32,
)

HEADS, QUERIES, KEYS, SIZE, FEATURES, JOBS, PARTS, SCRATCH = 0, 1, 2, 3, 4, 5, 6, 7
SCALE, HAS_BIAS, HIDES, HIDDEN = 8, 9, 10, 11  # HIDES: the truth that hides a score, or 2
QUERY, KEY, VALUE, BIAS, MASK, OUT = 12, 16, 20, 24, 28, 32
"""How far apart batches, heads, rows and elements are."""
SOME_QUERIES, SOME_KEYS, MOST = 48, 256, 1024
LEAST = -3.4e38
INFINITY = 0x7F800000
WEIGHTLESS = 104.0  # exp(-104) is 0


@outlined
def pack(source: ptr[T], apart: i64, step: i64, target: ptr[T], rows: i64, columns: i64):
    """target[panel, j, i] = source[panel * width + i, j], zeros behind the last row."""
    width = VECTORS * LANES
    for start in range(0, rows, width):
        valid = min(width, rows - start)
        panel = target + start * columns
        if valid < width:
            clear(panel, width * columns)
        turn(source + start * apart, apart, step, panel, width, valid, columns)


@outlined
def adjust(scores: ptr[T], bias: ptr[T], mask: ptr[u8], p: ptr[i64], rows: i64, whole: i64, n: i64):
    """Scale the scores of a panel, add the bias, and hide those that the mask hides."""
    width = VECTORS * LANES
    scale = bitcast(f32, u32(p[SCALE]))
    for row in range(whole):
        row_scores = scores + row * width
        at = min(row, rows - 1)
        if p[HAS_BIAS] == 1:
            added = bias + at * p[BIAS + 2]
            step = p[BIAS + 3]
            for j in range(n):
                row_scores[j] = row_scores[j] * scale + added[j * step]
        else:
            for j in range(n):
                row_scores[j] *= scale
        if p[HIDES] < 2:
            truths = mask + at * p[MASK + 2]
            step = p[MASK + 3]
            hides = u8(p[HIDES])
            hidden = bitcast(f32, u32(p[HIDDEN]))
            for j in range(n):
                row_scores[j] = hidden if truths[j * step] == hides else row_scores[j]


@outlined
def all_hidden(mask: ptr[u8], p: ptr[i64], rows: i64, n: i64) -> boolean:
    hides = u8(p[HIDES])
    step = p[MASK + 3]
    for row in range(rows):
        row_mask = mask + row * p[MASK + 2]
        seen = 0
        for j in range(n):
            seen += 0 if row_mask[j * step] == hides else 1
        if seen > 0:
            return False
    return True


@outlined
def raise_tops(tops: ptr[T], scores: ptr[T], n: i64, scale: T):
    for i in range(n):
        score = scores[i] * scale
        scores[i] = score
        tops[i] = max(tops[i], score)


@outlined
def exponentials(scores: ptr[T], tops: ptr[T], sums: ptr[T], n: i64):
    """Make scores weights, and add them up."""
    for i in range(n):
        e = exponential(scores[i] - tops[i])
        scores[i] = e
        sums[i] += e


@outlined
def rescale(tops: ptr[T], old: ptr[T], sums: ptr[T], out: ptr[T], rows: i64, panels: i64):
    """Make sums relative to the new maximum of each row, the same in all of its lanes."""
    width = VECTORS * LANES
    for row in range(rows):
        row_tops = tops + row * width
        top = f32(LEAST)
        for j in range(0, width, LANES):
            top = max(top, max_wide(load_wide(row_tops + j)))
        factor = exponential(old[row] - top)
        old[row] = top
        for j in range(width):
            row_tops[j] = top
        if factor != 1.0:
            wide = splat(factor)
            for j in range(0, width, LANES):
                scaled = sums + row * width + j
                store_wide(scaled, load_wide(scaled) * wide)
            for panel in range(panels):
                for j in range(0, width, LANES):
                    scaled = out + (panel * SOME_QUERIES + row) * width + j
                    store_wide(scaled, load_wide(scaled) * wide)


@outlined
def write(
    sums: ptr[T], source: ptr[T], out: ptr[T], apart: i64, step: i64, rows: i64, features: i64
):
    width = VECTORS * LANES
    for row in range(rows):
        total = f32(0.0)
        for j in range(0, width, LANES):
            total += sum_wide(load_wide(sums + row * width + j))
        for start in range(0, features, width):
            result = source + (start // width * SOME_QUERIES + row) * width
            target = out + row * apart + start * step
            valid = min(width, features - start)
            if step == 1:
                for j in range(valid):
                    target[j] = result[j] / total
            else:
                for j in range(valid):
                    target[j * step] = result[j] / total


@outlined
def queries(
    q: ptr[T], keys: ptr[T], values: ptr[T], bias: ptr[T], mask: ptr[u8], scratch: ptr[T],
    p: ptr[i64], rows: i64, skips: boolean,
) -> boolean:  # fmt: skip
    """Compute sums and products of some queries, of one batch and head.

    With `skips`, blocks whose keys are all hidden are left out: False if one would have mattered.
    """
    width = VECTORS * LANES
    of_queries = stack(i64, SOME_QUERIES + ROWS)
    of_scores = stack(i64, SOME_QUERIES + ROWS)
    of_sizes = stack(i64, MOST)
    of_keys = stack(i64, SOME_KEYS)
    old = stack(T, SOME_QUERIES + ROWS)
    whole = (rows + ROWS - 1) // ROWS * ROWS
    for i in range(whole):
        of_queries[i] = min(i, rows - 1) * p[QUERY + 2]
        of_scores[i] = i * width
        old[i] = f32(LEAST)
    for i in range(p[SIZE]):
        of_sizes[i] = i * p[QUERY + 3]
    # Scores are panels: of SOME_QUERIES rows, the elements of a row apart in as many panels.
    some = SOME_QUERIES * width
    for i in range(SOME_KEYS):
        of_keys[i] = i // width * some + i % width
    scale = bitcast(f32, u32(p[SCALE]))
    # Keys behind the last weigh nothing: the scale, which comes later, may turn the sign.
    plain = (p[HAS_BIAS] == 0) & (p[HIDES] == 2)
    absent = -bitcast(f32, u32(INFINITY))
    absent = -absent if plain & (scale < 0.0) else absent
    sums = scratch
    result = sums + some
    panels = (p[FEATURES] + width - 1) // width
    tops = result + panels * some
    scores = tops + some
    for i in range(whole * width):
        tops[i] = f32(LEAST)
    clear(sums, (panels + 1) * some)
    skipped = 0
    most = SOME_KEYS // width * width
    for first in range(0, p[KEYS], most):
        count = min(most, p[KEYS] - first)
        if skips and all_hidden(mask + first * p[MASK + 3], p, rows, count):
            skipped += 1
            continue
        # The scores of these keys, and the greatest of each query so far.
        for start in range(0, count, width):
            panel_scores = scores + start // width * some
            key = keys + (first + start) * p[SIZE]
            for row in range(0, whole, ROWS):
                products(
                    q, key, of_sizes, p[SIZE], of_queries + row, panel_scores + row * width, True
                )
            n = min(width, count - start)
            if not plain:
                added = bias + (first + start) * p[BIAS + 3]
                truths = mask + (first + start) * p[MASK + 3]
                adjust(panel_scores, added, truths, p, rows, whole, n)
            if n < width:
                for row in range(whole):
                    for j in range(n, width):
                        panel_scores[row * width + j] = absent
            raise_tops(tops, panel_scores, whole * width, scale if plain else f32(1.0))
        # What was summed with smaller maxima shrinks, then these keys are added.
        rescale(tops, old, sums, result, whole, panels if first > 0 else 0)
        for start in range(0, count, width):
            exponentials(scores + start // width * some, tops, sums, whole * width)
        for panel in range(panels):
            value = values + (panel * p[KEYS] + first) * width
            for row in range(0, whole, ROWS):
                products_at = result + panel * some + row * width
                products(scores, value, of_keys, count, of_scores + row, products_at, False)
    # A hidden score may be finite: it weighs nothing only if what is seen is far above it.
    if skipped > 0:
        hidden = bitcast(f32, u32(p[HIDDEN]))
        for row in range(rows):
            if not (old[row] - hidden > WEIGHTLESS):
                return False
    return True


def attention_part(
    k: i64, q: ptr[T], key: ptr[T], value: ptr[T], bias: ptr[T], mask: ptr[u8], out: ptr[T],
    scratch: ptr[T], p: ptr[i64],
):  # fmt: skip
    width = VECTORS * LANES
    each = (p[QUERIES] + SOME_QUERIES - 1) // SOME_QUERIES
    keys = scratch + k * p[SCRATCH]
    values = keys + (p[KEYS] + width - 1) // width * width * p[SIZE]
    panels = (p[FEATURES] + width - 1) // width
    rest = values + panels * width * p[KEYS]
    packed = -1
    for job in range(k * p[JOBS] // p[PARTS], (k + 1) * p[JOBS] // p[PARTS]):
        batch = job // each
        i = batch // p[HEADS]
        j = batch % p[HEADS]
        if batch != packed:
            operand = key + i * p[KEY] + j * p[KEY + 1]
            pack(operand, p[KEY + 2], p[KEY + 3], keys, p[KEYS], p[SIZE])
            operand = value + i * p[VALUE] + j * p[VALUE + 1]
            pack(operand, p[VALUE + 3], p[VALUE + 2], values, p[FEATURES], p[KEYS])
            packed = batch
        row = job % each * SOME_QUERIES
        rows = min(SOME_QUERIES, p[QUERIES] - row)
        operand = q + i * p[QUERY] + j * p[QUERY + 1] + row * p[QUERY + 2]
        added = bias + i * p[BIAS] + j * p[BIAS + 1] + row * p[BIAS + 2]
        truths = mask + i * p[MASK] + j * p[MASK + 1] + row * p[MASK + 2]
        if not queries(operand, keys, values, added, truths, rest, p, rows, p[HIDES] < 2):
            queries(operand, keys, values, added, truths, rest, p, rows, False)
        target = out + i * p[OUT] + j * p[OUT + 1] + row * p[OUT + 2]
        result = rest + SOME_QUERIES * width
        write(rest, result, target, p[OUT + 2], p[OUT + 3], rows, p[FEATURES])


def attention(
    q: ptr[T], key: ptr[T], value: ptr[T], bias: ptr[T], mask: ptr[u8], out: ptr[T],
    scratch: ptr[T], p: ptr[i64],
):  # fmt: skip
    """Without a bias or a mask another operand stands in its place."""
    parallel(attention_part, p[PARTS], q, key, value, bias, mask, out, scratch, p)

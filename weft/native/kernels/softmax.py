# Tests: tests/native/test_softmax.py
"""Softmax of rows of f32: exp(x - max(x)) / sum(exp(x - max(x))), while a row is in cache.

Exponentials are Taylor's series on half a binade (Muller, "Elementary Functions", 2016), to one
unit in the last place; those below the smallest normal number are zero. A NaN or a positive
infinity makes all of its row NaN, by the sum.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    bitcast,
    f32,
    fma,
    i64,
    load_wide,
    max_wide,
    outlined,
    parallel,
    ptr,
    reassociated,
    u32,
)

BLOCK = 4096
SHARED = 8192
WHOLE = 12582912.0  # 1.5 · 2²³: what is added to it is rounded to a whole number


def exponential(t: f32) -> f32:
    """e ** t, for t up to 0."""
    whole = fma(t, 1.4426950408889634, WHOLE)
    turns = whole - WHOLE
    r = fma(turns, -0.693359375, t)  # ln 2 in two numbers, the first of ten bits
    r = fma(turns, 0.00021219444005469057, r)
    p = fma(r, 0.0001984126984126984, 0.001388888888888889)
    p = fma(p, r, 0.008333333333333333)
    p = fma(p, r, 0.041666666666666664)
    p = fma(p, r, 0.16666666666666666)
    p = fma(p, r, 0.5)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    e = p * bitcast(f32, (bitcast(u32, whole) + 127) << 23)
    return f32(0.0) if t < -87.3 else e


def greatest(x: ptr[f32], n: i64) -> f32:
    tops = load_wide(x)
    for i in range(LANES, n, LANES):
        part = load_wide(x + min(i, n - LANES))
        tops = max(tops, part)
    return max_wide(tops)


@reassociated
def exponentials(x: ptr[f32], out: ptr[f32], n: i64, top: f32) -> f32:
    """Write exp(x - top), and add it up."""
    total = f32(0.0)
    for i in range(n):
        e = exponential(x[i] - top)
        out[i] = e
        total += e
    return total


@outlined
def softmax_row(x: ptr[f32], out: ptr[f32], n: i64):
    top = greatest(x, n)
    total = f32(0.0)
    for start in range(0, n, BLOCK):
        total += exponentials(x + start, out + start, min(BLOCK, n - start), top)
    for i in range(n):
        out[i] = out[i] / total


def part(k: i64, x: ptr[f32], out: ptr[f32], rows: i64, n: i64, parts: i64):
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        softmax_row(x + row * n, out + row * n, n)


def softmax(x: ptr[f32], out: ptr[f32], parameters: ptr[i64]):
    """Parameters: rows, and their length, at least LANES."""
    rows = parameters[0]
    n = parameters[1]
    parts = min(rows, 4 * THREADS) if rows * n > SHARED else 1
    parallel(part, parts, x, out, rows, n, parts)

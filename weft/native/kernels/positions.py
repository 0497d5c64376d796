# Tests: tests/native/test_selections.py
"""Positions of truths. Bound: I, the type of positions; LANES of vectors of bytes; THREADS."""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.counts import count
from weft.native.language import bitcast, i64, outlined, parallel, ptr, stack, u8, u64, unrolled

SHARED = 1048576


def part(k: i64, n: i64, parts: i64) -> i64:
    return k * n // parts


def count_part(k: i64, x: ptr[u8], n: i64, parts: i64, counts: ptr[i64]):
    start = part(k, n, parts)
    counts[k] = count(x + start, part(k + 1, n, parts) - start)


@outlined
def write(x: ptr[u8], out: ptr[I], start: i64, stop: i64, at: i64, size: i64) -> i64:
    """Write positions from a place on, as far as there is room; returns the place behind them."""
    i = start
    while stop - i >= 8 and size - at >= 8:
        if bitcast(ptr[u64], x + i)[0] != 0:
            for j in unrolled(8):
                out[at] = I(i + j)
                at += i64(x[i + j])
        i += 8
    while i < stop and at < size:
        out[at] = I(i)
        at += i64(x[i])
        i += 1
    return at


def write_part(k: i64, x: ptr[u8], out: ptr[I], n: i64, parts: i64, counts: ptr[i64], size: i64):
    at = 0
    for other in range(k):
        at += counts[other]
    last = min(at + counts[k], size)
    write(x, out, part(k, n, parts), part(k + 1, n, parts), at, last)


def positions(x: ptr[u8], out: ptr[I], total: ptr[I], p: ptr[i64]):
    """Parameters: how many truths or not there are, and room for how many positions."""
    n = p[0]
    size = p[1]
    at = 0
    if n < SHARED:
        at = write(x, out, 0, n, 0, size)
    else:
        counts = stack(i64, THREADS)
        parallel(count_part, THREADS, x, n, THREADS, counts)
        parallel(write_part, THREADS, x, out, n, THREADS, counts, size)
        for k in range(THREADS):
            at += counts[k]
    total[0] = I(at)
    for i in range(at, size):
        out[i] = 0

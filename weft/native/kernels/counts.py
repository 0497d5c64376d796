# Tests: tests/native/test_reductions.py
"""How many truths each row has. Bound: I, the type of the counts; LANES of vectors of bytes."""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, load_wide, outlined, parallel, ptr, stack, store_wide, u8

MOST = 255
SHARE = 4194304


@outlined
def count(x: ptr[u8], n: i64) -> i64:
    """Add vectors of bytes, as many as a byte can count."""
    total = 0
    some = stack(u8, LANES)
    i = 0
    while n - i >= LANES:
        stop = min(i + MOST * LANES, n - (n - i) % LANES)
        sums = load_wide(x + i)
        for j in range(i + LANES, stop, LANES):
            sums = sums + load_wide(x + j)
        store_wide(some, sums)
        for j in range(LANES):
            total += i64(some[j])
        i = stop
    for j in range(i, n):
        total += i64(x[j])
    return total


def rows_part(k: i64, x: ptr[u8], out: ptr[I], rows: i64, n: i64, parts: i64):
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        out[row] = I(count(x + row * n, n))


def share(k: i64, x: ptr[u8], n: i64, counts: ptr[i64]):
    start = k * n // THREADS
    counts[k] = count(x + start, (k + 1) * n // THREADS - start)


def counts(x: ptr[u8], out: ptr[I], p: ptr[i64]):
    """Parameters: rows, their length."""
    rows = p[0]
    n = p[1]
    if n < SHARE or rows >= THREADS:
        parts = min(rows, THREADS) if rows * n >= SHARE else 1
        parallel(rows_part, parts, x, out, rows, n, parts)
        return
    some = stack(i64, THREADS)
    for row in range(rows):
        parallel(share, THREADS, x + row * n, n, some)
        total = 0
        for k in range(THREADS):
            total += some[k]
        out[row] = I(total)

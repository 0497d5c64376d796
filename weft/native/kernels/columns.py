# Tests: tests/native/test_reductions.py
"""Sums and extrema along the middle dimension of x[outer, n, inner], for inner > 1.

Bound by the caller: T, the dtype; OP, 0 to sum, 1 for maxima, 2 for minima. Rows are cut into
segments of fixed length, which threads share, so that results do not depend on their number. Eight
rows at once are added in a tree, and groups of rows by themselves, so that rounding errors stay
small. Short rows are taken side by side.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, parallel, ptr, stack

WIDTH = 1024
GROUP = 64


def both(a: T, b: T) -> T:
    if OP == 0:
        return a + b
    if OP == 1:
        return a if a >= b else (a if a != a else b)
    return a if a <= b else (a if a != a else b)


def neutral() -> T:
    if OP == 1:
        return T(-1) / T(0)
    if OP == 2:
        return T(1) / T(0)
    return T(0)


def add_rows(x: ptr[T], sums: ptr[T], width: i64, step: i64, rows: i64):
    """Add rows of `width` elements that start `step` elements apart."""
    for i in range(0, rows - 7, 8):
        row = x + i * step
        for j in range(width):
            a = both(both(row[j], row[j + step]), both(row[j + 2 * step], row[j + 3 * step]))
            at = j + 4 * step
            b = both(both(row[at], row[at + step]), both(row[at + 2 * step], row[at + 3 * step]))
            sums[j] = both(sums[j], both(a, b))
    for i in range(rows - rows % 8, rows):
        row = x + i * step
        for j in range(width):
            sums[j] = both(sums[j], row[j])


def part(
    k: i64, x: ptr[T], out: ptr[T], n: i64, inner: i64, blocks: i64, segments: i64, length: i64
):
    """One block of columns of one segment; out[outer, segments, inner]."""
    sums = stack(T, WIDTH)
    some = stack(T, WIDTH)
    first = (k % blocks) * WIDTH
    start = (k // blocks) % segments * length
    rows = min(length, n - start)
    source = x + (k // blocks // segments * n + start) * inner + first
    width = min(WIDTH, inner - first)
    beside = max(1, min(WIDTH // inner, rows))
    wide = beside * width
    for j in range(wide):
        sums[j] = neutral()
    for i in range(0, rows // beside, GROUP):
        for j in range(wide):
            some[j] = neutral()
        step = beside * inner
        add_rows(source + i * step, some, wide, step, min(GROUP, rows // beside - i))
        for j in range(wide):
            sums[j] = both(sums[j], some[j])
    rest = rows % beside
    add_rows(source + (rows - rest) * inner, sums, width, inner, rest)
    while beside > 1:
        half = (beside + 1) // 2
        upper = sums + half * width
        for j in range((beside - half) * width):
            sums[j] = both(sums[j], upper[j])
        beside = half
    target = out + k // blocks * inner + first
    for j in range(width):
        target[j] = sums[j]


def columns(x: ptr[T], out: ptr[T], totals: ptr[T], parameters: ptr[i64]):
    """Parameters: outer, n, inner, the length of segments."""
    outer = parameters[0]
    n = parameters[1]
    inner = parameters[2]
    length = parameters[3]
    segments = (n + length - 1) // length
    blocks = (inner + WIDTH - 1) // WIDTH
    target = out if segments == 1 else totals
    parallel(part, outer * segments * blocks, x, target, n, inner, blocks, segments, length)
    if segments > 1:
        for j in range(outer * inner):
            out[j] = neutral()
        for o in range(outer):
            add_rows(totals + o * segments * inner, out + o * inner, inner, inner, segments)

# Tests: tests/native/test_reductions.py
"""Sums, products and extrema along the middle dimension of x[outer, n, inner].

Bound by the caller: T, the dtype, and S, that of results; OP, 0 to sum, 1 for maxima, 2 for
minima, 3 for products; FLOATS, whether S is of floats; PAIRED, to sum products with elements of y,
one for each element along the dimension, or for each of its rows. Rows are cut into segments of
fixed length, which threads share, so that results do not depend on their number. Eight rows at once
are added in a tree, and groups of rows by themselves, so that rounding errors stay small. Short
rows are taken side by side.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, parallel, ptr, reassociated, stack

WIDTH = 1024
GROUP = 64
BLOCK = 4096
SHARED = 131072


def both(a: S, b: S) -> S:
    if OP == 0:
        return a + b
    if OP == 3:
        return a * b
    if FLOATS == 0 and OP == 1:
        return max(a, b)
    if FLOATS == 0 and OP == 2:
        return min(a, b)
    if OP == 1:
        return a if a >= b else (a if a != a else b)
    return a if a <= b else (a if a != a else b)


def neutral(x: ptr[T]) -> S:
    """Return what changes nothing: for extrema, an element."""
    if OP == 0:
        return S(0)
    if OP == 3:
        return S(1)
    return S(x[0])


def term(x: T, y: T) -> S:
    if PAIRED != 0:
        return S(x) * S(y)
    return S(x)


def two(x: ptr[T], step: i64, y: T, z: T) -> S:
    return both(term(x[0], y), term(x[step], z))


def add_rows(x: ptr[T], y: ptr[T], sums: ptr[S], width: i64, step: i64, rows: i64):
    """Add rows of `width` elements that start `step` elements apart, times elements of y."""
    for i in range(0, rows - 7, 8):
        row = x + i * step
        p = y + i
        c = p[0]
        d = p[1]
        e = p[2]
        f = p[3]
        g = p[4]
        h = p[5]
        k = p[6]
        m = p[7]
        for j in range(width):
            a = both(two(row + j, step, c, d), two(row + j + 2 * step, step, e, f))
            at = j + 4 * step
            b = both(two(row + at, step, g, h), two(row + at + 2 * step, step, k, m))
            sums[j] = both(sums[j], both(a, b))
    for i in range(rows - rows % 8, rows):
        row = x + i * step
        c = y[i]
        for j in range(width):
            sums[j] = both(sums[j], term(row[j], c))


@reassociated
def block(x: ptr[T], y: ptr[T], n: i64) -> S:
    total = neutral(x)
    for i in range(n):  # `both` would keep the order of floats
        if PAIRED != 0:
            total += S(x[i]) * S(y[i])
        if OP == 0 and PAIRED == 0:
            total += S(x[i])
        if OP == 3:
            total *= S(x[i])
        if OP == 1 or OP == 2:
            total = both(total, S(x[i]))
    return total


def row_part(
    k: i64, x: ptr[T], y: ptr[T], out: ptr[S], n: i64, step: i64, segments: i64, length: i64,
    count: i64, parts: i64,
):  # fmt: skip
    """Combine some segments of rows whose elements are neighbors; out[outer, segments]."""
    for at in range(k * count // parts, (k + 1) * count // parts):
        source = x + at // segments * n
        other = y + at // segments * step
        stop = min(n, (at % segments + 1) * length)
        total = neutral(source)
        for i in range(at % segments * length, stop, BLOCK):
            total = both(total, block(source + i, other + i, min(BLOCK, stop - i)))
        out[at] = total


def part(
    k: i64, x: ptr[T], y: ptr[T], out: ptr[S], n: i64, inner: i64, blocks: i64, segments: i64,
    length: i64,
):  # fmt: skip
    """Reduce one block of columns of one segment; out[outer, segments, inner]."""
    sums = stack(S, WIDTH)
    some = stack(S, WIDTH)
    first = (k % blocks) * WIDTH
    start = (k // blocks) % segments * length
    rows = min(length, n - start)
    source = x + (k // blocks // segments * n + start) * inner + first
    width = min(WIDTH, inner - first)
    other = y + start
    beside = max(1, min(WIDTH // inner, rows))
    if PAIRED != 0:
        beside = 1
    wide = beside * width
    for j in range(wide):
        sums[j] = neutral(source + j)
    for i in range(0, rows // beside, GROUP):
        for j in range(wide):
            some[j] = neutral(source + j)
        step = beside * inner
        add_rows(source + i * step, other + i, some, wide, step, min(GROUP, rows // beside - i))
        for j in range(wide):
            sums[j] = both(sums[j], some[j])
    rest = rows % beside
    add_rows(source + (rows - rest) * inner, other, sums, width, inner, rest)
    while beside > 1:
        half = (beside + 1) // 2
        upper = sums + half * width
        for j in range((beside - half) * width):
            sums[j] = both(sums[j], upper[j])
        beside = half
    target = out + k // blocks * inner + first
    for j in range(width):
        target[j] = sums[j]


def columns(x: ptr[T], y: ptr[T], out: ptr[S], totals: ptr[S], parameters: ptr[i64]):
    """Parameters: outer, n, inner, the length of segments, the distance of rows of y, a divisor."""
    outer = parameters[0]
    n = parameters[1]
    inner = parameters[2]
    length = parameters[3]
    segments = (n + length - 1) // length
    blocks = (inner + WIDTH - 1) // WIDTH
    target = out if segments == 1 else totals
    if inner == 1:
        count = outer * segments
        parts = min(count, 4 * THREADS) if outer * n > SHARED else 1
        parallel(row_part, parts, x, y, target, n, parameters[4], segments, length, count, parts)
    else:
        parallel(part, outer * segments * blocks, x, y, target, n, inner, blocks, segments, length)
    if segments > 1:
        for o in range(outer):
            some = totals + o * segments * inner
            for j in range(inner):
                total = some[j]
                for i in range(1, segments):
                    total = both(total, some[i * inner + j])
                out[o * inner + j] = total
    if FLOATS != 0:
        divisor = S(parameters[5])
        for i in range(outer * inner if parameters[5] > 1 else 0):
            out[i] = out[i] / divisor

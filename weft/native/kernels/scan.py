# Tests: tests/native/test_reductions.py
"""Cumulative sums, products and extrema along the middle dimension of x[outer, n, inner].

Bound by the caller: T, the dtype; OP, 0 for sums, 1 for products, 2 for maxima, 3 for minima. A
sequence is cut into segments of fixed length, so that results do not depend on the number of
threads: their totals first, then every segment from the total of those before it. Four run at once,
since each addition waits for the one before.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, parallel, ptr, reassociated, stack

SEGMENT = 4096
WIDTH = 1024
WAYS = 64


def combine(a: T, b: T) -> T:
    """Maxima and minima are NaN where either is."""
    if OP == 0:
        return a + b
    if OP == 1:
        return a * b
    if OP == 2:
        return a if (a > b) | (a != a) else b
    if OP == 3:
        return a if (a < b) | (a != a) else b


@reassociated
def total(x: ptr[T], n: i64, step: i64) -> T:
    """Combine a segment's elements in any order."""
    first = x if step > 0 else x - (n - 1)
    if OP == 0:
        sum = T(0)
        for i in range(n):
            sum += first[i]
        return sum
    if OP == 1:
        product = T(1)
        for i in range(n):
            product *= first[i]
        return product
    if OP >= 2:
        tops = stack(T, WAYS)
        for j in range(WAYS):
            tops[j] = first[j]
        for i in range(WAYS, n, WAYS):
            row = first + i
            for j in range(WAYS):
                tops[j] = combine(tops[j], row[j])
        best = tops[0]
        for j in range(1, WAYS):
            best = combine(best, tops[j])
        if best == T(0):  # the sign of zero is that of the last
            best = x[0]
            for i in range(1, n):
                best = combine(best, x[i * step])
        return best


def scan_one(x: ptr[T], out: ptr[T], n: i64, step: i64, carry: T):
    for i in range(n):
        carry = combine(carry, x[i * step])
        out[i * step] = carry


def scan_four(x: ptr[T], out: ptr[T], n: i64, step: i64, between: i64, c0: T, c1: T, c2: T, c3: T):
    """Four sequences that start `between` elements apart."""
    for i in range(n):
        at = i * step
        c0 = combine(c0, x[at])
        c1 = combine(c1, x[at + between])
        c2 = combine(c2, x[at + 2 * between])
        c3 = combine(c3, x[at + 3 * between])
        out[at] = c0
        out[at + between] = c1
        out[at + 2 * between] = c2
        out[at + 3 * between] = c3


def scan_rows(x: ptr[T], out: ptr[T], rows: i64, n: i64, step: i64):
    """Whole rows; the pointers are at the elements where the first row starts."""
    row = 0
    while row + 4 <= rows:
        a = x + row * n
        b = out + row * n
        b[0] = a[0]
        b[n] = a[n]
        b[2 * n] = a[2 * n]
        b[3 * n] = a[3 * n]
        scan_four(a + step, b + step, n - 1, step, n, a[0], a[n], a[2 * n], a[3 * n])
        row += 4
    while row < rows:
        a = x + row * n
        b = out + row * n
        b[0] = a[0]
        scan_one(a + step, b + step, n - 1, step, a[0])
        row += 1


def rows_part(k: i64, x: ptr[T], out: ptr[T], rows: i64, n: i64, step: i64, parts: i64):
    start = k * rows // parts
    scan_rows(x + start * n, out + start * n, (k + 1) * rows // parts - start, n, step)


def totals_part(k: i64, x: ptr[T], totals: ptr[T], n: i64, step: i64):
    for segment in range(4 * k, 4 * k + 4):
        totals[segment] = total(x + segment * SEGMENT * step, SEGMENT, step)


def segments_part(k: i64, x: ptr[T], out: ptr[T], totals: ptr[T], step: i64):
    at = 4 * k * SEGMENT * step
    scan_four(
        x + at, out + at, SEGMENT, step, SEGMENT * step,
        totals[4 * k], totals[4 * k + 1], totals[4 * k + 2], totals[4 * k + 3],
    )  # fmt: skip


def scan_long(x: ptr[T], out: ptr[T], totals: ptr[T], n: i64, step: i64):
    """Scan one row. The first segment is a row of its own, since nothing comes before it."""
    scan_rows(x, out, 1, SEGMENT, step)
    x = x + SEGMENT * step
    last = out[(SEGMENT - 1) * step]
    out = out + SEGMENT * step
    groups = (n - SEGMENT) // (4 * SEGMENT)
    parallel(totals_part, groups, x, totals, n, step)
    for segment in range(4 * groups):
        following = combine(last, totals[segment])
        totals[segment] = last
        last = following
    parallel(segments_part, groups, x, out, totals, step)
    done = 4 * groups * SEGMENT
    scan_one(x + done * step, out + done * step, n - SEGMENT - done, step, last)


def columns_part(
    k: i64, x: ptr[T], out: ptr[T], n: i64, inner: i64, step: i64, blocks: i64
):  # fmt: skip
    """Scan one block of columns, row by row."""
    first = (k % blocks) * WIDTH
    width = min(WIDTH, inner - first)
    at = (k // blocks) * n * inner + first
    if step < 0:
        at += (n - 1) * inner
    for j in range(width):
        out[at + j] = x[at + j]
    for _ in range(1, n):
        before = out + at
        at += step * inner
        row = x + at
        target = out + at
        for j in range(width):
            target[j] = combine(before[j], row[j])


def scan(x: ptr[T], out: ptr[T], totals: ptr[T], parameters: ptr[i64]):
    """Return the step is 1, or -1 for scans from the end."""
    outer = parameters[0]
    n = parameters[1]
    inner = parameters[2]
    step = parameters[3]
    if inner > 1:
        blocks = (inner + WIDTH - 1) // WIDTH
        parallel(columns_part, outer * blocks, x, out, n, inner, step, blocks)
        return
    start = 0 if step > 0 else n - 1
    if n >= 8 * SEGMENT and outer < 4 * THREADS:
        for row in range(outer):
            scan_long(x + row * n + start, out + row * n + start, totals, n, step)
        return
    parts = min((outer + 3) // 4, 4 * THREADS) if outer * n > 16384 else 1
    parallel(rows_part, parts, x + start, out + start, outer, n, step, parts)

# Tests: tests/native/test_fourier.py
"""Passes of Fourier transforms along x[outer, n, inner], for n of the factors 2, 3 and 5.

LANES transforms run side by side in the lanes of vectors, real parts in one vector and imaginary
ones in the next, as Stockham's autosort (Van Loan, "Computational Frameworks for the Fast Fourier
Transform", 1992). Real numbers are transformed as complex ones, half as many. Two passes make a
long transform (Bailey, "FFTs in external or hierarchical memory", 1990): the first multiplies by
the roots of the whole, the second writes its rows as columns. Inverse transforms exchange real and
imaginary parts.

Bound by the caller: T, the dtype; LANES, how many of them a vector holds.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.butterflies import eight, five, four, rotate, three, two
from weft.native.kernels.turn import turn
from weft.native.language import (
    c_cos,
    c_sin,
    f64,
    i64,
    load_wide,
    outlined,
    parallel,
    ptr,
    splat,
    stack,
    store_wide,
)

OUTER, N, INNER, ROWS, READ, WRITTEN, REAL, TWIDDLED, TURNED, INVERSE, SCALE, PARTS = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
)  # fmt: skip
TURN = -6.283185307179586
TABLE = 64
LINE = 256


def fill_roots(roots: ptr[T], n: i64):
    """Write exp(-2πi k / n) for k < n, as products of two exact ones."""
    low = stack(f64, 128)
    for k in range(min(n, TABLE)):
        low[2 * k] = c_cos(TURN * f64(k) / f64(n))
        low[2 * k + 1] = c_sin(TURN * f64(k) / f64(n))
    for start in range(0, n, TABLE):
        c = c_cos(TURN * f64(start) / f64(n))
        s = c_sin(TURN * f64(start) / f64(n))
        for k in range(min(TABLE, n - start)):
            roots[2 * (start + k)] = T(c * low[2 * k] - s * low[2 * k + 1])
            roots[2 * (start + k) + 1] = T(c * low[2 * k + 1] + s * low[2 * k])


@outlined
def line(
    x: ptr[T], pace: i64, y: ptr[T], pitch: i64, re: i64, im: i64, n: i64, roots: ptr[T], total: i64
):
    """Transform n elements of x, `pace` apart, into those of y; neither is written between."""
    first = stack(T, 2 * LANES * LINE)
    second = stack(T, 2 * LANES * LINE)
    source = x
    apart = pace
    turns = 0
    left = n
    span = 1
    while left > 1:
        # The largest radix that divides what is left: fewer passes over the data.
        radix = 5
        if left % 8 == 0:
            radix = 8
        elif left % 4 == 0:
            radix = 4
        elif left % 2 == 0:
            radix = 2
        elif left % 3 == 0:
            radix = 3
        m = left // radix
        step = total // left
        # Steps alternate between two buffers; the last one writes y.
        target = first if turns % 2 == 0 else second
        to = 2 * LANES
        if m == 1:
            target = y
            to = pitch
        a = source + re
        b = source + im
        if radix == 8:
            eight(a, b, apart, target + re, target + im, to, m, span, roots, step)
        elif radix == 4:
            four(a, b, apart, target + re, target + im, to, m, span, roots, step)
        elif radix == 2:
            two(a, b, apart, target + re, target + im, to, m, span, roots, step)
        elif radix == 3:
            three(a, b, apart, target + re, target + im, to, m, span, roots, step)
        else:
            five(a, b, apart, target + re, target + im, to, m, span, roots, step)
        source = target
        turns += 1
        apart = to
        left = m
        span *= radix


@outlined
def transform(x: ptr[T], y: ptr[T], re: i64, im: i64, n: i64, rows: i64, roots: ptr[T], total: i64):
    """Transform x into y or, if `rows` is not 1, into itself by columns and rows in cache.

    Real parts are at `re` in each pair of vectors; the table has `total` roots.
    """
    if rows == 1:
        line(x, 2 * LANES, y, 2 * LANES, re, im, n, roots, total)
    else:
        columns = n // rows
        wide = 2 * LANES * (columns + 1)  # a row of y, which keeps columns in other sets of a cache
        for j in range(columns):
            at = y + 2 * LANES * j
            line(x + 2 * LANES * j, 2 * LANES * columns, at, wide, re, im, rows, roots, total)
            for k in range(1, rows):
                to = at + wide * k
                rotate(to + re, to + im, roots + 2 * (total // n) * j * k)
        for k in range(rows):
            line(y + wide * k, 2 * LANES, x + 2 * LANES * k, 2 * LANES * rows,
                 re, im, columns, roots, total)  # fmt: skip


@outlined
def split(x: ptr[T], n: i64, roots: ptr[T]):
    """Turn the transform of n pairs of real numbers into the first n + 1 of theirs."""
    half = splat(T(0.5))
    for k in range(n // 2 + 1):
        j = n - k
        a = x + 2 * LANES * k
        b = x + 2 * LANES * j if k > 0 else x
        ar = load_wide(a)
        ai = load_wide(a + LANES)
        br = load_wide(b)
        bi = load_wide(b + LANES)
        ur = splat(roots[2 * k])
        ui = splat(roots[2 * k + 1])
        er = half * (ar + br)
        ei = half * (ai - bi)
        dr = half * (ai + bi)
        di = half * (br - ar)
        tr = ur * dr - ui * di
        ti = ur * di + ui * dr
        b = x + 2 * LANES * j
        store_wide(b, er - tr)
        store_wide(b + LANES, ti - ei)
        store_wide(a, er + tr)
        store_wide(a + LANES, ei + ti)


@outlined
def join(x: ptr[T], n: i64, roots: ptr[T]):
    """Undo `split`, times 2; imaginary parts of the first and last number do not count."""
    zero = splat(T(0))
    store_wide(x + LANES, zero)
    store_wide(x + 2 * LANES * n + LANES, zero)
    for k in range(n // 2 + 1):
        j = n - k
        a = x + 2 * LANES * k
        b = x + 2 * LANES * j
        ar = load_wide(a)
        ai = load_wide(a + LANES)
        br = load_wide(b)
        bi = load_wide(b + LANES)
        ur = splat(roots[2 * k])
        ui = splat(roots[2 * k + 1])
        er = ar + br
        ei = ai - bi
        dr = ar - br
        di = ai + bi
        tr = ur * dr + ui * di
        ti = ur * di - ui * dr
        store_wide(b, er + ti)
        store_wide(b + LANES, tr - ei)
        store_wide(a, er - ti)
        store_wide(a + LANES, ei + tr)


@outlined
def scale(x: ptr[T], n: i64, divisor: i64):
    if divisor != 1:
        factor = splat(T(1.0 / f64(divisor)))
        for k in range(2 * n):
            store_wide(x + k * LANES, factor * load_wide(x + k * LANES))


@outlined
def twiddle(real_parts: ptr[T], imaginary: ptr[T], n: i64, first: i64, total: i64):
    """Multiply element k of column c by the root of `total` to the power of k · c."""
    step_r = stack(f64, LANES)
    step_i = stack(f64, LANES)
    root_r = stack(f64, LANES)
    root_i = stack(f64, LANES)
    for lane in range(LANES):
        angle = TURN * f64(first + lane) / f64(total)
        step_r[lane] = c_cos(angle)
        step_i[lane] = c_sin(angle)
        root_r[lane] = 1.0
        root_i[lane] = 0.0
    for k in range(n):
        re = real_parts + 2 * k * LANES
        im = imaginary + 2 * k * LANES
        for lane in range(LANES):
            wr = root_r[lane]
            wi = root_i[lane]
            real = re[lane] * T(wr) - im[lane] * T(wi)
            im[lane] = re[lane] * T(wi) + im[lane] * T(wr)
            re[lane] = real
            root_r[lane] = wr * step_r[lane] - wi * step_i[lane]
            root_i[lane] = wr * step_i[lane] + wi * step_r[lane]


@outlined
def read_columns(source: ptr[T], x: ptr[T], n: i64, pitch: i64, lanes: i64):
    for k in range(n):
        row = source + 2 * k * pitch
        a = x + 2 * k * LANES
        if lanes == LANES:
            for lane in range(LANES):
                a[lane] = row[2 * lane]
                a[lane + LANES] = row[2 * lane + 1]
        else:
            for lane in range(lanes):
                a[lane] = row[2 * lane]
                a[lane + LANES] = row[2 * lane + 1]


@outlined
def write_columns(x: ptr[T], out: ptr[T], n: i64, pitch: i64, lanes: i64):
    for k in range(n):
        row = out + 2 * k * pitch
        a = x + 2 * k * LANES
        if lanes == LANES:
            for lane in range(LANES):
                row[2 * lane] = a[lane]
                row[2 * lane + 1] = a[lane + LANES]
        else:
            for lane in range(lanes):
                row[2 * lane] = a[lane]
                row[2 * lane + 1] = a[lane + LANES]


def part(k: i64, x: ptr[T], out: ptr[T], scratch: ptr[T], roots: ptr[T], p: ptr[i64]):
    n = p[N]
    inner = p[INNER]
    total = 2 * n if p[REAL] != 0 else n
    size = 2 * LANES * (n + p[ROWS] + 1)
    # Transforms of exchanged parts are inverse transforms of exchanged parts.
    re = LANES if p[INVERSE] != 0 else 0
    im = LANES - re
    groups = (inner + LANES - 1) // LANES if inner > 1 else (p[OUTER] + LANES - 1) // LANES
    several = groups * p[OUTER] if inner > 1 else groups
    for group in range(k * several // p[PARTS], (k + 1) * several // p[PARTS]):
        a = scratch + 2 * k * size
        b = a + size
        y = b if p[ROWS] == 1 else a
        if inner > 1:
            column = (group % groups) * LANES
            lanes = min(LANES, inner - column)
            at = 2 * ((group // groups) * n * inner + column)
            read_columns(x + at, a, n, inner, lanes)
            transform(a, b, re, im, n, p[ROWS], roots, total)
            scale(y, n, p[SCALE])
            if p[TWIDDLED] != 0:
                twiddle(y + re, y + im, n, column, p[TWIDDLED])
            write_columns(y, out + at, n, inner, lanes)
        else:
            row = group * LANES
            lanes = min(LANES, p[OUTER] - row)
            turn(x + row * p[READ], p[READ], 1, a, LANES, lanes, p[READ])
            if p[REAL] != 0 and p[INVERSE] != 0:
                join(a, n, roots)
            transform(a, b, re, im, n, p[ROWS], roots, total)
            scale(y, n, p[SCALE])
            if p[REAL] != 0 and p[INVERSE] == 0:
                split(y, n, roots)
            if p[TURNED] != 0:
                rows = p[TURNED]
                at = 2 * ((row // rows) * rows * n + row % rows)
                write_columns(y, out + at, n, rows, lanes)
            else:
                turn(y, LANES, 1, out + row * p[WRITTEN], p[WRITTEN], p[WRITTEN], lanes)


def fourier(x: ptr[T], out: ptr[T], scratch: ptr[T], roots: ptr[T], p: ptr[i64]):
    """Parameters: three sizes; rows that n is cut into; numbers in a row of the operand and of the
    result; whether one of them is real; for a first pass the length of the whole; for a second,
    how many rows become columns; whether to transform back; a divisor; parts that memory serves.
    """
    fill_roots(roots, 2 * p[N] if p[REAL] != 0 else p[N])
    parallel(part, p[PARTS], x, out, scratch, roots, p)

# Tests: tests/native/test_fourier.py
"""Passes of Fourier transforms of c64 along x[outer, n, inner]; sizes are powers of two.

Sixteen transforms run side by side in the lanes of vectors, as Stockham's autosort with radix 4
(Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992). Two passes make a long
transform (Bailey, "FFTs in external or hierarchical memory", 1990): the first multiplies by the
roots of the whole, the second writes its rows as columns. Inverse transforms exchange real and
imaginary parts before and after.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import c_cos, c_sin, f32, f64, i64, outlined, parallel, ptr, stack

LANES = 16
OUTER, N, INNER, TWIDDLED, TURNED, INVERSE, SCALE, PARTS = 0, 1, 2, 3, 4, 5, 6, 7
TURN = -6.283185307179586


@outlined
def four(
    ar: ptr[f32], ai: ptr[f32], distance: i64, yr: ptr[f32], yi: ptr[f32], count: i64,
    roots: ptr[f32], step: i64,
):  # fmt: skip
    """Compute butterflies of radix 4 of `count` elements with the same roots."""
    b = distance
    c = 2 * distance
    d = 3 * distance
    ur = roots[2 * step]
    ui = roots[2 * step + 1]
    vr = roots[4 * step]
    vi = roots[4 * step + 1]
    wr = roots[6 * step]
    wi = roots[6 * step + 1]
    for t in range(count):
        pr = ar[t] + ar[t + c]
        pi = ai[t] + ai[t + c]
        mr = ar[t] - ar[t + c]
        mi = ai[t] - ai[t + c]
        qr = ar[t + b] + ar[t + d]
        qi = ai[t + b] + ai[t + d]
        sr = ai[t + d] - ai[t + b]
        si = ar[t + b] - ar[t + d]
        yr[t] = pr + qr
        yi[t] = pi + qi
        fr = mr - sr
        fi = mi - si
        yr[t + count] = ur * fr - ui * fi
        yi[t + count] = ur * fi + ui * fr
        fr = pr - qr
        fi = pi - qi
        yr[t + 2 * count] = vr * fr - vi * fi
        yi[t + 2 * count] = vr * fi + vi * fr
        fr = mr + sr
        fi = mi + si
        yr[t + 3 * count] = wr * fr - wi * fi
        yi[t + 3 * count] = wr * fi + wi * fr


@outlined
def two(ar: ptr[f32], ai: ptr[f32], yr: ptr[f32], yi: ptr[f32], count: i64):
    for t in range(count):
        yr[t] = ar[t] + ar[t + count]
        yi[t] = ai[t] + ai[t + count]
        yr[t + count] = ar[t] - ar[t + count]
        yi[t + count] = ai[t] - ai[t + count]


@outlined
def transform(
    re: ptr[f32], im: ptr[f32], to_re: ptr[f32], to_im: ptr[f32], n: i64, roots: ptr[f32]
):
    """Transform the lanes in `re`, `im`; the other arrays are of the same size."""
    left = n
    span = LANES
    xr = re
    xi = im
    yr = to_re
    yi = to_im
    moved = False
    while left > 1:
        moved = not moved
        if left == 2:
            two(xr, xi, yr, yi, span)
            left = 1
        else:
            m = left // 4
            for p in range(m):
                four(
                    xr + span * p, xi + span * p, span * m, yr + 4 * span * p, yi + 4 * span * p,
                    span, roots, p * (n // left),
                )  # fmt: skip
            left = m
            span = 4 * span
        swap = xr
        xr = yr
        yr = swap
        swap = xi
        xi = yi
        yi = swap
    if moved:
        for t in range(n * LANES):
            re[t] = xr[t]
            im[t] = xi[t]


@outlined
def twiddle(re: ptr[f32], im: ptr[f32], n: i64, first: i64, total: i64):
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
        x = re + k * LANES
        y = im + k * LANES
        for lane in range(LANES):
            wr = root_r[lane]
            wi = root_i[lane]
            real = x[lane] * f32(wr) - y[lane] * f32(wi)
            y[lane] = x[lane] * f32(wi) + y[lane] * f32(wr)
            x[lane] = real
            root_r[lane] = wr * step_r[lane] - wi * step_i[lane]
            root_i[lane] = wr * step_i[lane] + wi * step_r[lane]


@outlined
def read_columns(x: ptr[f32], re: ptr[f32], im: ptr[f32], n: i64, pitch: i64):
    for k in range(n):
        source = x + 2 * k * pitch
        a = re + k * LANES
        b = im + k * LANES
        for lane in range(LANES):
            a[lane] = source[2 * lane]
            b[lane] = source[2 * lane + 1]


@outlined
def write_columns(re: ptr[f32], im: ptr[f32], out: ptr[f32], n: i64, pitch: i64, scale: f32):
    for k in range(n):
        target = out + 2 * k * pitch
        a = re + k * LANES
        b = im + k * LANES
        for lane in range(LANES):
            target[2 * lane] = a[lane] * scale
            target[2 * lane + 1] = b[lane] * scale


@outlined
def read_rows(x: ptr[f32], re: ptr[f32], im: ptr[f32], n: i64):
    """Return a line of memory at a time."""
    for start in range(0, n, 8):
        for lane in range(LANES):
            source = x + 2 * (lane * n + start)
            a = re + start * LANES + lane
            b = im + start * LANES + lane
            for k in range(8):
                a[k * LANES] = source[2 * k]
                b[k * LANES] = source[2 * k + 1]


def part(k: i64, x: ptr[f32], out: ptr[f32], scratch: ptr[f32], roots: ptr[f32], p: ptr[i64]):
    n = p[N]
    inner = p[INNER]
    size = n * LANES
    re = scratch + 4 * k * size
    im = re + size
    # Transforms of exchanged parts are inverse transforms of exchanged parts.
    first = re
    second = im
    if p[INVERSE] != 0:
        first = im
        second = re
    scale = f32(1.0 / f64(p[SCALE]))
    groups = inner // LANES if inner > 1 else p[OUTER] // LANES
    total = groups * p[OUTER] if inner > 1 else groups
    for group in range(k * total // p[PARTS], (k + 1) * total // p[PARTS]):
        if inner > 1:
            column = (group % groups) * LANES
            at = 2 * ((group // groups) * n * inner + column)
            read_columns(x + at, first, second, n, inner)
            transform(re, im, im + size, im + 2 * size, n, roots)
            twiddle(re, im, n, column, p[TWIDDLED])
            write_columns(first, second, out + at, n, inner, scale)
        else:
            row = group * LANES
            read_rows(x + 2 * row * n, first, second, n)
            transform(re, im, im + size, im + 2 * size, n, roots)
            rows = p[TURNED]
            at = 2 * ((row // rows) * rows * n + row % rows)
            write_columns(first, second, out + at, n, rows, scale)


def fourier(x: ptr[f32], out: ptr[f32], scratch: ptr[f32], roots: ptr[f32], p: ptr[i64]):
    """Parameters: three sizes; for a first pass the length of the whole; for a second, how many
    rows become columns; whether to transform back; a divisor; parts that the memory serves.
    """
    for k in range(p[N]):
        angle = TURN * f64(k) / f64(p[N])
        roots[2 * k] = f32(c_cos(angle))
        roots[2 * k + 1] = f32(c_sin(angle))
    parallel(part, p[PARTS], x, out, scratch, roots, p)

# Tests: tests/native/test_convolution.py
"""Depthwise convolutions of planes x[.., H, W], and the gradients of their filters.

Bound by the caller: T, the dtype; LANES, how many of them a vector holds. A plane is copied into
memory with its padding around it, of row pitch `across`. There a window's element is one and the
same distance away from every output, so that all outputs of a plane (with stride 1) are one long
vector; what lies between the rows is computed too and left out.

The parameters by position are made by `weft.native.convolution`.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    i64,
    load_wide,
    outlined,
    parallel,
    ptr,
    splat,
    stack,
    store_wide,
    sum_wide,
)

BATCHES, GROUPS, MULTIPLIER = 0, 1, 2
HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH, WINDOW_HEIGHT, WINDOW_WIDTH = 3, 4, 5, 6, 7, 8
STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X, PAD_Y, PAD_X = 9, 10, 11, 12, 13, 14
DOWN, ACROSS, PLANE = 15, 16, 17
X_BATCH, X_GROUP, W_FEATURE, W_BATCH, OUT_BATCH, OUT_FEATURE = 18, 19, 20, 21, 22, 23
TAPS = 1024


def clear(x: ptr[T], n: i64):
    for i in range(n):
        x[i] = 0.0


def copy_padded(x: ptr[T], padded: ptr[T], p: ptr[i64]):
    """Return a plane into the middle of zeros; negative padding leaves its borders out."""
    pad = p[PAD_X]
    first = max(0, pad)
    last = min(p[ACROSS], p[WIDTH] + pad)
    for row in range(max(0, p[PAD_Y]), min(p[DOWN], p[HEIGHT] + p[PAD_Y])):
        source = x + (row - p[PAD_Y]) * p[WIDTH] - pad
        target = padded + row * p[ACROSS]
        for column in range(first, last):
            target[column] = source[column]


@outlined
def convolve(x: ptr[T], w: ptr[T], offsets: ptr[i64], taps: i64, out: ptr[T], n: i64):
    """out[t] = Σ w[k] x[t + offsets[k]]; writes up to four vectors past the end."""
    t = 0
    while n - t > 2 * LANES:
        a = splat(T(0))
        b = a
        c = a
        d = a
        for k in range(taps):
            at = x + t + offsets[k]
            weight = splat(w[k])
            a = a + weight * load_wide(at)
            b = b + weight * load_wide(at + LANES)
            c = c + weight * load_wide(at + 2 * LANES)
            d = d + weight * load_wide(at + 3 * LANES)
        target = out + t
        store_wide(target, a)
        store_wide(target + LANES, b)
        store_wide(target + 2 * LANES, c)
        store_wide(target + 3 * LANES, d)
        t += 4 * LANES
    while t < n:
        e = splat(T(0))
        for k in range(taps):
            e = e + splat(w[k]) * load_wide(x + t + offsets[k])
        store_wide(out + t, e)
        t += LANES


@outlined
def plane(padded: ptr[T], w: ptr[T], offsets: ptr[i64], flat: ptr[T], out: ptr[T], p: ptr[i64]):
    """Compute all outputs of one plane."""
    taps = p[WINDOW_HEIGHT] * p[WINDOW_WIDTH]
    stride = p[STRIDE_X]
    width = p[OUT_WIDTH]
    at_once = p[STRIDE_Y] == 1
    if p[OUT_HEIGHT] * stride == 1:
        # One row needs no other place, but for what would be written past its end.
        done = width - width % (4 * LANES)
        convolve(padded, w, offsets, taps, out, done)
        convolve(padded + done, w, offsets, taps, flat, width - done)
        for column in range(done, width):
            out[column] = flat[column - done]
        return
    if at_once:
        convolve(padded, w, offsets, taps, flat, (p[OUT_HEIGHT] - 1) * p[ACROSS] + width * stride)
    for row in range(p[OUT_HEIGHT]):
        source = flat + row * p[ACROSS]
        if not at_once:
            source = flat
            start = padded + row * p[STRIDE_Y] * p[ACROSS]
            convolve(start, w, offsets, taps, flat, width * stride)
        target = out + row * width
        if stride == 1:
            for column in range(width):
                target[column] = source[column]
        else:
            for column in range(width):
                target[column] = source[column * stride]


def planes_part(
    k: i64, x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64], parts: i64
):  # fmt: skip
    padded = scratch + 2 * k * p[PLANE]
    flat = padded + p[PLANE]
    clear(padded, p[PLANE])
    offsets = stack(i64, TAPS)
    for row in range(p[WINDOW_HEIGHT]):
        for column in range(p[WINDOW_WIDTH]):
            offset = row * p[DILATION_Y] * p[ACROSS] + column * p[DILATION_X]
            offsets[row * p[WINDOW_WIDTH] + column] = offset
    planes = p[BATCHES] * p[GROUPS]
    for index in range(k * planes // parts, (k + 1) * planes // parts):
        batch = index // p[GROUPS]
        group = index % p[GROUPS]
        copy_padded(x + batch * p[X_BATCH] + group * p[X_GROUP], padded, p)
        for m in range(p[MULTIPLIER]):
            feature = group * p[MULTIPLIER] + m
            target = out + batch * p[OUT_BATCH] + feature * p[OUT_FEATURE]
            plane(padded, w + feature * p[W_FEATURE], offsets, flat, target, p)


def depthwise(x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64]):
    parts = min(p[BATCHES] * p[GROUPS], PARTS)
    parallel(planes_part, parts, x, w, out, scratch, p, parts)


@outlined
def dot(x: ptr[T], y: ptr[T], n: i64) -> T:
    """Σ x[t] y[t]; y is zero up to four vectors past the end."""
    a = splat(T(0))
    b = a
    c = a
    d = a
    for t in range(0, n, 4 * LANES):
        a = a + load_wide(x + t) * load_wide(y + t)
        b = b + load_wide(x + t + LANES) * load_wide(y + t + LANES)
        c = c + load_wide(x + t + 2 * LANES) * load_wide(y + t + 2 * LANES)
        d = d + load_wide(x + t + 3 * LANES) * load_wide(y + t + 3 * LANES)
    return sum_wide((a + b) + (c + d))


def filters_part(
    k: i64, x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64], parts: i64
):  # fmt: skip
    """Few outputs of large windows: w is laid out like the padded plane, zeros in between."""
    padded = scratch + 2 * k * p[PLANE]
    flat = padded + p[PLANE]
    clear(padded, 2 * p[PLANE])
    rows = p[WINDOW_HEIGHT]
    columns = p[WINDOW_WIDTH]
    n = (rows - 1) * p[DILATION_Y] * p[ACROSS] + (columns - 1) * p[DILATION_X] + 1
    outputs = p[OUT_HEIGHT] * p[OUT_WIDTH]
    features = p[GROUPS] * p[MULTIPLIER]
    for feature in range(k * features // parts, (k + 1) * features // parts):
        target = out + feature * p[OUT_FEATURE]
        clear(target, outputs)
        group = feature // p[MULTIPLIER]
        for batch in range(p[BATCHES]):
            copy_padded(x + batch * p[X_BATCH] + group * p[X_GROUP], padded, p)
            window = w + feature * p[W_FEATURE] + batch * p[W_BATCH]
            for row in range(rows):
                line = flat + row * p[DILATION_Y] * p[ACROSS]
                for column in range(columns):
                    line[column * p[DILATION_X]] = window[row * columns + column]
            for row in range(p[OUT_HEIGHT]):
                for column in range(p[OUT_WIDTH]):
                    start = row * p[STRIDE_Y] * p[ACROSS] + column * p[STRIDE_X]
                    target[row * p[OUT_WIDTH] + column] += dot(padded + start, flat, n)


def filters(x: ptr[T], w: ptr[T], out: ptr[T], scratch: ptr[T], p: ptr[i64]):
    parts = min(p[GROUPS] * p[MULTIPLIER], PARTS)
    parallel(filters_part, parts, x, w, out, scratch, p, parts)

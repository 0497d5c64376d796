# Tests: tests/native/test_elementwise.py, tests/native/test_reductions.py
"""Powers of f32, and cumulative log-sum-exps of its rows, computed in f64.

Logarithms are the series of the inverse hyperbolic tangent on [√½, √2], exponentials Taylor's on
half a binade (Muller, "Elementary Functions", 2016), both to some 1e-15. Elements that these do not
serve are left to the C library: bases that are zero, infinite or NaN, and blocks of rows
with infinities, NaNs or values that lie too far apart.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    absolute,
    bitcast,
    c_exp,
    c_log,
    c_pow,
    f32,
    f64,
    floor,
    fma,
    i64,
    outlined,
    parallel,
    ptr,
    stack,
    u32,
    u64,
)

BLOCK = 256
SHARE = 16384
WHOLE = 6755399441055744.0  # 1.5 · 2⁵²: what is added to it is rounded to a whole number
FAR = 600.0
INFINITY = 0x7FF0000000000000
NOT_A_NUMBER = 0x7FF8000000000000


def power_of_two(t: f64) -> f64:
    """2 ** t, for t up to 1000 either way."""
    t = min(max(t, -1000.0), 1000.0)
    whole = t + WHOLE
    r = (t - (whole - WHOLE)) * 0.6931471805599453
    p = 2.505210838544172e-08
    p = fma(p, r, 2.755731922398589e-07)
    p = fma(p, r, 2.7557319223985893e-06)
    p = fma(p, r, 2.48015873015873e-05)
    p = fma(p, r, 0.0001984126984126984)
    p = fma(p, r, 0.001388888888888889)
    p = fma(p, r, 0.008333333333333333)
    p = fma(p, r, 0.041666666666666664)
    p = fma(p, r, 0.16666666666666666)
    p = fma(p, r, 0.5)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    return p * bitcast(f64, (bitcast(u64, whole) + 1023) << 52)


def log_of(x: f64) -> f64:
    """Return the natural logarithm of a positive normal number."""
    # Subtracting the bits of √½ first puts the mantissa between √½ and √2.
    bits = bitcast(u64, x) - 0x3FE6A09E667F3BCD
    exponent = f64(bitcast(i64, bits) >> 52)
    mantissa = bitcast(f64, (bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    z = (mantissa - 1.0) / (mantissa + 1.0)
    w = z * z
    p = 0.11764705882352941
    p = fma(p, w, 0.13333333333333333)
    p = fma(p, w, 0.15384615384615385)
    p = fma(p, w, 0.18181818181818182)
    p = fma(p, w, 0.2222222222222222)
    p = fma(p, w, 0.2857142857142857)
    p = fma(p, w, 0.4)
    p = fma(p, w, 0.6666666666666666)
    p = fma(p, w, 2.0)
    return fma(exponent, 0.6931471805599453, p * z)


# Powers ---------------------------------------------------------------------------------------


def is_usual(base: f32, exponent: f32) -> boolean:
    """Return whether the base is positive and finite, and the exponent finite."""
    # The processor reads subnormal exponents as zero, which is a whole number.
    whole_or_normal = ((bitcast(u32, exponent) & 0x7FFFFFFF) - 1) >= u32(0x7FFFFF)
    finite = (base - base == 0.0) & (exponent - exponent == 0.0)
    return (base != 0.0) & finite & whole_or_normal


def widened(x: f32) -> f64:
    """Return the number in f64; denormal ones too, which XLA has the processor read as zero."""
    bits = bitcast(u32, x)
    small = f64(bits & 0x7FFFFF) * 1.401298464324817e-45
    small = -small if (bits >> 31) != 0 else small
    return small if (bits & 0x7F800000) == 0 else f64(x)


@outlined
def rest(x: ptr[f32], y: ptr[f32], step: i64, out: ptr[f32], n: i64):
    for i in range(n):
        if not is_usual(x[i], y[i * step]):
            out[i] = f32(c_pow(widened(x[i]), widened(y[i * step])))


def power(x: f32, y: f32) -> f32:
    exponent = f64(y)
    size = power_of_two(log_of(absolute(f64(x))) * exponent * 1.4426950408889634)
    half = exponent * 0.5
    other = -size if floor(half) != half else size
    other = other if floor(exponent) == exponent else bitcast(f64, u64(NOT_A_NUMBER))
    return f32(other if x < 0.0 else size)


def powers_part(k: i64, x: ptr[f32], y: ptr[f32], step: i64, out: ptr[f32], n: i64):
    for start in range(k * SHARE, min((k + 1) * SHARE, n), BLOCK):
        length = min(BLOCK, n - start)
        bases = x + start
        exponents = y + start * step
        target = out + start
        unusual = 0
        if step == 0:
            exponent = exponents[0]
            for i in range(length):
                unusual += 0 if is_usual(bases[i], exponent) else 1
                target[i] = power(bases[i], exponent)
        else:
            for i in range(length):
                unusual += 0 if is_usual(bases[i], exponents[i]) else 1
                target[i] = power(bases[i], exponents[i])
        if unusual > 0:
            rest(bases, exponents, step, target, length)


def powers(x: ptr[f32], y: ptr[f32], out: ptr[f32], p: ptr[i64]):
    """Parameters: the number of bases, and 0 where one exponent serves all, else 1."""
    n = p[0]
    parallel(powers_part, (n + SHARE - 1) // SHARE, x, y, p[1], out, n)


# Cumulative log-sum-exps ----------------------------------------------------------------------


@outlined
def one_by_one(x: ptr[f32], out: ptr[f32], n: i64, step: i64, state: ptr[f64]):
    """Continue the sum; so far it is state[1] · exp(state[0])."""
    top = state[0]
    sum = state[1]
    for i in range(n):
        value = f64(x[i * step])
        if value == top:
            sum += 1.0
        elif (value < top) | (top != top):
            sum += c_exp(value - top)
        else:
            sum = sum * c_exp(top - value) + 1.0
            top = value
        out[i * step] = f32(top + c_log(sum))
    state[0] = top
    state[1] = sum


def block(x: ptr[f32], out: ptr[f32], n: i64, step: i64, state: ptr[f64], sums: ptr[f64]):
    """Up to BLOCK elements, relative to the greatest of all so far."""
    top = state[0]
    odd = 0
    for i in range(n):
        value = f64(x[i * step])
        odd += 0 if value - value == 0.0 else 1
        top = max(top, value)
    first = max(state[0], f64(x[0]))
    if (odd > 0) or (state[0] != state[0]) or not (first - top > -FAR):
        one_by_one(x, out, n, step, state)
        return
    for i in range(n):
        sums[i] = power_of_two((f64(x[i * step]) - top) * 1.4426950408889634)
    sum = 0.0
    if state[0] - top > -1000.0:
        sum = state[1] * power_of_two((state[0] - top) * 1.4426950408889634)
    for i in range(n):
        sum += sums[i]
        sums[i] = sum
    for i in range(n):
        out[i * step] = f32(top + log_of(sums[i]))
    state[0] = top
    state[1] = sum


def rows_part(k: i64, x: ptr[f32], out: ptr[f32], outer: i64, n: i64, step: i64, parts: i64):
    state = stack(f64, 2)
    sums = stack(f64, BLOCK)
    for row in range(k * outer // parts, (k + 1) * outer // parts):
        state[0] = bitcast(f64, u64(INFINITY) | (u64(1) << 63))
        state[1] = 0.0
        at = row * n
        if step < 0:
            at += n - 1
        for start in range(0, n, BLOCK):
            offset = at + start * step
            block(x + offset, out + offset, min(BLOCK, n - start), step, state, sums)


def logsumexps(x: ptr[f32], out: ptr[f32], parameters: ptr[i64]):
    """Parameters: rows, their length, 1 or -1 for rows from their ends."""
    outer = parameters[0]
    n = parameters[1]
    parts = min(outer, 4 * THREADS) if outer * n > 4096 else 1
    parallel(rows_part, parts, x, out, outer, n, parameters[2], parts)

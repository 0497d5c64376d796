# Tests: tests/native/test_elementwise.py
"""Exact remainders of f32 and f64, with the sign of the dividend.

Bound by the caller: T, the dtype; LIMIT, the quotient below which its whole part times the divisor
is exact: 2²⁹ for f32 in f64, 2⁵³ for f64 in a fused product. Rounding may have made that part one
too large. Larger quotients, infinities, NaNs and divisors of zero are left to the C library.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    absolute,
    bitcast,
    c_fmod,
    f64,
    floor,
    fma,
    i64,
    outlined,
    parallel,
    ptr,
    u64,
)

BLOCK = 256
SHARE = 16384


def is_usual(x: f64, y: f64) -> boolean:
    return absolute(x) < f64(LIMIT) * absolute(y)


def rest(x: f64, y: f64) -> f64:
    a = absolute(x)
    b = absolute(y)
    r = fma(-floor(a / b), b, a)
    r = r + b if r < 0.0 else r
    r = a if a < b else r  # also of an infinite b
    return bitcast(f64, bitcast(u64, r) | (bitcast(u64, x) & (u64(1) << 63)))


@outlined
def others(x: ptr[T], y: ptr[T], step: i64, out: ptr[T], n: i64):
    for i in range(n):
        if not is_usual(f64(x[i]), f64(y[i * step])):
            out[i] = T(c_fmod(f64(x[i]), f64(y[i * step])))


def part(k: i64, x: ptr[T], y: ptr[T], step: i64, out: ptr[T], n: i64):
    for start in range(k * SHARE, min((k + 1) * SHARE, n), BLOCK):
        length = min(BLOCK, n - start)
        dividends = x + start
        divisors = y + start * step
        target = out + start
        unusual = 0
        if step == 0:
            divisor = f64(divisors[0])
            for i in range(length):
                unusual += 0 if is_usual(f64(dividends[i]), divisor) else 1
                target[i] = T(rest(f64(dividends[i]), divisor))
        else:
            for i in range(length):
                unusual += 0 if is_usual(f64(dividends[i]), f64(divisors[i])) else 1
                target[i] = T(rest(f64(dividends[i]), f64(divisors[i])))
        if unusual > 0:
            others(dividends, divisors, step, target, length)


def remainders(x: ptr[T], y: ptr[T], out: ptr[T], p: ptr[i64]):
    """Parameters: the number of dividends, and 0 where one divisor serves all, else 1."""
    n = p[0]
    parallel(part, (n + SHARE - 1) // SHARE, x, y, p[1], out, n)

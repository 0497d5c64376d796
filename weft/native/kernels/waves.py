# Tests: tests/native/test_elementwise.py
"""Sines and cosines of f32, computed in f64: within 0.51 ulp.

Bound by the caller: QUARTER, 0 for sines, 1 for cosines. The argument is reduced by multiples of
π/2 in two parts (Cody and Waite, "Software Manual for the Elementary Functions", 1980), then Taylor
series serve up to π/4. Beyond `LARGE`, where two parts are too few, and for infinities, the C
library computes.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    bitcast,
    c_cos,
    c_sin,
    f32,
    f64,
    fma,
    i64,
    outlined,
    parallel,
    ptr,
    rint,
    u32,
)

BLOCK = 256
SHARE = 16384
LARGE = 1308622848  # the bits of 2²⁹


def wave(x: f64) -> f64:
    k = rint(x * 0.6366197723675814)
    r = fma(-k, 6.123233995736766e-17, fma(-k, 1.5707963267948966, x))
    r = x if k == 0.0 else r  # keeps the sign of zero
    z = r * r
    s = -2.505210838544172e-08
    s = fma(s, z, 2.7557319223985893e-06)
    s = fma(s, z, -0.0001984126984126984)
    s = fma(s, z, 0.008333333333333333)
    s = fma(s, z, -0.16666666666666666)
    s = r * fma(s, z, 1.0)
    c = 2.08767569878681e-09
    c = fma(c, z, -2.755731922398589e-07)
    c = fma(c, z, 2.48015873015873e-05)
    c = fma(c, z, -0.001388888888888889)
    c = fma(c, z, 0.041666666666666664)
    c = fma(c, z, -0.5)
    c = fma(c, z, 1.0)
    quarter = i64(k) + QUARTER
    y = s if (quarter & 1) == 0 else c
    return y if (quarter & 2) == 0 else -y


@outlined
def rest(x: ptr[u32], out: ptr[f32], n: i64):
    """Compute the elements of a block that are too large for the block's formula."""
    for i in range(n):
        if (x[i] & 0x7FFFFFFF) > LARGE:
            value = f64(bitcast(f32, x[i]))
            if QUARTER == 0:
                out[i] = f32(c_sin(value))
            else:
                out[i] = f32(c_cos(value))


def share(k: i64, x: ptr[f32], bits: ptr[u32], out: ptr[f32], n: i64):
    for start in range(k * SHARE, min((k + 1) * SHARE, n), BLOCK):
        length = min(BLOCK, n - start)
        block = x + start
        target = out + start
        greatest: u32 = 0
        for i in range(length):
            greatest = max(greatest, bits[start + i] & 0x7FFFFFFF)
        for i in range(length):
            target[i] = f32(wave(f64(block[i])))
        if greatest > LARGE:
            rest(bits + start, target, length)


def waves(x: ptr[f32], out: ptr[f32], p: ptr[i64]):
    n = p[0]
    parallel(share, (n + SHARE - 1) // SHARE, x, bitcast(ptr[u32], x), out, n)

# Tests: tests/native/test_elementwise.py
"""Sines, cosines, tangents: of f32 computed in f64, within 0.51 ulp; of f64 within 0.75.

Bound by the caller: QUARTER, 0 for sines, 1 for cosines, 2 for tangents; T and U, the dtype and the
type of its bits; BITS, its width; LARGE, the bits of the greatest argument that is reduced here.
Multiples of π/2 are subtracted in parts (Cody and Waite, "Software Manual for the Elementary
Functions", 1980), then Taylor series serve up to π/4. Beyond LARGE, and for infinities, the C
library computes.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    bitcast,
    c_cos,
    c_sin,
    c_tan,
    f64,
    fma,
    i64,
    outlined,
    parallel,
    ptr,
)

BLOCK = 256
SHARE = 16384
WHOLE = 6755399441055744.0  # 1.5 · 2⁵²: what is added to it is rounded to a whole number


def wave(x: f64) -> f64:
    # Adding WHOLE rounds to an integer k, whose last bits are those of the sum.
    shifted = x * 0.6366197723675814 + WHOLE
    k = shifted - WHOLE
    r = fma(-k, 1.5707963267948966, x)  # exact but for |x| < ½, where k is 0
    low = 0.0
    if BITS == 32:
        r = fma(-k, 6.123233995736766e-17, r)
    if BITS == 64:
        # The second part of π/2 leaves a remainder in two numbers, the third goes to the lower.
        t = r
        p = k * 6.123233995736766e-17
        r = t - p
        low = ((t - r) - p) - fma(k, 6.123233995736766e-17, -p) + k * 1.4973849048591698e-33
    r = x if k == 0.0 else r  # keeps the sign of zero
    # Polynomials of sine (s) and cosine (c) on [-π/4, π/4], both: lanes need either.
    z = r * r
    s = 2.7557319223985893e-06
    c = -2.755731922398589e-07
    if BITS == 64:
        s = fma(
            fma(fma(2.8114572543455206e-15, z, -7.647163731819816e-13), z, 1.6059043836821613e-10),
            z,
            -2.505210838544172e-08,
        )
        s = fma(s, z, 2.7557319223985893e-06)
        c = fma(fma(4.779477332387385e-14, z, -1.1470745597729725e-11), z, 2.08767569878681e-09)
        c = fma(c, z, -2.755731922398589e-07)
    else:
        s = fma(-2.505210838544172e-08, z, s)
        c = fma(2.08767569878681e-09, z, c)
    s = fma(s, z, -0.0001984126984126984)
    s = fma(s, z, 0.008333333333333333)
    s = fma(s, z, -0.16666666666666666)
    half = 0.5 * z
    s_low = 0.0
    c_low = 0.0
    if BITS == 64:
        s_low = fma(r * z, s, fma(-low, half, low))
        s = r + s_low if r != 0.0 else r
    else:
        s = r * fma(s, z, 1.0)
    c = fma(c, z, 2.48015873015873e-05)
    c = fma(c, z, -0.001388888888888889)
    c = fma(c, z, 0.041666666666666664)
    if BITS == 64:
        top = 1.0 - half
        lost = fma(0.5, fma(r, r, -z), r * low)
        c_low = ((1.0 - top) - half) + fma(z * z, c, -lost)
        c = top + c_low
        if QUARTER == 2:
            # The quotient of both sums, with what its own rounding leaves.
            even = (bitcast(i64, shifted) & 1) == 0
            above = r if even else -top
            above_low = s_low if even else -c_low
            below = top if even else r
            below_low = c_low if even else s_low
            inverse = 1.0 / (below + below_low)
            q = (above + above_low) * inverse
            q = q + (fma(-q, below, above) + fma(-q, below_low, above_low)) * inverse
            return r if r == 0.0 else q
    else:
        c = fma(fma(c, z, -0.5), z, 1.0)
    if QUARTER == 2:
        even = (bitcast(i64, shifted) & 1) == 0
        return (s if even else -c) / (c if even else s)
    quarter = bitcast(i64, shifted) + QUARTER
    y = s if (quarter & 1) == 0 else c
    return y if (quarter & 2) == 0 else -y


@outlined
def rest(x: ptr[U], out: ptr[T], n: i64):
    """Compute the elements of a block that are too large for the block's formula."""
    for i in range(n):
        if (x[i] & ~(U(1) << (BITS - 1))) > U(LARGE):
            value = f64(bitcast(T, x[i]))
            if QUARTER == 0:
                out[i] = T(c_sin(value))
            if QUARTER == 1:
                out[i] = T(c_cos(value))
            if QUARTER == 2:
                out[i] = T(c_tan(value))


def share(k: i64, x: ptr[T], bits: ptr[U], out: ptr[T], n: i64):
    for start in range(k * SHARE, min((k + 1) * SHARE, n), BLOCK):
        length = min(BLOCK, n - start)
        block = x + start
        target = out + start
        greatest = U(0)
        for i in range(length):
            greatest = max(greatest, bits[start + i] & ~(U(1) << (BITS - 1)))
        for i in range(length):
            target[i] = T(wave(f64(block[i])))
        if greatest > U(LARGE):
            rest(bits + start, target, length)


def waves(x: ptr[T], out: ptr[T], p: ptr[i64]):
    n = p[0]
    parallel(share, (n + SHARE - 1) // SHARE, x, bitcast(ptr[U], x), out, n)

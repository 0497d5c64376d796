# Tests: tests/native/test_fourier.py
"""Butterflies of Fourier transforms of radix 2, 3, 4, 5 and 8 of vectors.

Element e of x is at e · pace, its real parts in one vector and its imaginary ones in another;
those of y are `pitch` apart. Element m · j + p is factor j of butterfly p; each is of `span`
elements side by side. `step` is how far apart the roots of butterflies are in their table.

Bound by the caller: T, the dtype; LANES, how many of them a vector holds.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, load_wide, outlined, ptr, splat, store_wide


def rotate(re: ptr[T], im: ptr[T], root: ptr[T]):
    ur = splat(root[0])
    ui = splat(root[1])
    fr = load_wide(re)
    fi = load_wide(im)
    store_wide(re, ur * fr - ui * fi)
    store_wide(im, ur * fi + ui * fr)


@outlined
def two(
    xr: ptr[T], xi: ptr[T], pace: i64, yr: ptr[T], yi: ptr[T], pitch: i64, m: i64, span: i64,
    roots: ptr[T], step: i64,
):  # fmt: skip
    """Compute butterflies of radix 2."""
    far = m * span * pace
    near = span * pitch
    for p in range(m):
        for q in range(span):
            s = (p * span + q) * pace
            t = (2 * p * span + q) * pitch
            ar = load_wide(xr + s)
            ai = load_wide(xi + s)
            br = load_wide(xr + s + far)
            bi = load_wide(xi + s + far)
            store_wide(yr + t, ar + br)
            store_wide(yi + t, ai + bi)
            store_wide(yr + t + near, ar - br)
            store_wide(yi + t + near, ai - bi)
            if p > 0:
                rotate(yr + t + near, yi + t + near, roots + 2 * step * p)


@outlined
def four(
    xr: ptr[T], xi: ptr[T], pace: i64, yr: ptr[T], yi: ptr[T], pitch: i64, m: i64, span: i64,
    roots: ptr[T], step: i64,
):  # fmt: skip
    """Compute butterflies of radix 4."""
    far = m * span * pace
    near = span * pitch
    for p in range(m):
        for q in range(span):
            s = (p * span + q) * pace
            t = (4 * p * span + q) * pitch
            ar = load_wide(xr + s)
            ai = load_wide(xi + s)
            br = load_wide(xr + s + far)
            bi = load_wide(xi + s + far)
            cr = load_wide(xr + s + 2 * far)
            ci = load_wide(xi + s + 2 * far)
            dr = load_wide(xr + s + 3 * far)
            di = load_wide(xi + s + 3 * far)
            pr = ar + cr
            pi = ai + ci
            mr = ar - cr
            mi = ai - ci
            qr = br + dr
            qi = bi + di
            sr = di - bi
            si = br - dr
            store_wide(yr + t, pr + qr)
            store_wide(yi + t, pi + qi)
            store_wide(yr + t + near, mr - sr)
            store_wide(yi + t + near, mi - si)
            store_wide(yr + t + 2 * near, pr - qr)
            store_wide(yi + t + 2 * near, pi - qi)
            store_wide(yr + t + 3 * near, mr + sr)
            store_wide(yi + t + 3 * near, mi + si)
            if p > 0:
                for k in range(1, 4):
                    rotate(yr + t + k * near, yi + t + k * near, roots + 2 * k * step * p)


@outlined
def eight(
    xr: ptr[T], xi: ptr[T], pace: i64, yr: ptr[T], yi: ptr[T], pitch: i64, m: i64, span: i64,
    roots: ptr[T], step: i64,
):  # fmt: skip
    """Compute butterflies of radix 8: of radix 4 of even and odd elements, then of radix 2."""
    far = m * span * pace
    near = span * pitch
    diagonal = splat(T(0.7071067811865476))
    for p in range(m):
        for q in range(span):
            s = (p * span + q) * pace
            t = (8 * p * span + q) * pitch
            # Even elements: sums and differences of opposite ones, then of those.
            ar = load_wide(xr + s)
            ai = load_wide(xi + s)
            br = load_wide(xr + s + 2 * far)
            bi = load_wide(xi + s + 2 * far)
            cr = load_wide(xr + s + 4 * far)
            ci = load_wide(xi + s + 4 * far)
            dr = load_wide(xr + s + 6 * far)
            di = load_wide(xi + s + 6 * far)
            pr = ar + cr
            pi = ai + ci
            mr = ar - cr
            mi = ai - ci
            qr = br + dr
            qi = bi + di
            nr = br - dr
            ni = bi - di
            e0r = pr + qr
            e0i = pi + qi
            e1r = mr + ni
            e1i = mi - nr
            e2r = pr - qr
            e2i = pi - qi
            e3r = mr - ni
            e3i = mi + nr
            # Odd elements, in the same way.
            ar = load_wide(xr + s + 1 * far)
            ai = load_wide(xi + s + 1 * far)
            br = load_wide(xr + s + 3 * far)
            bi = load_wide(xi + s + 3 * far)
            cr = load_wide(xr + s + 5 * far)
            ci = load_wide(xi + s + 5 * far)
            dr = load_wide(xr + s + 7 * far)
            di = load_wide(xi + s + 7 * far)
            pr = ar + cr
            pi = ai + ci
            mr = ar - cr
            mi = ai - ci
            qr = br + dr
            qi = bi + di
            nr = br - dr
            ni = bi - di
            o0r = pr + qr
            o0i = pi + qi
            o1r = mr + ni
            o1i = mi - nr
            o2r = pr - qr
            o2i = pi - qi
            o3r = mr - ni
            o3i = mi + nr
            # Odd elements turn by eighths: by (1 - i) / √2, by -i, by (-1 - i) / √2.
            ur = diagonal * (o1r + o1i)
            ui = diagonal * (o1i - o1r)
            vr = diagonal * (o3i - o3r)
            vi = diagonal * (o3r + o3i)
            # Radix 2: a result and the one half a turn on differ in the odd part's sign.
            store_wide(yr + t, e0r + o0r)
            store_wide(yi + t, e0i + o0i)
            store_wide(yr + t + 4 * near, e0r - o0r)
            store_wide(yi + t + 4 * near, e0i - o0i)
            store_wide(yr + t + near, e1r + ur)
            store_wide(yi + t + near, e1i + ui)
            store_wide(yr + t + 5 * near, e1r - ur)
            store_wide(yi + t + 5 * near, e1i - ui)
            store_wide(yr + t + 2 * near, e2r + o2i)
            store_wide(yi + t + 2 * near, e2i - o2r)
            store_wide(yr + t + 6 * near, e2r - o2i)
            store_wide(yi + t + 6 * near, e2i + o2r)
            store_wide(yr + t + 3 * near, e3r + vr)
            store_wide(yi + t + 3 * near, e3i - vi)
            store_wide(yr + t + 7 * near, e3r - vr)
            store_wide(yi + t + 7 * near, e3i + vi)
            if p > 0:
                for k in range(1, 8):
                    rotate(yr + t + k * near, yi + t + k * near, roots + 2 * k * step * p)


@outlined
def three(
    xr: ptr[T], xi: ptr[T], pace: i64, yr: ptr[T], yi: ptr[T], pitch: i64, m: i64, span: i64,
    roots: ptr[T], step: i64,
):  # fmt: skip
    """Compute butterflies of radix 3."""
    far = m * span * pace
    near = span * pitch
    half = splat(T(0.5))
    sine = splat(T(0.8660254037844386))
    for p in range(m):
        for q in range(span):
            s = (p * span + q) * pace
            t = (3 * p * span + q) * pitch
            ar = load_wide(xr + s)
            ai = load_wide(xi + s)
            br = load_wide(xr + s + far)
            bi = load_wide(xi + s + far)
            cr = load_wide(xr + s + 2 * far)
            ci = load_wide(xi + s + 2 * far)
            pr = br + cr
            pi = bi + ci
            er = ar - half * pr
            ei = ai - half * pi
            dr = sine * (bi - ci)
            di = sine * (cr - br)
            store_wide(yr + t, ar + pr)
            store_wide(yi + t, ai + pi)
            store_wide(yr + t + near, er + dr)
            store_wide(yi + t + near, ei + di)
            store_wide(yr + t + 2 * near, er - dr)
            store_wide(yi + t + 2 * near, ei - di)
            if p > 0:
                for k in range(1, 3):
                    rotate(yr + t + k * near, yi + t + k * near, roots + 2 * k * step * p)


@outlined
def five(
    xr: ptr[T], xi: ptr[T], pace: i64, yr: ptr[T], yi: ptr[T], pitch: i64, m: i64, span: i64,
    roots: ptr[T], step: i64,
):  # fmt: skip
    """Compute butterflies of radix 5."""
    far = m * span * pace
    near = span * pitch
    c1 = splat(T(0.30901699437494745))
    c2 = splat(T(-0.8090169943749475))
    s1 = splat(T(0.9510565162951535))
    s2 = splat(T(0.5877852522924731))
    for p in range(m):
        for q in range(span):
            s = (p * span + q) * pace
            t = (5 * p * span + q) * pitch
            ar = load_wide(xr + s)
            ai = load_wide(xi + s)
            br = load_wide(xr + s + far)
            bi = load_wide(xi + s + far)
            cr = load_wide(xr + s + 2 * far)
            ci = load_wide(xi + s + 2 * far)
            dr = load_wide(xr + s + 3 * far)
            di = load_wide(xi + s + 3 * far)
            er = load_wide(xr + s + 4 * far)
            ei = load_wide(xi + s + 4 * far)
            # The first has the root conjugate to that of the last, the second to the third's.
            pr = br + er
            pi = bi + ei
            mr = br - er
            mi = bi - ei
            qr = cr + dr
            qi = ci + di
            nr = cr - dr
            ni = ci - di
            # Cosines weigh the sums, sines the differences, which a factor i exchanges.
            gr = ar + c1 * pr + c2 * qr
            gi = ai + c1 * pi + c2 * qi
            hr = s1 * mi + s2 * ni
            hi = s1 * mr + s2 * nr
            ur = ar + c2 * pr + c1 * qr
            ui = ai + c2 * pi + c1 * qi
            vr = s2 * mi - s1 * ni
            vi = s2 * mr - s1 * nr
            store_wide(yr + t, ar + pr + qr)
            store_wide(yi + t, ai + pi + qi)
            store_wide(yr + t + near, gr + hr)
            store_wide(yi + t + near, gi - hi)
            store_wide(yr + t + 4 * near, gr - hr)
            store_wide(yi + t + 4 * near, gi + hi)
            store_wide(yr + t + 2 * near, ur + vr)
            store_wide(yi + t + 2 * near, ui - vi)
            store_wide(yr + t + 3 * near, ur - vr)
            store_wide(yi + t + 3 * near, ui + vi)
            if p > 0:
                for k in range(1, 5):
                    rotate(yr + t + k * near, yi + t + k * near, roots + 2 * k * step * p)

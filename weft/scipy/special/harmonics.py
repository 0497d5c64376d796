# Tests: tests/scipy/test_special.py
"""Bessel functions and spherical harmonics."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.numpy.common import is_concrete, static_int
from weft.ops.bessel import bessel_i0_p, bessel_i1_p
from weft.scipy.special.factorials import _unary, as_float, gammaln

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

i0e = _unary("i0e", lax.bessel_i0e, "exp(-|x|) I0(x), of the modified Bessel function I0.")
i1e = _unary("i1e", lax.bessel_i1e, "exp(-|x|) I1(x), of the modified Bessel function I1.")


def i0(x: ArrayLike) -> Any:
    """Return the modified Bessel function I0.

    Source: scipy.special.i0.

    >>> from weft.scipy import special
    >>> round(float(special.i0(0.5)), 4)
    1.0635
    """
    return bessel_i0_p.bind(as_float(x))


def i1(x: ArrayLike) -> Any:
    """Return the modified Bessel function I1.

    Source: scipy.special.i1.

    >>> from weft.scipy import special
    >>> round(float(special.i1(0.5)), 4)
    0.2579
    """
    return bessel_i1_p.bind(as_float(x))


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Return the Bessel functions J0(z) … Jv(z) of real z, along a new first axis.

    n_iter: the order at which the recurrence begins, above v and |z|: 50 serves |z| up to 25.
    Source: Miller's backward recurrence; Gautschi, Computational aspects of three-term recurrence
    relations, SIAM Review 9, 1967.

    >>> from weft.scipy import special
    >>> [round(float(y), 3) for y in special.bessel_jn(1.0, v=2)]
    [0.765, 0.44, 0.115]
    """
    v, n_iter = static_int(v, "bessel_jn: v"), static_int(n_iter, "bessel_jn: n_iter")
    if not 0 <= v < n_iter:
        raise ArgumentError(f"bessel_jn: v must be from 0 to n_iter - 1 = {n_iter - 1}, got {v}")
    z = as_float(z)

    def step(carry: tuple, k: Array) -> tuple:
        # ratio = J_k / J_{k-1}; inner = (the sum of J_j over j >= k, j even) / J_k.
        ratio, inner = carry
        smaller = z / (2 * k - z * ratio)
        inner = wnp.where(k % 2 == 0, 1.0, 0.0) + ratio * inner
        return (smaller, inner), smaller

    orders = wnp.arange(n_iter, 0, -1).astype(z.dtype)
    start = (wnp.zeros_like(z), wnp.zeros_like(z))
    ratios: Any
    (last, inner), ratios = lax.scan(step, start, orders)
    # 1 = J0 + 2 (J2 + J4 + …)
    first = 1 / (1 + 2 * last * inner)
    powers = wnp.concatenate([wnp.ones_like(z)[None], ratios[::-1][:v]])
    return first * wnp.cumprod(powers, axis=0)


def sph_harm_y(
    n: Any,
    m: Any,
    theta: Any,
    phi: Any,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Any:
    """Return the spherical harmonic of degree n and order m at polar angle theta and azimuth phi.

    n, m: integer arrays, broadcast against the angles. diff_n: must be None. n_max: an upper bound
    of n, needed where n is traced. The result is complex, with the Condon-Shortley phase.

    Source: the normalized recurrence of Holmes and Featherstone, J. Geodesy 76, 2002.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import special
    >>> round(float(special.sph_harm_y(wnp.array(1), wnp.array(0), 0.5, 0.0).real), 4)
    0.4288
    """
    if diff_n is not None:
        raise NotImplementedError(
            "sph_harm_y: diff_n must be None; differentiate with weft.jvp or weft.jacfwd"
        )
    if n_max is None:
        if not is_concrete(n):
            raise ArgumentError("sph_harm_y: give n_max, the largest degree, where n is traced")
        n_max = int(np.max(np.asarray(n), initial=0))
    n_max = static_int(n_max, "sph_harm_y: n_max")
    theta, phi = as_float(theta), as_float(phi)
    order = wnp.abs(wnp.asarray(m)).astype(theta.dtype)
    degree = wnp.asarray(n).astype(theta.dtype)
    degree, order, theta, phi, m = wnp.broadcast_arrays(degree, order, theta, phi, m)
    cos, sin = wnp.cos(theta), wnp.sin(theta)
    log_scale = (wnp.log(2 * order + 1) + gammaln(2 * order + 1)) / 2 - gammaln(order + 1)
    log_scale -= order * wnp.log(2.0) + wnp.log(4 * pi) / 2
    sectoral = (1 - 2 * (order % 2)) * wnp.exp(log_scale) * sin ** order.astype(int)

    def step(carry: tuple, l: Array) -> tuple:
        before, last, value = carry
        # Where l is not above the order, the square roots stand for nothing.
        above = l > order
        top, below = wnp.where(above, l, order + 1), wnp.where(above, l - 1, order)
        gap, old_gap = top**2 - order**2, below**2 - order**2
        a = wnp.sqrt((4 * top**2 - 1) / gap)
        b = wnp.sqrt(old_gap / (4 * below**2 - 1 + (below == 0.5)))
        new = wnp.where(above, a * (cos * last - b * before), wnp.where(l == order, sectoral, 0))
        return (last, new, wnp.where(l == degree, new, value)), None

    zero = wnp.zeros_like(cos * order)
    degrees = wnp.arange(n_max + 1).astype(theta.dtype)
    legendre = lax.scan(step, (zero, zero, zero), degrees)[0][2]
    value = legendre * wnp.exp(1j * order * phi)
    mirrored = (1 - 2 * (order % 2)) * wnp.conj(value)
    return wnp.where(m < 0, mirrored, value)

# Tests: tests/numpy/test_functions.py
"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import builtins
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.zeros import optimization_barrier
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.lax import scan
from weft.numpy.common import cast, check_array, concrete, fill, static_int, to_array
from weft.numpy.convolutions import convolve
from weft.numpy.creation import arange
from weft.numpy.decompositions import eigvals, inv
from weft.numpy.eager import as_one_program
from weft.numpy.filled import ones, zeros
from weft.numpy.joining import concatenate, stack
from weft.numpy.linalg import lstsq
from weft.numpy.linear import dot, outer
from weft.numpy.matrices import diag, vander
from weft.numpy.scans import argmax
from weft.numpy.selection import where
from weft.numpy.shaping import atleast_1d, broadcast_to, roll
from weft.numpy.sorting import argsort
from weft.numpy.ufuncs import add, multiply, negative, subtract, true_divide
from weft.ops import joining
from weft.ops.promote import promote, promote_inexact

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _vector(name: str, p: ArrayLike) -> Any:
    check_array(name, p)
    p = atleast_1d(p)
    if typeof(p).ndim != 1:
        raise ArgumentError(
            f"weft.numpy.{name}: coefficients are a vector, got {typeof(p).str_short()}"
        )
    return p


def polyval(p: Any, x: ArrayLike, *, unroll: int = 16) -> Any:
    """Return the polynomial's value at x, by Horner's rule. Source: numpy.polyval.

    >>> import weft
    >>> weft.numpy.polyval(weft.numpy.array([1.0, 0.0, 2.0]), 3.0)
    Array(11., dtype=float32)
    """
    check_array("polyval", p, x)
    p, x = (to_array(v) for v in promote(p, x))
    if not typeof(p).ndim:
        raise ArgumentError(
            f"weft.numpy.polyval: p must be a vector of coefficients, got {typeof(p).str_short()}"
        )
    n = typeof(p).shape[0]
    shape = ops.broadcast_shapes(typeof(p).shape[1:], typeof(x).shape)

    y = fill(shape, 0, typeof(p).dtype)
    if n <= unroll:
        for i in range(n):
            y = u.add(u.multiply(y, x), p[i])
        return y

    return scan(lambda y, c: (u.add(u.multiply(y, x), c), None), y, p, unroll=unroll)[0]


def _aligned(name: str, a1: Array, a2: ArrayLike) -> tuple[Any, Any]:
    """Pad coefficients in front to one length; those of several polynomials are columns."""
    check_array(name, a1, a2)
    a1, a2 = promote(atleast_1d(a1), atleast_1d(a2))
    n, m = typeof(a1).shape[0], typeof(a2).shape[0]

    def front(p: Array, missing: int) -> Any:
        if missing <= 0:
            return p
        others = ((0, 0, 0),) * (typeof(p).ndim - 1)
        widths = ((missing, 0, 0), *others)
        return joining.pad_p.bind(p, typeof(p).dtype.type(0), padding_config=widths)

    return front(a1, m - n), front(a2, n - m)


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return the sum of polynomials.

    >>> import weft.numpy as wnp
    >>> wnp.polyadd(wnp.array([1, 2, 3]), wnp.array([10, 0]))
    Array([ 1, 12,  3], dtype=int32)
    """
    return add(*_aligned("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return the difference of polynomials.

    >>> import weft.numpy as wnp
    >>> wnp.polysub(wnp.array([1, 2, 3]), wnp.array([10, 0]))
    Array([ 1, -8,  3], dtype=int32)
    """
    return subtract(*_aligned("polysub", a1, a2))


def _without_leading_zeros(p: Array, name: str) -> Any:
    coefficients = concrete(p, f"{name}: coefficients (with trim_leading_zeros)")
    nonzero = np.flatnonzero(coefficients)
    return p[int(nonzero[0]) if nonzero.size else coefficients.size - 1 :]


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: builtins.bool = False) -> Any:
    """Return the product of polynomials.

    >>> import weft.numpy as wnp
    >>> wnp.polymul(wnp.array([1, 1]), wnp.array([1, -1]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    a1, a2 = promote_inexact(_vector("polymul", a1), _vector("polymul", a2))
    a1, a2 = to_array(a1), to_array(a2)
    if trim_leading_zeros:
        a1, a2 = (_without_leading_zeros(p, "polymul") for p in (a1, a2))
    if typeof(a1).shape[0] == 0:
        a1 = cast(np.zeros(1), typeof(a2).dtype)
    if typeof(a2).shape[0] == 0:
        a2 = cast(np.zeros(1), typeof(a1).dtype)
    return convolve(a1, a2)


def _zero(dtype: np.dtype) -> Any:
    return zeros(1, dtype)


def polydiv(
    u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: builtins.bool = False
) -> tuple[Any, Any]:
    """Quotient and remainder of polynomials. Source: numpy.polydiv.

    >>> import weft.numpy as wnp
    >>> wnp.polydiv(wnp.array([1.0, 3.0, 5.0]), wnp.array([1.0, 1.0]))
    (Array([1., 2.], dtype=float32), Array([0., 0., 3.], dtype=float32))
    """
    a, b = (to_array(p) for p in promote_inexact(_vector("polydiv", u), _vector("polydiv", v)))
    n, m = typeof(a).shape[0], typeof(b).shape[0]
    if n < m:
        return _zero(typeof(a).dtype), a
    quotient = []
    for k in range(n - m + 1):
        q = true_divide(a[k], b[0])
        quotient.append(q)
        a = a.at[k : k + m].add(negative(multiply(q, b)))
    if trim_leading_zeros:
        a = _without_leading_zeros(a, "polydiv")
    return stack(quotient), a


def polyder(p: ArrayLike, m: int = 1) -> Any:
    """Return the m-th derivative of a polynomial.

    >>> import weft.numpy as wnp
    >>> wnp.polyder(wnp.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    check_array("polyder", p)
    p = atleast_1d(p)  # of several polynomials the coefficients are columns
    m = operator.index(m)
    if m < 0:
        raise ArgumentError(f"weft.numpy.polyder: m must not be negative, got {m}")
    return as_one_program(_polyder, p, m=m) if m else p


def _polyder(p: Array, *, m: int) -> Any:
    (p,) = promote_inexact(p)
    n = typeof(p).shape[0]
    if n <= m:
        return p[:0]
    factors = np.ones(n - m)
    for k in range(m):
        factors *= np.arange(n - 1 - k, m - 1 - k, -1)
    factors = factors.reshape(-1, *(1,) * (typeof(p).ndim - 1))
    return u.multiply(p[: n - m], factors.astype(typeof(p).dtype))


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Any:
    """Return the m-th antiderivative of a polynomial, with constants of integration k.

    >>> import weft.numpy as wnp
    >>> wnp.polyint(wnp.array([3.0, 2.0]), k=7)
    Array([1.5, 2. , 7. ], dtype=float32)
    """
    p = _vector("polyint", p)
    m = operator.index(m)
    if m < 0:
        raise ArgumentError(f"weft.numpy.polyint: m must not be negative, got {m}")
    if k is None:
        (p,) = promote_inexact(p)
        constants: Any = np.zeros(1, typeof(p).dtype)
    else:
        check_array("polyint", k)
        p, constants = promote_inexact(p, k)
    if typeof(constants).shape not in ((), (1,), (m,)):
        raise ArgumentError(
            f"weft.numpy.polyint: k must be a number or a vector of 1 or m = {m} numbers, got "
            f"{typeof(constants).str_short()}"
        )
    constants = broadcast_to(constants, (max(m, 1),))
    p = to_array(p)
    for i in range(m):
        n = typeof(p).shape[0]
        divisors = np.arange(n, 0, -1).astype(typeof(p).dtype)
        # XLA multiplies by the reciprocals of constants that it sees, which rounds twice.
        quotients = u.true_divide(p, optimization_barrier(divisors))
        p = concatenate([quotients, constants[i : i + 1]])
    return p


def poly(seq_of_zeros: Any) -> Any:
    """Return the coefficients of the polynomial with the given roots, or of a matrix's eigenvalues.

    >>> import weft.numpy as wnp
    >>> wnp.poly(wnp.array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    check_array("poly", seq_of_zeros)
    (roots_,) = promote_inexact(seq_of_zeros)
    aval = typeof(roots_)
    if aval.ndim == 2 and aval.shape[0] == aval.shape[1] and aval.size:
        roots_ = eigvals(roots_)
    elif aval.ndim > 1:
        raise ArgumentError(
            f"weft.numpy.poly: takes roots as a vector or a square matrix, got {aval.str_short()}"
        )
    roots_ = atleast_1d(roots_)
    dtype = typeof(roots_).dtype
    out = fill((1,), 1, dtype)
    one = dtype.type(1)
    for i in range(typeof(roots_).shape[0]):
        out = convolve(out, stack([to_array(one), u.negative(roots_[i])]))
    return out


def roots(p: Any, *, strip_zeros: builtins.bool = True) -> Any:
    """Return the roots of a polynomial: the eigenvalues of its companion matrix.

    strip_zeros: leading and trailing zeros are taken off, for which p must be known while
    tracing; with False they stay, and for each leading zero the result ends in a NaN.
    Source: numpy.roots.

    >>> import weft.numpy as wnp
    >>> wnp.roots(wnp.array([1.0, 0.0, -4.0])).round(2)
    Array([-2.+0.j,  2.+0.j], dtype=complex64)
    """
    (p,) = promote_inexact(_vector("roots", p))
    p = to_array(p)
    dtype = typeof(p).dtype
    out_dtype = dtype
    if not dtypes.is_complex(dtype):
        out_dtype = dtypes.complex128 if dtype == dtypes.float64 else dtypes.complex64
    if not strip_zeros:
        return _roots_of_padded(p, out_dtype)
    nonzero_places = np.flatnonzero(concrete(p, "roots: p (with strip_zeros=True)"))
    if nonzero_places.size == 0:
        return zeros((0,), out_dtype)
    trailing = typeof(p).shape[0] - 1 - int(nonzero_places[-1])
    p = p[int(nonzero_places[0]) : int(nonzero_places[-1]) + 1]
    if typeof(p).shape[0] < 2:
        values = zeros((0,), out_dtype)
    else:
        values = cast(eigvals(as_one_program(_companion, p)), out_dtype)
    return concatenate([values, zeros((trailing,), out_dtype)]) if trailing else values


def _companion(p: Array) -> Any:
    """Return the matrix whose characteristic polynomial has the coefficients p, p[0] not 0."""
    aval = typeof(p)
    n = aval.shape[0] - 1
    below = diag(ones((n - 1,), aval.dtype), -1) if n > 1 else fill((1, 1), 0, aval.dtype)
    return below.at[0, :].set(u.negative(u.true_divide(p[1:], p[0])))


def _roots_of_padded(p: Array, out_dtype: np.dtype) -> Any:
    """Return the roots of a polynomial that may have leading zeros, as many NaNs at the end."""
    n = typeof(p).shape[0] - 1
    if n < 1:
        return zeros((0,), out_dtype)
    nonzero = u.not_equal(p, 0)
    empty = u.logical_not(nonzero.any())
    leading = where(empty, n + 1, argmax(nonzero))
    # The leading zeros go to the end, which makes them roots at zero; those sort to the end too.
    shifted = where(empty, u.equal(arange(n + 1), 0), roll(p, u.negative(leading)))
    values = cast(eigvals(_companion(cast(shifted, typeof(p).dtype))), out_dtype)
    values = values[argsort(u.equal(values, 0))]
    return where(u.less(arange(n), n - leading), values, np.array(np.nan * (1 + 1j), out_dtype))


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: object = None,
    full: builtins.bool = False,
    w: Any = None,
    cov: object = False,
) -> Any:
    """Return the polynomial of a degree that fits points best by least squares.

    full: also residuals, rank, singular values and rcond. w: weights of the points. cov: also the
    covariance of the coefficients ('unscaled' without scaling by the residuals).
    Source: numpy.polyfit.

    >>> import weft.numpy as wnp
    >>> wnp.polyfit(wnp.array([0.0, 1.0, 2.0]), wnp.array([1.0, 3.0, 5.0]), 1).round(4)
    Array([2., 1.], dtype=float32)
    """
    from weft.numpy.reductions import sum

    deg = static_int(deg, "polyfit: deg")
    if deg < 0:
        raise ArgumentError(f"weft.numpy.polyfit: deg must not be negative, got {deg}")
    x, y = (to_array(v) for v in promote_inexact(_vector("polyfit", x), y))
    n = typeof(x).shape[0]
    if n == 0:
        raise ArgumentError("weft.numpy.polyfit: x is empty; a fit needs at least one point")
    if typeof(y).ndim not in (1, 2) or typeof(y).shape[0] != n:
        raise ArgumentError(
            f"weft.numpy.polyfit: y must be a vector or matrix of {n} rows, got "
            f"{typeof(y).str_short()}"
        )
    if rcond is None:
        rcond = n * float(dtypes.finfo(typeof(x).dtype).eps)
    left, right = vander(x, deg + 1), y
    if w is not None:
        (w,) = promote_inexact(w)
        w = to_array(w)
        if typeof(w).shape != (n,):
            raise ArgumentError(
                f"weft.numpy.polyfit: w must be a vector of {n}, got {typeof(w).shape}"
            )
        left = u.multiply(left, w[:, None])
        right = u.multiply(right, w[:, None] if typeof(y).ndim == 2 else w)
    # Columns of length 1: powers of x differ by orders of magnitude.
    scale = u.sqrt(sum(u.multiply(left, left), axis=0))
    left = u.true_divide(left, scale[None])
    c, residuals, rank, s = lstsq(left, right, rcond)
    column = scale[:, None] if typeof(c).ndim == 2 else scale
    c = u.true_divide(c, column)
    if full:
        return c, residuals, rank, s, rcond
    # The covariance of least squares: that of the residuals times the inverse of the normal matrix.
    if cov:
        base = u.true_divide(inv(dot(left.T, left)), outer(scale, scale))
        if isinstance(cov, str) and cov == "unscaled":
            factor: Any = 1
        else:
            if n <= deg + 1:
                raise ArgumentError(
                    f"weft.numpy.polyfit: {n} points are too few for the covariance of degree {deg}"
                )
            factor = u.true_divide(residuals, n - (deg + 1))
        if typeof(y).ndim == 1:
            return c, u.multiply(base, factor)
        return c, u.multiply(base[:, :, None], factor)
    return c

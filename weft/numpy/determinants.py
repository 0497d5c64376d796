# Tests: tests/ops/test_linalg.py, tests/numpy/test_pseudo_inverse.py
"""Determinants, and their signs and logarithms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft.numpy.division as division
import weft.numpy.ufuncs as u
from weft import custom_jvp
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import cast
from weft.numpy.creation import arange
from weft.numpy.decompositions import as_matrices, lax_linalg, solve
from weft.numpy.reductions import prod, sum
from weft.numpy.scans import trace
from weft.numpy.selection import diagonal, where

if TYPE_CHECKING:
    from weft.typing import Array, ArrayLike


class SlogdetResult(NamedTuple):
    sign: Array
    logabsdet: Array


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Return the sign and the logarithm of the magnitude of the determinant.

    method: 'lu' or 'qr'. Source: numpy.linalg.slogdet.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.slogdet(-1e-20 * wnp.eye(3)).sign
    Array(-1., dtype=float32)
    """
    if method not in (None, "lu", "qr"):
        raise ArgumentError(
            f"weft.numpy.linalg.slogdet: method must be None, 'lu' or 'qr', got {method!r}"
        )
    a = as_matrices("slogdet", a, True)
    if method == "qr":
        return SlogdetResult(*_slogdet_by_qr()(a))
    return SlogdetResult(*_slogdet_of(a, *_lu_diagonal(a)))


@cache
def _slogdet_by_qr() -> Callable:
    """slogdet through reflections, which have no derivative: the one of log det stands for them."""

    @custom_jvp
    def run(a: ArrayLike) -> tuple:
        return _slogdet_of(a, *_qr_determinant(a))

    @run.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        sign, log = run(*primals)
        change = trace(solve(*primals, *tangents), 0, -2, -1)
        if dtypes.is_complex(typeof(sign).dtype):
            turn = u.multiply(sign, u.multiply(cast(1j, typeof(sign).dtype), u.imag(change)))
            return (sign, log), (turn, u.real(change))
        return (sign, log), (u.multiply(sign, 0), change)

    return run


def _slogdet_of(a: object, sign: object, d: ArrayLike) -> tuple[Any, Any]:
    """From the sign of the factors and the diagonal of the triangular one."""
    magnitude = u.absolute(d)
    singular = u.equal(magnitude, 0)
    if dtypes.is_complex(typeof(a).dtype):
        unit = u.true_divide(d, cast(where(singular, 1, magnitude), typeof(d).dtype))
    else:
        unit = u.sign(d)
    sign = u.multiply(sign, prod(where(singular, cast(0, typeof(d).dtype), unit), axis=-1))
    return sign, sum(u.log(magnitude), axis=-1)


def _lu_diagonal(a: object) -> tuple[Any, Any]:
    """Return the sign of the row exchanges, and the diagonal of U."""
    factors, pivots, _ = lax_linalg().lu(a)
    n = typeof(a).shape[-1]
    moved = sum(u.not_equal(pivots, arange(n, dtype=typeof(pivots).dtype)), axis=-1)
    parity = cast(u.subtract(1, u.multiply(2, division.remainder(moved, 2))), typeof(a).dtype)
    return parity, diagonal(factors, 0, -2, -1)


def _qr_determinant(a: ArrayLike) -> tuple[Any, Any]:
    """Multiply the signs of Householder reflections, or their phases for complex matrices."""
    packed, taus = lax_linalg().geqrf(a)
    n = typeof(a).shape[-1]
    vectors = where(np.tri(n, n, -1, dtype=bool), packed, cast(0, typeof(a).dtype))
    size = u.add(1, sum(u.real(u.multiply(vectors, u.conjugate(vectors))), axis=-2))
    phase = u.subtract(1, u.multiply(taus, cast(size, typeof(a).dtype)))
    return prod(phase, axis=-1), diagonal(packed, 0, -2, -1)


def det(a: Any) -> Any:
    """Return the determinant of square matrices. Source: numpy.linalg.det.

    >>> import weft
    >>> weft.numpy.linalg.det(weft.numpy.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    a = as_matrices("det", a, True)
    n = typeof(a).shape[-1]
    if n == 0:
        return sum(a, axis=(-2, -1)) + 1
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        (p, q, r), (s, t, v), (x, y, z) = ([a[..., i, j] for j in range(3)] for i in range(3))
        return p * (t * z - v * y) + q * (v * x - s * z) + r * (s * y - t * x)
    sign, d = _lu_diagonal(a)
    return u.multiply(sign, prod(d, axis=-1))

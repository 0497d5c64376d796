# Tests: tests/ops/test_linalg.py
"""Polar decomposition, by dynamically weighted Halley iterations."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.trace import typeof
from weft.ops.arithmetic import select
from weft.ops.control.loops import while_loop
from weft.ops.dynamic_slicing import dynamic_index_in_dim
from weft.ops.elementwise_api import abs as magnitude
from weft.ops.elementwise_api import (
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    clamp,
    eq,
    gt,
    lt,
    mul,
    real_dtype,
    rsqrt,
    sqrt,
    sub,
)
from weft.ops.joining import concatenate
from weft.ops.linalg.cholesky import symmetrize
from weft.ops.linalg.lapack import check_matrix
from weft.ops.linalg.matrix import adjoint, as_dtype, eye, matmul
from weft.ops.linalg.qr import qr
from weft.ops.reduce import reduce_max, reduce_sum
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.typing import ArrayLike

MOST_STEPS = 10  # six are enough in double precision for a condition number of 1e16


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Polar decomposition x = u h of full-rank x (m, n), m >= n: orthonormal u, Hermitian h.

    Returns (u, h, number of iterations, whether they converged).

    Args:
      is_hermitian: of x; changes nothing.
      max_iterations: how many iterations there are at most, 10 if not given.
      eps: iterations end when one changes u by less than (5 eps)^(1/3), in the Frobenius norm;
        the precision of the dtype if not given. It also bounds the inverse condition number that
        the first iterations are made for.
      dynamic_shape: None or x's shape.

    Raises:
      ValueError: x is no single matrix with m >= n, max_iterations is negative, or eps lies
        outside of (0, 1).

    Source: Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix
    polar decomposition" (2010).

    >>> from weft import lax, numpy as wnp
    >>> u, h, steps, converged = lax.linalg.qdwh(wnp.array([[0.0, 2.0], [-3.0, 0.0]]))
    >>> wnp.allclose(u @ h, wnp.array([[0.0, 2.0], [-3.0, 0.0]]), atol=1e-4)
    Array(True, dtype=bool)
    """
    aval = typeof(x)
    check_matrix("qdwh", aval)
    if aval.ndim != 2 or aval.shape[0] < aval.shape[1]:
        raise ValueError(f"qdwh: takes one matrix with m >= n, got {aval.str_short()}")
    if dynamic_shape is not None and tuple(dynamic_shape) != aval.shape:
        raise ValueError("qdwh: dynamic_shape must be None or x's shape; slice x instead")
    most = MOST_STEPS if max_iterations is None else operator.index(max_iterations)
    if most < 0:
        raise ValueError(f"qdwh: max_iterations must not be negative, got {max_iterations}")
    real = real_dtype(aval.dtype)
    eps = float(dtypes.finfo(real).eps) if eps is None else float(eps)
    if not 0 < eps < 1:
        raise ValueError(f"qdwh: eps must lie between 0 and 1, got {eps}")

    weights = _weights(eps, most)
    table = np.asarray([*weights, (3.0, 1.0, 3.0)], real)  # Halley's own, from then on
    tolerance = real.type(np.cbrt(5 * eps))

    def unfinished(state: tuple) -> Any:
        k, _, moving = state
        early = lt(k, np.int32(len(weights)))
        return bitwise_and(lt(k, np.int32(most)), bitwise_or(early, moving))

    def step(state: tuple) -> tuple:
        k, u, _ = state
        row = clamp(np.int32(0), k, np.int32(len(weights)))
        a, b, c = (
            dynamic_index_in_dim(table[:, i].copy(), row, 0, keepdims=False) for i in range(3)
        )
        new = _halley(u, a, b / c, sqrt(c))
        moved = sqrt(reduce_sum(magnitude(sub(new, u)) ** 2, (0, 1)))
        # Far from Halley's weights, a small change says nothing.
        moving = bitwise_or(gt(moved, tolerance), gt(c, real.type(100)))
        return add(k, np.int32(1)), new, moving

    start = (np.int32(0), mul(x, as_dtype(_inverse_scale(x), x)), np.bool_(True))
    steps, u, moving = while_loop(unfinished, step, start)
    # One Newton-Schulz step restores what rounding took from orthogonality.
    gram = matmul(adjoint(u), u)
    u = matmul(u, sub(mul(eye(u, aval.shape[1]), _scalar(1.5, u)), mul(gram, _scalar(0.5, u))))
    return u, symmetrize(matmul(adjoint(u), x)), steps, bitwise_not(moving)


def _halley(u: Any, a: object, e: Any, root: Any) -> Any:
    """Iterate once with weights a, b and c, given as a, e = b / c and the root of c.

    e u + (a - e) u (1 + c u^H u)^-1, the inverse taken by a QR decomposition.
    """
    m, n = typeof(u).shape
    q = qr(concatenate((mul(u, as_dtype(root, u)), eye(u, n)), 0), full_matrices=False)[0]
    upper, lower = slice_in_dim(q, 0, m, axis=0), slice_in_dim(q, m, m + n, axis=0)
    inverse = mul(matmul(upper, adjoint(lower)), as_dtype((a - e) / root, u))
    return add(mul(u, as_dtype(e, u)), inverse)


def _inverse_scale(x: ArrayLike) -> Any:
    """Return one over a bound of the 2-norm: the root of the 1-norm times the maximum norm."""
    sizes = magnitude(x)
    one, most = (reduce_max(reduce_sum(sizes, (i,)), (0,)) for i in (0, 1))
    scale = mul(rsqrt(one), rsqrt(most))
    unit = typeof(scale).dtype.type(1)
    return select(eq(one, typeof(one).dtype.type(0)), unit, scale)


def _scalar(value: float, like: object) -> Any:
    return typeof(like).dtype.type(value)


@lru_cache(maxsize=64)
def _weights(least: float, most: int) -> list[tuple[float, float, float]]:
    """Return the weights (a, b, c) that bring singular values between `least` and 1 to 1."""
    weights: list[tuple[float, float, float]] = []
    low = least
    while low + 5 * least < 1 and len(weights) < most:
        square = low * low
        d = np.cbrt(4 * (1 / square - 1) / square)
        root = np.sqrt(1 + d)
        a = float(root + np.sqrt(2 - d + 2 * (2 - square) / (square * root)))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        low *= (a + b * square) / (1 + c * square)
        weights.append((a, b, c))
    return weights

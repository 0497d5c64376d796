# Tests: tests/ops/test_linalg.py
"""QR decomposition and products of Householder reflectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_in_front
from weft.autodiff.shape import broadcast_in_dim, broadcasted_iota
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ShapeError, UnsupportedArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.elementwise_api import add, sub
from weft.ops.joining import concatenate, pad
from weft.ops.linalg import tpu
from weft.ops.linalg.cholesky import on_matrices
from weft.ops.linalg.lapack import check_matrix, lapack
from weft.ops.linalg.matrix import (
    adjoint,
    as_dtype,
    diagonal,
    eye,
    matmul,
    of_diagonal,
    real_part,
    tril,
    triu,
)
from weft.ops.linalg.triangular import triangular_solve
from weft.ops.slicing import slice_in_dim
from weft.ops.sort import take_along

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Reflectors ------------------------------------------------------------------------------------


def _complex_name(dtype: np.dtype, real: str, complex_: str) -> str:
    return complex_ if dtypes.is_complex(dtype) else real


def _geqrf_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("geqrf", x)
    *batch, m, n = x.shape
    return [ShapedArray(x.shape, x.dtype), ShapedArray((*batch, min(m, n)), x.dtype)]


def _geqrf_lower(ctx: RuleContext, x: object) -> list:
    if tpu.on_tpu(ctx):
        return tpu.call(ctx, "Qr", [x])

    def run(x: object) -> list:
        aval = typeof(x)
        m, n = aval.shape[-2:]
        results = [((m, n), aval.dtype), ((min(m, n),), aval.dtype)]
        return lapack("geqrf", [x], aval.ndim - 2, results, [(0, 0)])

    return ctx.lower_fun(run, x)


geqrf_p = Primitive(
    "geqrf",
    abstract=_geqrf_abstract,
    batch=on_matrices(lambda: geqrf_p),
    lower=_geqrf_lower,
    sharding="matrices",
    multiple_results=True,
)
"""R in the upper triangle, reflectors below it, and their factors (LAPACK's geqrf)."""


def geqrf(a: ArrayLike) -> tuple[Any, Any]:
    """R and the Householder reflectors of a QR decomposition in one matrix, and their factors.

    >>> from weft import lax, numpy as wnp
    >>> packed, taus = lax.linalg.geqrf(wnp.ones((4, 2)))
    >>> packed.shape, taus.shape
    ((4, 2), (2,))
    """
    return tuple(geqrf_p.bind(a))  # type: ignore[return-value]


def _geqp3_abstract(x: ShapedArray, pivots: ShapedArray) -> list[ShapedArray]:
    return [_geqrf_abstract(x)[0], ShapedArray(pivots.shape, pivots.dtype), _geqrf_abstract(x)[1]]


def _geqp3_lower(ctx: RuleContext, x: object, pivots: object) -> list:
    def run(x: object, pivots: object) -> list:
        aval = typeof(x)
        m, n = aval.shape[-2:]
        results = [((m, n), aval.dtype), ((n,), dtypes.int32), ((min(m, n),), aval.dtype)]
        return lapack("geqp3", [x, pivots], aval.ndim - 2, results, [(0, 0), (1, 1)])

    return ctx.lower_fun(run, x, pivots)


geqp3_p = Primitive(
    "geqp3",
    abstract=_geqp3_abstract,
    batch=batch_in_front(lambda: geqp3_p),
    lower=_geqp3_lower,
    sharding="matrices",
    multiple_results=True,
)


def _product_abstract(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    check_matrix("householder_product", a)
    *batch, m, n = a.shape
    if m < n:
        raise ValueError(
            "householder_product: a must have at least as many rows as columns, got "
            f"{a.str_short()}"
        )
    if a.dtype != taus.dtype or taus.shape[:-1] != tuple(batch) or taus.shape[-1] > n:
        raise ShapeError(
            f"householder_product: taus {taus.str_short()} must have the dtype and batch "
            f"dimensions of a {a.str_short()}, and at most {n} entries"
        )
    return ShapedArray(a.shape, a.dtype)


def _product_lower(ctx: RuleContext, a: object, taus: object) -> Any:
    def run(a: object, taus: object) -> Any:
        aval = typeof(a)
        name = _complex_name(aval.dtype, "orgqr", "ungqr")
        result = [(aval.shape[-2:], aval.dtype)]
        return lapack(name, [a, taus], aval.ndim - 2, result, [(0, 0)])[0]

    if ctx.avals_in[0].size == 0:
        return a
    if tpu.on_tpu(ctx):
        return tpu.call(ctx, "ProductOfElementaryHouseholderReflectors", [a, taus])[0]
    return ctx.lower_fun(run, a, taus)[0]


householder_product_p = Primitive(
    "householder_product",
    abstract=_product_abstract,
    batch=batch_in_front(lambda: householder_product_p),
    lower=_product_lower,
    sharding="matrices",
)


def householder_product(a: ArrayLike, taus: object) -> Any:
    """Return the first n columns of the product of Householder reflectors.

    Reflector k is 1 - taus[k] v v^H with v[k] = 1, v[k+1:] = a[k+1:, k], for a (..., m, n), m >= n.

    >>> from weft import lax, numpy as wnp
    >>> q = lax.linalg.householder_product(*lax.linalg.geqrf(wnp.eye(3, 2)))
    >>> (q.T @ q).round(4)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return householder_product_p.bind(a, taus)


def _ormqr_abstract(
    a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
) -> ShapedArray:
    check_matrix("ormqr", a)
    batch = a.shape[:-2]
    fits = a.dtype == c.dtype == taus.dtype and taus.shape[:-1] == c.shape[:-2] == batch
    fits = fits and c.ndim > 1 and c.shape[-2 if left else -1] == a.shape[-2]
    if not fits or not taus.ndim or taus.shape[-1] > min(a.shape[-2:]):
        raise ShapeError(
            f"ormqr: a {a.str_short()}, taus {taus.str_short()} and c {c.str_short()} must "
            f"have one dtype and the same batch dimensions, taus at most {min(a.shape[-2:])} "
            f"entries, and c's dimension {-2 if left else -1} must be a's number of rows"
        )
    return ShapedArray(c.shape, c.dtype)


def _ormqr_lower(
    ctx: RuleContext, a: object, taus: object, c: Any, *, left: bool, transpose: bool
) -> Any:
    def run(a: Any, taus: Any, c: object) -> Any:
        if tpu.on_tpu(ctx):
            return tpu.multiply_by_q(a, taus, c, left, transpose)
        aval = typeof(c)
        name = _complex_name(aval.dtype, "ormqr", "unmqr")
        result = [(aval.shape[-2:], aval.dtype)]
        return lapack(
            name, [a, taus, c], aval.ndim - 2, result, [(0, 2)], left=left, transpose=transpose
        )[0]

    return ctx.lower_fun(run, a, taus, c)[0]


ormqr_p = Primitive(
    "ormqr",
    abstract=_ormqr_abstract,
    batch=batch_in_front(lambda: ormqr_p),
    lower=_ormqr_lower,
    sharding="matrices",
)


def ormqr(
    a: ArrayLike, taus: object, c: object, *, left: bool = True, transpose: bool = False
) -> Any:
    """Q c (or c Q if not left), Q or its adjoint the product of the reflectors of `geqrf`.

    a: (..., m, k), taus: (..., k), c: (..., m, n) if left, else (..., n, m).

    >>> from weft import lax, numpy as wnp
    >>> packed, taus = lax.linalg.geqrf(wnp.ones((3, 3)))
    >>> lax.linalg.ormqr(packed, taus, wnp.ones((3, 1)), transpose=True).shape
    (3, 1)
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


# QR --------------------------------------------------------------------------------------------


def _qr_abstract(x: ShapedArray, *, pivoting: bool, full_matrices: bool) -> list[ShapedArray]:
    check_matrix("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    outs = [ShapedArray((*batch, m, k), x.dtype), ShapedArray((*batch, k, n), x.dtype)]
    return [*outs, ShapedArray((*batch, n), dtypes.int32)] if pivoting else outs


def _qr(x: object, pivoting: bool, full_matrices: bool) -> list:
    aval = typeof(x)
    *batch, m, n = aval.shape
    pivots = []
    if m == 0 or n == 0:
        k = m if full_matrices else 0
        q = eye(x, m) if full_matrices else broadcast_in_dim(aval.dtype.type(0), (*batch, m, 0), ())
        r = broadcast_in_dim(aval.dtype.type(0), (*batch, k, n), ())
        if pivoting:
            pivots = [broadcasted_iota(dtypes.int32, (*batch, n), len(batch))]
        return [q, r, *pivots]
    if pivoting:
        free = broadcast_in_dim(np.int32(0), (*batch, n), ())
        packed, order, taus = geqp3_p.bind(x, free)
        pivots = [sub(order, np.int32(1))]
    else:
        packed, taus = geqrf_p.bind(x)
    rank = aval.ndim
    if m < n:
        q = householder_product(slice_in_dim(packed, 0, m, axis=rank - 1), taus)
        r = packed
    elif full_matrices:
        config = [(0, 0, 0)] * (rank - 1) + [(0, m - n, 0)]
        q = householder_product(pad(packed, aval.dtype.type(0), config), taus)
        r = packed
    else:
        q = householder_product(packed, taus)
        r = slice_in_dim(packed, 0, n, axis=rank - 2)
    return [q, triu(r), *pivots]


def _qr_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, pivoting: bool, full_matrices: bool
) -> tuple:
    """With Y = dX R^-1 and W antihermitian, of the lower part of Q^H Y: dQ = Q (W - Q^H Y) + Y.

    Source: S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions",
    2018. For wide x = [x1 x2] the first columns give Q, and R2 = Q^H x2.
    """
    (x,), (t,) = primals, tangents
    outs = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices)
    q, r, *pivots = outs
    m, n = typeof(x).shape[-2:]
    if full_matrices and m > n:
        raise UnsupportedArgumentError(
            "qr has no derivative for full_matrices=True and more rows than columns: the added "
            "columns of q are not determined; use full_matrices=False"
        )
    rank = typeof(x).ndim
    if pivoting:
        shape = typeof(x).shape
        order = broadcast_in_dim(pivots[0], shape, (*range(rank - 2), rank - 1))
        t, x = take_along(t, order, rank - 1), take_along(x, order, rank - 1)
    k = min(m, n)

    def part(v: ArrayLike, start: int, stop: int) -> Any:
        return slice_in_dim(v, start, stop, axis=rank - 1)

    head = part(r, 0, k) if n > k else r
    y = triangular_solve(head, part(t, 0, k) if n > k else t)
    projected = matmul(adjoint(q), y)
    below = tril(projected, -1)
    turn = sub(below, adjoint(below))
    if dtypes.is_complex(typeof(x).dtype):
        d = diagonal(projected)
        turn = add(turn, of_diagonal(sub(d, as_dtype(real_part(d), d))))
    dq = add(matmul(q, sub(turn, projected)), y)
    dr = matmul(sub(projected, turn), head)
    if n > k:
        rest = add(matmul(adjoint(dq), part(x, k, n)), matmul(adjoint(q), part(t, k, n)))
        dr = concatenate([dr, rest], rank - 1)
    return outs, [dq, dr, *(None for _ in pivots)]


qr_p = Primitive(
    "qr",
    abstract=_qr_abstract,
    jvp=_qr_jvp,
    batch=on_matrices(lambda: qr_p),
    lower=lambda ctx, x, *, pivoting, full_matrices: ctx.lower_fun(
        lambda x: _qr(x, pivoting, full_matrices), x
    ),
    sharding="matrices",
    multiple_results=True,
)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple:
    """Return x = q r with orthonormal columns of q and upper triangular r, for x (..., m, n).

    Args:
      pivoting: x[..., p] = q r with falling diagonal of r; p int32 (..., n) is a third result.
      full_matrices: q (..., m, m) and r (..., m, n); else q (..., m, k), r (..., k, n), k the
        lesser of m and n.
      use_magma: has no effect; MAGMA is not used.

    >>> import weft
    >>> q, r = weft.lax.linalg.qr(weft.numpy.ones((3, 1)), full_matrices=False)
    >>> abs(r).round(3)
    Array([[1.732]], dtype=float32)
    """
    check_matrix("qr", typeof(x))
    return tuple(qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices)))

# Tests: tests/ops/test_linalg.py
"""Singular value decomposition, and the polar decomposition built from it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.shape import broadcast_in_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import UnsupportedArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.elementwise_api import add, div, eq, mul, real_dtype, sub
from weft.ops.linalg import tpu
from weft.ops.linalg.cholesky import on_matrices
from weft.ops.linalg.lapack import INFO, check_matrix, lapack, or_nan
from weft.ops.linalg.matrix import (
    adjoint,
    as_dtype,
    diagonal,
    eye,
    matmul,
    of_diagonal,
    real_part,
    row,
    scale_columns,
    scale_rows,
    spread,
)
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


class SvdAlgorithm(enum.Enum):
    """On CPUs gesvd for QR, else gesdd; on GPUs DEFAULT is JACOBI up to a size of 1024, then QR."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _abstract(
    x: ShapedArray, *, full_matrices: bool, compute_uv: bool, algorithm: SvdAlgorithm
) -> list[ShapedArray]:
    check_matrix("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    s = ShapedArray((*batch, k), real_dtype(x.dtype))
    if not compute_uv:
        return [s]
    u = (*batch, m, m if full_matrices else k)
    vh = (*batch, n if full_matrices else k, n)
    return [s, ShapedArray(u, x.dtype), ShapedArray(vh, x.dtype)]


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: SvdAlgorithm,
) -> tuple:
    """Derive the singular vectors' turns within and out of their span.

    Source: J. Townsend, "Differentiating the singular value decomposition", 2016.
    """
    (x,), (t,) = primals, tangents
    m, n = typeof(x).shape[-2:]
    if compute_uv and full_matrices and m != n:
        raise UnsupportedArgumentError(
            "svd has no derivative for full_matrices=True and m != n: the added singular vectors "
            "are not determined; use full_matrices=False"
        )
    outs = svd_p.bind(x, full_matrices=False, compute_uv=True, algorithm=algorithm)
    s, u, vh = outs
    v = adjoint(vh)
    turned = matmul(matmul(adjoint(u), t), v)
    ds = real_part(diagonal(turned))
    if not compute_uv:
        return [s], [ds]
    k = min(m, n)
    aval = typeof(s)
    shape = (*aval.shape, k)
    lead = tuple(range(aval.ndim - 1))
    across = broadcast_in_dim(s, shape, (*lead, aval.ndim))
    down = broadcast_in_dim(s, shape, (*lead, aval.ndim - 1))
    # The identity keeps the diagonal, whose gap is 0, from a division by zero.
    unit = eye(across, k)
    gaps = mul(add(across, down), sub(across, down))  # s_j^2 - s_i^2
    f = as_dtype(sub(div(aval.dtype.type(1), add(gaps, unit)), unit), turned)
    right, left = (
        scale_columns(turned, as_dtype(s, turned)),
        scale_rows(turned, as_dtype(s, turned)),
    )
    du = matmul(u, mul(f, add(right, adjoint(right))))
    dv = matmul(v, mul(f, add(left, adjoint(left))))
    one = aval.dtype.type(1)
    if dtypes.is_complex(typeof(x).dtype):
        # The phase that U and V share is split between them: all goes to U.
        d = diagonal(turned)
        imaginary = sub(d, as_dtype(real_part(d), d))
        inverse = as_dtype(div(one, s), d)
        du = add(du, matmul(u, of_diagonal(mul(imaginary, inverse))))
    # What is outside of the span of U turns into it.
    if m > n:
        out = matmul(t, v)
        out = sub(out, matmul(u, matmul(adjoint(u), out)))
        du = add(du, div(out, spread(row(s), out)))
    if n > m:
        out = matmul(adjoint(t), u)
        out = sub(out, matmul(v, matmul(vh, out)))
        dv = add(dv, div(out, spread(row(s), out)))
    return outs, [ds, du, adjoint(dv)]


def _lower(
    ctx: RuleContext,
    x: object,
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: SvdAlgorithm,
) -> list:
    def run(x: ArrayLike) -> list:
        if tpu.on_tpu(ctx):
            return tpu.svd_by_polar(x, full_matrices, compute_uv)
        if ctx.module.platforms[0] != "cpu":
            return _on_gpu(x, full_matrices, compute_uv, algorithm)
        aval = typeof(x)
        m, n = aval.shape[-2:]
        k = min(m, n)
        u = (m, m if full_matrices else k)
        vh = (n if full_matrices else k, n)
        routine = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
        mode = "N" if not compute_uv else "A" if full_matrices else "S"
        _, s, left, right, info = lapack(
            routine,
            [x],
            aval.ndim - 2,
            [
                ((m, n), aval.dtype),
                ((k,), real_dtype(aval.dtype)),
                (u, aval.dtype),
                (vh, aval.dtype),
                INFO,
            ],
            [(0, 0)],
            mode=mode,
        )
        ok = eq(info, 0)
        return [or_nan(ok, v) for v in ((s, left, right) if compute_uv else (s,))]

    def empty(x: object) -> list:
        """Nothing to decompose: no singular values, identities for the vectors."""
        outs = [broadcast_in_dim(a.dtype.type(0), a.shape, ()) for a in ctx.avals_out]
        for i, a in enumerate(ctx.avals_out):
            if i and a.shape[-1] == a.shape[-2]:
                outs[i] = eye(outs[i], a.shape[-1])
        return outs

    return ctx.lower_fun(empty if ctx.avals_in[0].size == 0 else run, x)


_JACOBI = 1024
"""Up to this size cuSOLVER's Jacobi method is the faster one."""


def _on_gpu(x: ArrayLike, full: bool, vectors: bool, algorithm: SvdAlgorithm) -> list:
    """cuSOLVER's routines: gesvdj (Jacobi), gesvdp (polar), gesvd (QR, for m >= n)."""
    aval = typeof(x)
    m, n = aval.shape[-2:]
    k = min(m, n)
    by_qr = algorithm is SvdAlgorithm.QR
    if by_qr or (algorithm is SvdAlgorithm.DEFAULT and max(m, n) > _JACOBI):
        if m < n:
            s, *rest = _on_gpu(adjoint(x), full, vectors, SvdAlgorithm.QR)
            return [s, *map(adjoint, reversed(rest))]
        routine, options = "gesvd", {"full_matrices": full, "transposed": False}
        shapes = [(m, m if full else k), (k, n)] if vectors else [(), ()]
    else:
        routine = "gesvdp" if algorithm is SvdAlgorithm.POLAR else "gesvdj"
        # Jacobi's routine for many small matrices has whole vectors only.
        whole = full or (routine == "gesvdj" and k <= 32)
        options = {"full_matrices": whole}
        shapes = [(m, m if whole else k), (n, n if whole else k)]
    values = ((k,), real_dtype(aval.dtype))
    results = [((m, n), aval.dtype), values, *((shape, aval.dtype) for shape in shapes), INFO]
    options["compute_uv"] = vectors
    _, s, u, v, info = lapack(routine, [x], aval.ndim - 2, results, [(0, 0)], **options)
    ok = eq(info, 0)
    if not vectors:
        return [or_nan(ok, s)]
    vh = v if routine == "gesvd" else adjoint(v)
    if not full:
        u = slice_in_dim(u, 0, k, axis=aval.ndim - 1)
        vh = slice_in_dim(vh, 0, k, axis=aval.ndim - 2)
    return [or_nan(ok, part) for part in (s, u, vh)]


svd_p = Primitive(
    "svd",
    abstract=_abstract,
    jvp=_jvp,
    batch=on_matrices(lambda: svd_p),
    lower=_lower,
    sharding="matrices",
    multiple_results=True,
)


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Return x = u diag(s) vh with unitary u, vh and falling s >= 0, for x (..., m, n): (u, s, vh).

    Args:
      full_matrices: u (..., m, m) and vh (..., n, n); else their first min(m, n) columns and rows.
      compute_uv: False gives s alone.
      subset_by_index: (start, end) of the singular values wanted; not with full_matrices.

    >>> import weft
    >>> weft.lax.linalg.svd(weft.numpy.array([[0.0, 2.0], [1.0, 0.0]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    check_matrix("svd", typeof(x))
    if subset_by_index is not None and compute_uv and full_matrices:
        raise ValueError("svd: subset_by_index and full_matrices=True exclude each other")
    outs = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        algorithm=SvdAlgorithm.DEFAULT if algorithm is None else algorithm,
    )
    s = outs[0]
    rank = typeof(x).ndim
    if subset_by_index is not None:
        start, end = subset_by_index
        if not 0 <= start < end <= typeof(s).shape[-1]:
            raise ValueError(
                f"svd: subset_by_index must satisfy 0 <= start < end <= {typeof(s).shape[-1]}, got "
                f"{subset_by_index}"
            )
        s = slice_in_dim(s, start, end, axis=rank - 2)
        if compute_uv:
            u = slice_in_dim(outs[1], start, end, axis=rank - 1)
            return u, s, slice_in_dim(outs[2], start, end, axis=rank - 2)
    return (outs[1], s, outs[2]) if compute_uv else s

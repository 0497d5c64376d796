# Tests: tests/ops/test_linalg.py
"""Eigenvalues and eigenvectors: Hermitian, general; Schur, Hessenberg and tridiagonal forms."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.shape import broadcast_in_dim, broadcasted_iota
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import UnsupportedArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.argreduce import argmax
from weft.ops.elementwise_api import add, complex_dtype, conjugated, div, eq, mul, real_dtype, sub
from weft.ops.elementwise_api import complex as make_complex
from weft.ops.linalg import tpu
from weft.ops.linalg.cholesky import on_matrices, symmetrize
from weft.ops.linalg.lapack import INFO, check_matrix, lapack, or_nan
from weft.ops.linalg.lu import solve
from weft.ops.linalg.matrix import (
    adjoint,
    as_dtype,
    diagonal,
    eye,
    matmul,
    real_part,
    row,
    scale_columns,
    spread,
)
from weft.ops.reduce import reduce_sum
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


class EighImplementation(enum.Enum):
    """Algorithms of `eigh`, of which there is QR: LAPACK's or cuSOLVER's routine."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Algorithms of `eig`, of which there is LAPACK's."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def _real_of(x: ShapedArray) -> Any:
    return real_dtype(x.dtype)


def difference_quotients(w: ArrayLike) -> Any:
    """1 / (w[j] - w[i]) at (i, j), zero on the diagonal."""
    aval = typeof(w)
    n = aval.shape[-1]
    shape = (*aval.shape, n)
    lead = tuple(range(aval.ndim - 1))
    across = broadcast_in_dim(w, shape, (*lead, aval.ndim))
    down = broadcast_in_dim(w, shape, (*lead, aval.ndim - 1))
    gaps = sub(across, down)

    return sub(div(aval.dtype.type(1), add(gaps, eye(gaps, n))), eye(gaps, n))


# Hermitian -------------------------------------------------------------------------------------


def _eigh_abstract(x: ShapedArray, *, lower: bool, sort_eigenvalues: bool) -> list[ShapedArray]:
    check_matrix("eigh", x, square=True)
    return [ShapedArray(x.shape, x.dtype), ShapedArray(x.shape[:-1], _real_of(x))]


def _eigh_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
    """dw = diag(V^H dA V), dV = V (F o V^H dA V) with F the difference quotients of w."""
    v, w = eigh_p.bind(primals[0], **params)
    turned = matmul(matmul(adjoint(v), tangents[0]), v)
    quotients = as_dtype(difference_quotients(w), turned)
    return [v, w], [matmul(v, mul(quotients, turned)), real_part(diagonal(turned))]


def _eigh_lower(ctx: RuleContext, x: object, *, lower: bool, sort_eigenvalues: bool) -> list:
    def run(x: object) -> list:
        aval = typeof(x)
        n = aval.shape[-1]
        name = "heevd" if dtypes.is_complex(aval.dtype) else "syevd"
        results = [((n, n), aval.dtype), ((n,), _real_of(aval)), INFO]
        uplo = "L" if lower else "U"
        v, w, info = lapack(name, [x], aval.ndim - 2, results, [(0, 0)], mode="V", uplo=uplo)
        ok = eq(info, 0)
        return [or_nan(ok, v), or_nan(ok, w)]

    if ctx.avals_in[0].size == 0:
        return [ctx.splat(0, a.shape, a.dtype) for a in ctx.avals_out]
    if tpu.on_tpu(ctx):
        sweeps, tolerance = 100, 1e-6
        return tpu.call(ctx, "Eigh", [x], f"{int(lower)},1,{sweeps},{tolerance}")
    return ctx.lower_fun(run, x)


eigh_p = Primitive(
    "eigh",
    abstract=_eigh_abstract,
    jvp=_eigh_jvp,
    batch=on_matrices(lambda: eigh_p),
    lower=_eigh_lower,
    sharding="matrices",
    multiple_results=True,
)


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """Compute eigenvectors (columns) and ascending eigenvalues of Hermitian x (..., n, n): (v, w).

    Args:
      lower: reads the lower triangle, else the upper; symmetrize_input: computes with
        (x + x^H) / 2 instead, which also makes the derivative symmetric.
      sort_eigenvalues: they are sorted in any case.
      subset_by_index: (start, end) of the eigenvalues wanted.
      implementation: None or `EighImplementation.QR`; others are refused.

    >>> import weft
    >>> weft.lax.linalg.eigh(weft.numpy.array([[2.0, 0.0], [0.0, 1.0]]))[1]
    Array([1., 2.], dtype=float32)
    """
    check_matrix("eigh", typeof(x), square=True)
    if implementation not in (None, EighImplementation.QR):
        raise ValueError(
            f"eigh: implementation {implementation!r} is not available; leave it out, or use "
            "EighImplementation.QR"
        )
    if symmetrize_input:
        x = symmetrize(x)
    v, w = eigh_p.bind(x, lower=bool(lower), sort_eigenvalues=bool(sort_eigenvalues))
    if subset_by_index is not None:
        start, end = subset_by_index
        n = typeof(w).shape[-1]
        if not 0 <= start < end <= n:
            raise ValueError(
                f"eigh: subset_by_index must satisfy 0 <= start < end <= {n}, got {subset_by_index}"
            )
        rank = typeof(v).ndim
        v = slice_in_dim(v, start, end, axis=rank - 1)
        w = slice_in_dim(w, start, end, axis=rank - 2)
    return v, w


# General ---------------------------------------------------------------------------------------


def _eig_abstract(
    x: ShapedArray, *, left: bool, right: bool, derivatives: bool
) -> list[ShapedArray]:
    check_matrix("eig", x, square=True)
    dtype = x.dtype if dtypes.is_complex(x.dtype) else complex_dtype(x.dtype)
    vectors = ShapedArray(x.shape, dtype)
    return [ShapedArray(x.shape[:-1], dtype), *[vectors] * (left + right)]


def _eig_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    left: bool,
    right: bool,
    derivatives: bool,
) -> tuple:
    """dw = diag(V^-1 dA V); vectors keep norm 1 and a real largest component, as LAPACK's do."""
    from weft.ops.elementwise_api import abs, imag, real

    (x,), (t,) = primals, tangents
    if (left or right) and not derivatives:
        raise UnsupportedArgumentError(
            "eig: derivatives of eigenvectors depend on how these are scaled; pass "
            "enable_eigvec_derivs=True for those of LAPACK's scaling, or compute eigenvalues "
            "only (compute_left_eigenvectors=False, compute_right_eigenvectors=False)"
        )
    outs = eig_p.bind(x, left=left, right=right, derivatives=derivatives)
    w = outs[0]
    v = outs[-1] if right else eig_p.bind(x, left=False, right=True, derivatives=True)[1]
    turned = solve(v, matmul(as_dtype(t, v), v))
    out_tangents = [diagonal(turned)]

    def moved(vectors: Any, coefficients: Any) -> Any:
        change = matmul(vectors, coefficients)
        along = real(diagonal(matmul(adjoint(vectors), change)))
        rank = typeof(vectors).ndim
        largest = argmax(abs(vectors), rank - 2, dtypes.int32)
        rows = broadcasted_iota(dtypes.int32, typeof(vectors).shape, rank - 2)
        at = as_dtype(eq(rows, spread(row(largest), rows)), vectors)
        pivot, turn = (reduce_sum(mul(at, v), (rank - 2,)) for v in (vectors, change))
        phase = div(imag(turn), real(pivot))
        return sub(change, scale_columns(vectors, make_complex(along, phase)))

    if left:
        # Left eigenvectors are right ones of the adjoint, with conjugate eigenvalues.

        u = outs[1]
        back = solve(u, matmul(adjoint(as_dtype(t, v)), u))
        out_tangents.append(moved(u, mul(difference_quotients(conjugated(w)), back)))
    if right:
        out_tangents.append(moved(v, mul(difference_quotients(w), turned)))
    return outs, out_tangents


def _eig_lower(ctx: RuleContext, x: object, *, left: bool, right: bool, derivatives: bool) -> list:
    def run(x: object) -> list:
        aval = typeof(x)
        n = aval.shape[-1]
        is_complex = dtypes.is_complex(aval.dtype)
        dtype = aval.dtype if is_complex else complex_dtype(aval.dtype)
        values = [((n,), aval.dtype)] * (1 if is_complex else 2)
        *w, vl, vr, info = lapack(
            "geev",
            [x],
            aval.ndim - 2,
            [*values, ((n, n), dtype), ((n, n), dtype), INFO],
            compute_left="V" if left else "N",
            compute_right="V" if right else "N",
        )
        value = w[0] if is_complex else make_complex(*w)
        wanted = [value, *([vl] if left else []), *([vr] if right else [])]
        ok = eq(info, 0)
        return [or_nan(ok, v) for v in wanted]

    if ctx.avals_in[0].size == 0:
        return [ctx.splat(0, a.shape, a.dtype) for a in ctx.avals_out]
    return ctx.lower_fun(run, x)


eig_p = Primitive(
    "eig",
    abstract=_eig_abstract,
    jvp=_eig_jvp,
    batch=on_matrices(lambda: eig_p),
    lower=_eig_lower,
    sharding="matrices",
    multiple_results=True,
)


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list:
    """Compute eigenvalues of x (..., n, n), and left and right eigenvectors (columns) as asked for.

    Results are complex. enable_eigvec_derivs: lets eigenvectors be differentiated, with the
    scaling of LAPACK: norm 1, the largest component real. implementation: None or
    `EigImplementation.LAPACK`; others, as use_magma=True, are refused. For arrays on a GPU, too,
    the host's LAPACK computes it.

    >>> import weft
    >>> weft.lax.linalg.eig(weft.numpy.array([[0.0, 1.0], [-1.0, 0.0]]))[0]
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    check_matrix("eig", typeof(x), square=True)
    if use_magma:
        implementation = EigImplementation.MAGMA
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError(
            f"eig: implementation {implementation!r} is not available; leave it out, or use "
            "EigImplementation.LAPACK"
        )
    return eig_p.bind(
        x,
        left=bool(compute_left_eigenvectors),
        right=bool(compute_right_eigenvectors),
        derivatives=bool(enable_eigvec_derivs),
    )


# Forms without derivatives ---------------------------------------------------------------------


def _form(name: str, abstract: Callable, run: Callable) -> Primitive:
    """Decompose one square matrix by a rule that is a Python function of LAPACK calls."""

    def check(x: ShapedArray, **params: object) -> list[ShapedArray]:
        check_matrix(name, x, square=True)
        return abstract(x, **params)

    def lower(ctx: RuleContext, x: ir.Value, **params: object) -> list:
        if ctx.avals_in[0].size == 0:
            return [ctx.splat(0, a.shape, a.dtype) for a in ctx.avals_out]
        return ctx.lower_fun(lambda x: run(x, **params), x)

    prim = Primitive(
        name,
        abstract=check,
        batch=on_matrices(lambda: prim),
        lower=lower,
        sharding="matrices",
        multiple_results=True,
    )
    return prim


def _schur(x: object, *, vectors: bool) -> list:
    aval = typeof(x)
    n = aval.shape[-1]
    values = [((n,), aval.dtype)] * (1 if dtypes.is_complex(aval.dtype) else 2)
    matrix = ((n, n), aval.dtype)
    t, v, *_, info = lapack(
        "gees",
        [x],
        aval.ndim - 2,
        [matrix, matrix, *values, INFO, INFO],
        [(0, 0)],
        mode="V" if vectors else "N",
        sort="N",
    )
    ok = eq(info, 0)
    return [or_nan(ok, t), *([or_nan(ok, v)] if vectors else [])]


schur_p = _form(
    "schur",
    lambda x, *, vectors: [ShapedArray(x.shape, x.dtype)] * (1 + vectors),
    _schur,
)


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable | None = None,
) -> tuple:
    """Return x = v t v^H with (quasi-)triangular t and unitary v: (t, v), or (t,) without vectors.

    Real x give blocks of 2 x 2 for pairs of complex eigenvalues. CPU only.

    >>> from weft import lax, numpy as wnp
    >>> t, vectors = lax.linalg.schur(wnp.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> t
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise ValueError(
            "schur: sorting eigenvalues needs a function inside LAPACK, which its interface here "
            "does not take; pass sort_eig_vals=False and no select_callable"
        )
    check_matrix("schur", typeof(x), square=True)
    return tuple(schur_p.bind(x, vectors=bool(compute_schur_vectors)))


def _hessenberg(x: object) -> list:
    aval = typeof(x)
    n = aval.shape[-1]
    results = [((n, n), aval.dtype), ((n - 1,), aval.dtype), INFO]
    a, taus, info = lapack("gehrd", [x], aval.ndim - 2, results, [(0, 0)], low=1, high=n)
    ok = eq(info, 0)
    return [or_nan(ok, a), or_nan(ok, taus)]


hessenberg_p = _form(
    "hessenberg",
    lambda x: [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*x.shape[:-2], max(x.shape[-1] - 1, 0)), x.dtype),
    ],
    _hessenberg,
)


def hessenberg(a: ArrayLike) -> tuple[Any, Any]:
    """Return a = q h q^H with h zero below the first subdiagonal: (packed, taus).

    packed holds h, and below its subdiagonal the reflectors of q for `householder_product`; taus
    (..., n - 1) are their factors. CPU only.

    >>> from weft import lax, numpy as wnp
    >>> packed, taus = lax.linalg.hessenberg(wnp.ones((3, 3)))
    >>> packed.shape, taus.shape
    ((3, 3), (2,))
    """
    check_matrix("hessenberg", typeof(a), square=True)
    return tuple(hessenberg_p.bind(a))  # type: ignore[return-value]


def _tridiagonal(x: object, *, lower: bool) -> list:
    aval = typeof(x)
    n = aval.shape[-1]
    name = "hetrd" if dtypes.is_complex(aval.dtype) else "sytrd"
    real = _real_of(aval)
    *outs, info = lapack(
        name,
        [x],
        aval.ndim - 2,
        [((n, n), aval.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), aval.dtype), INFO],
        [(0, 0)],
        uplo="L" if lower else "U",
    )
    ok = eq(info, 0)
    return [or_nan(ok, v) for v in outs]


def _tridiagonal_abstract(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    *batch, n, _ = x.shape
    side = (*batch, max(n - 1, 0))
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, n), _real_of(x)),
        ShapedArray(side, _real_of(x)),
        ShapedArray(side, x.dtype),
    ]


tridiagonal_p = _form("tridiagonal", _tridiagonal_abstract, _tridiagonal)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Return a = q t q^H with real symmetric tridiagonal t, for Hermitian a: (packed, d, e, taus).

    d (..., n) is t's diagonal, e (..., n - 1) the one beside it; packed holds the reflectors of q
    in the triangle that is read, taus their factors.

    >>> from weft import lax, numpy as wnp
    >>> packed, d, e, taus = lax.linalg.tridiagonal(wnp.eye(3))
    >>> d
    Array([1., 1., 1.], dtype=float32)
    """
    check_matrix("tridiagonal", typeof(a), square=True)
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))  # type: ignore[return-value]

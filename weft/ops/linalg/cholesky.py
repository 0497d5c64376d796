# Tests: tests/ops/test_linalg.py
"""Cholesky decomposition, its update, and products of a matrix with its transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.shape import moveaxis
from weft.core.aval import ShapedArray
from weft.core.errors import ShapeError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.control.divergence import vary
from weft.ops.control.loops import fori_loop
from weft.ops.dynamic_slicing import dynamic_index_in_dim, dynamic_update_index_in_dim
from weft.ops.elementwise_api import add, div, eq, mul, sqrt, sub
from weft.ops.linalg import tpu
from weft.ops.linalg.lapack import INFO, check_matrix, lapack, or_nan
from weft.ops.linalg.matrix import adjoint, diagonal, matmul, of_diagonal, transpose, tril
from weft.ops.linalg.triangular import triangular_solve

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def on_matrices(prim_of: Callable) -> Any:
    """Return the batch rule of an op on the last two dimensions of one operand."""

    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: object) -> tuple:
        out = prim_of().bind(moveaxis(args[0], dims[0], 0), **params)
        return out, ([0] * len(out) if prim_of().multiple_results else 0)

    return batch


def _abstract(x: ShapedArray) -> ShapedArray:
    check_matrix("cholesky", x, square=True)
    return ShapedArray(x.shape, x.dtype)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    """dL = L phi(L^-1 dA L^-H), phi the lower triangle with half the diagonal.

    Source: I. Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    factor = cholesky_p.bind(primals[0])
    inner = triangular_solve(factor, tangents[0], left_side=True, lower=True)
    inner = triangular_solve(
        factor, inner, left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    half = mul(diagonal(inner), typeof(factor).dtype.type(0.5))
    return factor, matmul(factor, sub(tril(inner), of_diagonal(half)))


def _lower(ctx: RuleContext, x: ir.Value) -> Any:
    if tpu.on_tpu(ctx):
        lower = {"lower": ctx.bool(True)}
        factor = ctx.op("stablehlo.cholesky", [x], ctx.out_types(), lower)[0]
        return ctx.lower_fun(tril, factor, avals=ctx.avals_out)[0]
    return ctx.lower_fun(_potrf, x)[0]


def _potrf(x: object) -> Any:
    aval = typeof(x)
    results = [(aval.shape[-2:], aval.dtype), INFO]
    out, info = lapack("potrf", [x], aval.ndim - 2, results, [(0, 0)], uplo="L")
    return tril(or_nan(eq(info, 0), out))


cholesky_p = Primitive(
    "cholesky",
    abstract=_abstract,
    jvp=_jvp,
    batch=on_matrices(lambda: cholesky_p),
    lower=_lower,
    sharding="matrices",
)


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Any:
    """Return the lower triangular L with x = L L^H, for Hermitian positive definite x (..., n, n).

    NaN where x is not positive definite. symmetrize_input: computes with (x + x^H) / 2, which
    also makes the derivative symmetric; else only the lower triangle is read.

    >>> import weft
    >>> weft.lax.linalg.cholesky(weft.numpy.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    check_matrix("cholesky", typeof(x), square=True)
    return cholesky_p.bind(symmetrize(x) if symmetrize_input else x)


def symmetrize(x: ArrayLike) -> Any:
    """Return the Hermitian part."""
    return mul(add(x, adjoint(x)), typeof(x).dtype.type(0.5))


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """Return the upper triangular R' with R'^T R' = R^T R + w w^T, for real R (n, n) and w (n,).

    One rotation per row (Golub and Van Loan, "Matrix Computations", 6.5.4).

    >>> from weft import lax, numpy as wnp
    >>> lax.linalg.cholesky_update(wnp.eye(2), wnp.array([0.0, wnp.sqrt(3.0)])).round(4)
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    r, w = typeof(r_matrix), typeof(w_vector)
    if r.ndim != 2 or r.shape[0] != r.shape[1] or w.shape != r.shape[:1] or r.dtype != w.dtype:
        raise ShapeError(
            "cholesky_update: takes a square matrix and a vector of its size and dtype, got "
            f"{r.str_short()} and {w.str_short()}"
        )

    def rotate(k: object, state: Any) -> Any:
        matrix, vector = state
        line = dynamic_index_in_dim(matrix, k, 0, keepdims=False)
        pivot = dynamic_index_in_dim(line, k, 0, keepdims=False)
        weight = dynamic_index_in_dim(vector, k, 0, keepdims=False)
        length = sqrt(add(mul(pivot, pivot), mul(weight, weight)))
        c, s = div(pivot, length), div(weight, length)
        new = add(mul(c, line), mul(s, vector))
        vector = sub(mul(c, vector), mul(s, line))
        return dynamic_update_index_in_dim(matrix, new, k, 0), vector

    axes = r.mat.varying | w.mat.varying
    return fori_loop(0, r.shape[0], rotate, (vary(r_matrix, axes), vary(w_vector, axes)))[0]


def symmetric_product(
    a_matrix: Any,
    c_matrix: object,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha a a^T + beta c, for a (..., n, k) and symmetric c (..., n, n).

    The result is whole, so symmetrize_output changes nothing.

    >>> from weft import lax, numpy as wnp
    >>> lax.linalg.symmetric_product(
    ...     wnp.array([[1.0], [2.0]]), wnp.eye(2), beta=10.0, symmetrize_output=True
    ... )
    Array([[11.,  2.],
           [ 2., 14.]], dtype=float32)
    """
    a, c = typeof(a_matrix), typeof(c_matrix)
    if a.ndim < 2 or c.shape != (*a.shape[:-1], a.shape[-2]) or a.dtype != c.dtype:
        raise ShapeError(
            "symmetric_product: takes a (..., n, k) and c (..., n, n) of one dtype, got "
            f"{a.str_short()} and {c.str_short()}"
        )
    product = mul(matmul(a_matrix, transpose(a_matrix)), a.dtype.type(alpha))
    return add(product, mul(c_matrix, a.dtype.type(beta)))

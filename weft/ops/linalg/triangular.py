# Tests: tests/ops/test_linalg.py
"""Triangular and tridiagonal systems of linear equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_in_front
from weft.autodiff.shape import moveaxis, reshape
from weft.autodiff.vmap import in_front
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError, ShapeError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.ops.control.scan import scan
from weft.ops.elementwise_api import add, conjugated, div, eq, mul, neg, sub
from weft.ops.joining import concatenate
from weft.ops.linalg import tpu
from weft.ops.linalg.lapack import INFO, check_matrix, lapack, or_nan
from weft.ops.linalg.matrix import column, matmul, scale_rows, spread, transpose, tril, triu
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# triangular_solve ------------------------------------------------------------------------------


def _abstract(a: ShapedArray, b: ShapedArray, *, left_side: bool, **_: object) -> ShapedArray:
    check_matrix("triangular_solve", a, square=True)
    side = b.shape[-2 if left_side else -1] if b.ndim > 1 else None
    if a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2] or side != a.shape[-1]:
        raise ArgumentError(
            f"triangular_solve: a {a.str_short()} and b {b.str_short()} must have one dtype, equal "
            f"batch dimensions, and b's dimension {-2 if left_side else -1} must be a's size"
        )
    return ShapedArray(b.shape, b.dtype)


def _apply(a: ArrayLike, x: ArrayLike, params: dict) -> Any:
    """op(a) x, or x op(a), of the matrix that triangular_solve inverts."""
    if params["transpose_a"]:
        a = transpose(a)
    if params["conjugate_a"]:
        a = conjugated(a)
    return matmul(a, x) if params["left_side"] else matmul(x, a)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
    """op(a) x = b: op(a) dx = db - op(da) x, with da of the triangle that is read."""
    (a, b), (ta, tb) = primals, tangents
    x = triangular_solve_p.bind(a, b, **params)
    rest = tb
    if ta is not None:
        k = 1 if params["unit_diagonal"] else 0
        ta = tril(ta, -k) if params["lower"] else triu(ta, k)
        moved = neg(_apply(ta, x, params))
        rest = moved if tb is None else add(tb, moved)
    return x, triangular_solve_p.bind(a, rest, **params)


def _transpose(ct: object, a: ArrayLike, b: object, *, transpose_a: bool, **params: object) -> list:
    if is_undefined(a):
        raise ShapeError(
            "triangular_solve is linear in b only, and what is transposed is a; differentiate with "
            "weft.vjp"
        )
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _batch(axis: AxisData, args: list, dims: list, *, left_side: bool, **params: object) -> tuple:
    (a, b), (ad, bd) = args, dims
    if ad is None and typeof(b).ndim == 3:
        # One matrix: the examples are more right-hand sides.
        b = moveaxis(b, bd, 1 if left_side else 0)
        shape = typeof(b).shape
        n, k = shape[0 if left_side else 2], shape[2 if left_side else 1]
        flat = (n, axis.size * k) if left_side else (axis.size * k, n)
        out = triangular_solve_p.bind(a, reshape(b, flat), left_side=left_side, **params)
        return reshape(out, shape), 1 if left_side else 0
    moved = in_front(axis, args, dims)
    return triangular_solve_p.bind(*moved, left_side=left_side, **params), 0


def _lower(
    ctx: RuleContext,
    a: object,
    b: object,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    aval = ctx.avals_in[0]
    if conjugate_a and not (transpose_a and dtypes.is_complex(aval.dtype)):
        if dtypes.is_complex(aval.dtype):
            a = ctx.lower_fun(conjugated, a, avals=[aval])[0]
        conjugate_a = False
    if ctx.avals_out[0].size == 0:
        return b
    if ctx.module.platforms[0] == "cpu":

        def trsm(a: object, b: object) -> Any:
            out = typeof(b)
            trans = "C" if conjugate_a else "T" if transpose_a else "N"
            return lapack(
                "trsm",
                [a, b],
                out.ndim - 2,
                [(out.shape[-2:], out.dtype)],
                [(0, 1)],
                side="L" if left_side else "R",
                uplo="L" if lower else "U",
                trans_x=trans,
                diag="U" if unit_diagonal else "N",
            )[0]

        return ctx.lower_fun(trsm, a, b)[0]
    kind = "ADJOINT" if conjugate_a else "TRANSPOSE" if transpose_a else "NO_TRANSPOSE"
    attrs = {
        "left_side": ctx.bool(left_side),
        "lower": ctx.bool(lower),
        "unit_diagonal": ctx.bool(unit_diagonal),
        "transpose_a": ctx.attr(f"#stablehlo<transpose {kind}>"),
    }
    return ctx.op("stablehlo.triangular_solve", [a, b], ctx.out_types(), attrs)[0]


triangular_solve_p = Primitive(
    "triangular_solve",
    abstract=_abstract,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    sharding="matrices",
    linear=(1,),
)


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """Return x with op(a) x = b (left_side) or x op(a) = b, for triangular a.

    Args:
      a: (..., n, n), of which the lower or upper triangle is read.
      b: (..., n, k) if left_side, else (..., k, n); also without the dimension k.
      transpose_a, conjugate_a: op. unit_diagonal: takes the diagonal to be ones.

    >>> import weft
    >>> a = weft.numpy.array([[2.0, 0.0], [1.0, 1.0]])
    >>> b = weft.numpy.array([2.0, 3.0])
    >>> weft.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    vector = typeof(b).ndim == typeof(a).ndim - 1
    if vector:
        shape = typeof(b).shape
        b = column(b) if left_side else reshape(b, (*shape[:-1], 1, shape[-1]))
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and dtypes.is_complex(typeof(a).dtype),
        unit_diagonal=bool(unit_diagonal),
    )
    return reshape(out, shape) if vector else out


# tridiagonal_solve -----------------------------------------------------------------------------


def _tri_abstract(
    dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturb_singular: bool
) -> ShapedArray:
    check_matrix("tridiagonal_solve", b)
    for name, x in (("dl", dl), ("d", d), ("du", du)):
        if x.shape != b.shape[:-1] or x.dtype != b.dtype:
            raise ShapeError(
                f"tridiagonal_solve: {name} must be of b's dtype and of shape {b.shape[:-1]} for "
                f"b {b.str_short()}, got {x.str_short()}"
            )
    if perturb_singular and b.dtype not in (dtypes.float32, dtypes.float64):
        raise ShapeError(
            f"tridiagonal_solve: perturb_singular takes float32 or float64, got {b.str_short()}"
        )
    return ShapedArray(b.shape, b.dtype)


def _shifted(x: Any, by: int, axis: int) -> Any:
    """Along an axis the element `by` places before each, zero outside."""
    aval = typeof(x)
    n = aval.shape[axis]
    shape = list(aval.shape)
    shape[axis] = 1
    zero = np.zeros(shape, aval.dtype)
    if by > 0:
        return concatenate([zero, slice_in_dim(x, 0, n - 1, axis=axis)], axis)
    return concatenate([slice_in_dim(x, 1, n, axis=axis), zero], axis)


def _tri_apply(dl: object, d: object, du: object, x: object) -> Any:
    """Return the product of the tridiagonal matrix with x; None stands for a zero diagonal."""
    rows = typeof(x).ndim - 2
    total = None
    for diagonal, moved in ((dl, _shifted(x, 1, rows)), (d, x), (du, _shifted(x, -1, rows))):
        if diagonal is not None:
            term = scale_rows(moved, diagonal)
            total = term if total is None else add(total, term)
    return total


def _tri_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, perturb_singular: bool) -> tuple:
    dl, d, du, _ = primals
    x = tridiagonal_solve_p.bind(*primals, perturb_singular=perturb_singular)
    rest = tangents[3]
    moved = _tri_apply(tangents[0], tangents[1], tangents[2], x)
    if moved is not None:
        rest = neg(moved) if rest is None else sub(rest, moved)
    return x, tridiagonal_solve_p.bind(dl, d, du, rest, perturb_singular=perturb_singular)


def _tri_transpose(
    ct: object, dl: object, d: object, du: object, b: object, *, perturb_singular: bool
) -> list:
    axis = typeof(d).ndim - 1
    moved = _shifted(du, 1, axis), d, _shifted(dl, -1, axis)
    return [
        None,
        None,
        None,
        tridiagonal_solve_p.bind(*moved, ct, perturb_singular=perturb_singular),
    ]


def _tri_lower(ctx: RuleContext, *operands: object, perturb_singular: bool) -> Any:
    on_cpu = ctx.module.platforms[0] == "cpu"
    few = not on_cpu and ctx.avals_out[0].shape[-2] < 3  # cuSPARSE takes three rows and more
    if not perturb_singular and (few or tpu.on_tpu(ctx)):
        return ctx.lower_fun(_thomas, *operands)[0]

    def gtsv(dl: object, d: object, du: object, b: object) -> Any:
        aval = typeof(b)
        vector, matrix = (aval.shape[-2:-1], aval.dtype), (aval.shape[-2:], aval.dtype)
        batch = aval.ndim - 2
        args = [dl, d, du, b]
        if perturb_singular:
            return lapack("tridiagonal_solve_perturbed", args, batch, [matrix])[0]
        if not on_cpu:
            return lapack("gtsv2", args, batch, [matrix], [(0, 3)])[0]
        *_, out, info = lapack(
            "gtsv",
            args,
            batch,
            [vector, vector, vector, matrix, INFO],
            [(i, i) for i in range(4)],
        )
        return or_nan(eq(info, 0), out)

    return ctx.lower_fun(gtsv, *operands)[0]


def _thomas(dl: Any, d: Any, du: Any, b: ArrayLike) -> Any:
    """Elimination without pivoting, row by row (Thomas)."""
    front = [moveaxis(v, typeof(v).ndim - 1, 0) for v in (dl, d, du)]
    rows = moveaxis(b, typeof(b).ndim - 2, 0)

    def forward(carry: Any, xs: Sequence[Any]) -> Any:
        upper, value = carry
        lower, diagonal, above, right = xs
        pivot = sub(diagonal, mul(lower, upper))
        wide = spread(column(lower), right)
        new = div(sub(right, mul(wide, value)), spread(column(pivot), right))
        state = (div(above, pivot), new)
        return state, state

    zero = (mul(front[0][0], 0), mul(rows[0], 0))
    _, (uppers, values) = scan(forward, zero, (*front, rows))

    def backward(below: object, xs: Sequence[Any]) -> Any:
        upper, value = xs
        x = sub(value, mul(spread(column(upper), value), below))
        return x, x

    _, out = scan(backward, zero[1], (uppers, values), reverse=True)
    return moveaxis(out, 0, typeof(b).ndim - 2)


tridiagonal_solve_p = Primitive(
    "tridiagonal_solve",
    abstract=_tri_abstract,
    jvp=_tri_jvp,
    transpose=_tri_transpose,
    batch=batch_in_front(lambda: tridiagonal_solve_p),
    lower=_tri_lower,
    sharding="matrices",
    linear=(3,),
)


def tridiagonal_solve(
    dl: object, d: object, du: object, b: ArrayLike, *, perturb_singular: bool = False
) -> Any:
    """Return x with A x = b, for A of diagonal d, dl below and du above it.

    Args:
      dl, d, du: (..., n); dl[..., 0] and du[..., -1] are not read.
      b: (..., n, k).
      perturb_singular: replaces zero pivots by small numbers instead of giving NaN.

    >>> import weft
    >>> one = weft.numpy.ones(2)
    >>> weft.lax.linalg.tridiagonal_solve(0 * one, 2 * one, one, weft.numpy.array([[3.0], [2.0]]))
    Array([[1.],
           [1.]], dtype=float32)
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))

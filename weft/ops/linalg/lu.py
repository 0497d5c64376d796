# Tests: tests/ops/test_linalg.py
"""LU decomposition with partial pivoting, and systems of equations solved with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_in_front
from weft.autodiff.shape import broadcast_in_dim, broadcasted_iota, reshape
from weft.autodiff.zeros import stop_gradient_p
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ShapeError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.lowering.limits import SMALL_MATRICES, SMALL_MATRIX
from weft.ops.compound import composite
from weft.ops.control.loops import fori_loop
from weft.ops.dynamic_slicing import dynamic_index_in_dim
from weft.ops.elementwise_api import add, eq, ge, neg, select, sub
from weft.ops.joining import pad
from weft.ops.linalg import tpu
from weft.ops.linalg.cholesky import on_matrices
from weft.ops.linalg.lapack import INFO, check_matrix, lapack, or_nan
from weft.ops.linalg.matrix import column, eye, matmul, tril, triu
from weft.ops.linalg.triangular import triangular_solve
from weft.ops.reduce import reduce_sum
from weft.ops.slicing import slice_in_dim
from weft.ops.sort import sort_key_val, take_along

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("lu", x)
    *batch, m, n = x.shape
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, min(m, n)), dtypes.int32),
        ShapedArray((*batch, m), dtypes.int32),
    ]


def take_rows(x: ArrayLike, permutation: Any) -> Any:
    """Return rows of matrices in the order of batched permutations."""
    aval = typeof(x)
    rank = aval.ndim
    indices = broadcast_in_dim(permutation, aval.shape, tuple(range(rank - 1)))
    return take_along(x, indices, rank - 2)


def factors(packed: Any, m: int, n: int) -> tuple[Any, Any]:
    """Square L (unit lower) and U (upper) of the packed result, filled up with the identity."""
    k = min(m, n)
    rank = typeof(packed).ndim
    lower = tril(slice_in_dim(packed, 0, k, axis=rank - 1), -1)
    upper = triu(slice_in_dim(packed, 0, k, axis=rank - 2))
    flat = [(0, 0, 0)] * (rank - 2)
    zero = typeof(packed).dtype.type(0)
    lower = add(pad(lower, zero, [*flat, (0, 0, 0), (0, m - k, 0)]), eye(packed, m))
    upper = pad(upper, zero, [*flat, (0, n - k, 0), (0, 0, 0)])
    if n > k:
        rest = np.diag(np.arange(n) >= k).astype(typeof(packed).dtype)
        upper = add(upper, broadcast_in_dim(rest, typeof(upper).shape, (rank - 2, rank - 1)))
    return lower, upper


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    """With X = L^-1 P dA U^-1: dL = L tril(X, -1), dU = triu(X) U."""
    packed, pivots, permutation = lu_p.bind(primals[0])
    m, n = typeof(packed).shape[-2:]
    lower, upper = factors(packed, m, n)
    x = take_rows(tangents[0], permutation)
    x = triangular_solve(lower, x, left_side=True, lower=True, unit_diagonal=True)
    x = triangular_solve(upper, x, left_side=False, lower=False)
    tangent = add(matmul(lower, tril(x, -1)), matmul(triu(x), upper))
    return [packed, pivots, permutation], [tangent, None, None]


def _lower(ctx: RuleContext, x: object) -> list:
    def getrf(x: object) -> list:
        aval = typeof(x)
        m, n = aval.shape[-2:]
        results = [((m, n), aval.dtype), ((min(m, n),), dtypes.int32), INFO]
        packed, pivots, info = lapack("getrf", [x], aval.ndim - 2, results, [(0, 0)])
        pivots = sub(pivots, np.int32(1))
        # info > 0: U is singular, which is no failure of the decomposition.
        return [
            or_nan(ge(info, 0), packed),
            pivots,
            lu_pivots_to_permutation(pivots, m),
        ]

    if ctx.avals_in[0].size == 0:
        outs = ctx.avals_out
        zeros = [ctx.splat(0, a.shape, a.dtype) for a in outs[:2]]
        iota = {"iota_dimension": ctx.i64(outs[2].ndim - 1)}
        return [*zeros, ctx.op("stablehlo.iota", [], [ctx.type_of(outs[2])], iota)[0]]
    if tpu.on_tpu(ctx):
        return tpu.call(ctx, "LuDecomposition", [x])
    if _is_small(ctx):
        return ctx.lower_fun(composite(lambda x: tuple(getrf(x)), "weft_native.lu"), x)
    return ctx.lower_fun(getrf, x)


def _is_small(ctx: RuleContext) -> bool:
    """Tell whether square matrices are so many and small that a kernel takes some at once."""
    *batch, m, n = ctx.avals_in[0].shape
    few = ctx.module.num_partitions > 1 or int(np.prod(batch)) < SMALL_MATRICES
    return m == n <= SMALL_MATRIX and not few and ctx.module.platforms == ("cpu",)


lu_p = Primitive(
    "lu",
    abstract=_abstract,
    jvp=_jvp,
    batch=on_matrices(lambda: lu_p),
    lower=_lower,
    sharding="matrices",
    multiple_results=True,
)


def lu(x: ArrayLike) -> tuple[Any, Any, Any]:
    """x[permutation] = L U, for x (..., m, n).

    Returns (packed, pivots, permutation): U on and above the diagonal of `packed` and L, whose
    diagonal is ones, below; pivots int32 (..., min(m, n)), the row each row was swapped with;
    permutation int32 (..., m).

    >>> import weft
    >>> packed, pivots, permutation = weft.lax.linalg.lu(weft.numpy.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> packed
    Array([[2., 3.],
           [0., 1.]], dtype=float32)
    """
    check_matrix("lu", typeof(x))
    return tuple(lu_p.bind(x))  # type: ignore[return-value]


def _pivots_abstract(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if pivots.dtype not in (dtypes.int32, dtypes.int64) or pivots.ndim < 1:
        raise ShapeError(
            "lu_pivots_to_permutation: pivots must be an int32 array (..., k), got "
            f"{pivots.str_short()}"
        )
    if permutation_size < pivots.shape[-1]:
        raise ValueError(
            f"lu_pivots_to_permutation: permutation_size {permutation_size} must be at least the "
            f"number of pivots {pivots.shape[-1]}"
        )
    return ShapedArray((*pivots.shape[:-1], permutation_size), pivots.dtype)


def _pivots_lower(ctx: RuleContext, pivots: object, *, permutation_size: int) -> Any:
    """Return the swaps done one after the other, on the columns of a (size, batch) array.

    On a GPU by jaxlib's kernel: a loop would start some for each swap.
    """
    from weft.autodiff.shape import broadcasted_iota, transpose

    aval = ctx.avals_in[0]
    *batch, k = aval.shape
    size = int(np.prod(batch))

    def run(pivots: object) -> Any:
        if k == 0 or size == 0:
            return broadcasted_iota(aval.dtype, (*batch, permutation_size), len(batch))
        if ctx.module.platforms[0] == "cuda" and aval.dtype == dtypes.int32:
            result = ((permutation_size,), aval.dtype)
            return lapack("lu_pivots_to_permutation", [pivots], len(batch), [result])[0]
        swaps = transpose(reshape(pivots, (size, k)), (1, 0))
        rows = broadcasted_iota(aval.dtype, (permutation_size, size), 0)

        def swap(i: object, order: Any) -> Any:
            target = dynamic_index_in_dim(swaps, i, 0)
            at_step = dynamic_index_in_dim(order, i, 0)
            is_target = eq(rows, spread(target))

            theirs = reduce_sum(select(is_target, order, zeros), (0,))
            order = select(is_target, spread(at_step), order)
            is_row = eq(rows, i)
            return select(is_row, spread(reshape(theirs, (1, size))), order)

        def spread(row: Any) -> Any:
            return broadcast_in_dim(row, (permutation_size, size), (0, 1))

        zeros = broadcast_in_dim(aval.dtype.type(0), (permutation_size, size), ())
        order = fori_loop(aval.dtype.type(0), aval.dtype.type(k), swap, rows)
        return reshape(transpose(order, (1, 0)), (*batch, permutation_size))

    # The loop starts from equal rows, so inside a shard_map types must not tell what varies.
    return ctx.lower_fun(run, pivots, avals=[ShapedArray(aval.shape, aval.dtype)])[0]


lu_pivots_to_permutation_p = Primitive(
    "lu_pivots_to_permutation",
    abstract=_pivots_abstract,
    jvp=lambda primals, tangents, **params: (
        lu_pivots_to_permutation_p.bind(*primals, **params),
        None,
    ),
    batch=on_matrices(lambda: lu_pivots_to_permutation_p),
    lower=_pivots_lower,
    sharding="vectors",
)


def lu_pivots_to_permutation(pivots: object, permutation_size: int) -> Any:
    """Return the permutation of rows that the swaps (..., k) of `lu` amount to.

    >>> from weft import lax, numpy as wnp
    >>> lax.linalg.lu_pivots_to_permutation(wnp.array([2, 1, 2]), 3)
    Array([2, 1, 0], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=int(permutation_size))


# Solving ---------------------------------------------------------------------------------------


def _solve_abstract(
    a: ShapedArray, packed: ShapedArray, permutation: ShapedArray, b: ShapedArray, **_: object
) -> ShapedArray:
    if a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2] or b.shape[-2:-1] != a.shape[-1:]:
        raise ShapeError(
            f"solve: a {a.str_short()} and b {b.str_short()} must have one dtype, equal batch "
            "dimensions and equal numbers of rows"
        )
    return ShapedArray(b.shape, b.dtype)


def _solve_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, transposed: bool) -> tuple:
    """Solve a dx = db - da x; the factors are of a and carry no derivative of their own."""
    from weft.ops.linalg.matrix import transpose

    a, packed, permutation, _ = primals
    ta, _, _, tb = tangents
    x = lu_solve_p.bind(*primals, transposed=transposed)
    rest = tb
    if ta is not None:
        moved = matmul(transpose(ta) if transposed else ta, x)
        rest = neg(moved) if tb is None else sub(tb, moved)
    if rest is None:
        return x, None
    return x, lu_solve_p.bind(a, packed, permutation, rest, transposed=transposed)


def _solve_transpose(
    ct: object, a: object, packed: object, permutation: object, b: ArrayLike, *, transposed: bool
) -> list:
    if not is_undefined(b):
        raise ShapeError(
            "solve is linear in its right-hand side only, and what is transposed is its matrix; "
            "differentiate with weft.vjp"
        )
    out = lu_solve_p.bind(a, packed, permutation, ct, transposed=not transposed)
    return [None, None, None, out]


def _solve_forward(packed: Any, permutation: object, b: ArrayLike) -> Any:
    y = take_rows(b, permutation)
    y = triangular_solve(packed, y, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(packed, y, left_side=True, lower=False)


def _solve_backward(packed: Any, permutation: object, b: Any) -> Any:
    y = triangular_solve(packed, b, left_side=True, lower=False, transpose_a=True)
    y = triangular_solve(
        packed, y, left_side=True, lower=True, unit_diagonal=True, transpose_a=True
    )
    aval = typeof(permutation)
    iota = broadcasted_iota(aval.dtype, aval.shape, aval.ndim - 1)
    inverse = sort_key_val(permutation, iota)[1]
    return take_rows(y, inverse)


def _solve_lower(
    ctx: RuleContext, a: ir.Value, packed: Any, permutation: object, b: Any, *, transposed: bool
) -> Any:
    fun = _solve_backward if transposed else _solve_forward
    if _is_small(ctx) and ctx.avals_out[0].size:
        named = composite(lambda *xs, number: fun(*xs), "weft_native.lu_solve")
        return ctx.lower_fun(
            lambda *xs: [named(*xs, number=int(transposed))],
            packed, permutation, b, avals=ctx.avals_in[1:],
        )[0]  # fmt: skip
    return ctx.lower_fun(fun, packed, permutation, b, avals=ctx.avals_in[1:])[0]


lu_solve_p = Primitive(
    "lu_solve",
    abstract=_solve_abstract,
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=batch_in_front(lambda: lu_solve_p),
    lower=_solve_lower,
    sharding="matrices",
    linear=(3,),
)
lu_solve_p.formula = lambda a, *operands, transposed: (
    _solve_backward(*operands) if transposed else _solve_forward(*operands)
)


def solve(a: ArrayLike, b: ArrayLike) -> Any:
    """Return x with a x = b, for a (..., n, n) and b (..., n, k) or (..., n), by LU decomposition.

    The derivative uses the same decomposition, and so does the backward pass.

    >>> import weft
    >>> from weft.ops.linalg.lu import solve
    >>> solve(weft.numpy.array([[2.0, 0.0], [0.0, 4.0]]), weft.numpy.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    check_matrix("solve", typeof(a), square=True)
    packed, _, permutation = lu_p.bind(stop_gradient_p.bind(a))
    vector = typeof(b).ndim == typeof(a).ndim - 1
    out = lu_solve_p.bind(a, packed, permutation, column(b) if vector else b, transposed=False)
    return reshape(out, typeof(b).shape) if vector else out

# Tests: tests/ops/test_table.py
"""Ops of the transformations themselves: sums of cotangents, zeros, copies, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_elementwise, linear_unary, unbroadcast
from weft.autodiff.shape import broadcast_in_dim
from weft.core import dtypes
from weft.core.aval import TOKEN, AbstractToken, ShapedArray
from weft.core.primitive import Primitive
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, typeof
from weft.core.tree import flatten, tree_map

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _add_abstract(x: ShapedArray, y: ShapedArray) -> Any:
    if not isinstance(x, ShapedArray):
        return x
    return (x if x.ndim >= y.ndim else y).strip_weak_type()  # rank 0 stands for any shape


def _add_transpose(ct: ArrayLike, x: UndefinedPrimal, y: UndefinedPrimal) -> list:
    return [unbroadcast(ct, x), unbroadcast(ct, y)]


def _add_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    (x, y), (tx, ty) = primals, tangents
    out = add_any_p.bind(x, y)
    if tx is None or ty is None:
        return out, tx if ty is None else ty
    return out, add_any_p.bind(tx, ty)


def _add_lower(ctx: RuleContext, x: ir.Value, y: ir.Value) -> Any:
    return ctx.op("stablehlo.add", ctx.spread([x, y]), ctx.out_types())[0]


add_any_p = Primitive(
    "add_any",
    abstract=_add_abstract,
    jvp=_add_jvp,
    transpose=_add_transpose,
    batch=lambda axis, args, dims: batch_elementwise(add_any_p, axis, args, dims, {}),
    lower=_add_lower,
    sharding="elementwise",
    linear=(0, ...),
)


def add_any(x: object, y: object) -> Any:
    """Return the sum of two tangents or cotangents of one value."""
    return add_any_p.bind(x, y)


def instantiate_zero(aval: ShapedArray) -> Any:
    """Return a zero of the type, as a value."""
    if isinstance(aval, AbstractToken):
        return create_token()
    if hasattr(aval, "instantiate_zero"):
        return aval.instantiate_zero()
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    zero = full(aval.shape, aval.dtype.type(0), aval.dtype)
    return match_type(zero, aval)


def match_type(x: ArrayLike, aval: ShapedArray) -> Any:
    """Return the value cast to the manual-axis type and sharding of `aval`."""
    if not isinstance(aval, ShapedArray):
        return x
    if aval.mat is not typeof(x).mat:
        from weft.autodiff.manual_casts import cast_to

        x = cast_to(x, aval.mat)
    if aval.sharding is not None and typeof(x).sharding != aval.sharding:
        from weft.sharding.explicit import reshard

        x = reshard(x, aval.sharding)
    return x


def full(shape: tuple[int, ...], value: object, dtype: np.dtype) -> Any:
    """Return an array of one repeated scalar."""
    if not isinstance(value, np.generic) or value.dtype != dtype:
        value = np.asarray(value).astype(dtype)[()]
    return broadcast_in_dim(value, shape, ())


def zeros_like(x: ArrayLike) -> Any:
    """Return zeros of the shape, dtype and manual-axis type of x."""
    aval = typeof(x)
    return instantiate_zero(aval)


copy_p = linear_unary(
    "copy",
    abstract=lambda x: x.strip_weak_type(),
    transpose=lambda ct, aval: ct,
    batch=lambda axis, x, dim: (copy_p.bind(x), dim),
    lower=lambda ctx, x: x,
    sharding="elementwise",
    structural=True,
)


def _barrier_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    outs = optimization_barrier_p.bind(*primals)
    nonzero_tangents = [t for t in tangents if t is not None]
    moved = iter(optimization_barrier_p.bind(*nonzero_tangents) if nonzero_tangents else ())
    return outs, [None if t is None else next(moved) for t in tangents]


def _barrier_transpose(cts: Sequence[Any], *args: UndefinedPrimal) -> list:
    nonzero_cts = [c for c in cts if c is not None]
    moved = iter(optimization_barrier_p.bind(*nonzero_cts) if nonzero_cts else ())
    return [None if c is None else next(moved) for c in cts]


optimization_barrier_p = Primitive(
    "optimization_barrier",
    abstract=lambda *avals: [a if not isinstance(a, ShapedArray) else a for a in avals],
    jvp=_barrier_jvp,
    transpose=_barrier_transpose,
    batch=lambda axis, args, dims: (optimization_barrier_p.bind(*args), list(dims)),
    lower=lambda ctx, *xs: ctx.op("stablehlo.optimization_barrier", list(xs), [x.type for x in xs]),
    depends=lambda params, marked: marked,
    multiple_results=True,
    own_types=True,
)


def optimization_barrier(operand: ArrayLike) -> Any:
    """Keep the compiler from moving computations across; a pytree in and out, unchanged.

    Source: StableHLO specification, `optimization_barrier`.

    >>> import weft
    >>> weft.lax.optimization_barrier(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    leaves, tree = flatten(operand)
    return tree.unflatten(optimization_barrier_p.bind(*leaves)) if leaves else operand


create_token_p = Primitive(
    "create_token",
    abstract=lambda: TOKEN,
    batch=lambda axis, args, dims: (create_token_p.bind(), None),
    lower=lambda ctx: ctx.op("stablehlo.create_token", [], [ctx.token_type()])[0],
    own_types=True,
)


def create_token(_: object = None) -> Any:
    """Return a new token, from which an order of effects can be threaded.

    >>> from weft import lax, numpy as wnp
    >>> token = lax.create_token()
    >>> token.shape
    ()
    """
    return create_token_p.bind()


def stop_gradient(x: ArrayLike) -> Any:
    """Return the value with a zero derivative; pytrees leaf by leaf.

    >>> import weft
    >>> weft.grad(lambda x: x * weft.lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: ArrayLike) -> Any:
        aval = typeof(leaf)
        if not isinstance(aval, ShapedArray) or not dtypes.is_inexact(aval.dtype):
            return leaf
        placed = not isinstance(leaf, Tracer | float | complex | np.ndarray | np.generic)
        return leaf if placed and state.trace is EVAL else stop_gradient_p.bind(leaf)

    return tree_map(stop, x)


stop_gradient_p = Primitive(
    "stop_gradient",
    abstract=lambda x: x,
    jvp=lambda primals, tangents: (stop_gradient_p.bind(primals[0]), None),
    batch=lambda axis, args, dims: (stop_gradient_p.bind(args[0]), dims[0]),
    lower=lambda ctx, x: x,
    sharding="elementwise",
    linear=(0,),
)

# Tests: tests/ops/test_table.py
"""Functions that combine two values, as parameters of reductions: traced, recognized, applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_in_dim, reshape, squeeze
from weft.autodiff.vmap import AxisData, batch_flat, move_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.trace import Tracer, trace_to_jaxpr, typeof
from weft.core.tree import flatten
from weft.ops.joining import concatenate
from weft.ops.reduce import highest, lowest
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def halves(values: Sequence[Any]) -> tuple[list, list]:
    """Split what stands for operands and their initial values."""
    n = len(values) // 2
    return list(values[:n]), list(values[n:])


def trace_combiner(
    name: str, computation: Callable, operands: object, init_values: object
) -> tuple[list, list, Any, ClosedJaxpr]:
    """Flat operands, flat initial values, their tree, and the jaxpr of two sets of scalars."""
    flat, tree = flatten(operands)
    inits, init_tree = flatten(init_values)
    if tree != init_tree:
        raise ArgumentError(
            f"{name}: operands and init_values must have one structure, got {tree} and {init_tree}"
        )
    if not flat:
        raise ValueError(f"{name}: needs at least one operand, got {operands!r:.60}")
    avals = []
    for i, (x, init) in enumerate(zip(flat, inits, strict=True)):
        a, b = typeof(x), typeof(init)
        # Numbers take the operand's dtype, as they would in the operation itself.
        if isinstance(init, bool | int | float | complex):
            inits[i] = init = a.dtype.type(init)
            b = typeof(init)
        if a.dtype != b.dtype or b.ndim:
            raise TypeError(
                f"{name}: init value {i} must be a scalar of the operand's dtype, got "
                f"{b.str_short()} for {a.str_short()}"
            )
        if a.shape != typeof(flat[0]).shape:
            raise TypeError(
                f"{name}: operands must have one shape, got {a.str_short()} and "
                f"{typeof(flat[0]).str_short()}"
            )
        avals.append(ShapedArray((), a.dtype))
    n = len(flat)

    def run(*xs: object) -> list:
        out, out_tree = flatten(computation(tree.unflatten(xs[:n]), tree.unflatten(xs[n:])))
        if out_tree != tree:
            raise TypeError(
                f"{name}: the computation must return the structure of its arguments, {tree}, "
                f"got {out_tree}"
            )
        return out

    # The region of the operation sees two sets of scalars, and nothing else.
    jaxpr, consts = trace_to_jaxpr(run, [*avals, *avals], name)
    if any(isinstance(c, Tracer) for c in consts):
        raise TypeError(
            f"{name}: the computation closes over traced values; pass them as operands instead"
        )
    for i, (got, want) in enumerate(zip(jaxpr.out_avals, avals, strict=True)):
        if got.shape != () or got.dtype != want.dtype:
            raise TypeError(
                f"{name}: the computation must return scalars of its arguments' types; result {i} "
                f"is {got.str_short()}, expected {want.str_short()}"
            )
    return flat, inits, tree, ClosedJaxpr(jaxpr, consts)


def monoid_of(jaxpr: ClosedJaxpr) -> str | None:
    """Name the one op the combiner is, such as 'add' or 'max', applied to its arguments."""
    inner = jaxpr.jaxpr
    if len(inner.eqns) != 1 or len(inner.invars) != 2:
        return None
    eqn = inner.eqns[0]
    if set(eqn.invars) != set(inner.invars) or eqn.outvars != inner.outvars or eqn.rule_params:
        return None
    name = eqn.primitive.name
    return name if name in IDENTITIES else None


def _all_ones(dtype: np.dtype) -> Any:
    return dtype.type(True) if dtypes.is_bool(dtype) else ~dtype.type(0)


IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "add": lambda dtype: dtype.type(0),
    "mul": lambda dtype: dtype.type(1),
    "max": lowest,
    "min": highest,
    "and": _all_ones,
    "or": lambda dtype: dtype.type(0),
    "xor": lambda dtype: dtype.type(0),
}
"""The neutral element of each combiner that is a single op, by dtype."""


def combine_start(jaxpr: ClosedJaxpr, init: Any, result: Any) -> Any:
    """Return the reduction `result`, which started from the identity, started from `init` instead.

    A reduction over split dimensions starts on every device: it must start from the identity.
    """
    dtype = typeof(result).dtype
    name = monoid_of(jaxpr)
    assert name is not None
    if is_identity(init, IDENTITIES[name](dtype)):
        return result
    start = broadcast_in_dim(init, typeof(result).shape, ())
    return elementwise_combine(jaxpr, [start], [result])[0]


def is_identity(value: ArrayLike, identity: object) -> bool:
    """Return whether a known value is the identity of a monoid."""
    if isinstance(value, Tracer):
        return False
    return bool(np.array_equal(np.asarray(value), np.asarray(identity)))


def elementwise_combine(jaxpr: ClosedJaxpr, left: Sequence[Any], right: Sequence[Any]) -> list:
    """Return the combiner on arrays, element by element."""
    shape = typeof(left[0]).shape
    size = int(np.prod(shape, dtype=np.int64))
    flat = [reshape(x, (size,)) for x in (*left, *right)]
    axis = AxisData(None, size)
    outs, dims = batch_flat(lambda *xs: eval_closed(jaxpr, *xs), axis, flat, [0] * len(flat))
    return [reshape(move_dim(o, d, 0, axis), shape) for o, d in zip(outs, dims, strict=True)]


def fold(jaxpr: ClosedJaxpr, operands: Sequence[Any], axis: int) -> list:
    """Return the operands combined along one dimension by halving; slow but differentiable.

    The size along the axis must be positive; the dimension is dropped.
    """
    operands = list(operands)
    size = typeof(operands[0]).shape[axis]
    while size > 1:
        half = size // 2
        left = [slice_in_dim(x, 0, half, axis=axis) for x in operands]
        right = [slice_in_dim(x, half, 2 * half, axis=axis) for x in operands]
        combined = elementwise_combine(jaxpr, left, right)
        if size % 2:
            rest = [slice_in_dim(x, size - 1, size, axis=axis) for x in operands]
            combined = [concatenate([c, r], axis) for c, r in zip(combined, rest, strict=True)]
        operands, size = combined, half + size % 2
    return [squeeze(x, (axis,)) for x in operands]

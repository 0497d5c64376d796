"""Normalization, one-hot codes, and what stands in jax.nn beside activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import broadcast_in_dim, broadcasted_iota
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.nn.exponential_sums import log_softmax, logmeanexp, logsumexp, softmax
from weft.ops import elementwise_api as ew

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def standardize(
    x: ArrayLike,
    axis: int | Sequence[int] | None = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) along an axis (or axes).

    mean, variance: of x by default. where: elements that count in them. algorithm: "fast" takes
    the variance as E[x**2] - E[x]**2; "stable" as E[(x - E[x])**2].

    >>> import weft, numpy as np
    >>> weft.nn.standardize(np.array([1.0, 1.0], "float32"))
    Array([0., 0.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ArgumentError(f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}")
    if mean is None:
        mean = wnp.mean(x, axis, keepdims=True, where=where)
    centred = wnp.subtract(x, mean)
    if variance is None:
        if algorithm == "stable":
            variance = wnp.mean(wnp.square(centred), axis, keepdims=True, where=where)
        else:
            squares = wnp.mean(wnp.square(x), axis, keepdims=True, where=where)
            variance = wnp.maximum(wnp.subtract(squares, wnp.square(mean)), 0)
    return wnp.multiply(centred, ew.rsqrt(wnp.add(variance, epsilon)))


def one_hot(
    x: ArrayLike,
    num_classes: int,
    *,
    dtype: DTypeLike | None = None,
    axis: int | Sequence[int] | None = -1,
) -> Any:
    """Put ones where the position along a new axis equals x, else zeros (also for x out of range).

    num_classes: the new axis's size. axis: where it goes in the result; or the name of a mapped
    axis of that size, along which each member then gets its own entry.

    >>> import weft, numpy as np
    >>> weft.nn.one_hot(np.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = wnp.asarray(x)
    aval = typeof(x)
    if dtypes.is_extended(aval.dtype):
        raise ArgumentError(f"one_hot: x must be of numbers, got {aval.str_short()}")
    dtype = dtypes.canonicalize_dtype(float if dtype is None else dtype)
    num_classes = num_classes.__index__()
    if not isinstance(axis, int):
        size = lax.axis_size(axis)
        if size != num_classes:
            raise ArgumentError(
                f"one_hot: num_classes is {num_classes}, but the axis {axis!r} has size {size}"
            )
        return ew.convert(ew.eq(x, ew.convert(lax.axis_index(axis), aval.dtype)), dtype)
    axis = canonical_axis(axis, aval.ndim + 1)
    shape = (*aval.shape[:axis], num_classes, *aval.shape[axis:])
    classes = broadcasted_iota(aval.dtype, shape, axis)
    kept = tuple(d for d in range(aval.ndim + 1) if d != axis)
    return ew.convert(ew.eq(broadcast_in_dim(x, shape, kept), classes), dtype)


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: Any,
    rhs_scales: Any,
    preferred_element_type: DTypeLike | None = np.float32,
) -> Any:
    """Batched matrix product of block-scaled operands, contracted over their last dimensions.

    lhs `[B, M, K]`, rhs `[B, N, K]`: low-precision values. lhs_scales `[B, M, K / n]` and
    rhs_scales `[B, N, K / n]`: the factor of each block of n values. The result is `[B, M, N]`.

    Source: OCP Microscaling Formats (MX) specification v1.0.

    >>> import weft, numpy as np
    >>> x, s = np.ones((1, 2, 4), "float32"), np.full((1, 2, 1), 2.0, "float32")
    >>> weft.nn.scaled_matmul(x, x, s, s).tolist()
    [[[16.0, 16.0], [16.0, 16.0]]]
    """
    from weft.lax import dot_general

    names = ("lhs", "rhs", "lhs_scales", "rhs_scales")
    values = (lhs, rhs, lhs_scales, rhs_scales)
    shapes = [typeof(v).shape for v in values]
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) != 3:
            raise ArgumentError(f"scaled_matmul: {name} must have 3 dimensions, got shape {shape}")
    a, b, sa, sb = shapes
    if (a[0], a[2]) != (b[0], b[2]):
        raise ArgumentError(
            f"scaled_matmul: lhs {a} and rhs {b} must agree in the batch and the last dimension"
        )
    for name, x, s in (("lhs", a, sa), ("rhs", b, sb)):
        if x[:2] != s[:2] or not s[2] or x[2] % s[2]:
            raise ArgumentError(
                f"scaled_matmul: {name}_scales {s} must have the batch and rows of {name} {x}, and "
                "a last dimension that divides that of the values"
            )
    if sa[2] != sb[2]:
        raise ArgumentError(
            f"scaled_matmul: lhs_scales {sa} and rhs_scales {sb} have different "
            "block sizes; their last dimensions must be equal"
        )
    dtype = dtypes.canonicalize_dtype(preferred_element_type)
    x, y = (_apply_scales(v, s, dtype) for v, s in ((lhs, lhs_scales), (rhs, rhs_scales)))
    dims = (((2,), (2,)), ((0,), (0,)))
    return dot_general(x, y, dims, preferred_element_type=dtype)


def _apply_scales(values: ArrayLike, scales: ArrayLike, dtype: np.dtype) -> Any:
    """Low-precision values times the factors of their blocks, in a wider dtype."""
    shape = typeof(values).shape
    blocks = typeof(scales).shape[-1]
    grouped = wnp.reshape(wnp.asarray(values).astype(dtype), (*shape[:-1], blocks, -1))
    factors = wnp.expand_dims(wnp.asarray(scales).astype(dtype), -1)
    return wnp.reshape(wnp.multiply(grouped, factors), shape)


__all__ = [
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "one_hot",
    "scaled_matmul",
    "softmax",
    "standardize",
]

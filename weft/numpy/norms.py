# Tests: tests/ops/test_linalg.py
"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.formulas as formulas
import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import axes_of, cast, check_array, inexact, strong
from weft.numpy.decompositions import as_matrices, inv, svd
from weft.numpy.named_axes import has_names
from weft.numpy.reductions import max as max_
from weft.numpy.reductions import min as min_
from weft.numpy.reductions import sum
from weft.numpy.selection import where
from weft.numpy.shaping import expand_dims, moveaxis
from weft.numpy.value_tests import isnan

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _magnitudes(x: ArrayLike) -> Any:
    """Square absolute values."""
    return u.real(u.multiply(x, u.conjugate(x)))


def norm(
    x: ArrayLike,
    ord: object = None,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool = False,
) -> Any:
    """Return the norm of a vector or matrix: over one axis, two, or all.

    ord: for vectors any number, inf, -inf; for matrices 'fro', 'nuc', 1, -1, 2, -2, inf, -inf;
    by default the root of the sum of squares. Source: numpy.linalg.norm.

    >>> import weft
    >>> weft.numpy.linalg.norm(weft.numpy.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    check_array("linalg.norm", x)
    x = strong(inexact(x))
    aval = typeof(x)
    if axis is None and ord is None:
        return u.sqrt(sum(_magnitudes(x), keepdims=keepdims))
    axes = axes_of(tuple(axis) if isinstance(axis, Sequence) else axis, aval.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ArgumentError(
        f"weft.numpy.linalg.norm: a norm runs over one axis or two, got axes {axes} of "
        f"{aval.str_short()}"
    )


def _largest(x: Array, axis: int | Sequence[int] | None, keepdims: builtins.bool = False) -> Any:
    """Return the greatest of numbers that are not negative; of none it is 0."""
    empty = typeof(x).size == 0
    return max_(x, axis=axis, keepdims=keepdims, initial=0 if empty else None)


def _vector_norm(x: ArrayLike, ord: Array | None, axes: Any, keepdims: builtins.bool) -> Any:
    if ord is None or ord == 2:
        return u.sqrt(sum(_magnitudes(x), axis=axes, keepdims=keepdims))
    if isinstance(ord, str):
        raise ArgumentError(f"weft.numpy.linalg.norm: ord {ord!r} is for matrices, give two axes")
    size = u.absolute(x)
    if ord == np.inf:
        return max_(size, axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min_(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return cast(sum(u.not_equal(x, 0), axis=axes, keepdims=keepdims), typeof(size).dtype)
    if ord == 1:
        return sum(size, axis=axes, keepdims=keepdims)
    return formulas.power(sum(formulas.power(size, ord), axis=axes, keepdims=keepdims), 1 / ord)


def _matrix_norm(x: ArrayLike, ord: object, axes: tuple, keepdims: builtins.bool) -> Any:
    rows, columns = axes
    if ord is None or ord == "fro":
        return u.sqrt(sum(_magnitudes(x), axis=axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
        totals = sum(u.absolute(x), axis=along, keepdims=True)
        out = _largest(totals, over, True) if ord > 0 else min_(totals, axis=over, keepdims=True)
        return out if keepdims else ops.squeeze(out, axes)
    if ord in ("nuc", 2, -2):
        s = svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
        out = sum(s, axis=-1) if ord == "nuc" else _largest(s, -1) if ord == 2 else min_(s, axis=-1)
        return expand_dims(out, tuple(sorted(axes))) if keepdims else out
    raise ArgumentError(
        "weft.numpy.linalg.norm: ord of a matrix must be fro, nuc, 1, -1, 2, -2, inf or -inf, got "
        f"{ord!r}"
    )


def matrix_norm(x: ArrayLike, /, *, keepdims: builtins.bool = False, ord: object = "fro") -> Any:
    """Return the norm of matrices in the last two dimensions (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.matrix_norm(wnp.array([[1.0, -2.0], [3.0, 4.0]]), ord=1)
    Array(6., dtype=float32)
    """
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | str | Sequence[int | str] | None = None,
    keepdims: builtins.bool = False,
    ord: object = 2,
) -> Any:
    """Return the norm of vectors along axes, of all elements by default (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.vector_norm(wnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    check_array("linalg.vector_norm", x)
    x = strong(inexact(x))
    if has_names(axis):
        return _vector_norm(x, ord, axis, keepdims)
    axes = axes_of(tuple(axis) if isinstance(axis, Sequence) else axis, typeof(x).ndim)
    return _vector_norm(x, ord, axes, keepdims)


def cond(x: ArrayLike, p: ArrayLike | None = None) -> Any:
    """Return the condition number: the ratio of singular values, or norm(x, p) norm(inv(x), p).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.cond(wnp.diag(wnp.array([4.0, 0.5])))
    Array(8., dtype=float32)
    """
    a = as_matrices("cond", x)
    if 0 in typeof(a).shape[-2:]:
        raise ArgumentError(
            f"weft.numpy.linalg.cond: an empty matrix has no condition number, got "
            f"{typeof(a).str_short()}"
        )
    if p in (None, 2, -2):
        s = svd(a, compute_uv=False)
        return (
            u.true_divide(s[..., 0], s[..., -1])
            if p != -2
            else u.true_divide(s[..., -1], s[..., 0])
        )
    out = u.multiply(norm(a, ord=p, axis=(-2, -1)), norm(inv(a), ord=p, axis=(-2, -1)))
    is_number = u.logical_not(isnan(sum(a, axis=(-2, -1))))
    return where(u.logical_and(isnan(out), is_number), cast(np.inf, typeof(out).dtype), out)

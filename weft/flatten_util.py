"""weft.flatten_util: pytrees of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft.core import dtypes
from weft.core.errors import mark_difference
from weft.core.namespace import seal
from weft.core.trace import typeof
from weft.core.tree import flatten

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: object) -> tuple[Any, Callable[[Any], Any]]:
    """Join all arrays of a pytree into one vector; also return the inverse function.

    Args:
      pytree: arrays and numbers of any shapes. Their dtypes are promoted to a common one.

    Returns:
      (vector, unravel): the vector has as many elements as all arrays together, in the order of
      the leaves; unravel(v) has the structure, shapes and dtypes of `pytree`, for a v of the
      vector's shape and dtype (of any dtype, which is kept, if all leaves have the same). Both are
      differentiable.

    Raises:
      TypeError: a leaf is no array; unravel is given another dtype.
      ValueError: unravel is given another shape.

    >>> import weft
    >>> tree = {"b": weft.numpy.zeros(2), "w": weft.numpy.ones((1, 2))}
    >>> vector, unravel = weft.flatten_util.ravel_pytree(tree)
    >>> vector
    Array([0., 0., 1., 1.], dtype=float32)
    >>> unravel(vector + 1)["w"]
    Array([[2., 2.]], dtype=float32)
    """
    leaves, tree = flatten(pytree)
    avals = [typeof(x) for x in leaves]
    dtype = wnp.result_type(*leaves) if leaves else dtypes.canonicalize_dtype(float)
    ends = np.cumsum([a.size for a in avals])
    parts = [wnp.ravel(wnp.asarray(x)).astype(dtype) for x in leaves]
    vector = wnp.concatenate(parts) if parts else wnp.zeros(0, dtype)
    size = vector.size

    mixed = any(a.dtype != dtype for a in avals)

    def unravel(flat: Any) -> Any:
        flat = wnp.asarray(flat)
        aval = flat.aval
        if aval.shape != (size,):
            raise ValueError(
                f"unravel: the vector must have the shape ({size},) of the one that ravel_pytree "
                f"returned, got {aval.str_short()}"
            )
        if mixed and aval.dtype != dtype:
            want, got = dtypes.short_name(dtype), dtypes.short_name(aval.dtype)
            raise TypeError(
                "unravel: the vector must have the dtype of the one that ravel_pytree returned:\n"
                f"{mark_difference(want, got)}\nConvert it with .astype({str(dtype)!r})"
            )
        pieces = wnp.split(flat, ends[:-1]) if leaves else []
        return tree.unflatten([_leaf(p, a, mixed) for p, a in zip(pieces, avals, strict=True)])

    return vector, unravel


def _leaf(part: Any, aval: Any, mixed: bool) -> Any:
    """The part in a leaf's shape, and in its dtype if the leaves' differ."""
    part = part.reshape(aval.shape)
    if not mixed:
        return part
    if dtypes.is_complex(part.dtype) and not dtypes.is_complex(aval.dtype):
        part = part.real
    return part.astype(aval.dtype)


seal(globals())

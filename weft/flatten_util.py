"""weft.flatten_util: pytrees of arrays as one vector, and back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.core import dtypes
from weft.core.errors import mark_difference
from weft.core.namespace import seal
from weft.core.trace import typeof
from weft.core.tree import flatten

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: object) -> tuple[Any, Callable[[Any], Any]]:
    """Join all arrays of a pytree into one vector; also return the inverse function.

    Args:
      pytree: arrays and numbers of any shapes. Their dtypes are promoted to a common one.

    Returns:
      (vector, unravel): the vector has as many elements as all arrays together, in the order of
      the leaves; unravel(v) has the structure, shapes and dtypes of `pytree`, for a v of the
      vector's shape and dtype (of any dtype, which is kept, if all leaves have the same). Both are
      differentiable. Functions `unravel` of like trees are equal and hash the same.

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
    parts = [wnp.ravel(wnp.asarray(x)).astype(dtype) for x in leaves]
    vector = wnp.concatenate(parts) if parts else wnp.zeros(0, dtype)
    mixed = any(a.dtype != dtype for a in avals)
    kept = (tuple(a.dtype for a in avals), dtype) if mixed else None
    return vector, _Unravel(tree, tuple(a.shape for a in avals), kept)


@dataclass(frozen=True, slots=True)
class _Unravel:
    """The inverse: equal for trees of the same structure and shapes, as static data has to be."""

    tree: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    mixed: tuple[tuple[Any, ...], Any] | None  # the leaves' dtypes and the vector's, if they differ

    def __call__(self, flat: Any) -> Any:
        flat = wnp.asarray(flat)
        aval = flat.aval
        ends = list(itertools.accumulate(map(math.prod, self.shapes)))
        size = ends[-1] if ends else 0
        if aval.shape != (size,):
            raise ValueError(
                f"unravel: the vector must have the shape ({size},) of the one that ravel_pytree "
                f"returned, got {aval.str_short()}"
            )
        pieces = wnp.split(flat, ends[:-1]) if ends else []
        leaves = [p.reshape(s) for p, s in zip(pieces, self.shapes, strict=True)]
        if self.mixed is None:
            return self.tree.unflatten(leaves)
        wanted, dtype = self.mixed
        if aval.dtype != dtype:
            want, got = dtypes.short_name(dtype), dtypes.short_name(aval.dtype)
            raise TypeError(
                "unravel: the vector must have the dtype of the one that ravel_pytree returned:\n"
                f"{mark_difference(want, got)}\nConvert it with .astype({str(dtype)!r})"
            )
        return self.tree.unflatten([_cast(x, d) for x, d in zip(leaves, wanted, strict=True)])


def _cast(leaf: Any, dtype: Any) -> Any:
    if dtypes.is_complex(leaf.dtype) and not dtypes.is_complex(dtype):
        leaf = leaf.real
    return leaf.astype(dtype)


seal(globals())

# Tests: tests/ops/test_control.py
"""map and associative_scan: loops expressed by scan and by parallel halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.vmap_api import vmap
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import reshape
from weft.core.boundary import api_boundary
from weft.core.errors import ArgumentError
from weft.core.ref import AbstractRef
from weft.core.trace import typeof
from weft.core.tree import flatten, leaf_names, tree_map
from weft.ops.control.common import check_function, derived
from weft.ops.control.scan import leading_size, scan
from weft.ops.joining import concatenate, rev
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.typing import ArrayLike


@api_boundary
def map(f: Callable, xs: object, *, batch_size: int | None = None) -> Any:
    """Apply f to every slice of xs along the leading axis, one after the other.

    As vmap, with the memory of one call. batch_size: apply f to so many slices at a time by vmap,
    0 for all.

    >>> import weft
    >>> weft.lax.map(lambda x: x * 2, weft.numpy.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    check_function("map", "f", f)
    leaves, tree = flatten(xs)
    if not leaves:
        raise ValueError(
            "map: xs has no arrays, so there is nothing to map over; give at least one"
        )
    n = leading_size(leaves, tree, None, "map")
    if batch_size is None:
        return scan(derived(f, "map", _Step), None, xs)[1]
    if not isinstance(batch_size, int | np.integer) or batch_size < 0:
        raise ArgumentError(f"map: batch_size must be an int of at least 0, got {batch_size!r}")
    batch_size = int(batch_size) or max(n, 1)
    whole = n // batch_size * batch_size
    parts = []
    if whole:

        def rows(x: ArrayLike) -> Any:
            shape = typeof(x).shape
            head = slice_in_dim(x, 0, whole) if whole < n else x
            return reshape(head, (whole // batch_size, batch_size, *shape[1:]))

        out = scan(derived(f, "map batches", lambda g: _Step(vmap(g))), None, tree_map(rows, xs))[1]
        parts.append(tree_map(lambda y: reshape(y, (whole, *typeof(y).shape[2:])), out))
    if whole < n:
        parts.append(vmap(f)(tree_map(lambda x: slice_in_dim(x, whole, n), xs)))
    if not n:
        return vmap(f)(xs)
    if len(parts) == 1:
        return parts[0]
    return tree_map(lambda a, b: concatenate([a, b], 0), *parts)


class _Step:
    """f as the body of a scan without a carry; see `derived`."""

    __slots__ = ("__weakref__", "f")

    def __init__(self, f: Callable) -> None:
        self.f = f

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "f")

    def __call__(self, carry: None, x: object) -> tuple:
        return None, self.f(x)


@api_boundary
def associative_scan(fn: Callable, elems: object, reverse: bool = False, axis: int = 0) -> Any:
    """Return all prefix results of an associative operation along an axis, in logarithmic depth.

    Args:
      fn: an associative function of two pytrees like `elems`, applied to whole slices at once
        (it must work elementwise along `axis`).
      elems: a pytree of arrays of one size along `axis`.
      reverse: suffixes instead of prefixes.

    Source: Blelloch, "Prefix sums and their applications" (1990).

    >>> import weft
    >>> weft.lax.associative_scan(weft.lax.add, weft.numpy.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    check_function("associative_scan", "fn", fn)
    leaves, tree = flatten(elems)
    if not leaves:
        return elems
    names = leaf_names(elems, "elems")
    for x, n in zip(leaves, names, strict=True):
        if isinstance(typeof(x), AbstractRef):
            raise TypeError(f"associative_scan: {n} is a Ref; scan its value, ref[...]")
    ranks = [typeof(x).ndim for x in leaves]
    dims = [
        canonical_axis(axis, r, f"associative_scan: axis of {n}")
        for r, n in zip(ranks, names, strict=True)
    ]
    sizes = [typeof(x).shape[d] for x, d in zip(leaves, dims, strict=True)]
    if len(set(sizes)) > 1:
        listing = ", ".join(f"{n} has {s}" for n, s in zip(names, sizes, strict=True))
        raise ValueError(f"associative_scan: sizes along axis {axis} must be equal: {listing}")
    # A scan from the end is one from the start of what is turned around.
    if reverse:
        leaves = [rev(x, (d,)) for x, d in zip(leaves, dims, strict=True)]

    def combine(a: list, b: list) -> list:
        out, out_tree = flatten(fn(tree.unflatten(a), tree.unflatten(b)))
        for x, y, name in zip(out, a, names, strict=False):
            if typeof(x).shape != typeof(y).shape:
                raise ValueError(
                    "associative_scan: fn must work element by element along the axis: of slices "
                    f"of {name} of shape {typeof(y).shape} it gave shape {typeof(x).shape}"
                )
        if out_tree != tree:
            raise TypeError(
                f"associative_scan: fn must return the structure of elems, {tree}, got {out_tree}"
            )
        return out

    def every_other(xs: list, start: int, stop: int) -> list:
        return [_strided(x, d, start, stop) for x, d in zip(xs, dims, strict=True)]

    # Blelloch's recursion: about 2 n applications in 2 log n steps.
    def prefixes(xs: list, n: int) -> list:
        """Prefix results by halving: pairs are combined, then the odd places are known."""
        if n < 2:
            return xs
        pairs = combine(every_other(xs, 0, n - 1), every_other(xs, 1, n))
        odd = prefixes(pairs, n // 2)
        before = (
            odd if n % 2 else [_range(x, d, 0, n // 2 - 1) for x, d in zip(odd, dims, strict=True)]
        )
        first = [_range(x, d, 0, 1) for x, d in zip(xs, dims, strict=True)]
        if n > 2:
            rest = combine(before, every_other(xs, 2, n))
            even = [concatenate([a, b], d) for a, b, d in zip(first, rest, dims, strict=True)]
        else:
            even = first
        return [_interleave(a, b, d) for a, b, d in zip(even, odd, dims, strict=True)]

    result = prefixes(leaves, sizes[0])
    if reverse:
        result = [rev(x, (d,)) for x, d in zip(result, dims, strict=True)]
    return tree.unflatten(result)


def _strided(x: ArrayLike, dim: int, start: int, stop: int) -> Any:
    return slice_in_dim(x, start, stop, 2, axis=dim)


def _range(x: Any, dim: int, start: int, stop: int) -> Any:
    return slice_in_dim(x, start, stop, axis=dim)


def _interleave(even: object, odd: object, dim: int) -> Any:
    """even[0], odd[0], even[1], … along a dimension; even may be one longer."""
    a, b = typeof(even).shape, typeof(odd).shape
    n = b[dim]
    head = even if a[dim] == n else _range(even, dim, 0, n)

    def column(x: object) -> Any:
        return reshape(x, (*b[:dim], n, 1, *b[dim + 1 :]))

    both = reshape(
        concatenate([column(head), column(odd)], dim + 1), (*b[:dim], 2 * n, *b[dim + 1 :])
    )
    return both if a[dim] == n else concatenate([both, _range(even, dim, n, n + 1)], dim)


__all__ = ["associative_scan", "map"]

"""Refs seen in another shape, order or dtype: an index into the view, as one into the ref below.

Nothing is copied and no op knows of views: what is read is put into the view's form afterwards,
what is written into the ref's before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcasted_iota, reshape, transpose
from weft.core import dtypes
from weft.core.ref import At, Indexer, Pick, Window, whole
from weft.core.shapes import dimension_groups
from weft.core.trace import typeof
from weft.ops.as_array import as_array
from weft.ops.dtype_casts import bitcast_convert_type
from weft.ops.elementwise_api import div, rem
from weft.ops.promote import broadcast_to
from weft.refs.indexing import compose

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Shape = tuple[int, ...]
Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""From the value below to the view's, and back."""


@dataclass(frozen=True, slots=True)
class Part:
    """The selection of an index; `count` operands belong to it. beyond: as of an index."""

    shape: Shape
    dtype: Any
    indexer: Indexer
    count: int
    beyond: str = ""


@dataclass(frozen=True, slots=True)
class Reshaped:
    shape: Shape
    dtype: Any


@dataclass(frozen=True, slots=True)
class Transposed:
    shape: Shape
    dtype: Any
    permutation: Shape


@dataclass(frozen=True, slots=True)
class Bitcast:
    shape: Shape
    dtype: Any


View = Part | Reshaped | Transposed | Bitcast


# Making views ------------------------------------------------------------------------------------


def reshaped(shape: Shape, dtype: np.dtype, sizes: Sequence[Any]) -> Reshaped:
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    new = [int(n) for n in sizes]
    product = math.prod(n for n in new if n != -1)
    if new.count(-1) == 1 and product and math.prod(shape) % product == 0:
        new[new.index(-1)] = math.prod(shape) // product
    if -1 in new or math.prod(new) != math.prod(shape):
        raise ValueError(
            f"ref.reshape: a ref of shape {shape} has {math.prod(shape)} elements and cannot be "
            f"seen in the shape {tuple(sizes)}"
        )
    return Reshaped(tuple(new), dtype)


def transposed(shape: Shape, dtype: np.dtype, axes: Sequence[Any]) -> Transposed:
    if len(axes) == 1 and isinstance(axes[0], tuple | list):
        axes = axes[0]
    rank = len(shape)
    order = tuple(range(rank))[::-1]
    if axes:
        order = tuple(int(a) + rank if int(a) < 0 else int(a) for a in axes)
    if sorted(order) != list(range(rank)):
        raise ValueError(
            f"ref.transpose: {tuple(axes)} is not a permutation of the {rank} dimensions of the ref"
        )
    return Transposed(tuple(shape[d] for d in order), dtype, order)


def bitcast(shape: Shape, dtype: Any, new: Any) -> Bitcast:
    """Reinterpret the bits; of another width, the last dimension but one grows or shrinks."""
    new = dtypes.canonicalize_dtype(new)
    if not _has_whole_bytes(dtype) or not _has_whole_bytes(new):
        raise TypeError(
            f"ref.bitcast: {dtypes.short_name(dtype)} as {dtypes.short_name(new)}: only floats and "
            "integers of whole bytes have bits that can be seen as another number's"
        )
    old_size, size = dtype.itemsize, new.itemsize
    if old_size == size:
        return Bitcast(shape, new)
    if len(shape) < 2 or shape[-2] * old_size % size:
        raise ValueError(
            f"ref.bitcast: numbers of {old_size} bytes become numbers of {size} along the last "
            f"dimension but one, which must be divisible; the ref has the shape {shape}"
        )
    return Bitcast((*shape[:-2], shape[-2] * old_size // size, shape[-1]), new)


def _has_whole_bytes(dtype: Any) -> bool:
    if dtypes.is_extended(dtype) or dtypes.is_bool(dtype):
        return False
    if dtypes.is_integer(dtype):
        return bool(dtypes.iinfo(dtype).bits == 8 * dtype.itemsize)
    return dtypes.is_float(dtype)


# Indices -----------------------------------------------------------------------------------------


def below(
    view: View, under: tuple[Shape, Any], indexer: Indexer, operands: Sequence[Any]
) -> tuple[Indexer, list, Form | None]:
    """Translate an index into a view to one into the viewed ref of shape and dtype `under`."""
    match view:
        case Reshaped():
            return _below_reshaped(view.shape, under[0], indexer, operands)
        case Transposed():
            return _below_transposed(view.permutation, indexer, operands)
        case Bitcast():
            return _below_bitcast(view, under, indexer, operands)
    raise AssertionError(view)


def _axes(indexer: Indexer) -> list[Any]:
    """Return each result dimension's origin: a dimension's number, or a part of the block."""
    axes: list[Any] = [d for d, at in enumerate(indexer.dims) if isinstance(at, Window)]
    if indexer.has_picks:
        axes[indexer.block_position : indexer.block_position] = [
            ("block", k) for k in range(len(indexer.block))
        ]
    return axes


def _below_transposed(
    permutation: Shape, indexer: Indexer, operands: Sequence[Any]
) -> tuple[Indexer, list, Form | None]:
    positions = dict(zip(permutation, indexer.attach(operands), strict=True))
    dims = [positions[d] for d in range(len(permutation))]
    lower = Indexer(tuple(d for d, _ in dims), indexer.block, 0)
    seen = [a if isinstance(a, tuple) else permutation[a] for a in _axes(indexer)]
    axes = _axes(lower)
    order = tuple(axes.index(a) for a in seen)
    form = None
    if order != tuple(range(len(order))):
        back = tuple(np.argsort(order).tolist())
        form = (lambda x: transpose(x, order), lambda x: transpose(x, back))
    return lower, [at for d, at in dims if d.operands], form


def _below_reshaped(
    shape: Shape, old: Shape, indexer: Indexer, operands: Sequence[Any]
) -> tuple[Indexer, list, Form | None]:
    windows = _by_windows(shape, old, indexer, operands)
    lower, positions = _by_picks(shape, old, indexer, operands) if windows is None else windows
    form = None
    if lower.shape != indexer.shape:
        form = (lambda x: reshape(x, indexer.shape), lambda x: reshape(x, lower.shape))
    return lower, positions, form


def _by_windows(
    shape: Shape, old: Shape, indexer: Indexer, operands: Sequence[Any]
) -> tuple[Indexer, list] | None:
    """Return the index where each part of it is one window, or None."""
    if 0 in shape:
        return whole(old), []
    pairs = indexer.attach(operands)
    dims: list[Any] = [(Window(0, 1), None)] * len(old)
    if indexer.has_picks:
        return None
    for old_dims, new_dims in dimension_groups(old, shape):
        parts = [pairs[d] for d in new_dims]
        if all(at == Window(0, shape[d]) for (at, _), d in zip(parts, new_dims, strict=True)):
            for d in old_dims:
                dims[d] = (Window(0, old[d]), None)
        elif len(old_dims) == 1:
            window = _one_window([shape[d] for d in new_dims], parts)
            if window is None:
                return None
            dims[old_dims[0]] = window
        else:
            return None
    lower = Indexer(tuple(d for d, _ in dims))
    return lower, [at for d, at in dims if d.operands]


def _one_window(shape: list[int], parts: list[tuple[Any, Any]]) -> tuple[Any, Any] | None:
    """Return the window of one dimension that positions and windows of its parts are."""
    start: Any = 0
    size, stride = 1, 1
    step = math.prod(shape)
    several = False  # whether a window came before: what follows must be whole
    for n, (at, position) in zip(shape, parts, strict=True):
        step //= n
        is_window = isinstance(at, Window)
        if several:
            if at != Window(0, n):
                return None
            size *= n
            continue
        start = _added(start, position, step)
        if is_window:
            several = True
            size, stride = at.size, at.stride
            if stride != 1 and step != 1:
                return None
    static = isinstance(start, int)
    first = start if static else None
    return Window(first, size, stride), None if static else start


def _added(start: Any, position: Any, step: int) -> Any:
    if isinstance(position, int):
        position *= step
        return start + position if isinstance(start, int) else start + np.int32(position)
    position = _int32(position) * np.int32(step)
    if isinstance(start, int):
        return position + np.int32(start) if start else position
    return start + position


def _int32(position: ArrayLike) -> Any:
    return np.int32(position) if isinstance(position, int) else as_array(position).astype("int32")


def _by_picks(
    shape: Shape, old: Shape, indexer: Indexer, operands: Sequence[Any]
) -> tuple[Indexer, list]:
    """Read or write every element at its own position."""
    result = indexer.shape
    axes = _axes(indexer)
    flat: Any = broadcast_to(np.int32(0), result)
    step = math.prod(shape)
    for d, (at, position) in enumerate(indexer.attach(operands)):
        step //= max(shape[d], 1)
        if isinstance(at, Pick):
            k = indexer.block_position
            order = [*range(k, k + len(indexer.block))]
            spread = [1] * len(result)
            for axis in order:
                spread[axis] = result[axis]
            position_along: Any = reshape(_int32(position), tuple(spread))
        else:
            position_along = _int32(position)
            if isinstance(at, Window):
                number = broadcasted_iota("int32", result, axes.index(d))
                position_along = position_along + number * np.int32(at.stride)
        flat = flat + broadcast_to(position_along, result) * np.int32(step)
    places = []
    step = math.prod(old)
    for n in old:
        step //= n
        places.append(rem(div(flat, np.int32(step)), np.int32(n)))
    return Indexer((Pick(),) * len(old), result, 0), places


def _below_bitcast(
    view: Bitcast, under: tuple[Shape, Any], indexer: Indexer, operands: Sequence[Any]
) -> tuple[Indexer, list, Form | None]:
    old, new = under[1], view.dtype
    if old.itemsize == new.itemsize:
        return indexer, list(operands), (_cast(new), _cast(old))
    # A row of wider elements is several rows of narrower ones: only whole ones can be addressed.
    pairs = indexer.attach(operands)
    at, position = pairs[-2]
    many = max(old.itemsize, new.itemsize) // min(old.itemsize, new.itemsize)
    narrower = new.itemsize < old.itemsize
    aligned = isinstance(at, Window) and at.stride == 1
    if narrower:
        aligned = aligned and at.start is not None and not (at.start % many or at.size % many)
    else:
        aligned = aligned or isinstance(at, At)
    if indexer.has_picks or not aligned:
        raise ValueError(
            f"the rows (the last dimension but one) of a ref of {dtypes.short_name(old)} that is "
            f"seen as {dtypes.short_name(new)} are read and written in slices of step 1"
            + (f" that begin and end at multiples of {many}" if narrower else "")
            + "; take such a slice and index its value"
        )
    if narrower:
        pairs[-2] = (Window(at.start // many, at.size // many), None)
    else:
        start = _added(0, position, many)
        size = many * (at.size if isinstance(at, Window) else 1)
        static = isinstance(start, int)
        pairs[-2] = (Window(start if static else None, size), None if static else start)
    lower = Indexer(tuple(d for d, _ in pairs))
    axis = sum(isinstance(d, Window) for d, _ in pairs[:-2])  # of the rows, in what is read

    # Parts of an element lie along a row of the narrower type, not side by side.
    def widen(x: Any) -> Any:
        _no_mask(x)
        parts = reshape(x, (*x.shape[:axis], -1, many, *x.shape[axis + 1 :]))
        order = [d for d in range(parts.ndim) if d != axis + 1]
        return bitcast_convert_type(transpose(parts, (*order, axis + 1)), max(old, new, key=_size))

    def narrow(x: Any) -> Any:
        _no_mask(x)
        parts = bitcast_convert_type(x, min(old, new, key=_size))
        last = parts.ndim - 1
        order = [*range(axis + 1), last, *range(axis + 1, last)]
        return reshape(transpose(parts, order), (*x.shape[:axis], -1, *x.shape[axis + 1 :]))

    def out(x: object) -> Any:
        return narrow(x) if narrower else reshape(widen(x), indexer.shape)

    def back(x: object) -> Any:
        wide = (*lower.shape[:axis], lower.shape[axis] // many, *lower.shape[axis + 1 :])
        return widen(x) if narrower else narrow(reshape(x, wide))

    return lower, [at for d, at in pairs if d.operands], (out, back)


def _size(dtype: np.dtype) -> int:
    return dtype.itemsize


def _cast(dtype: np.dtype) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        return x if dtypes.is_bool(typeof(x).dtype) else bitcast_convert_type(x, dtype)

    return cast


def _no_mask(x: object) -> None:
    if dtypes.is_bool(typeof(x).dtype):
        raise ValueError("no mask hides parts of a ref that is seen in a dtype of another width")


def resolve(
    views: Sequence[View],
    base: tuple[Shape, Any],
    indexer: Indexer,
    operands: Sequence[Any],
    view_operands: Sequence[Any],
) -> tuple[Indexer, list, list[Form]]:
    """Return an index into the last of several views, as one into the ref below the first.

    base: the shape and dtype there. view_operands: those of the views.
    Forms are in the order in which what is read passes them.
    """
    forms: list[Form] = []
    kinds = [base, *((v.shape, v.dtype) for v in views)]
    rest, current = list(view_operands), list(operands)
    for k in range(len(views) - 1, -1, -1):
        view = views[k]
        if isinstance(view, Part):
            operands_of_view = rest[len(rest) - view.count :]
            rest = rest[: len(rest) - view.count]
            indexer, current = compose(view.indexer, operands_of_view, indexer, current)
            continue
        indexer, current, form = below(view, kinds[k], indexer, current)
        if form is not None:
            forms.insert(0, form)
    return indexer, current, forms

"""NumPy indices of refs: `pl.ds`, and the parsing of an index into an `Indexer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_shapes, reshape
from weft.core import dtypes
from weft.core.errors import BadIndexError
from weft.core.ref import At, Indexer, Pick, Window
from weft.core.trace import Tracer, is_array_like, typeof
from weft.ops.elementwise_api import add, lt, select
from weft.ops.promote import broadcast_to

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


class Slice:
    """`size` positions of a dimension from `start` on, `stride` apart; start may be traced."""

    __slots__ = ("size", "start", "stride")

    def __init__(self, start: ArrayLike, size: int, stride: int = 1) -> None:
        self.start = start
        self.size = size
        self.stride = stride

    def __repr__(self) -> str:
        step = f", {self.stride}" if self.stride != 1 else ""
        return f"ds({self.start!r}, {self.size}{step})"


def ds(start: ArrayLike, size: int | None = None, stride: int | None = None) -> Slice:
    """Return a window of a dimension of a ref or an array: a static size, a start perhaps traced.

    In an array a window that reaches out of bounds is moved into them when it is read; an update
    there is dropped.

    start: an integer, a traced int scalar, or a Python slice (then nothing else is given). size:
    a Python int. With one integer argument, ds(n) is the first n positions, as slice(n).
    stride: the step, a Python int of at least 1.

    Raises TypeError if size or stride is not a Python int, ValueError if it is negative.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.arange(8))
    >>> ref[weft.pallas.ds(2, 3)]
    Array([2, 3, 4], dtype=int32)
    >>> weft.numpy.arange(8).at[weft.ds(2, 3)].set(0)
    Array([0, 1, 0, 0, 0, 5, 6, 7], dtype=int32)
    """
    if isinstance(start, slice):
        if start.stop is None:
            raise ValueError(f"ds: {start} has no stop; give ds(start, size)")
        first = start.start or 0
        step = start.step or 1
        return ds(first, max(0, -(-(start.stop - first) // step)), step)
    if size is None:
        start, size = 0, start
    for name, value, least in (("size", size, 0), ("stride", 1 if stride is None else stride, 1)):
        if isinstance(value, Tracer) or not hasattr(value, "__index__"):
            raise TypeError(
                f"ds: {name} must be a Python int, known while tracing, got {value!r:.80}; only "
                "the start may be traced"
            )
        if value.__index__() < least:
            raise ValueError(f"ds: {name} must be at least {least}, got {value}")
    return Slice(start, size.__index__(), 1 if stride is None else stride.__index__())


class Index:
    """A parsed index: the indexer and its operands, and what is done to the value besides.

    reverse: dimensions of the result that count backwards. new: dimensions of size 1 that None
    adds, in the final result. shape: the final result's; inner: without the new dimensions.
    forms: what is done before, for views (`weft.refs.views`). beyond: where a window reaches
    outside of the ref, which takes a mask.
    """

    __slots__ = ("beyond", "forms", "indexer", "inner", "new", "operands", "reverse", "shape")

    def __init__(
        self, indexer: Indexer, operands: list, reverse: tuple[int, ...], new: tuple[int, ...]
    ) -> None:
        self.indexer = indexer
        self.operands = operands
        self.reverse = reverse
        self.new = new
        self.beyond = ""
        self.forms: Sequence[tuple[Any, Any]] = ()
        self.inner = indexer.shape
        shape = list(self.inner)
        for d in new:
            shape.insert(d, 1)
        self.shape = tuple(shape)


def parse_index(shape: Shape, index: object) -> Index:
    """Return the index of a ref of this shape; IndexError or TypeError names the part."""
    items = _expand(shape, index if index.__class__ is tuple else (index,))
    beyond = _beyond(shape, items)
    grid = _grid(shape, items, beyond) if beyond else []
    dims: list[Any] = []
    operands: list[Any] = []
    arrays: list[tuple[int, Any]] = []  # (place among operands, array)
    kinds: list[str] = []  # of the result: 'new', 'dim', 'block'
    backwards: list[bool] = []
    for item in items:
        if item is None:
            kinds.append("new")
            backwards.append(False)
            continue
        n = shape[len(dims)]
        if grid and isinstance(item, slice | Slice):
            positions = grid.pop(0)
            arrays.append((len(operands), positions))
            operands.append(positions)
            dims.append(Pick())
            kinds.append("block")
            backwards.append(False)
        elif isinstance(item, slice):
            window, back = _slice(item, n)
            dims.append(window)
            kinds.append("dim")
            backwards.append(back)
        elif item.__class__ is Slice:
            dims.append(_window(item, operands))
            kinds.append("dim")
            backwards.append(False)
        elif hasattr(item, "__index__") and not isinstance(item, Tracer) and not np.ndim(item):
            dims.append(At(_position(item.__index__(), n, len(dims))))
        else:
            aval = typeof(item)
            if not dtypes.is_integer(aval.dtype):
                raise TypeError(
                    f"an index into a Ref must be integers, slices, pl.ds(...), None or ..., got "
                    f"{aval.str_short()}; convert it with .astype('int32')"
                )
            if isinstance(item, np.ndarray | np.generic):  # known now: checked, counted from 0
                item = _positions(np.asarray(item), n, len(dims))
            if not aval.shape:
                dims.append(At(None))
            else:
                arrays.append((len(operands), item))
                dims.append(Pick())
                kinds.append("block")
                backwards.append(False)
            operands.append(item)
    # Index arrays broadcast together to a block of dimensions of the result.
    block: Shape = ()
    if arrays:
        block = broadcast_shapes(*(typeof(a).shape for _, a in arrays))
        for k, a in arrays:
            operands[k] = broadcast_to(a, block)
    # NumPy's rule: the block stands where adjacent arrays are, else in front.
    advanced = [i for i, d in enumerate(_no_new(items)) if _is_advanced(d)]
    together = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
    block_at = 0
    if advanced and arrays and together:
        block_at = sum(d.__class__ is Window for d in dims[: advanced[0]])
    in_front = bool(arrays) and not together
    parsed = _finish(dims, block, block_at, operands, kinds, backwards, in_front)
    parsed.beyond = beyond
    return parsed


def _beyond(shape: Shape, items: Sequence[Any]) -> str:
    """Return which window surely reaches outside of the ref, or an empty string."""
    for dim, item in enumerate(_no_new(items)):
        if item.__class__ is not Slice:
            continue
        n = shape[dim]
        span = (item.size - 1) * item.stride + 1 if item.size else 0
        start: Any = item.start
        static = hasattr(start, "__index__") and not isinstance(start, Tracer)
        first = start.__index__() if static else 0
        if first < 0 or first + span > n:
            return (
                f"{item!r} reaches outside of dimension {dim} of size {n}; a window must lie "
                "inside (mask what lies outside with pl.load(mask=...))"
            )
    return ""


def _grid(shape: Shape, items: Sequence[Any], beyond: str) -> list:
    """Return the positions of all windows as index arrays, each along a dimension of its own."""
    windows = [(n, i) for n, i in zip(shape, _no_new(items), strict=True) if not _is_advanced(i)]
    if len(windows) + sum(not np.ndim(i) for i in _no_new(items)) < len(shape) or None in items:
        raise IndexError(beyond)
    grid: list[Any] = []
    for n, item in windows:
        if isinstance(item, slice):
            positions: Any = np.arange(n, dtype=np.int32)[item]
        else:
            positions = np.arange(item.size, dtype=np.int32) * np.int32(item.stride)
            start = item.start
            if isinstance(start, Tracer) or not hasattr(start, "__index__"):
                positions = add(start, positions.astype(typeof(start).dtype))
            else:
                positions = positions + np.int32(start.__index__())
        sizes = [1] * len(windows)
        sizes[len(grid)] = typeof(positions).shape[0]
        grid.append(reshape(positions, sizes))
    return grid


def _finish(
    dims: list,
    block: Shape,
    block_at: int,
    operands: list,
    kinds: list[str],
    backwards: list[bool],
    in_front: bool,
) -> Index:
    new: list[int] = []
    reverse: list[int] = []
    at = len(block) if in_front else 0  # in the final result
    plain = at  # in the indexer's result
    placed = in_front
    for kind, back in zip(kinds, backwards, strict=True):
        if kind == "new":
            new.append(at)
            at += 1
        elif kind == "dim":
            if back:
                reverse.append(plain)
            at += 1
            plain += 1
        elif not placed:
            at += len(block)
            plain += len(block)
            placed = True
    return Index(Indexer(tuple(dims), block, block_at), operands, tuple(reverse), tuple(new))


def _no_new(items: Sequence[Any]) -> list:
    return [i for i in items if i is not None]


def _is_advanced(item: ArrayLike | slice) -> bool:
    """Return the parts of an index that broadcast as NumPy's index arrays: arrays and scalars."""
    return not isinstance(item, slice | Slice)


def _expand(shape: Shape, items: Sequence[Any]) -> list:
    """Return the index with Ellipsis and boolean arrays replaced, one entry for each dimension."""
    out: list[Any] = []
    for item in items:
        if isinstance(item, bool | np.bool_):
            raise TypeError("a boolean scalar is not an index of a Ref; use pl.load(mask=...)")
        if isinstance(item, list):
            item = np.asarray(item)
        if item is not None and item is not Ellipsis and not isinstance(item, slice | Slice):
            if not is_array_like(item) and not hasattr(item, "__index__"):
                raise BadIndexError(
                    "an index into a Ref consists of integers, slices, pl.ds(...), integer arrays, "
                    f"None and ..., got {type(item).__name__} {item!r:.80}"
                )
            if hasattr(item, "dtype") and dtypes.is_bool(item.dtype):
                if isinstance(item, Tracer):
                    raise TypeError(
                        "a boolean array that is traced cannot index a Ref: the shape would depend "
                        "on its values. Use pl.load(ref, index, mask=mask, other=...) or "
                        "pl.store(ref, index, value, mask=mask)"
                    )
                out += [p.astype(np.int32) for p in np.nonzero(np.asarray(item))]
                continue
        out.append(item)
    dots = [i for i, item in enumerate(out) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    used = sum(item is not None and item is not Ellipsis for item in out)
    if used > len(shape):
        raise BadIndexError(
            f"too many indices: the Ref has {len(shape)} dimensions, but {used} were indexed"
        )
    rest = [slice(None)] * (len(shape) - used)
    if dots:
        return out[: dots[0]] + rest + out[dots[0] + 1 :]
    return out + rest


def _slice(item: slice, n: int) -> tuple[Window, bool]:
    """Return the window of a Python slice, and whether it is read backwards."""
    for bound in (item.start, item.stop, item.step):
        if isinstance(bound, Tracer):
            raise TypeError(
                "the bounds of a slice of a Ref must be Python ints, got a traced value; use "
                "pl.ds(start, size), whose start may be traced"
            )
    positions = range(*item.indices(n))
    if not positions:
        return Window(0, 0), False
    if positions.step > 0:
        return Window(positions[0], len(positions), positions.step), False
    return Window(positions[-1], len(positions), -positions.step), True


def _window(item: Slice, operands: list) -> Window:
    start = item.start
    if isinstance(start, Tracer) or not hasattr(start, "__index__"):
        aval = typeof(start)
        if aval.shape or not dtypes.is_integer(aval.dtype):
            raise TypeError(f"ds: start must be an integer scalar, got {aval.str_short()}")
        operands.append(start)
        return Window(None, item.size, item.stride)
    return Window(start.__index__(), item.size, item.stride)


def _positions(indices: np.ndarray, n: int, dim: int) -> Any:
    """Known indices, counted from the start; at least 32 bits wide, as their dimension may need."""
    indices = indices.astype(np.int64 if indices.dtype.itemsize == 8 else np.int32)
    outside = indices[(indices < -n) | (indices >= n)]
    if outside.size:
        raise BadIndexError(f"index {outside[0]} is out of bounds for dimension {dim} of size {n}")
    return np.where(indices < 0, indices + n, indices)


def _position(i: int, n: int, dim: int) -> int:
    if not -n <= i < n:
        raise BadIndexError(f"index {i} is out of bounds for dimension {dim} of size {n}")
    return i + n if i < 0 else i


# Views -------------------------------------------------------------------------------------------


def compose(
    outer: Indexer, outer_operands: Sequence[Any], inner: Indexer, more: Sequence[Any]
) -> tuple[Indexer, list]:
    """Return the index `inner` of the part that `outer` selects, as one index."""
    if inner.is_whole(outer.shape):
        return outer, list(outer_operands)
    if outer.has_picks:
        raise TypeError(
            "ref.at[...] with an index array cannot be indexed further; put both indices into one"
        )
    dims: list[Any] = []
    operands: list[Any] = []
    steps = iter(inner.attach(more))
    for d, at in outer.attach(outer_operands):
        if d.__class__ is At:
            dims.append(d)
            if d.index is None:
                operands.append(at)
            continue
        e, position = next(steps)
        if e.__class__ is not Window and not isinstance(position, int):
            position = _from_start(position, d.size)
        if e.__class__ is Pick:
            dims.append(e)
            operands.append(_affine(at, d.stride, position))
            continue
        first = _affine(at, d.stride, position)
        static = isinstance(first, int)
        if not static:
            operands.append(first)
        if e.__class__ is At:
            dims.append(At(first if static else None))
        else:
            dims.append(Window(first if static else None, e.size, d.stride * e.stride))
    return Indexer(tuple(dims), inner.block, inner.block_position), operands


def _from_start(position: Any, size: int) -> Any:
    """Traced indices of a view, those that count from its end counted from its start."""
    dtype = typeof(position).dtype
    if not dtypes.is_signed(dtype):
        return position
    return select(lt(position, dtype.type(0)), add(position, dtype.type(size)), position)


def _affine(start: ArrayLike, stride: int, position: int) -> Any:
    """start + stride * position, in the dtype of what is traced."""
    if isinstance(position, int):
        offset = stride * position
        if isinstance(start, int):
            return start + offset
        return start + typeof(start).dtype.type(offset) if offset else start
    if stride != 1:
        position = position * typeof(position).dtype.type(stride)
    if isinstance(start, int):
        return position + typeof(position).dtype.type(start) if start else position
    return position + start.astype(typeof(position).dtype)

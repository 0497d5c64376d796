# Tests: tests/numpy/test_indexing.py
"""Plans: what a NumPy index does to arrays of one shape, worked out once and cached.

The static structure of an index (ints, slices, None, Ellipsis, and the types of index arrays)
together with the array's shape determines a `Plan`: static slices and a reshape where that is
enough, a dynamic slice for traced scalars, a gather for index arrays. Plans are cached, and so are
the compiled functions that run them eagerly.

Source: NumPy's user guide, "Indexing on ndarrays".
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_shapes, expand_dims
from weft.core import dtypes, errors
from weft.core.aval import ShapedArray
from weft.core.caches import clearable
from weft.core.errors import BadIndexError
from weft.core.trace import Tracer, array_method, typeof
from weft.driver.jit import jit
from weft.numpy.traced_windows import WindowInIndex
from weft.ops.joining import rev_p
from weft.ops.slicing import slice_p

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


class _Positions(np.ndarray):
    """Index arrays made from a mask: in bounds, sorted and without repetition."""


class Known:
    """The type of an index array whose values were checked on the host to be in bounds."""

    __slots__ = ("aval", "distinct")

    def __init__(self, aval: ShapedArray, distinct: bool = False) -> None:
        self.aval = aval
        self.distinct = distinct  # of a mask: sorted and without repetition

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Known) and self.aval is other.aval and self.distinct == other.distinct
        )

    def __hash__(self) -> int:
        return hash((self.aval, self.distinct))


# Plans ------------------------------------------------------------------------------------------


class Strided:
    """A static window of every dimension, with steps, of which some count backwards."""

    __slots__ = ("limits", "reversed", "starts", "strides", "trivial")

    def __init__(self, starts: Shape, limits: Shape, strides: Shape, reverse: Shape, shape: Shape):
        self.starts = starts
        self.limits = limits
        self.strides = None if all(s == 1 for s in strides) else strides
        self.reversed = reverse
        self.trivial = not any(starts) and limits == shape and self.strides is None

    @property
    def identity(self) -> bool:
        return self.trivial and not self.reversed

    def take(self, x: object) -> Any:
        if not self.trivial:
            x = slice_p.bind(
                x, start_indices=self.starts, limit_indices=self.limits, strides=self.strides
            )
        return rev_p.bind(x, dimensions=self.reversed) if self.reversed else x


class Plan:
    """The plan of an index for arrays of one shape.

    strided: the static window taken first. kind: what remains is nothing ('static'), one window at
    scalar indices ('window'), or windows at an array of indices ('gather'). window: its sizes in
    the operand's dimensions. final: the result's shape.
    """

    __slots__ = (
        "block",
        "compiled",
        "distinct",
        "entries",
        "final",
        "gathered",
        "kind",
        "known",
        "known_arrays",
        "oob",
        "block_position",
        "strided",
        "strided_shape",
        "window",
    )

    strided: Strided
    strided_shape: Shape
    kind: str
    window: Shape
    final: Shape
    gathered: Shape  # the gather's result, before None dimensions are put in
    block: Shape  # the shape of the index arrays together
    block_position: int  # where the block stands in the gathered shape
    entries: list  # per dimension: None (whole), ('from', start), ('at', value), ('dyn', k)
    known: bool  # all index arrays are known to be in bounds
    known_arrays: tuple[bool, ...]  # which of them are
    distinct: bool
    oob: tuple[int, int] | None  # the first static int out of bounds, and its dimension
    compiled: dict


def _fail_count(shape: Shape, used: int) -> IndexError:
    return IndexError(
        f"too many indices: the array has {len(shape)} dimensions, but {used} were indexed"
    )


def _expanded(shape: Shape, parts: Sequence[Any]) -> list[Any]:
    """Return the parts with whole slices for an Ellipsis and for the dimensions left out."""
    used = sum(1 for p in parts if p is not None and p is not Ellipsis)
    dots = sum(1 for p in parts if p is Ellipsis)
    if dots > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    if used > len(shape):
        raise _fail_count(shape, used)
    rest = [(None, None, None)] * (len(shape) - used)
    expanded: list[Any] = []
    for p in parts:
        expanded += rest if p is Ellipsis else [p]
    return expanded if dots else expanded + rest


def _arrange(plan: Plan, outputs: Sequence[tuple[str, int]], block_first: bool) -> None:
    """Set the result's shape, with the index arrays' block in its place, and the gather's."""
    final: list[int] = []
    gathered: list[int] = []
    block_position = None
    if block_first:
        final += plan.block
        gathered += plan.block
        block_position = 0
    for kind, n in outputs:
        if kind == "block":
            if block_position is None:
                block_position = len(gathered)
                final += plan.block
                gathered += plan.block
        else:
            final.append(n)
            if kind == "dim":
                gathered.append(n)
    plan.block_position = block_position or 0
    plan.final, plan.gathered = tuple(final), tuple(gathered)


class _Dimensions:
    """The windows of an array's dimensions, one after the other as an index names them."""

    __slots__ = ("entries", "limits", "oob", "reversed", "sizes", "starts", "strides", "window")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.limits: list[int] = []
        self.strides: list[int] = []
        self.sizes: list[int] = []  # after the strided window
        self.reversed: list[int] = []
        self.entries: list[Any] = []
        self.window: list[int] = []
        self.oob: tuple[int, int] | None = None

    def add_slice(self, part: tuple, size: int) -> int:
        """Return a slice, given by its three members; returns how many elements it takes."""
        start, stop, step = slice(*part).indices(size)
        n = len(range(start, stop, step))
        if step in (1, -1) or n < 2:
            first = min(start, start + (n - 1) * step) if n else 0
            self._add(first, first + n, 1, n, None, n)
        else:
            first, last = sorted((start, start + (n - 1) * step))
            self._add(first, last + 1, abs(step), n, None, n)
        if step < 0 and n > 1:
            self.reversed.append(len(self.entries) - 1)
        return n

    def add_int(self, index: int, size: int) -> None:
        value = index + size if index < 0 else index
        if self.oob is None and not 0 <= value < size:
            self.oob = value, len(self.entries)
        self._add(0, size, 1, size, ("at", value), 1)

    def add_dynamic(self, number: int, size: int) -> None:
        """Return the number-th of the scalars and arrays of indices."""
        self._add(0, size, 1, size, ("dyn", number), 1)

    def _add(
        self, start: int, limit: int, stride: int, size: int, entry: tuple | None, window: int
    ) -> None:
        self.starts.append(start)
        self.limits.append(limit)
        self.strides.append(stride)
        self.sizes.append(size)
        self.entries.append(entry)
        self.window.append(window)

    def cut_statically(self, shape: Shape) -> None:
        """Make ints windows of one element, in bounds."""
        for dim, e in enumerate(self.entries):
            if e is not None:
                self.starts[dim] = min(max(e[1], 0), shape[dim] - 1)
                self.limits[dim] = self.starts[dim] + 1
                self.sizes[dim] = 1

    def leave_plain_parts(self, shape: Shape) -> None:
        """Leave a plain part of a dimension to the dynamic slice or gather itself."""
        for dim, e in enumerate(self.entries):
            plain = e is None and self.strides[dim] == 1 and dim not in self.reversed
            if plain and self.window[dim] != shape[dim]:
                self.entries[dim] = ("from", self.starts[dim])
                self.starts[dim], self.limits[dim], self.sizes[dim] = 0, shape[dim], shape[dim]

    def strided(self, shape: Shape) -> Strided:
        return Strided(
            tuple(self.starts),
            tuple(self.limits),
            tuple(self.strides),
            tuple(self.reversed),
            shape,
        )


def make_plan(shape: Shape, parts: Sequence[Any]) -> Plan:
    """Return the plan for an index whose static structure is `parts`; see `plan_of`."""
    has_arrays = any((a := _aval(p)) is not None and a.ndim for p in parts)
    # With index arrays, ints and scalars take part in their broadcasting, and everything that is
    # neither (also None and an Ellipsis of no dimensions) stands between them.
    advanced = [i for i, p in enumerate(parts) if isinstance(p, int) or _aval(p) is not None]
    together = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1

    dims = _Dimensions()
    outputs: list[tuple[str, int]] = []  # ('new', 1), ('dim', size), ('block', 0)
    number = 0
    for p in _expanded(shape, parts):
        if p is None:
            outputs.append(("new", 1))
            continue
        dim = len(dims.entries)
        size = shape[dim]
        if p.__class__ is tuple:
            outputs.append(("dim", dims.add_slice(p, size)))
            continue
        if has_arrays:
            outputs.append(("block", 0))
        if isinstance(p, int):
            if not size and not has_arrays:
                raise IndexError(f"index {p} is out of bounds for dimension {dim} of size 0")
            dims.add_int(p, size)
        else:
            dims.add_dynamic(number, size)
            number += 1

    plan = Plan()
    indices = [p for p in parts if _aval(p) is not None]
    avals = [a for p in indices if (a := _aval(p)) is not None]
    plan.block = broadcast_shapes(*[a.shape for a in avals]) if avals else ()
    plan.known_arrays = tuple(isinstance(p, Known) for p in indices)
    plan.known = all(plan.known_arrays)
    plan.distinct = bool(avals) and all(isinstance(p, Known) and p.distinct for p in indices)
    plan.kind = "gather" if has_arrays else "window" if avals else "static"
    plan.oob = dims.oob
    _arrange(plan, outputs, block_first=has_arrays and not together)
    if plan.kind == "static":
        dims.cut_statically(shape)
    else:
        dims.leave_plain_parts(shape)
    plan.entries, plan.window = dims.entries, tuple(dims.window)
    plan.strided, plan.strided_shape = dims.strided(shape), tuple(dims.sizes)
    plan.compiled = {}
    return plan


def _aval(part: object) -> ShapedArray | None:
    if part.__class__ is ShapedArray:
        return part
    return part.aval if part.__class__ is Known else None


# The static structure of an index ---------------------------------------------------------------

_tables: list[dict] = []


def table() -> dict:
    """Return a cache that is emptied with the plans."""
    _tables.append(clearable({}))
    return _tables[-1]


_plans: dict[Any, Plan] = table()
MAX_PLANS = 20_000

_programs: weakref.WeakSet[Callable] = weakref.WeakSet()
MAX_PROGRAMS = 2048


def program(function: Callable) -> Callable:
    """Return the function compiled; where there are too many of these, all plans are forgotten."""
    if len(_programs) >= MAX_PROGRAMS:
        _forget()
    _programs.add(function)
    return jit(function)


def _forget() -> None:
    for table in _tables:
        table.clear()


def plan_of(x: Any, index: Any, wrap: bool = True) -> tuple[Any, Plan, list, Shape]:
    """(array, plan, index arrays, dims) for an index into an array.

    `dims` are size-1 dimensions that a scalar boolean in the index added to the array. wrap:
    whether negative indices count from the end; traced ones are wrapped when ops are emitted.
    """
    parts: list[Any] = []
    arrays: list[Any] = []
    if index.__class__ is not tuple:
        if isinstance(index, list):
            raise TypeError(
                "a list is not an index, since it could mean several things: use "
                "x[weft.numpy.array(indices)] to take several elements, or x[tuple(indices)] to "
                "index several dimensions"
            )
        index = (index,)
    if not wrap:
        index = _unwrapped(x.aval.shape, index)
    for i in index:
        kind = i.__class__
        # The key holds what decides the plan: numbers, slices, and types of index arrays.
        if kind is int or i is None or i is Ellipsis:
            parts.append(i)
        elif kind is slice:
            a, b, c = i.start, i.stop, i.step
            if (
                (a is None or a.__class__ is int)
                and (b is None or b.__class__ is int)
                and (c is None or c.__class__ is int)
            ):
                parts.append((a, b, c))
            else:
                parts.append((_bound(a), _bound(b), _bound(c)))
        elif kind is bool or kind is np.bool_:
            return _with_scalar_bools(x, index)
        elif isinstance(i, np.integer):
            parts.append(int(i))
        else:
            i = _as_index_array(i)
            aval = typeof(i)
            # Masks become the positions of their true elements, and are planned anew.
            if dtypes.is_bool(aval.dtype):
                if not aval.shape:
                    return _with_scalar_bools(x, index)
                return _with_masks(x, index)
            if not dtypes.is_integer(aval.dtype):
                raise _bad_dtype(aval.dtype)
            if isinstance(i, np.ndarray):
                if not i.ndim:
                    parts.append(int(i))
                    continue
                i, aval = _check_host_array(x, i, index, len(parts))
            parts.append(aval)
            arrays.append(i)
    shape = x.aval.shape
    key = (shape, *parts)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= MAX_PLANS:
            _forget()
        plan = _plans[key] = make_plan(shape, parts)
    return x, plan, arrays, ()


def _unwrapped(shape: Shape, index: tuple) -> tuple:
    """Lower known negative indices so far that wrapping leaves them out of bounds."""

    def lower(position: int, i: Any) -> Any:
        if isinstance(i, list):
            i = np.asarray(i)
        whole = isinstance(i, int | np.integer) and not isinstance(i, bool)
        if not whole and not (isinstance(i, np.ndarray) and i.dtype.kind == "i"):
            return i
        dim = _dimension(index, position, len(shape))
        if dim >= len(shape) or np.min(i, initial=0) >= 0:
            return i
        return i - shape[dim] if whole else np.where(i < 0, i - shape[dim], i)

    return tuple(lower(position, i) for position, i in enumerate(index))


def _bad_dtype(dtype: np.dtype) -> TypeError:
    name = dtypes.short_name(dtype)
    return TypeError(
        f"an index must be of integer or boolean type, got {name}; convert it with "
        "index.astype('int32')"
    )


def _bound(b: Any) -> int | None:
    """Return a slice's bound as a Python int."""
    if b is None:
        return None
    if isinstance(b, Tracer) and b.concrete() is None:
        raise IndexError(
            f"the bounds of a slice must be static, got a traced value {b.aval.str_short()} "
            f"({errors.made_at(b)}): the shape of the result would depend on it. Use "
            "weft.lax.dynamic_slice_in_dim(x, start, size) for a window of static size, or "
            "weft.numpy.where to mask elements"
        )
    try:
        return b.__index__()
    except AttributeError:
        raise TypeError(
            f"the bounds of a slice must be integers or None, got {type(b).__name__} {b!r}"
        ) from None


def _as_index_array(i: ArrayLike) -> Any:
    """Return an element of an index that should be an array."""
    if isinstance(i, Tracer | np.ndarray) or hasattr(i, "aval"):
        return i
    if isinstance(i, list | tuple):
        if any(isinstance(v, Tracer) or hasattr(v, "aval") for v in i):
            from weft.numpy.creation import asarray

            return asarray(i)
        array = np.asarray(i)
        return array.astype(np.int32) if not array.size else array
    method = array_method(i)
    if method is not None:
        return method()
    if isinstance(i, int):  # of a subclass, such as an enumeration
        return np.asarray(int(i))
    if isinstance(i, float | complex | np.generic):
        raise _bad_dtype(np.asarray(i).dtype)
    if type(i).__name__ == "Slice":  # of weft.pallas, which arrays need not load
        raise WindowInIndex
    raise BadIndexError(
        "an index consists of integers, slices, Ellipsis, None and integer or boolean arrays; got "
        f"{type(i).__name__} {i!r:.80}"
    )


def _dimension(index: Sequence[Any], position: int, rank: int) -> int:
    """Return the array dimension at which an element of an index starts."""

    def consumed(i: Any) -> int:
        if i is None or i is Ellipsis or isinstance(i, bool | np.bool_):
            return 0
        if isinstance(i, list):
            i = np.asarray(i)
        if hasattr(i, "dtype") and dtypes.is_bool(i.dtype):
            return i.ndim
        return 1

    before = sum(map(consumed, index[:position]))
    if any(i is Ellipsis for i in index[:position]):
        before += rank - sum(map(consumed, index))
    return before


def _check_host_array(x: Any, i: np.ndarray, index: tuple, position: int) -> tuple[Any, Any]:
    """Return a NumPy index array, wrapped if it is in bounds, and its type."""
    shape = x.aval.shape
    dim = _dimension(index, position, len(shape))
    if i.__class__ is _Positions:
        i = i.view(np.ndarray)
        return i, Known(typeof(i), distinct=True)
    if dim < len(shape):
        size = shape[dim]
        if not i.size:
            i = i.astype(np.int32)
            return i, Known(typeof(i))
        if -size <= i.min() and i.max() < size:
            i = np.where(i < 0, i + size, i).astype(np.int32 if size < 2**31 else np.int64)
            return i, Known(typeof(i))
    return i, typeof(i)


def _with_masks(x: Any, index: tuple) -> tuple[Any, Plan, list, Shape]:
    """Boolean arrays replaced by the positions of their true elements."""
    shape = x.aval.shape
    new: list[Any] = []
    for position, i in enumerate(index):
        if isinstance(i, list):
            i = np.asarray(i)
        if not (hasattr(i, "dtype") and i.ndim and dtypes.is_bool(i.dtype)):
            new.append(i)
            continue
        mask = i.concrete() if isinstance(i, Tracer) else i
        if mask is None:
            raise errors.NonConcreteBooleanIndexError(
                f"a boolean index must be known while tracing, got {i.aval.str_short()} "
                f"({errors.made_at(i)}): the shape of the result depends on its values. Use "
                "weft.numpy.where(mask, x, other), or weft.numpy.nonzero(mask, size=...)"
            )
        mask = np.asarray(mask)
        dim = _dimension(index, position, len(shape))
        sizes = shape[dim : dim + mask.ndim]
        if len(sizes) < mask.ndim:
            raise _fail_count(shape, dim + mask.ndim)
        if any(m not in (0, n) for m, n in zip(mask.shape, sizes, strict=True)):
            raise IndexError(
                f"a boolean index of shape {mask.shape} at position {position} must match the "
                f"dimensions {sizes} that it indexes"
            )
        new += [p.astype(np.int32).view(_Positions) for p in np.nonzero(mask)]
    return plan_of(x, tuple(new))


def _with_scalar_bools(x: Any, index: tuple) -> tuple[Any, Plan, list, Shape]:
    """Make a scalar boolean a new dimension of size 0 or 1."""
    new: list[Any] = []
    dims: list[int] = []
    for position, i in enumerate(index):
        scalar = isinstance(i, bool | np.bool_) or (
            hasattr(i, "dtype") and not np.ndim(i) and dtypes.is_bool(i.dtype)
        )
        if not scalar:
            new.append(i)
            continue
        value = i.concrete() if isinstance(i, Tracer) else i
        if value is None:
            raise errors.NonConcreteBooleanIndexError(
                f"a boolean index must be known while tracing, got {i.aval.str_short()} "
                f"({errors.made_at(i)}). Use weft.numpy.where"
            )
        dims.append(_dimension(index, position, x.aval.ndim) + len(dims))
        new.append(np.zeros(int(bool(value)), np.int32))
    x = expand_dims(x, tuple(dims))
    x, plan, arrays, _ = plan_of(x, tuple(new))
    return x, plan, arrays, tuple(dims)

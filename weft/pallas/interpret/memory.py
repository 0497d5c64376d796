"""Memory of an interpreted kernel: buffers, and the parts of them that an access touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from weft.core import dtypes
from weft.core.ref import At, Indexer, Window
from weft.pallas.interpret.errors import OutOfBoundsError
from weft.pallas.interpret.races import Shadow

if TYPE_CHECKING:
    from weft.core.source import Source

Coords = tuple[int, ...]


def poison(shape: tuple[int, ...], dtype: np.dtype, how: str = "nan") -> np.ndarray:
    """Memory that nobody wrote: NaN, the largest integer, True."""
    if how == "zero":
        return np.zeros(shape, dtype)
    if dtypes.is_inexact(dtype):
        return np.full(shape, np.nan, dtype)
    if dtypes.is_integer(dtype):
        return np.full(shape, dtypes.iinfo(dtype).max, dtype)
    return np.ones(shape, dtype)


class Buffer:
    """An array that refs point to.

    written: which elements have a value, or None if all do. shadow: who accessed what, where
    several programs may. owner: for messages, the core whose own it is. others: where each core
    of a mesh has one, all of them by the core's coordinates.
    """

    __slots__ = ("data", "name", "others", "owner", "shadow", "written")

    data: np.ndarray

    def __init__(
        self,
        name: str,
        data: np.ndarray,
        written: np.ndarray | None = None,
        owner: str = "",
    ) -> None:
        self.name = name
        self.data = data
        self.written = written
        self.shadow: Shadow | None = None
        self.owner = owner
        self.others: dict[Coords, Buffer] = {}

    @classmethod
    def empty(cls, name: str, shape: tuple, dtype: np.dtype, how: str, owner: str = "") -> Buffer:
        return cls(
            name,
            poison(shape, dtype, how),
            None if how == "zero" else np.zeros(shape, np.bool_),
            owner,
        )

    def watch(self) -> Buffer:
        """Records accesses from now on, to find races."""
        self.shadow = Shadow(self.data.shape)
        return self

    def part(self, view: tuple[Any, ...]) -> Buffer:
        """A buffer of the elements that a view selects, which are the same memory."""
        written = None if self.written is None else self.written[view]
        out = Buffer(self.name, self.data[view], written, self.owner)
        out.shadow = None if self.shadow is None else self.shadow.part(view)
        return out

    def __str__(self) -> str:
        return f"{self.name} of {self.owner}" if self.owner else self.name


class Region:
    """The part of arrays of one shape that an index selects; `get` and `put` move values."""

    __slots__ = ("mask", "place", "picks", "shape", "view")

    def __init__(self, shape: tuple, view: tuple, picks: tuple | None, place: tuple) -> None:
        self.shape = shape
        self.view = view
        self.picks = picks
        self.place = (
            place  # (where NumPy puts the index arrays' dimensions, where they belong, rank)
        )
        self.mask: np.ndarray | None = None

    def get(self, array: np.ndarray) -> np.ndarray:
        part = array[self.view]
        if self.picks is None:
            return part
        return _moved(part[self.picks], *self.place)

    def put(self, array: np.ndarray, value: Any) -> None:
        if self.picks is None:
            array[self.view] = value
            return
        source, target, rank = self.place
        value = _moved(np.broadcast_to(value, self.shape), target, source, rank)
        array[self.view][self.picks] = value

    def combine(self, array: np.ndarray, value: Any, ufunc: Any) -> None:
        """array[region] = ufunc(array[region], value), repeatedly where positions repeat."""
        if self.picks is None:
            self.put(array, ufunc(self.get(array), value).astype(array.dtype))
            return
        source, target, rank = self.place
        value = _moved(np.broadcast_to(value, self.shape), target, source, rank)
        ufunc.at(array[self.view], self.picks, value)


class Scattered(Region):
    """A masked part: only the elements where the mask is true, given by their coordinates."""

    __slots__ = ("coordinates",)

    def __init__(self, shape: tuple, coordinates: tuple, mask: np.ndarray) -> None:
        super().__init__(shape, (), None, (0, 0, 0))
        self.coordinates = coordinates
        self.mask = mask

    def get(self, array: np.ndarray) -> np.ndarray:
        """The masked elements, in one dimension."""
        return array[self.coordinates]

    def put(self, array: np.ndarray, value: Any) -> None:
        array[self.coordinates] = np.broadcast_to(value, self.shape)[self.mask]

    def combine(self, array: np.ndarray, value: Any, ufunc: Any) -> None:
        ufunc.at(array, self.coordinates, np.broadcast_to(value, self.shape)[self.mask])


def _moved(x: np.ndarray, source: int, target: int, rank: int) -> np.ndarray:
    if source == target:
        return x
    rest = [d for d in range(x.ndim) if not source <= d < source + rank]
    rest[target:target] = range(source, source + rank)
    return x.transpose(rest)


class Indexed(Protocol):
    """The target of an index: a buffer, an array of semaphores."""

    @property
    def data(self) -> np.ndarray: ...


def locate(
    buffer: Indexed, indexer: Indexer, operands: Sequence[Any], where: Source, what: str
) -> Region:
    """The region an index selects; raises where it reaches outside of the buffer."""
    shape = buffer.data.shape
    view: list[Any] = []
    picks: list[Any] = []
    places: list[int] = []
    for dim, ((d, at), n) in enumerate(zip(indexer.attach(operands), shape, strict=True)):
        kind = d.__class__
        if kind is Window:
            start = int(at)
            stop = start + (d.size - 1) * d.stride + 1
            if d.size and (start < 0 or stop > n):
                _outside(buffer, dim, n, f"the window {start}:{stop}", where, what)
            view.append(slice(start, stop if d.size else start, d.stride))
            picks.append(slice(None))
        elif kind is At:
            i = int(at)
            if not -n <= i < n:
                _outside(buffer, dim, n, f"index {i}", where, what)
            view.append(i % n)
        else:
            if at.size and (at.min() < -n or at.max() >= n):
                bad = at[(at < -n) | (at >= n)].flat[0]
                _outside(buffer, dim, n, f"index {bad}", where, what)
            view.append(slice(None))
            places.append(len(picks))
            picks.append(np.where(at < 0, at + n, at))
    if not places:
        return Region(indexer.shape, tuple(view), None, (0, 0, 0))
    together = places[-1] - places[0] == len(places) - 1
    place = (places[0] if together else 0, indexer.place, len(indexer.block))
    return Region(indexer.shape, tuple(view), tuple(picks), place)


def locate_masked(
    buffer: Buffer,
    indexer: Indexer,
    operands: Sequence[Any],
    mask: np.ndarray,
    where: Source,
    what: str,
) -> Scattered:
    """The region under a mask; what the mask hides may be outside of the buffer."""
    full = indexer.shape
    mask = np.broadcast_to(mask, full)
    rank = len(indexer.block)
    coordinates = []
    window = 0
    for dim, (d, at) in enumerate(indexer.attach(operands)):
        kind = d.__class__
        lead = [1] * len(full)
        if kind is Window:
            axis = window if not indexer.has_picks or window < indexer.place else window + rank
            window += 1
            lead[axis] = d.size
            values = (int(at) + np.arange(d.size) * d.stride).reshape(lead)
        elif kind is At:
            values = np.asarray(int(at)).reshape(lead)
        else:
            lead[indexer.place : indexer.place + rank] = indexer.block
            values = np.reshape(at, lead)
        chosen = np.broadcast_to(values, full)[mask]
        n = buffer.data.shape[dim]
        if kind is not Window:
            chosen = np.where((chosen < 0) & (chosen >= -n), chosen + n, chosen)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= n):
            bad = chosen[(chosen < 0) | (chosen >= n)].flat[0]
            _outside(buffer, dim, n, f"index {bad} (where the mask is True)", where, what)
        coordinates.append(chosen)
    return Scattered(full, tuple(coordinates), mask)


def _outside(buffer: Indexed, dim: int, n: int, index: str, where: Source, what: str) -> None:
    raise OutOfBoundsError(
        f"{what} at {where}: {index} is outside of dimension {dim} of {buffer}, which has size {n}"
    )

# Tests: tests/pallas/test_interpret.py
"""Memory of an interpreted kernel: buffers, and the parts of them that an access touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.ref import Indexer, Window
from weft.pallas.interpret.errors import OutOfBoundsError
from weft.pallas.interpret.races import Shadow

if TYPE_CHECKING:
    from weft.core.source import Source
    from weft.pallas.interpret.sync import Semaphores

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


@dataclass(slots=True, eq=False)
class Buffer:
    """An array that refs point to.

    written: which elements have a value, or None if all do. shadow: who accessed what, where
    several programs may. owner: for messages, the core whose own it is. others: where each core
    of a mesh has one, all of them by the core's coordinates.
    """

    name: str
    data: np.ndarray
    written: np.ndarray | None = None
    owner: str = ""
    shadow: Shadow | None = None
    others: dict[Coords, Buffer] = field(default_factory=dict)

    @classmethod
    def empty(cls, name: str, shape: tuple, dtype: np.dtype, how: str, owner: str = "") -> Buffer:
        return cls(
            name,
            poison(shape, dtype, how),
            None if how == "zero" else np.zeros(shape, np.bool_),
            owner,
        )

    def watch(self) -> Buffer:
        """Record accesses from now on, to find races."""
        self.shadow = Shadow(self.data.shape)
        return self

    def part(self, view: tuple[Any, ...]) -> Buffer:
        """Return a buffer of the elements that a view selects, which are the same memory."""
        written = None if self.written is None else self.written[view]
        out = Buffer(self.name, self.data[view], written, self.owner)
        out.shadow = None if self.shadow is None else self.shadow.part(view)
        return out

    def __str__(self) -> str:
        return f"{self.name} of {self.owner}" if self.owner else self.name


@dataclass(slots=True, eq=False)
class Region:
    """The part of arrays of one shape that windows and places select, where it lies."""

    shape: tuple
    view: tuple
    mask: np.ndarray | None = None

    def get(self, array: np.ndarray) -> np.ndarray:
        """Return the elements; where there is a mask those under it, in one dimension."""
        return array[self.view]

    def put(self, array: np.ndarray, value: Any) -> None:
        array[self.view] = self.chosen(value)

    def combine(self, array: np.ndarray, value: Any, ufunc: Any) -> None:
        """array[region] = ufunc(array[region], value), repeatedly where positions repeat."""
        ufunc.at(array, self.view, self.chosen(value))

    def chosen(self, value: Any) -> Any:
        """Return those of the values for all of the region that go to its elements."""
        return value if self.mask is None else np.broadcast_to(value, self.shape)[self.mask]


def locate(
    buffer: Buffer | Semaphores,
    indexer: Indexer,
    operands: Sequence[Any],
    where: Source,
    label: str,
    mask: np.ndarray | None = None,
) -> Region:
    """Return the region an index selects; raises where it reaches outside of the buffer.

    What the mask hides may be outside.
    """
    full = indexer.shape
    mask = None if mask is None else np.broadcast_to(mask, full)
    each = mask is not None or indexer.has_picks  # by coordinates of each element
    hidden = "" if mask is None else " (where the mask is True)"
    view: list[Any] = []
    for dim, ((d, at), axes) in enumerate(
        zip(indexer.attach(operands), indexer.axes(), strict=True)
    ):
        n, outside = buffer.data.shape[dim], None
        if not each:
            start = int(at)
            if isinstance(d, Window):
                stop = start + (d.size - 1) * d.stride + 1
                if d.size and (start < 0 or stop > n):
                    outside = f"the window {start}:{stop}"
                view.append(slice(start, stop if d.size else start, d.stride))
            else:
                outside = None if -n <= start < n else f"index {start}"
                view.append(start % max(n, 1))
        else:
            if isinstance(d, Window):
                values = int(at) + np.arange(d.size) * d.stride
            else:
                values = np.asarray(at)
                values = np.where((values < 0) & (values >= -n), values + n, values)
            lead = [1] * len(full)
            for axis, size in zip(axes, values.shape, strict=True):
                lead[axis] = size
            chosen = np.broadcast_to(values.reshape(lead), full)
            chosen = chosen if mask is None else chosen[mask]
            if chosen.size and (chosen.min() < 0 or chosen.max() >= n):
                outside = f"index {chosen[(chosen < 0) | (chosen >= n)].flat[0]}{hidden}"
            view.append(chosen)
        if outside is not None:
            raise OutOfBoundsError(
                f"{label} at {where}: {outside} is outside of dimension {dim} of {buffer}, which "
                f"has size {n}"
            )
    return Region(full, tuple(view), mask)

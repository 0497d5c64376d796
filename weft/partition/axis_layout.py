"""Layouts: which mesh axes split which dimension of a value, and the device groups that follow.

A mesh axis is cut into *atoms*, the pieces that any sharding of the module refers to (`"x":(1)2`
names a piece of `"x"`). A layout lists, for each dimension, the atoms that split it, major first.
With atoms, two shardings can be compared and converted without any sub-axis arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from weft.core.errors import has_page

Atoms = tuple[int, ...]
Numbers = Sequence[int] | np.ndarray  # one for each coordinate


@has_page("weft.partition")
class Unsupported(Exception):
    """The module holds something that weft's partitioner does not cover.

    `op` is the operation's name and `location` its source line as MLIR prints it.
    """

    def __init__(self, op: str, location: str, reason: str):
        self.op, self.location, self.reason = op, location, reason
        super().__init__(f"{op}: {reason} (at {location})")

    def __reduce__(self) -> tuple:
        return Unsupported, (self.op, self.location, self.reason), self.__dict__


def free_of(atoms: Atoms, taken: Container[int]) -> Atoms:
    """Return the first of some atoms, up to one that is taken."""
    return tuple(itertools.takewhile(lambda i: i not in taken, atoms))


class Atom(NamedTuple):
    """One piece of a mesh axis: its coordinate is `(position // stride) % size`."""

    axis: str
    pre_size: int
    size: int
    stride: int


class DeviceMesh:
    """The devices of a mesh, seen through its atoms.

    Args:
      axes: axis names and sizes, major first.
      device_ids: the partition id at each mesh position; None means 0, 1, 2, ….
      cuts: for an axis, the products at which it is cut into atoms.
    """

    def __init__(
        self,
        axes: dict[str, int],
        device_ids: Sequence[int] | None = None,
        cuts: Mapping[str, Iterable[int]] | None = None,
    ):
        self.axes = dict(axes)
        self.size = math.prod(axes.values())
        self.device_ids = None if not device_ids else np.asarray(device_ids, np.int64)
        self.atoms: list[Atom] = []
        self._of_axis: dict[str, Atoms] = {}
        self._groups: dict[Atoms, np.ndarray] = {}
        self.routes: dict[tuple, tuple[tuple, int]] = {}  # between layouts, with their costs
        inner = self.size
        for name, size in axes.items():
            inner //= size
            bounds = sorted({1, size, *(cuts or {}).get(name, ())})
            first = len(self.atoms)
            for low, high in zip(bounds, bounds[1:], strict=False):
                if high % low:
                    raise Unsupported(
                        "sdy.mesh", "mesh", f"axis {name!r} is cut at both {low} and {high}"
                    )
                self.atoms.append(Atom(name, low, high // low, inner * (size // high)))
            self._of_axis[name] = tuple(range(first, len(self.atoms)))

    def atoms_of(self, axis: str, pre_size: int = 1, size: int | None = None) -> Atoms:
        """Return the atoms of an axis, or of its piece `axis:(pre_size)size`."""
        whole = self._of_axis[axis]
        if size is None:
            return whole
        end = pre_size * size
        return tuple(
            i
            for i in whole
            if self.atoms[i].pre_size >= pre_size
            and self.atoms[i].pre_size * self.atoms[i].size <= end
        )

    def count(self, atoms: Atoms) -> int:
        """Return how many shards the atoms make."""
        return math.prod(self.atoms[i].size for i in atoms)

    def offsets(self, atoms: Atoms) -> np.ndarray:
        """Mesh-position offset of each linear coordinate along `atoms`."""
        out = np.zeros(1, np.int64)
        for i in atoms:
            a = self.atoms[i]
            out = (out[:, None] + np.arange(a.size) * a.stride).reshape(-1)
        return out

    def coordinates(self, atoms: Atoms) -> np.ndarray:
        """Linear coordinate along `atoms` of every mesh position."""
        position = np.arange(self.size)
        out = np.zeros(self.size, np.int64)
        for i in atoms:
            a = self.atoms[i]
            out = out * a.size + (position // a.stride) % a.size
        return out

    def partition_ids(self, positions: np.ndarray) -> np.ndarray:
        """Partition ids at mesh positions."""
        return positions if self.device_ids is None else self.device_ids[positions]

    def positions(self, partition_ids: np.ndarray) -> np.ndarray:
        """Mesh positions of partition ids."""
        ids = self.device_ids
        return partition_ids if ids is None else np.argsort(ids)[partition_ids]

    def crossed(self, sources: np.ndarray, targets: np.ndarray | int) -> Atoms:
        """Return the atoms along which some partition ids differ from their counterparts."""
        a, b = self.positions(np.asarray(sources)), self.positions(np.asarray(targets))
        return tuple(
            i
            for i, atom in enumerate(self.atoms)
            if (a // atom.stride % atom.size != b // atom.stride % atom.size).any()
        )

    def groups(self, atoms: Atoms) -> np.ndarray:
        """Replica groups along `atoms`: one row a group, in the order of the linear coordinate."""
        if atoms not in self._groups:
            bases = np.flatnonzero(self.coordinates(atoms) == 0)
            self._groups[atoms] = self.partition_ids(bases[:, None] + self.offsets(atoms))
        return self._groups[atoms]

    def pairs(self, atoms: Atoms, sources: Numbers) -> np.ndarray:
        """Source-target pairs: coordinate k along `atoms` receives from `sources[k]` (-1: none)."""
        groups = self.groups(atoms)
        targets = np.flatnonzero(np.asarray(sources) >= 0)
        senders = np.asarray(sources)[targets]
        return np.stack([groups[:, senders].reshape(-1), groups[:, targets].reshape(-1)], axis=1)

    def axis_names(self, atoms: Iterable[int]) -> tuple[str, ...]:
        """Return axis names for people: `x`, or `x:(1)2` for a piece of it."""
        names, left = [], sorted(atoms)
        for axis, whole in self._of_axis.items():
            of_axis = [i for i in left if i in whole]
            if of_axis and len(of_axis) == len(whole):
                names.append(axis)
            else:
                names += [f"{axis}:({self.atoms[i].pre_size}){self.atoms[i].size}" for i in of_axis]
        return tuple(names)


class AxisLayout:
    """A value's global shape and the atoms that split each dimension. Immutable.

    A dimension of size g split n ways gives every device ceil(g / n) elements; those past g are
    padding with arbitrary contents, which every rule that mixes elements of a dimension masks.
    """

    __slots__ = ("__dict__", "dims", "mesh", "shape")

    def __init__(self, mesh: DeviceMesh, shape: tuple[int, ...], dims: tuple[Atoms, ...]):
        self.mesh, self.shape, self.dims = mesh, tuple(shape), tuple(dims)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AxisLayout) and self.dims == other.dims and self.shape == other.shape
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dims))

    def __repr__(self) -> str:
        dims = (
            f"{g}{set(self.mesh.axis_names(a)) or ''}"
            for g, a in zip(self.shape, self.dims, strict=False)
        )
        return f"AxisLayout({', '.join(dims)})"

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of shards of each dimension."""
        return tuple(self.mesh.count(a) if a else 1 for a in self.dims)

    @cached_property
    def local(self) -> tuple[int, ...]:
        """The shape each device holds."""
        return tuple(-(-g // n) for g, n in zip(self.shape, self.counts, strict=True))

    @cached_property
    def used(self) -> frozenset[int]:
        """All atoms in use."""
        return frozenset(i for a in self.dims for i in a)

    def padded(self, dim: int) -> bool:
        """Return whether the last shards of `dim` hold padding."""
        return self.shape[dim] % self.counts[dim] != 0

    @cached_property
    def whole(self) -> AxisLayout:
        """The same shape, all of it on every device."""
        return self.without(*range(len(self.shape)))

    def of_shape(self, shape: Sequence[int]) -> AxisLayout:
        """Return the same split of a value of as many dimensions."""
        return AxisLayout(self.mesh, tuple(shape), self.dims)

    def with_dim(self, dim: int, atoms: Atoms) -> AxisLayout:
        """Return the same layout with other atoms on one dimension."""
        return AxisLayout(self.mesh, self.shape, (*self.dims[:dim], atoms, *self.dims[dim + 1 :]))

    def free_of(self, atoms: Container[int]) -> AxisLayout:
        """Return the same layout without the split along some atoms."""
        dims = tuple(tuple(i for i in a if i not in atoms) for a in self.dims)
        return AxisLayout(self.mesh, self.shape, dims)

    def without(self, *dims: int) -> AxisLayout:
        """Return the same layout with `dims` whole on every device."""
        kept = tuple(() if i in dims else a for i, a in enumerate(self.dims))
        return self if kept == self.dims else AxisLayout(self.mesh, self.shape, kept)

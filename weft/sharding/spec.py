"""PartitionSpec: which mesh axes split each dimension of an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from weft.core.caches import interned


class _Unconstrained:
    """Marks a dimension whose sharding the partitioner chooses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """One entry for each dimension: None, an axis name, a tuple of names, or UNCONSTRAINED.

    Trailing dimensions without an entry are not split. A tuple splits one dimension over several
    axes, the first outermost. ``unreduced`` names axes along which the array is a partial sum,
    ``reduced`` axes along which it is equal and its cotangent unreduced.

    Specs are interned: equal ones are the same object.

    Raises:
      TypeError: an entry is not an axis name.
      ValueError: an axis is used twice.

    Example:
        >>> from weft.sharding.spec import P
        >>> P("x", None, ("y", "z"))
        P('x', None, ('y', 'z'))
    """

    __slots__ = ("__weakref__", "axes", "partitions", "reduced", "unreduced")
    _interned: dict[tuple, PartitionSpec] = interned({})

    UNCONSTRAINED = UNCONSTRAINED

    partitions: tuple
    axes: tuple[tuple, ...]
    unreduced: frozenset
    reduced: frozenset

    def __new__(
        cls,
        *partitions: Any,
        unreduced: Iterable[Any] = frozenset(),
        reduced: Iterable[Any] = frozenset(),
    ) -> PartitionSpec:
        key = (partitions, _axis_set(unreduced), _axis_set(reduced))
        try:
            return cls._interned[key]
        except (KeyError, TypeError):
            pass
        partitions = tuple(_entry(i, p) for i, p in enumerate(partitions))
        key = (partitions, *key[1:])
        self = cls._interned.get(key)
        if self is None:
            self = object.__new__(cls)
            self.partitions, self.unreduced, self.reduced = key
            self.axes = tuple(_axes_of(p) for p in partitions)
            self._check_unique()
            cls._interned[key] = self
        return self

    def _check_unique(self) -> None:
        seen: dict[Any, str] = {}
        uses = [(a, f"dimension {i}") for i, axes in enumerate(self.axes) for a in axes]
        uses += [(a, "unreduced") for a in self.unreduced]
        uses += [(a, "reduced") for a in self.reduced]
        for axis, use in uses:
            if axis in seen:
                raise ValueError(
                    f"{self!r} uses mesh axis {axis!r} twice, for {seen[axis]} and {use}; an "
                    "axis can stand in one place only"
                )
            seen[axis] = use

    def __reduce__(self) -> tuple:
        return _rebuild, (self.partitions, self.unreduced, self.reduced)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        return self.partitions[index]

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        return self.update(partitions=self.partitions + tuple(other))

    def __radd__(self, other: Any) -> PartitionSpec:
        return self.update(partitions=tuple(other) + self.partitions)

    def __repr__(self) -> str:
        parts = [repr(p) for p in self.partitions]
        for name in ("unreduced", "reduced"):
            if axes := getattr(self, name):
                parts.append(f"{name}={{{', '.join(sorted(map(repr, axes)))}}}")
        if len(parts) == len(self.partitions) == 1:
            return f"P({parts[0]},)"  # as a tuple of one
        return f"P({', '.join(parts)})"

    def index(self, value: Any) -> int:
        """Return the first dimension with this entry, as a tuple does; ValueError if none has."""
        return self.partitions.index(_entry(0, value))

    def count(self, value: Any) -> int:
        """Return how many dimensions have this entry."""
        return self.partitions.count(_entry(0, value))

    def to_tangent_spec(self) -> PartitionSpec:
        """Return the spec of a tangent: the same."""
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """Return the spec of a cotangent: `reduced` and `unreduced` change places."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def update(self, **changes: Any) -> PartitionSpec:
        """Return a copy with ``partitions``, ``unreduced`` or ``reduced`` replaced."""
        partitions = changes.pop("partitions", self.partitions)
        sets = {"unreduced": self.unreduced, "reduced": self.reduced, **changes}
        return PartitionSpec(*partitions, **sets)

    def axes_of(self, dim: int) -> tuple:
        """Return the axes that split dimension ``dim``; () if none, past the end, UNCONSTRAINED."""
        return self.axes[dim] if dim < len(self.axes) else ()

    def used_axes(self) -> frozenset:
        """Return every axis that splits a dimension."""
        return frozenset(a for axes in self.axes for a in axes)

    def padded(self, ndim: int) -> PartitionSpec:
        """Pad the spec with None to ``ndim`` entries."""
        missing = ndim - len(self.partitions)
        return self if missing <= 0 else self.update(partitions=self.partitions + (None,) * missing)

    def without(self, axes: Iterable[Any]) -> PartitionSpec:
        """Return the spec with the given axes removed from every place."""
        drop = frozenset(axes)

        def keep(entry: str | tuple | None) -> Any:
            if entry is None or entry is UNCONSTRAINED:
                return entry
            return tuple(a for a in _axes_of(entry) if a not in drop)

        return PartitionSpec(
            *map(keep, self.partitions),
            unreduced=self.unreduced - drop,
            reduced=self.reduced - drop,
        )


P = PartitionSpec


def _rebuild(partitions: tuple, unreduced: frozenset, reduced: frozenset) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def _axis_set(axes: Any) -> frozenset:
    if type(axes) is frozenset:
        return axes
    axes = frozenset((axes,)) if isinstance(axes, str) else frozenset(axes)
    if None in axes:
        raise ValueError(f"unreduced and reduced hold names of mesh axes, not None: {set(axes)}")
    return axes


def _axes_of(entry: str | tuple | _Unconstrained | None) -> tuple:
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _entry(dim: int, entry: str | tuple | _Unconstrained | None) -> Any:
    """Return the normal form: a one-element tuple is the name itself, an empty one is None."""
    if isinstance(entry, list):
        entry = tuple(entry)
    if isinstance(entry, tuple):
        bad = [e for e in entry if e is None or e is UNCONSTRAINED or isinstance(e, tuple | list)]
        if bad:
            raise TypeError(
                f"PartitionSpec entry {dim} is {entry!r}: a tuple holds axis names only, not "
                f"{bad[0]!r}"
            )
        entry = None if not entry else entry[0] if len(entry) == 1 else entry
    try:
        hash(entry)
    except TypeError:
        raise TypeError(
            f"PartitionSpec entry {dim} is {entry!r}; expected None, an axis name, a tuple of "
            "names, or P.UNCONSTRAINED"
        ) from None
    if isinstance(entry, bool | int | float | PartitionSpec):
        raise TypeError(
            f"PartitionSpec entry {dim} is {entry!r}; expected None, an axis name, a tuple of "
            "names, or P.UNCONSTRAINED"
        )
    return entry

# Tests: tests/pallas/api/test_mpmd.py
"""Meshes of cores: what an mpmd_map's functions run on."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.pallas.api.memory import MemorySpace

SEMANTICS = ("parallel", "arbitrary", "core_parallel")


@dataclass(frozen=True, slots=True, repr=False)
class Mesh:
    """Named axes of cores that run one function of a kernel.

    axes: name -> size, as a dict or pairs. name: of this group of cores, for messages; meshes of
    one kernel need different names. kernel_type: what kind of core it is, any string.
    default_memory_space: that of arguments and outputs. dimension_semantics: for each axis
    "parallel" or "arbitrary", or None.

    >>> import weft
    >>> weft.pallas.Mesh({"core": 4}, name="worker")
    Mesh({'core': 4}, name='worker')
    """

    axes: Any
    name: str | None = field(default=None, kw_only=True)
    kernel_type: str = field(default="core", kw_only=True)
    default_memory_space: Any = field(default=MemorySpace.ANY, kw_only=True)
    dimension_semantics: Sequence[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        pairs = tuple(self.axes.items() if isinstance(self.axes, Mapping) else self.axes)
        for axis, size in pairs:
            if not isinstance(axis, str):
                raise TypeError(f"Mesh: an axis name must be a string, got {axis!r}")
            if not isinstance(size, int) or size < 1:
                raise ValueError(
                    f"Mesh: axis {axis!r} must have a size of at least 1, got {size!r}"
                )
        if len(dict(pairs)) != len(pairs):
            raise ValueError(f"Mesh: axis names {[a for a, _ in pairs]} must be distinct")
        words = self.dimension_semantics and tuple(self.dimension_semantics)
        if words is not None and (len(words) != len(pairs) or set(words) - set(SEMANTICS)):
            raise ValueError(
                f"Mesh: dimension_semantics must give one of {', '.join(SEMANTICS)} for each "
                f"of the {len(pairs)} axes, got {words}"
            )
        object.__setattr__(self, "axes", pairs)
        object.__setattr__(self, "name", self.name or self.kernel_type)
        object.__setattr__(self, "dimension_semantics", words)

    @property
    def shape(self) -> OrderedDict[str, int]:
        return OrderedDict(self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes)

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)

    def cores(self) -> list[tuple[int, ...]]:
        """Return the coordinates of all cores, the last axis fastest."""
        return list(itertools.product(*map(range, self.axis_sizes)))

    def core_name(self, coordinates: Sequence[int]) -> str:
        """Return a core as messages name it."""
        at = ", ".join(f"{a}={i}" for a, i in zip(self.shape, coordinates, strict=True))
        return f"{self.name}({at})"

    def check_is_compatible_with(self, other: Mesh) -> None:
        """Raise ValueError unless both can run in one kernel."""
        if self.name == other.name:
            raise ValueError(
                f"meshes {self} and {other} have one name; give each mesh of a kernel a name of "
                "its own: Mesh(..., name=...)"
            )
        for axis, size in self.shape.items():
            if other.shape.get(axis, size) != size:
                raise ValueError(
                    f"meshes {self} and {other} disagree on the size of axis {axis!r}: {size} and "
                    f"{other.shape[axis]}; give same-named axes one size, or rename one"
                )

    def __repr__(self) -> str:
        return f"Mesh({dict(self.shape)}, name={self.name!r})"


def create_core_mesh(axis_name: str, num_cores: int, **options: Any) -> Mesh:
    """Return a mesh with one axis.

    >>> import weft
    >>> weft.pallas.create_core_mesh("core", 2)
    Mesh({'core': 2}, name='core')
    """
    return Mesh({axis_name: num_cores}, **options)

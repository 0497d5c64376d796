# Tests: tests/pallas/api/test_mpmd.py
"""Meshes of cores: what an mpmd_map's functions run on."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from weft.pallas.api.memory import MemorySpace

SEMANTICS = ("parallel", "arbitrary", "core_parallel")


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

    __slots__ = (
        "default_memory_space",
        "dimension_semantics",
        "kernel_type",
        "name",
        "shape",
        "size",
    )

    shape: OrderedDict[str, int]

    def __init__(
        self,
        axes: Mapping[str, int] | Sequence[tuple[str, int]],
        *,
        name: str | None = None,
        kernel_type: str = "core",
        default_memory_space: Any = MemorySpace.ANY,
        dimension_semantics: Sequence[str] | None = None,
    ) -> None:
        pairs = list(axes.items() if isinstance(axes, Mapping) else axes)
        for axis, size in pairs:
            if not isinstance(axis, str):
                raise TypeError(f"Mesh: an axis name must be a string, got {axis!r}")
            if not isinstance(size, int) or size < 1:
                raise ValueError(
                    f"Mesh: axis {axis!r} must have a size of at least 1, got {size!r}"
                )
        self.shape = OrderedDict(pairs)
        if len(self.shape) != len(pairs):
            raise ValueError(f"Mesh: axis names {[a for a, _ in pairs]} must be distinct")
        self.name = name or kernel_type
        self.kernel_type = kernel_type
        self.default_memory_space = default_memory_space
        self.size = math.prod(self.shape.values())
        if dimension_semantics is not None:
            dimension_semantics = tuple(dimension_semantics)
            if len(dimension_semantics) != len(pairs) or set(dimension_semantics) - set(SEMANTICS):
                raise ValueError(
                    f"Mesh: dimension_semantics must give one of {', '.join(SEMANTICS)} for each "
                    f"of the {len(pairs)} axes, got {dimension_semantics}"
                )
        self.dimension_semantics = dimension_semantics

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(self.shape)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return tuple(self.shape.values())

    def check_is_compatible_with(self, other: Mesh) -> None:
        """Raises ValueError unless both can run in one kernel."""
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

    def _key(self) -> tuple:
        return (
            tuple(self.shape.items()),
            self.name,
            self.kernel_type,
            self.default_memory_space,
            self.dimension_semantics,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Mesh({dict(self.shape)}, name={self.name!r})"


def create_core_mesh(axis_name: str, num_cores: int, **options: Any) -> Mesh:
    """A mesh with one axis.

    >>> import weft
    >>> weft.pallas.create_core_mesh("core", 2)
    Mesh({'core': 2}, name='core')
    """
    return Mesh({axis_name: num_cores}, **options)

# Tests: tests/pallas/api/test_call.py, tests/pallas/api/test_mpmd.py
"""Memory spaces of kernels, and the types of scratch: arrays, semaphores, barriers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.core.aval import ShapedArray
from weft.core.dtypes import canonicalize_dtype, short_name
from weft.core.ref import AbstractRef
from weft.driver.staging import checked_shape


class MemorySpace(enum.Enum):
    """Where a ref's array lives.

    ANY: wherever the array is; the ref is the array itself. HBM: the device's main memory. SHARED:
    on-chip memory that all cores of a kernel see (a CPU's: ordinary memory). LOCAL: a core's own
    memory. REGISTERS: a core's registers. INDEX: scalars. HOST: the host's memory.

    A space called with a shape and a dtype is the type of a scratch array.

    >>> import weft
    >>> weft.pallas.LOCAL((8, 128), "float32")
    ScratchShape(f32[8,128], local)
    """

    DEFAULT = "default"
    ANY = "any"
    HBM = "hbm"
    SHARED = "shared"
    LOCAL = "local"
    REGISTERS = "registers"
    INDEX = "index"
    HOST = "host"
    SEMAPHORE = "semaphore"
    DMA_SEMAPHORE = "dma_semaphore"
    BARRIER = "barrier"

    @property
    def holds_semaphores(self) -> bool:
        return self in _SEMAPHORES

    def __call__(self, shape: Sequence[int], dtype: object) -> ScratchShape:
        sizes = checked_shape(f"pl.{self.name}", shape)
        return ScratchShape(sizes, canonicalize_dtype(dtype), self)

    def __str__(self) -> str:
        return self.value


ANY, HBM, SHARED = MemorySpace.ANY, MemorySpace.HBM, MemorySpace.SHARED
LOCAL, REGISTERS, HOST = MemorySpace.LOCAL, MemorySpace.REGISTERS, MemorySpace.HOST
_SEMAPHORES = frozenset((MemorySpace.SEMAPHORE, MemorySpace.DMA_SEMAPHORE, MemorySpace.BARRIER))
SHARED_SPACES = frozenset((ANY, HBM, SHARED, HOST))
"""Spaces of which a kernel has one, whatever its cores."""


@dataclass(frozen=True, slots=True)
class ScratchShape:
    """The type of a scratch array or semaphore.

    core: a mesh whose cores have one each, or None. shared: one for all cores of the kernel.
    `type @ mesh` and `type @ pl.SHARED` say which.
    """

    shape: tuple[int, ...]
    dtype: Any
    memory_space: Any
    core: Any = None
    shared: bool = False

    def __matmul__(self, other: object) -> ScratchShape:
        if other is MemorySpace.SHARED:
            return replace(self, shared=True, core=None)
        if hasattr(other, "check_is_compatible_with"):
            return replace(self, core=other, shared=False)
        raise TypeError(
            f"a scratch type belongs to a mesh (type @ mesh) or to all cores (type @ pl.SHARED), "
            f"not to {type(other).__name__}"
        )

    def get_array_aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)

    def get_ref_aval(self) -> AbstractRef:
        return AbstractRef(self.get_array_aval(), self.memory_space, self.core)

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        core = f" @ {self.core.name}" if self.core is not None else ""
        text = f"{short_name(self.dtype)}[{dims}]"
        return f"ScratchShape({text}, {self.memory_space}{core}{', shared' * self.shared})"


MemoryRef = ScratchShape


@dataclass(frozen=True, slots=True)
class CoreMemorySpace:
    """A memory space of the cores of one mesh; called with shape and dtype: a scratch type."""

    memory_space: Any
    mesh: Any

    def __call__(self, shape: Sequence[int], dtype: object) -> ScratchShape:
        return self.memory_space(shape, dtype) @ self.mesh


class SemaphoreType(enum.Enum):
    """Kinds of semaphores, for scratch_shapes; `kind(shape)` is an array of them.

    REGULAR: counts signals. DMA: counts finished copies. BARRIER: what `core_barrier` waits at.

    >>> import weft
    >>> weft.pallas.SemaphoreType.REGULAR((2,))
    ScratchShape(i32[2], semaphore)
    """

    REGULAR = "semaphore"
    DMA = "dma_semaphore"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int] = ()) -> ScratchShape:
        return ScratchShape(
            tuple(int(n) for n in shape), np.dtype("int32"), MemorySpace(self.value)
        )

    def __matmul__(self, other: object) -> ScratchShape:
        return self() @ other

    def get_array_aval(self) -> ShapedArray:
        return self().get_array_aval()

    def get_ref_aval(self) -> AbstractRef:
        return self().get_ref_aval()


def as_scratch(label: str, value: object) -> ScratchShape:
    """Make a scratch type of a ScratchShape, a SemaphoreType, or a shape and dtype."""
    if isinstance(value, ScratchShape):
        return value
    if isinstance(value, SemaphoreType):
        return value()
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        space = getattr(value, "memory_space", None)
        space = space if isinstance(space, MemorySpace) else MemorySpace.LOCAL
        return space(value.shape, value.dtype)
    raise TypeError(
        f"{label} must be a scratch type, such as pl.LOCAL((8, 128), 'float32') or "
        f"pl.SemaphoreType.REGULAR, got {type(value).__name__}: {value!r:.80}"
    )


def scratch_refs(label: str, scratch: Sequence[ScratchShape], meshes: Sequence[Any]) -> list:
    """Return the types of scratch refs, each with its mesh, or shared by all cores."""
    if not meshes:
        return [s.get_ref_aval() for s in scratch]
    refs = []
    for i, s in enumerate(scratch):
        if s.core is not None and s.core not in meshes:
            raise ValueError(
                f"{label}: scratch_shapes[{i}] belongs to {s.core}, which is not one of the "
                f"kernel's meshes {list(meshes)}"
            )
        core = s.core
        shared = s.shared or s.memory_space in SHARED_SPACES
        if core is None and not shared and s.memory_space is not MemorySpace.BARRIER:
            if len(meshes) > 1:
                raise ValueError(
                    f"{label}: with several meshes, scratch_shapes[{i}], {s}, must say whose it "
                    "is: type @ mesh for one on each core of a mesh, type @ pl.SHARED for one that "
                    "all cores share"
                )
            core = meshes[0]
        refs.append(AbstractRef(s.get_array_aval(), s.memory_space, core))
    return refs

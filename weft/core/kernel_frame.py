# Tests: tests/pallas/test_cpu_engine.py
"""The kernel being traced: its grid and its mesh."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.core.state import AxisEntry, extend_axes, state
from weft.core.trace import StagingTrace

if TYPE_CHECKING:
    from weft.core.ref import AbstractRef
    from weft.pallas.api.mesh import Mesh


class Frame:
    """The kernel being traced, to which program_id, axis names and semaphores refer."""

    __slots__ = ("asked", "extents", "grid", "ids", "label", "mesh", "meshes")

    def __init__(
        self, title: str, grid: tuple[int, ...], mesh: Mesh | None = None, meshes: tuple = ()
    ):
        self.asked: set[int] = set()  # grid axes that the kernel looks at
        self.extents: dict[int, Any] = {}  # refs of what is known when the kernel runs
        self.ids: tuple | None = None  # the point, of a grid inside of the kernel
        self.label = title
        self.grid = grid
        self.mesh = mesh
        self.meshes = meshes

    @property
    def axis_sizes(self) -> Mapping[str, int]:
        return self.mesh.shape if self.mesh is not None else {}

    @property
    def num_cores(self) -> int:
        return sum(m.size for m in self.meshes)


class _Stack(threading.local):
    frame: Frame | None = None


_stack = _Stack()


@contextmanager
def kernel_frame(frame: Frame) -> Iterator[None]:
    """Trace the ops inside for the kernel: axes of its mesh are named, and the sizes of others."""
    before = _stack.frame
    _stack.frame = frame
    sizes = {name: size for mesh in frame.meshes for name, size in mesh.shape.items()}
    sizes.update(frame.axis_sizes)
    entries = [AxisEntry(name, size, "core") for name, size in sizes.items()]
    try:
        with extend_axes(entries):
            yield
    finally:
        _stack.frame = before


@contextmanager
def nested_grid(ids: tuple, grid: tuple) -> Iterator[None]:
    """Inside, the grid of the kernel being traced is another one, at a point of it."""
    before = _stack.frame
    assert before is not None
    frame = Frame(before.label, grid, before.mesh, before.meshes)
    frame.ids = ids
    _stack.frame = frame
    try:
        yield
    finally:
        _stack.frame = before


def current_frame(api: str) -> Frame:
    """Return the kernel being traced; raises outside of one."""
    frame = _stack.frame
    if frame is None or not isinstance(_root(state.trace), StagingTrace):
        raise RuntimeError(
            f"{api} is used outside of a kernel; call it in a function given to pallas_call, "
            "mpmd_map or kernel"
        )
    return frame


def inside_kernel() -> bool:
    return _stack.frame is not None


def _root(trace: Any) -> Any:
    while getattr(trace, "parent", None) is not None:
        trace = trace.parent
    return trace


def check_own(aval: AbstractRef) -> None:
    """Raise for a ref that belongs to the cores of another mesh than that being traced."""
    frame = _stack.frame
    if aval.core is not None and frame is not None and frame.mesh != aval.core:
        raise TypeError(
            f"a {aval.str_short()} belongs to the cores of {aval.core}, not of {frame.mesh}; a "
            "core reads and writes its own memory and what is shared: copy to another core's "
            "with pl.async_copy(src, dst, sem, core_index=...)"
        )

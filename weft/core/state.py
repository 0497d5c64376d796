# Tests: tests/api/test_threads.py
"""The thread's tracing state: current trace, named axes in scope, source override."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft._xla.config import dispatch_flag
from weft.core.errors import AxisNameError

if TYPE_CHECKING:
    from weft.sharding.mesh import Mesh

tracing = dispatch_flag("tracing", False)
"""True while ops are traced: the compiled dispatch path then leaves calls of jitted functions,
even of concrete values, to Python."""


class State(threading.local):
    """The tracing state that `bind` and collectives read, and transformations restore."""

    # weft.core.trace sets the eager trace, for threads too that came here while it was imported.
    trace: Any = None
    axes: dict[Any, Any] = {}  # noqa: RUF012  name -> AxisEntry; replaced, never mutated
    source: Any = None
    scopes: tuple[str, ...] = ()
    assumed_varying: frozenset = frozenset()  # axes along which a cast to varying may be made twice
    spread: frozenset = frozenset()  # mesh axes over which vmaps around spread their examples
    new_value: Callable | None = None  # of a type: what eval_shape takes a description for
    report_index: Any = None  # checkify's (index, axis, shape), for static indices out of bounds


state = State()


class Usage:
    """Whether something rare was ever made; until then, nothing looks for it."""

    in_use = False


LAYOUTS = Usage()
"""Layouts: until one is made, all arrays lie as their platform has them."""
MEMORIES = Usage()
"""Shardings that name a memory: until one is made, all arrays lie in their devices' own."""


class AxisEntry:
    """A named axis in scope: of a vmap, or a manual axis of a shard_map's mesh."""

    __slots__ = ("axis_group", "kind", "mesh", "name", "size", "tracked")

    def __init__(
        self, name: str, size: int, kind: str, mesh: Mesh | None = None, tracked: bool = False
    ) -> None:
        self.name = name
        self.size = size
        self.kind = kind  # 'vmap' or 'manual'
        self.mesh = mesh
        self.tracked = tracked  # whether types say along the axis if values vary (check_vma)
        self.axis_group: Any = None  # set by weft.collectives.groups

    def _key(self) -> tuple:
        return self.name, self.size, self.kind, self.mesh, self.tracked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxisEntry) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@contextmanager
def current_trace(trace: object) -> Iterator[None]:
    before = state.trace
    state.trace = trace
    flag = tracing.swap_local(trace is not State.trace)
    try:
        yield
    finally:
        state.trace = before
        tracing.set_local(flag)


@contextmanager
def extend_axes(entries: list[AxisEntry]) -> Iterator[None]:
    before = state.axes
    state.axes = {**before, **{e.name: e for e in entries}}
    try:
        yield
    finally:
        state.axes = before


def axes_key() -> tuple:
    """Return the named axes in scope and the other state that traces depend on, as a cache key."""
    if state.spread or state.report_index is not None:
        return (*state.axes.values(), state.spread, state.report_index is not None)
    return tuple(state.axes.values())


def axis_entry(name: str) -> AxisEntry:
    """Return the axis bound to `name`; NameError lists the axes in scope if there is none."""
    try:
        return state.axes[name]
    except KeyError:
        scope = ", ".join(f"{e.name!r} (size {e.size}, {e.kind})" for e in state.axes.values())
        raise AxisNameError(
            f"axis name {name!r} is not bound here; "
            + (f"axes in scope: {scope}" if scope else "no named axis is in scope")
            + ". Bind it with vmap(..., axis_name=...) or shard_map over a mesh that has it."
        ) from None
    except TypeError:
        raise AxisNameError(
            f"an axis name must be hashable, usually a string; got {name!r}"
        ) from None

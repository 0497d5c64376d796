# Tests: tests/compat/test_experimental.py
"""Values of hijax types: their arrays, and what traced functions write to those they close over.

Such a value is an object. One that a traced function closes over has its arrays in refs, made where
the object was made: the function's operations on it read them before and write them after.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.autodiff.zeros import copy_p
from weft.compat.hi_primitive import HiType
from weft.compat.types import hitypes
from weft.core.aval import ShapedArray
from weft.core.state import current_trace, state
from weft.core.trace import EVAL, StagingTrace, Tracer, changeable
from weft.refs.api import new_ref
from weft.runtime.array import Array


class MutableHiType(HiType):
    """Such a type whose values change."""


@dataclasses.dataclass(frozen=True)
class OfType:
    """How the values of a class are lowered to arrays, by the type that `to_type` tells."""

    to_type: Callable

    def lower(self, value: Any) -> tuple[Sequence[Any], Hashable]:
        kind = self.to_type(value)
        if isinstance(kind, ShapedArray):  # nothing says what of the value is the array
            raise NotImplementedError(
                f"a {type(value).__qualname__}, whose type is {kind.str_short()}, is no argument "
                "of a traced function: what the function writes to it would be lost. Pass its "
                "array and return the new one, or register a HiType, whose lower_val tells arrays"
            )
        if not _is_mutable(kind):
            return kind.lower_val(value), (kind, None)
        with captured((value,)):
            state = value.cur_qdd()
            return kind.read_loval(state, value), (kind, state)

    def make(self, structure: tuple, arrays: Sequence[Any]) -> Any:
        kind, state = structure
        return kind.raise_val(*arrays) if state is None else kind.new_from_loval(state, *arrays)

    def update(self, value: object, structure: tuple, arrays: Sequence[Any]) -> None:
        kind, state = structure
        if state is not None:
            with captured((value,)):
                kind.update_from_loval(state, value, *arrays)


def _is_mutable(kind: Any) -> bool:
    return bool(getattr(kind, "has_qdd", isinstance(kind, MutableHiType)))


# Values that traced functions close over ----------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Place:
    """An object that a traced function closes over, the trace that made it, and its refs."""

    value: object  # classes with slots have no weak references
    trace: object
    refs: Sequence | None = None
    outside: tuple = ()  # what the object holds while no operation on it runs
    busy: bool = False  # reading and writing arrays are operations, too


_places: dict[int, _Place] = {}
"""id of an object -> its place, until nobody else has the object and others take room."""
_KEPT = 64


def _placed(x: object) -> _Place:
    if len(_places) >= _KEPT:
        for key, record in [*_places.items()]:
            if sys.getrefcount(record.value) <= 2:  # the place's, and the argument's
                del _places[key]
    record = _places[id(x)] = _Place(x, EVAL)
    arrays = _lower(x, record)[0]
    traces = [a._trace for a in arrays if isinstance(a, Tracer)]
    record.trace = traces[0] if traces else EVAL if arrays else state.trace
    if record.trace is state.trace:  # it is at home, and may be closed over later
        del _places[id(x)]
    return record


def staged(x: object) -> object:
    """Make an operand of an operation a value of the running trace, which then made the object."""
    is_constant = type(state.trace) is StagingTrace and isinstance(x, np.ndarray | Array)
    return copy_p.bind(x) if is_constant else x


def _lower(x: object, record: _Place) -> tuple:
    record.busy = True
    try:
        return changeable[type(x)].lower(x)
    finally:
        record.busy = False


def _update(x: object, record: _Place, structure: tuple, arrays: Sequence) -> None:
    record.busy = True
    try:
        changeable[type(x)].update(x, structure, arrays)
    finally:
        record.busy = False


def _enter(x: object, record: _Place) -> tuple | None:
    """Give an object the arrays of its refs, made here if the running trace closes over it."""
    if record.refs is None:
        if type(state.trace) is not StagingTrace or state.trace is record.trace:
            return None
        record.outside = arrays, _ = _lower(x, record)
        with current_trace(record.trace):
            record.refs = [new_ref(a) for a in arrays]
    arrays = [ref[...] for ref in record.refs]
    _update(x, record, _lower(x, record)[1], arrays)
    return x, record, arrays


def _leave(x: object, record: _Place, before: Sequence) -> None:
    """Write to the refs what the operation has written to the object."""
    arrays, _ = _lower(x, record)
    if len(arrays) != len(before):
        raise ValueError(
            f"a traced function that closes over a {type(x).__qualname__} must leave it as many "
            f"arrays as it has, {len(before)}, got {len(arrays)}; pass it as an argument of jit"
        )
    for ref, old, new in zip(record.refs or (), before, arrays, strict=True):
        if new is not old:
            ref[...] = new
    if state.trace is not record.trace:
        _update(x, record, record.outside[1], record.outside[0])


def _is_writable(x: object) -> bool:
    if type(x) not in changeable:
        return False
    kind = hitypes[type(x)](x)
    return _is_mutable(kind) and hasattr(kind, "read_loval")


@contextmanager
def captured(values: Sequence) -> Iterator[None]:
    """Let the operands of an operation that traced functions close over have their arrays."""
    entered = []
    for x in values:
        record = _places.get(id(x))
        if record is None and type(state.trace) is StagingTrace and _is_writable(x):
            record = _placed(x)
        if record is not None and not record.busy:
            entered.append(_enter(x, record))
    yield
    for entry in filter(None, entered):
        _leave(*entry)

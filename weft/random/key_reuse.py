"""Whether random keys are used twice: the check of the option `debug_key_reuse`."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.core.caches import clearable
from weft.core.errors import KeyReuseError
from weft.core.source import GENERATED, capture

_KEPT = 4096
"""Keys remembered, the newest: they are held, as traced ones cannot be referred to weakly."""

_LOOKS = frozenset(("fold_in", "key_data", "key_impl"))
"""Functions that leave a key unused."""


@dataclass(slots=True)
class _Use:
    """Which keys of an array were used, the last time by whom, in which calls of this package."""

    keys: Any
    mask: np.ndarray
    who: str
    calls: frozenset[int]


# By the id of an array of keys, or of the variable that it is in a jaxpr.
_used: OrderedDict[int, _Use] = clearable(OrderedDict())
# By the id of keys taken out of an array: they, the array, and their positions in it.
_parts: OrderedDict[int, tuple[Any, Any, np.ndarray]] = clearable(OrderedDict())


def _keep(table: OrderedDict, keys: object, value: Any) -> None:
    table[id(keys)] = value
    if len(table) > _KEPT:
        table.popitem(last=False)


def _positions(keys: Any) -> tuple[Any, np.ndarray]:
    """The array that keys were taken from, or the variable that they are, and where in it."""
    part = _parts.get(id(keys))
    if part is not None and part[0] is keys:
        return part[1], part[2]
    return getattr(keys, "variable", keys), np.arange(math.prod(keys.shape)).reshape(keys.shape)


def note_part(part: object, keys: object, index: Any) -> None:
    """Note that keys[index] are these keys, which are used where that array is."""
    whole, positions = _positions(keys)
    _keep(_parts, part, (part, whole, positions[index]))


def used_variables(variables: Sequence[Any]) -> tuple[int, ...]:
    """The numbers of the variables whose keys were used while a jaxpr was traced."""
    uses = [_used.get(id(v)) for v in variables]
    pairs = zip(variables, uses, strict=True)
    return tuple(i for i, (v, use) in enumerate(pairs) if use is not None and use.keys is v)


def _calls() -> list[int]:
    """The frames of this package around `check_key`, from the inside, without helpers."""
    frame: Any = sys._getframe(3)
    calls = []
    while frame is not None and frame.f_code.co_filename != GENERATED:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("weft.random."):
            break
        if name != "weft.random.sampling" and not frame.f_code.co_name.startswith("_"):
            calls.append(id(frame))
        frame = frame.f_back
    return calls


def use(name: str, key: object) -> None:
    """Note that a function uses a key up; KeyReuseError if one did before.

    A sampler hands its key to others while it runs, which is one use.
    """
    if name in _LOOKS:
        return
    calls = _calls()
    whole, positions = _positions(key)
    record = _used.get(id(whole))
    if record is None or record.keys is not whole:
        record = _Use(whole, np.zeros(whole.aval.shape, bool).ravel(), "", frozenset())
        _keep(_used, whole, record)
    elif not record.calls.isdisjoint(calls[1:]):
        return
    if record.mask[positions].any():
        raise KeyReuseError(
            f"{name}: key was used before, by {record.who}: its numbers would depend on those. Use "
            "each key once: weft.random.split makes new ones, and weft.random.clone allows it"
        )
    record.mask[positions] = True
    record.who, record.calls = f"{name} at {capture()}", frozenset(calls)


def use_arguments(name: str, keys: Sequence[Any]) -> None:
    """Note that a jitted function uses these of its arguments up."""
    for key in keys:
        use(name, key)

"""Whether random keys are used twice: the check of the option `debug_key_reuse`."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

from weft.core.caches import clearable
from weft.core.errors import KeyReuseError
from weft.core.source import GENERATED, capture

_KEPT = 4096
"""Keys remembered, the newest: they are held, as traced ones cannot be referred to weakly."""

_LOOKS = frozenset(("fold_in", "key_data", "key_impl"))
"""Functions that leave a key unused."""

# id of a key -> the key, who used it at which line, and the calls of this package at that time.
_used: OrderedDict[int, tuple[Any, str, frozenset[int]]] = clearable(OrderedDict())


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
    record = _used.get(id(key))
    if record is not None and record[0] is key:
        if not record[2].isdisjoint(calls[1:]):
            return
        raise KeyReuseError(
            f"{name}: key was used before, by {record[1]}: its numbers would depend on those. Use "
            "each key once: weft.random.split makes new ones, and weft.random.clone allows it"
        )
    _used[id(key)] = key, f"{name} at {capture()}", frozenset(calls)
    if len(_used) > _KEPT:
        _used.popitem(last=False)

"""Debugging: printing and callbacks from compiled programs, pictures of shardings."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.core.namespace import public

_HOMES = {
    "weft.api.callback": "callback print",
    "weft.debug.stop": "breakpoint",
    "weft.debug.logged": "log",
    "weft.driver.inspect_sharding": "visualize_array_sharding inspect_array_sharding",
    "weft.runtime.visualize": "visualize_sharding",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"weft.debug has no {name!r}; it has {', '.join(sorted(_NAMES))}")
    module = import_module(_NAMES[name])
    value = getattr(module, f"debug_{name}", None) or getattr(module, name)
    globals()[name] = value = public(value, "weft.debug", name)
    return value


__all__ = sorted(_NAMES)  # noqa: PLE0605


def __dir__() -> list[str]:
    return __all__

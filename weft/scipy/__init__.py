"""SciPy's functions on weft arrays, under the names and with the semantics of jax.scipy.

Modules load when they are first used.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from weft.core.namespace import missing as _missing

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _import_module(f"weft.scipy.{name}")
    raise _missing(__name__, name)


def __dir__() -> list[str]:
    return __all__

# Tests: tests/compat/test_as_jax.py
"""jax._src.traceback_util, for equinox, flax and jaxtyping."""

from __future__ import annotations

from typing import Any

from weft.core.boundary import UnfilteredStackTrace as UnfilteredStackTrace
from weft.core.boundary import api_boundary as _boundary
from weft.core.boundary import hidden_paths as _exclude_paths
from weft.core.boundary import is_hidden


def register_exclusion(path: str) -> None:
    """Leave frames of the file out of the tracebacks that users see."""
    _exclude_paths.append(path)


def include_frame(frame: Any) -> bool:
    return not is_hidden(frame.f_code.co_filename)


def api_boundary(fun: Any, **_: object) -> Any:
    return _boundary(fun)

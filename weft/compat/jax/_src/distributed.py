# Tests: tests/compat/test_as_jax.py
"""jax._src.distributed, for orbax: the processes that run together."""

from __future__ import annotations

from typing import Any

import weft
from weft.runtime.backend import distributed_state


class _State:
    """Which process this is, and the service through which processes speak, None for one alone."""

    @property
    def process_id(self) -> int:
        return weft.process_index()

    @property
    def num_processes(self) -> int:
        return weft.process_count()

    @property
    def client(self) -> Any:
        return distributed_state["client"]


global_state = _State()

"""jax._src.distributed, for orbax: the process's number and its client of the coordinator."""

from __future__ import annotations

from typing import Any

from weft import process_index
from weft.runtime.backend import distributed_state


class _State:
    client = property(lambda self: distributed_state["client"])
    process_id: Any = property(lambda self: process_index())


global_state = _State()

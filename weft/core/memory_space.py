# Tests: tests/runtime/test_memories.py
"""The memories of a device, as an enumeration."""

from __future__ import annotations

import enum


class Space(enum.Enum):
    """A device's own memory, or the host's next to it, or either.

    >>> import weft
    >>> x = weft.device_put(weft.numpy.ones(2), weft.memory.Space.Host)
    >>> x.sharding.memory_kind
    'pinned_host'
    """

    Device = 1
    Host = 2
    Any = 3

    @property
    def kind(self) -> str | None:
        """The name of the memory space in shardings; None for any."""
        return {"Device": "device", "Host": "pinned_host"}.get(self.name)

# Tests: tests/driver/test_context.py
"""jaxlib's guards: against transfers, against arrays that the garbage collector frees, and such.

A level is of the process or of a thread; jaxlib looks at it wherever it moves data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxlib import _jax

_lib = _jax.guard_lib

guarding = False
"""Whether transfers have ever been guarded: only then the explicit ones are marked as such."""


def guard_transfers(direction: str, level: str | None, *, local: bool) -> None:
    """Set what happens at transfers "host_to_device", "device_to_device" or "device_to_host".

    level: None stands for the process's.
    """
    global guarding
    guarding = guarding or level is not None
    value = None if level is None else getattr(_lib.TransferGuardLevel, level.upper())
    setattr(_state(local), direction, value)


def guard_collection(level: str | None, *, local: bool) -> None:
    """Set what happens when the garbage collector frees an array: allow, log or fatal."""
    levels = _lib.GarbageCollectionGuardLevel
    value = None if level is None else getattr(levels, level.upper())
    _state(local).garbage_collect_array = value


def guard_threads(on: bool) -> None:
    """Let programs of several processes run from this thread only, or from any."""
    _lib.update_thread_guard_global_state(bool(on))


def _state(local: bool):
    return _lib.thread_local_state() if local else _lib.global_state()


@contextmanager
def explicit(transfer: str) -> Iterator[None]:
    """Mark the transfers of this thread as asked for. transfer: "device_put" or "device_get"."""
    state = _lib.thread_local_state()
    name = f"explicit_{transfer}"
    before = getattr(state, name)
    setattr(state, name, True)
    try:
        yield
    finally:
        setattr(state, name, before)

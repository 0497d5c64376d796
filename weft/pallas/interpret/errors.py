# Tests: tests/pallas/test_interpret.py
"""Errors that the interpreter finds in a kernel."""

from __future__ import annotations

from weft.core.errors import has_page


@has_page("weft.pallas")
class KernelError(RuntimeError):
    """A kernel does something wrong."""


@has_page("weft.pallas")
class OutOfBoundsError(KernelError, IndexError):
    """An access outside of a ref."""


@has_page("weft.pallas")
class UninitializedReadError(KernelError):
    """A read of what nobody wrote."""


@has_page("weft.pallas")
class DataRaceError(KernelError):
    """Two accesses, one of them a write, that no synchronization orders."""


@has_page("weft.pallas")
class DeadlockError(KernelError):
    """Every core waits."""


@has_page("weft.pallas")
class SemaphoreError(KernelError):
    """A semaphore that is not 0 at the end, or goes below 0."""

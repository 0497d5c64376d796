"""Errors that the interpreter finds in a kernel."""

from __future__ import annotations


class KernelError(RuntimeError):
    """A kernel does something wrong."""


class OutOfBoundsError(KernelError, IndexError):
    """An access outside of a ref."""


class UninitializedReadError(KernelError):
    """A read of what nobody wrote."""


class DataRaceError(KernelError):
    """Two accesses, one of them a write, that no synchronization orders."""


class DeadlockError(KernelError):
    """Every core waits."""


class SemaphoreError(KernelError):
    """A semaphore that is not 0 at the end, or goes below 0."""

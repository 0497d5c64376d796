"""The interpreter of kernels: NumPy, a deterministic scheduler, and checks of every access."""

from weft.pallas.interpret.errors import (
    DataRaceError,
    DeadlockError,
    KernelError,
    OutOfBoundsError,
    SemaphoreError,
    UninitializedReadError,
)
from weft.pallas.interpret.params import InterpretParams

__all__ = [
    "DataRaceError",
    "DeadlockError",
    "InterpretParams",
    "KernelError",
    "OutOfBoundsError",
    "SemaphoreError",
    "UninitializedReadError",
]

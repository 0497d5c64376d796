"""The interpreter of kernels: NumPy, a deterministic scheduler, and checks of every access."""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "errors": """DataRaceError DeadlockError KernelError OutOfBoundsError SemaphoreError
            UninitializedReadError""",
        "params": "InterpretParams",
    },
)

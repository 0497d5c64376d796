"""Types of weft.profiler, written by `make stubs` from the definitions."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from weft._xla.profiler import ProfileData as ProfileData
from weft._xla.profiler import ProfileEvent as ProfileEvent
from weft._xla.profiler import ProfileOptions as ProfileOptions
from weft._xla.profiler import ProfilePlane as ProfilePlane
from weft.partition.measured import Operation as Operation
from weft.typing import Array as Array

class StepTraceAnnotation(Exception):
    """Names a step of a training loop in the trace: a `with` block with its `step_num`."""
    def __init__(self, name: str, **kwargs: Any) -> None: ...

def annotate_function(
    func: Callable[..., Any] | None = ..., name: str | None = ..., **decorator_kwargs: Any
) -> Callable[..., Any]:
    """The function with its calls shown in the trace, by its name or the one given."""

def device_memory_profile(backend: str | None = ...) -> bytes:
    """Return the live allocations of a platform's devices, in pprof's gzipped format."""

def measured(log_dir: Any, lowered: Any, hardware: Any = ...) -> Any:
    """Finds a program's operations in a trace: the time that each took, beside the …"""

def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Traces another process along with this one, through its server."""

def save_device_memory_profile(filename: Any, backend: str | None = ...) -> None:
    """Writes `device_memory_profile` to a file, for `pprof` to read."""

def start_server(port: int, requires_backend: bool = ...) -> Any:
    """Serves traces of this process to XProf or TensorBoard, until `stop_server`."""

def start_trace(
    log_dir: Any,
    create_perfetto_link: bool = ...,
    create_perfetto_trace: bool = ...,
    profiler_options: Any = ...,
) -> None:
    """Starts to record what host and devices do; `stop_trace` writes it."""

def stop_server() -> None:
    """Ends the server. Raises RuntimeError if none is running."""

def stop_trace() -> None:
    """Ends the trace and writes it. See `start_trace` for an example."""

def trace(
    log_dir: Any,
    create_perfetto_link: bool = ...,
    create_perfetto_trace: bool = ...,
    profiler_options: Any = ...,
) -> AbstractContextManager[None]:
    """Records what happens in a `with` block. See `start_trace` for the arguments."""

"""Types of weft.profiler, written by `make stubs` from the definitions."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from weft.partition.report.measured import Operation as Operation
from weft.typing import Array as Array

class ProfileData:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def find_plane_with_name(self, *args: Any, **kwargs: Any) -> Any: ...
    def from_file(self, *args: Any, **kwargs: Any) -> Any: ...
    def from_raw_cpp_ptr(self, *args: Any, **kwargs: Any) -> Any: ...
    def from_serialized_xspace(self, *args: Any, **kwargs: Any) -> Any: ...
    def from_text_proto(self, *args: Any, **kwargs: Any) -> Any: ...
    planes: Any
    def text_proto_to_serialized_xspace(self, *args: Any, **kwargs: Any) -> Any: ...

class ProfileEvent:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    duration_ns: Any
    end_ns: Any
    name: Any
    start_ns: Any
    stats: Any

class ProfileOptions:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    advanced_configuration: Any
    duration_ms: Any
    enable_hlo_proto: Any
    host_tracer_level: Any
    include_dataset_ops: Any
    python_tracer_level: Any
    raise_error_on_start_failure: Any
    repository_path: Any
    session_id: Any
    start_timestamp_ns: Any

class ProfilePlane:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    lines: Any
    name: Any
    stats: Any

class StepTraceAnnotation(TraceAnnotation):
    """Names a step of a training loop in the trace: a `with` block with its `step_num`."""
    def __init__(self, name: str, **kwargs: Any) -> None: ...

class TraceAnnotation:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def is_enabled(self, *args: Any, **kwargs: Any) -> Any: ...
    def set_metadata(self, *args: Any, **kwargs: Any) -> Any: ...

def annotate_function(
    func: Callable[..., Any] | None = ..., name: str | None = ..., **decorator_kwargs: Any
) -> Callable[..., Any]:
    """Return the function with its calls shown in the trace, by its name or the one given."""

def device_memory_profile(backend: str | None = ...) -> bytes:
    """Return the live allocations of a platform's devices, in pprof's gzipped format."""

def measured(log_dir: Any, lowered: Any, hardware: Any = ...) -> Any:
    """Find a program's operations in a trace: the time that each took, beside the …"""

def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Trace another process along with this one, through its server."""

def save_device_memory_profile(filename: Any, backend: str | None = ...) -> None:
    """Write `device_memory_profile` to a file, for `pprof` to read."""

def start_server(port: int, requires_backend: bool = ...) -> Any:
    """Serve traces of this process to XProf or TensorBoard, until `stop_server`."""

def start_trace(
    log_dir: Any,
    create_perfetto_link: bool = ...,
    create_perfetto_trace: bool = ...,
    profiler_options: Any = ...,
) -> None:
    """Start to record what host and devices do; `stop_trace` writes it."""

def stop_server() -> None:
    """End the server. Raises RuntimeError if none is running."""

def stop_trace() -> None:
    """End the trace and write it. See `start_trace` for an example."""

def trace(
    log_dir: Any,
    create_perfetto_link: bool = ...,
    create_perfetto_trace: bool = ...,
    profiler_options: Any = ...,
) -> AbstractContextManager[None]:
    """Record what happens in a `with` block. See `start_trace` for the arguments."""

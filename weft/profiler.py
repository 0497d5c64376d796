"""weft.profiler: where a program's time and its devices' memory go.

A trace is written as XLA's tools (XProf, TensorBoard) and Perfetto read it.
"""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft._xla import profiler as _xla
from weft._xla.profiler import ProfileData, ProfileEvent, ProfileOptions, ProfilePlane
from weft._xla.profiler import TraceMe as TraceAnnotation
from weft.communication import HardwareModel, optimized_text, program_report
from weft.core.namespace import seal
from weft.core.source import wraps
from weft.partition.report.measured import (
    Instruction,
    Operation,
    instructions,
    measure,
    newest_trace,
)
from weft.runtime import backend
from weft.runtime.backend import client

__all__ = [
    "Operation",
    "ProfileData",
    "ProfileEvent",
    "ProfileOptions",
    "ProfilePlane",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "measured",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]

_lock = threading.Lock()
_running: dict[str, Any] = {}
"""The session that runs, its folder, and whether it shall be written for Perfetto, too."""
_server: list[Any] = []


def start_trace(
    log_dir: os.PathLike | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: object = None,
) -> None:
    """Start to record what host and devices do; `stop_trace` writes it.

    Args:
      log_dir: the folder to write to. What is recorded goes to plugins/profile/ in it.
      create_perfetto_link: not supported; open the file of create_perfetto_trace in
        https://ui.perfetto.dev instead.
      create_perfetto_trace: also write perfetto_trace.json.gz, in which `measured` puts operations
        and lines of yours in place of XLA's names.
      profiler_options: a `ProfileOptions`, with levels of detail.

    Raises:
      RuntimeError: a trace is being recorded already.
      ValueError: create_perfetto_link is True.

    >>> import tempfile, weft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     weft.profiler.start_trace(folder)
    ...     weft.numpy.ones(3).block_until_ready()
    ...     weft.profiler.stop_trace()
    Array([1., 1., 1.], dtype=float32)
    """
    if create_perfetto_link:
        raise ValueError(
            "start_trace: create_perfetto_link=True would serve files from this process; give "
            "create_perfetto_trace=True and open the file it writes in https://ui.perfetto.dev"
        )
    with _lock:
        if _running:
            raise RuntimeError(
                f"start_trace: a trace into {_running['folder']} is being recorded; end it with "
                "weft.profiler.stop_trace() first"
            )
        client = backend.client()  # its devices must be there to be traced
        _xla.clear_metadata()
        _xla.set_metadata(f"{client.platform}_version", client.platform_version)
        session = _xla.ProfilerSession(profiler_options or ProfileOptions())
        _running.update(session=session, folder=os.fspath(log_dir), perfetto=create_perfetto_trace)


def stop_trace() -> None:
    """End the trace and write it. See `start_trace` for an example.

    Raises RuntimeError if none is being recorded.

    >>> import weft
    >>> weft.profiler.stop_trace()
    Traceback (most recent call last):
    ...
    RuntimeError: stop_trace: no trace is being recorded; call start_trace first
    """
    with _lock:
        if not _running:
            raise RuntimeError("stop_trace: no trace is being recorded; call start_trace first")
        session, folder, perfetto = (_running[n] for n in ("session", "folder", "perfetto"))
        _running.clear()
        session.stop_and_export(folder)
        if perfetto:
            _write_perfetto(Path(folder))


def _write_perfetto(folder: Path) -> None:
    """Return the newest run's trace without the metadata, which Perfetto does not read."""
    newest = max((folder / "plugins" / "profile").iterdir(), key=os.path.getmtime)
    [source] = newest.glob("*.trace.json.gz")
    with gzip.open(source, "rt") as file:
        events = json.load(file)
    events.pop("metadata", None)
    with gzip.open(newest / "perfetto_trace.json.gz", "wt") as file:
        json.dump(events, file)


@contextmanager
def trace(
    log_dir: os.PathLike | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: object = None,
) -> Iterator[None]:
    """Record what happens in a `with` block. See `start_trace` for the arguments.

    >>> import tempfile, weft
    >>> with tempfile.TemporaryDirectory() as folder, weft.profiler.trace(folder):
    ...     weft.numpy.ones(3).block_until_ready()
    Array([1., 1., 1.], dtype=float32)
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def measured(
    log_dir: os.PathLike | str, lowered: Any, hardware: str | HardwareModel | None = None
) -> list[Operation]:
    """Find a program's operations in a trace: the time that each took, beside the estimate.

    Operations of the trace for Perfetto, where one was written, get the program's kinds and lines
    as their names.

    Args:
      log_dir: the folder that `start_trace` was given.
      lowered: what ran, as `weft.jit(f).lower(*args)`.
      hardware: the model of the estimates, as for `weft.comm`.

    Returns the operations of the newest trace in the folder, the longest first.

    Raises FileNotFoundError if there is no trace in the folder.

    >>> import tempfile, weft
    >>> def f(x): return weft.numpy.sort(x) * 2
    >>> x = weft.numpy.arange(9.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with weft.profiler.trace(folder):
    ...         y = weft.jit(f)(x).block_until_ready()
    ...     found = weft.profiler.measured(folder, weft.jit(f).lower(x))
    >>> all(row.seconds > 0 for row in found)
    True
    """
    trace = newest_trace(log_dir, "measured")
    text = optimized_text(lowered)
    report = program_report(lowered._program, lowered.stages, hardware)
    for path in trace.glob("perfetto_trace.json.gz"):
        _name_by_line(path, instructions(text))
    return list(measure(report, trace, text).measured)


def _name_by_line(path: Path, instructions: dict[str, Instruction]) -> None:
    """Give the operations of a trace for Perfetto the kinds and the lines of a program."""
    with gzip.open(path, "rt") as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:
        if event.get("name") in instructions:
            event["args"] = {**event.get("args", {}), "instruction": event["name"]}
            event["name"] = " ".join(instructions[event["name"]][:2])
    with gzip.open(path, "wt") as file:
        json.dump(trace, file)


class StepTraceAnnotation(TraceAnnotation):
    """Names a step of a training loop in the trace: a `with` block with its `step_num`.

    >>> import weft
    >>> for i in range(2):
    ...     with weft.profiler.StepTraceAnnotation("train", step_num=i):
    ...         pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)  # _r marks the root of a step for XProf


def annotate_function(
    func: Callable | None = None, name: str | None = None, **decorator_kwargs: object
) -> Callable:
    """Return the function with its calls shown in the trace, by its name or the one given.

    Without a function it is a decorator. decorator_kwargs are shown with the calls.

    >>> import weft
    >>> @weft.profiler.annotate_function
    ... def load(): return 3
    >>> load()
    3
    """
    if func is None:
        return lambda f: annotate_function(f, name, **decorator_kwargs)
    shown = name or getattr(func, "__qualname__", None) or type(func).__name__

    @wraps(func)
    def annotated(*args: object, **kwargs: object) -> Any:
        with TraceAnnotation(shown, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Serve traces of this process to XProf or TensorBoard, until `stop_server`.

    requires_backend: start the devices now, so that they are traced.

    Raises RuntimeError if one serves already, ValueError for what is no port.

    >>> import weft
    >>> server = weft.profiler.start_server(0)
    >>> weft.profiler.stop_server()
    """
    if not 0 <= port <= 65535:
        raise ValueError(f"start_server: port must be from 0 (any free one) to 65535, got {port}")
    if _server:
        raise RuntimeError("start_server: one is running; end it with weft.profiler.stop_server()")
    if requires_backend:
        backend.client()
    _server.append(_xla.start_server(port))
    return _server[0]


def stop_server() -> None:
    """End the server. Raises RuntimeError if none is running.

    >>> import weft
    >>> weft.profiler.stop_server()
    Traceback (most recent call last):
    ...
    RuntimeError: stop_server: no server is running; call start_server first
    """
    if not _server:
        raise RuntimeError("stop_server: no server is running; call start_server first")
    _server.clear()


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Trace another process along with this one, through its server.

    pid: its number. port: where its `start_server` serves.

    Returns a function that ends it, as does losing the function.

    Raises RuntimeError if the server cannot be reached, ValueError for what is no port.

    >>> import weft
    >>> weft.profiler.register_subprocess(pid=1, port=-1)
    Traceback (most recent call last):
    ...
    ValueError: register_subprocess: port must be from 1 to 65535, got -1
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"register_subprocess: port must be from 1 to 65535, got {port}")
    return _xla.register_subprocess(pid, port)


def device_memory_profile(backend: str | None = None) -> bytes:
    """Return the live allocations of a platform's devices, in pprof's gzipped format.

    >>> import gzip, weft
    >>> len(gzip.decompress(weft.profiler.device_memory_profile())) > 0
    True
    """
    return gzip.compress(client(backend).heap_profile())


def save_device_memory_profile(filename: os.PathLike | str, backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file, for `pprof` to read.

    >>> import os, tempfile, weft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "memory.prof")
    ...     weft.profiler.save_device_memory_profile(path)
    ...     os.path.getsize(path) > 0
    True
    """
    Path(filename).write_bytes(device_memory_profile(backend))


seal(globals())

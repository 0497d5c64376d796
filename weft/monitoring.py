"""weft.monitoring: listeners to what happens while functions are traced and compiled.

weft tells of these events: the durations "/jax/core/compile/jaxpr_trace_duration",
"/jax/core/compile/jaxpr_to_mlir_module_duration" and "/jax/core/compile/backend_compile_duration",
with the function's name as `fun_name`; and where programs are kept on disk, the events
"/jax/compilation_cache/compile_requests_use_cache", ".../cache_hits" and ".../cache_misses". A
program may tell of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from weft.core.events import DURATIONS, EVENTS, SCALARS, SPANS, tell
from weft.core.namespace import seal

__all__ = [
    "CompileTimes",
    "clear_event_listeners",
    "record_event",
    "record_event_duration_secs",
    "record_event_time_span",
    "record_scalar",
    "register_event_duration_secs_listener",
    "register_event_listener",
    "register_event_time_span_listener",
    "register_scalar_listener",
    "unregister_event_duration_listener",
    "unregister_event_listener",
    "unregister_event_time_span_listener",
    "unregister_scalar_listener",
]


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell listeners that something happened.

    >>> import weft
    >>> seen = []
    >>> weft.monitoring.register_event_listener(lambda event, **tags: seen.append((event, tags)))
    >>> weft.monitoring.record_event("/my/restart", host=3); seen
    [('/my/restart', {'host': 3})]
    >>> weft.monitoring.clear_event_listeners()
    """
    tell(EVENTS, event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell listeners how many seconds something took.

    >>> import weft
    >>> weft.monitoring.register_event_duration_secs_listener(print)
    >>> weft.monitoring.record_event_duration_secs("/my/load", 0.5)
    /my/load 0.5
    >>> weft.monitoring.clear_event_listeners()
    """
    tell(DURATIONS, event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell listeners from when to when, in seconds of `time.time()`, something took place.

    >>> import weft
    >>> weft.monitoring.register_event_time_span_listener(print)
    >>> weft.monitoring.record_event_time_span("/my/load", 1.0, 3.0)
    /my/load 1.0 3.0
    >>> weft.monitoring.clear_event_listeners()
    """
    tell(SPANS, event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Tell listeners a number.

    >>> import weft
    >>> weft.monitoring.register_scalar_listener(print)
    >>> weft.monitoring.record_scalar("/my/loss", 0.25)
    /my/loss 0.25
    >>> weft.monitoring.clear_event_listeners()
    """
    tell(SCALARS, event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, **tags) at each event.

    >>> import weft
    >>> weft.monitoring.register_event_listener(print)
    >>> weft.monitoring.record_event("/my/restart")
    /my/restart
    >>> weft.monitoring.clear_event_listeners()
    """
    EVENTS.append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, seconds, **tags) at each duration.

    >>> import weft
    >>> seen = {}
    >>> weft.monitoring.register_event_duration_secs_listener(
    ...     lambda event, seconds, fun_name="", **tags: seen.setdefault(fun_name, []).append(event)
    ... )
    >>> def double(x): return x + x
    >>> weft.jit(double)(3)
    Array(6, dtype=int32, weak_type=True)
    >>> [event.rsplit("/")[-1] for event in seen["double"]]
    ['jaxpr_trace_duration', 'jaxpr_to_mlir_module_duration', 'backend_compile_duration']
    >>> weft.monitoring.clear_event_listeners()
    """
    DURATIONS.append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, start, end, **tags) at each span of time.

    >>> import weft
    >>> weft.monitoring.register_event_time_span_listener(print)
    >>> weft.monitoring.clear_event_listeners()
    """
    SPANS.append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, value, **tags) at each number.

    >>> import weft
    >>> weft.monitoring.register_scalar_listener(print)
    >>> weft.monitoring.clear_event_listeners()
    """
    SCALARS.append(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Take a listener back. Raises ValueError if it is none.

    >>> import weft
    >>> weft.monitoring.register_event_listener(print)
    >>> weft.monitoring.unregister_event_listener(print)
    """
    _remove(EVENTS, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Take a listener to durations back. Raises ValueError if it is none.

    >>> import weft
    >>> weft.monitoring.register_event_duration_secs_listener(print)
    >>> weft.monitoring.unregister_event_duration_listener(print)
    """
    _remove(DURATIONS, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Take a listener to spans of time back. Raises ValueError if it is none.

    >>> import weft
    >>> weft.monitoring.register_event_time_span_listener(print)
    >>> weft.monitoring.unregister_event_time_span_listener(print)
    """
    _remove(SPANS, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Take a listener to numbers back. Raises ValueError if it is none.

    >>> import weft
    >>> weft.monitoring.register_scalar_listener(print)
    >>> weft.monitoring.unregister_scalar_listener(print)
    """
    _remove(SCALARS, callback)


def clear_event_listeners() -> None:
    """Take all listeners back.

    >>> import weft
    >>> weft.monitoring.register_event_listener(print)
    >>> weft.monitoring.clear_event_listeners()
    >>> weft.monitoring.record_event("/my/restart")
    """
    for listeners in (EVENTS, DURATIONS, SPANS, SCALARS):
        listeners.clear()


def _remove(listeners: list[Callable[..., None]], callback: Callable) -> None:
    if callback not in listeners:
        raise ValueError(f"{callback!r} is no listener of this kind; register it first")
    listeners.remove(callback)


_STAGES = {
    "jaxpr_trace": "trace",
    "jaxpr_to_mlir_module": "lower",
    "propagate": "propagate",
    "make_explicit": "partition",
    "localize": "partition",
    "optimize": "partition",
    "backend_compile": "XLA",
}
"""The column of a table of times that a duration counts in."""


class CompileTimes:
    """A table of how long the programs of a `with` block took to be traced, lowered and compiled.

    Attributes:
      seconds: by function, by stage: trace, lower, propagate, partition, XLA. Programs from the
        cache of the process take none; those from the disk's count as XLA.

    >>> import weft
    >>> def double(x): return x + x
    >>> with weft.monitoring.CompileTimes() as times:
    ...     _ = weft.jit(double)(3)
    >>> list(times.seconds["double"])
    ['trace', 'lower', 'XLA']
    >>> print(times)
    milliseconds  trace  lower  propagate  partition  XLA  sum
    double ...
    """

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}

    def __enter__(self) -> CompileTimes:
        DURATIONS.append(self._count)
        return self

    def __exit__(self, *exception: object) -> None:
        DURATIONS.remove(self._count)

    def _count(self, event: str, seconds: float, fun_name: str = "", **tags: object) -> None:
        match = re.search(r"/(\w+)_duration$", event)
        stage = _STAGES.get(match[1]) if match else None
        if stage is not None:
            row = self.seconds.setdefault(fun_name.removeprefix("jit_"), {})
            row[stage] = row.get(stage, 0.0) + seconds

    def __str__(self) -> str:
        columns = list(dict.fromkeys(_STAGES.values()))
        table = [["milliseconds", *columns, "sum"]]
        for name, row in sorted(self.seconds.items(), key=lambda item: -sum(item[1].values())):
            cells = (*(row.get(c, 0.0) for c in columns), sum(row.values()))
            table.append([name, *(f"{1e3 * cell:.1f}" for cell in cells)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in table
        )

    __repr__ = __str__


seal(globals())

"""Types of weft.monitoring, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any

from weft.typing import Array as Array

class CompileTimes:
    """A table of how long the programs of a `with` block took to be traced, lowered and …"""
    def __init__(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *exception: Any) -> None: ...

def clear_event_listeners() -> None:
    """Take all listeners back."""

def record_event(event: str, **kwargs: str | int) -> None:
    """Tell listeners that something happened."""

def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell listeners how many seconds something took."""

def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell listeners from when to when, in seconds of `time.time()`, something took place."""

def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Tell listeners a number."""

def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, seconds, **tags) at each duration."""

def register_event_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, **tags) at each event."""

def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, start, end, **tags) at each span of time."""

def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Call callback(event, value, **tags) at each number."""

def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Take a listener to durations back. Raises ValueError if it is none."""

def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Take a listener back. Raises ValueError if it is none."""

def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Take a listener to spans of time back. Raises ValueError if it is none."""

def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Take a listener to numbers back. Raises ValueError if it is none."""

# Tests: tests/test_monitoring.py
"""Events that listeners are told of: that something happened, how long it took, how much it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

EVENTS: list[Callable[..., None]] = []
DURATIONS: list[Callable[..., None]] = []
SPANS: list[Callable[..., None]] = []
SCALARS: list[Callable[..., None]] = []

# The names are JAX's, so that listeners written for them hear the same.
TRACED = "/jax/core/compile/jaxpr_trace_duration"
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
PARTITIONED = "/weft/partition/{}_duration"  # of propagate, make_explicit, localize, optimize
CACHE_ASKED = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"


def tell(listeners: list[Callable[..., None]], event: str, *values: float, **tags: object) -> None:
    """Call each listener with the event, its values and its tags."""
    for listener in tuple(listeners):
        listener(event, *values, **tags)


UNMEASURED = nullcontext()
"""In place of `measured` while nobody listens to durations."""


@contextmanager
def measured(event: str, name: str) -> Iterator[None]:
    """Tell how long a `with` block took, unless it raised, for the function of a name."""
    start, begin = time.time(), time.perf_counter()
    yield
    seconds = time.perf_counter() - begin
    tell(DURATIONS, event, seconds, fun_name=name)
    tell(SPANS, event, start, start + seconds, fun_name=name)

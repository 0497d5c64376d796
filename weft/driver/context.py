"""Options as context managers, and the caches of tracing and dispatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from weft.core.caches import clear_listed, forget_unused
from weft.core.config import TRANSFERS, UserContext, options
from weft.core.primitive import PRIMITIVES
from weft.runtime import dispatch
from weft.runtime.executable import effects_barrier

__all__ = ["clear_caches", "effects_barrier", "make_user_context", *options]


def _context(name: str) -> Callable[..., AbstractContextManager[Any]]:
    return options[name]


enable_x64 = _context("enable_x64")
debug_key_reuse = _context("debug_key_reuse")
debug_nans = _context("debug_nans")
debug_infs = _context("debug_infs")
default_device = _context("default_device")
default_matmul_precision = _context("default_matmul_precision")
numpy_dtype_promotion = _context("numpy_dtype_promotion")
numpy_rank_promotion = _context("numpy_rank_promotion")
varying_promotion = _context("varying_promotion")
default_prng_impl = _context("default_prng_impl")
check_tracer_leaks = checking_leaks = _context("check_tracer_leaks")
enable_checks = _context("enable_checks")
threefry_partitionable = _context("threefry_partitionable")
log_compiles = _context("log_compiles")
explain_cache_misses = _context("explain_cache_misses")
no_tracing = _context("no_tracing")
no_execution = _context("no_execution")
legacy_prng_key = _context("legacy_prng_key")
enable_custom_prng = _context("enable_custom_prng")
transfer_guard_host_to_device = _context("transfer_guard_host_to_device")
transfer_guard_device_to_device = _context("transfer_guard_device_to_device")
transfer_guard_device_to_host = _context("transfer_guard_device_to_host")
array_garbage_collection_guard = _context("array_garbage_collection_guard")
thread_guard = _context("thread_guard")


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Run jitted functions op by op inside the `with` block, on this thread.

    >>> import weft
    >>> with weft.disable_jit():
    ...     weft.jit(lambda x: print("x is", x))(3)
    x is 3
    """
    return options["disable_jit"](disable)


@contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """Say what happens at transfers between host and devices inside the `with` block.

    new_val: "allow", "log" or "disallow" the implicit ones (of NumPy arrays among arguments, of
    arrays on other devices, of values that are read), or "log_explicit", "disallow_explicit" also
    those by `device_put` and `device_get`. On the CPU arrays are read without a transfer.

    `transfer_guard_host_to_device`, `transfer_guard_device_to_device` and
    `transfer_guard_device_to_host` guard one direction.

    Raises ValueError for another level.

    >>> import weft, numpy as np
    >>> f = weft.jit(lambda x: x + x)
    >>> with weft.transfer_guard("disallow"):
    ...     f(weft.device_put(np.ones(2)))
    Array([2., 2.], dtype=float32)
    """
    with ExitStack() as stack:
        for name in (*(f"transfer_guard_{d}" for d in TRANSFERS), "transfer_guard"):
            stack.enter_context(options[name](new_val))
        yield


def make_user_context(default_value: Any = None) -> UserContext:
    """Make a value that jitted functions may depend on: they are traced anew when it changes.

    The result is called with a value and is a context manager that sets it on this thread;
    `.value` reads it. Values are hashable.

    >>> import weft
    >>> scale = weft.make_user_context(1.0)
    >>> f = weft.jit(lambda x: x * scale.value)
    >>> with scale(3.0):
    ...     f(2.0)
    Array(6., dtype=float32, weak_type=True)
    >>> f(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return UserContext(default_value)


def clear_caches() -> None:
    """Forget all traces, compiled programs and dispatch entries of this process.

    >>> import weft
    >>> weft.clear_caches()
    """
    import gc

    dispatch.clear_caches()
    clear_listed()
    for prim in PRIMITIVES.values():
        prim.rule_cache.clear()
        prim.eager_cache.clear()
    gc.collect()  # traces and programs may stand in cycles
    forget_unused()

"""Options as context managers, and the caches of tracing and dispatch."""

from __future__ import annotations

from weft.core.config import options
from weft.runtime.executable import effects_barrier

__all__ = ["clear_caches", "effects_barrier", *options]


def _context(name: str) -> object:
    return options[name]


enable_x64 = _context("enable_x64")
disable_jit = _context("disable_jit")
debug_nans = _context("debug_nans")
debug_infs = _context("debug_infs")
default_device = _context("default_device")
default_matmul_precision = _context("default_matmul_precision")
numpy_dtype_promotion = _context("numpy_dtype_promotion")
numpy_rank_promotion = _context("numpy_rank_promotion")
default_prng_impl = _context("default_prng_impl")
check_tracer_leaks = checking_leaks = _context("check_tracer_leaks")
enable_checks = _context("enable_checks")
threefry_partitionable = _context("threefry_partitionable")
log_compiles = _context("log_compiles")


def clear_caches() -> None:
    """Forgets all traces, compiled programs and dispatch entries of this process.

    >>> import weft
    >>> weft.clear_caches()
    """
    import gc

    from weft.core.aval import forget_unused
    from weft.core.caches import clear_listed
    from weft.core.primitive import PRIMITIVES
    from weft.runtime import dispatch

    dispatch.clear_caches()
    clear_listed()
    for prim in PRIMITIVES.values():
        prim.rule_cache.clear()
        prim.eager_cache.clear()
    gc.collect()  # traces and programs may stand in cycles
    forget_unused()

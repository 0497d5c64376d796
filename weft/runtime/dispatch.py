"""Cached dispatch: jaxlib's C++ call path in front of a Python cache-miss function.

The protocol, as jaxlib 0.10.2 implements it. ``cached_call(...)`` returns a callable object. A call

1. reads ``disable_jit``: if set, calls ``fun`` itself;
2. splits off static arguments, flattens the others with ``dispatch_registry`` and builds a
   signature: tree, shapes, dtypes, weak types, shardings of committed arrays, static values, the
   traced configuration (``config.trace_key()``, so also the mesh in context), ``cache_key``;
3. if the signature is known and has fast-path data: transfers what is not in place
   (`shard_argument` for what C++ cannot move itself), runs the executable, wraps the results with
   ``out_avals`` and ``out_shardings``, and rebuilds the tree. No Python runs;
4. otherwise calls ``cache_miss(*args, **kwargs)``, all arguments included, which must return

       (result, fastpath_data or None, remove_entry)

   ``result`` is the value to return (the pytree). ``fastpath_data`` is a `FastpathData`
   (`Executable.fastpath` builds it): with it, the next call of this signature takes step 3; with
   None every call of the signature comes here. ``remove_entry`` True forgets the signature.

A result that is not all `Array`s, side effects, or debugging checks on results need None.
``out_pytree_def`` must come from ``dispatch_registry.flatten(result)``. ``cache_miss`` also gets
calls with tracers or unknown types among the arguments: they have no signature.

Runs that `cpu_run_limit` counts (several virtual CPU devices) take step 3 too; a hook that C++
calls after it counts them. The hook is set when the first such function gets its fast-path data.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from weft._xla import pytree, stands_for_jax
from weft._xla.config import set_post_hook
from weft._xla.dispatch import FastpathData, PjitFunction, PjitFunctionCache, pjit
from weft.core.boundary import api_boundary
from weft.runtime import backend, cpu_run_limit
from weft.runtime.array import ArrayImpl
from weft.runtime.device_put import shard_argument
from weft.runtime.executable import Executable

PjitFunctionType: Any = PjitFunction
"""The class of what `cached_call` returns; methods such as ``lower`` are set on it."""

_cache = PjitFunctionCache(capacity=8192)


def cached_call(
    fun: Callable,
    cache_miss: Callable[..., tuple[Any, tuple[FastpathData, int] | None, bool]],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    cache_key: Hashable = (),
    name: str | None = None,
) -> Any:
    """Return a callable that runs ``fun`` through the C++ dispatch path (see the module's text).

    ``cache_key`` must differ wherever the same ``fun`` is jitted with different options (donation,
    shardings, devices, compiler options): entries are shared between equal ``(fun, cache_key)``.
    The result has ``_clear_cache()`` and ``_cache_size()``, and takes attributes.
    """
    calls = cpu_run_limit.started_runs(fun)

    @api_boundary
    def counting_miss(*args: object, **kwargs: object) -> tuple:
        result, fastpath, remove = cache_miss(*args, **kwargs)
        if fastpath is None:
            return result, None, remove
        fast, bit = fastpath
        if bit == cpu_run_limit.CALLS_BACK:
            calls.waits = True
            set_post_hook(cpu_run_limit.count_run)
        elif bit:
            if cpu_run_limit.inside.pending is not None or not fast.out_avals:
                return result, None, remove  # Python checks such runs, or keeps their tokens
            calls.add(bit, fast.out_avals)
            if bit != cpu_run_limit.FIRST:
                set_post_hook(cpu_run_limit.count_run)
        return result, fast, remove

    function: Any = pjit(
        name or getattr(fun, "__name__", "<unnamed function>"),
        _weakly_referenced(fun),
        counting_miss,
        list(static_argnums),
        list(static_argnames),
        (cache_key,),
        pytree.dispatch_registry,
        shard_argument,
        _cache,
    )
    functools.update_wrapper(function, fun)
    function._calls = calls
    return function


def _weakly_referenced(fun: Callable) -> Callable:
    """Return a function that can be referred to weakly: itself, or a wrapper.

    C++ keeps its caches by weak references, and ends the process over an object that takes none,
    such as one of a class with __slots__ (quirks.WEAK_FUNCTIONS).
    """
    if type(fun).__weakrefoffset__:
        return fun
    return lambda *args, **kwargs: fun(*args, **kwargs)


def fastpath(
    executable: Executable,
    result: object,
    args: Sequence[Any],
    const_args: Sequence[Any] = (),
    *,
    logged: bool = False,
) -> tuple[FastpathData, int] | None:
    """Return the fast-path data for a run of ``executable`` that gave ``result``, or None.

    With it, where the program runs, as `cpu_run_limit.place_of` says it.

    args: the flat arguments of that run. logged: the caller notes calls over several processes.
    """
    if executable.log is not None and not logged:
        return None
    if executable.has_side_effects or executable.has_callbacks and not _may_call_back(executable):
        return None
    if not executable.in_place([*const_args, *args]):
        return None  # quirks.PARTS_ELSEWHERE
    leaves, tree = pytree.dispatch_registry.flatten(result)
    if len(leaves) != len(executable.out_avals):
        return None
    if not all(type(leaf) is ArrayImpl for leaf in leaves):
        return None
    if executable.has_callbacks and not all(leaf.is_ready() for leaf in leaves):
        return None
    data = executable.fastpath(tree, len(args), const_args)
    devices = cpu_run_limit.CALLS_BACK if executable.has_callbacks else executable.place
    return None if data is None else (data, devices)


def _may_call_back(executable: Executable) -> bool:
    """Tell whether C++ may start a program with callbacks: on the only CPU device, for JAX's ones.

    They expect a callback's exception as XLA words it; weft's own get the exception itself. A
    program that XLA runs at once, on the thread that starts it, holds no thread of the pool.
    """
    alone = executable.place == cpu_run_limit.ELSEWHERE and len(executable.compiled.devices) == 1
    return alone and stands_for_jax() and executable.compiled.devices[0].platform == "cpu"


def clear_caches() -> None:
    """Forget every signature of every jitted function."""
    PjitFunctionCache.clear_all()
    _cache.clear()  # those whose jitted function is gone, which another one of the same would find


def _note_fork() -> None:
    if backend.forked:  # no call may run past Python, which refuses it
        clear_caches()


os.register_at_fork(after_in_child=_note_fork)

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

Runs that `in_flight` counts (several virtual CPU devices) take a second such path behind the cache
miss of the first. That and the wait for an older run cost 25 µs on 8 devices, whose call takes 150.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from weft._xla import pytree
from weft._xla.dispatch import FastpathData, PjitFunction, PjitFunctionCache, pjit
from weft.core.boundary import api_boundary
from weft.runtime import in_flight
from weft.runtime.array import ArrayImpl
from weft.runtime.device_put import shard_argument
from weft.runtime.executable import Executable

PjitFunctionType: Any = PjitFunction
"""The class of what `cached_call` returns; methods such as ``lower`` are set on it."""

_cache = PjitFunctionCache(capacity=8192)


def cached_call(
    fun: Callable,
    cache_miss: Callable[..., tuple[Any, FastpathData | None, bool]],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    cache_key: Hashable = (),
    name: str | None = None,
) -> Any:
    """A callable that runs ``fun`` through the C++ dispatch path (see the module's text).

    ``cache_key`` must differ wherever the same ``fun`` is jitted with different options (donation,
    shardings, devices, compiler options): entries are shared between equal ``(fun, cache_key)``.
    The result has ``_clear_cache()`` and ``_cache_size()``, and takes attributes.
    """

    def compiled_path(cache_miss: Callable, cache_key: Hashable) -> Any:
        return pjit(
            name or getattr(fun, "__name__", "<unnamed function>"),
            fun,
            cache_miss,
            list(static_argnums),
            list(static_argnames),
            (cache_key,),
            pytree.dispatch_registry,
            shard_argument,
            _cache,
        )

    @api_boundary
    def first_miss(*args: Any, **kwargs: Any) -> tuple:
        counted = getattr(outer, "_counted", None)
        if counted is not None and in_flight.inside.pending is None:
            return counted(args, kwargs)
        result, fast, remove = cache_miss(*args, **kwargs)
        if fast is not None and in_flight.counts(fast.xla_executable):
            outer._counted = _CountedCalls(cache_miss, compiled_path, cache_key)
            fast = None
        return result, fast, remove

    outer: Any = compiled_path(first_miss, cache_key)
    return outer


class _CountedCalls:
    """The calls of one function whose runs `in_flight` counts.

    They have a C++ path of their own behind the cache miss of the function's.
    """

    __slots__ = ("cache_miss", "compiled", "handles")

    def __init__(self, cache_miss: Callable, compiled_path: Callable, cache_key: Hashable) -> None:
        self.cache_miss = cache_miss
        self.compiled = compiled_path(self.miss, ("counted", cache_key))
        self.handles: dict[int, int] = {}  # by the number of results

    def __call__(self, args: tuple, kwargs: dict) -> tuple:
        """What a cache miss returns. Signatures of runs that are not counted become known there."""
        in_flight.make_room()
        result = self.compiled(*args, **kwargs)
        missed, _missed.found = _missed.found, None
        if missed is not None:  # an `Executable` counted the run, if it was to be
            return missed
        leaves = (result,) if type(result) is ArrayImpl else _leaves(result)
        in_flight.note(leaves[self._handle(leaves)])
        return result, None, False

    def _handle(self, leaves: Sequence[Any]) -> int:
        """Which result is kept to wait for the run."""
        position = self.handles.get(len(leaves))
        if position is None:  # another function with the same key made the C++ path's entry
            position = in_flight.handle_position([x.aval for x in leaves]) or 0
            self.handles[len(leaves)] = position
        return position

    def miss(self, *args: Any, **kwargs: Any) -> tuple:
        result, fast, remove = self.cache_miss(*args, **kwargs)
        if fast is None or not in_flight.counts(fast.xla_executable):
            _missed.found = result, fast, remove
            return _missed.found
        _missed.found = result, None, remove
        position = in_flight.handle_position(fast.out_avals)
        if position is None:
            return _missed.found
        self.handles[len(fast.out_avals)] = position
        return result, fast, remove


class _Missed(threading.local):
    """What this thread's last cache miss of counted calls returned, until its caller takes it."""

    found: tuple | None = None


_missed = _Missed()


def _leaves(result: Any) -> list:
    return pytree.dispatch_registry.flatten(result)[0]


def clear_cache(function: Any) -> None:
    """Forget every signature of one function."""
    function._clear_cache()
    function._counted = None


def dispatch_tree(result: Any) -> Any:
    """The tree of a result as the C++ path rebuilds it."""
    return pytree.dispatch_registry.flatten(result)[1]


def fastpath(
    executable: Executable, result: Any, num_args: int, const_args: Sequence[Any] = ()
) -> FastpathData | None:
    """Fast-path data for a run of ``executable`` that gave ``result``, or None if it has none."""
    leaves, tree = pytree.dispatch_registry.flatten(result)
    if len(leaves) != len(executable.out_avals):
        return None
    if not all(type(leaf) is ArrayImpl for leaf in leaves):
        return None
    return executable.fastpath(tree, num_args, const_args)


def clear_caches() -> None:
    """Forget every signature of every jitted function."""
    PjitFunctionCache.clear_all()

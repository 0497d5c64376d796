# Tests: tests/core/test_config.py
"""Configuration states that jaxlib's C++ dispatch reads: thread-local values over globals."""

from __future__ import annotations

from jaxlib import _jax

Config = _jax.config.Config
unset = _jax.config.unset
"""Marks "no thread-local value": the global one applies."""

trace_context = _jax.config.trace_context
"""The tuple of every state created with ``traced=True``; part of the C++ dispatch cache key."""

trace_context_names = _jax.config.trace_context_names


def state(name: str, value, *, traced: bool = False) -> Config:
    """Return a named state. ``traced`` states are part of every trace and dispatch cache key.

    Each of these is hashed by every call of a jitted function (8 ns), so there are
    few: see `TracedOptions`.
    """
    return Config(name, value, include_in_jit_key=traced, include_in_trace_context=traced)


def dispatch_flag(name: str, value) -> Config:
    """Return a state of the C++ dispatch key only: it does not change what is traced."""
    return Config(name, value, include_in_jit_key=True, include_in_trace_context=False)


# The C++ side reads these three before any dispatch; it must be given them first.
enable_x64 = state("enable_x64", False)
disable_jit = state("disable_jit", False)
post_hook = state("post_hook", None)

_jax.jax_jit.set_enable_x64_state(enable_x64)
_jax.jax_jit.set_disable_jit_state(disable_jit)
_jax.jax_jit.set_post_hook_state(post_hook)


class _Values:
    """A tuple of option values; equal tuples are one object, which hashes as a pointer."""

    __slots__ = ("__weakref__", "values")
    _interned: dict[tuple, _Values] = {}

    def __new__(cls, values: tuple) -> _Values:
        self = cls._interned.get(values)
        if self is None:
            self = cls._interned[values] = object.__new__(cls)
            self.values = values
        return self

    def __repr__(self) -> str:
        return repr(self.values)


class TracedOptions:
    """The options that change tracing, packed into two parts of cache keys.

    `publish_globals` and `publish_locals` are called after the value of an option was set.
    """

    def __init__(self) -> None:
        self._states: list[Config] = []
        self._globals = state("traced_options", _Values(()), traced=True)
        self._locals = state("traced_overrides", _Values(()), traced=True)

    def add(self, option: Config) -> None:
        self._states.append(option)
        self.publish_globals()

    def publish_globals(self) -> None:
        self._globals.set_global(_Values(tuple([s.get_global() for s in self._states])))

    def publish_locals(self) -> None:
        """Publish this thread's overrides of options to jaxlib's thread-local state."""
        values = tuple([s.get_local() for s in self._states])
        self._locals.set_local(unset if all(v is unset for v in values) else _Values(values))


traced_options = TracedOptions()


def set_post_hook(hook) -> None:
    """Call ``hook(function, args, kwargs, result)`` after each C++ dispatch; None removes it."""
    post_hook.set_global(hook)

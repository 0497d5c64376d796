"""Configuration states that jaxlib's C++ dispatch reads: thread-local values over globals."""

from __future__ import annotations

from jaxlib import _jax

Config = _jax.config.Config
unset = _jax.config.unset
"""Marks "no thread-local value": the global one applies."""

trace_context = _jax.config.trace_context
"""The tuple of every state created with ``traced=True``; part of the C++ dispatch cache key."""

trace_context_names = _jax.config.trace_context_names


def state(name: str, value, *, traced: bool) -> Config:
    """A named state. ``traced`` states are part of every trace and dispatch cache key."""
    return Config(name, value, include_in_jit_key=traced, include_in_trace_context=traced)


def dispatch_flag(name: str, value) -> Config:
    """A state that is part of the C++ dispatch key only: it does not change what is traced."""
    return Config(name, value, include_in_jit_key=True, include_in_trace_context=False)


# The C++ side reads these three before any dispatch; it must be given them first.
enable_x64 = state("enable_x64", False, traced=True)
disable_jit = state("disable_jit", False, traced=True)
post_hook = state("post_hook", None, traced=False)

_jax.jax_jit.set_enable_x64_state(enable_x64)
_jax.jax_jit.set_disable_jit_state(disable_jit)
_jax.jax_jit.set_post_hook_state(post_hook)


def set_post_hook(hook) -> None:
    """Call ``hook(function, args, kwargs, result)`` after each C++ dispatch; None removes it."""
    post_hook.set_global(hook)

# Tests: tests/core/test_trace.py
"""Tracing the function arguments of higher-order functions, each once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.core.caches import clearable
from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr
from weft.core.source import function_name
from weft.core.state import axes_key
from weft.core.trace import Tracer, closed_call_jaxpr
from weft.core.tree import flatten, flatten_fun

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


class Body:
    """A traced body: `jaxpr` takes the closed-over `consts` in front of the flat arguments."""

    __slots__ = ("consts", "jaxpr", "out_tree")

    def __init__(self, jaxpr: ClosedJaxpr, consts: list, out_tree: PyTreeDef) -> None:
        self.jaxpr = jaxpr
        self.consts = consts
        self.out_tree = out_tree


_bodies: weakref.WeakKeyDictionary = clearable(weakref.WeakKeyDictionary())


def trace_body(fun: Callable, args_tree: PyTreeDef, avals: Sequence[Any]) -> Body:
    """Trace `fun` for arguments whose tree is that of `(args, kwargs)`.

    The same function with the same types gives the same body, so that what transformations and
    the compiler derive from it is made once; a function that closes over tracers is traced anew.
    """
    key = (args_tree, tuple(avals), config.trace_key(), axes_key())
    try:
        bodies = _bodies.setdefault(fun, {})
    except TypeError:  # no weak references or no hash
        bodies = {}
    body = bodies.get(key)
    if body is None:
        # The body's tracers need the arrays' methods, whatever was imported first.
        import_module("weft.numpy.methods")
        flat_fun, out = flatten_fun(fun, args_tree)
        name = function_name(fun)
        jaxpr, consts = closed_call_jaxpr(flat_fun, avals, name)
        body = Body(jaxpr, consts, out.tree)
        if not any(isinstance(c, Tracer) for c in consts):
            bodies[key] = body
    return body


_derived: weakref.WeakKeyDictionary = clearable(weakref.WeakKeyDictionary())


def derived(fun: Callable, key: str, make: Callable[[Callable], Callable]) -> Callable:
    """`make(fun)`, one for each function as long as that lives: what is traced of it is kept."""
    try:
        ref = weakref.ref(fun)
        programs = _derived.setdefault(fun, {})
    except TypeError:
        return make(fun)
    cached = programs.get(key)
    if cached is None:

        def call(*args: object) -> Any:
            target = ref()  # a strong reference would keep fun alive through its own entry
            assert target is not None
            return target(*args)

        call.__name__ = function_name(fun)
        cached = programs[key] = make(call)
    return cached


def args_tree(*args: ArrayLike | Sequence | dict | None) -> Any:
    """Return the tree of a call with these positional arguments."""
    return flatten((args, {}))[1]

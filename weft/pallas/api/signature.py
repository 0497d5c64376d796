# Tests: tests/pallas/api/test_call.py
"""How a kernel is called: its refs in order, and what was built for each signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.caches import make_room
from weft.core.config import config
from weft.core.state import axes_key
from weft.core.trace import Tracer, typeof
from weft.pallas.ir import KernelCall

MAX_BUILDS = 1024

Build = Callable[[list, Any, list[str]], tuple[KernelCall, list]]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order of a kernel's refs: arguments, outputs, then scratch, by name if it is a dict."""

    in_tree: Any
    out_tree: Any
    scratch_tree: Any
    many: bool  # out_shape is a list or tuple: each output is an argument of its own

    def __call__(self, refs: Sequence[Any]) -> tuple[tuple, dict]:
        outs = self.in_tree.num_leaves
        scratch = outs + self.out_tree.num_leaves
        args = self.in_tree.unflatten(refs[:outs])
        outputs = self.out_tree.unflatten(refs[outs:scratch])
        kept = self.scratch_tree.unflatten(refs[scratch:])
        positional = (*args, *(outputs if self.many else (outputs,)))
        if isinstance(kept, Mapping):
            return positional, dict(kept)
        return (*positional, *kept), {}


def misfit_of(fun: Callable, *args: Any, **kwargs: Any) -> tuple[Any, TypeError] | None:
    """Return the signature of a function that does not take these arguments, and Python's error."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return signature, error
    return None


class Builds:
    """The kernel calls built so far, by what their tracing depends on; the oldest are dropped."""

    __slots__ = ("_build", "_known")

    def __init__(self, build: Build):
        self._build = build
        self._known: dict[tuple, tuple[KernelCall, list]] = {}

    def __call__(self, flat: list, in_tree: object, names: list[str]) -> tuple[KernelCall, list]:
        """Return the call for these arguments, and what the kernel closes over."""
        key = (in_tree, tuple(typeof(x) for x in flat), config.trace_key(), axes_key())
        known = self._known.get(key)
        if known is None:
            known = self._build(flat, in_tree, names)
            if not any(isinstance(c, Tracer) for c in known[1]):
                make_room(self._known, MAX_BUILDS)
                self._known[key] = known
        return known

# Tests: tests/compat/test_as_jax.py
"""Members that JAX's objects have and weft's lack, added where `import jax` finds weft."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

from weft.autodiff.jvp import JVPTrace, JVPTracer, cotangent_aval, tangent_aval
from weft.autodiff.vmap import BatchTrace, BatchTracer
from weft.compat.options import install as install_options
from weft.core.aval import ShapedArray
from weft.core.config import WeftConfig
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from weft.core.notebook import drawn_classes
from weft.core.primitive import Primitive
from weft.core.source import Source
from weft.core.state import current_trace
from weft.core.trace import StagedTracer, StagingTrace, Tracer
from weft.numpy import methods
from weft.runtime.array import Array, ArrayImpl
from weft.sharding import NamedSharding, SingleDeviceSharding


def _debug_info(self: Any) -> Any:
    from weft.compat.jax.core import DebugInfo

    jaxpr = getattr(self, "jaxpr", self)
    return DebugInfo("jit", str(jaxpr.debug), None, None)


def _traceback(self: Source) -> Any:
    from weft.compat.jax.extend.source_info_util import Traceback

    return None if self.code is None else Traceback(self)


class EqnContext:
    """Where an equation is evaluated again: all that holds there is in its params."""

    manager = property(lambda self: contextlib.nullcontext())


_CONTEXT = EqnContext()


def _new_tracer(self: Any, trace: Any, aval: object) -> None:
    self._trace, self.aval = trace, aval


def _bind_with_trace(self: Any, trace: object, args: Any, *avals_and_params: Any) -> Any:
    """Apply an operation under a trace, to operands whose types may be given too."""
    with current_trace(trace):
        return self.bind(*args, **avals_and_params[-1])


def _parse_flags(self: object) -> None:
    """Set the options that the command line gives as `--jax_name=value`."""
    import sys

    from weft.core.config import config

    words = itertools.takewhile(lambda word: word != "--", sys.argv[1:])
    for word in [w for w in words if re.match("--?(no)?jax_", w)]:
        name, has_value, text = word.lstrip("-").partition("=")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        if not has_value:
            name, value = name.removeprefix("no"), not name.startswith("no")
        config.update(name, int(text) if text.isdigit() else value)
        sys.argv.remove(word)


def _parse_all_flags(self: object) -> None:
    """Set the options of the command line, and absl's flags where a program has defined some."""
    import sys

    _parse_flags(self)
    absl = sys.modules.get("absl.flags")
    if absl is not None and not absl.FLAGS.is_parsed():
        absl.FLAGS(sys.argv, known_only=True)


_ADDRESSABLE = property(lambda self: tuple(self._internal_device_list.addressable_device_list))

# Class -> member -> what it is.
_MEMBERS: dict[type, dict[str, Any]] = {
    ShapedArray: {
        "to_tangent_aval": tangent_aval,
        "to_ct_aval": cotangent_aval,
        "at_least_vspace": tangent_aval,
        "normalize": lambda self: self,
        # of a type of arrays, as the types of hijax say what their values lower to
        "lo_ty": lambda self: [self],
        "lower_val": lambda self, value: [value],
        "raise_val": lambda self, value: value,
    },
    WeftConfig: {
        "parse_flags_with_absl": _parse_all_flags,
        "config_with_absl": _parse_flags,
        "complete_absl_config": _parse_flags,
    },
    **dict.fromkeys((JVPTrace, BatchTrace, StagingTrace), {"main": property(lambda self: self)}),
    Source: {
        "name_stack": property(lambda self: "/".join(self.scopes)),
        "traceback": property(_traceback),
    },
    # for orbax
    NamedSharding: {"_addressable_device_assignment": _ADDRESSABLE},
    SingleDeviceSharding: {"_addressable_device_assignment": _ADDRESSABLE},
    Tracer: {"__init__": _new_tracer},
    Primitive: {
        "bind_with_trace": _bind_with_trace,
        "call_primitive": False,
        "map_primitive": False,
    },
    Eqn: {"ctx": _CONTEXT},
    Jaxpr: {"debug_info": property(_debug_info)},
    ClosedJaxpr: {"debug_info": property(_debug_info)},
}

# Classes of values that no program names -> the module of JAX's that they are of, by which
# libraries (autoray, awkward, opt_einsum, pennylane) tell whose values they are.
_OF_MODULE: dict[type, str] = {
    Array: "jax",
    Tracer: "jax._src.core",
    BatchTracer: "jax._src.interpreters.batching",
    JVPTracer: "jax._src.interpreters.ad",
    StagedTracer: "jax._src.interpreters.partial_eval",
}


def install() -> None:
    """Add the members to the classes, and JAX's other options to weft's."""
    install_options()
    methods.namespace = "jax.numpy"
    for cls, module in _OF_MODULE.items():
        cls.__module__ = module
    StagedTracer.__name__ = "DynamicJaxprTracer"
    for cls in (ArrayImpl, Tracer):  # funsor asks whether values are collections.abc.Hashable
        cls.__hash__ = None  # type: ignore[assignment]
    for cls in drawn_classes:  # treescope (of flax and penzai) would frame a drawing beside its own
        del cls._repr_html_
    drawn_classes.clear()
    for cls, members in _MEMBERS.items():
        for name, member in members.items():
            if name not in cls.__dict__:
                setattr(cls, name, member)

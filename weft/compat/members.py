"""Members that JAX's objects have and weft's lack, added where `import jax` finds weft."""

from __future__ import annotations

from typing import Any

from weft.autodiff.jvp import JVPTrace, cotangent_aval, tangent_aval
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.source import Source


def _debug_info(self: Any) -> Any:
    from weft.compat.jax.core import DebugInfo

    jaxpr = getattr(self, "jaxpr", self)
    return DebugInfo("jit", str(jaxpr.debug), None, None)


# Class -> member -> what it is.
_MEMBERS: dict[type, dict[str, Any]] = {
    ShapedArray: {
        "to_tangent_aval": tangent_aval,
        "to_ct_aval": cotangent_aval,
        "at_least_vspace": tangent_aval,
    },
    JVPTrace: {"main": property(lambda self: self)},
    Source: {
        "name_stack": property(lambda self: "/".join(self.scopes)),
        "traceback": property(lambda self: None),
    },
    Jaxpr: {"debug_info": property(_debug_info)},
    ClosedJaxpr: {"debug_info": property(_debug_info)},
}


def install() -> None:
    """Adds the members to the classes."""
    for cls, members in _MEMBERS.items():
        for name, member in members.items():
            if not hasattr(cls, name):
                setattr(cls, name, member)

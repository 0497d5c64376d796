"""Members that JAX's objects have and weft's lack, added where `import jax` finds weft."""

from __future__ import annotations

from typing import Any

from weft.autodiff.jvp import JVPTrace, cotangent_aval, tangent_aval
from weft.core.aval import ShapedArray
from weft.core.config import WeftConfig
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.source import Source


def _debug_info(self: Any) -> Any:
    from weft.compat.jax.core import DebugInfo

    jaxpr = getattr(self, "jaxpr", self)
    return DebugInfo("jit", str(jaxpr.debug), None, None)


def _parse_flags(self: Any) -> None:
    """Sets the options that the command line gives as `--jax_name=value`."""
    import sys

    from weft.core.config import config

    for word in [w for w in sys.argv[1:] if w.lstrip("-").startswith("jax_")]:
        name, has_value, text = word.lstrip("-").partition("=")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        if not has_value:
            name, value = name.removeprefix("no"), not name.startswith("no")
        config.update(name, int(text) if text.isdigit() else value)
        sys.argv.remove(word)


# Class -> member -> what it is.
_MEMBERS: dict[type, dict[str, Any]] = {
    ShapedArray: {
        "to_tangent_aval": tangent_aval,
        "to_ct_aval": cotangent_aval,
        "at_least_vspace": tangent_aval,
    },
    WeftConfig: dict.fromkeys(
        ("parse_flags_with_absl", "config_with_absl", "complete_absl_config"), _parse_flags
    ),
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
            if name not in cls.__dict__:
                setattr(cls, name, member)

"""jax.experimental.hijax: what flax needs to define its types, which weft does not compute with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autodiff.transpose import is_undefined as is_undefined_primal
from weft.compat.jax.core import AbstractValue, ShapedArray
from weft.compat.primitive import Zero, instantiate_zeros
from weft.core.ref import AbstractRef

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]


class HiType:
    """A type of values that lower to several arrays."""


class MutableHiType(HiType):
    """Such a type whose values change."""


class HiPrimitive:
    """An operation on values of such types: weft has none, and says so where it is applied."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *_: object, **__: object) -> Any:
        raise NotImplementedError(
            f"{self.name}: weft has no hijax types; keep to variables that are pytrees of arrays "
            "(in flax: flax_hijax_variable off)"
        )


class VJPHiPrimitive(HiPrimitive):
    """The same with a derivative of its own."""


class AvalQDD:
    """A type with what depends on the value."""

    def __init__(self, aval: Any, qdd: Any) -> None:
        self.aval, self.qdd = aval, qdd


class AvalMutableQDD:
    """The same where that changes."""

    def __init__(self, aval: Any, mutable_qdd: Any) -> None:
        self.aval, self.mutable_qdd = aval, mutable_qdd


class aval_method:  # noqa: N801  (the public name is JAX's)
    """A method of values that their type provides."""

    def __init__(self, fun: Callable) -> None:
        self.fun = fun


class aval_property:  # noqa: N801
    """The same for a property."""

    def __init__(self, fget: Callable) -> None:
        self.fget = fget


class _AllowedEffects:
    def add_type(self, kind: type) -> None:
        """Effects need no leave in weft."""


control_flow_allowed_effects = _AllowedEffects()


def register_hitype(kind: type, to_type: Callable) -> None:
    """Takes note of a kind of values; weft computes with arrays alone."""

# Tests: tests/compat/test_experimental.py
"""jax.experimental.hijax: types of values that lower to arrays, as flax defines them.

Jitted functions take values of such types; other transformations do not. All close over them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autodiff.transpose import is_undefined as is_undefined_primal
from weft.compat.hi_primitive import HiType as HiType
from weft.compat.hi_primitive import VJPHiPrimitive as VJPHiPrimitive
from weft.compat.hi_values import MutableHiType as MutableHiType
from weft.compat.hi_values import OfType, captured, staged
from weft.compat.jax.core import AbstractValue, ShapedArray
from weft.compat.primitive import Zero, instantiate_zeros
from weft.compat.types import hitypes
from weft.core.ref import AbstractRef
from weft.core.trace import changeable

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


class HiPrimitive:
    """An operation on values of such types, which it computes where it is applied.

    The values are objects of the running Python program: a traced function may make and use them,
    and read and write those that it closes over; a jitted one may take and return them.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: object, **params: object) -> Any:
        with captured(args):
            return self.impl(*map(staged, args), **params)

    def impl(self, *_: object, **__: object) -> Any:
        raise NotImplementedError(f"{self.name}: define impl, by which weft computes it")


class AvalQDD:
    """A type with what depends on the value."""

    def __init__(self, aval: ShapedArray, qdd: object) -> None:
        self.aval, self.qdd = aval, qdd


class AvalMutableQDD:
    """The same where that changes."""

    def __init__(self, aval: ShapedArray, mutable_qdd: object) -> None:
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
        """Accept an effect, which needs no leave in weft."""


control_flow_allowed_effects = _AllowedEffects()


def register_hitype(kind: type, to_type: Callable) -> None:
    """Let `jax.typeof` tell the type of values of this class, and jitted functions take them."""
    hitypes[kind] = to_type
    changeable[kind] = OfType(to_type)

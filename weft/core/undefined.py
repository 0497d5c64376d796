# Tests: tests/core/test_trace.py
"""Operands of transpose rules whose value is not known: the linear ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.typing import ArrayLike


class NotLinear(TypeError):
    """A transpose rule asked for the value of an operand in which its op should be linear."""


class UndefinedPrimal:
    """A linear operand in a transpose rule: only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval.str_short()})"

    def __weft_array__(self) -> Any:
        raise NotLinear(f"the value of a linear operand, {self!r}, is not known")


class Unwanted(UndefinedPrimal):
    """A linear argument of a program whose cotangent is not needed."""

    __slots__ = ()


def is_undefined(x: ArrayLike | UndefinedPrimal) -> bool:
    return x.__class__ is UndefinedPrimal

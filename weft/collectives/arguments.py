# Tests: tests/collectives/test_errors.py
"""Arguments of public collectives: operands, flags and indices, checked in the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.collectives.async_types import AsyncType
from weft.collectives.groups import AxisGroup
from weft.core.errors import names_text
from weft.core.trace import Tracer, typeof

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_NUMBERS = (bool, int, float, complex)


def check_operand(api: str, x: ArrayLike, name: str = "x") -> None:
    """Check that an operand's leaves are arrays or numbers, and none is still in flight."""
    try:
        aval = typeof(x)
    except TypeError as error:
        raise TypeError(
            f"{api}: {name} must be an array, a number, or a pytree of them: {error}"
        ) from None
    if isinstance(aval, AsyncType):
        raise TypeError(
            f"{api}: {name} is a value in flight, of type {aval.str_short()}: {aval.remedy} before "
            "it is communicated again"
        )


def operand(api: str, x: Any, name: str = "x") -> Any:
    """Return arrays and tracers as they are, Python numbers as arrays of their default dtype."""
    if isinstance(x, _NUMBERS):
        return np.asarray(x, typeof(x).dtype)
    check_operand(api, x, name)
    return x


def flag(api: str, name: str, value: bool) -> bool:
    """Return a flag that decides shapes: True or False, known while tracing."""
    if isinstance(value, bool | np.bool_ | int | None):
        return bool(value)
    shown = typeof(value).str_short() if isinstance(value, Tracer) else f"{value!r:.60}"
    raise TypeError(f"{api}: {name} must be True or False, known while tracing; got {shown}")


def check_index(api: str, label: str, value: int, over: AxisGroup) -> int:
    """Return an index of the axis group as a Python int."""
    try:
        index = int(value.__index__())
    except (AttributeError, TypeError):
        shown = repr(value)
        if isinstance(value, Tracer):
            shown = f"a traced {typeof(value).str_short()}, which is not known while tracing"
        raise TypeError(f"{api}: {label} must be an int, got {shown}") from None
    if not 0 <= index < over.size:
        raise ValueError(
            f"{api}: {label} {index} is out of range: axis {names_text(over.names)} has size "
            f"{over.size}, its indices are 0 to {over.size - 1}"
        )
    return index

# Tests: tests/driver/test_jit.py
"""Calls of jitted functions with ShapeDtypeStructs among the arguments, which no result reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from weft.autodiff.dce import dce_closed
from weft.core.trace import typeof
from weft.driver.staging import ShapeDtypeStruct, array_remedy

if TYPE_CHECKING:
    from weft.driver.jit_info import Entry, JitInfo
    from weft.typing import ArrayLike


def is_described(x: object) -> TypeGuard[ShapeDtypeStruct]:
    return isinstance(x, ShapeDtypeStruct)


def type_of(x: ArrayLike | ShapeDtypeStruct) -> Any:
    return x.aval if is_described(x) else typeof(x)


def refusal(name: str, argument: str, x: object) -> TypeError:
    """Return the error for an argument of a jitted function that is no array."""
    return TypeError(
        f"jit of {name}: argument {argument} of type {type(x).__name__} is not an "
        f"array, a number or a pytree of them: {x!r:.100}. {array_remedy(x)}"
    )


def with_values(info: JitInfo, entry: Entry, leaves: Sequence) -> list:
    """Return the arguments with zeros in the places of structs.

    Raises TypeError where the function computes with one.
    """
    used = dce_closed(entry.closed)[1][len(entry.consts) :]
    for x, is_used, argument in zip(leaves, used, info.leaf_names(entry), strict=True):
        if is_used and is_described(x):
            raise refusal(info.name, argument, x)
    return [
        np.broadcast_to(np.zeros((), x.dtype), x.shape) if is_described(x) else x for x in leaves
    ]

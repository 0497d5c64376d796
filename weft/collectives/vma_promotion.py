"""Operands that do not vary along a collective's axes: promoted to varying, or refused.

The option `varying_promotion` says which. Promotion is what JAX does; but a sum of equal values is
usually a mistake, and with 'error' the calls that promote are found. Only what a user's call is
given is looked at: the rules of derivatives and batching promote as they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autodiff.manual_casts import varying_over
from weft.collectives.groups import AxisGroup
from weft.core.config import config
from weft.core.errors import made_at, names_text
from weft.core.manual_states import INVARYING
from weft.core.trace import Tracer, typeof

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_IS_OPERAND = "the result is the operand itself, so the call can be left out"
_MEANS = {
    "psum": "the sum is {size} times the operand, so multiply by weft.lax.axis_size({axes})",
    "pmean": _IS_OPERAND,
    "pmax": _IS_OPERAND,
    "pmin": _IS_OPERAND,
    "pbroadcast": _IS_OPERAND,
    "pshuffle": _IS_OPERAND,
    "pargmax": "the result is 0",
    "pargmin": "the result is 0",
    "all_gather": "the result is {size} copies of the operand, which weft.numpy.broadcast_to and "
    "tile make without communication",
    "psum_scatter": "the result is a part of {size} times the operand, so multiply by "
    "weft.lax.axis_size({axes}) and take the part at weft.lax.axis_index({axes})",
}


_NUMBERS = (bool, int, float, complex)


def varying_operand(api: str, x: Any, over: AxisGroup) -> Any:
    """Return the operand of the public collective `who`, varying along all tracked axes."""
    promoted = varying_over(x, over.tracked)
    if promoted is not x:
        check_varies(api, x, over)
    return promoted


def check_varies(api: str, x: ArrayLike, over: AxisGroup) -> None:
    """Raise if `varying_promotion` is 'error' and the operand is equal along a tracked axis.

    Python numbers are welcome: `psum(1, axis)` is a way to write the size of an axis.
    """
    if not over.tracked or config.varying_promotion != "error" or isinstance(x, _NUMBERS):
        return
    aval = typeof(x)
    equal = tuple(a for a in over.tracked if aval.mat.state(a) == INVARYING)
    if not equal:
        return
    axes, size = names_text(equal), over.only(equal).size
    where = made_at(x) if isinstance(x, Tracer) else "a constant"
    means = ""
    if over.groups is None and len(equal) == len(over.names) and api in _MEANS:
        means = "; " + _MEANS[api].format(size=size, axes=axes)
    raise ValueError(
        f"{api} over {names_text(over.names)}: the operand of type {aval.str_short()}, {where}, "
        f"does not vary along {axes}: all {size} devices hold the same value{means}. If it is "
        f"meant to, cast it with weft.lax.pcast(x, {axes}, to='varying'). "
        "(varying_promotion='error' asks to be told.)"
    )

# Tests: tests/numpy/test_formulas.py
"""Division, its remainders, and the parts of a quotient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.trace import typeof
from weft.numpy.common import INTEGERS, convert, inexact, refuse_complex, refuse_out, to_array
from weft.numpy.eager import as_one_program
from weft.numpy.operands import both, const_like, filled_like, same_rank
from weft.numpy.value_tests import isinf
from weft.ops import elementwise_api as ew

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def _integer_operands(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[Any, Any]:
    """Promoted operands; booleans divide as integers."""
    x1, x2 = both(name, x1, x2)
    if typeof(x1).dtype == dtypes.bool_:
        x1, x2 = (convert(to_array(v), dtypes.int32) for v in (x1, x2))
    refuse_complex(name, x1)
    return x1, x2


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Return the largest integer not above x1 / x2. Source: numpy.floor_divide.

    >>> import weft
    >>> weft.numpy.floor_divide(weft.numpy.array([-3, 3]), 2)
    Array([-2,  1], dtype=int32)
    """
    return as_one_program(_floor_divide, x1, x2)


def _floor_divide(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = _integer_operands("floor_divide", x1, x2)
    dtype = typeof(x1).dtype
    if dtype in dtypes.UNSIGNED:
        return ew.div_p.bind(x1, x2)
    if dtype in dtypes.SIGNED:
        quotient = ew.div_p.bind(x1, x2)
        return ew.select(_other_sign(ew.rem_p.bind(x1, x2), x2), ew.sub(quotient, 1), quotient)
    return _float_quotient(stop_gradient(x1), stop_gradient(x2))  # flat between its steps


def _other_sign(rest: Any, divisor: Any) -> Any:
    """Tell whether a remainder is not zero and of another sign than the divisor, maybe zero."""
    zero = const_like(rest, 0)
    if isinstance(divisor, int | float | np.generic) and float(divisor) > 0:
        return ew.lt_p.bind(rest, zero)
    if typeof(rest).dtype in dtypes.FLOATS:  # those of divisor zero are NaN
        below = [ew.lt_p.bind(x, const_like(x, 0)) for x in (rest, divisor)]
        return ew.and_p.bind(ew.ne_p.bind(rest, zero), ew.ne_p.bind(*below))
    return ew.and_p.bind(
        ew.ne_p.bind(rest, zero),
        ew.ne_p.bind(ew.sign_p.bind(rest), ew.sign_p.bind(divisor)),
    )


def _float_quotient(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return the whole quotient of floats, which is x1 / x2 where an operand is 0 or infinite.

    There the array API standard departs from Python: inf // 2 is inf, and 1 // -inf is -0.
    """
    mod = ew.rem_p.bind(x1, x2)
    whole = _whole(x1, x2, mod, _other_sign(mod, x2))
    whole = ew.select(ew.eq_p.bind(whole, const_like(whole, 0)), filled_like(whole, 0), whole)
    special = ew.or_p.bind(*(ew.eq_p.bind(ew.add_p.bind(x, x), x) for x in same_rank(x1, x2)))
    return ew.select(special, ew.div_p.bind(x1, x2), whole)


def _whole(x1: ArrayLike, x2: ArrayLike, mod: ArrayLike, adjust: ArrayLike) -> Any:
    quotient = ew.div_p.bind(ew.sub_p.bind(x1, mod), x2)
    quotient = ew.select(adjust, ew.sub_p.bind(quotient, const_like(x1, 1)), quotient)
    return ew.round_p.bind(quotient, rounding_method=1)


def _float_divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[Any, Any]:
    mod = ew.rem_p.bind(x1, x2)
    adjust = _other_sign(mod, x2)
    whole = _whole(x1, x2, mod, adjust)
    by_zero = ew.eq_p.bind(x2, const_like(x2, 0))  # infinite
    mod = ew.select(adjust, ew.add_p.bind(mod, x2), _signed_as(mod, x2))
    return ew.select(by_zero, ew.div_p.bind(x1, x2), whole), mod


def _signed_as(rest: ArrayLike, divisor: ArrayLike) -> Any:
    """Return a remainder of the divisor's sign or 0, which takes that sign; the derivative is 1."""
    below = ew.neg_p.bind(ew.abs_p.bind(ew.neg_p.bind(rest)))
    above = ew.abs_p.bind(rest)
    if isinstance(divisor, int | float | np.generic):
        return below if float(divisor) < 0 else above
    return ew.select(ew.lt_p.bind(divisor, const_like(divisor, 0)), below, above)


def _divisor(x: ArrayLike) -> Any:
    """Return integers by which remainders are 0 where they are 0, as NumPy has it."""
    aval = typeof(x)
    if aval.dtype not in INTEGERS or (isinstance(x, np.generic) and x != 0):
        return x
    return ew.select(ew.eq_p.bind(x, const_like(x, 0)), filled_like(x, 1), x)


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Return the remainder of floor division, with the sign of x2. Source: numpy.remainder.

    >>> import weft.numpy as wnp
    >>> wnp.remainder(wnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    return as_one_program(_remainder, x1, x2)


def _remainder(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = _integer_operands("remainder", x1, x2)
    dtype = typeof(x1).dtype
    rest = ew.rem_p.bind(x1, _divisor(x2))
    if dtype in dtypes.UNSIGNED:
        return rest
    whole = _signed_as(rest, x2) if dtype in dtypes.FLOATS else rest
    return ew.select(_other_sign(rest, x2), ew.add_p.bind(rest, x2), whole)


mod = remainder


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Return the remainder of truncating division, with the sign of x1. Source: numpy.fmod.

    >>> import weft.numpy as wnp
    >>> wnp.fmod(wnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    return as_one_program(_fmod, x1, x2)


def _fmod(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = _integer_operands("fmod", x1, x2)
    return ew.rem_p.bind(x1, _divisor(x2))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Floor division and its remainder. Source: numpy.divmod.

    >>> import weft.numpy as wnp
    >>> wnp.divmod(wnp.array([7, -7]), 3)
    (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    return as_one_program(_divmod, x1, x2)


def _divmod(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = _integer_operands("divmod", x1, x2)
    if typeof(x1).dtype in INTEGERS:
        return _floor_divide(x1, x2), _remainder(x1, x2)
    return _float_divmod(x1, x2)


def modf(x: ArrayLike, /, out: object = None) -> Any:
    """Return the fractional and the whole part, both with the sign of x. Source: numpy.modf.

    >>> import weft.numpy as wnp
    >>> wnp.modf(wnp.array([2.5, -0.25]))
    (Array([ 0.5 , -0.25], dtype=float32), Array([ 2., -0.], dtype=float32))
    """
    refuse_out("modf", out)
    x = inexact(x)
    whole = ew.select(ew.ge_p.bind(x, const_like(x, 0)), ew.floor_p.bind(x), ew.ceil_p.bind(x))
    zero = stop_gradient(ew.div_p.bind(filled_like(x, 1), x))  # of an infinity, with its sign
    return ew.select(isinf(x), zero, ew.sub_p.bind(x, whole)), whole

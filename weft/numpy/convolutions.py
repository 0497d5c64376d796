# Tests: tests/numpy/test_calculus.py, tests/numpy/test_functions.py
"""Convolution and correlation of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autodiff import shape as ops
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import aval_of, canonical, to_array
from weft.numpy.ufuncs import conjugate
from weft.ops import joining
from weft.ops.conv import conv_general_dilated
from weft.ops.promote import promote, promote_inexact

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def _convolve(
    name: str,
    a: ArrayLike,
    v: ArrayLike,
    mode: str,
    flip: bool,
    precision: object,
    preferred: DTypeLike | None,
) -> Any:
    x, y = aval_of(name, a), aval_of(name, v)
    if x.ndim != 1 or y.ndim != 1:
        raise ArgumentError(
            f"weft.numpy.{name}: takes vectors, got {x.str_short()} and {y.str_short()}"
        )
    if x.size == 0 or y.size == 0:
        raise ArgumentError(f"weft.numpy.{name}: the vectors must not be empty")
    preferred = canonical(preferred, name)
    whole = preferred is not None and dtypes.is_integer(preferred)
    a, v = (to_array(t) for t in (promote(a, v) if whole else promote_inexact(a, v)))
    swapped = x.size < y.size
    # The longer operand is the signal: convolution commutes, correlation reverses its result.
    if flip:  # convolution commutes
        if swapped:
            a, v = v, a
        kernel = joining.rev(v, (0,))
    else:
        v = conjugate(v)
        if swapped:
            a, v = v, a
        kernel = v
    m = typeof(v).shape[0]
    if mode == "full":
        padding = (m - 1, m - 1)
    elif mode == "same":
        padding = (m // 2, m - 1 - m // 2)  # of the shorter vector, as NumPy centres it
    elif mode == "valid":
        padding = (0, 0)
    else:
        raise ArgumentError(
            f"weft.numpy.{name}: mode must be 'full', 'same' or 'valid', got {mode!r}"
        )
    out = conv_general_dilated(
        ops.reshape(a, (1, 1, typeof(a).shape[0])),
        ops.reshape(kernel, (1, 1, m)),
        (1,),
        [padding],
        precision=precision,
        preferred_element_type=preferred,
    )
    out = ops.reshape(out, (typeof(out).size,))
    return joining.rev(out, (0,)) if swapped and not flip else out


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the convolution of two vectors.

    mode: 'full' for every overlap, 'same' for the size of the longer one, 'valid' for whole
    overlaps. Source: numpy.convolve.

    >>> import weft
    >>> weft.numpy.convolve(weft.numpy.array([1.0, 2.0]), weft.numpy.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float32)
    """
    return _convolve("convolve", a, v, mode, True, precision, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the cross-correlation of two vectors, the second conjugated; modes as in `convolve`.

    >>> import weft.numpy as wnp
    >>> wnp.correlate(wnp.array([1, 2, 3]), wnp.array([0, 1]), mode="full")
    Array([1., 2., 3., 0.], dtype=float32)
    """
    return _convolve("correlate", a, v, mode, False, precision, preferred_element_type)

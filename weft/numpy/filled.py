# Tests: tests/numpy/test_creation.py
"""Arrays of one value: zeros, ones, empty, full, and those like another array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_in_dim_p, check_shape
from weft.core import dtypes
from weft.core.aval import NO_MAT
from weft.core.errors import ShapeError
from weft.core.trace import Tracer, typeof
from weft.numpy.common import (
    SCALARS,
    aval_of,
    canonical,
    cast,
    check_array,
    convert,
    host_scalar,
    place,
    to_array,
)
from weft.ops.compound import stand_like, vary_like
from weft.ops.dtype_casts import host_number
from weft.ops.promote import broadcast_to as _broadcast_to

if TYPE_CHECKING:
    from weft.runtime.backend import Device
    from weft.sharding.named import NamedSharding
    from weft.typing import ArrayLike, DTypeLike


def _shape(shape: object) -> tuple[int, ...]:
    if shape.__class__ is tuple and all(d.__class__ is int and d >= 0 for d in shape):
        return shape
    return check_shape(shape)


def _filled(
    shape: object, value: object, dtype: Any, name: str, device: object, out_sharding: object
) -> Any:
    if dtype is None:
        dtype = dtypes.float64 if dtypes.config.enable_x64 else dtypes.float32
    elif (
        isinstance(dtype, np.dtype) and dtype == dtypes.float0
    ):  # cotangents of integers, of which only the shape counts
        return np.zeros(_shape(shape), dtypes.float0)
    else:
        dtype = canonical(dtype, name)
        if dtypes.is_extended(dtype):
            return place(dtype.filled(_shape(shape), value), device, out_sharding)
    x = broadcast_in_dim_p.bind(dtype.type(value), shape=_shape(shape), broadcast_dimensions=())
    return x if device is None and out_sharding is None else place(x, device, out_sharding)


def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return zeros of a shape, float by default.

    >>> import weft
    >>> weft.numpy.zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return _filled(shape, 0, dtype, "zeros", device, out_sharding)


def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return ones of a shape, float by default.

    >>> import weft
    >>> weft.numpy.ones((1, 2), "int8")
    Array([[1, 1]], dtype=int8)
    """
    return _filled(shape, 1, dtype, "ones", device, out_sharding)


def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return zeros of a shape: arrays without defined content do not exist.

    >>> import weft.numpy as wnp
    >>> wnp.empty((2, 3)).shape
    (2, 3)
    """
    return _filled(shape, 0, dtype, "empty", device, out_sharding)


def full(
    shape: int | Sequence[int],
    fill_value: ArrayLike,
    dtype: Any = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return an array of a shape filled with a value, or with an array that is broadcast.

    >>> import weft
    >>> weft.numpy.full((2,), 7, "int32")
    Array([7, 7], dtype=int32)
    """
    shape = _shape(shape)
    aval = aval_of("full", fill_value)
    if dtype is not None:
        dtype = canonical(dtype, "full")
        if isinstance(fill_value, complex):
            fill_value = host_scalar(fill_value, dtype)
        elif isinstance(fill_value, SCALARS):
            if dtypes.is_extended(dtype):
                return place(dtype.filled(shape, fill_value), device, out_sharding)
            fill_value = host_number(fill_value, dtype)
        else:
            fill_value = cast(fill_value, dtype)
    if aval.ndim == 0:
        x = broadcast_in_dim_p.bind(fill_value, shape=shape, broadcast_dimensions=())
    else:
        _check_fits(aval.shape, shape, "full")
        x = to_array(_broadcast_to(fill_value, shape))
    return x if device is None and out_sharding is None else place(x, device, out_sharding)


def _check_fits(old: tuple, new: tuple, name: str) -> None:
    if len(old) > len(new) or any(
        a not in (1, b) for a, b in zip(old[::-1], new[::-1], strict=False)
    ):
        raise ShapeError(f"weft.numpy.{name}: shape {old} does not broadcast to {new}")


def _like(
    a: ArrayLike,
    value: ArrayLike,
    dtype: Any,
    shape: Any,
    name: str,
    device: Device | NamedSharding | None,
    out_sharding: object = None,
) -> Any:
    if hasattr(a, "dtype") and hasattr(a, "shape") and not isinstance(a, np.generic):
        adtype, ashape = dtypes.canonicalize_dtype(a.dtype), a.shape
        weak = getattr(a, "weak_type", False)
    else:
        aval = aval_of(name, a)
        adtype, ashape, weak = aval.dtype, aval.shape, aval.weak_type
    of_same_shape = shape is None
    shape = ashape if of_same_shape else _shape(shape)
    weak = weak and dtype is None
    asked = adtype if dtype is None else dtype
    if isinstance(asked, np.dtype) and asked == dtypes.float0:
        return np.zeros(shape, dtypes.float0)
    dtype = adtype if dtype is None else canonical(dtype, name)
    if dtypes.is_extended(dtype):
        if isinstance(value, SCALARS):
            keys = dtype.filled(tuple(shape), value)
        else:
            keys = full(shape, value, dtype)
        return place(keys, device, out_sharding)
    if isinstance(value, SCALARS):
        value = _python(value, dtype) if weak else dtype.type(value)
        x = broadcast_in_dim_p.bind(value, shape=tuple(shape), broadcast_dimensions=())
    else:
        x = full(shape, convert(value, dtype, weak))
    # A struct has the type of a value, too.
    x = vary_like(x, getattr(a.aval if isinstance(a, Tracer) else a, "mat", NO_MAT))
    if device is not None or out_sharding is not None:
        return place(x, device, out_sharding)
    if typeof(value).ndim or (weak and not isinstance(a, Tracer)):
        return x
    return stand_like(x, a, of_same_shape)


def _python(value: Any, dtype: object) -> Any:
    """Return a Python number of the dtype's kind, so that the result is weakly typed."""
    if dtypes.is_integer(dtype):
        return int(value)
    return complex(value) if dtypes.is_complex(dtype) else float(value)


def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: int | Sequence[int] | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return zeros of an array's shape and dtype, placed as it is.

    >>> import weft
    >>> weft.numpy.zeros_like(weft.numpy.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _like(a, 0, dtype, shape, "zeros_like", device, out_sharding)


def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: int | Sequence[int] | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return ones of an array's shape and dtype, placed as it is.

    >>> import weft.numpy as wnp
    >>> wnp.ones_like(wnp.zeros((1, 2)), dtype="int8")
    Array([[1, 1]], dtype=int8)
    """
    return _like(a, 1, dtype, shape, "ones_like", device, out_sharding)


def empty_like(
    prototype: Any,
    dtype: DTypeLike | None = None,
    shape: int | Sequence[int] | None = None,
    *,
    device: Any = None,
) -> Any:
    """Return zeros of an array's shape and dtype, placed as it is.

    >>> import weft.numpy as wnp
    >>> wnp.empty_like(wnp.ones((2, 3), "int8")).dtype
    dtype('int8')
    """
    return _like(prototype, 0, dtype, shape, "empty_like", device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: int | Sequence[int] | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return a value repeated in an array's shape and dtype, placed as it is.

    >>> import weft
    >>> weft.numpy.full_like(weft.numpy.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    check_array("full_like", fill_value)
    return _like(a, fill_value, dtype, shape, "full_like", device, out_sharding)

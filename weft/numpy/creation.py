"""Making arrays: from Python values, filled, counted, from files."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import check_shape, iota_p, reshape
from weft.core import dtypes
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.source import warn
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, array_method, check_not_masked, typeof
from weft.numpy.common import (
    SCALARS,
    aval_of,
    canonical,
    cast,
    check_array,
    check_range,
    concrete,
    constant,
    created,
    host_scalar,
    place,
    scalar_array,
    settled,
    to_array,
)
from weft.ops.elementwise_api import add_p, mul_p
from weft.runtime.array import ArrayImpl
from weft.runtime.transfers import put_host

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

set_printoptions = np.set_printoptions
get_printoptions = np.get_printoptions
printoptions = np.printoptions
array_repr, array_str = np.array_repr, np.array_str
save, savez = np.save, np.savez

ON_HOST = 1 << 16
"""Elements up to which the host makes an array eagerly, instead of a program of several ops."""


# From values ----------------------------------------------------------------------------------


def asarray(
    a: object,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: builtins.bool | None = None,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return an array from an array, a number, or nested sequences of them; copies only if it must.

    copy: True copies always; False is a hint, as in JAX: a conversion to `dtype` still makes a new
    array, which no program can tell from the old one by writing to either.

    >>> import weft
    >>> weft.numpy.asarray([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    if dtype is None and not copy and order is None and device is None and out_sharding is None:
        if isinstance(a, Tracer | ArrayImpl):
            return a
        if isinstance(a, SCALARS):
            return settled(scalar_array(a))
        if a.__class__ is np.ndarray and a.dtype in _PLAIN:
            return settled(put_host(a, copy=True))  # later changes of `a` are no concern of it
    return array(
        a, dtype, copy=builtins.bool(copy), order=order, device=device, out_sharding=out_sharding
    )


_PLAIN = frozenset(map(np.dtype, ("f4", "i4", "u4", "i2", "u2", "i1", "u1", "?")))
"""NumPy dtypes that arrays have under any configuration."""


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: builtins.bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """Return an array from an array, a number, or nested sequences of them.

    dtype: of the result; else promoted from the values. copy: whether an array is copied.
    ndmin: the least number of dimensions; leading ones of size 1 are added. device: a device or
    sharding to put the result on. Raises OverflowError for integers outside the dtype's range.
    Source: numpy.array.

    >>> import weft
    >>> weft.numpy.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if not isinstance(order, str | None) or order not in (None, "C", "K", "A"):
        raise UnsupportedArgumentError(
            f"weft.numpy.array: order must be None, 'C', 'A' or 'K', got {order!r}; the layout of "
            "an array is the compiler's choice"
        )
    dtype = canonical(dtype, "array")
    if isinstance(object, Tracer):
        x = object if dtype is None else cast(object, dtype)
    elif isinstance(object, ArrayImpl):
        x = object if dtype is None else cast(object, dtype)
        if copy and x is object:
            x = object.copy()
    elif dtypes.is_extended(getattr(object, "dtype", None)):  # random keys
        x = object if dtype is None else cast(object, dtype)
        x = x.copy() if copy and x is object else x
    elif isinstance(object, SCALARS):
        if dtype is not None:
            x = scalar_array(host_scalar(object, dtype))
        else:
            x = scalar_array(object)
    elif isinstance(object, np.ndarray):
        x = constant(_host(object, dtype))
    else:
        x = _from_other(object, dtype)
    aval = typeof(x)
    if ndmin > aval.ndim:
        x = reshape(x, (1,) * (ndmin - aval.ndim) + aval.shape)
    if device is not None or out_sharding is not None:
        return place(x, device, out_sharding)
    return x if x is object else settled(x)


def _host(value: np.ndarray, dtype: Any) -> np.ndarray:
    """Return a host array that will not change under the device array."""
    check_not_masked(value)
    if value.dtype.kind in ("OMm" if dtype is not None else "OSUMm"):
        raise ArgumentError(
            f"weft.numpy.array: NumPy dtype {value.dtype} has no counterpart; give numbers or "
            "booleans"
        )
    dtype = dtypes.canonicalize_dtype(value.dtype) if dtype is None else dtype
    return np.array(value, dtype, order="C") if value.dtype == dtype else value.astype(dtype)


def _leaves(x: Any, out: list) -> list:
    for v in x:
        if isinstance(v, list | tuple):
            _leaves(v, out)
        else:
            out.append(v)
    return out


def _from_other(x: list, dtype: Any) -> Any:
    method = array_method(x)
    if method is not None:
        x = method()
        return x if dtype is None else cast(x, dtype)
    if isinstance(x, range):
        return array(np.arange(x.start, x.stop, x.step), dtype, copy=False)
    # Python numbers alone need no promotion, and are most of what comes here.
    if isinstance(x, list | tuple):
        leaves = _leaves(x, [])
        if all(v.__class__ in (builtins.bool, int, float, complex) for v in leaves):
            return _from_numbers(x, dtype)
        for v in leaves:
            if dtype is not None and isinstance(v, str | bytes):
                return constant(np.array(x, dtype))  # which parses texts
            if v is None or isinstance(v, str | bytes | dict | set):
                raise ArgumentError(
                    f"weft.numpy.array: the value {v!r} inside a sequence is not a number or array"
                )
        if dtype is None:
            dtype = dtypes.promote_types([_leaf_type(v) for v in leaves])[0]
        # Traced values and keys are stacked; all else becomes one array on the host.
        if dtypes.is_extended(dtype) or any(isinstance(v, Tracer) for v in leaves):
            from weft.numpy.joining import stack

            return stack([array(v, dtype, copy=False) for v in x])
        return constant(_host(_host_nested(x, dtype), dtype))
    if dtype is not None and isinstance(x, str | bytes):
        return constant(np.array(x, dtype))
    if x is None or isinstance(x, str | bytes | dict | set):
        raise ArgumentError(
            f"weft.numpy.array: cannot make an array from a {type(x).__name__}: {x!r:.80}"
        )
    # Protocols by which objects of other libraries give their contents.
    for interface in ("__array__", "__array_interface__"):
        if hasattr(x, interface):
            return constant(_host(np.asarray(x), dtype))
    if hasattr(x, "__dlpack__"):
        return array(from_dlpack(x), dtype, copy=False)
    try:
        view = memoryview(x)
    except TypeError:
        raise ArgumentError(
            f"weft.numpy.array: cannot make an array from a {type(x).__name__}: {x!r:.80}; give an "
            "array, a number, or nested lists of them"
        ) from None
    return constant(_host(np.asarray(view), dtype))


def _leaf_type(v: object) -> tuple[Any, builtins.bool]:
    aval = typeof(v)
    return aval.dtype, aval.weak_type


def _host_nested(x: ArrayLike | list, dtype: np.dtype) -> np.ndarray:
    if isinstance(x, list | tuple):
        return np.stack([_host_nested(v, dtype) for v in x]) if x else np.zeros((0,), dtype)
    return np.asarray(x).astype(dtype)


def _from_numbers(x: list, dtype: Any) -> Any:
    values = np.array(x)
    if values.dtype.kind == "O":
        check_range(values, dtype or dtypes.int64)
    target = dtypes.canonicalize_dtype(values.dtype) if dtype is None else dtype
    if dtypes.is_integer(target) and values.dtype.kind in "iu":
        check_range(values, target)
    elif values.dtype.kind == "c" and not dtypes.is_complex(target):
        raise ArgumentError(
            f"weft.numpy.array: complex numbers do not convert to {dtypes.short_name(target)}"
        )
    return constant(values if values.dtype == target else values.astype(target))


def copy(a: ArrayLike, order: str | None = None) -> Any:
    """Return a copy of the array in memory of its own.

    >>> import weft
    >>> weft.numpy.copy(weft.numpy.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    check_array("copy", a)
    return array(a, copy=True, order=order)


def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: builtins.bool = False, device: object = None
) -> Any:
    """Convert to another dtype: floats truncate to integers, complex lose their imaginary part.

    >>> import weft
    >>> weft.numpy.astype(weft.numpy.array([1.7]), "int32")
    Array([1], dtype=int32)
    """
    aval = aval_of("astype", x)
    target = dtypes.canonicalize_dtype(float) if dtype is None else canonical(dtype, "astype")
    if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(target):
        warn(
            "weft.numpy.astype: complex to real drops the imaginary part; take .real to say so",
            np.exceptions.ComplexWarning,
        )
    x = to_array(x)
    y = cast(x, target)
    if copy and y is x and isinstance(x, ArrayImpl):
        y = x.copy()
    return place(y, device)


def from_dlpack(
    x: ArrayLike, /, *, device: object = None, copy: builtins.bool | None = None
) -> Any:
    """Return the array of another library, sharing its memory where possible (DLPack protocol).

    >>> import weft.numpy as wnp
    >>> import numpy
    >>> wnp.from_dlpack(numpy.arange(3, dtype="float32"))
    Array([0., 1., 2.], dtype=float32)
    """
    from weft.runtime.dlpack import from_dlpack as take

    return take(x, device=device, copy=copy)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    r"""Read an array from the bytes of a buffer, of the dtype asked for; the result's is the
    one weft computes in. Source: numpy.frombuffer.

    >>> import weft.numpy as wnp
    >>> wnp.frombuffer(b"\x01\x02\x03", dtype="uint8", offset=1)
    Array([2, 3], dtype=uint8)
    """
    return array(np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=offset))


def fromstring(string: str, dtype: DTypeLike | None = float, count: int = -1, *, sep: str) -> Any:
    """Return an array from numbers in a text. Source: numpy.fromstring.

    >>> import weft.numpy as wnp
    >>> wnp.fromstring("1, 2, 3", dtype="int32", sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    return array(
        np.fromstring(string, dtype=dtypes.canonicalize_dtype(dtype), count=count, sep=sep)
    )


def fromiter(iterable: Any, dtype: DTypeLike | None, count: int = -1) -> Any:
    """Return a vector from an iterable of numbers. Source: numpy.fromiter.

    >>> import weft.numpy as wnp
    >>> wnp.fromiter((i * i for i in range(4)), dtype="int32")
    Array([0, 1, 4, 9], dtype=int32)
    """
    return array(np.fromiter(iterable, dtypes.canonicalize_dtype(dtype), count))


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Any:
    """Return a vector from a binary or text file. Source: numpy.fromfile.

    >>> import weft.numpy as wnp
    >>> import tempfile, numpy
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     numpy.arange(3, dtype="int32").tofile(file.name)
    ...     wnp.fromfile(file.name, dtype="int32")
    Array([0, 1, 2], dtype=int32)
    """
    return array(np.fromfile(file, np.dtype(dtype), count, sep, offset))


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Load the array that numpy.save wrote; a .npz file as a mapping. Source: numpy.load.

    >>> import weft.numpy as wnp
    >>> import io
    >>> file = io.BytesIO()
    >>> wnp.save(file, wnp.arange(3))
    >>> _ = file.seek(0)
    >>> wnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    out = np.load(os.fspath(file) if isinstance(file, os.PathLike) else file, *args, **kwargs)
    if isinstance(out, np.ndarray):
        # np.save writes ml_dtypes' bfloat16 as raw two-byte elements.
        out = out.view(dtypes.bfloat16) if out.dtype == np.dtype("V2") else out
        return array(out)
    return out


def fromfunction(
    function: Callable,
    shape: int | Sequence[int],
    *,
    dtype: DTypeLike | None = float,
    **kwargs: object,
) -> Any:
    """Return the function's values at the indices of an array of the shape.

    function takes one index per dimension and is mapped over all of them.

    >>> import weft
    >>> weft.numpy.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    from weft.api.vmap_api import vmap

    shape = check_shape(shape)
    mapped = lambda *ix: function(*ix, **kwargs)
    for i in range(len(shape)):
        axes = tuple(0 if j == len(shape) - 1 - i else None for j in range(len(shape)))
        mapped = vmap(mapped, in_axes=axes)
    return mapped(*(arange(n, dtype=dtype) for n in shape))


# Ranges ---------------------------------------------------------------------------------------


def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: object = None,
) -> Any:
    """start, start + step, … below stop; one argument is the stop.

    Bounds must be known while tracing: they set the shape.

    >>> import weft
    >>> weft.numpy.arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
    if dtype is not None:
        dtype = canonical(dtype, "arange")
    if start.__class__ is int and stop is None and step is None and dtype is None:
        dtype = dtypes.int64 if dtypes.config.enable_x64 else dtypes.int32
        x = iota_p.bind(dtype=dtype, shape=(max(start, 0),), dimension=0)
        return x if device is None and out_sharding is None else place(x, device, out_sharding)
    # The size has to be known: shapes are static.
    arguments = [v for v in (start, stop, step) if v is not None]
    for v in arguments:
        concrete(v, "arange: start, stop and step")
    bounds = [np.asarray(v) for v in arguments]  # a derivative would be lost, which this tells
    for b in bounds:
        if b.ndim:
            raise ArgumentError(
                f"weft.numpy.arange: start, stop and step must be numbers, got shape {b.shape}"
            )
    if dtype is None:
        dtype = dtypes.promote_types([_leaf_type(v) for v in arguments])[0]
    values = [b.item() for b in bounds]
    if any(isinstance(v, complex) for v in values):
        raise ArgumentError(f"weft.numpy.arange: start, stop and step must be real, got {values}")
    if stop is None:
        lo, hi = 0, values[0]
        by = values[-1] if step is not None else 1
    else:
        lo, hi = values[0], values[1]
        by = values[2] if step is not None else 1
    if by == 0:
        raise ArgumentError("weft.numpy.arange: step must not be zero")
    if all(v.__class__ is int for v in (lo, hi, by)) and not dtypes.is_bool(dtype):
        size = len(range(lo, hi, by))
        # An iota costs no constant in the program; few elements are made on the host at once.
        if lo == 0 and by == 1:
            x = iota_p.bind(dtype=dtype, shape=(size,), dimension=0)
        elif state.trace is EVAL and size <= ON_HOST or not dtypes.is_integer(dtype):
            x = created(np.arange(lo, hi, by).astype(dtype))
        else:
            x = iota_p.bind(dtype=dtype, shape=(size,), dimension=0)
            if by != 1:
                x = mul_p.bind(x, np.asarray(by).astype(dtype)[()])
            if lo != 0:
                x = add_p.bind(x, np.asarray(lo).astype(dtype)[()])
    else:
        # Of integers NumPy rounds the first two elements, and keeps their difference.
        whole = dtypes.is_integer(dtype)
        steps = np.arange(lo, hi, by, dtype=np.int64) if whole else np.arange(lo, hi, by)
        x = created(steps.astype(dtype))
    return x if device is None and out_sharding is None else place(x, device, out_sharding)

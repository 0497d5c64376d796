# Tests: tests/test_bad_input.py
"""Shared parts of NumPy functions: checks of arguments, canonical dtypes, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.driver.jit  # noqa: F401  (eager ops run through it)
from weft.autodiff.op_families import canonical_axes
from weft.autodiff.shape import broadcast_in_dim_p
from weft.core import dtypes, errors
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.source import warn
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, array_method, stands_for_array, typeof
from weft.numpy.refusals import refuse_out
from weft.ops.as_array import as_array
from weft.ops.elementwise_api import convert, convert_element_type_p
from weft.ops.promote import promote_inexact
from weft.runtime.array import ArrayImpl
from weft.runtime.device_put import device_put
from weft.runtime.transfers import put_host
from weft.sharding.mesh import Mesh, placing_mesh
from weft.sharding.named import NamedSharding, is_over_nothing
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

INEXACT = dtypes.FLOATS | dtypes.COMPLEX
INTEGERS = dtypes.SIGNED | dtypes.UNSIGNED
_PYTHON = frozenset((bool, int, float, complex))
SCALARS = (bool, int, float, complex, np.generic)


def canonical(dtype: DTypeLike | None, name: str = "array") -> Any:
    """Return the dtype weft computes in, for one that a user asked for; warn if narrower."""
    if dtype is None:
        return None
    result = dtypes.canonicalize_dtype(dtype)
    if dtype not in _PYTHON and not dtypes.is_extended(dtype) and np.dtype(dtype) != result:
        asked = f"weft.numpy.{name}: dtype {np.dtype(dtype)}"
        missing = f"{asked} is not available while enable_x64 is off"
        remedy = 'weft.config.update("enable_x64", True) gives 64-bit types'
        if dtypes.config.explicit_x64_dtypes == "error":
            raise ArgumentError(f"{missing}; {remedy}")
        warn(f"{missing}, {result} is used; {remedy}")
    return result


def check_array(name: str, *xs: object) -> None:
    """Raise for Python sequences, which NumPy would convert silently and slowly."""
    for i, x in enumerate(xs):
        if isinstance(x, list | tuple) or x is None or isinstance(x, str):
            raise ArgumentError(
                f"weft.numpy.{name}: argument {i} must be an array or a number, got "
                f"{type(x).__name__}; convert it with weft.numpy.asarray"
            )


def aval_of(name: str, x: Any) -> ShapedArray:
    """Return the type of an operand; lists and None are refused by name."""
    try:
        return x.aval
    except AttributeError:
        check_array(name, x)
        return typeof(x)


def refuse_complex(name: str, x: ArrayLike) -> None:
    """Raise for an operand of complex numbers."""
    aval = typeof(x)
    if dtypes.is_complex(aval.dtype):
        raise ArgumentError(
            f"weft.numpy.{name}: not defined for complex numbers, got {aval.str_short()}; take "
            "x.real, x.imag or abs(x) first"
        )


def axes_of(axis: int | str | Sequence[int | str] | None, ndim: int) -> tuple[int, ...]:
    """Return the axes a reduction runs over: all for None."""
    if axis is None:
        return tuple(range(ndim))
    if axis.__class__ is int and -ndim <= axis < ndim:
        return (axis + ndim if axis < 0 else axis,)
    return canonical_axes(axis, ndim, "axis")


def concrete(x: Any, label: str) -> np.ndarray:
    """Return the host value of something that must be known while tracing.

    The value may be differentiated: it must only decide on shapes, positions and branches.
    """
    if stands_for_array(x):
        x = array_method(x)()
    value = x.concrete() if isinstance(x, Tracer) else x
    if value is None:
        raise errors.ConcretizationTypeError(
            f"weft.numpy.{label} must be known while tracing, got a traced array of type "
            f"{x.aval.str_short()} ({errors.made_at(x)}): the shape of the result depends on it. "
            "Give a static size (most functions take size=), or compute it outside of jit."
        )
    return np.asarray(value)


def static_int(x: ArrayLike, label: str) -> int:
    """Return the Python integer of an argument that shapes depend on; floats are refused."""
    if type(x) is int:
        return x
    value = concrete(x, label)
    if value.ndim or value.dtype.kind not in "iub":
        shown = repr(x) if isinstance(x, SCALARS) else f"an array of {value.dtype}{value.shape}"
        raise ArgumentError(f"weft.numpy.{label} must be an integer, got {shown}")
    return int(value)


def is_concrete(x: object) -> bool:
    return not isinstance(x, Tracer) or x.concrete() is not None


def is_free(x: ArrayLike) -> bool:
    """Return whether the host may compute with the value.

    It is known, bound to no devices, and has no derivative, which would be lost.
    """
    if isinstance(x, Tracer) and x.differentiated:
        return False
    committed = getattr(x, "committed", False)
    return is_concrete(x) and not committed and not stands_for_array(x)


def constant(value: np.ndarray, weak_type: bool = False) -> Any:
    """Return an array on the default device from a host array, under any trace."""
    return put_host(value, weak_type=weak_type)


def created(value: np.ndarray) -> Any:
    """Return an array computed on the host, where a program that computes it would put it.

    That is the mesh in context, where this process has all of it, or else the default device.
    """
    mesh = placing_mesh()
    if not isinstance(mesh, Mesh) or state.trace is not EVAL:
        return put_host(value)
    spec = PartitionSpec() if mesh.auto_axes else PartitionSpec().padded(value.ndim)
    sharding = NamedSharding(mesh, spec)
    # Over devices of others, all processes would have to take part.
    return put_host(value, sharding if sharding.is_fully_addressable else None)


def settled(x: Any) -> Any:
    """Return an array made of values of the host where `created` would put it."""
    mesh = placing_mesh()
    if not isinstance(mesh, Mesh) or type(x) is not ArrayImpl or x._committed:
        return x
    sharding = NamedSharding(mesh, PartitionSpec())
    return device_put(x, sharding) if sharding.is_fully_addressable else x


def scalar_array(x: ArrayLike) -> Any:
    """Return a Python or NumPy scalar as an array: put on the device, or staged as a literal."""
    if state.trace is EVAL:
        return as_array(x)
    return broadcast_in_dim_p.bind(x, shape=(), broadcast_dimensions=())


def to_array(x: ArrayLike) -> Any:
    """Return an operand as an array with array methods; arrays and tracers unchanged."""
    if isinstance(x, SCALARS):
        return scalar_array(x)
    if type(x) is np.ndarray:
        return constant(x)
    return as_array(x)


def inexact(x: Any) -> Any:
    """Return the operand of a float function: integers and booleans become floats."""
    try:
        if x.aval.dtype in INEXACT:
            return x
    except AttributeError:
        if isinstance(x, list | tuple | str) or x is None:
            raise ArgumentError(
                f"takes arrays and numbers, got {type(x).__name__}; make an array of it by asarray"
            ) from None
    return promote_inexact(x)[0]


def strong(x: ArrayLike) -> Any:
    """Return the value without weak type."""
    aval = typeof(x)
    return convert(x, aval.dtype) if aval.weak_type else x


def cast(x: object, dtype: object) -> Any:
    """Conversion to a canonical dtype, without weak type."""
    aval = typeof(x)
    if aval.dtype is dtype and not aval.weak_type:
        return x
    if aval.dtype == dtype and not aval.weak_type:
        return x
    return convert(x, dtype)


def zeros_of(aval: ShapedArray) -> Any:
    """Return zeros of an array type's shape and dtype."""
    return broadcast_in_dim_p.bind(aval.dtype.type(0), shape=aval.shape, broadcast_dimensions=())


def fill(shape: Sequence[int], value: object, dtype: Any) -> Any:
    """Return an array of one repeated host scalar."""
    return broadcast_in_dim_p.bind(dtype.type(value), shape=tuple(shape), broadcast_dimensions=())


def place(x: Any, device: object, out_sharding: object = None) -> Any:
    """Return the result put where the caller asks."""
    if device is not None:
        return x if is_over_nothing(device) else device_put(x, device)
    if out_sharding is not None:
        from weft.sharding.explicit import reshard

        return reshard(x, out_sharding)
    return x


__all__ = [
    "INEXACT",
    "INTEGERS",
    "as_array",
    "aval_of",
    "axes_of",
    "canonical",
    "cast",
    "check_array",
    "concrete",
    "constant",
    "convert",
    "convert_element_type_p",
    "fill",
    "inexact",
    "is_concrete",
    "place",
    "refuse_complex",
    "refuse_out",
    "scalar_array",
    "static_int",
    "strong",
    "to_array",
    "zeros_of",
]


def host_scalar(value: Any, dtype: Any) -> Any:
    """Return a Python number as a NumPy scalar of the dtype; raise where that would change it."""
    if isinstance(value, int) and dtypes.is_integer(dtype):
        check_range(np.asarray(value), dtype)
    if isinstance(value, complex) and not dtypes.is_complex(dtype):
        raise ArgumentError(
            f"weft.numpy.array: {value!r} is complex and does not convert to "
            f"{dtypes.short_name(dtype)}; take its .real or .imag"
        )
    return np.asarray(value).astype(dtype)[()]


def check_range(values: np.ndarray, dtype: np.dtype) -> None:
    """Raise OverflowError for integers outside the range of a dtype."""
    if values.size and values.dtype.kind != "b" and values.dtype != dtype:
        info = dtypes.iinfo(dtype)
        if values.dtype.kind == "O" or values.min() < info.min or values.max() > info.max:
            raise OverflowError(
                f"weft.numpy.array: a Python integer is outside the range of {dtype} "
                f"[{info.min}, {info.max}]; ask for a wider dtype (64-bit types need "
                "weft.config.enable_x64) or a float"
            )

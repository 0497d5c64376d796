# Tests: tests/ops/test_elementwise_api.py
"""Conversion to another dtype, of values and of bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import moveaxis
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike, DTypeLike


def real_dtype(dtype: np.dtype) -> Any:
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def complex_dtype(dtype: np.dtype) -> Any:
    return {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}[dtype]


def _convert_abstract(x: ShapedArray, *, new_dtype: np.dtype, weak_type: bool) -> ShapedArray:
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_jvp(primals: list, tangents: list, *, new_dtype: np.dtype, weak_type: bool) -> tuple:
    out = convert_element_type_p.bind(primals[0], new_dtype=new_dtype, weak_type=weak_type)
    if not dtypes.is_inexact(new_dtype):
        return out, None
    return out, convert_element_type_p.bind(tangents[0], new_dtype=new_dtype, weak_type=False)


def _convert_lower(ctx: RuleContext, x: ir.Value, *, new_dtype: np.dtype, weak_type: bool) -> Any:
    old = ctx.avals_in[0].dtype
    if dtypes.is_complex(old) and not dtypes.is_complex(new_dtype):
        real = ctx.tensor(ctx.avals_in[0].shape, real_dtype(old))
        if not dtypes.is_bool(new_dtype):
            x = ctx.op("stablehlo.real", [x], [real])[0]
    if dtypes.is_bool(new_dtype) and not dtypes.is_bool(old):
        zero = ctx.splat(0, ctx.avals_in[0].shape, old)
        return ctx.compare(x, zero, "NE", old)
    return ctx.op("stablehlo.convert", [x], ctx.out_types())[0]


def _kept_by_conversion(avals: list, params: dict) -> tuple:
    """Linear except from floats to integers or booleans, which rounds."""
    new = params["new_dtype"]
    rounds = dtypes.is_inexact(avals[0].dtype) and not dtypes.is_inexact(new)
    return () if rounds or dtypes.is_bool(new) else (0,)


convert_element_type_p = Primitive(
    "convert_element_type",
    abstract=_convert_abstract,
    jvp=_convert_jvp,
    transpose=lambda ct, x, *, new_dtype, weak_type: [
        convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=False)
    ],
    batch=lambda axis, args, dims, **params: (
        convert_element_type_p.bind(args[0], **params),
        dims[0],
    ),
    lower=_convert_lower,
    sharding="elementwise",
    linear=_kept_by_conversion,
)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Any:
    """Convert to another dtype; float → int truncates, complex → real drops the imaginary part.

    Integers that the new dtype does not hold wrap around.

    Source: StableHLO specification, `convert`.

    >>> import weft
    >>> weft.lax.convert_element_type(weft.numpy.array([1.7]), "int32")
    Array([1], dtype=int32)
    """
    if new_dtype is None:
        raise ValueError("convert_element_type: new_dtype must be a dtype, got None")
    weak = new_dtype in (int, float, complex)
    dtype = dtypes.canonicalize_dtype(new_dtype)
    if isinstance(operand, HOST_NUMBERS) and not dtypes.is_extended(dtype):
        operand = host_number(operand, dtype)
    elif not isinstance(operand, np.ndarray):
        return convert(operand, dtype, weak)
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak)


HOST_NUMBERS = (bool, int, float, complex, np.generic)


def host_number(value: Any, dtype: np.dtype) -> Any:
    """Convert a number of the host as XLA does: integers wrap, floats saturate."""
    if dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        if isinstance(value, float | np.floating):
            value = 0 if value != value else min(max(value, low), high)
        value = (int(getattr(value, "real", value)) - low) % (high - low + 1) + low
    elif isinstance(value, int) and not dtypes.is_bool(dtype):
        value = float(value)  # NumPy takes no integer of more than 64 bits
    with np.errstate(all="ignore"):
        number: Any = np.asarray(value).astype(dtype)[()]
    return number


def convert(operand: object, dtype: object, weak_type: bool = False) -> Any:
    """Conversion to a canonical dtype, none if the operand has it."""
    aval = typeof(operand)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return operand
    if dtypes.is_extended(dtype) or dtypes.is_extended(aval.dtype):
        raise UnsupportedArgumentError(
            f"cannot convert {aval.str_short()} to {dtypes.short_name(dtype)}: random keys do not "
            "convert; see weft.random.key_data and weft.random.wrap_key_data"
        )
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak_type)


def _bitcast_abstract(x: ShapedArray, *, new_dtype: np.dtype) -> ShapedArray:
    if dtypes.is_extended(x.dtype) or dtypes.is_extended(new_dtype):
        raise TypeError(
            f"bitcast_convert_type: {x.str_short()} to {dtypes.short_name(new_dtype)}: random keys "
            "are no numbers; see weft.random.key_data and weft.random.wrap_key_data"
        )
    if x.dtype != new_dtype and (
        dtypes.is_complex(x.dtype) != dtypes.is_complex(new_dtype)
        or dtypes.is_bool(x.dtype) != dtypes.is_bool(new_dtype)
    ):
        raise TypeError(
            f"bitcast_convert_type: {x.str_short()} has no bits to read as "
            f"{dtypes.short_name(new_dtype)}; complex numbers and booleans only become themselves "
            "(convert_element_type converts values, x.view(dtype) takes any)"
        )
    old, new = bit_width(x.dtype), bit_width(new_dtype)
    shape = x.shape
    if old > new:
        shape = (*shape, old // new)
    elif old < new:
        if not shape or shape[-1] != new // old:
            raise ValueError(
                f"bitcast_convert_type: to become {dtypes.short_name(new_dtype)}, the last "
                f"dimension of {x.str_short()} must have size {new // old}"
            )
        shape = shape[:-1]
    return ShapedArray(shape, new_dtype)


def bit_width(dtype: np.dtype) -> int:
    if dtype.name in ("int4", "uint4", "float4_e2m1fn"):
        return 4
    return 2 if dtype.name in ("int2", "uint2") else dtype.itemsize * 8


def _bitcast_batch(axis: AxisData, args: list, dims: list, *, new_dtype: np.dtype) -> tuple:
    return bitcast_convert_type_p.bind(moveaxis(args[0], dims[0], 0), new_dtype=new_dtype), 0


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type",
    abstract=_bitcast_abstract,
    jvp=lambda primals, tangents, *, new_dtype: (
        bitcast_convert_type_p.bind(primals[0], new_dtype=new_dtype),
        None,
    ),
    batch=_bitcast_batch,
    lower=lambda ctx, x, *, new_dtype: ctx.op("stablehlo.bitcast_convert", [x], ctx.out_types())[0],
    sharding="elementwise",
)


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Any:
    """Return the operand's bits read as another dtype; a narrower one adds a last dimension.

    >>> import weft
    >>> weft.lax.bitcast_convert_type(weft.numpy.ones(()), "int32")
    Array(1065353216, dtype=int32)
    """
    if new_dtype is None:
        raise ArgumentError("bitcast_convert_type needs a dtype, such as 'int32', got None")
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.canonicalize_dtype(new_dtype))

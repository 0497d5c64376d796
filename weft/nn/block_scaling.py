"""Products of block-scaled low-precision operands (MXFP8, NVFP4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.autodiff.op_families import canonical_axis
from weft.core import dtypes
from weft.core.caches import clearable
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.nn.functions import scaled_matmul
from weft.ops import elementwise_api as ew

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


@dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How one operand is rounded: blocks of `block_size` values share a scale.

    mode: "mxfp8" or "nvfp4". data_type, scale_type: the dtypes of values and scales.
    global_scale: a factor of the whole operand (nvfp4). infer_only: no backward product.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: object = None) -> BlockScaleConfig:
    """Return the standard configuration of a block-scaled format, "mxfp8" or "nvfp4".

    Source: OCP Microscaling Formats (MX) specification v1.0; NVIDIA, "NVFP4".

    >>> import weft
    >>> weft.nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    small = dtypes._small
    if mode == "nvfp4":
        one = wnp.ones((1,), np.float32)
        return BlockScaleConfig(
            mode,
            16,
            small["float4_e2m1fn"],
            small["float8_e4m3fn"],
            one if global_scale is None else global_scale,
            False,
        )
    if mode == "mxfp8":
        return BlockScaleConfig(
            mode, 32, small["float8_e4m3fn"], small["float8_e8m0fnu"], None, False
        )
    raise ArgumentError(
        f"get_scaled_dot_general_config: mode must be 'nvfp4' or 'mxfp8', got {mode!r}"
    )


def _power_of_two_above(x: Array) -> Any:
    """Return the least power of two not below x, as a float32: what an e8m0 scale can hold."""
    bits = ew.bitcast_convert_type_p.bind(x, new_dtype=dtypes.uint32)
    exponent = ew.shift_right_logical(bits, np.uint32(23))
    rest = ew.bitwise_and(bits, np.uint32((1 << 23) - 1))
    exponent = ew.add(exponent, ew.convert(ew.gt(rest, np.uint32(0)), dtypes.uint32))
    exponent = ew.clamp(np.uint32(1), exponent, np.uint32(254))
    return ew.bitcast_convert_type_p.bind(
        ew.shift_left(exponent, np.uint32(23)), new_dtype=dtypes.float32
    )


def quantize(x: ArrayLike, config: BlockScaleConfig) -> tuple[Any, Any]:
    """Quantize an operand by blocks of its last dimension: values, scales `[..., K / block_size]`.

    The values come in `config.data_type`; the scales are float32 numbers of `config.scale_type`.
    """
    shape = typeof(x).shape
    size = config.block_size
    if not shape[-1] or shape[-1] % size:
        raise ArgumentError(
            f"scaled_dot_general: the contracted size {shape[-1]} must be a multiple of the block "
            f"size {size} of {config.mode}"
        )
    x = wnp.reshape(wnp.asarray(x).astype(np.float32), (*shape[:-1], shape[-1] // size, size))
    info = dtypes.finfo(config.data_type)
    if config.global_scale is not None:
        x = wnp.divide(x, config.global_scale)
    scales = wnp.max(wnp.abs(x), axis=-1) / float(info.max)
    if config.mode == "mxfp8":
        scales = _power_of_two_above(scales)
    else:
        top = float(dtypes.finfo(config.scale_type).max)
        scales = wnp.clip(scales, 0, top).astype(config.scale_type).astype(np.float32)
    divisor = wnp.where(scales == 0, np.float32(1), scales)
    values = wnp.clip(x / wnp.expand_dims(divisor, -1), float(info.min), float(info.max))
    return wnp.reshape(values.astype(config.data_type), shape), scales


def _product(lhs: Array, rhs: Array, configs: Sequence[Any], dtype: np.dtype) -> Any:
    """`[B, M, K]` times `[B, N, K]` over K, each rounded as its configuration says."""
    (x, sx), (y, sy) = (quantize(v, c) for v, c in zip((lhs, rhs), configs, strict=True))
    out = scaled_matmul(x, y, sx, sy, preferred_element_type=np.float32)
    for c in configs:
        if c.global_scale is not None:
            out = out * c.global_scale
    return ew.convert(out, dtype)


def _exact(lhs: ArrayLike, rhs: ArrayLike, dtype: object) -> Any:
    from weft.lax import dot_general

    lhs, rhs = (wnp.asarray(v).astype(np.float32) for v in (lhs, rhs))
    return ew.convert(dot_general(lhs, rhs, (((2,), (2,)), ((0,), (0,)))), dtype)


@clearable
@lru_cache(maxsize=256)
def _differentiable(configs: tuple, dtype: np.dtype) -> Any:
    """Return the product with its backward products, rounded by the third configuration (mxfp8)."""
    from weft import custom_vjp

    def rounded(lhs: Array, rhs: Array, other: BlockScaleConfig, out_dtype: np.dtype) -> Any:
        fits = typeof(lhs).shape[-1] % configs[2].block_size == 0
        if configs[2].mode == "mxfp8" and fits:
            return _product(lhs, rhs, (configs[2], other), out_dtype)
        return _exact(lhs, rhs, out_dtype)

    @custom_vjp
    def product(lhs: Array, rhs: Array) -> Any:
        return _product(lhs, rhs, configs[:2], dtype)

    def forward(lhs: Array, rhs: Array) -> tuple:
        return product(lhs, rhs), (lhs, rhs)

    def backward(saved: tuple, ct: Array) -> tuple:
        lhs, rhs = saved
        ct_lhs = rounded(ct, wnp.swapaxes(rhs, 1, 2), configs[1], typeof(lhs).dtype)
        ct_rhs = rounded(
            wnp.swapaxes(ct, 1, 2), wnp.swapaxes(lhs, 1, 2), configs[0], typeof(rhs).dtype
        )
        return ct_lhs, ct_rhs

    product.defvjp(forward, backward)
    return product


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    preferred_element_type: DTypeLike | None = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Any:
    """`dot_general` of operands rounded to a block-scaled format.

    configs: one each for lhs, rhs, and the gradients; None multiplies without rounding.

    Source: OCP Microscaling Formats (MX) specification v1.0.

    >>> import weft, numpy as np
    >>> x = np.ones((2, 32), "float32")
    >>> configs = [weft.nn.get_scaled_dot_general_config("mxfp8")] * 3
    >>> weft.nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs).tolist()
    [[32.0, 32.0], [32.0, 32.0]]
    """
    from weft.lax import dot_general

    if configs is None:
        return dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    (contract, batch) = dimension_numbers
    if preferred_element_type is None:
        preferred_element_type = wnp.result_type(lhs, rhs)
    dtype = dtypes.canonicalize_dtype(preferred_element_type)
    flat, kept, lead = [], [], ()
    for x, c, b in zip((lhs, rhs), contract, batch, strict=True):
        shape = typeof(x).shape
        for d in (*c, *b):
            canonical_axis(d, len(shape), "dimension_numbers: dimension")
        free = [d for d in range(len(shape)) if d not in c and d not in b]
        lead = tuple(shape[d] for d in b)
        kept.append(tuple(shape[d] for d in free))
        sizes = [int(np.prod([shape[d] for d in dims])) for dims in (b, free, c)]
        flat.append(wnp.reshape(wnp.transpose(x, (*b, *free, *c)), sizes))
    out = _differentiable(tuple(configs), dtype)(*flat)
    return wnp.reshape(out, (*lead, *kept[0], *kept[1]))

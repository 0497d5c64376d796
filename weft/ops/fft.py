"""Fast Fourier transforms over up to three last dimensions."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import linear_unary
from weft.autodiff.shape import moveaxis
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.lowering.sharding import whole_for_xla
from weft.ops.elementwise_api import complex_dtype, conjugated, convert, mul, real, real_dtype
from weft.ops.joining import pad
from weft.ops.layout_constraint import lay_out
from weft.sharding.explicit import reshard

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.sharding.spec import PartitionSpec
    from weft.typing import ArrayLike


class FftType(enum.Enum):
    """FFT and IFFT map complex to complex, RFFT real to half of the spectrum, IRFFT back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


Lengths = tuple[int, ...]


def _abstract(x: ShapedArray, *, fft_type: FftType, fft_lengths: Lengths) -> ShapedArray:
    n = len(fft_lengths)
    if not 1 <= n <= 3 or x.ndim < n:
        raise ValueError(
            f"fft: fft_lengths {fft_lengths} must have 1 to 3 entries, and the operand "
            f"{x.str_short()} at least that rank"
        )
    wants_real = fft_type is FftType.RFFT
    if wants_real and x.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"fft: RFFT takes float32 or float64, got {x.str_short()}")
    if not wants_real and not dtypes.is_complex(x.dtype):
        raise TypeError(f"fft: {fft_type.name} takes a complex operand, got {x.str_short()}")
    expected = list(fft_lengths)
    if fft_type is FftType.IRFFT:
        expected[-1] = fft_lengths[-1] // 2 + 1 if fft_lengths[-1] else 0
    if list(x.shape[-n:]) != expected:
        raise ValueError(
            f"fft: the last dimensions of {x.str_short()} must be {tuple(expected)} for "
            f"{fft_type.name} with fft_lengths {fft_lengths}"
        )
    if fft_type is FftType.RFFT:
        last = fft_lengths[-1] // 2 + 1 if fft_lengths[-1] else 0
        return ShapedArray((*x.shape[:-1], last), complex_dtype(x.dtype))
    if fft_type is FftType.IRFFT:
        return ShapedArray((*x.shape[:-1], fft_lengths[-1]), real_dtype(x.dtype))
    return ShapedArray(x.shape, x.dtype)


def _transpose(ct: Any, aval: ShapedArray, *, fft_type: FftType, fft_lengths: Lengths) -> Any:
    """Transform back: the Fourier matrix is symmetric; real ones drop or double half of it."""
    if fft_type in (FftType.FFT, FftType.IFFT):
        return fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)
    n = fft_lengths[-1]
    half = n // 2 + 1
    if fft_type is FftType.RFFT:
        config = [(0, 0, 0)] * (aval.ndim - 1) + [(0, n - half, 0)]
        whole = pad(ct, ct.dtype.type(0), config)
        return real(fft_p.bind(whole, fft_type=FftType.FFT, fft_lengths=fft_lengths))
    # IRFFT reads every frequency twice, but 0 and, if n is even, n / 2.
    weights = np.full(half, 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    weights /= math.prod(fft_lengths)
    spectrum = fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
    scale = np.broadcast_to(weights.astype(aval.dtype), aval.shape)
    return mul(conjugated(spectrum), scale)


def _batch(axis: object, x: ArrayLike, dim: int, **params: object) -> tuple:
    return fft_p.bind(moveaxis(x, dim, 0), **params), 0


def _lower(ctx: RuleContext, x: ir.Value, *, fft_type: FftType, fft_lengths: Lengths) -> Any:
    out = ctx.avals_out[0]
    if out.size == 0 or ctx.avals_in[0].size == 0:
        return ctx.splat(0, out.shape, out.dtype)
    attrs = {
        "fft_type": ctx.attr(f"#stablehlo<fft_type {fft_type.name}>"),
        "fft_length": ctx.i64s(fft_lengths),
    }
    transformed = range(out.ndim - len(fft_lengths), out.ndim)
    x = whole_for_xla(ctx, x, ctx.avals_in[0], transformed)  # quirks.GSPMD_SPLIT_FFT
    # As weft's own partitioner does: quirks.FFT_LAYOUT.
    ordered = ctx.module.for_xla and "cpu" in ctx.module.platforms
    if ordered:
        x = lay_out(ctx, x, ctx.avals_in[0].shape, range(out.ndim))
    (result,) = ctx.op("stablehlo.fft", [x], ctx.out_types(), attrs)
    ctx.mark(result.owner, "fft")
    return lay_out(ctx, result, out.shape, range(out.ndim)) if ordered else result


fft_p: Primitive = linear_unary(
    "fft",
    abstract=_abstract,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    sharding="fft",
)


def fft(x: ArrayLike, fft_type: FftType | str | int, fft_lengths: Sequence[int]) -> Any:
    """Discrete Fourier transform of the last len(fft_lengths) dimensions.

    Args:
      x: complex, or for RFFT float32 or float64 (for FFT and IFFT reals are converted).
        A transformed dimension that explicit mesh axes split is joined, and split again after.
      fft_type: `FftType` or its name. RFFT gives the first n // 2 + 1 frequencies of the last
        dimension; IRFFT takes them.
      fft_lengths: 1 to 3 sizes, of the real side.

    Source: StableHLO specification, `fft`.

    >>> import weft
    >>> weft.lax.fft(weft.numpy.ones(4), "RFFT", (4,))
    Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__:
            raise ValueError(
                f"fft: fft_type must be one of {[*FftType.__members__]}, got {fft_type!r}"
            )
        kind = FftType[fft_type.upper()]
    else:
        kind = FftType(fft_type)
    dtype = typeof(x).dtype
    if kind is FftType.RFFT:
        if dtypes.is_complex(dtype):
            raise ValueError(f"fft: RFFT takes a real operand, got {typeof(x).str_short()}")
        if dtype not in (dtypes.float32, dtypes.float64):
            x = convert(x, dtypes.float32)
    elif not dtypes.is_complex(dtype):
        x = convert(x, complex_dtype(dtype if dtype == dtypes.float64 else dtypes.float32))
    lengths = tuple(n.__index__() for n in fft_lengths)
    if typeof(x).sharding is not None:
        return _of_split(x, kind, lengths)
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths)


def _of_split(x: object, kind: FftType, lengths: Lengths) -> Any:
    """Return the transform of an array of explicit sharding, whose parts it puts together first."""
    aval, options = typeof(x), {"fft_type": kind, "fft_lengths": lengths}
    spec = aval.sharding.spec.padded(aval.ndim)
    kept = aval.ndim - len(lengths)
    whole = spec.update(partitions=spec.partitions[:kept] + (None,) * len(lengths))
    if whole is spec or kept < 0 or not _divides(spec, aval, options):
        return fft_p.bind(x, **options)
    out = fft_p.bind(reshard(x, aval.sharding.with_spec(whole)), **options)
    return reshard(out, aval.sharding.with_spec(spec))


def _divides(spec: PartitionSpec, aval: ShapedArray, options: dict[str, Any]) -> bool:
    """Return whether the result can be split as its operand is."""
    mesh = aval.sharding.mesh
    parts = [math.prod(mesh.shape[a] for a in axes) for axes in spec.axes]
    return all(n % p == 0 for n, p in zip(_abstract(aval, **options).shape, parts, strict=True))

# Tests: tests/ops/test_conv.py
"""Dimension numbers, padding and output shapes of convolutions and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.core.errors import UnsupportedArgumentError

Dims = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

PADDINGS = ("SAME", "SAME_LOWER", "VALID")


class ConvDimensionNumbers(NamedTuple):
    """The positions of a convolution's batch, feature and spatial dimensions in its operands.

    lhs_spec: (batch, feature, *spatial). rhs_spec: (out feature, in feature, *spatial).
    out_spec: (batch, feature, *spatial).
    """

    lhs_spec: Dims
    rhs_spec: Dims
    out_spec: Dims


ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: object
) -> ConvDimensionNumbers:
    """`ConvDimensionNumbers` from None (NCHW, OIHW, NCHW), from letters, or from themselves.

    Letters are three strings such as ('NHWC', 'HWIO', 'NHWC'): N batch, C feature, O and I the
    features of the kernel, any others spatial.

    >>> import weft
    >>> weft.lax.conv_dimension_numbers((1, 8, 2), (3, 2, 4), ("NHC", "HIO", "NHC"))
    ConvDimensionNumbers(lhs_spec=(0, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            f"convolution: lhs of shape {tuple(lhs_shape)} and rhs of shape {tuple(rhs_shape)} "
            "must have equal ranks"
        )
    rank = len(lhs_shape)
    if dimension_numbers is None:
        order = tuple(range(rank))
        return ConvDimensionNumbers(order, order, order)
    if not isinstance(dimension_numbers, tuple | list) or len(dimension_numbers) != 3:
        raise TypeError(
            "convolution: dimension_numbers must be None, ConvDimensionNumbers or three strings "
            f"such as ('NHWC', 'HWIO', 'NHWC'), got {dimension_numbers!r}"
        )
    for i, spec in enumerate(dimension_numbers):
        if not isinstance(spec, str) or len(spec) != rank:
            raise TypeError(
                f"convolution: dimension_numbers[{i}] must be a string of {rank} letters for "
                f"operands of rank {rank}, got {spec!r}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(tuple(dimension_numbers)))


def conv_general_permutations(dimension_numbers: tuple[str, str, str]) -> list[Dims]:
    """Per operand and result the positions of (N, C, *spatial), for rhs of (O, I, *spatial).

    Spatial dimensions are ordered as rhs names them.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    [(0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)]
    """
    lhs, rhs, out = dimension_numbers
    for i, (spec, pair) in enumerate(zip(dimension_numbers, ("NC", "OI", "NC"), strict=True)):
        if any(spec.count(c) != 1 for c in (*pair, *spec)):
            raise ValueError(
                f"convolution: dimension_numbers[{i}] must hold {pair[0]!r}, {pair[1]!r} and "
                f"distinct letters for the spatial dimensions, got {spec!r}"
            )
    spatial = [c for c in rhs if c not in "OI"]
    if {*lhs} - {*"NC"} != {*spatial} or {*out} - {*"NC"} != {*spatial}:
        raise ValueError(
            "convolution: dimension_numbers must name the same spatial dimensions for lhs, rhs "
            f"and result, got {dimension_numbers}"
        )
    return [
        tuple(spec.index(c) for c in (*pair, *spatial))
        for spec, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
    ]


def dilated(size: int, dilation: int) -> int:
    """Return the extent of `size` elements with `dilation - 1` gaps between neighbours."""
    return (size - 1) * dilation + 1 if size else 0


def window_count(size: int, window: int, stride: int) -> int:
    """Return how many windows fit at steps of `stride`."""
    return (size - window) // stride + 1 if size >= window else 0


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """(low, high) padding of every dimension for 'VALID', 'SAME' or 'SAME_LOWER'.

    SAME gives ceil(size / stride) windows; an odd padding has its extra element at the end, for
    SAME_LOWER at the start.

    >>> import weft
    >>> weft.lax.padtype_to_pads((5,), (2,), (2,), "SAME")
    [(0, 1)]
    """
    if not isinstance(padding, str):
        return [(int(lo), int(hi)) for lo, hi in padding]
    kind = padding.upper()
    if kind not in PADDINGS:
        raise UnsupportedArgumentError(
            f"padding must be {', '.join(map(repr, PADDINGS))} or (low, high) for every "
            f"dimension, got {padding!r}"
        )
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = 0 if kind == "VALID" else max((-(-size // stride) - 1) * stride + window - size, 0)
        low = total // 2 if kind != "SAME_LOWER" else total - total // 2
        pads.append((low, total - low))
    return pads


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> Dims:
    """Return the result's shape for operands in the order NCHW and OIHW.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_shape_tuple((1, 3, 8, 8), (16, 3, 3, 3), (1, 1), [(0, 0), (1, 1)])
    (1, 16, 6, 8)
    """
    pairs = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pairs) != len(lhs_shape) - 2:
        raise TypeError(
            f"convolution: padding must have a pair for each of {len(lhs_shape) - 2} spatial "
            f"dimensions, got {len(pairs)}"
        )
    spatial = tuple(
        window_count(max(size + lo + hi, 0), window, stride)
        for size, window, stride, (lo, hi) in zip(
            lhs_shape[2:], rhs_shape[2:], strides, pairs, strict=True
        )
    )
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def _arranged(shape: Sequence[int], spec: Dims) -> Dims:
    return tuple(shape[d] for d in spec)


def _placed(shape: Sequence[int], spec: Dims) -> Dims:
    return tuple(shape[spec.index(d)] for d in range(len(spec)))


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: tuple[str, str, str],
) -> Dims:
    """Return the result's shape for operands in the order of `dimension_numbers`.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_general_shape_tuple(
    ...     (1, 8, 8, 3), (3, 3, 3, 16), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC")
    ... )
    (1, 4, 4, 16)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(
        _arranged(lhs_shape, lhs), _arranged(rhs_shape, rhs), window_strides, padding
    )
    return _placed(shape, out)


def transposed_padding(window: int, stride: int, padding: str | tuple[int, int]) -> tuple[int, int]:
    """Return the padding of a strided convolution's transpose, from the convolution's."""
    if not isinstance(padding, str):
        return window - 1 - padding[0], window - 1 - padding[1]
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    else:
        raise UnsupportedArgumentError(
            f"conv_transpose: padding must be 'SAME', 'VALID' or (low, high) pairs, got {padding!r}"
        )
    return low, total - low


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: tuple[str, str, str],
) -> Dims:
    """Return the result's shape of `conv_transpose`.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_transpose_shape_tuple(
    ...     (1, 4, 4, 3), (3, 3, 3, 16), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC")
    ... )
    (1, 8, 8, 16)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    left, right = _arranged(lhs_shape, lhs), _arranged(rhs_shape, rhs)
    pads: Sequence[tuple[int, int]]
    if isinstance(padding, str):
        pads = [
            transposed_padding(k, s, padding)
            for k, s in zip(right[2:], window_strides, strict=True)
        ]
    else:
        pads = [(int(lo), int(hi)) for lo, hi in padding]
    spread = (*left[:2], *(dilated(d, s) for d, s in zip(left[2:], window_strides, strict=True)))
    shape = conv_shape_tuple(spread, right, (1,) * len(window_strides), pads)
    return _placed(shape, out)

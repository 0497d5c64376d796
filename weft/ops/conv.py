"""Convolutions: the general form, and short forms of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import static_ints
from weft.autodiff.shape import bind_placed, transpose
from weft.core import dtypes
from weft.core.trace import typeof
from weft.ops.conv_op import conv_general_dilated_p
from weft.ops.conv_shapes import (
    ConvDimensionNumbers,
    Dims,
    conv_dimension_numbers,
    dilated,
    padtype_to_pads,
    transposed_padding,
)
from weft.ops.dot import dot_general
from weft.ops.joining import rev
from weft.ops.precision import canonical_precision

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def _ints(name: str, values: Sequence[int] | None, count: int) -> Dims:
    if values is None:
        return (1,) * count
    result = tuple(v.__index__() for v in values)
    if len(result) != count or any(v < 1 for v in result):
        raise TypeError(
            f"convolution: {name} must hold a positive integer for each of the {count} spatial "
            f"dimensions, got {tuple(values)}"
        )
    return result


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Convolution (without flipping the kernel) over any number of spatial dimensions.

    Args:
      lhs: rank n + 2: batch, features and n spatial dimensions, by default in that order.
      rhs: the kernel: output features, input features and n spatial dimensions.
      window_strides: n steps of the window.
      padding: 'SAME', 'SAME_LOWER', 'VALID', or n pairs (low, high); negative ones crop.
      lhs_dilation, rhs_dilation: n factors that spread elements apart.
      dimension_numbers: orders of dimensions; see `conv_dimension_numbers`.
      feature_group_count: groups of features convolved independently.
      batch_group_count: groups of the batch, each convolved with its share of the kernel.
      precision, preferred_element_type: as in `dot_general`.

    Raises TypeError or ValueError where ranks, features or groups do not fit.

    Source: StableHLO specification, `convolution`.

    >>> import weft
    >>> x = weft.numpy.arange(4.0).reshape(1, 1, 4)
    >>> weft.lax.conv_general_dilated(x, weft.numpy.ones((1, 1, 2)), (1,), "VALID")
    Array([[[1., 3., 5.]]], dtype=float32)
    """
    a, b = typeof(lhs), typeof(rhs)
    numbers = conv_dimension_numbers(a.shape, b.shape, dimension_numbers)
    n = a.ndim - 2
    if a.ndim != b.ndim or n < 0 or len(numbers.lhs_spec) != a.ndim:
        raise TypeError(
            "convolution: lhs and rhs must have one rank, at least 2, and dimension_numbers for "
            f"it; got {a.str_short()}, {b.str_short()} and {numbers}"
        )
    strides = _ints("window_strides", window_strides, n)
    lhs_dilation = _ints("lhs_dilation", lhs_dilation, n)
    rhs_dilation = _ints("rhs_dilation", rhs_dilation, n)
    # "SAME" and "VALID" mean numbers that depend on sizes, strides and dilation.
    if isinstance(padding, str):
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(
                f"convolution: padding {padding!r} has no meaning with lhs_dilation "
                f"{lhs_dilation}; give (low, high) pairs, or use conv_transpose"
            )
        sizes = [a.shape[d] for d in numbers.lhs_spec[2:]]
        windows = [
            dilated(b.shape[d], r) for d, r in zip(numbers.rhs_spec[2:], rhs_dilation, strict=True)
        ]
        padding = padtype_to_pads(sizes, windows, strides, padding)
    pads = tuple((lo.__index__(), hi.__index__()) for lo, hi in padding)
    if len(pads) != n:
        raise TypeError(
            f"convolution: padding must have a pair (low, high) for each of the {n} spatial "
            f"dimensions, got {pads}"
        )
    if preferred_element_type is not None:
        preferred_element_type = dtypes.canonicalize_dtype(preferred_element_type)
    return bind_placed(
        conv_general_dilated_p,
        out_sharding,
        lhs,
        rhs,
        window_strides=strides,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(*map(tuple, numbers)),
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonical_precision("convolution", precision),
        preferred_element_type=preferred_element_type,
    )


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Convolution of NCHW with OIHW, n spatial dimensions.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv(wnp.ones((1, 2, 8, 8)), wnp.ones((4, 2, 3, 3)), (1, 1), "SAME").shape
    (1, 4, 8, 8)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Convolution of NCHW with OIHW, with padding and dilations.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_with_general_padding(
    ...     wnp.ones((1, 1, 3)), wnp.ones((1, 1, 2)), (1,), [(1, 0)], None, None
    ... )
    Array([[[1., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    transpose_kernel: bool = False,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Any:
    """Return the shape of a strided convolution's gradient: lhs spread, then convolved.

    Args:
      lhs, rhs: as for `conv_general_dilated`, by default NHWC and HWIO.
      strides: n factors by which the result is larger.
      padding: 'SAME' or 'VALID' mean the padding of the convolution whose gradient this is; pairs
        mean padding of the spread lhs, or with use_consistent_padding also of that convolution.
      transpose_kernel: flips the kernel and swaps its features: then it is the gradient itself.

    >>> import weft
    >>> x = weft.numpy.ones((1, 2, 1))
    >>> weft.lax.conv_transpose(x, weft.numpy.ones((2, 1, 1)), (2,), "SAME")[0, :, 0]
    Array([1., 1., 1., 1.], dtype=float32)
    """
    a, b = typeof(lhs), typeof(rhs)
    n = a.ndim - 2
    if dimension_numbers is None:
        if not 0 <= n <= 3:
            raise ValueError(
                f"conv_transpose: no default dimension_numbers for {n} spatial dimensions; give "
                "ConvDimensionNumbers"
            )
        letters = "HWD"[:n]
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    numbers = conv_dimension_numbers(a.shape, b.shape, dimension_numbers)
    dilation = _ints("rhs_dilation", rhs_dilation, n)
    spatial = numbers.rhs_spec[2:]
    pads: Any = padding
    if use_consistent_padding or isinstance(padding, str):
        each: Any = [padding] * n if isinstance(padding, str) else padding
        pads = [
            transposed_padding(dilated(b.shape[d], r), s, p)
            for d, r, s, p in zip(spatial, dilation, strides, each, strict=True)
        ]
    if transpose_kernel:
        out_dim, in_dim, *_ = numbers.rhs_spec
        order = list(range(b.ndim))
        order[out_dim], order[in_dim] = in_dim, out_dim
        rhs = transpose(rev(rhs, spatial), order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * n,
        pads,
        strides,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the windows a convolution would see, as features of the result.

    Feature c * prod(filter_shape) + k of the result is element k (row-major) of the window of
    lhs's feature c. Arguments as `conv_general_dilated`.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_general_dilated_patches(wnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    aval = typeof(lhs)
    filter_shape = static_ints("conv_general_dilated_patches", "filter_shape", filter_shape)
    shape = (1, 1, *filter_shape)
    numbers = conv_dimension_numbers(aval.shape, shape, dimension_numbers)
    channels = aval.shape[numbers.lhs_spec[1]]
    size = math.prod(filter_shape)
    dtype = aval.dtype
    kernel = np.eye(size, dtype=np.float32).astype(dtype).reshape((size, 1, *filter_shape))
    kernel = np.tile(kernel, (channels, *(1,) * (len(shape) - 1)))
    # The kernel stands in the order (O, I, *spatial); moved to rhs_spec.
    kernel = np.transpose(kernel, np.argsort(numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=channels,
        precision=precision if precision is not None else "highest",
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    precision: object = None,
) -> Any:
    """Return a convolution whose kernel differs from place to place.

    rhs has the result's spatial dimensions, output features, and as input features
    lhs's features times prod(filter_shape), ordered as in `conv_general_dilated_patches`.

    >>> from weft import lax, numpy as wnp
    >>> lax.conv_general_dilated_local(
    ...     wnp.ones((1, 2, 4)), wnp.ones((5, 4, 3)), (1,), "VALID", (2,)
    ... ).shape
    (1, 5, 3)
    """
    numbers = conv_dimension_numbers(typeof(lhs).shape, typeof(rhs).shape, dimension_numbers)
    ls, rs, os = numbers
    pair = precision if isinstance(precision, tuple | list) else (precision, precision)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        # The patches keep lhs's order of dimensions.
        ConvDimensionNumbers(ls, tuple(range(len(rs))), ls),
        pair[0],
    )
    out = dot_general(patches, rhs, (((ls[1],), (rs[1],)), (ls[2:], rs[2:])), precision)
    # Spatial dimensions, batch, features -> out_spec.
    n = len(os) - 2
    order = {os[0]: n, os[1]: n + 1, **{d: i for i, d in enumerate(os[2:])}}
    return transpose(out, [order[d] for d in range(n + 2)])

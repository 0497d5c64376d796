"""Images resized and moved, under the names and with the semantics of jax.image."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.autodiff.op_families import static_ints
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.numpy.common import canonical_axes
from weft.numpy.eager import eager_programs

if TYPE_CHECKING:
    from weft.ops.precision import Precision
    from weft.typing import ArrayLike

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How values between pixels are made.

    NEAREST takes the nearest, LINEAR is a triangle filter, LANCZOS3 and LANCZOS5 windowed sincs of
    radius 3 and 5, CUBIC the cubic of Keys with a = -1/2, CUBIC_PYTORCH that with a = -3/4, for
    which the border's pixels go on outside, unless it is antialiased.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Return the named method: 'nearest', 'linear' (also 'bilinear', 'trilinear', 'triangle'),
        'lanczos3', 'lanczos5', 'cubic' (also 'bicubic', 'tricubic'), 'cubic-pytorch'."""
        try:
            return _METHODS[s]
        except KeyError:
            raise ValueError(
                f"unknown resize method {s!r}; use one of {', '.join(map(repr, _METHODS))}"
            ) from None


_METHODS = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(["linear", "bilinear", "trilinear", "triangle"], ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(["cubic", "bicubic", "tricubic"], ResizeMethod.CUBIC),
    **dict.fromkeys(
        ["cubic-pytorch", "bicubic-pytorch", "tricubic-pytorch"], ResizeMethod.CUBIC_PYTORCH
    ),
}


def _lanczos(radius: float) -> Callable:
    return lambda x: wnp.where(x < radius, wnp.sinc(x) * wnp.sinc(x / radius), 0)


def _keys(a: float) -> Callable:
    """Keys, Cubic convolution interpolation for digital image processing, 1981."""

    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return wnp.where(x < 1, near, wnp.where(x < 2, far, 0))

    return kernel


# Weights by the distance, in pixels.
_KERNELS = {
    ResizeMethod.LINEAR: lambda x: wnp.maximum(0, 1 - x),
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _keys(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _keys(-0.75),
}


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return ResizeMethod.from_string(method) if isinstance(method, str) else ResizeMethod(method)


def _weights(
    method: ResizeMethod,
    size: int,
    out_size: int,
    scale: ArrayLike,
    translation: Any,
    antialias: bool,
) -> Any:
    """Return the matrix (size, out_size) that resamples one dimension, in float32 at least."""
    inverse = 1 / scale
    # Filters widen with pixels that are taken together, so that none is left out.
    width = wnp.maximum(inverse, 1) if antialias else 1.0
    centres = (wnp.arange(out_size) + 0.5) * inverse - translation * inverse - 0.5
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        # What lies beyond the border is the pixel at it; with antialiasing the filter is CUBIC.
        taps = wnp.floor(centres)[None] + wnp.arange(-1.0, 3.0)[:, None]
        kernel = _KERNELS[method](wnp.abs(centres[None] - taps))
        hit = wnp.clip(taps, 0, size - 1)[:, None] == wnp.arange(size)[None, :, None]
        return wnp.sum(wnp.where(hit, kernel[:, None], 0), 0)
    plain = ResizeMethod.CUBIC if method is ResizeMethod.CUBIC_PYTORCH else method
    weights = _KERNELS[plain](wnp.abs(centres[None] - wnp.arange(size)[:, None]) / width)
    total = wnp.sum(weights, 0, keepdims=True)
    # At least this much of a filter lies within the image.
    least = 1000 * float(np.finfo(np.float32).eps)
    large = wnp.abs(total) > least
    weights = wnp.where(large, weights / wnp.where(large, total, 1), 0)
    inside = (centres >= -0.5) & (centres <= size - 0.5)
    return wnp.where(inside[None], weights, 0)


def _resampled(
    x: Any, shape: Sequence[int], dims: Sequence[int], scales: Sequence, translations: Sequence,
    method: ResizeMethod, antialias: bool, precision: Precision,
) -> Any:  # fmt: skip
    """Multiply the image's dimensions by matrices of weights, one after the other."""
    for d, scale, translation in zip(dims, scales, translations, strict=True):
        w = _weights(method, x.shape[d], shape[d], scale, translation, antialias).astype(x.dtype)
        contracted = lax.dot_general(x, w, (((d,), (0,)), ((), ())), precision=precision)
        x = wnp.moveaxis(contracted, -1, d)
    return x


def _nearest(x: Any, shape: Sequence[int], dims: Sequence[int]) -> Any:
    for d in dims:
        m, n = x.shape[d], shape[d]
        nearest = np.floor((np.arange(n, dtype=np.float32) + 0.5) * m / n).astype(np.int32)
        x = wnp.take(x, np.clip(nearest, 0, m - 1), axis=d)
    return x


def _checked(name: str, image: ArrayLike, shape: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    x = wnp.asarray(image)
    shape = static_ints(name, "shape", shape)
    if len(shape) != x.ndim:
        raise ArgumentError(
            f"{name}: shape {shape} must have an entry for each of the image's {x.ndim} dimensions"
        )
    return x, shape


def resize(
    image: object,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:
    """Resample the image to a shape of the same rank; dimensions of equal size stay.

    method: 'nearest', 'linear', 'cubic', 'lanczos3', 'lanczos5', 'cubic-pytorch', or a
    ResizeMethod. antialias: widen the filter where the image becomes smaller. Pixels are squares:
    their centres lie at halves. Filters are normalized at borders. Integers become floats.

    Source: Turkowski, Filters for common resampling tasks, 1990.

    >>> import weft
    >>> weft.image.resize(weft.numpy.array([0.0, 1.0]), (4,), "linear")
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    x, shape = _checked("resize", image, shape)
    chosen = _method(method)
    dims = [d for d in range(x.ndim) if shape[d] != x.shape[d]]
    if chosen is ResizeMethod.NEAREST:
        return _nearest(x, shape, dims)
    if not wnp.issubdtype(x.dtype, wnp.inexact):
        x = x.astype(wnp.result_type(x.dtype, wnp.float32))
    scales = [np.float32(shape[d] / x.shape[d]) if x.shape[d] else np.float32(1) for d in dims]
    return _resampled(x, shape, dims, scales, [0.0] * len(dims), chosen, antialias, precision)


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:
    """Return the image, scaled and then moved along some dimensions, seen in a window of a shape.

    spatial_dims: these dimensions; scale, translation: a number for each, which are differentiable.
    The pixel at x comes to x * scale + translation; what lies outside of the image is 0. method,
    antialias: as `resize` has them, without 'nearest'.

    Source: Turkowski, Filters for common resampling tasks, 1990.

    >>> import weft, numpy as np
    >>> x = weft.numpy.array([1.0, 2.0, 3.0])
    >>> one = np.ones(1, "float32")
    >>> weft.image.scale_and_translate(x, (3,), (0,), one, one, "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    x, shape = _checked("scale_and_translate", image, shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate: nearest has no filter; use resize, or 'linear'")
    dims = canonical_axes(tuple(spatial_dims), x.ndim, "spatial_dims")
    scale, translation = wnp.asarray(scale), wnp.asarray(translation)
    for name, value in (("scale", scale), ("translation", translation)):
        if value.shape != (len(dims),):
            raise ArgumentError(
                f"scale_and_translate: {name} must have the shape ({len(dims)},) of spatial_dims, "
                f"got {value.shape}"
            )
    for d in range(x.ndim):
        if d not in dims and shape[d] != x.shape[d]:
            raise ValueError(
                f"scale_and_translate: dimension {d} is not in spatial_dims and goes from "
                f"{x.shape[d]} to {shape[d]}"
            )
    if not wnp.issubdtype(x.dtype, wnp.inexact):
        x = x.astype(wnp.result_type(x.dtype, wnp.float32))
    return _resampled(x, shape, dims, list(scale), list(translation), chosen, antialias, precision)


_OPTIONS = "antialias method precision shape spatial_dims"
seal(globals(), programs=eager_programs("resize scale_and_translate", options=_OPTIONS))

"""Initializers of parameters: functions of a key, a shape and a dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

import weft.numpy as wnp
from weft import random
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import check_shape
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.errors import ArgumentError
from weft.core.namespace import seal, with_example
from weft.runtime.device_put import device_put

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

Axes = int | Sequence[int]


@runtime_checkable
class Initializer(Protocol):
    """The signature of initializers: `(key, shape, dtype, out_sharding) -> array`."""

    def __call__(
        self, key: object, shape: Sequence[int], dtype: object = None, out_sharding: object = None
    ) -> Any: ...


def _initializer(name: str, default: DTypeLike | None, make: Callable) -> Callable:
    """Return an initializer of a dtype, whose errors name the public function that returns it.

    make: function(key, shape, dtype, out_sharding) of a canonical dtype.
    """

    def init(
        key: object,
        shape: Sequence[int],
        dtype: DTypeLike | None = default,
        out_sharding: object = None,
    ) -> Any:
        return make(key, shape, _dtype(dtype), out_sharding)

    init.__qualname__ = f"nn.initializers.{name}"
    return api_boundary(init)


def _dtype(dtype: object) -> Any:
    return dtypes.canonicalize_dtype(float if dtype is None else dtype)


def zeros(
    key: object, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: object = None
) -> Any:
    """Initialize with zeros; the key is not used.

    >>> import weft
    >>> weft.nn.initializers.zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return wnp.zeros(shape, _dtype(dtype), out_sharding=out_sharding)


def ones(
    key: object, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: object = None
) -> Any:
    """Initialize with ones; the key is not used.

    >>> import weft
    >>> weft.nn.initializers.ones(weft.random.key(0), (3,))
    Array([1., 1., 1.], dtype=float32)
    """
    return wnp.ones(shape, _dtype(dtype), out_sharding=out_sharding)


def constant(value: Any, dtype: DTypeLike | None = None) -> Callable:
    """Return an initializer that gives `value`, which broadcasts to the shape.

    >>> import weft
    >>> weft.nn.initializers.constant(3.0)(None, (2,))
    Array([3., 3.], dtype=float32)
    """

    full = lambda key, shape, dtype, sharding: wnp.full(shape, value, dtype, device=sharding)
    return _initializer("constant", dtype, full)


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Callable:
    """Uniform numbers in [0, scale).

    >>> import weft
    >>> weft.nn.initializers.uniform(0.1)(weft.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: object, shape: Sequence[int], dtype: np.dtype, out_sharding: object) -> Any:
        x = random.uniform(key, shape, dtype, out_sharding=out_sharding)
        return wnp.multiply(x, wnp.asarray(scale, dtype))

    return _initializer("uniform", dtype, make)


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Callable:
    """Return normal numbers of mean 0 and the given standard deviation.

    >>> import weft
    >>> weft.nn.initializers.normal(0.1)(weft.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: object, shape: Sequence[int], dtype: np.dtype, out_sharding: object) -> Any:
        x = random.normal(key, shape, dtype, out_sharding=out_sharding)
        return wnp.multiply(x, wnp.asarray(stddev, dtype))

    return _initializer("normal", dtype, make)


def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike | None = None,
    lower: object = -2.0,
    upper: object = 2.0,
) -> Callable:
    """Return standard normal numbers conditioned on (lower, upper), times stddev.

    >>> import weft
    >>> weft.nn.initializers.truncated_normal(0.1)(weft.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: object, shape: Sequence[int], dtype: np.dtype, out_sharding: object) -> Any:
        x = random.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return wnp.multiply(x, wnp.asarray(stddev, dtype))

    return _initializer("truncated_normal", dtype, make)


# Variance scaling -----------------------------------------------------------------------------

_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}

# Standard deviations of the standard normal distribution cut off at 2, real and complex.
_TRUNCATED_STD = 0.87962566103423978
_COMPLEX_TRUNCATED_STD = 0.95311164380491208


def _size(shape: tuple, axes: Axes) -> int:
    return math.prod(shape[a] for a in ((axes,) if isinstance(axes, int) else axes))


def _fans(shape: tuple, in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    if in_axis == -2 and len(shape) < 2:
        raise ArgumentError(
            f"a variance-scaling initializer needs at least 2 dimensions to tell inputs from "
            f"outputs, got shape {shape}; name in_axis and out_axis, or use normal()"
        )
    size_in, size_out = _size(shape, in_axis), _size(shape, out_axis)
    field = math.prod(shape) / size_in / size_out / _size(shape, batch_axis)
    return size_in * field, size_out * field


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Callable:
    """Draw numbers of variance scale / fan; the fan is the number of inputs, outputs, or both.

    mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg". distribution: "truncated_normal",
    "normal" or "uniform". in_axis, out_axis, batch_axis: which dimensions are inputs, outputs, and
    neither; the others are the receptive field, which counts in both.

    >>> import weft
    >>> init = weft.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
    >>> init(weft.random.key(0), (64, 32)).shape
    (64, 32)
    """
    if mode not in _MODES:
        raise ArgumentError(f"variance_scaling: mode must be one of {list(_MODES)}, got {mode!r}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ArgumentError(
            "variance_scaling: distribution must be 'truncated_normal', 'normal' or 'uniform', got "
            f"{distribution!r}"
        )

    def make(key: object, shape: Any, dtype: np.dtype, out_sharding: object) -> Any:
        shape = check_shape(shape)
        fan = _MODES[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        variance = wnp.asarray(scale / fan if fan else 0.0, dtype)
        placed = {"out_sharding": out_sharding}
        if distribution == "normal":
            return random.normal(key, shape, dtype, **placed) * wnp.sqrt(variance)
        if distribution == "uniform":
            if dtypes.is_float(dtype):
                x = random.uniform(key, shape, dtype, -1, **placed)
                return x * wnp.sqrt(3 * variance)
            return _complex_uniform(key, shape, dtype) * wnp.sqrt(variance)
        if dtypes.is_float(dtype):
            x = random.truncated_normal(key, -2, 2, shape, dtype, **placed)
            return x * (wnp.sqrt(variance) / wnp.asarray(_TRUNCATED_STD, dtype))
        x = _complex_truncated_normal(key, 2, shape, dtype)
        return x * (wnp.sqrt(variance) / wnp.asarray(_COMPLEX_TRUNCATED_STD, dtype))

    return _initializer("variance_scaling", dtype, make)


def _polar(radius: Any, key: object, shape: tuple, dtype: Any) -> Any:
    real = np.zeros((), dtype).real.dtype
    angle = 2 * np.pi * random.uniform(key, shape, real).astype(dtype)
    return radius.astype(dtype) * wnp.exp(1j * angle)


def _complex_uniform(key: object, shape: tuple, dtype: Any) -> Any:
    """Uniform in the disc of unit variance."""
    k1, k2 = random.split(key)
    real = np.zeros((), dtype).real.dtype
    return _polar(wnp.sqrt(2 * random.uniform(k1, shape, real)), k2, shape, dtype)


def _complex_truncated_normal(key: object, upper: float, shape: tuple, dtype: Any) -> Any:
    """Complex normal conditioned on a modulus below `upper`."""
    k1, k2 = random.split(key)
    real = np.zeros((), dtype).real.dtype
    t = (1 - math.exp(-(upper**2))) * random.uniform(k1, shape, real)
    return _polar(wnp.sqrt(-wnp.log(1 - t)), k2, shape, dtype)


def _preset(
    scale: float, mode: str, distribution: str, source: str, example: str, result: str
) -> Callable:
    def make(
        in_axis: Axes = -2,
        out_axis: Axes = -1,
        batch_axis: Axes = (),
        dtype: DTypeLike | None = None,
    ) -> Callable:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__doc__ = with_example(
        f"`variance_scaling({scale}, {mode!r}, {distribution!r}, ...)`.\n\n    Source: {source}.",
        f">>> import weft\n>>> key = weft.random.key(0)\n>>> w = {example}\n{result}",
    )
    return make


_GLOROT = "Glorot and Bengio, Understanding the difficulty of training deep networks (2010)"
_LECUN = "LeCun et al., Efficient backprop (1998)"
_HE = "He et al., Delving deep into rectifiers (2015)"

glorot_uniform = xavier_uniform = _preset(
    1.0,
    "fan_avg",
    "uniform",
    _GLOROT,
    "weft.nn.initializers.glorot_uniform()(key, (100, 50))",
    ">>> bool(abs(w).max() <= (6 / (100 + 50)) ** 0.5)\nTrue",
)
glorot_normal = xavier_normal = _preset(
    1.0,
    "fan_avg",
    "truncated_normal",
    _GLOROT,
    "weft.nn.initializers.glorot_normal()(key, (400, 200))",
    ">>> abs(w.std() / (2 / (400 + 200)) ** 0.5 - 1) < 0.01\nArray(True, dtype=bool)",
)
lecun_uniform = _preset(
    1.0,
    "fan_in",
    "uniform",
    _LECUN,
    "weft.nn.initializers.lecun_uniform()(key, (100, 50))",
    ">>> bool(abs(w).max() <= (3 / 100) ** 0.5)\nTrue",
)
lecun_normal = _preset(
    1.0,
    "fan_in",
    "truncated_normal",
    _LECUN,
    "weft.nn.initializers.lecun_normal()(key, (400, 200))",
    ">>> abs(w.std() * 400**0.5 - 1) < 0.01\nArray(True, dtype=bool)",
)
he_uniform = kaiming_uniform = _preset(
    2.0,
    "fan_in",
    "uniform",
    _HE,
    "weft.nn.initializers.he_uniform()(key, (100, 50))",
    ">>> bool(abs(w).max() <= (6 / 100) ** 0.5)\nTrue",
)
he_normal = kaiming_normal = _preset(
    2.0,
    "fan_in",
    "truncated_normal",
    _HE,
    "weft.nn.initializers.he_normal()(key, (400, 200))",
    ">>> abs(w.std() / (2 / 400) ** 0.5 - 1) < 0.01\nArray(True, dtype=bool)",
)


# Orthogonal -----------------------------------------------------------------------------------


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Callable:
    """Draw matrices with orthonormal columns (or rows, if they are fewer), times scale.

    column_axis: the dimension of columns; the others together are the rows.

    >>> import weft, numpy as np
    >>> q = weft.nn.initializers.orthogonal()(weft.random.key(0), (3, 3))
    >>> np.allclose(q @ q.T, np.eye(3), atol=1e-5)
    True
    """

    def make(key: object, shape: Any, dtype: np.dtype, out_sharding: object) -> Any:
        shape = check_shape(shape)
        if len(shape) < 2:
            raise ArgumentError(
                f"orthogonal: needs at least 2 dimensions, got shape {shape}; "
                "a vector has no orthogonal rows"
            )
        if 0 in shape:
            return wnp.zeros(shape, dtype, out_sharding=out_sharding)
        axis = canonical_axis(column_axis, len(shape), "column_axis")
        rest = shape[:axis] + shape[axis + 1 :]
        q = random.orthogonal(key, math.prod(rest), (), dtype, shape[axis])
        q = wnp.moveaxis(wnp.reshape(q, (*rest, shape[axis])), -1, axis)
        out = wnp.asarray(scale, dtype) * q
        return out if out_sharding is None else device_put(out, out_sharding)

    return _initializer("orthogonal", dtype, make)


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Callable:
    """Convolution kernels that are an orthogonal matrix at the centre and zero elsewhere.

    The shape is `(*window, inputs, outputs)` with a window of 1 to 3 dimensions, and at least as
    many outputs as inputs.

    Source: Xiao et al., "Dynamical isometry and a mean field theory of CNNs" (2018).

    >>> import weft, weft.numpy as wnp
    >>> from weft.nn import initializers
    >>> key = weft.random.key(0)
    >>> w = initializers.delta_orthogonal()(key, (3, 4, 4))
    >>> wnp.abs(w[0]).max(), wnp.allclose(w[1] @ w[1].T, wnp.eye(4), atol=1e-6)
    (Array(0., dtype=float32), Array(True, dtype=bool))
    """

    def make(key: object, shape: Any, dtype: np.dtype, out_sharding: object) -> Any:
        shape = check_shape(shape)
        if len(shape) not in (3, 4, 5):
            raise ArgumentError(f"delta_orthogonal: needs 3, 4 or 5 dimensions, got shape {shape}")
        if shape[-1] < shape[-2]:
            raise ArgumentError(
                f"delta_orthogonal: needs at least as many outputs as inputs, got shape {shape}"
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        window = shape[:-2]
        before = [(k - 1) // 2 for k in window]
        pads = [(b, k - 1 - b) for b, k in zip(before, window, strict=True)]
        centre = wnp.reshape(matrix, (*(1,) * len(window), *shape[-2:]))
        out = wnp.pad(centre, [*pads, (0, 0), (0, 0)])
        return out if out_sharding is None else device_put(out, out_sharding)

    return _initializer("delta_orthogonal", dtype, make)


_NAMES = """
    Initializer constant delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform
    kaiming_normal kaiming_uniform lecun_normal lecun_uniform normal ones orthogonal
    truncated_normal uniform variance_scaling xavier_normal xavier_uniform zeros
"""
__all__ = _NAMES.split()  # noqa: PLE0605
seal(globals())

"""Types of weft.nn.initializers, written by `make stubs` from the definitions."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

class Initializer(Protocol):
    """The signature of initializers: `(key, shape, dtype, out_sharding) -> array`."""
    def __call__(
        self, key: Any, shape: Sequence[int], dtype: DTypeLike | None = ..., out_sharding: Any = ...
    ) -> Any:
        """Call self as a function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

def constant(value: Any, dtype: DTypeLike | None = ...) -> Callable[..., Any]:
    """Return an initializer that gives `value`, which broadcasts to the shape."""

def delta_orthogonal(
    scale: ArrayLike = ..., column_axis: int = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """Convolution kernels that are an orthogonal matrix at the centre and zero elsewhere."""

def glorot_normal(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(1.0, 'fan_avg', 'truncated_normal', ...)`."""

def glorot_uniform(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(1.0, 'fan_avg', 'uniform', ...)`."""

def he_normal(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(2.0, 'fan_in', 'truncated_normal', ...)`."""

def he_uniform(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(2.0, 'fan_in', 'uniform', ...)`."""

def kaiming_normal(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(2.0, 'fan_in', 'truncated_normal', ...)`."""

def kaiming_uniform(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(2.0, 'fan_in', 'uniform', ...)`."""

def lecun_normal(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(1.0, 'fan_in', 'truncated_normal', ...)`."""

def lecun_uniform(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(1.0, 'fan_in', 'uniform', ...)`."""

def normal(stddev: ArrayLike = ..., dtype: DTypeLike | None = ...) -> Callable[..., Any]:
    """Return normal numbers of mean 0 and the given standard deviation."""

def ones(
    key: Any, shape: Sequence[int], dtype: DTypeLike | None = ..., out_sharding: Any = ...
) -> Array:
    """Initialize with ones; the key is not used."""

def orthogonal(
    scale: ArrayLike = ..., column_axis: int = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """Draw matrices with orthonormal columns (or rows, if they are fewer), times scale."""

def truncated_normal(
    stddev: ArrayLike = ..., dtype: DTypeLike | None = ..., lower: Any = ..., upper: Any = ...
) -> Callable[..., Any]:
    """Return standard normal numbers conditioned on (lower, upper), times stddev."""

def uniform(scale: ArrayLike = ..., dtype: DTypeLike | None = ...) -> Callable[..., Any]:
    """Uniform numbers in [0, scale)."""

def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Any = ...,
    out_axis: Any = ...,
    batch_axis: Any = ...,
    dtype: DTypeLike | None = ...,
) -> Callable[..., Any]:
    """Draw numbers of variance scale / fan; the fan is the number of inputs, outputs, or …"""

def xavier_normal(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(1.0, 'fan_avg', 'truncated_normal', ...)`."""

def xavier_uniform(
    in_axis: Any = ..., out_axis: Any = ..., batch_axis: Any = ..., dtype: DTypeLike | None = ...
) -> Callable[..., Any]:
    """`variance_scaling(1.0, 'fan_avg', 'uniform', ...)`."""

def zeros(
    key: Any, shape: Sequence[int], dtype: DTypeLike | None = ..., out_sharding: Any = ...
) -> Array:
    """Initialize with zeros; the key is not used."""

"""Types of weft.nn, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from weft.nn import initializers as initializers
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def celu(x: ArrayLike, alpha: ArrayLike = ...) -> Array:
    """max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1)."""

@overload
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = ...,
    mask: Any = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: Any = ...,
    key_value_seq_lengths: Any = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[False] = ...,
) -> Array:
    """softmax(scale query key^T + bias) value, for each head."""

@overload
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = ...,
    mask: Any = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: Any = ...,
    key_value_seq_lengths: Any = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[True],
) -> tuple[Array, Array]:
    """softmax(scale query key^T + bias) value, for each head."""

@overload
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = ...,
    mask: Any = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: Any = ...,
    key_value_seq_lengths: Any = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: bool = ...,
) -> Any:
    """softmax(scale query key^T + bias) value, for each head."""

def elu(x: ArrayLike, alpha: ArrayLike = ...) -> Array:
    """Return x where x > 0, else alpha (exp(x) - 1)."""

def gelu(x: ArrayLike, approximate: bool = ...) -> Array:
    """Return x times the normal distribution function of x, or its approximation by tanh."""

def get_scaled_dot_general_config(mode: str, global_scale: Any = ...) -> Any:
    """Return the standard configuration of a block-scaled format, 'mxfp8' or 'nvfp4'."""

def glu(x: ArrayLike, axis: int = ...) -> Array:
    """Return the first half of x along an axis times the sigmoid of the second half."""

def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6."""

def hard_silu(x: ArrayLike) -> Array:
    """Return x hard_sigmoid(x)."""

def hard_swish(x: ArrayLike) -> Array:
    """Return x hard_sigmoid(x)."""

def hard_tanh(x: ArrayLike) -> Array:
    """Return x clipped to [-1, 1]; the derivative at the ends is 1."""

def identity(x: ArrayLike) -> Array:
    """x, as an array."""

def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = ...) -> Array:
    """Return x where x >= 0, else negative_slope * x."""

def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, exact for small and large x."""

def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), exact for large negative x."""

def log_softmax(
    x: ArrayLike, axis: int | str | Sequence[int | str] | None = ..., where: ArrayLike | None = ...
) -> Array:
    """log(softmax(x)), exact also where softmax underflows; -inf where the mask is False."""

def logmeanexp(
    x: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    where: ArrayLike | None = ...,
    keepdims: bool = ...,
) -> Array:
    """log(mean(exp(x))) along axes, without overflow."""

@overload
def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """log(sum(b exp(a))) along axes, without overflow."""

@overload
def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = ...,
) -> tuple[Array, Array]:
    """log(sum(b exp(a))) along axes, without overflow."""

@overload
def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: bool = ...,
    where: ArrayLike | None = ...,
) -> Any:
    """log(sum(b exp(a))) along axes, without overflow."""

def mish(x: ArrayLike) -> Array:
    """Return x tanh(softplus(x))."""

def one_hot(
    x: ArrayLike,
    num_classes: int,
    *,
    dtype: DTypeLike | None = ...,
    axis: int | Sequence[int] | None = ...,
) -> Array:
    """Put ones where the position along a new axis equals x, else zeros (also for x out …"""

def relu(x: ArrayLike) -> Array:
    """max(x, 0); the derivative at 0 is 0."""

def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6); the derivative at 0 and 6 is 0."""

def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    preferred_element_type: DTypeLike | None = ...,
    configs: Any = ...,
    implementation: str | None = ...,
) -> Array:
    """`dot_general` of operands rounded to a block-scaled format."""

def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: Any,
    rhs_scales: Any,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Batched matrix product of block-scaled operands, contracted over their last …"""

def selu(x: ArrayLike) -> Array:
    """Return the scaled exponential linear unit that keeps mean 0 and variance 1."""

def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x))."""

def silu(x: ArrayLike) -> Array:
    """Return x sigmoid(x), also called swish."""

def soft_sign(x: ArrayLike) -> Array:
    """Return x / (|x| + 1)."""

def softmax(
    x: ArrayLike, axis: int | str | Sequence[int | str] | None = ..., where: ArrayLike | None = ...
) -> Array:
    """exp(x) / sum(exp(x)) along `axis` (or axes), computed after subtracting the maximum."""

def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), exact for large x."""

def sparse_plus(x: ArrayLike) -> Array:
    """0 below -1, x above 1, (x + 1)**2 / 4 between."""

def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 below -1, 1 above 1, (x + 1) / 2 between."""

def squareplus(x: ArrayLike, b: ArrayLike = ...) -> Array:
    """(x + sqrt(x**2 + b)) / 2."""

def standardize(
    x: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    mean: ArrayLike | None = ...,
    variance: ArrayLike | None = ...,
    epsilon: ArrayLike = ...,
    where: ArrayLike | None = ...,
    *,
    algorithm: str = ...,
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) along an axis (or axes)."""

def swish(x: ArrayLike) -> Array:
    """Return x sigmoid(x), also called swish."""

def tanh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic tangent. Source: numpy.tanh."""

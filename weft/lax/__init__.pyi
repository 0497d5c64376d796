"""Types of weft.lax, written by `make stubs` from the definitions."""

from collections.abc import Callable, Sequence
from typing import Any, Never, TypeVar, overload

import numpy as np

from weft.collectives.async_ import Future
from weft.lax import linalg as linalg
from weft.ops.conv_shapes import ConvDimensionNumbers as ConvDimensionNumbers
from weft.ops.conv_shapes import (
    ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
)
from weft.ops.elementwise_api import RoundingMethod as RoundingMethod
from weft.ops.fft import FftType as FftType
from weft.ops.gather import GatherDimensionNumbers as GatherDimensionNumbers
from weft.ops.gather import GatherScatterMode as GatherScatterMode
from weft.ops.precision import AccuracyMode as AccuracyMode
from weft.ops.precision import DotAlgorithm as DotAlgorithm
from weft.ops.precision import DotAlgorithmPreset as DotAlgorithmPreset
from weft.ops.precision import Precision as Precision
from weft.ops.precision import PrecisionLike as PrecisionLike
from weft.ops.precision import Tolerance as Tolerance
from weft.ops.ragged_dot import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
from weft.ops.rng import RandomAlgorithm as RandomAlgorithm
from weft.ops.scatter import ScatterDimensionNumbers as ScatterDimensionNumbers
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

_T = TypeVar("_T")
_R = TypeVar("_R")

DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]

def abs(x: ArrayLike) -> Array:
    """|x|; for complex x the magnitude, a real array."""

def acos(x: ArrayLike) -> Array:
    """Return the inverse cosine, in radians."""

def acosh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic cosine."""

def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y, element by element."""

def after_all(*operands: Any) -> Array:
    """Return a token that comes after all the given ones."""

@overload
def all_gather(
    x: Never,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Any:
    """Return the values of all devices along named axes, on each of them; pytrees leaf …"""

@overload
def all_gather(
    x: ArrayLike,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Array:
    """Return the values of all devices along named axes, on each of them; pytrees leaf …"""

@overload
def all_gather(
    x: _T,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> _T:
    """Return the values of all devices along named axes, on each of them; pytrees leaf …"""

def all_gather_start(
    x: ArrayLike,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Future:
    """Start `all_gather`; `.done()` on the result gives its value."""

@overload
def all_to_all(
    x: Never,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Any:
    """Split each device's array, send part q to the device of rank q and join what …"""

@overload
def all_to_all(
    x: ArrayLike,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Array:
    """Split each device's array, send part q to the device of rank q and join what …"""

@overload
def all_to_all(
    x: _T,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> _T:
    """Split each device's array, send part q to the device of rank q and join what …"""

def all_to_all_start(
    x: ArrayLike,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Future:
    """Start `all_to_all`; `.done()` on the result gives its value."""

def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = ...,
    recall_target: float = ...,
    reduction_input_size_override: int = ...,
    aggregate_to_topk: bool = ...,
) -> list[Array]:
    """Return the k greatest elements and their indices; exact, so of any recall_target …"""

def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = ...,
    recall_target: float = ...,
    reduction_input_size_override: int = ...,
    aggregate_to_topk: bool = ...,
) -> list[Array]:
    """Return the k least elements and their indices; see `approx_max_k`."""

def argmax(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """Return the index of the greatest element along `axis`: the first, or that of the …"""

def argmin(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """Return the index of the least element along `axis`: the first, or that of the …"""

def asin(x: ArrayLike) -> Array:
    """Return the inverse sine, in radians."""

def asinh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic sine."""

def associative_scan(
    fn: Callable[[_T, _T], _T], elems: _T, reverse: bool = False, axis: int = 0
) -> _T:
    """All prefixes of an associative operation, in logarithmic depth."""

def atan(x: ArrayLike) -> Array:
    """Return the inverse tangent, in radians."""

def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the angle of the point (y, x), in radians."""

def atanh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic tangent."""

def axis_index(axis_name: Any) -> Array:
    """Return the index of the device (or vmapped example) along a named axis, an int32 …"""

def axis_size(axis_name: Any) -> int:
    """Return the size of a named axis, a Python int; of a tuple of axes, their product."""

def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = ...) -> Array:
    """Matrix products over equal leading dimensions: (…, i, k) by (…, k, j) to (…, i, j)."""

def bessel_i0e(x: ArrayLike) -> Array:
    """Return the modified Bessel function I0(x) times exp(-|x|)."""

def bessel_i1e(x: ArrayLike) -> Array:
    """Return the modified Bessel function I1(x) times exp(-|x|)."""

def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized incomplete beta function I_x(a, b)."""

def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Return the operand's bits read as another dtype; a narrower one adds a last …"""

def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits of x and y; for booleans, and."""

def bitwise_not(x: ArrayLike) -> Array:
    """Bits inverted; for booleans, not."""

def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits of x or y; for booleans, or."""

def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits in which x and y differ."""

def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: Any = ...) -> Array:
    """Repeat the operand along new leading dimensions of the given sizes."""

def broadcast_in_dim(
    operand: ArrayLike,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = ...,
) -> Array:
    """Place the operand's dimensions at `broadcast_dimensions` of `shape` and repeat it."""

def broadcast_like(arr: ArrayLike, like_arr: Any) -> Array:
    """arr broadcast by NumPy's rules to the shape, and placed as, like_arr."""

def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which NumPy's rules broadcast the given shapes."""

def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Leading size-1 dimensions up to the rank."""

def broadcasted_iota(
    dtype: DTypeLike | None, shape: Sequence[int], dimension: int, *, out_sharding: Any = ...
) -> Array:
    """0, 1, 2, … along one dimension, repeated along the others."""

def cbrt(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the cube root. accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."""

def ceil(x: ArrayLike) -> Array:
    """Return the smallest integer not below x, as a float."""

def clamp(min: Any, x: ArrayLike, max: Any) -> Array:
    """Return x limited to [min, max]; the bounds are scalars or of x's shape."""

def clz(x: ArrayLike) -> Array:
    """Return the number of leading 0 bits."""

def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = ...) -> Array:
    """Make dimensions [start, stop) one."""

def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + iy from real parts."""

def composite(decomposition: Callable[..., Any], name: str, version: int = ...) -> Any:
    """Mark a function as a named composite, which a backend may replace by its own …"""

def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Join arrays of equal dtype along an existing dimension."""

def cond(
    pred: ArrayLike,
    true_fun: Callable[..., _R],
    false_fun: Callable[..., _R],
    *operands: Any,
    operand: Any = ...,
) -> _R:
    """One of two functions of the operands, by a scalar."""

def conj(x: ArrayLike) -> Array:
    """Return the complex conjugate; float32 and float64 numbers become complex."""

def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Convolution of NCHW with OIHW, n spatial dimensions."""

def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> Any:
    """`ConvDimensionNumbers` from None (NCHW, OIHW, NCHW), from letters, or from …"""

def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = ...,
    rhs_dilation: Sequence[int] | None = ...,
    dimension_numbers: Any = ...,
    feature_group_count: int = ...,
    batch_group_count: int = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Convolution (without flipping the kernel) over any number of spatial dimensions."""

def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = ...,
    rhs_dilation: Sequence[int] | None = ...,
    dimension_numbers: Any = ...,
    precision: Any = ...,
) -> Array:
    """Return a convolution whose kernel differs from place to place."""

def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = ...,
    rhs_dilation: Sequence[int] | None = ...,
    dimension_numbers: Any = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the windows a convolution would see, as features of the result."""

def conv_general_permutations(dimension_numbers: tuple[str, str, str]) -> list[tuple[int, ...]]:
    """Per operand and result the positions of (N, C, *spatial), for rhs of (O, I, …"""

def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: tuple[str, str, str],
) -> tuple[int, ...]:
    """Return the result's shape for operands in the order of `dimension_numbers`."""

def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = ...,
) -> tuple[int, ...]:
    """Return the result's shape for operands in the order NCHW and OIHW."""

def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = ...,
    dimension_numbers: Any = ...,
    transpose_kernel: bool = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    use_consistent_padding: bool = ...,
) -> Array:
    """Return the shape of a strided convolution's gradient: lhs spread, then convolved."""

def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: tuple[str, str, str],
) -> tuple[int, ...]:
    """Return the result's shape of `conv_transpose`."""

def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Convolution of NCHW with OIHW, with padding and dilations."""

def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Convert to another dtype; float → int truncates, complex → real drops the …"""

def cos(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the cosine of x in radians. accuracy: None, or a `lax.Tolerance` or …"""

def cosh(x: ArrayLike) -> Array:
    """Return the hyperbolic cosine."""

def create_token(_: Any = ...) -> Array:
    """Return a new token, from which an order of effects can be threaded."""

def cumlogsumexp(operand: ArrayLike, axis: int = ..., reverse: bool = ...) -> Array:
    """Along `axis`, the log of the sum of the exponentials of each element and those …"""

def cummax(operand: ArrayLike, axis: int = ..., reverse: bool = ...) -> Array:
    """Along `axis`, the greatest of each element and those before it (after it if …"""

def cummin(operand: ArrayLike, axis: int = ..., reverse: bool = ...) -> Array:
    """Along `axis`, the least of each element and those before it (after it if `reverse`)."""

def cumprod(operand: ArrayLike, axis: int = ..., reverse: bool = ...) -> Array:
    """Along `axis`, the product of each element and those before it (after it if …"""

def cumsum(operand: ArrayLike, axis: int = ..., reverse: bool = ...) -> Array:
    """Along `axis`, the sum of each element and those before it (after it if `reverse`)."""

def custom_linear_solve(
    matvec: Callable[..., Any],
    b: ArrayLike,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = ...,
    symmetric: bool = ...,
    has_aux: bool = ...,
) -> Any:
    """Solve `matvec(x) = b` by a given solver; derivatives solve the same system again."""

def custom_root(
    f: Callable[..., Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = ...,
) -> Any:
    """Return a root of f found by a given solver; its derivative is that of the implicit …"""

def dce_sink(val: ArrayLike, *, prevent_mlir_dce: bool = ...) -> None:
    """Keep a value in the jaxpr though no equation uses it."""

def digamma(x: ArrayLike) -> Array:
    """Return the derivative of log gamma."""

def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y; integer division truncates toward zero."""

def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *args: Any,
    dimension_numbers: Any = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Vector-vector, matrix-vector or matrix-matrix product; with dimension_numbers, …"""

def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Sum products over contracting dimensions, for each index of batch dimensions."""

def dtype(x: ArrayLike) -> np.dtype[Any]:
    """Get the dtype of an array, of a Python scalar, or of a type or a name."""

def dynamic_index_in_dim(
    operand: ArrayLike,
    index: Any,
    axis: int = ...,
    keepdims: bool = ...,
    *,
    allow_negative_indices: bool = ...,
) -> Array:
    """Return one position along a dimension; the index may be traced and is clamped."""

def dynamic_slice(
    operand: ArrayLike,
    start_indices: Any,
    slice_sizes: int | Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = ...,
) -> Array:
    """Return a window of static size at an index that may be traced."""

def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = ...,
    *,
    allow_negative_indices: bool = ...,
) -> Array:
    """`dynamic_slice` along one dimension."""

def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = ...,
) -> Array:
    """Replace one position along a dimension; `update` has that dimension with size 1 or …"""

def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = ...,
) -> Array:
    """Return the operand with the window at `start_indices` replaced by `update`."""

def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = ...,
) -> Array:
    """`dynamic_update_slice` along one dimension."""

def empty(shape: Sequence[int], dtype: DTypeLike | None, *, out_sharding: Any = ...) -> Array:
    """Return an array whose elements nobody should read; zeros."""

def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y."""

def erf(x: ArrayLike) -> Array:
    """Return the error function."""

def erf_inv(x: ArrayLike) -> Array:
    """Return the inverse of the error function."""

def erfc(x: ArrayLike) -> Array:
    """1 - erf(x)."""

def exp(x: ArrayLike, accuracy: Any = ...) -> Array:
    """e to the power x. accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."""

def exp2(x: ArrayLike, accuracy: Any = ...) -> Array:
    """2 to the power x. accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."""

def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Add size-1 dimensions at these positions of the result."""

def expm1(x: ArrayLike, accuracy: Any = ...) -> Array:
    """e**x - 1, accurate near 0. accuracy: None, or a `lax.Tolerance` or …"""

def fft(x: ArrayLike, fft_type: Any, fft_lengths: Sequence[int]) -> Array:
    """Discrete Fourier transform of the last len(fft_lengths) dimensions."""

def floor(x: ArrayLike) -> Array:
    """Return the largest integer not above x, as a float."""

@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, _T], _T],
    init_val: _T,
    *,
    unroll: int | bool | None = None,
) -> _T:
    """Loop over a range of integers, carrying state."""

@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Array], ArrayLike],
    init_val: float,
    *,
    unroll: int | bool | None = None,
) -> Array:
    """Loop over a range of integers, carrying state."""

def full(
    shape: Sequence[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = ...,
    *,
    sharding: Any = ...,
) -> Array:
    """Return an array of one repeated scalar; dtype by default that of the scalar."""

def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = ...,
    shape: int | Sequence[int] | None = ...,
    sharding: Any = ...,
) -> Array:
    """`full` with x's shape, dtype and placement where none is given."""

def gather(
    operand: ArrayLike,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = ...,
    indices_are_sorted: bool = ...,
    mode: Any = ...,
    fill_value: ArrayLike | None = ...,
) -> Array:
    """Gather windows of the operand at an array of start indices."""

def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y."""

def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y."""

def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized lower incomplete gamma function P(a, x)."""

def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the derivative of igamma(a, x) in a."""

def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized upper incomplete gamma function 1 - P(a, x)."""

def imag(x: ArrayLike) -> Array:
    """Return the imaginary part of a complex array."""

def index_in_dim(operand: ArrayLike, index: int, axis: int = ..., keepdims: bool = ...) -> Array:
    """Take one position along a dimension, which stays with size 1 unless keepdims is …"""

def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Take positions along several dimensions, one index array for each, all of one 1-D …"""

def integer_pow(x: ArrayLike, y: int) -> Array:
    """Return x to a fixed integer power, by repeated squaring."""

def iota(dtype: DTypeLike | None, size: int) -> Array:
    """0, 1, …, size - 1."""

def is_finite(x: ArrayLike) -> Array:
    """Whether x is neither infinite nor NaN."""

def le(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y."""

def lgamma(x: ArrayLike) -> Array:
    """log |gamma(x)|."""

def log(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the natural logarithm. accuracy: None, or a `lax.Tolerance` or …"""

def log1p(x: ArrayLike, accuracy: Any = ...) -> Array:
    """log(1 + x), accurate near 0. accuracy: None, or a `lax.Tolerance` or …"""

def log2(x: ArrayLike, *, accuracy: Any = ...) -> Array:
    """Return the logarithm to base 2 of a float or complex array."""

def logistic(x: ArrayLike, accuracy: Any = ...) -> Array:
    """1 / (1 + exp(-x)). accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."""

def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y."""

def map(f: Callable[[Any], _R], xs: Any, *, batch_size: int | None = None) -> _R:
    """Return a function applied along leading axes, one element after the other."""

def max(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the greater of x and y; NaN if either is."""

def min(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the lesser of x and y; NaN if either is."""

def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = ...) -> Array:
    """x * y, element by element. out_dtype: the dtype to multiply in; None takes the …"""

def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the high half of the bits of the product of two integers."""

def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y."""

def neg(x: ArrayLike) -> Array:
    """-x, element by element."""

def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the next float after x1 toward x2."""

def one_minus_square(x: ArrayLike) -> Array:
    """1 - x**2 as (1 + x) (1 - x): accurate near 1, as its derivative -2 x is near 0."""

def optimization_barrier(operand: _T) -> _T:
    """Keep the compiler from moving computations across; the value unchanged."""

def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Pad low, high and between elements; negative edge padding removes elements."""

def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """(low, high) padding of every dimension for 'VALID', 'SAME' or 'SAME_LOWER'."""

def pargmax(x: ArrayLike, axis_name: Any) -> Array:
    """Return the index along named axes of the device with the maximum, int32."""

def pargmin(x: ArrayLike, axis_name: Any) -> Array:
    """Return the index along named axes of the device with the minimum, int32."""

@overload
def pbroadcast(x: Never, axis_name: Any, source: int) -> Any:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf."""

@overload
def pbroadcast(x: ArrayLike, axis_name: Any, source: int) -> Array:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf."""

@overload
def pbroadcast(x: _T, axis_name: Any, source: int) -> _T:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf."""

def pbroadcast_start(x: ArrayLike, axis_name: Any, source: int) -> Future:
    """Start `pbroadcast`; `.done()` on the result gives its value."""

@overload
def pcast(x: Never, axis_name: Any, *, to: str) -> Any:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pcast(x: ArrayLike, axis_name: Any, *, to: str) -> Array:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pcast(x: _T, axis_name: Any, *, to: str) -> _T:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves."""

def platform_dependent(
    *args: Any, default: Callable[..., _R] | None = None, **per_platform: Callable[..., _R]
) -> _R:
    """Return the result of the function for the platform that the program is compiled for."""

@overload
def pmax(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the maximum over the devices along named axes, leaf by leaf."""

@overload
def pmax(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the maximum over the devices along named axes, leaf by leaf."""

@overload
def pmax(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the maximum over the devices along named axes, leaf by leaf."""

@overload
def pmean(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf …"""

@overload
def pmean(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf …"""

@overload
def pmean(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf …"""

@overload
def pmin(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the minimum over the devices along named axes, leaf by leaf."""

@overload
def pmin(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the minimum over the devices along named axes, leaf by leaf."""

@overload
def pmin(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the minimum over the devices along named axes, leaf by leaf."""

def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Return the m-th derivative of digamma at x."""

def population_count(x: ArrayLike) -> Array:
    """Return the number of 1 bits."""

def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x to the power y; a Python int exponent is computed by multiplication."""

@overload
def ppermute(x: Never, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Array:
    """Send values between devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: _T, axis_name: Any, perm: Sequence[tuple[int, int]]) -> _T:
    """Send values between devices along named axes; pytrees leaf by leaf."""

def ppermute_start(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Future:
    """Start `ppermute`; `.done()` on the result gives its value."""

def precv(token: Any, out_shape: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive the values that `psend` sent, zeros on devices that are no target."""

def psend(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Start sending values along a named axis; return the token that `precv` takes."""

@overload
def pshuffle(x: Never, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permute values along a named axis: device i receives that of device perm[i]."""

@overload
def pshuffle(x: ArrayLike, axis_name: Any, perm: Sequence[int]) -> Array:
    """Permute values along a named axis: device i receives that of device perm[i]."""

@overload
def pshuffle(x: _T, axis_name: Any, perm: Sequence[int]) -> _T:
    """Permute values along a named axis: device i receives that of device perm[i]."""

@overload
def psum(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by …"""

@overload
def psum(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by …"""

@overload
def psum(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by …"""

@overload
def psum_scatter(
    x: Never,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Any:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf."""

@overload
def psum_scatter(
    x: ArrayLike,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Array:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf."""

@overload
def psum_scatter(
    x: _T,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> _T:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf."""

def psum_scatter_start(
    x: ArrayLike,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Future:
    """Start `psum_scatter`; `.done()` on the result gives its value."""

def psum_start(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Future:
    """Start `psum`; `.done()` on the result gives its value."""

@overload
def pswapaxes(x: Never, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> Any:
    """Exchange the named axis with the array dimension `axis`, of the group's size."""

@overload
def pswapaxes(x: ArrayLike, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> Array:
    """Exchange the named axis with the array dimension `axis`, of the group's size."""

@overload
def pswapaxes(x: _T, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> _T:
    """Exchange the named axis with the array dimension `axis`, of the group's size."""

@overload
def pvary(x: Never, axis_name: Any) -> Any:
    """Cast values to varying along the axes over which they are invarying."""

@overload
def pvary(x: ArrayLike, axis_name: Any) -> Array:
    """Cast values to varying along the axes over which they are invarying."""

@overload
def pvary(x: _T, axis_name: Any) -> _T:
    """Cast values to varying along the axes over which they are invarying."""

def ragged_all_to_all(
    operand: ArrayLike,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = ...,
) -> Array:
    """Send slices of rows to all devices along named axes; lengths may differ and are …"""

def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: Any,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    group_offset: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Multiply each group of rows of lhs by its own matrix of rhs."""

def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: Any,
    ragged_dot_dimension_numbers: Any,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    group_offset: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """`dot_general` where groups of sizes known only at run time divide a dimension of …"""

def random_gamma_grad(a: ArrayLike, sample: Any) -> Array:
    """Return the derivative in a of a sample of the gamma distribution of shape a."""

def real(x: ArrayLike) -> Array:
    """Return the real part of a complex array."""

def reciprocal(x: ArrayLike) -> Array:
    """1 / x."""

@overload
def reduce(
    operands: ArrayLike,
    init_values: ArrayLike,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Array:
    """Combine elements along dimensions by an associative function."""

@overload
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combine elements along dimensions by an associative function."""

def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the conjunction of bits over the dimensions `axes`."""

def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the greatest element over the dimensions `axes`."""

def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the least element over the dimensions `axes`."""

def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the disjunction of bits over the dimensions `axes`."""

def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a float format of the given numbers of bits; the dtype stays."""

def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the product over the dimensions `axes`."""

def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = ...) -> Array:
    """Return the sum over the dimensions `axes`. out_sharding: of the result."""

def reduce_window(
    operand: ArrayLike,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = ...,
    padding: str | Sequence[tuple[int, int]] = ...,
    base_dilation: Sequence[int] | None = ...,
    window_dilation: Sequence[int] | None = ...,
) -> Any:
    """Combine the elements in each window of the operand, starting from init_value."""

def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = ...,
    window_dilation: Sequence[int] | None = ...,
) -> tuple[int, ...]:
    """Return the shape of `reduce_window`'s result."""

def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the exclusive or of bits over the dimensions `axes`."""

def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the remainder of x / y, with the sign of x."""

def reshape(
    operand: ArrayLike,
    new_sizes: int | Sequence[int],
    dimensions: Sequence[int] | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Return the same elements in row-major order with another shape; one size may be -1."""

def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along dimensions."""

def rng_bit_generator(
    key: Any,
    shape: Sequence[int],
    dtype: DTypeLike | None = ...,
    algorithm: Any = ...,
    *,
    out_sharding: Any = ...,
) -> list[Array]:
    """Random bits of the platform's generator: the key to go on with, and the bits."""

def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Uniform numbers in [a, b) from the platform's stateful generator: not reproducible."""

def round(x: ArrayLike, rounding_method: int = ...) -> Array:
    """Return the nearest integer as a float; halves away from zero (0) or to even (1)."""

def rsqrt(x: ArrayLike, accuracy: Any = ...) -> Array:
    """1 / sqrt(x). accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."""

def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: Any = ...,
    rhs_scale: Any = ...,
    dimension_numbers: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """`dot_general` of lhs * lhs_scale and rhs * rhs_scale, whose scales hold for blocks."""

_Carry = TypeVar("_Carry")
_X = TypeVar("_X")
_Y = TypeVar("_Y")

def scan(
    f: Callable[[_Carry, _X], tuple[_Carry, _Y]],
    init: _Carry,
    xs: _X | None = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[_Carry, _Y]:
    """Loop over leading axes, carrying state; results of the steps are stacked."""

def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Elements at the indices replaced by updates; where indices repeat, any one of them …"""

def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Update added to the elements at the indices."""

def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: Any,
    *,
    update_shape: Sequence[int] = ...,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Apply a function to the elements at the indices, as many times as each occurs."""

def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Return the greatest of each element and the updates at its index."""

def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Return the least of each element and the updates at its index."""

def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Elements at the indices multiplied by updates."""

def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    mode: Any = ...,
) -> Array:
    """Return updates subtracted from the elements at the indices: `scatter_add` of their …"""

def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where pred holds, else on_false; equal shapes and dtypes."""

def select_n(which: Any, *cases: Any) -> Array:
    """Element by element, the case whose number `which` holds (False is 0, True is 1)."""

def shape_as_value(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return a shape as an int32 array."""

def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted left by y bits."""

def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right, sign kept."""

def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right, zeros filled in."""

def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 by the sign of x; x/|x| for complex x."""

def sin(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the sine of x in radians. accuracy: None, or a `lax.Tolerance` or …"""

def sinh(x: ArrayLike) -> Array:
    """Return the hyperbolic sine."""

def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = ...,
) -> Array:
    """Slice from `start_indices` up to, excluding, `limit_indices`, in steps of `strides`."""

def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = ...,
    axis: int = ...,
) -> Array:
    """`slice` along one dimension; None and negative bounds mean what they do in Python."""

@overload
def sort(
    operand: ArrayLike, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array:
    """Sorts along a dimension, ascending; several arrays are ordered by the first ones."""

@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> tuple[Array, ...]:
    """Sorts along a dimension, ascending; several arrays are ordered by the first ones."""

def sort_key_val(
    keys: Any, values: ArrayLike, dimension: int = ..., is_stable: bool = ...
) -> tuple[Array, Array]:
    """Sort keys, and values along with them."""

def split(operand: ArrayLike, sizes: Sequence[int], axis: int = ...) -> list[Array]:
    """Consecutive parts of the given sizes along a dimension."""

def sqrt(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the square root. accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."""

def square(x: ArrayLike) -> Array:
    """Return x * x."""

def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop size-1 dimensions."""

def stack(operands: Sequence[Any], axis: int = ...) -> Array:
    """Join arrays of one shape along a new dimension."""

def stage(x: ArrayLike, /) -> Array:
    """Return the value in the current trace: traced in an active one, else an array."""

def stop_gradient(x: _T) -> _T:
    """Return the value with a zero derivative; pytrees leaf by leaf."""

def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y, element by element."""

def switch(
    index: ArrayLike, branches: Sequence[Callable[..., _R]], *operands: Any, operand: Any = ...
) -> _R:
    """One of several functions of the operands, by its number."""

def tan(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the tangent of x in radians. accuracy: None, or a `lax.Tolerance` or …"""

def tanh(x: ArrayLike, accuracy: Any = ...) -> Array:
    """Return the hyperbolic tangent. accuracy: None, or a `lax.Tolerance` or …"""

def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Return the operand repeated reps[i] times along dimension i."""

def top_k(operand: ArrayLike, k: int, *, axis: int = ...) -> list[Array]:
    """Return the k greatest elements along a dimension, descending, and their indices …"""

def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permute dimensions: result dimension i is operand dimension permutation[i]."""

def unstack(x: ArrayLike, axis: int = ...) -> tuple[Array, ...]:
    """Return the elements along a dimension, as arrays without it."""

def while_loop(cond_fun: Callable[[_T], Any], body_fun: Callable[[_T], _T], init_val: _T) -> _T:
    """Loop while a condition on the state holds."""

@overload
def with_sharding_constraint(x: Never, shardings: Any, *, priorities: Any = ...) -> Any:
    """Constrain how the partitioner places arrays at this point of the program."""

@overload
def with_sharding_constraint(x: ArrayLike, shardings: Any, *, priorities: Any = ...) -> Array:
    """Constrain how the partitioner places arrays at this point of the program."""

@overload
def with_sharding_constraint(x: _T, shardings: Any, *, priorities: Any = ...) -> _T:
    """Constrain how the partitioner places arrays at this point of the program."""

def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Return the Hurwitz zeta function: the sum over k >= 0 of (k + q)**-x."""

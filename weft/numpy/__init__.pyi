"""Types of weft.numpy, written by `make stubs` from the definitions."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from weft.numpy import fft as fft
from weft.numpy import linalg as linalg
from weft.numpy.creation import array_repr as array_repr
from weft.numpy.creation import array_str as array_str
from weft.numpy.creation import save as save
from weft.numpy.creation import savez as savez
from weft.numpy.index_tricks import c_ as c_
from weft.numpy.index_tricks import index_exp as index_exp
from weft.numpy.index_tricks import mgrid as mgrid
from weft.numpy.index_tricks import ogrid as ogrid
from weft.numpy.index_tricks import r_ as r_
from weft.numpy.index_tricks import s_ as s_
from weft.numpy.scalar_types import ComplexWarning as ComplexWarning
from weft.numpy.scalar_types import ScalarType
from weft.numpy.scalar_types import can_cast as can_cast
from weft.numpy.scalar_types import character as character
from weft.numpy.scalar_types import complexfloating as complexfloating
from weft.numpy.scalar_types import dtype as dtype
from weft.numpy.scalar_types import flexible as flexible
from weft.numpy.scalar_types import floating as floating
from weft.numpy.scalar_types import generic as generic
from weft.numpy.scalar_types import inexact as inexact
from weft.numpy.scalar_types import integer as integer
from weft.numpy.scalar_types import number as number
from weft.numpy.scalar_types import object_ as object_
from weft.numpy.scalar_types import signedinteger as signedinteger
from weft.numpy.scalar_types import unsignedinteger as unsignedinteger
from weft.numpy.ufunc_object import ufunc as ufunc
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

class _Ufunc:
    """A function of scalars over arrays, with NumPy's ufunc methods."""

    nin: int
    nout: int
    def reduce(self, a: ArrayLike, axis: int | None = 0, **options: Any) -> Array: ...
    def accumulate(self, a: ArrayLike, axis: int = 0, **options: Any) -> Array: ...
    def outer(self, a: ArrayLike, b: ArrayLike, **options: Any) -> Array: ...
    def reduceat(self, a: ArrayLike, indices: ArrayLike, **options: Any) -> Array: ...
    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None) -> Array: ...

class _Unary(_Ufunc):
    def __call__(self, x: ArrayLike, /, out: None = None, where: None = None) -> Array: ...

class _Binary(_Ufunc):
    def __call__(
        self, x1: ArrayLike, x2: ArrayLike, /, out: None = None, where: None = None
    ) -> Array: ...

def abs(x: ArrayLike, /) -> Array:
    """Return the absolute value; the magnitude of complex numbers. Source: numpy.absolute."""

def absolute(x: ArrayLike, /) -> Array:
    """Return the absolute value; the magnitude of complex numbers. Source: numpy.absolute."""

def acos(x: ArrayLike, /) -> Array:
    """Return the inverse cosine, in radians. Source: numpy.arccos."""

def acosh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic cosine. Source: numpy.arccosh."""

add: _Binary

def all(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    *,
    where: ArrayLike | None = ...,
) -> Array:
    """Whether all elements are nonzero, over an axis, a tuple of axes, or all."""

def allclose(
    a: ArrayLike, b: ArrayLike, rtol: Any = ..., atol: Any = ..., equal_nan: builtins.bool = ...
) -> Array:
    """Return whether all elements are close; see `isclose`."""

def amax(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the greatest element over an axis, a tuple of axes, or all; NaN if one is."""

def amin(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the least element over an axis, a tuple of axes, or all; NaN if one is."""

def angle(z: ArrayLike, deg: builtins.bool = ...) -> Array:
    """Return the argument of a complex number, in radians or degrees. Source: numpy.angle."""

def any(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    *,
    where: ArrayLike | None = ...,
) -> Array:
    """Whether any element is nonzero, over an axis, a tuple of axes, or all."""

def append(arr: ArrayLike, values: ArrayLike, axis: int | None = ...) -> Array:
    """Append values to the end of an axis; None flattens both first."""

def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """func1d applied to every vector along an axis. Source: numpy.apply_along_axis."""

def apply_over_axes(
    func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int] | None
) -> Array:
    """func(a, axis) applied over one axis after the other; reduced dimensions stay with …"""

def arange(
    start: ArrayLike,
    stop: ArrayLike | None = ...,
    step: ArrayLike | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """start, start + step, … below stop; one argument is the stop."""

def arccos(x: ArrayLike, /) -> Array:
    """Return the inverse cosine, in radians. Source: numpy.arccos."""

def arccosh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic cosine. Source: numpy.arccosh."""

def arcsin(x: ArrayLike, /) -> Array:
    """Return the inverse sine, in radians. Source: numpy.arcsin."""

def arcsinh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic sine. Source: numpy.arcsinh."""

def arctan(x: ArrayLike, /) -> Array:
    """Return the inverse tangent, in radians. Source: numpy.arctan."""

def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of (x2, x1) in radians. Source: numpy.arctan2."""

def arctanh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic tangent. Source: numpy.arctanh."""

def argmax(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool | None = ...,
) -> Array:
    """Return the first position of the greatest element, along an axis or in the flat …"""

def argmin(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool | None = ...,
) -> Array:
    """Return the first position of the least element, along an axis or in the flat array."""

def argpartition(a: ArrayLike, kth: int, axis: int = ...) -> Array:
    """Return the indices by which `partition` orders the array."""

def argsort(
    a: ArrayLike,
    axis: int | None = ...,
    *,
    kind: Any = ...,
    order: Any = ...,
    stable: builtins.bool = ...,
    descending: builtins.bool = ...,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Return the indices that sort along an axis; equal elements keep their order if …"""

def argwhere(a: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | None = ...) -> Array:
    """Return the indices of nonzero elements, a row for each."""

def around(a: ArrayLike, decimals: int = ..., out: Any = ...) -> Array:
    """Round to a number of decimals, halves to even; a negative number rounds tens, …"""

def array(
    object: Any,
    dtype: DTypeLike | None = ...,
    copy: builtins.bool = ...,
    order: str | None = ...,
    ndmin: int = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return an array from an array, a number, or nested sequences of them."""

def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: builtins.bool = ...) -> Array:
    """Return whether shapes and all elements are equal."""

def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return whether the arrays broadcast to one shape with equal elements."""

def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = ...) -> list[Array]:
    """Act as `split`, with parts that may differ in size by one."""

def asarray(
    a: ArrayLike,
    dtype: DTypeLike | None = ...,
    order: str | None = ...,
    *,
    copy: builtins.bool | None = ...,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return an array from an array, a number, or nested sequences of them; copies only …"""

def asin(x: ArrayLike, /) -> Array:
    """Return the inverse sine, in radians. Source: numpy.arcsin."""

def asinh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic sine. Source: numpy.arcsinh."""

def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: builtins.bool = ..., device: Any = ...
) -> Array:
    """Convert to another dtype: floats truncate to integers, complex lose their …"""

def atan(x: ArrayLike, /) -> Array:
    """Return the inverse tangent, in radians. Source: numpy.arctan."""

def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of (x2, x1) in radians. Source: numpy.arctan2."""

def atanh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic tangent. Source: numpy.arctanh."""

@overload
def atleast_1d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(*arys: ArrayLike) -> list[Array]: ...
@overload
def atleast_2d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(*arys: ArrayLike) -> list[Array]: ...
@overload
def atleast_3d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(*arys: ArrayLike) -> list[Array]: ...
@overload
def average(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    weights: ArrayLike | None = ...,
    returned: Literal[False] = ...,
    keepdims: builtins.bool = ...,
) -> Array:
    """Return the weighted mean; with `returned`, also the sum of weights. Source: …"""

@overload
def average(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    weights: ArrayLike | None = ...,
    *,
    returned: Literal[True],
    keepdims: builtins.bool = ...,
) -> tuple[Array, Array]:
    """Return the weighted mean; with `returned`, also the sum of weights. Source: …"""

@overload
def average(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    weights: ArrayLike | None = ...,
    returned: builtins.bool = ...,
    keepdims: builtins.bool = ...,
) -> Any:
    """Return the weighted mean; with `returned`, also the sum of weights. Source: …"""

def bartlett(M: int) -> Array:
    """Return a triangle of M points. Source: numpy.bartlett."""

bfloat16: ScalarType

def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = ...,
    minlength: int = ...,
    *,
    length: int | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return how often each of 0, 1, 2, … occurs, or the sum of weights there."""

bitwise_and: _Binary

def bitwise_count(x: ArrayLike, /) -> Array:
    """Return the number of 1 bits in the absolute value, uint8. Source: …"""

def bitwise_invert(x: ArrayLike, /) -> Array:
    """Bits inverted; for booleans, not. Source: numpy.bitwise_not."""

def bitwise_left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x shifted left by y bits. Source: numpy.left_shift."""

def bitwise_not(x: ArrayLike, /) -> Array:
    """Bits inverted; for booleans, not. Source: numpy.bitwise_not."""

bitwise_or: _Binary

def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 shifted right by x2 bits; the sign of signed integers stays. Source: …"""

bitwise_xor: _Binary

def blackman(M: int) -> Array:
    """Return the Blackman window of M points. Source: numpy.blackman."""

def block(arrays: Sequence[ArrayLike] | Array) -> Array:
    """Return an array from nested lists of blocks. Source: numpy.block."""

bool: ScalarType

bool_: ScalarType

def broadcast_arrays(*args: Any) -> tuple[Array, ...]:
    """Return the arrays repeated to one shape, in a tuple as the array API standard has …"""

def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape to which NumPy's rules broadcast the given shapes."""

def broadcast_to(array: ArrayLike, shape: int | Sequence[int], *, out_sharding: Any = ...) -> Array:
    """Return the array repeated along dimensions to fill a shape. Source: …"""

def cbrt(x: ArrayLike, /) -> Array:
    """Return the cube root. Source: numpy.cbrt."""

cdouble: ScalarType

def ceil(x: ArrayLike) -> Array:
    """Return the smallest integer not below x. Source: numpy.ceil."""

def choose(a: ArrayLike, choices: Any, out: Any = ..., mode: str = ...) -> Array:
    """Pick elements from several arrays: element i of the result is that of the array …"""

def clip(
    arr: ArrayLike | None = ...,
    /,
    min: ArrayLike | None = ...,
    max: ArrayLike | None = ...,
    *,
    a: ArrayLike | None = ...,
    a_min: ArrayLike | None = ...,
    a_max: ArrayLike | None = ...,
) -> Array:
    """Return x limited to [min, max]; a bound that is None does not limit."""

def column_stack(tup: Sequence[ArrayLike] | Array) -> Array:
    """Join vectors as the columns of a matrix, matrices along columns."""

complex128: ScalarType

complex64: ScalarType

complex_: ScalarType

def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike = ...,
    out: Any = ...,
) -> Array:
    """Return the slices of an axis for which the condition holds; size makes it traceable."""

def concat(arrays: Sequence[ArrayLike] | Array, /, *, axis: int | None = ...) -> Array:
    """Join arrays along an existing axis (array API standard)."""

def concatenate(
    arrays: Sequence[ArrayLike] | Array, axis: int | None = ..., dtype: DTypeLike | None = ...
) -> Array:
    """Join arrays along an existing axis; None flattens them first."""

def conj(x: ArrayLike, /) -> Array:
    """Return the complex conjugate. Source: numpy.conjugate."""

def conjugate(x: ArrayLike, /) -> Array:
    """Return the complex conjugate. Source: numpy.conjugate."""

def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = ...,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the convolution of two vectors."""

def copy(a: ArrayLike, order: str | None = ...) -> Array:
    """Return a copy of the array in memory of its own."""

def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """|x1| with the sign of x2. Source: numpy.copysign."""

def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = ...,
    rowvar: builtins.bool = ...,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Return the matrix of correlation coefficients, within [-1, 1]. Source: …"""

def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = ...,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the cross-correlation of two vectors, the second conjugated; modes as in …"""

def cos(x: ArrayLike, /) -> Array:
    """Return the cosine of x in radians. Source: numpy.cos."""

def cosh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic cosine. Source: numpy.cosh."""

def count_nonzero(
    a: ArrayLike, axis: int | Sequence[int] | None = ..., keepdims: builtins.bool = ...
) -> Array:
    """Return the number of nonzero elements over an axis, a tuple of axes, or all."""

def cov(
    m: ArrayLike,
    y: ArrayLike | None = ...,
    rowvar: builtins.bool = ...,
    bias: builtins.bool = ...,
    ddof: int | None = ...,
    fweights: Any = ...,
    aweights: Any = ...,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Return the covariance of variables in rows (columns: rowvar=False). Source: …"""

def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = ...,
    axisb: int = ...,
    axisc: int = ...,
    axis: int | None = ...,
) -> Array:
    """Return the cross product of vectors of 3 (or 2) components. Source: numpy.cross."""

csingle: ScalarType

def cumprod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
) -> Array:
    """Return running products along an axis, or of the flat array."""

def cumsum(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
) -> Array:
    """Return running sums along an axis, or of the flat array."""

def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    include_initial: builtins.bool = ...,
) -> Array:
    """Multiply along an axis, running; include_initial: a leading 1 (array API standard)."""

def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    include_initial: builtins.bool = ...,
) -> Array:
    """Return running sums along an axis, with a leading 0 if include_initial (array API …"""

def deg2rad(x: ArrayLike, /) -> Array:
    """Convert degrees to radians. Source: numpy.radians."""

def degrees(x: ArrayLike, /) -> Array:
    """Convert radians to degrees. Source: numpy.degrees."""

def delete(
    arr: ArrayLike, obj: Any, axis: int | None = ..., *, assume_unique_indices: builtins.bool = ...
) -> Array:
    """Return the array without the slices at the positions; None flattens it first."""

def diag(v: ArrayLike, k: int = ...) -> Array:
    """Return a matrix with the vector on its k-th diagonal, or the k-th diagonal of a …"""

def diag_indices(n: int, ndim: int = ...) -> tuple[Array, ...]:
    """Return indices of the main diagonal of an array of ndim dimensions of size n."""

def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return indices of the main diagonal of an array whose dimensions are equal."""

def diagflat(v: ArrayLike, k: int = ...) -> Array:
    """Return a matrix with all elements of v on its k-th diagonal."""

def diagonal(a: ArrayLike, offset: int = ..., axis1: int = ..., axis2: int = ...) -> Array:
    """Return the diagonal of two axes, as a last dimension. Source: numpy.diagonal."""

def diff(
    a: ArrayLike, n: int = ..., axis: int = ..., prepend: Any = ..., append: Any = ...
) -> Array:
    """Return the differences of neighbours along an axis, n times over. Source: …"""

def digitize(
    x: ArrayLike, bins: Any, right: builtins.bool = ..., *, method: str | None = ...
) -> Array:
    """Return the number of each x's bin; bins rise or fall. Source: numpy.digitize."""

def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2, a float. Source: numpy.true_divide."""

def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Floor division and its remainder. Source: numpy.divmod."""

def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return the sum over the last axis of a and the last but one of b; a product for …"""

double: ScalarType

def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Split along the third axis."""

def dstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = ...) -> Array:
    """Join arrays along the third axis."""

e: float

def ediff1d(ary: ArrayLike, to_end: Any = ..., to_begin: Any = ...) -> Array:
    """Return the differences of neighbours of the flat array, with values put before and …"""

def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: Any = ...,
    optimize: Any = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    _dot_general: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Sum products named by subscripts: 'ij,jk->ik' is the matrix product."""

def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = ...) -> tuple[list[Any], str]:
    """Return the order in which einsum contracts, and numpy's account of its cost."""

def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return zeros of a shape: arrays without defined content do not exist."""

def empty_like(
    prototype: Any,
    dtype: DTypeLike | None = ...,
    shape: int | Sequence[int] | None = ...,
    *,
    device: Any = ...,
) -> Array:
    """Return zeros of an array's shape and dtype, placed as it is."""

def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x == y. Source: numpy.equal."""

euler_gamma: float

def exp(x: ArrayLike, /) -> Array:
    """e to the power x. Source: numpy.exp."""

def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x. Source: numpy.exp2."""

def expand_dims(a: ArrayLike, axis: int | Sequence[int] = ...) -> Array:
    """Add dimensions of size 1 at these positions of the result."""

def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, accurate near 0. Source: numpy.expm1."""

def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike = ...
) -> Array:
    """Return the elements of the flat array for which the condition holds."""

def eye(
    N: int, M: int | None = ..., k: int = ..., dtype: DTypeLike | None = ..., *, device: Any = ...
) -> Array:
    """Return ones on the k-th diagonal of an N by M matrix, zeros elsewhere."""

def fabs(x: ArrayLike, /) -> Array:
    """Return the absolute value as a float. Source: numpy.fabs."""

def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: builtins.bool = ..., *, inplace: builtins.bool = ...
) -> Array:
    """Return a with its main diagonal set to val, repeated if too short; needs …"""

def finfo(dtype: DTypeLike | None) -> Any:
    """Return limits of a float dtype: eps, max, tiny, bits, …"""

def flatnonzero(
    a: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> Array:
    """Return the indices of nonzero elements in the flat array."""

def flip(m: ArrayLike, axis: int | Sequence[int] | None = ...) -> Array:
    """Return the order of elements reversed along axes, or along all."""

def fliplr(m: ArrayLike) -> Array:
    """Reverse the order of columns."""

def flipud(m: ArrayLike) -> Array:
    """Reverse the order of rows."""

float16: ScalarType

float32: ScalarType

float4_e2m1fn: ScalarType

float64: ScalarType

float6_e2m3fn: ScalarType

float6_e3m2fn: ScalarType

float8_e3m4: ScalarType

float8_e4m3: ScalarType

float8_e4m3b11fnuz: ScalarType

float8_e4m3fn: ScalarType

float8_e4m3fnuz: ScalarType

float8_e5m2: ScalarType

float8_e5m2fnuz: ScalarType

float8_e8m0fnu: ScalarType

float_: ScalarType

def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x to the power y, computed in floats. Source: numpy.float_power."""

def floor(x: ArrayLike) -> Array:
    """Return the largest integer not above x. Source: numpy.floor."""

def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the largest integer not above x1 / x2. Source: numpy.floor_divide."""

def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the greater of both; where one is NaN, the other. Source: numpy.fmax."""

def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the lesser of both; where one is NaN, the other. Source: numpy.fmin."""

def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of truncating division, with the sign of x1. Source: …"""

def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1. Source: numpy.frexp."""

def from_dlpack(x: ArrayLike, /, *, device: Any = ..., copy: builtins.bool | None = ...) -> Array:
    """Return the array of another library, sharing its memory where possible (DLPack …"""

def frombuffer(
    buffer: Any, dtype: DTypeLike | None = ..., count: int = ..., offset: int = ...
) -> Array:
    """Read an array from the bytes of a buffer, of the dtype asked for; the result's is …"""

def fromfile(
    file: Any, dtype: DTypeLike | None = ..., count: int = ..., sep: str = ..., offset: int = ...
) -> Array:
    """Return a vector from a binary or text file. Source: numpy.fromfile."""

def fromfunction(
    function: Callable[..., Any],
    shape: int | Sequence[int],
    *,
    dtype: DTypeLike | None = ...,
    **kwargs: Any,
) -> Array:
    """Return the function's values at the indices of an array of the shape."""

def fromiter(iterable: Any, dtype: DTypeLike | None, count: int = ...) -> Array:
    """Return a vector from an iterable of numbers. Source: numpy.fromiter."""

def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = ...) -> Any:
    """Return a ufunc from a function of scalars."""

def fromstring(string: str, dtype: DTypeLike | None = ..., count: int = ..., *, sep: str) -> Array:
    """Return an array from numbers in a text. Source: numpy.fromstring."""

def full(
    shape: int | Sequence[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return an array of a shape filled with a value, or with an array that is broadcast."""

def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = ...,
    shape: int | Sequence[int] | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return a value repeated in an array's shape and dtype, placed as it is."""

def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the greatest common divisor. Source: numpy.gcd."""

def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: builtins.bool = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
) -> Array:
    """Return values from start to stop with a constant ratio. Source: numpy.geomspace."""

def get_printoptions() -> dict[str, Any]:
    """Return the current print options."""

def gradient(
    f: Any, *varargs: Any, axis: int | Sequence[int] | None = ..., edge_order: int | None = ...
) -> Array | list[Array]:
    """Central differences inside, one-sided ones at the ends, along each axis."""

def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x > y. Source: numpy.greater."""

def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x >= y. Source: numpy.greater_equal."""

def hamming(M: int) -> Array:
    """Return the Hamming window of M points. Source: numpy.hamming."""

def hanning(M: int) -> Array:
    """Return the Hann window of M points. Source: numpy.hanning."""

def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 for negative x1, x2 at 0, 1 for positive x1. Source: numpy.heaviside."""

def histogram(
    a: ArrayLike,
    bins: Any = ...,
    range: Any = ...,
    weights: ArrayLike | None = ...,
    density: Any = ...,
) -> tuple[Array, Array]:
    """Return the number of elements in each bin, and the edges of the bins."""

def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = ...,
    range: Any = ...,
    weights: ArrayLike | None = ...,
    density: Any = ...,
) -> tuple[Array, Array, Array]:
    """Return counts of pairs in a grid of bins, and the edges in both directions."""

def histogram_bin_edges(
    a: ArrayLike, bins: Any = ..., range: Any = ..., weights: ArrayLike | None = ...
) -> Array:
    """Return the edges of the bins of a histogram. Source: numpy.histogram_bin_edges."""

def histogramdd(
    sample: Any,
    bins: Any = ...,
    range: Any = ...,
    weights: ArrayLike | None = ...,
    density: Any = ...,
) -> tuple[Array, list[Array]]:
    """Return counts of points in a grid of bins of any dimension, and the list of edges."""

def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Split along the second axis, or the first of a vector."""

def hstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = ...) -> Array:
    """Join arrays along columns; vectors along their one axis."""

def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """sqrt(x1**2 + x2**2), without overflow. Source: numpy.hypot."""

def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 0. Source: numpy.i0."""

def identity(n: int, dtype: DTypeLike | None = ...) -> Array:
    """Return the n by n identity matrix."""

def iinfo(int_type: Any) -> Any:
    """Return limits of an integer dtype: min, max, bits."""

def imag(val: Any, /) -> Array:
    """Return the imaginary part, zero for real numbers. Source: numpy.imag."""

def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = ..., sparse: builtins.bool = ...
) -> Array:
    """Return the indices of a grid, one array for each dimension (stacked unless sparse)."""

inf: float

def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the sum over the last axes of both; a product for scalars. Source: …"""

def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = ...) -> Array:
    """Insert values before positions of an axis; None flattens the array first."""

int1: ScalarType

int16: ScalarType

int2: ScalarType

int32: ScalarType

int4: ScalarType

int64: ScalarType

int8: ScalarType

int_: ScalarType

def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = ..., right: Any = ..., period: Any = ...
) -> Array:
    """Piecewise linear interpolation through the points (xp, fp), xp rising."""

@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = ...,
    return_indices: Literal[False] = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array:
    """Return the sorted distinct elements of both; with return_indices, also their first …"""

@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = ...,
    *,
    return_indices: Literal[True],
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> tuple[Array, Array, Array]:
    """Return the sorted distinct elements of both; with return_indices, also their first …"""

@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = ...,
    return_indices: builtins.bool = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Any:
    """Return the sorted distinct elements of both; with return_indices, also their first …"""

def invert(x: ArrayLike, /) -> Array:
    """Bits inverted; for booleans, not. Source: numpy.bitwise_not."""

def isclose(
    a: ArrayLike, b: ArrayLike, rtol: Any = ..., atol: Any = ..., equal_nan: builtins.bool = ...
) -> Array:
    """Return whether |a - b| <= atol + rtol * |b|, element by element; infinities equal …"""

def iscomplex(x: ArrayLike) -> Array:
    """Return whether the imaginary part is nonzero. Source: numpy.iscomplex."""

def iscomplexobj(x: ArrayLike) -> builtins.bool:
    """Return whether the dtype is complex."""

def isdtype(dtype: DTypeLike | None, kind: Any) -> builtins.bool:
    """Tell whether a dtype is of a kind: a name of the array API, a dtype, or a tuple of …"""

def isfinite(x: ArrayLike, /) -> Array:
    """Return whether x is neither infinite nor NaN. Source: numpy.isfinite."""

def isin(
    element: Any,
    test_elements: Any,
    assume_unique: builtins.bool = ...,
    invert: builtins.bool = ...,
    *,
    method: str = ...,
) -> Array:
    """Return whether each element is among the test elements."""

def isinf(x: ArrayLike, /) -> Array:
    """Return whether x is infinite. Source: numpy.isinf."""

def isnan(x: ArrayLike, /) -> Array:
    """Return whether x is NaN. Source: numpy.isnan."""

def isneginf(x: ArrayLike, /, out: Any = ...) -> Array:
    """Return whether x is negative infinity. Source: numpy.isneginf."""

def isposinf(x: ArrayLike, /, out: Any = ...) -> Array:
    """Return whether x is positive infinity. Source: numpy.isposinf."""

def isreal(x: ArrayLike) -> Array:
    """Return whether the imaginary part is zero. Source: numpy.isreal."""

def isrealobj(x: ArrayLike) -> builtins.bool:
    """Return whether the dtype is not complex."""

def isscalar(element: Any) -> builtins.bool:
    """Return whether the value is a Python or NumPy scalar or an array without dimensions."""

def issubdtype(arg1: Any, arg2: Any) -> builtins.bool:
    """Return whether a dtype belongs to another in the hierarchy of dtypes."""

def iterable(y: ArrayLike) -> builtins.bool:
    """Return whether iter(y) works."""

def ix_(*args: Any) -> tuple[Array, ...]:
    """Shape vectors so that indexing with them selects the cross product of their …"""

def kaiser(M: int, beta: Any) -> Array:
    """Return the Kaiser window of M points; beta may be traced. Source: numpy.kaiser."""

def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product: every element of a times the whole of b. Source: …"""

def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the least common multiple. Source: numpy.lcm."""

def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2, exact unless it leaves the range. Source: numpy.ldexp."""

def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x shifted left by y bits. Source: numpy.left_shift."""

def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x < y. Source: numpy.less."""

def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x <= y. Source: numpy.less_equal."""

def lexsort(keys: Any, axis: int = ...) -> Array:
    """Return the indices that sort by several keys, the last one first. Source: …"""

@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: builtins.bool = ...,
    retstep: Literal[False] = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Array:
    """num evenly spaced values from start to stop, along a new axis."""

@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: builtins.bool = ...,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    device: Any = ...,
) -> tuple[Array, Array]:
    """num evenly spaced values from start to stop, along a new axis."""

@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: builtins.bool = ...,
    retstep: builtins.bool = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Any:
    """num evenly spaced values from start to stop, along a new axis."""

def load(file: Any, *args: Any, **kwargs: Any) -> Array:
    """Load the array that numpy.save wrote; a .npz file as a mapping. Source: numpy.load."""

def log(x: ArrayLike, /) -> Array:
    """Return the natural logarithm. Source: numpy.log."""

def log10(x: ArrayLike, /) -> Array:
    """Return the logarithm to base 10. Source: numpy.log10."""

def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), accurate near 0. Source: numpy.log1p."""

def log2(x: ArrayLike, /) -> Array:
    """Return the logarithm to base 2. Source: numpy.log2."""

logaddexp: _Binary

logaddexp2: _Binary

logical_and: _Binary

def logical_not(x: ArrayLike, /) -> Array:
    """Return whether x is zero. Source: numpy.logical_not."""

logical_or: _Binary

logical_xor: _Binary

def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: builtins.bool = ...,
    base: Any = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
) -> Array:
    """Return base to the power of evenly spaced exponents. Source: numpy.logspace."""

def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = ..., *, size: int | None = ...
) -> tuple[Array, ...]:
    """Return indices at which mask_func(ones((n, n)), k) is nonzero."""

def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Multiply matrices; leading dimensions are batches and broadcast. Vectors gain a …"""

def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return the last two dimensions exchanged."""

def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply matrices by vectors, batched over leading dimensions. Source: numpy.matvec."""

def max(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the greatest element over an axis, a tuple of axes, or all; NaN if one is."""

maximum: _Binary

def mean(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    *,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the arithmetic mean over an axis, a tuple of axes, or all; a float for …"""

def median(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    overwrite_input: builtins.bool = ...,
    keepdims: builtins.bool = ...,
) -> Array:
    """Return the middle element over an axis, a tuple of axes, or all; of two, the mean."""

def meshgrid(
    *xi: Any, copy: builtins.bool = ..., sparse: builtins.bool = ..., indexing: str = ...
) -> list[Array]:
    """Coordinate matrices from vectors. Source: numpy.meshgrid."""

def min(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the least element over an axis, a tuple of axes, or all; NaN if one is."""

minimum: _Binary

def minmax(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> tuple[Array, Array]:
    """Return the minimum and the maximum."""

def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of floor division, with the sign of x2. Source: …"""

def modf(x: ArrayLike, /, out: Any = ...) -> tuple[Array, Array]:
    """Return the fractional and the whole part, both with the sign of x. Source: …"""

def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Move dimensions to new positions; the others keep their order. Source: …"""

multiply: _Binary

nan: float

def nan_to_num(
    x: ArrayLike, copy: builtins.bool = ..., nan: Any = ..., posinf: Any = ..., neginf: Any = ...
) -> Array:
    """NaN replaced by `nan`, infinities by given numbers or the largest finite ones."""

def nanargmax(
    a: ArrayLike,
    axis: int | None = ...,
    out: ArrayLike | None = ...,
    keepdims: builtins.bool | None = ...,
) -> Array:
    """Return the position of the greatest element that is not NaN. -1 where all are NaN."""

def nanargmin(
    a: ArrayLike,
    axis: int | None = ...,
    out: ArrayLike | None = ...,
    keepdims: builtins.bool | None = ...,
) -> Array:
    """Return the position of the least element that is not NaN. -1 where all are NaN."""

def nancumprod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
) -> Array:
    """Return running products, NaN counted as 1."""

def nancumsum(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
) -> Array:
    """Return running sums, NaN counted as 0."""

def nanmax(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the greatest element that is not NaN. Source: numpy.nanmax."""

def nanmean(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the mean of the elements that are not NaN."""

def nanmedian(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    overwrite_input: builtins.bool = ...,
    keepdims: builtins.bool = ...,
) -> Array:
    """Act as `median`, of the elements that are not NaN."""

def nanmin(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the least element that is not NaN. Source: numpy.nanmin."""

def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    overwrite_input: builtins.bool = ...,
    method: str = ...,
    keepdims: builtins.bool = ...,
    *,
    weights: ArrayLike | None = ...,
) -> Array:
    """Act as `percentile`, of the elements that are not NaN."""

def nanprod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the product of the elements that are not NaN. Source: numpy.nanprod."""

def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    overwrite_input: builtins.bool = ...,
    method: str = ...,
    keepdims: builtins.bool = ...,
    *,
    weights: ArrayLike | None = ...,
) -> Array:
    """Act as `quantile`, of the elements that are not NaN."""

def nanstd(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    ddof: float = ...,
    keepdims: builtins.bool = ...,
    where: ArrayLike | None = ...,
    mean: Any = ...,
) -> Array:
    """Return the standard deviation of the elements that are not NaN. Source: …"""

def nansum(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """Return the sum of the elements that are not NaN. Source: numpy.nansum."""

def nanvar(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    ddof: float = ...,
    keepdims: builtins.bool = ...,
    where: ArrayLike | None = ...,
    mean: Any = ...,
) -> Array:
    """Return the variance of the elements that are not NaN. Source: numpy.nanvar."""

ndarray = Array

def ndim(a: ArrayLike) -> int:
    """Return the number of dimensions."""

negative: _Unary

newaxis: None

def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the next float after x1 toward x2. Source: numpy.nextafter."""

def nonzero(
    a: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> tuple[Array, ...]:
    """Return for each dimension the indices of the nonzero elements."""

def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x != y. Source: numpy.not_equal."""

def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return ones of a shape, float by default."""

def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = ...,
    shape: int | Sequence[int] | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return ones of an array's shape and dtype, placed as it is."""

def outer(a: ArrayLike, b: ArrayLike, out: Any = ...) -> Array:
    """Return the products of all pairs of elements, as a matrix. Source: numpy.outer."""

def packbits(a: ArrayLike, axis: int | None = ..., bitorder: str = ...) -> Array:
    """Eight booleans or integers to a byte, along an axis or of the flat array."""

def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = ..., **kwargs: Any
) -> Array:
    """Return the array with elements added before and after each dimension."""

def partition(a: ArrayLike, kth: int, axis: int = ...) -> Array:
    """Partition an array around its kth smallest element: smaller ones before, others …"""

def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    overwrite_input: builtins.bool = ...,
    method: str = ...,
    keepdims: builtins.bool = ...,
    *,
    weights: ArrayLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Act as `quantile`, with q within [0, 100]."""

def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Return the dimensions in the order given (array API standard)."""

pi: float

def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Return the value of the function whose condition holds, of the later one where …"""

def place(arr: ArrayLike, mask: ArrayLike, vals: Any, *, inplace: builtins.bool = ...) -> Array:
    """arr with the elements under the mask replaced by vals in turn. Source: numpy.place."""

def poly(seq_of_zeros: Any) -> Array:
    """Return the coefficients of the polynomial with the given roots, or of a matrix's …"""

def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the sum of polynomials."""

def polyder(p: ArrayLike, m: int = ...) -> Array:
    """Return the m-th derivative of a polynomial."""

def polydiv(
    u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: builtins.bool = ...
) -> tuple[Array, Array]:
    """Quotient and remainder of polynomials. Source: numpy.polydiv."""

def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: Any = ...,
    full: builtins.bool = ...,
    w: Any = ...,
    cov: Any = ...,
) -> Any:
    """Return the polynomial of a degree that fits points best by least squares."""

def polyint(p: ArrayLike, m: int = ..., k: ArrayLike | None = ...) -> Array:
    """Return the m-th antiderivative of a polynomial, with constants of integration k."""

def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: builtins.bool = ...) -> Array:
    """Return the product of polynomials."""

def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the difference of polynomials."""

def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = ...) -> Array:
    """Return the polynomial's value at x, by Horner's rule. Source: numpy.polyval."""

def positive(x: ArrayLike, /) -> Array:
    """+x, a copy. Source: numpy.positive."""

def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2; a Python int exponent is computed by multiplication."""

def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2; a Python int exponent is computed by multiplication."""

def printoptions(*args: Any, **kwargs: Any) -> Any:
    """Context manager for setting print options."""

def prod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
    promote_integers: builtins.bool = ...,
) -> Array:
    """Return the product over an axis, a tuple of axes, or all. Arguments as for `sum`."""

def promote_types(a: ArrayLike, b: ArrayLike) -> np.dtype[Any]:
    """Return the common dtype of two dtypes; int, float and complex stand for Python …"""

def ptp(
    a: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
) -> Array:
    """Return the range of values, max - min."""

def put(
    a: ArrayLike, ind: Any, v: ArrayLike, mode: str | None = ..., *, inplace: builtins.bool = ...
) -> Array:
    """Set values at indices of the flat array, repeated if too few. Source: numpy.put."""

def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: builtins.bool = ...,
    *,
    mode: Any = ...,
) -> Array:
    """arr with values set at indices along an axis; needs inplace=False, and arr is …"""

def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = ...,
    out: Any = ...,
    overwrite_input: builtins.bool = ...,
    method: str = ...,
    keepdims: builtins.bool = ...,
    *,
    weights: ArrayLike | None = ...,
) -> Array:
    """Return the q-th quantiles over an axis, a tuple of axes, or all; q is within [0, 1]."""

def rad2deg(x: ArrayLike, /) -> Array:
    """Convert radians to degrees. Source: numpy.degrees."""

def radians(x: ArrayLike, /) -> Array:
    """Convert degrees to radians. Source: numpy.radians."""

def ravel(a: ArrayLike, order: str = ..., *, out_sharding: Any = ...) -> Array:
    """Return the elements as a vector."""

def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: Any = ...,
    order: str = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Turn indices of each dimension to flat ones. Source: numpy.ravel_multi_index."""

def real(val: ArrayLike, /) -> Array:
    """Return the real part. Source: numpy.real."""

def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x, as a float. Source: numpy.reciprocal."""

def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of floor division, with the sign of x2. Source: …"""

def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: int | None = ...,
    *,
    total_repeat_length: int | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Repeat each element along an axis, or of the flat array."""

def reshape(
    a: ArrayLike,
    shape: int | Sequence[int],
    order: str = ...,
    *,
    copy: builtins.bool | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return the same elements in another shape; one size may be -1."""

def resize(a: ArrayLike, new_shape: Any) -> Array:
    """Return the elements, repeated or cut to fill a new shape. Source: numpy.resize."""

def result_type(*args: Any) -> np.dtype[Any]:
    """Return the dtype in which arrays, dtypes and Python scalars combine."""

def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 shifted right by x2 bits; the sign of signed integers stays. Source: …"""

def rint(x: ArrayLike, /) -> Array:
    """Return the nearest integer as a float, halves to even. Source: numpy.rint."""

def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = ...) -> Array:
    """Move elements along axes, those past the end coming back at the start."""

def rollaxis(a: ArrayLike, axis: int, start: int = ...) -> Array:
    """Return a dimension moved before position `start`. Source: numpy.rollaxis."""

def roots(p: ArrayLike, *, strip_zeros: builtins.bool = ...) -> Array:
    """Return the roots of a polynomial: the eigenvalues of its companion matrix."""

def rot90(m: ArrayLike, k: int = ..., axes: tuple[int, int] = ...) -> Array:
    """Rotated by k quarter turns in the plane of two axes. Source: numpy.rot90."""

def round(a: ArrayLike, decimals: int = ..., out: Any = ...) -> Array:
    """Round to a number of decimals, halves to even; a negative number rounds tens, …"""

def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = ..., sorter: Any = ..., *, method: str = ...
) -> Array:
    """Return the positions in the sorted vector a before which each v keeps the order."""

def select(condlist: Any, choicelist: Any, default: Any = ...) -> Array:
    """Select elements of the first choice whose condition holds, or the default. As …"""

def set_printoptions(
    precision: Any = ...,
    threshold: Any = ...,
    edgeitems: Any = ...,
    linewidth: Any = ...,
    suppress: Any = ...,
    nanstr: Any = ...,
    infstr: Any = ...,
    formatter: Any = ...,
    sign: Any = ...,
    floatmode: Any = ...,
    *,
    legacy: Any = ...,
    override_repr: Any = ...,
) -> None:
    """Set printing options."""

def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array:
    """Return the distinct elements of the first that are not in the second."""

def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array:
    """Return the sorted distinct elements that are in exactly one of both."""

def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the shape, a tuple of int."""

def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign, +0 of zeros; x/|x| for complex x. Source: numpy.sign."""

def signbit(x: ArrayLike, /) -> Array:
    """Return whether the sign bit is set: true for -0.0. Source: numpy.signbit."""

def sin(x: ArrayLike, /) -> Array:
    """Return the sine of x in radians. Source: numpy.sin."""

def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), 1 at 0, with all derivatives there. Source: numpy.sinc."""

single: ScalarType

def sinh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic sine. Source: numpy.sinh."""

def size(a: ArrayLike, axis: int | Sequence[int] | None = ...) -> int:
    """Return the number of elements, in all or along axes."""

def sort(
    a: ArrayLike,
    axis: int | None = ...,
    *,
    kind: Any = ...,
    order: Any = ...,
    stable: builtins.bool = ...,
    descending: builtins.bool = ...,
) -> Array:
    """Return the array sorted along an axis; NaN last, complex numbers by real then …"""

def sort_complex(a: ArrayLike) -> Array:
    """Sorted along the last axis, as complex numbers."""

def spacing(x: ArrayLike, /) -> Array:
    """Return the distance to the next float away from 0, with x's sign. Source: …"""

def split(ary: ArrayLike, indices_or_sections: Any, axis: int = ...) -> list[Array]:
    """Split along an axis: into a number of equal parts, or cut at indices. Source: …"""

def sqrt(x: ArrayLike, /) -> Array:
    """Return the square root. Source: numpy.sqrt."""

def square(x: ArrayLike, /) -> Array:
    """Return x * x. Source: numpy.square."""

def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = ...) -> Array:
    """Drop dimensions of size 1: those named, or all. Source: numpy.squeeze."""

def stack(
    arrays: Sequence[ArrayLike] | Array,
    axis: int = ...,
    out: Any = ...,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Join arrays of one shape along a new axis."""

def std(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    ddof: float = ...,
    keepdims: builtins.bool = ...,
    *,
    where: ArrayLike | None = ...,
    mean: Any = ...,
    correction: Any = ...,
) -> Array:
    """Return the standard deviation: the square root of `var`."""

subtract: _Binary

def sum(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    keepdims: builtins.bool = ...,
    initial: ArrayLike | None = ...,
    where: ArrayLike | None = ...,
    promote_integers: builtins.bool = ...,
) -> Array:
    """Return the sum over an axis, a tuple of axes, or all."""

def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Exchange two dimensions."""

def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = ...,
    out: Any = ...,
    mode: str | None = ...,
    unique_indices: builtins.bool = ...,
    indices_are_sorted: builtins.bool = ...,
    fill_value: ArrayLike | None = ...,
) -> Array:
    """Return the slices of an axis at indices; None takes from the flat array."""

def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = ...,
    mode: Any = ...,
    fill_value: ArrayLike | None = ...,
    *,
    wrap_negative_indices: builtins.bool | None = ...,
) -> Array:
    """Take elements along an axis, by indices that run along with the other dimensions."""

def tan(x: ArrayLike, /) -> Array:
    """Return the tangent of x in radians. Source: numpy.tan."""

def tanh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic tangent. Source: numpy.tanh."""

def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | None = ...,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return the sum over pairs of axes: the last of a with the first of b, or those …"""

def tile(A: ArrayLike, reps: Any) -> Array:
    """Return the array repeated as a whole along each dimension. Source: numpy.tile."""

def top_k(
    a: ArrayLike, k: int, /, *, axis: int = ..., mode: str = ..., sorted: builtins.bool = ...
) -> Any:
    """Return the k largest elements along an axis, best first, and their indices."""

def trace(
    a: ArrayLike,
    offset: int = ...,
    axis1: int = ...,
    axis2: int = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
) -> Array:
    """Return the sum of a diagonal of two axes. Source: numpy.trace."""

def transpose(a: ArrayLike, axes: int | Sequence[int] | None = ...) -> Array:
    """Return the dimensions reversed, or in the order given. Source: numpy.transpose."""

def trapezoid(y: ArrayLike, x: ArrayLike | None = ..., dx: Any = ..., axis: int = ...) -> Array:
    """Return the integral along an axis by the trapezoidal rule. Source: numpy.trapezoid."""

def tri(N: int, M: int | None = ..., k: int = ..., dtype: DTypeLike | None = ...) -> Array:
    """Return ones at and below the k-th diagonal of an N by M matrix."""

def tril(m: ArrayLike, k: int = ...) -> Array:
    """Return the matrix with what is above the k-th diagonal set to zero; batches of …"""

def tril_indices(n: int, k: int = ..., m: int | None = ...) -> tuple[Array, Array]:
    """Row and column indices of the lower triangle of an n by m matrix."""

def tril_indices_from(arr: ArrayLike, k: int = ...) -> tuple[Array, Array]:
    """Row and column indices of the lower triangle of a matrix."""

def trim_zeros(filt: Any, trim: str = ..., axis: int | Sequence[int] | None = ...) -> Array:
    """Return the array without leading ('f') and trailing ('b') zeros; its values must …"""

def triu(m: ArrayLike, k: int = ...) -> Array:
    """Return the matrix with what is below the k-th diagonal set to zero; batches of …"""

def triu_indices(n: int, k: int = ..., m: int | None = ...) -> tuple[Array, Array]:
    """Row and column indices of the upper triangle of an n by m matrix."""

def triu_indices_from(arr: ArrayLike, k: int = ...) -> tuple[Array, Array]:
    """Row and column indices of the upper triangle of a matrix."""

def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2, a float. Source: numpy.true_divide."""

def trunc(x: ArrayLike) -> Array:
    """x without its fraction. Source: numpy.trunc."""

uint: ScalarType

uint1: ScalarType

uint16: ScalarType

uint2: ScalarType

uint32: ScalarType

uint4: ScalarType

uint64: ScalarType

uint8: ScalarType

def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> Array:
    """Return the sorted distinct elements of both."""

@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    *,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> Array:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    return_inverse: Literal[False] = ...,
    *,
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[False] = ...,
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[True],
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[True],
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> tuple[Array, Array, Array, Array]:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

@overload
def unique(
    ar: Any,
    return_index: builtins.bool = ...,
    return_inverse: builtins.bool = ...,
    return_counts: builtins.bool = ...,
    axis: int | None = ...,
    *,
    equal_nan: builtins.bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: builtins.bool = ...,
) -> Any:
    """Return the distinct elements, sorted, or the distinct slices along an axis."""

def unique_all(
    x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> Any:
    """Distinct values, first indices, inverse and counts (array API standard)."""

def unique_counts(
    x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> Any:
    """Distinct values and their counts (array API standard)."""

def unique_inverse(
    x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> Any:
    """Distinct values and the positions that rebuild x (array API standard)."""

def unique_values(
    x: ArrayLike, /, *, size: int | None = ..., fill_value: ArrayLike | None = ...
) -> Array:
    """Distinct values (array API standard)."""

def unpackbits(
    a: ArrayLike, axis: int | None = ..., count: int | None = ..., bitorder: str = ...
) -> Array:
    """Return the bits of bytes as zeros and ones, along an axis or of the flat array."""

def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple[Array, ...]:
    """Return indices into the flat array as indices of each dimension. Source: …"""

def unstack(x: ArrayLike, /, *, axis: int = ...) -> tuple[Array, ...]:
    """Return the slices along an axis, without it."""

def unwrap(p: ArrayLike, discont: Any = ..., axis: int = ..., period: Any = ...) -> Array:
    """Take jumps of more than half a period out of angles. Source: numpy.unwrap."""

def vander(x: ArrayLike, N: int | None = ..., increasing: builtins.bool = ...) -> Array:
    """Return powers of a vector as columns (a Vandermonde matrix), highest first unless …"""

def var(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    dtype: DTypeLike | None = ...,
    out: Any = ...,
    ddof: float = ...,
    keepdims: builtins.bool = ...,
    *,
    where: ArrayLike | None = ...,
    mean: Any = ...,
    correction: Any = ...,
) -> Array:
    """Return the variance: the mean squared distance from the mean, divided by n - ddof."""

def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the product of the flattened arrays, a conjugated. Source: numpy.vdot."""

def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the product of conjugated vectors along an axis, batched over the others."""

def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugated vectors times matrices, batched over leading dimensions. Source: …"""

def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = ..., signature: str | None = ...
) -> Callable[..., Any]:
    """Return a function that maps pyfunc over leading dimensions, broadcast by NumPy's …"""

def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Split along the first axis."""

def vstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = ...) -> Array:
    """Join arrays along rows; vectors are rows."""

@overload
def where(
    condition: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array: ...
@overload
def where(
    condition: ArrayLike,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> tuple[Array, ...]: ...
def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return zeros of a shape, float by default."""

def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = ...,
    shape: int | Sequence[int] | None = ...,
    *,
    device: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return zeros of an array's shape and dtype, placed as it is."""

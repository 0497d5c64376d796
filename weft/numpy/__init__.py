"""NumPy's functions on weft arrays, under the names and with the semantics of jax.numpy.

Modules load when one of their names is first used.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from types import FunctionType
from typing import Any

from weft.core.namespace import EagerPrograms, public, with_example
from weft.core.namespace import missing as _missing
from weft.numpy.examples import EXAMPLES
from weft.numpy.refusals import refuse

_MODULES = {
    "scalar_types": """
        bool bool_ int1 int2 int4 int8 int16 int32 int64 uint1 uint2 uint4 uint8 uint16 uint32
        uint64
        float16 float32 float64 bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn
        float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn
        float6_e2m3fn float6_e3m2fn complex64
        complex128 int_ uint float_ complex_ single double csingle cdouble dtype generic number
        inexact floating complexfloating integer signedinteger unsignedinteger character flexible
        object_ finfo iinfo result_type promote_types can_cast isdtype issubdtype ndarray
        isscalar iscomplexobj isrealobj ComplexWarning
    """,
    "creation": """
        array asarray arange fromfunction frombuffer fromfile fromiter fromstring from_dlpack copy
        astype load save savez array_repr array_str set_printoptions get_printoptions printoptions
    """,
    "filled": "zeros ones full empty zeros_like ones_like full_like empty_like",
    "spaced_ranges": "linspace logspace geomspace",
    "matrices": """
        eye identity tri tril triu diag diagflat meshgrid indices vander ix_ tril_indices
        triu_indices tril_indices_from triu_indices_from mask_indices diag_indices
        diag_indices_from
    """,
    "index_tricks": "mgrid ogrid r_ c_ s_ index_exp",
    "ufuncs": """
        abs absolute acos acosh add angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh
        asin asinh atan atan2 atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift
        bitwise_not bitwise_or bitwise_right_shift bitwise_xor cbrt conj conjugate cos cosh
        deg2rad degrees divide equal exp exp2 expm1 fabs fmax fmin greater greater_equal
        imag invert left_shift less less_equal log log10
        log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum
        minimum multiply negative nextafter not_equal positive rad2deg radians real reciprocal
        right_shift sign sin sinh sqrt square subtract tan tanh true_divide
    """,
    "value_tests": "isfinite isinf isnan isneginf isposinf signbit iscomplex isreal",
    "rounding": "around ceil floor rint round trunc",
    "formulas": """
        clip copysign float_power frexp gcd heaviside hypot i0 lcm ldexp nan_to_num pow power sinc
        spacing
    """,
    "division": "divmod floor_divide fmod mod modf remainder",
    "ufunc_object": "ufunc frompyfunc",
    "reductions": """
        sum prod max min minmax amax amin all any mean var std ptp count_nonzero average
    """,
    "nan_reductions": "nansum nanprod nanmax nanmin nanmean nanvar nanstd",
    "scans": """
        argmax argmin nanargmax nanargmin cumsum cumprod cumulative_sum cumulative_prod nancumsum
        nancumprod trace
    """,
    "order_statistics": "median quantile percentile nanmedian nanquantile nanpercentile",
    "histograms": """
        bincount digitize histogram histogram_bin_edges histogram2d histogramdd
    """,
    "shaping": """
        reshape ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis
        expand_dims squeeze broadcast_to broadcast_arrays broadcast_shapes atleast_1d atleast_2d
        atleast_3d ndim shape size iterable flip fliplr flipud rot90 roll
    """,
    "joining": """
        concatenate concat stack vstack hstack dstack column_stack block append tile repeat split
        array_split hsplit vsplit dsplit unstack resize
    """,
    "editing": "insert delete trim_zeros",
    "padding": "pad",
    "selection": """
        where select choose compress extract take take_along_axis put put_along_axis place
        fill_diagonal diagonal
    """,
    "nonzero_positions": "nonzero flatnonzero argwhere unravel_index ravel_multi_index",
    "linear": """
        dot matmul vdot vecdot matvec vecmat inner outer tensordot kron cross einsum einsum_path
    """,
    "sorting": """
        sort argsort lexsort partition argpartition searchsorted sort_complex top_k
    """,
    "setops": """
        unique unique_all unique_counts unique_inverse unique_values union1d intersect1d
        setdiff1d setxor1d isin
    """,
    "comparison": "allclose isclose array_equal array_equiv",
    "calculus": "diff ediff1d gradient trapezoid interp unwrap",
    "convolutions": "convolve correlate",
    "covariances": "cov corrcoef",
    "bits": "packbits unpackbits",
    "polynomial": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots",
    "window_functions": "bartlett blackman hamming hanning kaiser",
    "array_api": "__array_api_version__ __array_namespace_info__",
    "vectorization": "vectorize apply_along_axis apply_over_axes piecewise",
}
_PROGRAMS = """
    abs absolute acos acosh all allclose amax amin angle any append arccos arccosh arcsin arcsinh
    arctan arctan2 arctanh argmax argmin argpartition argsort asin asinh atan atan2 atanh
    atleast_1d atleast_2d atleast_3d average bitwise_count bitwise_invert bitwise_left_shift
    bitwise_not bitwise_right_shift cbrt ceil conj conjugate convolve copy copysign corrcoef
    correlate
    cos cosh count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum deg2rad degrees
    diag diagflat diagonal diff digitize divide divmod dot ediff1d equal exp exp2 expm1 fabs flip
    fliplr flipud float_power floor floor_divide fmax fmin fmod frexp gcd geomspace gradient
    greater greater_equal heaviside hypot i0 imag inner interp invert iscomplex isclose isfinite
    isin isinf isnan isneginf isposinf isreal kron lcm ldexp left_shift less less_equal linspace
    log log10 log1p log2 logical_not logspace matmul matrix_transpose matvec max mean median
    meshgrid min minmax mod modf moveaxis nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax
    nanmean nanmedian nanmin nanprod nanquantile nanstd nansum nanvar nextafter not_equal
    outer packbits pad partition poly polyadd polyfit polyint polymul polysub polyval prod ptp
    quantile rad2deg radians ravel real reciprocal remainder resize right_shift rint roll rollaxis
    rot90 searchsorted sign signbit sin sinc sinh sort sort_complex spacing sqrt square std sum
    swapaxes take take_along_axis tan tanh tensordot tile top_k trace transpose trapezoid tri tril
    triu true_divide trunc unpackbits unstack unwrap vander var vdot vecdot vecmat
"""
"""Functions that run as one program outside of transformations: their cost is that of the call,
and they need no values but those of their options. Not those that divide by a number of their
own, as round and percentile do: XLA would multiply by its reciprocal, which is off by a bit."""
_JOINING = "block column_stack concat concatenate dstack hstack lexsort stack vstack"
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

pi = 3.141592653589793
e = 2.718281828459045
euler_gamma = 0.5772156649015329
inf = float("inf")
nan = float("nan")
newaxis = None

__all__ = [*_HOME, "e", "euler_gamma", "fft", "inf", "linalg", "nan", "newaxis", "pi"]


@lru_cache(maxsize=1)
def _programs() -> EagerPrograms:
    from weft.numpy.eager import eager_programs

    return eager_programs(_PROGRAMS, joining=_JOINING, options="cov full pad_width")


# Names that NumPy had or has, and what to write instead.
_INSTEAD = {
    "alltrue": "all",
    "asfarray": "asarray(x, dtype=float)",
    "asscalar": "x.item()",
    "cumproduct": "cumprod",
    "float": "float or weft.numpy.float32",
    "in1d": "isin",
    "infty": "inf",
    "int": "int or weft.numpy.int32",
    "NaN": "nan",
    "ndenumerate": "enumerate(x.ravel()), outside of traced functions",
    "nditer": "weft.vmap or weft.lax.scan",
    "product": "prod",
    "random": "weft.random, whose functions take a key: weft.random.normal(key, shape)",
    "round_": "round",
    "row_stack": "vstack",
    "sometrue": "any",
    "trapz": "trapezoid",
}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        if name in ("fft", "linalg"):
            return import_module(f"weft.numpy.{name}")
        raise _missing(__name__, name, _INSTEAD.get(name))
    value = getattr(import_module(f"weft.numpy.{module}"), name)
    example = EXAMPLES.get(getattr(value, "__name__", name))
    if example is not None and not isinstance(value, FunctionType):  # a ufunc
        value.__doc__ = with_example(value.__doc__, example)
    globals()[name] = value = public(
        value, "weft.numpy", refuse=refuse, example=example, programs=_programs()
    )
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

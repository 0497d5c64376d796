# Tests: tests/core/test_dtypes.py
"""Dtype names: scalar types that make arrays when called, and questions about dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import Tracer, typeof
from weft.driver.staging import ShapeDtypeStruct
from weft.numpy.creation import asarray
from weft.runtime.array import Array as ndarray

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

generic, number, inexact, floating = np.generic, np.number, np.inexact, np.floating
complexfloating, integer = np.complexfloating, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
character, flexible, object_ = np.character, np.flexible, np.object_
ComplexWarning = np.exceptions.ComplexWarning
dtype = np.dtype
can_cast = np.can_cast


class ScalarType(type):
    """The class of `weft.numpy.float32` and its like: equal to NumPy's type, makes arrays."""

    dtype: np.dtype

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return other is cls or cls.dtype.type == other or cls.dtype == other

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __call__(cls, x: object) -> Any:
        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"weft.numpy.{cls.__name__}"


def _scalar_type(name: str, dtype: np.dtype) -> ScalarType:
    return ScalarType(
        name, (), {"dtype": dtype, "__doc__": f"The dtype {name}; called, an array of it."}
    )


for _name in [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bfloat16",
] + [*dtypes.float8_names, *dtypes.int4_names, *dtypes.uncomputed_names]:
    globals()[_name] = _scalar_type(_name, getattr(dtypes, _name))
bool_ = _scalar_type("bool_", dtypes.bool_)
globals()["bool"] = bool_
int_ = globals()["int64"]
uint = globals()["uint64"]
float_ = double = globals()["float64"]
complex_ = cdouble = globals()["complex128"]
single, csingle = globals()["float32"], globals()["complex64"]


class _FloatInfo:
    """The limits of a float dtype as Python floats."""

    def __init__(self, info: Any) -> None:
        self._info = info
        self.dtype = np.dtype(info.dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._info, name)
        return value.item() if isinstance(value, np.generic) else value

    def __reduce__(self) -> tuple:
        return finfo, (self.dtype,)

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype}, min={self.min}, max={self.max}, eps={self.eps})"


def finfo(dtype: DTypeLike | None) -> Any:
    """Return limits of a float dtype: eps, max, tiny, bits, …

    The limits are Python floats, as the array API standard has them.

    >>> import weft
    >>> weft.numpy.finfo("bfloat16").bits
    16
    """
    return _FloatInfo(finfo_of_numpy_scalars(dtype))


def finfo_of_numpy_scalars(dtype: DTypeLike | None) -> Any:
    """Return the same, the limits as NumPy's scalars of the dtype, which JAX's programs expect."""
    dtype = _dtype_of(dtype)
    if dtypes.is_complex(dtype):
        dtype = np.finfo(dtype).dtype
    return dtypes.finfo(dtype)


def iinfo(int_type: object) -> Any:
    """Return limits of an integer dtype: min, max, bits.

    >>> import weft
    >>> weft.numpy.iinfo("int8").max
    127
    """
    return dtypes.iinfo(_dtype_of(int_type))


def _dtype_of(x: Any) -> np.dtype:
    if isinstance(x, type | str | np.dtype):
        return np.dtype(x)
    return np.dtype(getattr(x, "dtype", x))


def pair_of(x: ArrayLike) -> tuple[Any, Any]:
    """(dtype, weak_type) of a value, a dtype, or a Python scalar type."""
    if isinstance(x, ScalarType):
        return dtypes.canonicalize_dtype(x.dtype), False
    if isinstance(x, type):
        python_scalar = x in (int, float, complex)
        return dtypes.canonicalize_dtype(x), python_scalar
    if isinstance(x, str | np.dtype) or dtypes.is_extended(x):
        return dtypes.canonicalize_dtype(x), False
    try:
        aval = x.aval if isinstance(x, ShapeDtypeStruct) else typeof(x)
    except TypeError:
        dtype = getattr(x, "dtype", None)  # of an array-like of another library
        if dtype is None:
            raise
        return dtypes.canonicalize_dtype(dtype), False
    return aval.dtype, aval.weak_type


def result_type(*args: Any) -> Any:
    """Return the dtype in which arrays, dtypes and Python scalars combine.

    >>> import weft
    >>> weft.numpy.result_type(weft.numpy.int8(1), 2.0)
    dtype('float32')
    """
    if not args:
        raise ArgumentError("weft.numpy.result_type: needs at least one array or dtype")
    return dtypes.promote_types([pair_of(a) for a in args])[0]


def promote_types(a: Any, b: Any) -> Any:
    """Return the common dtype of two dtypes; int, float and complex stand for Python scalars.

    >>> import weft
    >>> weft.numpy.promote_types("int8", "float16")
    dtype('float16')
    """
    pairs = []
    for x in (a, b):
        if x is int or x is float or x is complex:
            pairs.append((dtypes._WEAK_DTYPE[x], True))
        else:
            pairs.append((np.dtype(x) if not dtypes.is_extended(x) else x, False))
    nodes = tuple(dtypes.node_of(d, w) for d, w in pairs)
    pair = tuple(d for d, _ in pairs)
    dtype = dtypes._promote(nodes, True, pair)[0]
    if dtype == dtypes.int64 and dtypes.int64 not in pair:  # that of a signed integer and uint32
        return dtypes.canonicalize_dtype(dtype)
    return dtype


def issubdtype(arg1: object, arg2: object) -> Any:
    """Return whether a dtype belongs to another in the hierarchy of dtypes.

    >>> import weft
    >>> weft.numpy.issubdtype(weft.numpy.bfloat16, weft.numpy.floating)
    True
    """
    arg1 = arg1.dtype if isinstance(arg1, ScalarType) else arg1
    arg2 = arg2.dtype.type if isinstance(arg2, ScalarType) else arg2
    return dtypes.issubdtype(arg1, arg2)


_KINDS = {
    "bool": dtypes.is_bool,
    "signed integer": dtypes.is_signed,
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_float,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: dtypes.is_integer(d) or dtypes.is_inexact(d),
}


def isdtype(dtype: DTypeLike | None, kind: object) -> Any:
    """Tell whether a dtype is of a kind: a name of the array API, a dtype, or a tuple of them.

    >>> import weft
    >>> weft.numpy.isdtype(weft.numpy.float32, "real floating")
    True
    """
    d = _dtype_of(dtype)
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in _KINDS:
            if _KINDS[k](d):
                return True
            continue
        try:
            if np.dtype(k) == d:
                return True
        except TypeError:
            raise ArgumentError(
                f"weft.numpy.isdtype: kind must be a dtype or one of {sorted(_KINDS)}, got {k!r}"
            ) from None
    return False


def isscalar(element: object) -> Any:
    """Return whether the value is a Python or NumPy scalar or an array without dimensions.

    >>> import weft
    >>> weft.numpy.isscalar(3.0)
    True
    """
    if isinstance(element, ndarray | Tracer | np.ndarray):
        return element.ndim == 0
    return np.isscalar(element)


def iscomplexobj(x: ArrayLike) -> Any:
    """Return whether the dtype is complex.

    >>> import weft
    >>> weft.numpy.iscomplexobj(weft.numpy.arange(3))
    False
    """
    if x is None or isinstance(x, str):
        return False
    if isinstance(x, list | tuple):
        return np.iscomplexobj(x)
    return dtypes.is_complex(pair_of(x)[0])


def isrealobj(x: ArrayLike) -> Any:
    """Return whether the dtype is not complex.

    >>> import weft
    >>> weft.numpy.isrealobj(weft.numpy.arange(3))
    True
    """
    return not iscomplexobj(x)

"""Dtypes: names, canonical widths, and promotion with weak types.

The promotion lattice is the one JAX documents ("Type promotion semantics"): Python scalars are
weak, and a weak type gives way to any strong type of the same or a higher kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from weft.core.config import config
from weft.core.errors import ArgumentError, has_page

if TYPE_CHECKING:
    from weft.typing import DTypeLike

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_names = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
)
int4_names = ("int2", "int4", "uint2", "uint4")
_small = {name: np.dtype(getattr(ml_dtypes, name)) for name in float8_names + int4_names}
_small_floats = tuple(_small[name] for name in float8_names)
_small_ints = tuple(_small[name] for name in int4_names)
int4_types = frozenset(_small_ints)
globals().update(_small)
uncomputed_names = ("float6_e2m3fn", "float6_e3m2fn", "int1", "uint1")
"""Types that have a name and limits, and that XLA does not compute with on any platform."""
globals().update({name: np.dtype(getattr(ml_dtypes, name)) for name in uncomputed_names})

float0 = np.dtype([("float0", np.void, 0)])
"""The tangent dtype of integers and booleans: a space with one point, zero."""


class ExtendedDType:
    """A dtype whose elements are small arrays of a physical dtype, such as random keys."""

    __slots__ = ()
    kind = "O"
    itemsize: int
    name: str
    physical_shape: tuple[int, ...]
    physical_dtype: np.dtype
    wrap: Callable[[Any], Any]  # of an array of the physical dtype

    def __eq__(self, other: object) -> bool:
        return self is other  # np.dtype's own comparison would raise

    __hash__ = object.__hash__


def is_extended(dtype: object) -> bool:
    return isinstance(dtype, ExtendedDType)


_SHORT = {bool_: "bool", bfloat16: "bf16", float0: "float0"}
for _d in (int8, int16, int32, int64):
    _SHORT[_d] = f"i{_d.itemsize * 8}"
for _d in (uint8, uint16, uint32, uint64):
    _SHORT[_d] = f"u{_d.itemsize * 8}"
for _d in (float16, float32, float64):
    _SHORT[_d] = f"f{_d.itemsize * 8}"
for _d in (complex64, complex128):
    _SHORT[_d] = f"c{_d.itemsize * 8}"
for _name, _d in _small.items():
    _SHORT[_d] = _name.replace("float", "f").replace("uint", "u").replace("int", "i")


def short_name(dtype: Any) -> str:
    """`f32`, `i8`, `bf16`, … as jaxprs print them."""
    return dtype.name if is_extended(dtype) else _SHORT.get(dtype) or str(dtype)


# Kinds. NumPy calls ml_dtypes' types kind 'V' or 'f'; these predicates know them.
FLOATS = frozenset((float16, float32, float64, bfloat16, *_small_floats))
SIGNED = frozenset((int8, int16, int32, int64, _small["int2"], _small["int4"]))
UNSIGNED = frozenset((uint8, uint16, uint32, uint64, _small["uint2"], _small["uint4"]))
COMPLEX = frozenset((complex64, complex128))
_ALL = frozenset((bool_, *FLOATS, *SIGNED, *UNSIGNED, *COMPLEX))


def is_float(dtype: object) -> bool:
    return dtype in FLOATS


def is_complex(dtype: object) -> bool:
    return dtype in COMPLEX


def is_inexact(dtype: np.dtype | None) -> bool:
    return dtype in FLOATS or dtype in COMPLEX


def is_integer(dtype: object) -> bool:
    return dtype in SIGNED or dtype in UNSIGNED


def is_signed(dtype: np.dtype) -> bool:
    return dtype in SIGNED


def is_unsigned(dtype: object) -> bool:
    return dtype in UNSIGNED


def is_bool(dtype: object) -> bool:
    return dtype == bool_


def issubdtype(a: Any, b: Any) -> bool:
    """`np.issubdtype` that knows ml_dtypes' floats and ints, and extended dtypes.

    >>> import weft, numpy as np
    >>> weft.dtypes.issubdtype(weft.numpy.bfloat16, np.floating)
    True
    """
    if is_extended(a):
        return b is ExtendedDType or b is type(a) or a == b or getattr(b, "_extended", False)
    if isinstance(b, type) and (issubclass(b, ExtendedDType) or getattr(b, "_extended", False)):
        return isinstance(a, type) and issubclass(a, b)
    if not (isinstance(a, type) and issubclass(a, np.generic)):
        a = np.dtype(a)
    if isinstance(a, np.dtype) and a in _ALL and isinstance(b, type) and issubclass(b, np.generic):
        groups = {
            np.generic: True,
            np.number: a != bool_,
            np.inexact: is_inexact(a),
            np.floating: is_float(a),
            np.complexfloating: is_complex(a),
            np.integer: is_integer(a),
            np.signedinteger: is_signed(a),
            np.unsignedinteger: is_unsigned(a),
        }
        if b in groups:
            return groups[b]
    return bool(np.issubdtype(a, b))


_NARROW = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}


def canonicalize_dtype(dtype: Any) -> Any:
    """Return the dtype weft computes in: 64-bit types become 32-bit unless `enable_x64` is set.

    >>> import weft
    >>> weft.dtypes.canonicalize_dtype("float64")
    dtype('float32')
    """
    try:
        dtype = _WEAK_DTYPE.get(dtype, dtype)
    except TypeError:  # unhashable, as arrays are; lists of fields are left to NumPy
        if hasattr(dtype, "dtype"):
            raise ArgumentError(
                f"a dtype is needed, got an array of {dtype.dtype}; pass array.dtype"
            ) from None
    if not is_extended(dtype):
        if isinstance(dtype, int | np.integer):
            raise ArgumentError(
                f"a dtype such as 'float32' is needed, got the number {dtype}; the sizes of a "
                "shape are one tuple, such as (2, 3)"
            )
        dtype = np.dtype(dtype)
        if dtype not in _ALL and dtype != float0:
            raise ArgumentError(
                f"dtype {dtype} is not a type weft computes with; "
                "use a bool, integer, float or complex dtype"
            )
        if not config.enable_x64:
            return _NARROW.get(dtype, dtype)
    return dtype


# Python scalar types are the weak types of the lattice.
_WEAK_DTYPE: dict[Any, np.dtype] = {
    bool: bool_,
    int: int64,
    float: float64,
    complex: complex128,
}

# Edges of the lattice: each type to its immediate upper bounds.
_EDGES: dict[Any, tuple] = {
    bool_: ("i*",),
    "i*": (uint8, int8, *_small_ints),
    uint8: (int16, uint16),
    uint16: (int32, uint32),
    uint32: (int64, uint64),
    int8: (int16,),
    int16: (int32,),
    int32: (int64,),
    int64: ("f*",),
    uint64: ("f*",),
    "f*": (bfloat16, float16, "c*", *_small_floats),
    bfloat16: (float32,),
    float16: (float32,),
    float32: (float64, complex64),
    float64: (complex128,),
    "c*": (complex64,),
    complex64: (complex128,),
    complex128: (),
    **{d: () for d in _small_ints},
    **{d: () for d in _small_floats},
}


def _close(node: DTypeLike) -> frozenset:
    above = {node}
    for up in _EDGES[node]:
        above |= _close(up)
    return frozenset(above)


_ABOVE = {node: _close(node) for node in _EDGES}


@has_page()
class TypePromotionError(ValueError):
    """Two dtypes have no common type to which both convert implicitly."""


class KeyPromotionError(TypePromotionError, TypeError):
    """Random keys meet numbers: a TypeError as in JAX."""


@cache
def _join(nodes: frozenset) -> Any:
    common = frozenset.intersection(*(_ABOVE[n] for n in nodes))
    least = [n for n in common if common <= _ABOVE[n]]
    if len(least) == 1:
        return least[0]
    names = ", ".join(sorted(n if isinstance(n, str) else short_name(n) for n in nodes))
    raise TypePromotionError(
        f"no implicit promotion exists for dtypes {names}; convert one of the operands explicitly, "
        "for example x.astype('float32')"
    )


def node_of(dtype: np.dtype, weak_type: bool) -> Any:
    """Return the lattice node of a dtype."""
    if not weak_type or dtype == bool_:
        return dtype
    if is_integer(dtype):
        return "i*"
    return "c*" if is_complex(dtype) else "f*"


_SCALAR_OF = {"i*": "int", "f*": "float", "c*": "complex", bool_: "bool"}
_NODE_DTYPE = {"i*": int64, "f*": float64, "c*": complex128}


@cache
def _promote(nodes: tuple, x64: bool, weak_dtypes: tuple) -> tuple[Any, bool]:
    for n in nodes:
        if is_extended(n):
            if all(m == n for m in nodes):
                return n, False
            if all(map(is_extended, nodes)):
                kinds = " and ".join(sorted({m.name for m in nodes}))
                raise KeyPromotionError(
                    f"random keys of different kinds do not mix: {kinds}; make both with the same "
                    "impl= of weft.random.key"
                )
            raise KeyPromotionError(
                f"random keys ({n.name}) do not mix with other dtypes; "
                "use weft.random.key_data to get at their bits"
            )
    node = nodes[0] if len(set(nodes)) == 1 else _join(frozenset(nodes))
    if isinstance(node, str):
        # All operands are weak: keep the widest of their own dtypes, at the width of the mode.
        named_dtypes = [d for n, d in zip(nodes, weak_dtypes, strict=True) if n == node]
        dtype = max(named_dtypes, key=lambda d: d.itemsize) if named_dtypes else _NODE_DTYPE[node]
        return (dtype if x64 else _NARROW.get(dtype, dtype)), True
    return (node if x64 else _NARROW.get(node, node)), False


def promote_types(dtypes: list[tuple[Any, bool]]) -> tuple[Any, bool]:
    """Join `(dtype, weak_type)` pairs in the promotion lattice; return `(dtype, weak_type)`."""
    if config.numpy_dtype_promotion == "strict":
        strong = {d for d, weak in dtypes if not weak}
        if len(strong) > 1:
            names = ", ".join(sorted(map(short_name, strong)))
            raise TypePromotionError(
                f"dtypes {names} differ and numpy_dtype_promotion is 'strict'; convert explicitly"
            )
        for strong_type in strong:  # Python scalars take this dtype, and change it into no other
            for kind in (d for d, weak in dtypes if weak):
                if strong_type not in _ABOVE[node_of(kind, True)]:
                    raise TypePromotionError(
                        f"a Python {_SCALAR_OF[node_of(kind, True)]} does not become "
                        f"{short_name(strong_type)} and numpy_dtype_promotion is 'strict'; convert "
                        "explicitly"
                    )
    return join_types(dtypes)


def join_types(dtypes: list[tuple[Any, bool]]) -> tuple[Any, bool]:
    """`promote_types` whatever `numpy_dtype_promotion` says: for ops that take mixed operands."""
    nodes = tuple(node_of(d, w) for d, w in dtypes)
    return _promote(nodes, config.enable_x64, tuple(d for d, _ in dtypes))


def scalar_dtype(x: complex) -> np.dtype:
    """Return the dtype of a Python scalar in the current mode: int → int32 or int64, and so on."""
    dtype = _WEAK_DTYPE.get(type(x))
    if dtype is None:  # a subclass, such as an enumeration of integers
        dtype = next(_WEAK_DTYPE[base] for base in type(x).__mro__ if base in _WEAK_DTYPE)
    return canonicalize_dtype(dtype)


def to_inexact(dtype: np.dtype) -> Any:
    """Return the float type in which an integer or boolean operand of a float function is computed.

    Only 64-bit integers ask for 64-bit floats.
    """
    if is_inexact(dtype):
        return dtype
    return canonicalize_dtype(float64 if dtype in (int64, uint64) else float32)


def finfo(dtype: Any) -> Any:
    """Return limits of a float dtype, ml_dtypes' included.

    >>> import weft
    >>> weft.dtypes.finfo("bfloat16").bits
    16
    """
    return ml_dtypes.finfo(np.dtype(dtype))


def iinfo(int_type: Any) -> Any:
    """Return limits of an integer dtype, ml_dtypes' included.

    >>> import weft
    >>> int(weft.dtypes.iinfo("int8").max)
    127
    """
    return ml_dtypes.iinfo(np.dtype(int_type))

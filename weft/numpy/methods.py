"""Operators and methods of arrays, the same for eager arrays and tracers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from weft.autodiff.shape import reshape
from weft.core import dtypes
from weft.core.boundary import api_boundary, explain_and_show, show_user_frames
from weft.core.config import config
from weft.core.namespace import bounded
from weft.core.primitive import Primitive
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, array_method, is_array_like, stands_for_array
from weft.driver.execute import eager_call
from weft.driver.jit import jit
from weft.numpy.at import AtProperty
from weft.numpy.eager import as_one_program, number_beside, one_program, one_program_of_unlike
from weft.numpy.indexing import getitem
from weft.ops import elementwise_api as ops
from weft.ops.compound import unstack
from weft.ops.dynamic_slicing import dynamic_slice_in_dim
from weft.ops.promote import promote_numpy
from weft.runtime.array import ArrayImpl
from weft.runtime.device_put import device_put

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.runtime.backend import Device
    from weft.sharding.named import NamedSharding
    from weft.typing import ArrayLike, DTypeLike

_numpy: Any = None


def _function(name: str) -> Callable:
    """Return a function of weft.numpy, imported when first called."""
    global _numpy
    if _numpy is None:
        _numpy = import_module("weft.numpy")
    return getattr(_numpy, name)


# Operators --------------------------------------------------------------------------------------

_CONTAINERS = {list, tuple, dict, set, str, bytes, type(None)}
_WORDS = {"add": "+", "subtract": "-", "true_divide": "/", "power": "**", "matmul": "@"}


def _unfit(name: str, other: object) -> Any:
    """Leave an operator to the other operand, or raise if that is no number and has none."""
    if name in _WORDS and other.__class__ in _CONTAINERS:
        kind = type(other).__name__
        remedy = "convert it with weft.numpy.asarray" if kind in ("list", "tuple") else "no number"
        raise TypeError(
            f"unsupported operand type(s) for {_WORDS[name]}: an array and {kind}, {other!r:.60}: "
            f"{remedy}"
        )
    return NotImplemented


_OPERANDS = {bool, int, float, complex, np.ndarray, ArrayImpl}
"""Types that are known to be operands; others are looked at once and then remembered here."""


def _refuses(other: ArrayLike) -> bool:
    kind = other.__class__
    if kind in _OPERANDS:
        return False
    if isinstance(other, list | tuple | str | bytes | dict) or not is_array_like(other):
        return True
    if stands_for_array(other) and not is_array_like(array_method(other)()):
        return True  # a class whose method says NotImplemented, to be asked for its own operator
    _OPERANDS.add(kind)
    return False


def _eager(prim: Primitive) -> Callable:
    """Return the compiled dispatch of an op without params."""
    return eager_call(prim, {})


def _operator(prim: Primitive, symbol: str) -> tuple[Callable, Callable]:
    """Return x op y and y op x, for ops that promote operands and do nothing else."""
    compiled: Any = None

    def run(x: ArrayLike, y: ArrayLike) -> Any:
        nonlocal compiled
        trace = state.trace
        if trace is not EVAL:
            return trace.process(prim, (x, y), {})
        if compiled is None:
            compiled = _eager(prim)
        return compiled(x, y)

    @one_program_of_unlike
    def promoted(x: ArrayLike, y: ArrayLike) -> Any:
        return run(*promote_numpy(symbol, x, y))

    promoted.__name__ = symbol

    def forward(self: Any, other: Any) -> Any:
        try:
            kind = other.__class__
            # Numbers, and arrays of one type, need no promotion; this is the path of most
            # operators.
            if kind is float or kind is int:
                y = _plain(other, self.aval)
                if y is not None:
                    return run(self, number_beside(y, self) if state.trace is EVAL else y)
            elif kind is self.__class__:
                if other.aval is self.aval:
                    return run(self, other)
            elif kind not in _OPERANDS and _refuses(other):
                return _unfit(symbol, other)
            return promoted(self, other)
        except Exception as error:
            show_user_frames(error)
            raise

    def reflected(self: Array, other: ArrayLike) -> Any:
        try:
            kind = other.__class__
            if kind is float or kind is int:
                y = _plain(other, self.aval)
                if y is not None:
                    return run(number_beside(y, self) if state.trace is EVAL else y, self)
            elif kind not in _OPERANDS and _refuses(other):
                return _unfit(symbol, other)
            return promoted(other, self)
        except Exception as error:
            show_user_frames(error)
            raise

    return forward, reflected


_F32, _I32 = dtypes.float32, dtypes.int32


def _plain(value: Array, aval: Any) -> Any:
    """Make a Python number an operand beside an array of the default types, else None."""
    if aval.weak_type or config.enable_x64:
        return None
    if aval.dtype is _F32:
        return float(value)
    if aval.dtype is _I32 and value.__class__ is int and -(2**31) <= value < 2**31:
        return value
    return None


def _forwarded(name: str) -> tuple[Callable, Callable]:
    """Return x op y and y op x, for operators that a function of weft.numpy defines."""
    target: Any = None

    def forward(self: Array, other: ArrayLike) -> Any:
        nonlocal target
        if target is None:
            target = _function(name)
        try:
            if _refuses(other):
                return _unfit(name, other)
            return target(self, other)
        except Exception as error:
            show_user_frames(error)
            raise

    def reflected(self: Array, other: ArrayLike) -> Any:
        nonlocal target
        if target is None:
            target = _function(name)
        try:
            if _refuses(other):
                return _unfit(name, other)
            return target(other, self)
        except Exception as error:
            show_user_frames(error)
            raise

    return forward, reflected


def _matmul() -> tuple[Callable, Callable]:
    """Return x @ y, of two arrays as one compiled program."""
    forward, reflected = _forwarded("matmul")
    compiled: Any = None

    def matmul(self: Array, other: ArrayLike) -> Any:
        nonlocal compiled
        try:
            if other.__class__ is not ArrayImpl or state.trace is not EVAL:
                return forward(self, other)
            if compiled is None:
                compiled = jit(_function("matmul"))
            return compiled(self, other)
        except Exception as error:
            show_user_frames(error)
            raise

    return matmul, reflected


_FLOATS = frozenset(np.dtype(t) for t in ("float32", "float64", "complex64", "complex128"))


def _divide() -> tuple[Callable, Callable]:
    div = _operator(ops.div_p, "true_divide")
    whole = _forwarded("true_divide")

    def forward(self: Array, other: ArrayLike) -> Any:
        try:
            fast = self.aval.dtype in _FLOATS
            return div[0](self, other) if fast else whole[0](self, other)
        except Exception as error:
            show_user_frames(error)
            raise

    def reflected(self: Array, other: object) -> Any:
        try:
            fast = self.aval.dtype in _FLOATS
            return div[1](self, other) if fast else whole[1](self, other)
        except Exception as error:
            show_user_frames(error)
            raise

    return forward, reflected


def _power() -> tuple[Callable, Callable]:
    forward, reflected = _forwarded("power")

    def power(self: Array, other: int, modulo: object = None) -> Any:
        if modulo is not None:
            raise TypeError("pow() of arrays takes no modulus; use weft.numpy.mod(x ** y, m)")
        try:
            if other.__class__ is int and dtypes.is_inexact(self.aval.dtype):
                return ops.integer_pow(self, other)
            return forward(self, other)
        except Exception as error:
            show_user_frames(error)
            raise

    return power, reflected


def _binary_operators() -> Iterator[tuple[str, Callable]]:
    pairs = {
        "add": _operator(ops.add_p, "add"),
        "sub": _operator(ops.sub_p, "subtract"),
        "mul": _operator(ops.mul_p, "multiply"),
        "and": _operator(ops.and_p, "bitwise_and"),
        "or": _operator(ops.or_p, "bitwise_or"),
        "xor": _operator(ops.xor_p, "bitwise_xor"),
        "truediv": _divide(),
        "pow": _power(),
        "floordiv": _forwarded("floor_divide"),
        "mod": _forwarded("remainder"),
        "divmod": _forwarded("divmod"),
        "matmul": _matmul(),
        "lshift": _forwarded("left_shift"),
        "rshift": _forwarded("right_shift"),
    }
    for name, (forward, reflected) in pairs.items():
        yield f"__{name}__", forward
        yield f"__r{name}__", reflected
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield f"__{name}__", _operator(getattr(ops, f"{name}_p"), name)[0]


def _unary(prim: Primitive) -> Callable:
    compiled: Any = None

    def apply(self: Array) -> Any:
        nonlocal compiled
        if state.trace is not EVAL:
            return state.trace.process(prim, (self,), {})
        if compiled is None:
            compiled = _eager(prim)
        try:
            return compiled(self)
        except Exception as error:
            show_user_frames(error)
            raise

    return apply


@api_boundary
def _setitem(self: Array, index: int, value: float | int) -> None:
    raise TypeError(
        "arrays are immutable, so x[index] = value cannot work; use x = x.at[index].set(value) "
        "(or .add, .multiply, … for x[index] += value)"
    )


@api_boundary
def _delitem(self: Array, index: int) -> None:
    raise TypeError("arrays are immutable, so del x[index] cannot work; use weft.numpy.delete")


def _iter(self: Array) -> Iterator:
    if not self.aval.shape:
        traced = isinstance(self, Tracer)
        remedy = "give a tuple, or stack the values" if traced else "x.item() is its element"
        raise TypeError(
            f"iteration over an array without dimensions, {self.aval.str_short()}: there is "
            f"nothing to unpack; {remedy}"
        )
    rows, typed = self, self.aval.sharding
    if typed is not None and typed.spec_of(0) and not isinstance(self, Tracer):
        from weft.sharding.explicit import reshard

        rows = reshard(self, typed.with_spec(typed.spec.update(partitions=[None, *typed.spec[1:]])))
    if rows.__class__ is ArrayImpl:
        if rows.aval.shape[0] <= _UNPACKED:
            return iter(as_one_program(unstack, rows))
        return _unpacked(rows)
    return iter([getitem(rows, i) for i in range(self.aval.shape[0])])


_UNPACKED = 8
"""Rows that one program gives; it is compiled for each number of them up to this one."""


def _unpacked(x: Array) -> Iterator:
    """Iterate over rows, read by one program for as many as it gives."""
    last = x.aval.shape[0] - _UNPACKED
    for start in range(0, x.aval.shape[0], _UNPACKED):
        first = min(start, last)
        yield from as_one_program(_window, x, first)[start - first :]


def _window(x: Array, start: Array) -> tuple:
    return unstack(dynamic_slice_in_dim(x, start, _UNPACKED))


def _contains(self: Array, value: float) -> bool:
    return bool(_function("any")(self == value))


def _round(self: Array, ndigits: int | None = None) -> Any:
    rounded = _function("round")(self, ndigits or 0)
    if ndigits is None and dtypes.is_float(self.aval.dtype):
        return rounded.astype(int)  # round(x) of a Python float is an int, too
    return rounded


# Methods ----------------------------------------------------------------------------------------


def _forward(name: str, function: str | None = None) -> Callable:
    """Return a method that is a function of weft.numpy with the array as first argument."""
    target: Any = None

    def wrapped(self: Array, *args: object, **kwargs: object) -> Any:
        nonlocal target
        if target is None:
            target = _function(function or name)
        try:
            return target(self, *args, **kwargs)
        except Exception as error:
            explain_and_show("" if name.startswith("_") else f"Array.{name}", error, target)
            raise

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"See weft.numpy.{function or name}."
    return wrapped


def _sequence(args: tuple) -> Any:
    """Take varargs or one sequence: x.reshape(2, 3) and x.reshape((2, 3))."""
    return args[0] if len(args) == 1 and args[0] is not None else args


def _reshape(
    self: Array,
    *args: ArrayLike | tuple,
    order: str = "C",
    copy: object = None,
    out_sharding: object = None,
) -> Any:
    """Return the elements in another shape; one size may be -1. See weft.numpy.reshape."""
    options = {} if out_sharding is None else {"out_sharding": out_sharding}
    if copy is not None:
        options["copy"] = copy
    return _function("reshape")(self, _sequence(args), order=order, **options)


def _transpose(self: Array, *args: int | tuple) -> Any:
    """Permute dimensions, by default to the reverse order. See weft.numpy.transpose."""
    if not args or args[0] is None:
        return _function("transpose")(self)
    axes = _sequence(args)
    several = hasattr(axes, "__iter__") and getattr(axes, "ndim", None) != 0
    return _function("transpose")(self, tuple(axes) if several else (axes,))


def _view(self: Array, dtype: DTypeLike | None = None, type: object = None) -> Any:
    """Return the same bits as another dtype; item sizes change the last dimension."""
    if type is not None:
        raise TypeError("view: the argument type is NumPy's own; give a dtype")
    if dtype is None:
        return self
    new = dtypes.canonicalize_dtype(dtype)
    old = self.aval.dtype
    if new == old:
        return self
    if dtypes.is_bool(old) or dtypes.is_bool(new):
        convert = ops.convert_element_type
        if dtypes.is_bool(old):
            return _view(convert(self, np.uint8), new)
        return convert(_view(self, np.uint8), np.bool_)
    if dtypes.is_complex(old) or dtypes.is_complex(new):
        return _view_complex(self, old, new)
    if new.itemsize == old.itemsize:
        return ops.bitcast_convert_type(self, new)

    shape = self.aval.shape
    if not shape:
        raise ValueError("view: an array without dimensions cannot change its item size")
    if new.itemsize < old.itemsize:
        out = ops.bitcast_convert_type(self, new)
        return reshape(out, (*shape[:-1], shape[-1] * (old.itemsize // new.itemsize)))
    ratio = new.itemsize // old.itemsize
    if shape[-1] % ratio:
        raise ValueError(
            f"view: the last dimension {shape[-1]} must be a multiple of {ratio} to be viewed as "
            f"{new.name}"
        )
    return ops.bitcast_convert_type(reshape(self, (*shape[:-1], shape[-1] // ratio, ratio)), new)


def _byteswap(self: Array) -> Any:
    """Return the bytes of each number in the opposite order; of complex ones, of each part."""
    old = self.aval.dtype
    if old.itemsize == 1:
        return self
    if dtypes.is_complex(old):
        return ops.complex(_byteswap(_real(self)), _byteswap(_imag(self)))
    parts = ops.bitcast_convert_type(self, np.uint8)
    return ops.bitcast_convert_type(getitem(parts, (..., slice(None, None, -1))), old)


def _view_complex(self: Array, old: np.dtype, new: np.dtype) -> Any:
    """Complex numbers are pairs of floats, real part first."""
    if dtypes.is_complex(old):
        parts = _function("stack")([ops.real(self), ops.imag(self)], axis=-1)
        shape = self.aval.shape
        return _view(_reshape(parts, *shape[:-1], shape[-1] * 2), new)
    part = np.dtype("float32" if new == np.complex64 else "float64")
    parts = _view(self, part)
    even, odd = slice(0, None, 2), slice(1, None, 2)
    return ops.complex(getitem(parts, (..., even)), getitem(parts, (..., odd)))


def _astype(self: Array, dtype: DTypeLike, copy: bool = False, device: object = None) -> Any:
    """Return the elements converted to another dtype. See weft.numpy.astype."""
    return _function("astype")(self, dtype, copy=copy, device=device)


def _compress(
    self: Array,
    condition: np.ndarray,
    axis: int | None = None,
    out: None = None,
    *,
    size: int | None = None,
    fill_value: int = 0,
) -> Any:
    """Return the slices along an axis where a condition holds. See weft.numpy.compress."""
    return _function("compress")(condition, self, axis, out=out, size=size, fill_value=fill_value)


def _to_device(self: Array, device: Device | NamedSharding, *, stream: object = None) -> Any:
    """Return the array on another device. See weft.device_put."""
    return device_put(self, device)


def _real(self: Array) -> Any:
    return ops.real(self) if dtypes.is_complex(self.aval.dtype) else self


def _imag(self: Array) -> Any:
    return _function("imag")(self)


def _matrix_transpose(self: Array) -> Any:
    if self.aval.ndim < 2:
        raise ValueError(f"x.mT needs at least 2 dimensions, got {self.aval.str_short()}")
    return _function("matrix_transpose")(self)


def _flatten(self: Array, order: str = "C", *, out_sharding: object = None) -> Any:
    """Return all elements in one dimension. See weft.numpy.ravel."""
    options = {} if out_sharding is None else {"out_sharding": out_sharding}
    return _function("ravel")(self, order=order, **options)


namespace = "weft.numpy"
"""The module of an array's functions, by the name that the process imports it under."""


def _array_namespace(self: object, *, api_version: str | None = None) -> Any:
    if api_version is not None and api_version < "2021.12":
        raise ValueError(
            f"array API version {api_version} is not supported; versions from 2021.12 on are"
        )
    return import_module(namespace)


_FORWARDED = """
    all any argmax argmin argpartition argsort choose clip conj conjugate cumprod cumsum diagonal
    dot max mean min nonzero prod ptp repeat round searchsorted sort squeeze std sum swapaxes take
    trace var
""".split()  # noqa: SIM905


def _members() -> dict[str, Any]:
    members: dict[str, Any] = dict(_binary_operators())
    members |= {name: _forward(name) for name in _FORWARDED}
    members |= {
        "__neg__": _unary(ops.neg_p),
        "__pos__": lambda self: self,
        "__abs__": _forward("__abs__", "abs"),
        "__invert__": _unary(ops.not_p),
        "__getitem__": getitem,
        "__setitem__": _setitem,
        "__delitem__": _delitem,
        "__iter__": _iter,
        "__contains__": _contains,
        "__round__": _round,
        "__array_namespace__": _array_namespace,
        "at": AtProperty(),
        "T": property(_transpose, doc="The array with its dimensions reversed."),
        "mT": property(_matrix_transpose, doc="The last two dimensions exchanged."),
        "real": property(_real, doc="The real part."),
        "imag": property(_imag, doc="The imaginary part."),
    }
    written_out: dict[str, Any] = {
        "reshape": _reshape,
        "transpose": _transpose,
        "flatten": _flatten,
        "ravel": _flatten,
        "view": _view,
        "byteswap": _byteswap,
        "astype": _astype,
        "compress": _compress,
        "to_device": _to_device,
    }
    members |= {name: bounded(method, __name__, name) for name, method in written_out.items()}
    members |= {name: _absent(name, remedy) for name, remedy in _ABSENT.items()}
    return members


_ONE_PROGRAM = """
    all any argmax argmin argpartition argsort cumprod cumsum diagonal max mean min prod ptp sort
    std sum trace var
""".split()  # noqa: SIM905


_ON_HOST = """
    item __len__ __iter__ __bool__ __int__ __float__ __complex__ __index__ __hash__ __format__
""".split()  # noqa: SIM905


_ABSENT = {
    "flat": "x.ravel() has the elements",
    "fill": "arrays are immutable; use full_like(x, value)",
    "put": "arrays are immutable; use x.ravel().at[indices].set(values)",
    "itemset": "arrays are immutable; use x.at[index].set(value)",
    "resize": "arrays are immutable; use weft.numpy.resize(x, shape)",
    "partition": "arrays are immutable; use weft.numpy.partition(x, kth)",
    "tofile": "use numpy.asarray(x).tofile(file)",
    "strides": "its layout is the compiler's; numpy.asarray(x) has strides",
    "flags": "its layout is the compiler's; numpy.asarray(x) has flags",
    "base": "an array shares no memory that can be written",
    "ctypes": "use numpy.asarray(x).ctypes, or weft.dlpack",
}
"""What NumPy's arrays have and ours cannot, and what to use."""


def _absent(name: str, remedy: str) -> property:
    """Return an attribute that raises, also where it is set."""

    @api_boundary
    def fail(*_: object) -> NoReturn:
        raise AttributeError(f"arrays have no attribute {name!r}: {remedy}")

    return property(fail, fail)


def install() -> None:
    """Give arrays and tracers their operators and methods."""
    for name, member in _members().items():
        setattr(Tracer, name, member)
        setattr(ArrayImpl, name, member)
    for name in _ONE_PROGRAM:
        doc = f"See weft.numpy.{name}."
        setattr(ArrayImpl, name, one_program(functools.partial(_function, name), name, doc))
    for name in _ON_HOST:
        method = getattr(ArrayImpl, name)
        setattr(ArrayImpl, name, bounded(method, method.__module__, name))
    Tracer.copy = _forward("copy")  # type: ignore[attr-defined]


install()

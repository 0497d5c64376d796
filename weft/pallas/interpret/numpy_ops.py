"""Array ops in NumPy; what is not here runs as weft's own compiled op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.jaxpr import Eqn
from weft.core.state import state
from weft.core.trace import EVAL

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Maker = Callable[..., Callable | None]
MAKERS: dict[str, Maker] = {}
"""Op name -> maker(eqn, **params) -> function of NumPy arrays, or None where it does not apply."""


def function_of(eqn: Eqn) -> Callable:
    """A function of NumPy values that computes an equation's result (or list of results)."""
    return in_numpy(eqn) or _compiled(eqn)


def in_numpy(eqn: Eqn) -> Callable | None:
    """The function of NumPy that an op is, if it is one."""
    name = eqn.primitive.name
    if any(dtypes.is_extended(v.aval.dtype) for v in (*eqn.invars, *eqn.outvars)):
        return None  # random keys
    if name not in _CASTS and any(v.aval.dtype.name in dtypes.int4_names for v in eqn.invars):
        return None  # NumPy has few ops on integers of less than a byte
    direct, make = _DIRECT.get(name), MAKERS.get(name)
    return direct or (make(eqn, **eqn.params) if make is not None else None)


_CASTS = {"convert_element_type", "copy"}


def narrow_bits(eqn: Eqn) -> bool:
    """Whether an op takes an integer of less than a byte as the bits it consists of.

    XLA:CPU counts those of the byte that holds it (quirks.NARROW_BITS).
    """
    if eqn.primitive.name not in ("shift_right_logical", "population_count", "clz"):
        return False
    return eqn.invars[0].aval.dtype.name in dtypes.int4_names


def of_narrow_bits(eqn: Eqn, *operands: Any) -> Any:
    """Such an op on bytes, of which the upper bits are 0."""
    dtype = eqn.invars[0].aval.dtype
    bits = dtypes.iinfo(dtype).bits
    wide = [x.astype("uint8") & np.uint8((1 << bits) - 1) for x in operands]
    out = eqn.primitive.bind(*wide, **eqn.params)
    if eqn.primitive.name == "clz":
        out = out - np.uint8(8 - bits)
    return out.astype(dtype)


def _compiled(eqn: Eqn) -> Callable:
    prim, params = eqn.primitive, eqn.params
    avals = [v.aval for v in eqn.invars]

    def run(*args: ArrayLike) -> Any:
        before = state.trace, state.axes
        state.trace, state.axes = EVAL, {}
        try:
            given = [
                a if dtypes.is_extended(v.dtype) else np.asarray(a, v.dtype)
                for a, v in zip(args, avals, strict=True)
            ]
            out = prim.bind(*given, **params)
        finally:
            state.trace, state.axes = before
        return [*map(_plain, out)] if prim.multiple_results else _plain(out)

    return run


def _plain(x: Any) -> Any:
    """A result in NumPy; random keys stay what they are."""
    return x if dtypes.is_extended(x.dtype) else np.asarray(x)


# Elementwise -----------------------------------------------------------------------------------


def _div(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind in "iu":
        safe = np.where(y == 0, y.dtype.type(1), y)
        quotient = np.floor_divide(np.abs(x), np.abs(safe)) if kind == "i" else x // safe
        if kind == "i":
            quotient = np.where((x < 0) != (safe < 0), -quotient, quotient)
        return np.where(
            y == 0, x.dtype.type(-1 if kind == "i" else np.iinfo(x.dtype).max), quotient
        ).astype(x.dtype)
    return np.true_divide(x, y)


def _rem(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu":
        safe = np.where(y == 0, y.dtype.type(1), y)
        return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)
    return np.fmod(x, y)


_DIRECT: dict[str, Callable] = {
    "neg": np.negative,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "rem": _rem,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "elements": lambda x, *places: x[places],
    "select_n": lambda which, no, yes: np.where(which, yes, no),
}


def _maker(*names: str) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(names, make))
        return make

    return add


@_maker("convert_element_type")
def _convert(eqn: Eqn, *, new_dtype: np.dtype, **_: Any) -> Callable | None:
    old = eqn.invars[0].aval.dtype
    if dtypes.is_inexact(old) and dtypes.is_integer(new_dtype):
        info = dtypes.iinfo(new_dtype)

        def clipped(x: np.ndarray) -> Any:  # out of range saturates, NaN is 0
            wide = np.nan_to_num(np.asarray(x, np.float64), nan=0.0)
            exact = np.clip(wide, float(info.min), float(info.max))
            out = exact.astype(new_dtype)
            return np.where(wide >= float(info.max), new_dtype.type(info.max), out)

        return clipped if old.kind != "c" else None
    if dtypes.is_complex(old) and not dtypes.is_complex(new_dtype):
        return lambda x: np.asarray(x).real.astype(new_dtype)
    if old.kind == "V" and dtypes.is_integer(old):  # NumPy knows no casts between those
        return lambda x: np.asarray(x).astype(np.int8).astype(new_dtype)
    return lambda x: np.asarray(x).astype(new_dtype)


# Shapes ----------------------------------------------------------------------------------------


@_maker("broadcast_in_dim")
def _broadcast(eqn: Eqn, *, shape: tuple, broadcast_dimensions: tuple, **_: Any) -> Callable:
    given = eqn.invars[0].aval.shape
    middle = [1] * len(shape)
    for d, n in zip(broadcast_dimensions, given, strict=True):
        middle[d] = n
    return lambda x: np.broadcast_to(np.reshape(x, middle), shape)


@_maker("iota")
def _iota(eqn: Eqn, *, shape: tuple, dtype: np.dtype, dimension: int, **_: Any) -> Callable:
    lead = [1] * len(shape)
    lead[dimension] = shape[dimension]
    value = np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(lead), shape)
    return lambda: value


@_maker("pad")
def _pad(eqn: Eqn, *, padding_config: tuple) -> Any:
    if any(lo < 0 or hi < 0 for lo, hi, _ in padding_config):
        return None
    shape = eqn.outvars[0].aval.shape
    inside = tuple(
        slice(lo, lo + (n - 1) * (step + 1) + 1 if n else lo, step + 1)
        for n, (lo, _, step) in zip(eqn.invars[0].aval.shape, padding_config, strict=True)
    )

    def run(x: np.ndarray, value: Any) -> Any:
        out = np.full(shape, value, x.dtype)
        out[inside] = x
        return out

    return run


def _window(shape: tuple, sizes: tuple, starts: tuple) -> tuple:
    """The window at starts, moved inside as dynamic_slice does."""
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))


@_maker("dynamic_update_slice")
def _dynamic_update(eqn: Eqn) -> Callable:
    def run(x: np.ndarray, update: np.ndarray, *starts: Any) -> Any:
        out = np.array(x)
        out[_window(x.shape, update.shape, starts)] = update
        return out

    return run


def _sliced(
    eqn: Eqn, *, start_indices: tuple, limit_indices: tuple, strides: tuple | None
) -> Callable:
    steps = strides or (1,) * len(start_indices)
    index = tuple(map(slice, start_indices, limit_indices, steps))
    return lambda x: x[index]


MAKERS |= {
    "slice": _sliced,
    "reshape": lambda eqn, *, new_sizes, **_: lambda x: np.reshape(x, new_sizes),
    "transpose": lambda eqn, *, permutation: lambda x: np.transpose(x, permutation),
    "concatenate": lambda eqn, *, dimension: lambda *xs: np.concatenate(xs, dimension),
    "rev": lambda eqn, *, dimensions: lambda x: np.flip(x, dimensions),
    "dynamic_slice": lambda eqn, *, slice_sizes: (
        lambda x, *starts: x[_window(x.shape, slice_sizes, starts)]
    ),
}

_REDUCTIONS: dict[str, Callable] = {
    "reduce_sum": np.sum,
    "reduce_prod": np.prod,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_and": np.bitwise_and.reduce,
    "reduce_or": np.bitwise_or.reduce,
    "reduce_xor": np.bitwise_xor.reduce,
}
_ACCUMULATED = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
}

# Reductions and products -----------------------------------------------------------------------


@_maker(*_REDUCTIONS)
def _reduce(eqn: Eqn, *, axes: tuple, **_: Any) -> Callable | None:
    ufunc, dtype = _REDUCTIONS[eqn.primitive.name], eqn.outvars[0].aval.dtype
    if ufunc in (np.max, np.min) and not all(eqn.invars[0].aval.shape[a] for a in axes):
        return None
    return lambda x: np.asarray(ufunc(x, axis=axes)).astype(dtype)


@_maker(*_ACCUMULATED)
def _accumulate(eqn: Eqn, *, axis: int, reverse: bool) -> Callable:
    ufunc: Any = _ACCUMULATED[eqn.primitive.name]

    def run(x: np.ndarray) -> Any:
        x = np.flip(x, axis) if reverse else x
        out = ufunc.accumulate(x, axis=axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out

    return run


@_maker("dot_general")
def _dot_general(eqn: Eqn, *, dimension_numbers: tuple, **_: Any) -> Callable:
    (lc, rc), (lb, rb) = dimension_numbers
    a, b = (v.aval for v in eqn.invars)
    out = eqn.outvars[0].aval
    l_free = [d for d in range(a.ndim) if d not in lc and d not in lb]
    r_free = [d for d in range(b.ndim) if d not in rc and d not in rb]
    l_order, r_order = [*lb, *l_free, *lc], [*rb, *rc, *r_free]
    batch = tuple(a.shape[d] for d in lb)
    k = math.prod(a.shape[d] for d in lc)
    l_shape = (*batch, math.prod(a.shape[d] for d in l_free), k)
    r_shape = (*batch, k, math.prod(b.shape[d] for d in r_free))
    wide = np.float32 if out.dtype.itemsize < 4 and dtypes.is_inexact(out.dtype) else out.dtype

    def run(x: np.ndarray, y: np.ndarray) -> Any:
        x = np.reshape(np.transpose(x, l_order), l_shape).astype(wide, copy=False)
        y = np.reshape(np.transpose(y, r_order), r_shape).astype(wide, copy=False)
        return np.reshape(np.matmul(x, y), out.shape).astype(out.dtype, copy=False)

    return run

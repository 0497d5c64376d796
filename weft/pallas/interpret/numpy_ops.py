# Tests: tests/pallas/test_op_table.py
"""Array ops in NumPy; what is not here runs as weft's own compiled op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.config import options
from weft.core.jaxpr import Eqn
from weft.core.state import state
from weft.core.trace import EVAL
from weft.pallas.combiners import REDUCTIONS

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Maker = Callable[..., Callable | None]
MAKERS: dict[str, Maker] = {}
"""Op name -> maker(eqn, **params) -> function of NumPy arrays, or None where it does not apply."""


def function_of(eqn: Eqn) -> Callable:
    """Return a function of NumPy values that computes an equation's result (or list of results)."""
    return in_numpy(eqn) or _compiled(eqn)


def in_numpy(eqn: Eqn) -> Callable | None:
    """Return the function of NumPy that an op is, if it is one."""
    name = eqn.primitive.name
    if any(dtypes.is_extended(v.aval.dtype) for v in (*eqn.invars, *eqn.outvars)):
        return None  # random keys
    direct, make = DIRECT.get(name), MAKERS.get(name)
    return direct or (make(eqn, **eqn.rule_params) if make is not None else None)


def _compiled(eqn: Eqn) -> Callable:
    prim, params = eqn.primitive, eqn.rule_params
    avals = [v.aval for v in eqn.invars]

    def run(*args: ArrayLike) -> Any:
        before = state.trace, state.axes
        state.trace, state.axes = EVAL, {}
        try:
            values = [
                a if dtypes.is_extended(v.dtype) else np.asarray(a, v.dtype)
                for a, v in zip(args, avals, strict=True)
            ]
            with options["enable_x64"](True):  # a kernel's wide operands stay so in any case
                out = prim.bind(*values, **params)
        finally:
            state.trace, state.axes = before
        return [*map(_plain, out)] if prim.multiple_results else _plain(out)

    return run


def _plain(x: Any) -> Any:
    """Return a result in NumPy; random keys stay what they are."""
    return x if dtypes.is_extended(x.dtype) else np.asarray(x)


# Elementwise -----------------------------------------------------------------------------------


DIRECT: dict[str, Any] = {
    "neg": np.negative,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
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
    **{
        name: getattr(np, name)
        for name in ("exp", "log", "tanh", "sin", "cos", "sqrt", "abs", "floor", "ceil")
    },
    "elements": lambda x, *places: x[places],
    "select_n": lambda which, no, yes: np.where(which, yes, no),
}


def _maker(*names: str) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(names, make))
        return make

    return add


@_maker("div", "rem")
def _quotient(eqn: Eqn) -> Callable | None:
    """Divide integers by 0 and -1, too, as XLA does."""
    function: Any = np.true_divide if eqn.primitive.name == "div" else np.fmod
    return function if dtypes.is_inexact(eqn.invars[0].aval.dtype) else None


@_maker("convert_element_type")
def _convert(eqn: Eqn, *, new_dtype: np.dtype, **_: object) -> Callable | None:
    old = eqn.invars[0].aval.dtype
    if dtypes.is_inexact(old) and (dtypes.is_integer(new_dtype) or dtypes.is_complex(old)):
        return None  # numbers out of range saturate, imaginary parts are dropped
    return lambda x: np.asarray(x).astype(new_dtype)


# Shapes ----------------------------------------------------------------------------------------


@_maker("broadcast_in_dim")
def _broadcast(eqn: Eqn, *, shape: tuple, broadcast_dimensions: tuple, **_: object) -> Callable:
    old = eqn.invars[0].aval.shape
    middle = [1] * len(shape)
    for d, n in zip(broadcast_dimensions, old, strict=True):
        middle[d] = n
    return lambda x: np.broadcast_to(np.reshape(x, middle), shape)


@_maker("iota")
def _iota(eqn: Eqn, *, shape: tuple, dtype: np.dtype, dimension: int, **_: object) -> Callable:
    lead = [1] * len(shape)
    lead[dimension] = shape[dimension]
    value = np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(lead), shape)
    return lambda: value


def _window(shape: tuple, sizes: tuple, starts: tuple) -> tuple:
    """Return the window at starts, moved inside as dynamic_slice does."""
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))


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

# Reductions and products -----------------------------------------------------------------------


@_maker(*REDUCTIONS)
def _reduce(eqn: Eqn, *, axes: tuple, **_: object) -> Callable | None:
    ufunc, dtype = DIRECT[REDUCTIONS[eqn.primitive.name]], eqn.outvars[0].aval.dtype
    if ufunc.identity is None and not all(eqn.invars[0].aval.shape[a] for a in axes):
        return None
    return lambda x: np.asarray(ufunc.reduce(x, axis=axes)).astype(dtype)


@_maker("dot_general")
def _product(eqn: Eqn, **_: object) -> Callable:
    dtype = eqn.outvars[0].aval.dtype
    return lambda x, y: np.matmul(x.astype(dtype, copy=False), y.astype(dtype, copy=False))

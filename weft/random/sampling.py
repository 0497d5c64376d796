# Tests: tests/random/test_oracle.py
"""Shared parts of samplers: checks of arguments, eager calls compiled as one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_shapes, reshape
from weft.autodiff.shape import check_shape as canonical_shape
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.state import state
from weft.core.trace import EVAL, typeof
from weft.numpy.common import canonical as narrowed
from weft.numpy.eager import compiled
from weft.ops.elementwise_api import convert
from weft.ops.promote import broadcast_to
from weft.ops.slicing import slice_in_dim
from weft.random.api import check_key
from weft.random.primitives import (
    draw_bits,
    random_unwrap_p,
    random_wrap_p,
    split_keys,
)
from weft.sharding.named import is_over_nothing
from weft.sharding.physical import as_sharding

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike

Shape = tuple[int, ...]


def run(
    fun: Callable, key: Array, *params: object, out_sharding: Any = None, **static: object
) -> Any:
    """`fun(key, *params, **static)`: staged under a transformation, else one compiled program."""
    from weft.sharding.explicit import reshard

    if is_over_nothing(out_sharding):
        out_sharding = None
    if state.trace is not EVAL:
        out = fun(key, *params, **static)
        if out_sharding is not None:
            return reshard(out, out_sharding)
        return out
    if out_sharding is not None:
        out_sharding = as_sharding(out_sharding, "out_sharding")
    return compiled(fun, static, out_sharding)(key, *params)


def draw(
    name: str,
    sampler: Callable,
    key: Array,
    params: tuple,
    shape: int | Sequence[int] | None,
    dtype: DTypeLike | None,
    out_sharding: object = None,
    **static: object,
) -> Any:
    """Return the public sampler `name`: its arguments checked, then `run`."""
    key, _ = check_key(name, key)
    dtype = float_dtype(name, dtype)
    for value in params:
        kind = typeof(value).dtype
        if dtypes.is_complex(kind) or dtypes.is_extended(kind):
            raise ArgumentError(
                f"weft.random.{name}: parameters must be real numbers, got "
                f"{typeof(value).str_short()}"
            )
    shape = sample_shape(name, shape, *params) if params else as_shape(name, shape)
    options = {"shape": shape, "dtype": dtype, **static}
    return run(sampler, key, *params, out_sharding=out_sharding, **options)


def float_dtype(name: str, dtype: Any, *, complex_too: bool = False) -> np.dtype:
    """Return the canonical dtype of samples; the default float for None."""
    dtype = canonical(dtype, float, name)
    if not (dtypes.is_float(dtype) or (complex_too and dtypes.is_complex(dtype))):
        kinds = "a float or complex" if complex_too else "a float"
        raise ValueError(f"{name}: dtype must be {kinds} dtype, got {dtypes.short_name(dtype)}")
    return dtype


def int_dtype(name: str, dtype: Any) -> np.dtype:
    dtype = canonical(dtype, int, name)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"{name}: dtype must be an integer dtype, got {dtypes.short_name(dtype)}")
    return dtype


def canonical(dtype: DTypeLike | None, default: object, name: str) -> Any:
    if dtype is None:
        return dtypes.canonicalize_dtype(default)
    return narrowed(dtype, name)


def sample_shape(name: str, shape: int | Sequence[int] | None, *params: ArrayLike) -> Shape:
    """Return the shape of the samples: given, or what the parameters broadcast to (for None).

    Raises ValueError where the parameters do not broadcast to the given shape.
    """
    shapes = [typeof(p).shape for p in params]
    if shape is None:
        return broadcast_shapes(*shapes)
    shape = as_shape(name, shape)
    if shapes and broadcast_shapes(shape, *shapes) != shape:
        listing = ", ".join(map(str, shapes))
        raise ValueError(
            f"{name}: parameters of shapes {listing} do not broadcast to the requested shape "
            f"{shape}; the shape must contain the batch dimensions of the parameters"
        )
    return shape


def as_shape(name: str, shape: object) -> Shape:
    if not (hasattr(shape, "__index__") or hasattr(shape, "__iter__")):
        raise TypeError(f"{name}: shape must be an integer or a tuple of them, got {shape!r}")
    return canonical_shape(shape, f"{name}: shape")


def param(x: Any, shape: Shape, dtype: Any) -> Any:
    """Return a parameter in the dtype and shape of the samples; scalars stay scalars."""
    aval = typeof(x)
    x = convert(x, dtype) if not isinstance(x, int | float | np.generic) else dtype.type(x)
    return x if not aval.shape else broadcast_to(x, shape)


def random_bits(key: Array, bit_width: int, shape: Shape) -> Any:
    return draw_bits(key, bit_width, shape)


def split_key(key: Array, num: int = 2) -> list:
    """`num` keys of a key, as a list."""
    keys = split_keys(key, (num,))
    words, generator = random_unwrap_p.bind(keys), typeof(keys).dtype.generator
    rows = [slice_in_dim(words, i, i + 1) for i in range(num)]
    return [random_wrap_p.bind(reshape(r, (generator.words,)), impl=generator) for r in rows]

# Tests: tests/ops/test_table.py
"""Random bits of the platform's own generator, and its uniform numbers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_to_dim, check_shape, expand_dims
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.joining import concatenate
from weft.ops.promote import promote
from weft.ops.slicing import index_in_dim
from weft.sharding.explicit import placed

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


class RandomAlgorithm(enum.IntEnum):
    """The algorithms of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


# One definition of the op's algorithms: name -> StableHLO's enum.
_ALGORITHMS = {
    "default": "DEFAULT",
    "rng_default": "DEFAULT",
    "three_fry": "THREE_FRY",
    "rng_three_fry": "THREE_FRY",
    "philox": "PHILOX",
    "rng_philox": "PHILOX",
}


def _abstract(
    key: ShapedArray, *, shape: tuple, dtype: np.dtype, algorithm: str
) -> list[ShapedArray]:
    words = {dtypes.uint32: (4,), dtypes.uint64: (2,)}.get(key.dtype)
    if key.shape != words:
        raise TypeError(
            f"rng_bit_generator: the key must be uint32[4] or uint64[2], got {key.str_short()}"
        )
    return [ShapedArray(key.shape, key.dtype), ShapedArray(shape, dtype)]


def _lower(
    ctx: RuleContext, key: ir.Value, *, shape: tuple, dtype: np.dtype, algorithm: str
) -> list:
    # XLA takes two 64-bit words. Bits of 8 and 16 wide types are taken as they come.
    wide = ctx.tensor((2,), dtypes.uint64)
    narrow = ctx.avals_in[0].dtype == dtypes.uint32
    if narrow:
        pairs = ctx.tensor((2, 2), dtypes.uint32)
        key = ctx.op("stablehlo.reshape", [key], [pairs])[0]
        key = ctx.op("stablehlo.bitcast_convert", [key], [wide])[0]
    unsigned = dtype if dtypes.is_unsigned(dtype) else np.dtype(f"uint{8 * dtype.itemsize}")
    attrs = {"rng_algorithm": ctx.attr(f"#stablehlo<rng_algorithm {algorithm}>")}
    results = [wide, ctx.tensor(shape, unsigned)]
    new_key, bits = ctx.op("stablehlo.rng_bit_generator", [key], results, attrs)
    if narrow:
        new_key = ctx.op("stablehlo.bitcast_convert", [new_key], [pairs])[0]
        new_key = ctx.op("stablehlo.reshape", [new_key], [ctx.out_types()[0]])[0]
    if unsigned != dtype:
        bits = ctx.op("stablehlo.bitcast_convert", [bits], [ctx.out_types()[1]])[0]
    return [new_key, bits]


def _batch(
    axis: Any,
    args: Sequence[Any],
    dims: Sequence[int],
    *,
    shape: tuple,
    dtype: object,
    algorithm: str,
) -> tuple:
    """Make one call for the whole batch, seeded by its first key, as JAX documents for `rbg`."""
    first = index_in_dim(args[0], 0, dims[0], keepdims=False)
    key, bits = rng_bit_generator_p.bind(
        first, shape=(axis.size, *shape), dtype=dtype, algorithm=algorithm
    )
    return [broadcast_to_dim(key, 0, axis.size), bits], [0, 0]


rng_bit_generator_p = Primitive(
    "rng_bit_generator",
    abstract=_abstract,
    batch=_batch,
    lower=_lower,
    sharding="whole",
    multiple_results=True,
)


def rng_bit_generator(
    key: object,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: object = "default",
    *,
    out_sharding: object = None,
) -> list:
    """Random bits of the platform's generator: the key to go on with, and the bits.

    key: uint32[4] or uint64[2]. dtype: an unsigned integer type. algorithm: "default",
    "three_fry" or "philox". out_sharding: of the bits. The bits of "default" differ between
    platforms; under vmap the first key of the batch serves for all.

    Source: StableHLO specification, `rng_bit_generator`.

    >>> import weft, numpy as np
    >>> weft.lax.rng_bit_generator(np.arange(4, dtype="uint32"), (2, 3))[1].shape
    (2, 3)
    """
    name = str(getattr(algorithm, "name", algorithm)).lower()
    if name not in _ALGORITHMS:
        raise ValueError(
            f"rng_bit_generator: algorithm must be 'default', 'three_fry' or 'philox', got "
            f"{algorithm!r}"
        )
    dtype = np.dtype(dtype)
    if not dtypes.is_integer(dtype) or dtype.name in dtypes.int4_names:
        raise TypeError(f"rng_bit_generator: dtype must be an unsigned integer type, got {dtype}")
    new_key, bits = rng_bit_generator_p.bind(
        key, shape=check_shape(shape), dtype=dtype, algorithm=_ALGORITHMS[name]
    )
    if out_sharding is not None:
        bits = placed(lambda x: x, out_sharding, bits)
    return [new_key, bits]


rng_uniform_p = Primitive(
    "rng_uniform",
    abstract=lambda a, b, *, shape: ShapedArray(shape, a.dtype),
    batch=lambda axis, args, dims, *, shape: _map_uniform(axis, args, dims, shape),
    lower=lambda ctx, a, b, *, shape: ctx.op(
        "stablehlo.rng",
        [a, b, ctx.constant(np.asarray(shape, np.int64))],
        ctx.out_types(),
        {"rng_distribution": ctx.attr("#stablehlo<rng_distribution UNIFORM>")},
    )[0],
    sharding="whole",
)


def _map_uniform(axis: Any, args: Sequence[Any], dims: Sequence[int], shape: tuple) -> tuple:
    """Draw for each element of the batch alone: the op takes scalar bounds only."""
    draws = []
    for i in range(axis.size):
        bounds = [
            x if d is None else index_in_dim(x, i, d, keepdims=False)
            for x, d in zip(args, dims, strict=True)
        ]
        draws.append(expand_dims(rng_uniform_p.bind(*bounds, shape=shape), (0,)))
    return concatenate(draws, 0), 0


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Any:
    """Uniform numbers in [a, b) from the platform's stateful generator: not reproducible.

    a, b: scalars of one float or integer dtype. `weft.random.uniform` is the reproducible one.

    Source: StableHLO specification, `rng`.

    >>> from weft import lax, numpy as wnp
    >>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    a, b = promote(a, b)
    for name, x in (("a", a), ("b", b)):
        if typeof(x).shape:
            raise ValueError(f"rng_uniform: {name} must be a scalar, got {typeof(x).str_short()}")
    return rng_uniform_p.bind(a, b, shape=check_shape(shape))

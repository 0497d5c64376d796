# Tests: tests/random/test_keys.py
"""The primitives on keys, and structural ops on arrays of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import batch_elementwise, common_shape
from weft.autodiff.shape import moveaxis
from weft.autodiff.vmap import AxisData
from weft.core import dtypes, trace
from weft.core.aval import ShapedArray
from weft.core.caches import clearable
from weft.core.config import config, options
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import PRIMITIVES, Primitive
from weft.core.trace import trace_to_jaxpr, typeof
from weft.ops.as_array import as_array
from weft.ops.reduce import reduce_and_p, reduce_or_p
from weft.random.keys import Generator, KeyType

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


_FEW_KEYS = 32  # loops over many keys are faster where they compute them


def _physical(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)


@clearable
@lru_cache(maxsize=512)
def _program(fun: Callable, avals: tuple, static: tuple, ranks: tuple, key: tuple) -> ClosedJaxpr:
    """Return the jaxpr of a generator's function over arrays of keys, mapped over them."""
    from weft.api.vmap_api import vmap

    def mapped(*args: Array) -> list:
        call: Callable = lambda *xs: fun(*xs, *static)  # noqa: E731
        for depth in range(max(ranks)):
            call = vmap(call, tuple(0 if r > depth else None for r in ranks))
        return [call(*args)]

    jaxpr, consts = trace_to_jaxpr(mapped, avals)
    return ClosedJaxpr(jaxpr, consts)


def _lower(
    ctx: RuleContext,
    fun: Callable,
    name: str,
    operands: Sequence[Any],
    static: tuple = (),
    partitionable: bool = True,
) -> Any:
    avals = tuple(_physical(a) if dtypes.is_extended(a.dtype) else a for a in ctx.avals_in)
    ranks = tuple(a.ndim for a in ctx.avals_in)
    with options["threefry_partitionable"](partitionable):
        program = _program(fun, avals, static, ranks, config.trace_key())
    (result,) = ctx.call(program, operands, name)
    out = ctx.avals_out[0]
    if dtypes.is_extended(out.dtype) and out.size <= _FEW_KEYS:
        # XLA:CPU would write the whole cipher into every loop that draws with such a key, and into
        # the next key's (quirks.INLINED_KEYS).
        result = ctx.keep_in_memory(result)
    return result


def _check_keys(name: str, aval: ShapedArray) -> KeyType:
    if not isinstance(aval.dtype, KeyType):
        raise TypeError(f"{name} takes random keys, got {aval.str_short()}")
    return aval.dtype


# Keys and words -------------------------------------------------------------------------------


def _wrap_abstract(base: ShapedArray, *, impl: Generator) -> ShapedArray:
    if base.dtype != dtypes.uint32 or base.shape[-1:] != (impl.words,):
        raise TypeError(
            f"the words of {impl.name} keys are a uint32 array with a last dimension of "
            f"{impl.words}, got {base.str_short()}"
        )
    return ShapedArray(base.shape[:-1], impl.dtype)


def _wrap_now(base: ArrayLike, *, impl: Generator) -> Any:
    _wrap_abstract(typeof(base), impl=impl)
    return impl.dtype.wrap(as_array(base))


random_wrap_p = Primitive(
    "random_wrap",
    abstract=_wrap_abstract,
    impl=_wrap_now,
    batch=lambda axis, args, dims, *, impl: (
        random_wrap_p.bind(moveaxis(args[0], dims[0], 0), impl=impl),
        0,
    ),
    lower=lambda ctx, base, *, impl: base,
    sharding="elementwise",
)
random_unwrap_p = Primitive(
    "random_unwrap",
    impl=lambda keys: keys._base,
    abstract=lambda keys: _check_keys("random_unwrap", keys) and _physical(keys),
    batch=lambda axis, args, dims: (random_unwrap_p.bind(*args), dims[0]),
    lower=lambda ctx, keys: keys,
    sharding="elementwise",
)


def _unary(name: str, abstract: Callable, lower: Callable) -> Primitive:
    """Return an op that maps each key (or seed) of an array to an array of results behind it."""
    prim = Primitive(
        name,
        abstract=abstract,
        batch=lambda axis, args, dims, **params: (prim.bind(*args, **params), dims[0]),
        lower=lower,
        sharding="elementwise",
    )
    return prim


random_seed_p = _unary(
    "random_seed",
    lambda seeds, *, impl: ShapedArray(seeds.shape, impl.dtype),
    lambda ctx, seeds, *, impl: _lower(ctx, impl.seed, "random_seed", [seeds]),
)


def _split_abstract(keys: ShapedArray, *, shape: tuple, partitionable: bool) -> ShapedArray:
    return ShapedArray(keys.shape + shape, _check_keys("random_split", keys))


random_split_p = _unary(
    "random_split",
    _split_abstract,
    lambda ctx, keys, *, shape, partitionable: _lower(
        ctx, ctx.avals_in[0].dtype.generator.split, "random_split", [keys], (shape,), partitionable
    ),
)


def split_keys(keys: Array, shape: tuple) -> Any:
    """Return keys of that shape of each key, in the layout of counters that is set here."""
    layout = bool(config.threefry_partitionable)
    return random_split_p.bind(keys, shape=shape, partitionable=layout)


def _bits_abstract(
    keys: ShapedArray, *, bit_width: int, shape: tuple, partitionable: bool
) -> ShapedArray:
    _check_keys("random_bits", keys)
    return ShapedArray(keys.shape + shape, f"uint{bit_width}")


random_bits_p = _unary(
    "random_bits",
    _bits_abstract,
    lambda ctx, keys, *, bit_width, shape, partitionable: _lower(
        ctx,
        ctx.avals_in[0].dtype.generator.bits,
        "random_bits",
        [keys],
        (bit_width, shape),
        partitionable,
    ),
)


def draw_bits(keys: Array, bit_width: int, shape: tuple) -> Any:
    """Unsigned integers of that shape for each key, in the layout of counters set here."""
    layout = bool(config.threefry_partitionable)
    return random_bits_p.bind(keys, bit_width=bit_width, shape=shape, partitionable=layout)


def _fold_abstract(keys: ShapedArray, data: ShapedArray) -> ShapedArray:
    return ShapedArray(common_shape("fold_in", [keys, data]), _check_keys("fold_in", keys))


random_fold_in_p = Primitive(
    "random_fold_in",
    abstract=_fold_abstract,
    batch=lambda axis, args, dims: batch_elementwise(random_fold_in_p, axis, args, dims, {}),
    lower=lambda ctx, keys, data: _lower(
        ctx, ctx.avals_in[0].dtype.generator.fold_in, "random_fold_in", [keys, data]
    ),
    sharding="elementwise",
)
random_clone_p = Primitive(
    "random_clone",
    abstract=lambda keys: keys,
    batch=lambda axis, args, dims: (random_clone_p.bind(*args), dims[0]),
    lower=lambda ctx, keys: keys,
    sharding="elementwise",
)


# Structural ops on keys -----------------------------------------------------------------------

_COMPARISONS = {"eq": reduce_and_p, "ne": reduce_or_p}
for _name in _COMPARISONS:
    PRIMITIVES[_name].structural = True


def apply_to_words(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return a structural op on keys: the op on their words, batched over the last dimension."""
    vals, dims, dtype = [], [], None
    for x in args:
        aval = typeof(x)
        if dtypes.is_extended(aval.dtype):
            if dtype is not None and aval.dtype != dtype:
                raise TypeError(
                    f"{prim.name}: {dtype} and {aval.dtype} are keys of different generators"
                )
            dtype = aval.dtype
            vals.append(random_unwrap_p.bind(x))
            dims.append(aval.ndim)
        else:
            vals.append(x)
            dims.append(None)
    assert isinstance(dtype, KeyType)
    if prim.name in _COMPARISONS and None in dims:
        raise TypeError(f"{prim.name}: a random key is compared with keys only")
    axis = AxisData(None, dtype.generator.words)
    out, out_dims = prim.batch(axis, vals, dims, **params)  # type: ignore[misc]
    if prim.name in _COMPARISONS:
        return _COMPARISONS[prim.name].bind(out, axes=(out_dims,))
    if prim.multiple_results:
        return [_rewrap(o, d, dtype) for o, d in zip(out, out_dims, strict=True)]
    return _rewrap(out, out_dims, dtype)


def _rewrap(words: Array, dim: int | None, dtype: KeyType) -> Any:
    if dim is None:
        return words
    words = moveaxis(words, dim, typeof(words).ndim - 1)
    return random_wrap_p.bind(words, impl=dtype.generator)


trace.structural_on_extended[:] = [apply_to_words]

# Tests: tests/pallas/api/test_call.py
"""How arrays are cut into blocks: BlockSpec and GridSpec, and what they become for backends."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError, made_at
from weft.core.jaxpr import ClosedJaxpr
from weft.core.ref import AbstractRef
from weft.core.trace import Tracer, trace_to_jaxpr, typeof
from weft.pallas.api.memory import MemorySpace
from weft.pallas.api.primitives import as_int32
from weft.pallas.api.signature import misfit_of
from weft.pallas.ir import BlockMapping
from weft.refs.api import Ref


class Squeezed:
    """A block dimension of size 1 that the kernel's ref lacks; the same as None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pl.squeezed"


squeezed = Squeezed()


@dataclass(frozen=True, slots=True)
class Blocked:
    """A block dimension whose index counts blocks; the same as a plain int."""

    block_size: int


@dataclass(frozen=True, slots=True)
class Element:
    """A block dimension whose index counts elements, so that blocks may overlap.

    padding: (before, after): how far blocks may reach outside of the array; the index counts from
    the start of the padding.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


BlockDim = int | Blocked | Element | Squeezed
"""An entry of block_shape (or None, as squeezed)."""


class RevisitMode(enum.Enum):
    """When programs may come back to an output block; every backend here allows ANY time."""

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Buffered:
    """How many buffers a block's pipeline has: a hint, which backends here do not need."""

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BlockSpec:
    """Which block of an array each program of the grid sees.

    block_shape: for each dimension of the array the block's size; None (or pl.squeezed) is a size
    of 1 that the ref lacks, pl.Element(n) a dimension whose index counts elements. None for all of
    the array. index_map: from the grid indices (and the refs of prefetched scalars) to the index
    of the block along each dimension; by default all 0. memory_space: pl.ANY for the array itself
    instead of a block of it. pipeline_mode: accepted.

    Blocks that reach past the end of the array are masked: what they read there is unspecified
    (NaN when interpreted), what they write there is dropped.

    >>> import weft
    >>> weft.pallas.BlockSpec((8, 128), lambda i, j: (i, j))
    BlockSpec((8, 128), <lambda>)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Any = None
    memory_space: Any = field(default=None, kw_only=True)

    def replace(self, **kwargs: Any) -> BlockSpec:
        """Return a copy with fields replaced."""
        return replace(self, **kwargs)

    def __post_init__(self) -> None:
        if self.block_shape is not None and not isinstance(self.block_shape, Sequence):
            raise TypeError(
                "BlockSpec: block_shape must be a tuple with one entry for each dimension, got "
                f"{self.block_shape!r:.80}"
            )
        if self.index_map is not None and not callable(self.index_map):
            raise TypeError(
                f"BlockSpec: index_map must be a function, got {self.index_map!r:.80}; block_shape "
                "comes first, then index_map"
            )

    def __repr__(self) -> str:
        parts = [repr(self.block_shape) if self.block_shape is not None else ""]
        if self.index_map is not None:
            parts.append(getattr(self.index_map, "__name__", "index_map"))
        if self.memory_space is not None:
            parts.append(f"memory_space={self.memory_space}")
        return f"BlockSpec({', '.join(p for p in parts if p)})"


class NoBlockSpec:
    """The default of in_specs and out_specs: whole arrays."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pl.no_block_spec"


no_block_spec = NoBlockSpec()


@dataclass(frozen=True, slots=True, eq=False)
class GridSpec:
    """A grid with the blocks of arguments and results, and scratch.

    grid: an int or a tuple of ints; under jit an extent may be a traced integer scalar.
    in_specs, out_specs: pytrees of `BlockSpec` like the arguments and the results.
    scratch_shapes: a sequence of scratch types, or a dict of them (then the kernel gets them by
    name). num_scalar_prefetch: so many leading arguments are integer arrays that index maps see,
    too, as refs behind the grid indices.
    """

    grid: Any = ()
    in_specs: Any = no_block_spec
    out_specs: Any = no_block_spec
    scratch_shapes: Any = ()
    num_scalar_prefetch: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        count = self.num_scalar_prefetch
        if not isinstance(count, int) or count < 0:
            raise ValueError(
                f"GridSpec: num_scalar_prefetch must be a nonnegative int, got {count!r}"
            )


def PrefetchScalarGridSpec(  # noqa: N802  (JAX's name)
    num_scalar_prefetch: int,
    grid: object = (),
    in_specs: object = no_block_spec,
    out_specs: object = no_block_spec,
    scratch_shapes: object = (),
) -> GridSpec:
    """Return a `GridSpec` with num_scalar_prefetch as its first argument.

    >>> from weft import pallas as pl
    >>> pl.PrefetchScalarGridSpec(1, grid=(4,)).num_scalar_prefetch
    1
    """
    return GridSpec(
        grid, in_specs, out_specs, scratch_shapes, num_scalar_prefetch=num_scalar_prefetch
    )


def check_grid(grid: int | tuple) -> tuple[Any, ...]:
    """Return the grid as a tuple of ints and traced integer scalars."""
    entries = grid if isinstance(grid, tuple | list) else (grid,)
    result: list[Any] = []
    for i, n in enumerate(entries):
        if isinstance(n, Tracer):
            if n.shape or not dtypes.is_integer(n.dtype):
                raise TypeError(
                    f"pallas_call: grid[{i}] is a traced value of type {typeof(n).str_short()} "
                    f"({made_at(n)}); an extent must be an integer scalar"
                )
            result.append(n)
            continue
        if not hasattr(n, "__index__"):
            raise ArgumentError(f"pallas_call: grid[{i}] must be an int, got {n!r:.80}")
        if n.__index__() < 0:
            raise ValueError(f"pallas_call: grid[{i}] must not be negative, got {n}")
        result.append(n.__index__())
    return tuple(result)


# Blocks ----------------------------------------------------------------------------------------


def block_mapping(
    label: str,
    spec: BlockSpec | None,
    array: ShapedArray,
    grid: tuple[int, ...],
    scalars: Sequence[AbstractRef],
    hidden: int = 0,
) -> BlockMapping:
    """Return the blocks of one argument or result; `label` names it in errors.

    spec: None for all of the array. hidden: scalars in front that the index map does not get.
    """
    if spec is None or isinstance(spec, NoBlockSpec):
        spec = BlockSpec()
    if not isinstance(spec, BlockSpec):
        raise TypeError(f"{label}: a spec must be a pl.BlockSpec, got {type(spec).__name__}")
    if spec.block_shape is None:
        if spec.index_map is not None:
            raise ValueError(f"{label}: the BlockSpec has an index_map but no block_shape")
        no, index_map = (False,) * array.ndim, _trace_index_map(label, None, array, grid, scalars)
        return BlockMapping(
            array, array.shape, no, no, index_map, spec.memory_space, whole=True, origin=label
        )
    dims = tuple(spec.block_shape)
    if len(dims) != array.ndim:
        raise ValueError(
            f"{label}: block_shape {dims} has {len(dims)} entries, but the array "
            f"{array.str_short()} has rank {array.ndim}; give one for each dimension (None for one "
            "that the ref shall lack)"
        )
    # By dimension: the block's size, whether the ref lacks it, and what the index map counts.
    shape, gone, by_element, padding = [], [], [], []
    for d, (dim, n) in enumerate(zip(dims, array.shape, strict=True)):
        size = block_size(label, d, dim)
        shape.append(size)
        gone.append(dim is None or isinstance(dim, Squeezed))
        by_element.append(isinstance(dim, Element))
        padding.append(tuple(getattr(dim, "padding", (0, 0))))
        if isinstance(dim, Element) and size > n + sum(dim.padding):
            raise ValueError(
                f"{label}: block_shape[{d}] = {dim} is larger than the dimension of size {n} with "
                "its padding"
            )
    index_map = _trace_index_map(label, spec.index_map, array, grid, scalars, hidden)
    # A block that is the array takes no index map, no copy and no check.
    full = spec.index_map is None and tuple(shape) == array.shape and not any(gone)
    return BlockMapping(
        array=array,
        block_shape=tuple(shape),
        squeezed=tuple(gone),
        by_element=tuple(by_element),
        index_map=index_map,
        memory_space=spec.memory_space,
        whole=full,
        origin=label,
        padding=tuple(padding) if any(map(any, padding)) else (),
    )


def block_size(label: str, d: int, dim: BlockDim | None) -> int:
    """Return the extent that entry d of a block_shape gives; raises if it is none."""
    size = 1 if dim is None or isinstance(dim, Squeezed) else getattr(dim, "block_size", dim)
    if not hasattr(size, "__index__") or isinstance(size, Tracer) or size.__index__() < 1:
        raise ValueError(
            f"{label}: block_shape[{d}] must be a positive int, None or pl.Element, got {dim!r}"
        )
    return size.__index__()


def _trace_index_map(
    label: str,
    fun: Callable | None,
    array: ShapedArray,
    grid: tuple[int, ...],
    scalars: Sequence[AbstractRef],
    hidden: int = 0,
) -> ClosedJaxpr:
    def flat(*args: object) -> list:
        if fun is None:
            return [dtypes.int32.type(0)] * array.ndim
        indices = args[: len(grid)]
        refs = [Ref(x) for x in args[len(grid) + hidden :]]
        out = fun(*indices, *refs)
        out = tuple(out) if isinstance(out, tuple | list) else (out,)
        if len(out) != array.ndim:
            raise ValueError(
                f"{label}: index_map returns {len(out)} indices for an array of rank {array.ndim}, "
                f"{array.str_short()}; return one for each dimension"
            )
        misfit = f"{label}: index_map must return integers, but index"
        return [as_int32(f"{misfit} {d} has type", x) for d, x in enumerate(out)]

    _check_arity(label, fun, len(grid), len(scalars) - hidden)
    avals = [ShapedArray((), dtypes.int32)] * len(grid) + list(scalars)
    name = getattr(fun, "__name__", "index_map")
    jaxpr, consts = trace_to_jaxpr(flat, avals, name)
    if consts:
        raise ValueError(
            f"{label}: index_map {name} closes over an array of type "
            f"{typeof(consts[0]).str_short()}; index maps see grid indices and prefetched scalars "
            "only: pass the array first and count it in num_scalar_prefetch"
        )
    return ClosedJaxpr(jaxpr)


def _check_arity(label: str, fun: Callable | None, num_axes: int, num_scalars: int) -> None:
    """Raise if the index map cannot take the grid's indices."""
    misfit = fun and misfit_of(fun, *(None,) * (num_axes + num_scalars))
    if misfit:
        signature, error = misfit
        extra = f" and {num_scalars} refs of prefetched scalars" if num_scalars else ""
        raise TypeError(
            f"{label}: index_map {getattr(fun, '__name__', '')} is called with {num_axes} grid "
            f"{'index' if num_axes == 1 else 'indices'}{extra}, which its signature "
            f"{signature} does not take ({error})"
        )


def kernel_ref(mapping: BlockMapping) -> AbstractRef:
    """Return the type of the ref that a kernel gets for a block."""
    array = mapping.array
    inner = ShapedArray(mapping.ref_shape, array.dtype, False, None, array.mat)
    space = mapping.memory_space
    if space is None and not mapping.whole:
        space = MemorySpace.DEFAULT
    return AbstractRef(inner, None if space is MemorySpace.DEFAULT else space)

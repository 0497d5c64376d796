"""emit_pipeline: a loop over blocks of refs inside a kernel, as a grid around it would be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.boundary import api_boundary
from weft.core.kernel_frame import current_frame, nested_grid
from weft.core.trace import Tracer
from weft.ops.control.loops import fori_loop
from weft.pallas.api.memory import MemorySpace
from weft.pallas.api.specs import BlockSpec, Element, NoBlockSpec, Squeezed, block_size
from weft.refs.api import Ref
from weft.refs.indexing import ds

if TYPE_CHECKING:
    from weft.runtime.array import Array


@api_boundary
def emit_pipeline(
    body: Callable[..., None],
    *,
    grid: int | tuple[Any, ...],
    in_specs: Any = (),
    out_specs: Any = (),
) -> Callable[..., None]:
    """Return a function of refs that runs body for each point of a grid, on blocks of the refs.

    body: takes a ref of the block of each ref and returns None; inside, `program_id` and
    `num_programs` are of this grid. grid: extents, ints or int32 scalars; the last axis is the
    fastest. in_specs, out_specs: a `BlockSpec` for each ref, the outputs' last; the block of a spec
    without a shape is the whole ref.

    Blocks are parts of the refs where they lie, and a step sees what the steps before it wrote;
    a backend may fetch them ahead. Sizes of blocks must divide those of the refs.

    Raises ValueError for blocks that do not fit the refs, or as many refs as specs are not given.
    Source: JAX's Pallas for TPUs.

    >>> import weft
    >>> pl = weft.pallas
    >>> block = pl.BlockSpec((2,), lambda i: (i,))
    >>> def kernel(x, out):
    ...     def step(x, out):
    ...         out[...] = x[...] + pl.program_id(0)
    ...     pl.emit_pipeline(step, grid=2, in_specs=[block], out_specs=[block])(x, out)
    >>> pl.pallas_call(kernel, weft.ShapeDtypeStruct((4,), "int32"))(weft.numpy.arange(4))
    Array([0, 1, 3, 4], dtype=int32)
    """
    extents = grid if isinstance(grid, tuple) else (grid,)
    specs = [*_listed("in_specs", in_specs), *_listed("out_specs", out_specs)]

    def pipeline(*refs: Ref) -> None:
        current_frame("emit_pipeline")
        if len(refs) != len(specs):
            raise ValueError(
                f"emit_pipeline: there are {len(specs)} specs, in_specs and out_specs together, "
                f"but {len(refs)} refs are given"
            )
        for i, ref in enumerate(refs):
            if not isinstance(ref, Ref):
                raise TypeError(
                    f"emit_pipeline: argument {i} must be a ref, got {type(ref).__name__}"
                )
        _loop(extents, (), lambda ids: _step(body, refs, specs, ids, extents))

    return pipeline


def _listed(name: str, specs: Sequence | BlockSpec) -> list[BlockSpec]:
    specs = list(specs) if isinstance(specs, list | tuple) else [specs]
    for i, spec in enumerate(specs):
        if isinstance(spec, NoBlockSpec) or spec is None:
            specs[i] = BlockSpec()
        elif not isinstance(spec, BlockSpec):
            raise TypeError(
                f"emit_pipeline: {name}[{i}] must be a pl.BlockSpec, got {type(spec).__name__}"
            )
    return specs


def _loop(extents: tuple[Any, ...], ids: tuple[Any, ...], step: Callable[[tuple], None]) -> None:
    """step(ids) for all points, the last axis fastest."""
    if len(ids) == len(extents):
        step(ids)
        return
    extent = extents[len(ids)]
    if not isinstance(extent, Tracer):
        extent = np.int32(extent)
        if extent == 1:
            _loop(extents, (*ids, np.int32(0)), step)
            return

    def turn(i: Array, carry: None) -> None:
        _loop(extents, (*ids, i), step)

    fori_loop(np.int32(0), extent, turn, None)


def _step(
    body: Callable[..., Any],
    refs: Sequence[Ref],
    specs: Sequence[BlockSpec],
    ids: tuple[Any, ...],
    extents: tuple[Any, ...],
) -> None:
    blocks = [
        _block(f"emit_pipeline: block of argument {i}", r, s, ids)
        for i, (r, s) in enumerate(zip(refs, specs, strict=True))
    ]
    with nested_grid(ids, extents):
        out = body(*blocks)
    if out is not None:
        raise TypeError(
            f"emit_pipeline: the body must return None, got {type(out).__name__}; write to the refs"
        )


def _block(label: str, ref: Ref, spec: BlockSpec, ids: tuple[Any, ...]) -> Ref:
    """Return the part of a ref that a step sees."""
    shape = spec.block_shape
    if shape is None or spec.memory_space is MemorySpace.ANY:
        return ref
    if len(shape) != ref.ndim:
        raise ValueError(f"{label}: block_shape {tuple(shape)} has another rank than {ref!r}")
    places = spec.index_map(*ids) if spec.index_map is not None else (0,) * ref.ndim
    places = places if isinstance(places, tuple | list) else (places,)
    if len(places) != ref.ndim:
        raise ValueError(f"{label}: index_map gives {len(places)} indices for {ref!r}")
    index = []
    for d, (dim, block_index) in enumerate(zip(shape, places, strict=True)):
        if dim is None or isinstance(dim, Squeezed):
            index.append(block_index)
            continue
        size = block_size(label, d, dim)
        if isinstance(dim, Element):
            if any(dim.padding):
                raise ValueError(f"{label}: pl.Element with padding is for grids around kernels")
            index.append(ds(block_index, size))
            continue
        if ref.shape[d] % size:
            raise ValueError(
                f"{label}: blocks of {size} do not divide dimension {d} of {ref!r}; pad the array, "
                "or take pl.ANY and mask with pl.load and pl.store"
            )
        index.append(ds(block_index * size, size))
    return ref.at[tuple(index)]

# Tests: tests/pallas/test_transforms.py
"""Kernel calls on shards: the call that a device makes on its part of the arrays.

A kernel has static shapes, so a shard gets a kernel of its own: the same body over fewer blocks.
A dimension can be split where programs walk over it block by block along a grid axis that the
body does not look at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

from weft.core.aval import ShapedArray
from weft.core.jaxpr import Var
from weft.lowering.context import RuleContext
from weft.lowering.module import FunctionContext
from weft.pallas.ir import BlockMapping, KernelCall
from weft.pallas.op import rule_of
from weft.partition.localize_rules.kernels import KERNELS

Shape = tuple[int, ...]


def grid_axis(block: BlockMapping, d: int) -> int | None:
    """Return the grid axis along which programs take dimension d's blocks in order."""
    jaxpr = block.index_map.jaxpr
    index = jaxpr.outvars[d]
    if block.by_element[d] or not isinstance(index, Var) or index not in jaxpr.invars:
        return None
    return jaxpr.invars.index(index)


def why_whole(call: KernelCall, block: BlockMapping, d: int) -> str | None:
    """Why a dimension of an array cannot be split, or None if it can."""
    axis = grid_axis(block, d)
    if axis is None or axis >= len(call.grid):
        return "its index map does not take its blocks in order along one grid axis"
    if axis - call.num_batch in call.used_axes:
        return f"the kernel looks at its place along grid axis {axis - call.num_batch}"
    return None


def localized(call: KernelCall, shapes: Sequence[Shape]) -> KernelCall:
    """Return the call on parts of its inputs and outputs of these shapes.

    Raises ValueError that says why it cannot be.
    """
    grid = list(call.grid)
    split: dict[int, int] = {}
    for block, shape in zip(call.blocks, shapes, strict=True):
        for d, (whole, part) in enumerate(zip(block.array.shape, shape, strict=True)):
            if whole == part:
                continue
            why = why_whole(call, block, d)
            axis = grid_axis(block, d)
            if why is None and part % block.block_shape[d]:
                why = f"its part of size {part} is not a number of blocks of {block.block_shape[d]}"
            if why is not None or axis is None:
                raise ValueError(f"dimension {d} of {block.origin} cannot be split: {why}")
            extent = part // block.block_shape[d]
            if split.setdefault(axis, extent) != extent:
                raise ValueError(f"dimension {d} of {block.origin} is split unlike another one")
    for axis, extent in split.items():
        grid[axis] = extent
    for block, shape in zip(call.blocks, shapes, strict=True):
        for d, (whole, part) in enumerate(zip(block.array.shape, shape, strict=True)):
            axis = grid_axis(block, d)
            if whole == part and axis in split and call.grid[axis] != split[axis]:
                raise ValueError(
                    f"dimension {d} of {block.origin} is whole, but its grid axis is split"
                )
    blocks = tuple(_with_shape(b, s) for b, s in zip(call.blocks, shapes, strict=True))
    outputs = tuple(b.array for b in blocks[call.num_inputs :])
    return call.replace(grid=tuple(grid), blocks=blocks, outputs=outputs)


def _with_shape(b: BlockMapping, shape: Shape) -> BlockMapping:
    return replace(b, array=ShapedArray(shape, b.array.dtype, False, None, b.array.mat))


# In programs over many devices -------------------------------------------------------------------

_numbers = count()


class Splitter:
    """The rule by which a kernel call is localized: the splits that fit, the call on shards."""

    def __init__(self, ctx: RuleContext, call: KernelCall, lower: Callable) -> None:
        module = ctx.module  # not kept: it would keep the splitter, and the whole program
        self.module = SimpleNamespace(
            platforms=module.platforms,
            host_callbacks=module.host_callbacks,
            keepalives=module.keepalives,
            num_partitions=1,
            use_shardy=module.use_shardy,
            manual_axes=frozenset(),
            mesh=None,
            device=module.device,
        )
        self.eqn, self.loc = ctx.eqn, ctx.loc
        self.call = call
        self.lower = lower
        self.counts = len(ctx.avals_in), len(ctx.avals_out)
        """How many operands and results of the emitted call are the kernel's; a GPU's scratch
        stands behind them."""

    def fits(self, dims: Sequence[Sequence[bool]], parts: int) -> bool:
        """Tell whether marked dimensions of operands and results split into so many parts."""
        shapes = []
        for k, marks in enumerate(dims):
            if k < self.call.num_scalars:
                if any(marks):
                    return False
                continue
            whole = self.call.blocks[k - self.call.num_scalars].array.shape
            if any(m and n % parts for n, m in zip(whole, marks, strict=True)):
                return False
            shapes.append(tuple(n // parts if m else n for n, m in zip(whole, marks, strict=True)))
        try:
            localized(self.call, shapes)
        except ValueError:
            return False
        return True

    def emit(self, operands: Sequence[Any], shapes: Sequence[Shape]) -> Any:
        """Return the operation on shards of these shapes, at the current insertion point."""
        n = self.call.num_scalars
        local = localized(self.call, shapes[n:])
        avals = [v.aval.update(shape=s) for v, s in zip(self._atoms(), shapes, strict=True)]
        k = n + self.call.num_inputs
        eqn = self.eqn.replace(
            invars=[Var(a) for a in avals[:k]], outvars=[Var(a) for a in avals[k:]]
        )
        ctx = RuleContext(self.module, FunctionContext(), eqn, self.loc)
        return _called(self.lower(ctx, local, list(operands)))

    def _atoms(self) -> list[Any]:
        return [*self.eqn.invars, *self.eqn.outvars]


def let_split(ctx: RuleContext, call: KernelCall, outs: list, lower: Callable) -> None:
    """Mark the emitted call so that partitioners may split it."""
    can_split = call.sharding_rule is not None or call.num_batch_dims
    if not can_split or ctx.module.num_partitions == 1 or not ctx.module.use_shardy or not outs:
        return
    op = _called(outs)
    if op.name != "stablehlo.custom_call":
        return
    splitter = Splitter(ctx, call, lower)
    name = f"kernel {next(_numbers)}"
    KERNELS[name] = splitter
    ctx.module.keepalives.append(splitter)
    avals_in, avals_out = list(ctx.avals_in), list(ctx.avals_out)
    more_in = _avals(op.operands, avals_in)
    more_out = _avals(op.results, avals_out)
    rule = copy(rule_of(call, avals_in, avals_out))
    rule.operands = (*rule.operands, *_factors_of_their_own("in", more_in))
    rule.results = (*rule.results, *_factors_of_their_own("out", more_out))
    op.attributes["sdy.sharding_rule"] = ctx.attr(
        rule.text([*avals_in, *more_in], [*avals_out, *more_out], f"kernel {call.name}")
    )
    op.attributes["weft.kernel"] = ctx.string(name)


def _called(outs: list) -> Any:
    """Return the operation that calls the kernel; what it gives may be converted behind it."""
    op = outs[0].owner
    return op.operands[0].owner if op.name == "stablehlo.convert" else op


def _avals(values: Any, known: list) -> list[Any]:
    """Return shapes of the operands or results behind those of the kernel: a GPU's scratch."""
    return [SimpleNamespace(shape=tuple(v.type.shape)) for v in list(values)[len(known) :]]


def _factors_of_their_own(prefix: str, avals: Sequence[Any]) -> tuple:
    """Return names of dimensions that are split with no other one."""
    return tuple(
        tuple(f"{prefix}{k}_{d}" for d in range(len(a.shape))) for k, a in enumerate(avals)
    )

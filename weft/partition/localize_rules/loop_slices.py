"""Stacks that a loop reads slice by slice arrive in the layout in which the slices' results leave.

A loop adds slices of a stack to values in one layout, and moves the sums to another for its next
turn. Moved before the addition, the values send as much, and the stack is free to arrive in the
second layout. It does where its own move in front of the loop then sends less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.localize import Localizer
from weft.partition.ops import facts
from weft.partition.plan import wanted
from weft.partition.reshard import relayout_cost
from weft.partition.walk import only_user


@dataclass(slots=True)
class _Path:
    """A slice's way: cut out, reshaped, joined with a value, mapped, moved to another layout."""

    cut: list[ir.Operation]
    join: ir.Operation
    mapped: list[ir.Operation]
    moves: list[ir.Operation]


def arrive_as_used(
    lz: Localizer, loop: ir.Operation, layouts: list[AxisLayout]
) -> list[AxisLayout]:
    """The layouts of a loop's operands, with the body rewritten for those that it changes."""
    layouts = list(layouts)
    body = loop.regions[1].blocks[0]
    carried = list(body.operations)[-1].operation.operands
    for i, stack in enumerate(body.arguments):
        x = lz.operand(loop, i)
        if x.before is None or carried[i] != stack or list(loop.results[i].uses):
            continue
        path = _path(stack)
        target = None if path is None else _arrival(lz, path, layouts[i])
        if path is None or target is None:
            continue
        if relayout_cost(lz.e, x.before, target) < relayout_cost(lz.e, x.before, layouts[i]):
            _move_before(path, target)
            layouts[i] = target
    return layouts


def _path(stack: ir.Value) -> _Path | None:
    users = [use.owner.operation for use in stack.uses]
    users = [op for op in users if op.name != "stablehlo.return"]
    if len(users) != 1 or users[0].name != "stablehlo.dynamic_slice":
        return None
    if users[0].block != stack.owner:
        return None
    cut = [users[0], *_run(users[0], lambda op: op.name == "stablehlo.reshape")]
    join = only_user(cut[-1].results[0])
    if join is None or not _maps(join, 2) or join.block != cut[0].block:
        return None
    mapped = _run(join, lambda op: _maps(op, 1))
    moves = _run(mapped[-1] if mapped else join, lambda op: facts(op).relayout)
    return _Path(cut, join, mapped, moves) if moves else None


def _arrival(lz: Localizer, path: _Path, now: AxisLayout) -> AxisLayout | None:
    """Find the stack layout whose slices have the layout in which their moves end."""
    end = wanted(lz, path.mapped[-1] if path.mapped else path.join)
    sizes = list(path.cut[0].attributes["slice_sizes"])
    kept = [d for d, (n, k) in enumerate(zip(now.shape, sizes, strict=True)) if n == k]
    if end is None or end.shape != tuple(now.shape[d] for d in kept) or 0 in end.shape:
        return None
    if any(sizes[d] != 1 for d in range(len(sizes)) if d not in kept):
        return None
    here = tuple(now.dims[d] for d in kept)
    if any(now.dims[d] for d in range(len(sizes)) if d not in kept):
        return None
    if any(lz.layouts(op)[0].dims != here for op in (path.join, *path.mapped)):
        return None
    dims = dict(zip(kept, end.dims, strict=True))
    return AxisLayout(lz.mesh, now.shape, tuple(dims.get(d, ()) for d in range(len(sizes))))


def _move_before(path: _Path, target: AxisLayout) -> None:
    """Moves the value that a slice is joined with, in place of the result."""
    last = path.moves[-1]
    sharding = sdy.target_of(last)
    end = path.mapped[-1] if path.mapped else path.join
    last.results[0].replace_all_uses_with(end.results[0])
    side = 1 - list(path.join.operands).index(path.cut[-1].results[0])
    path.moves[0].operands[0] = path.join.operands[side]
    path.join.operands[side] = last.results[0]
    for move in path.moves:
        move.move_before(path.join)
    mesh = str(sharding).removeprefix("#sdy.sharding<").split(",")[0]
    for op in (*path.cut, path.join, *path.mapped):
        op.attributes["sdy.sharding"] = sdy.for_values(sharding)
    cut = path.cut[0]
    axes = iter(sdy.dims_of(sharding))
    sizes = zip(cut.attributes["slice_sizes"], target.shape, strict=True)
    dims = ", ".join(_text(next(axes)) if n == k else "{}" for k, n in sizes)
    cut.attributes["sdy.sharding"] = ir.Attribute.parse(
        f"#sdy.sharding_per_value<[<{mesh}, [{dims}]>]>", cut.context
    )


def _text(axes: list[sdy.AxisRef]) -> str:
    parts = (f'"{n}"' if size is None else f'"{n}":({pre}){size}' for n, pre, size in axes)
    return "{" + ", ".join(parts) + "}"


def _maps(op: ir.Operation, operands: int) -> bool:
    return facts(op).pointwise and len(op.operands) == operands


def _run(op: ir.Operation, wanted: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """The wanted operations that use the result one after the other, each alone."""
    ops: list[ir.Operation] = []
    while (user := only_user([op, *ops][-1].results[0])) is not None and wanted(user):
        if user.block != op.block:
            break
        ops.append(user)
    return ops

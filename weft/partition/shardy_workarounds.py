# Tests: tests/partition/test_propagate.py
"""Carries programs past what Shardy does not take or ends the process on.

- Shardy has no rules for CHLO (quirks.SHARDY_CHLO), and ends the process on reshapes whose
  dimensions do not nest, such as 2×6×3 to 18×2 (quirks.SHARDY_RESHAPES): both go through it as
  custom calls with sharding rules of our own, and are themselves again behind it. So XLA sees a
  CHLO operation and not its expansion.
- On meshes whose axes have sizes of different primes it ends the process on reshapes of three and
  more dimensions at once (quirks.SHARDY_PRIMES): they become steps of two.
- It ends the process on sharding groups that share a value (quirks.SHARDY_GROUPS).
- It takes an unreduced constraint for a change of a whole value (quirks.SHARDY_UNREDUCED):
  operations are told instead.
- It sees nothing in a future (quirks.SHARDY_FUTURES): what goes into an `async_start` would be
  gathered along every axis that it has to propagate. So a started collective travels as the
  collective itself, and its `async_done` as a barrier, through which shardings pass. Both carry a
  number, by which they are put together again in the local program.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from weft._xla import passes, sdy
from weft._xla.mlir import ir
from weft.partition.collect import KINDS
from weft.partition.ops import facts
from weft.partition.walk import (
    attributes_of,
    inner_first,
    insert,
    maker,
    only_user,
    ops_in,
    outer_first,
    supersede,
)

_BARRIER = "stablehlo.optimization_barrier"

# -- operations without a rule ---------------------------------------------------------------------

_PREFIX, _ATTRIBUTES = "weft.", "weft.attributes"  # of the calls: a target, and what they had


def wrap_unsupported(module: ir.Module) -> None:
    """Replace the operations Shardy cannot take by custom calls with sharding rules, in place."""
    meshes = [v.operation for v in module.body.operations if v.operation.name == "sdy.mesh"]
    sizes = [sdy.mesh_axes(mesh.attributes["mesh"]).values() for mesh in meshes]
    stepwise = any(len(axes) > 1 and not _one_prime(axes) for axes in sizes)
    for op in list(outer_first(module.operation)):
        if op.name.startswith("chlo.") and facts(op).pointwise:
            rank = len(op.results[0].type.shape)
            dims = "[" + ", ".join(_letter(i) for i in range(rank)) + "]"
            operands = ", ".join([dims] * len(op.operands))
            _replace(op, f"({operands})->({dims})", op.results[0].type.shape, [])
        elif op.name == "chlo.top_k":
            shape = tuple(op.operands[0].type.shape)
            k = op.results[0].type.shape[-1]
            lead = [_letter(i) for i in range(len(shape) - 1)]
            last, kept = _letter(len(shape) - 1), _letter(len(shape))
            source, out = ", ".join([*lead, last]), ", ".join([*lead, kept])
            _replace(op, f"([{source}])->([{out}], [{out}])", [*shape, k], [last, kept])
        elif op.name == "stablehlo.reshape":
            shape, result = tuple(op.operands[0].type.shape), tuple(op.results[0].type.shape)
            if not nests(shape, result):
                _replace(op, *_reshape_rule(shape, result))
            elif stepwise:
                _reshape_in_steps(op, shape, result)


def _one_prime(sizes: Iterable[int]) -> bool:
    """Return whether all sizes are powers of one prime."""
    size = math.prod(sizes)
    prime = next((p for p in range(2, size + 1) if size % p == 0), 2)
    while size % prime == 0:
        size //= prime
    return size == 1


def _reshape_in_steps(op: ir.Operation, shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    """Split one dimension in two, or join two, at a time, where a dimension has more parts."""
    bounds = sorted({math.prod(s[:i]) for s in (shape, result) for i in range(len(s) + 1)})
    parts = [_parts(s, bounds) for s in (shape, result)]
    if max(map(len, (*parts[0], *parts[1])), default=0) < 3:
        return
    value = op.operands[0]
    for step in (*_splits(parts[0]), *reversed(_splits(parts[1])[:-1]), result):
        if tuple(value.type.shape) != step:
            kind = ir.RankedTensorType.get(step, value.type.element_type)
            value = insert(op, "stablehlo.reshape", [kind], [value]).results[0]
    supersede(op, value)


def _parts(shape: tuple[int, ...], bounds: list[int]) -> list[list[int]]:
    """Return the factors of each dimension between the bounds that it shares with another shape."""
    out, start = [], 1
    for size in shape:
        inner = [b for b in bounds if start <= b <= start * size]
        out.append([high // low for low, high in itertools.pairwise(inner)] or [1])
        start *= size
    return out


def _splits(parts: list[list[int]]) -> list[tuple[int, ...]]:
    """List the shapes on the way to all parts, each splitting off one more, finest last."""
    shapes: list[tuple[int, ...]] = []
    done: list[int] = []
    for i, dim in enumerate(parts):
        rest = [math.prod(d) for d in parts[i + 1 :]]
        for k in range(len(dim) - 1):
            shapes.append((*done, *dim[: k + 1], math.prod(dim[k + 1 :]), *rest))
        done += dim
    return [*shapes, tuple(done)]


def nests(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Return whether the dimensions of two shapes of one size split and merge without crossing.

    >>> nests((8, 3), (2, 12)), nests((2, 6, 3), (18, 2))
    (True, False)
    """
    if 0 in a or 0 in b:
        return False
    bounds = sorted({math.prod(s[:i]) for s in (a, b) for i in range(len(s) + 1)})
    return all(high % low == 0 for low, high in itertools.pairwise(bounds))


def _reshape_rule(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[str, list[int], list[str]]:
    """Return the mapping, factor sizes, and unsplittable factors of a reshape that does not nest.

    Leading equal dimensions share their factors, the first unequal ones their common major part.
    """
    sizes: list[int] = []
    whole: list[str] = []
    left: list[str] = []
    right: list[str] = []

    def factor(size: int, split: bool) -> str:
        sizes.append(size)
        name = _letter(len(sizes) - 1)
        if not split:
            whole.append(name)
        return name

    first = 0
    while first < min(len(a), len(b)) and a[first] == b[first]:
        name = factor(a[first], True)
        left.append(name)
        right.append(name)
        first += 1
    shared, common = None, 1
    if first < min(len(a), len(b)) and 0 not in a:
        common = math.gcd(a[first], b[first])
        shared = factor(common, True) if common > 1 else None
    for shape, names in ((a, left), (b, right)):
        for i, size in enumerate(shape[first:]):
            parts = ""
            if i == 0 and shared is not None:
                parts, size = shared, size // common
            if size != 1 or not parts:
                parts += factor(size, False)
            names.append(parts)
    return f"([{', '.join(left)}])->([{', '.join(right)}])", sizes, whole


def restore(module: ir.Module) -> None:
    """Put what `wrap_unsupported` replaced back, in place, with its sharding and its rule."""
    for op in list(outer_first(module.operation)):
        if _ATTRIBUTES not in op.attributes:
            continue
        attributes = {a.name: a.attr for a in ir.DictAttr(op.attributes[_ATTRIBUTES])}
        for name in ("sdy.sharding", "sdy.sharding_origins"):
            if name in op.attributes:
                attributes[name] = op.attributes[name]
        if "sdy.sharding_rule" in op.attributes:  # Shardy allows custom ones on calls only
            text = str(op.attributes["sdy.sharding_rule"]).replace(", custom>", ">")
            attributes["sdy.sharding_rule"] = ir.Attribute.parse(text, op.context)
        _put(op, op.attributes["call_target_name"].value.removeprefix(_PREFIX), attributes)


def _replace(op: ir.Operation, mapping: str, sizes, whole: list[str]) -> None:
    context = op.context
    factors = ", ".join(f"{_letter(i)}={n}" for i, n in enumerate(sizes))
    need = f" need_replication={{{', '.join(whole)}}}" if whole else ""
    # A rule needs at least one factor; rank 0 has none and needs no rule.
    attributes = {
        "call_target_name": ir.StringAttr.get(_PREFIX + op.name, context),
        _ATTRIBUTES: ir.DictAttr.get(attributes_of(op), context),
    }
    if sizes and math.prod(sizes):
        text = f"#sdy.op_sharding_rule<{mapping} {{{factors}}}{need}, custom>"
        attributes["sdy.sharding_rule"] = ir.Attribute.parse(text, context)
    _put(op, "stablehlo.custom_call", attributes)


def _put(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """Put another operation in the place of one."""
    supersede(op, *insert(op, name, op.results.types, op.operands, attributes).results)


def _letter(index: int) -> str:
    """Factor names as Shardy prints them: i … z, then z_1, z_2, …"""
    return chr(ord("i") + index) if index < 18 else f"z_{index - 17}"


# -- sharding groups ------------------------------------------------------------------------------


def _drop_equal_constants(groups: dict[int, list[ir.Operation]]) -> None:
    """Remove constants that are members of several groups from all but one, also in the module.

    Shardy makes them one, and then ends the process (quirks.SHARDY_EQUAL_CONSTANTS).
    A constant is made in any sharding for nothing, so its group loses nothing.
    """
    group_of: dict[str, int] = {}
    for number, members in groups.items():
        for member in list(members):
            constant = maker(member.operands[0])
            if constant is None or constant.name != "stablehlo.constant":
                continue
            text = str(constant).partition("=")[2]
            if group_of.setdefault(text, number) != number:
                members.remove(member)
                member.erase()


def join_groups(groups: dict[int, list[ir.Operation]]) -> dict[int, list[ir.Operation]]:
    """Merge groups that share a value, also in the module: Shardy ends the process on them."""
    _drop_equal_constants(groups)
    group_of: dict[ir.Value, int] = {}
    out: dict[int, list[ir.Operation]] = {}
    for number, members in groups.items():
        if not members:
            continue
        shared = {group_of[m.operands[0]] for m in members if m.operands[0] in group_of}
        for other in shared:
            members = out.pop(other) + members
        out[number] = members
        group_of |= {m.operands[0]: number for m in members}
    for number, members in out.items():
        for member in members:
            kind = member.attributes["group_id"].type
            member.attributes["group_id"] = ir.IntegerAttr.get(kind, number)
    return out


# -- partial sums ---------------------------------------------------------------------------------


def push_unreduced_into_ops(module: ir.Module) -> None:
    """Move unreduced constraints onto the sums and products that they constrain, in place.

    Shardy takes a constraint for a change of a value that is whole before; on the op itself, it
    says that the sum over these axes is left out. A value that is whole before the change has a
    constraint of its own, which stands between.
    """
    module.operation.walk(_push)


def _hold(constraint: ir.Operation) -> None:
    """Keep a replicated value that is to become a partial sum as a value with a sharding.

    Shardy forgets shardings that split nothing, then refuses the change (quirks.SHARDY_FORGETS).
    """
    value = constraint.operands[0]
    if any(sdy.dims_of(constraint.attributes["sharding"])):
        return
    sharding = {"sdy.sharding": sdy.for_values(constraint.attributes["sharding"])}
    holder = insert(constraint, _BARRIER, [value.type], [value], sharding)
    constraint.results[0].replace_all_uses_with(holder.results[0])


def _is_carried(source: ir.Operation) -> bool:
    """Return whether this is a constraint on what a loop's body is given."""
    block = source.operands[0].owner
    return isinstance(block, ir.Block) and block.owner.operation.name == "stablehlo.while"


def _push(view: ir.OpView) -> ir.WalkResult:
    op = view.operation
    if op.name != "sdy.sharding_constraint" or not sdy.unreduced_of(op.attributes["sharding"]):
        return ir.WalkResult.ADVANCE
    value = op.operands[0]
    source = maker(value)
    if source is not None and source.name == "sdy.sharding_constraint":
        if _is_carried(source):  # whole; `sink_reductions` moves sums behind loops
            op.results[0].replace_all_uses_with(source.operands[0])
        else:
            _hold(source)
    elif source is None or not facts(source).linear or only_user(value) is None:
        pass  # a whole value: Shardy makes parts of it
    elif "sdy.sharding" not in source.attributes:
        source.attributes["sdy.sharding"] = sdy.for_values(op.attributes["sharding"])
        supersede(op, value)
    return ir.WalkResult.ADVANCE


# -- started collectives --------------------------------------------------------------------------

_STARTED, _DONE = "weft.started", "weft.done"


def detach_async(module: ir.Module) -> bool:
    """Turn what is started and done at one place each into a collective and a barrier."""
    if not _operations(module, "stablehlo.async_start"):
        return False
    passes.run(module, "inline{default-pipeline= },symbol-dce")  # each call's own get own numbers
    detached = 0
    with module.context:
        i64 = ir.IntegerType.get_signless(64)
        for op in _operations(module, "stablehlo.async_start"):
            collective, done = _collective_in(op), _done_of(op)
            if collective is None or done is None:
                continue  # not written by weft: it stays, and its operand is gathered
            number = ir.IntegerAttr.get(i64, detached)
            detached += 1
            collective.move_before(op)
            collective.operands[0] = op.operands[0]
            collective.attributes[_STARTED] = number
            value = collective.results[0]
            barrier = insert(done, _BARRIER, [value.type], [value], {_DONE: number})
            supersede(done, *barrier.results)
            op.erase()
    return bool(detached)


def reattach_async(module: ir.Module) -> None:
    """Put the collectives that `detach_async` marked into starts again, with their dones."""
    with module.context:
        starts = {
            op.attributes[_STARTED].value: op
            for name in KINDS
            for op in _operations(module, name)
            if _STARTED in op.attributes
        }
        for barrier in _operations(module, _BARRIER):
            if _DONE not in barrier.attributes:
                continue
            collective = starts.pop(barrier.attributes[_DONE].value, None)
            if collective is not None and collective.block == barrier.block:
                _start_again(collective, barrier)
            supersede(barrier, *barrier.operands)
        for op in starts.values():  # nothing takes its value any more
            del op.attributes[_STARTED]


def _start_again(collective: ir.Operation, barrier: ir.Operation) -> None:
    """Return the collective in a start; its done and dependents, in front of the barrier."""
    del collective.attributes[_STARTED]
    [operand], [result] = collective.operands, collective.results
    waiting = _uses_between(collective, barrier)
    future = ir.Type.parse(f"!stablehlo.future<{result.type}>")
    start = insert(collective, "stablehlo.async_start", [future], [operand], regions=1)
    block = start.regions[0].blocks.append(operand.type, arg_locs=[collective.location])
    first = waiting[0] if waiting else barrier
    done = ir.Operation.create(
        "stablehlo.async_done",
        [result.type],
        [start.results[0]],
        loc=barrier.location,
        ip=ir.InsertionPoint(first),
    )
    result.replace_all_uses_with(done.results[0])
    collective.operands[0] = block.arguments[0]
    end = ir.Operation.create(
        "stablehlo.return",
        operands=[collective.results[0]],
        loc=collective.location,
        ip=ir.InsertionPoint(block),
    )
    collective.move_before(end)
    if _leads_to(waiting, barrier):
        for op in (done, *waiting):
            op.move_before(barrier)


def _uses_between(collective: ir.Operation, barrier: ir.Operation) -> list[ir.Operation]:
    """Return the operations in front of the barrier that use the collective's value, in order."""
    values = {collective.results[0]}
    uses, inside = [], False
    for op in ops_in(collective.block):
        if op == barrier:
            break
        if inside and _reads(op, values):
            uses.append(op)
            values.update(op.results)
        inside = inside or op == collective
    return uses


def _reads(op: ir.Operation, values: set) -> bool:
    return any(v in values for each in (op, *outer_first(op)) for v in each.operands)


def _leads_to(waiting: list[ir.Operation], barrier: ir.Operation) -> bool:
    """Return whether nothing but the barrier takes what these operations make of the value."""
    users = {op for op in waiting} | {barrier}
    return all(use.owner.operation in users for op in waiting for v in op.results for use in v.uses)


def _operations(module: ir.Module, name: str) -> list[ir.Operation]:
    return [op for op in inner_first(module.body) if op.name == name]


def _collective_in(start: ir.Operation) -> ir.Operation | None:
    """Return the collective that a start holds, if it holds one of one operand and no more."""
    *inner, _ = ops_in(start.regions[0].blocks[0])
    if len(inner) != 1 or inner[0].name not in KINDS or len(inner[0].operands) != 1:
        return None
    return inner[0]


def _done_of(start: ir.Operation) -> ir.Operation | None:
    user = only_user(start.results[0])
    return user if user is not None and user.name == "stablehlo.async_done" else None

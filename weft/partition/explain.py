# Tests: tests/partition/test_collect.py, tests/partition/report/test_communication.py
"""Says why each collective exists: who produced, who consumed, and where their shardings came from.

Runs on the module with explicit sdy collectives after a propagation that recorded Shardy's sharding
origins. The text travels as the attribute `weft.why` to the collectives of the local program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.collect import source_line
from weft.partition.ops import facts
from weft.partition.origins import NAME, ORIGINS
from weft.partition.walk import WHY, maker, number_of, outer_first, sharding_of

_PARTIAL = ("sdy.all_reduce", "sdy.reduce_scatter")


def constraint_lines(module: ir.Module) -> dict[str, str]:
    """Source line of every named constraint of a propagated module."""
    return {
        op.attributes[NAME].value: source_line(op.location)
        for op in outer_first(module.operation)
        if NAME in op.attributes
    }


def annotate(module: ir.Module, constraints: dict[str, str], arguments: Sequence[str] = ()) -> None:
    """Write `weft.why` on every sdy collective of the module.

    constraints: source line of each, from `constraint_lines`. arguments: their names for the user.
    """

    def named(match: re.Match) -> str:
        number = int(match[1])
        return f"argument {arguments[number]}" if number < len(arguments) else match[0]

    for op in outer_first(module.operation):
        if _moves(op):
            text = re.sub(r"\bargument (\d+)\b", named, _reason(op, constraints))
            op.attributes[WHY] = ir.StringAttr.get(text, module.context)


def nearest_location(op: ir.Operation) -> ir.Location:
    """Return a collective's own location, or, without a line, its consumer's or producer's."""
    for near in (op, _first_user(op) if _moves(op) else None, _producer(op)[0]):
        if near is not None and source_line(near.location):
            return near.location
    return op.location


def _reason(op: ir.Operation, constraints: dict[str, str]) -> str:
    producer, number = _producer(op)
    produced = _named(producer, number, op.operands[0])
    origins = _origins(producer, number)
    if op.name in _PARTIAL:
        key = "reduction_axes" if op.name == "sdy.all_reduce" else "reduce_scatter_axes"
        axes = [r[0] for r in sdy.axis_refs(op.attributes[key])]
        sources = _operand_origins(producer, axes, constraints)
        text = f"{produced} splits what it sums over {', '.join(sorted(set(axes)))}"
        return text + (f" ({sources})" if sources else "")
    consumer = _consumer(op)
    have = _dims_text(_sharding_before(op))
    want = _dims_text(sdy.target_of(op))
    text = f"{produced} gives {have}{_origin_text(origins, constraints)}; {consumer} needs {want}"
    user = _first_user(op)
    if user is not None and not user.name.endswith("return"):
        text += _origin_text(_origins(user, 0), constraints)
    return text


def _producer(op: ir.Operation) -> tuple[ir.Operation | None, int]:
    """Return the operation behind a chain of sdy collectives, with the result's number."""
    value = op.operands[0]
    while (source := maker(value)) is not None and _moves(source):
        value = source.operands[0]
    return source, number_of(value)


def _moves(op: ir.Operation) -> bool:
    return facts(op).relayout or op.name in _PARTIAL


def _first_user(op: ir.Operation) -> ir.Operation | None:
    for use in op.results[0].uses:
        user = use.owner.operation
        return _first_user(user) if _moves(user) else user
    return None


def _consumer(op: ir.Operation) -> str:
    user = _first_user(op)
    if user is None:
        return "its user"
    if user.name == "func.return":
        return "the result"
    return op_text(user)


def _named(producer: ir.Operation | None, number: int, value: ir.Value) -> str:
    if producer is None:
        block = value.owner if isinstance(value.owner, ir.Block) else None
        outer = block is not None and block.owner.operation.name == "func.func"
        return f"argument {number}" if outer else f"carry {number}"
    return op_text(producer)


def op_text(op: ir.Operation) -> str:
    """Return an operation's name and the user's line, for reasons."""
    line = source_line(op.location)
    return op.name.split(".")[-1] + (f" ({line})" if line else "")


def _sharding_before(op: ir.Operation) -> ir.Attribute | None:
    """Return the sharding of a collective's operand."""
    source = maker(op.operands[0])
    moved = source is not None and _moves(source)
    return sdy.target_of(source) if moved else sharding_of(op.operands[0])


def _dims_text(sharding: ir.Attribute | None) -> str:
    """`(x, –)`: the axes of each dimension."""
    if sharding is None:
        return "replicated"
    dims = sdy.dims_of(sharding)
    if not any(dims):
        return "replicated"

    def axis(ref: sdy.AxisRef) -> str:
        name, pre, size = ref
        return name if size is None else f"{name}:({pre}){size}"

    return "(" + ", ".join("·".join(map(axis, d)) if d else "–" for d in dims) + ")"


def _origins(op: ir.Operation | None, number: int) -> dict[str, str]:
    """Read the origin of each axis of a result, as Shardy recorded it."""
    if op is None or ORIGINS not in op.attributes:
        return {}
    attribute = op.attributes[ORIGINS]
    if isinstance(attribute, ir.ArrayAttr):
        attribute = attribute[min(number, len(attribute) - 1)]
    return {e.name: e.attr.value for e in ir.DictAttr(attribute)}


def _operand_origins(op: ir.Operation | None, axes: list[str], constraints: dict[str, str]) -> str:
    """Say where the split of summed dimensions came from: the operands' origins of the axes."""
    sources: dict[str, str] = {}
    for value in op.operands if op is not None else ():
        source = maker(value)
        if source is None and value.owner.owner.operation.name == "func.func":
            text = _dims_text(sharding_of(value))
            for axis in axes:
                if axis in text:
                    sources.setdefault(axis, f"argument {number_of(value)}")
        for axis, origin in _origins(source, number_of(value)).items():
            if axis.split(":")[0] in axes:
                sources.setdefault(axis, _origin_name(origin, constraints))
    return ", ".join(f"{axis} from {where}" for axis, where in sorted(sources.items()))


def _origin_text(origins: dict[str, str], constraints: dict[str, str]) -> str:
    if not origins:
        return ""
    parts = (f"{axis} from {_origin_name(o, constraints)}" for axis, o in sorted(origins.items()))
    return f" ({', '.join(parts)})"


def _origin_name(origin: str, constraints: dict[str, str]) -> str:
    """`input: 0` → `argument 0`; a constraint by its source line."""
    if match := re.fullmatch(r"(input|output): (\d+)", origin):
        return ("argument " if match[1] == "input" else "result ") + match[2]
    line = constraints.get(origin, "")
    return f"the constraint at {line}" if line else origin.replace("_", " ")

# Tests: tests/compat/test_other_modules.py
"""Writes a program's metadata for XLA on its operations, as frontend attributes.

Metadata are scopes of the source, `xla_metadata(key=value,…)`: like all scopes they go through
transformations, and become parts of the operations' names. Source: XLA's documentation of
`HloInstruction::frontend_attributes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from weft._xla.mlir import ir

_ATTRIBUTES = "mhlo.frontend_attributes"
_SCOPE = re.compile(r"xla_metadata(_of_value)?\(([^()]*)\)")


def scope(metadata: Mapping[str, str], of_value: bool = False) -> str:
    """Name the scope whose operations get these metadata; or, of a value, its producer."""
    pairs = ",".join(f"{quote(k)}={quote(v)}" for k, v in sorted(metadata.items()))
    return f"xla_metadata{'_of_value' if of_value else ''}({pairs})"


def attach(module: ir.Module) -> None:
    """Put the metadata in operations' names into their attributes.

    A barrier in the scope of a value only says which operation made the value: it is removed.
    """
    barriers = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        of_op: dict[str, str] = {}
        for of_value, pairs in _SCOPE.findall(str(op.location)):
            scope = {unquote(k): unquote(v) for k, v in (p.split("=") for p in pairs.split(","))}
            if not of_value:
                of_op |= scope
            elif op.name == "stablehlo.optimization_barrier":
                barriers.append((op, scope))
        if of_op and op.results:
            _add(op, of_op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for barrier, scope in barriers:
        for operand, result in zip(barrier.operands, barrier.results, strict=True):
            if isinstance(operand.owner, ir.Operation | ir.OpView):
                _add(operand.owner, scope)
            result.replace_all_uses_with(operand)
        barrier.erase()


def _add(op: ir.Operation, metadata: Mapping[str, str]) -> None:
    before = op.attributes.get(_ATTRIBUTES, ())
    entries = {entry.name: entry.attr for entry in before}
    entries |= {key: ir.StringAttr.get(value) for key, value in metadata.items()}
    op.attributes[_ATTRIBUTES] = ir.DictAttr.get(entries)

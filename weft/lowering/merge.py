# Tests: tests/test_export.py
"""Calls of another module's functions inside of a module under construction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla.mlir import ir
from weft.lowering.context import RuleContext, parse_attr, string_attr
from weft.lowering.module import ModuleContext

if TYPE_CHECKING:
    from weft.export.exported import Exported


def call_module(
    ctx: RuleContext,
    owner: Exported,
    parse: Callable[[], ir.Module],
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
) -> list[ir.Value]:
    """Call the `@main` of the module that `parse` gives, which is taken in once for its owner."""
    functions = ctx.module._functions
    key = ("merged", id(owner))
    if key not in functions:
        functions[key] = (_merge(ctx.module, parse()), owner)
    callee = ir.FlatSymbolRefAttr.get(functions[key][0], ctx.module.module.context)
    return list(ctx.op("func.call", operands, types, {"callee": callee}))


def _merge(module: ModuleContext, other: ir.Module) -> str:
    """Move the functions over, all of them private, and give the name of `@main` here.

    `@main` loses the attributes of an entry point. The other's mesh must be this module's.
    """
    functions = [op.operation for op in other.body.operations if op.operation.name == "func.func"]
    old = [f.attributes["sym_name"].value for f in functions]
    new_names = [module.symbol(name) for name in old]
    between = [f"merged {i}" for i in range(len(new_names))]  # a name here may be an old one there
    for names, targets in ((old, between), (between, new_names)):
        for name, target in zip(names, targets, strict=True):
            ir.SymbolTable.replace_all_symbol_uses(name, target, other.operation)
    for f, name, target in zip(functions, old, new_names, strict=True):
        f.attributes["sym_name"] = string_attr(target)
        f.attributes["sym_visibility"] = string_attr("private")
        for attrs in ("arg_attrs", "res_attrs"):
            if name == "main" and attrs in f.attributes:
                del f.attributes[attrs]

    def renumber(op: ir.Operation) -> Any:
        if "channel_handle" in op.attributes:
            number = f"handle = {module.next_channel()},"
            text = re.sub(r"handle = \d+,", number, str(op.attributes["channel_handle"]))
            op.attributes["channel_handle"] = parse_attr(text)
        return ir.WalkResult.ADVANCE

    other.operation.walk(renumber)
    end = ir.InsertionPoint(module.module.body)
    known = {
        op.attributes["sym_name"].value
        for op in module.module.body.operations
        if op.operation.name == "sdy.mesh"
    }
    for op in list(other.body.operations):  # as the empty one of values that are whole
        name = op.operation.name
        if name == "sdy.mesh" and op.operation.attributes["sym_name"].value not in known:
            ir.InsertionPoint.at_block_begin(module.module.body).insert(
                op.operation.detach_from_parent()
            )
    for f in functions:
        end.insert(f.detach_from_parent())
    return new_names[old.index("main")]

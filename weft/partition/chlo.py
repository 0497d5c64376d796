"""Carries CHLO operations through Shardy, which knows no rules for them.

An elementwise CHLO operation (erf, lgamma, …) becomes a custom call with a pointwise sharding rule
before propagation and itself again in the local program. XLA then sees the operation and not its
expansion into a polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from weft._xla.mlir import ir

ELEMENTWISE = frozenset(
    f"chlo.{name}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh"),
        *("digamma", "erf", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma"),
        *("next_after", "polygamma", "sinh", "square", "tan", "zeta"),
    )
)
PREFIX = "weft."


def hide(module: ir.Module) -> None:
    """Replaces CHLO operations by custom calls with sharding rules, in place."""
    for op in list(_walk(module.operation)):
        if op.name in ELEMENTWISE:
            rank = len(op.results[0].type.shape)
            dims = "[" + ", ".join(_letter(i) for i in range(rank)) + "]"
            operands = ", ".join([dims] * len(op.operands))
            _replace(op, f"({operands})->({dims})", op.results[0].type.shape, [])
        elif op.name == "chlo.top_k":
            shape = list(op.operands[0].type.shape)
            k = op.results[0].type.shape[-1]
            lead = [_letter(i) for i in range(len(shape) - 1)]
            last, kept = _letter(len(shape) - 1), _letter(len(shape))
            source, out = ", ".join([*lead, last]), ", ".join([*lead, kept])
            _replace(op, f"([{source}])->([{out}], [{out}])", [*shape, k], [last, kept])


def shown(op: ir.Operation) -> str | None:
    """The CHLO name behind a custom call made by `hide`, else None."""
    target = op.attributes["call_target_name"].value
    return target[len(PREFIX) :] if target.startswith(PREFIX + "chlo.") else None


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes the CHLO operation had."""
    return {a.name: a.attr for a in ir.DictAttr(op.attributes["weft.attributes"])}


def _replace(op: ir.Operation, mapping: str, sizes, whole: list[str]) -> None:
    context = op.context
    factors = ", ".join(f"{_letter(i)}={n}" for i, n in enumerate(sizes))
    need = f" need_replication={{{', '.join(whole)}}}" if whole else ""
    # A rule needs at least one factor; rank 0 has none and needs no rule.
    attributes = {
        "call_target_name": ir.StringAttr.get(PREFIX + op.name, context),
        "weft.attributes": ir.DictAttr.get({k: op.attributes[k] for k in op.attributes}, context),
    }
    if sizes and math.prod(sizes):
        text = f"#sdy.op_sharding_rule<{mapping} {{{factors}}}{need}, custom>"
        attributes["sdy.sharding_rule"] = ir.Attribute.parse(text, context)
    made = ir.Operation.create(
        "stablehlo.custom_call",
        results=[r.type for r in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _letter(index: int) -> str:
    """Factor names as Shardy prints them: i … z, then z_1, z_2, …"""
    return chr(ord("i") + index) if index < 18 else f"z_{index - 17}"


def _walk(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                yield inner
                if inner.regions:
                    yield from _walk(inner)

# Tests: tests/sharding/test_text.py, tests/partition/test_propagate.py
"""The Shardy dialect's attributes: meshes, axes, shardings, sharding rules."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _sdy

AxisRef = tuple[str, int, int | None]


def mesh_axes(mesh: ir.Attribute) -> dict[str, int]:
    """Return axis names and sizes of a MeshAttr, major first."""
    axes = (_sdy.MeshAxisAttr(a) for a in _sdy.MeshAttr(mesh).axes)
    return {a.name: a.size for a in axes}


def mesh_device_ids(mesh: ir.Attribute) -> list[int]:
    """Device ids of a MeshAttr; empty when they are 0, 1, 2, …."""
    return list(_sdy.MeshAttr(mesh).device_ids)


def axis_ref(axis: ir.Attribute) -> AxisRef:
    """(name, pre-size, size) of an AxisRefAttr; size None for a whole axis."""
    ref = _sdy.AxisRefAttr(axis)
    info = ref.sub_axis_info
    if info is None:
        return ref.name, 1, None
    piece = _sdy.SubAxisInfoAttr(info)
    return ref.name, piece.pre_size, piece.size


def dim_axes(dim: ir.Attribute) -> tuple[AxisRef, ...]:
    """Return the axes of one DimensionShardingAttr."""
    return tuple([axis_ref(a) for a in _sdy.DimensionShardingAttr(dim).axes])


@functools.lru_cache(maxsize=4096)
def dims_of(sharding: ir.Attribute) -> tuple[tuple[AxisRef, ...], ...]:
    """Return the axes of each dimension of a TensorShardingAttr."""
    return tuple([dim_axes(d) for d in _sdy.TensorShardingAttr(sharding).dimension_shardings])


@functools.lru_cache(maxsize=4096)
def unreduced_of(sharding: ir.Attribute) -> tuple[AxisRef, ...]:
    """Return the unreduced axes of a TensorShardingAttr."""
    return tuple([axis_ref(a) for a in _sdy.TensorShardingAttr(sharding).unreduced_axes])


def argument_sharding(function: ir.Operation, number: int) -> Any:
    """Return the sharding on an argument of a func.func operation, or None."""
    if "arg_attrs" not in function.attributes:
        return None
    entries = {e.name: e.attr for e in function.attributes["arg_attrs"][number]}
    return entries.get("sdy.sharding")


@functools.lru_cache(maxsize=4096)
def per_value(attribute: ir.Attribute) -> tuple[Any, ...]:
    """Return the shardings of a TensorShardingPerValueAttr, one a value."""
    return tuple(_sdy.TensorShardingPerValueAttr(attribute).shardings)


def for_values(*shardings: ir.Attribute) -> Any:
    """Return the attribute for these shardings of an operation's results."""
    texts = (str(s).removeprefix("#sdy.sharding") for s in shardings)
    text = f"#sdy.sharding_per_value<[{', '.join(texts)}]>"
    return ir.Attribute.parse(text, shardings[0].context)


def target_of(op: ir.Operation) -> Any:
    """Return the sharding that one of Shardy's collectives, reshards or constraints asks for."""
    short = op.name in ("sdy.reshard", "sdy.sharding_constraint")
    return op.attributes["sharding" if short else "out_sharding"]


def axis_refs(attribute: ir.Attribute) -> list[AxisRef]:
    """Return the axes of an axis-ref list, which has no class (quirks.AXIS_REF_LISTS)."""
    matches = re.findall(r'"([^"]+)"(?::\((\d+)\)(\d+))?', str(attribute))
    return [(name, int(pre or 1), int(size) if size else None) for name, pre, size in matches]


def manual_axes(attribute: ir.Attribute) -> list[str]:
    """Return the names in a ManualAxesAttr."""
    axes = _sdy.ManualAxesAttr(attribute)
    return [axes[i] for i in range(len(axes))]


class ShardingRule(NamedTuple):
    """An op_sharding_rule: factor numbers of each operand's and result's dimensions.

    `whole` are the factors that cannot be split without elements of other devices.
    """

    sizes: tuple[int, ...]
    operands: tuple[tuple[tuple[int, ...], ...], ...]
    results: tuple[tuple[tuple[int, ...], ...], ...]
    reduction: frozenset[int]
    whole: frozenset[int]

    def places(self, factor: int) -> list[tuple[int, int]]:
        """Return the (operand, dimension) pairs whose major factor this is."""
        return [
            (i, d)
            for i, mapping in enumerate(self.operands)
            for d, factors in enumerate(mapping)
            if factors[:1] == (factor,)
        ]


def is_custom(attribute: ir.Attribute) -> bool:
    """Return whether a user wrote an OpShardingRuleAttr; others are Shardy's own."""
    return _sdy.OpShardingRuleAttr(attribute).is_custom


@functools.lru_cache(maxsize=4096)
def sharding_rule(attribute: ir.Attribute) -> ShardingRule:
    """Return the contents of an OpShardingRuleAttr."""
    rule = _sdy.OpShardingRuleAttr(attribute)

    def mappings(tensors: list) -> tuple[tuple[tuple[int, ...], ...], ...]:
        return tuple(
            tuple(
                tuple(_sdy.DimMappingAttr(d).factor_indices)
                for d in _sdy.TensorMappingAttr(t).dim_mappings
            )
            for t in tensors
        )

    return ShardingRule(
        tuple(rule.factor_sizes),
        mappings(rule.operand_mappings),
        mappings(rule.result_mappings),
        frozenset(rule.reduction_factors),
        frozenset((*rule.need_replication_factors, *rule.permutation_factors)),
    )

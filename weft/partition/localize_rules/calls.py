"""custom_call: split where a sharding rule allows, whole otherwise."""

from __future__ import annotations

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.factored import by_factor, split_factors, whole, whole_sums
from weft.partition.localize_rules.host import host_call, is_host_call
from weft.partition.localize_rules.kernels import is_kernel, kernel_call
from weft.partition.ops import calls_lapack


@rule("stablehlo.custom_call")
def custom_call(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    outs = lz.layouts(op)
    xs = lz.operands(op)
    if is_kernel(op):
        return kernel_call(lz, op, xs, outs)
    rule = op.attributes.get("sdy.sharding_rule", None)
    if rule is not None and sdy.is_custom(rule):
        return _by_rule(lz, op, xs, outs)
    if is_host_call(op):
        return host_call(lz, op, xs, outs)
    _drop_channel(op)
    return whole(lz, op)


def _drop_channel(op: ir.Operation) -> None:
    """Name no channel: a native ragged_all_to_all has one where devices are partitions.

    Number 0 stands for none: without any, the process ends (quirks.RAGGED_CHANNEL).
    """
    if "backend_config" in op.attributes and op.attributes["call_target_name"].value == (
        "ragged_all_to_all"
    ):
        config = {a.name: a.attr for a in op.attributes["backend_config"]}
        config["channel_id"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        op.attributes["backend_config"] = ir.DictAttr.get(config)


def _by_rule(
    lz: Localizer, op: ir.Operation, xs: list[LocalValue], outs: list[AxisLayout]
) -> list[LocalValue]:
    """Split shared factors as results are; reductions give partial sums."""
    r = sdy.sharding_rule(op.attributes["sdy.sharding_rule"])
    shared = _factors(r.operands) & _factors(r.results)
    zeros = calls_lapack(op)

    def divides(factor: int, parts: int) -> bool:
        return r.sizes[factor] % parts == 0

    def follows(factor: int, parts: int) -> bool:
        return factor in shared - set(r.reduction) and (zeros or divides(factor, parts))

    def reduces(factor: int, parts: int) -> bool:
        return factor in r.reduction and divides(factor, parts)

    operands = list(zip([x.layout for x in xs], r.operands, strict=True))
    split = split_factors(r, [*zip(outs, r.results, strict=True), *operands], follows)
    split = split_factors(r, operands, reduces, split)
    values = []
    for x, mapping in zip(xs, r.operands, strict=True):
        moved = lz.move(x, by_factor(split, x.layout, mapping))
        values.append(fill_padding(lz.e, moved, range(len(mapping))).value)
    now = [by_factor(split, o, m) for o, m in zip(outs, r.results, strict=True)]
    del op.attributes["sdy.sharding_rule"]
    got = whole_sums(lz, r, split, lz.keep(op, values, now))
    return [lz.move(x, o) for x, o in zip(got, outs, strict=True)]


def _factors(tensors) -> set[int]:
    return {f for mapping in tensors for dim in mapping for f in dim}

"""Operations that need some dimensions whole: sort, fft, cholesky, triangular_solve, generators."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.axis_layout import Layout
from weft.partition.emit import Emitter
from weft.partition.local_value import Local
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.choice import choose, deliver

_ORDERING = 100  # operations for one element in one of the passes of a sort


@rule("stablehlo.sort")
def sort(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    dim = op.attributes["dimension"].value if "dimension" in op.attributes else -1
    size = outs[0].shape[dim]
    return _whole(lz, op, outs, {dim % len(outs[0].shape)}, _ORDERING * max(size, 1).bit_length())


@rule("stablehlo.fft")
def fft(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    rank = len(outs[0].shape)
    lengths = list(op.attributes["fft_length"])
    flops = 5 * sum(n.bit_length() for n in lengths)
    dims = set(range(rank - len(lengths), rank))
    return _whole(lz, op, outs, dims, flops, in_order=True)


def _in_order(e: Emitter, value: ir.Value) -> ir.Value:
    """The value with its last dimension innermost in memory.

    XLA:CPU lays out operands of FFTs for what is before or behind them, such as an all_to_all, and
    then refuses them as it runs (jaxlib 0.10.2).
    """
    rank = len(value.type.shape)
    if rank < 2:
        return value
    minor_to_major = f"[dense<{list(reversed(range(rank)))}> : tensor<{rank}xindex>]"
    order = ir.Attribute.parse(minor_to_major, context=e.context)
    return e.make(
        "stablehlo.custom_call",
        (value,),
        value.type,
        call_target_name=ir.StringAttr.get("LayoutConstraint", e.context),
        operand_layouts=order,
        result_layouts=order,
    )


@rule("stablehlo.cholesky", "stablehlo.triangular_solve")
def matrices(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    rank = len(outs[0].shape)
    return _whole(lz, op, outs, {rank - 2, rank - 1}, outs[0].shape[-1])


def _whole(
    lz: Localizer,
    op: ir.Operation,
    outs: list[Layout],
    dims: set[int],
    flops: float,
    in_order: bool = False,
) -> list[Local]:
    """All operands and results share the first result's layout, with `dims` whole.

    in_order: they lie in memory with their last dimension innermost.
    """
    shapes = [x.layout.shape for x in lz.operands(op)]
    xs, now = choose(
        lz,
        op,
        outs[0],
        range(len(shapes)),
        lambda index, layout: Layout(lz.mesh, shapes[index], layout.dims),
        fit=lambda layout: layout.without(*dims),
        make=lambda index, layout: Layout(lz.mesh, outs[0].shape, layout.dims),
        flops=flops,
    )
    values = [_in_order(lz.e, x.value) if in_order else x.value for x in xs]
    got = lz.keep(op, values, [Layout(lz.mesh, o.shape, now.dims) for o in outs])
    if in_order:
        got = [Local(_in_order(lz.e, x.value), x.layout) for x in got]
    return [deliver(lz, op, x, o) for x, o in zip(got, outs, strict=True)]


@rule("stablehlo.rng_bit_generator")
def rng_bit_generator(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Every device makes the whole array and keeps its share: the bits are those of one device."""
    outs = lz.layouts(op)
    state = lz.operand(op, 0)
    value = lz.at(state, state.layout.whole)
    return lz.keep_and_move(op, [value], [o.whole for o in outs], outs)

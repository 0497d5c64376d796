"""Operations that need some dimensions whole: sort, fft, cholesky, triangular_solve, generators."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.axis_layout import Layout
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
    return _whole(lz, op, outs, set(range(rank - len(lengths), rank)), flops)


@rule("stablehlo.cholesky", "stablehlo.triangular_solve")
def matrices(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    rank = len(outs[0].shape)
    return _whole(lz, op, outs, {rank - 2, rank - 1}, outs[0].shape[-1])


def _whole(
    lz: Localizer, op: ir.Operation, outs: list[Layout], dims: set[int], flops: float
) -> list[Local]:
    """All operands and results share the first result's layout, with `dims` whole."""
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
    got = lz.keep(op, [x.value for x in xs], [Layout(lz.mesh, o.shape, now.dims) for o in outs])
    return [deliver(lz, op, x, o) for x, o in zip(got, outs, strict=True)]


@rule("stablehlo.rng_bit_generator")
def rng_bit_generator(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Every device makes the whole array and keeps its share: the bits are those of one device."""
    outs = lz.layouts(op)
    state = lz.operand(op, 0)
    value = lz.at(state, state.layout.whole)
    return lz.keep_and_move(op, [value], [o.whole for o in outs], outs)

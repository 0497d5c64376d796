"""Operations that need some dimensions whole: sort, fft, cholesky, triangular_solve, generators."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.layout import Layout
from weft.partition.local import Local
from weft.partition.localize import Localizer, rule


@rule("stablehlo.sort")
def sort(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    dim = op.attributes["dimension"].value if "dimension" in op.attributes else -1
    return _whole(lz, op, outs, {dim % len(outs[0].shape)})


@rule("stablehlo.fft")
def fft(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    rank = len(outs[0].shape)
    return _whole(lz, op, outs, set(range(rank - len(list(op.attributes["fft_length"])), rank)))


@rule("stablehlo.cholesky", "stablehlo.triangular_solve")
def matrices(lz: Localizer, op: ir.Operation) -> list[Local]:
    outs = lz.layouts(op)
    rank = len(outs[0].shape)
    return _whole(lz, op, outs, {rank - 2, rank - 1})


def _whole(lz: Localizer, op: ir.Operation, outs: list[Layout], dims: set[int]) -> list[Local]:
    """All operands and results share the first result's layout, with `dims` whole."""
    now = outs[0].without(*dims)
    values = [lz.at(x, Layout(lz.mesh, x.layout.shape, now.dims)) for x in lz.operands(op)]
    got = lz.keep(op, values, [Layout(lz.mesh, o.shape, now.dims) for o in outs])
    lz.after(op)
    return [lz.move(x, o) for x, o in zip(got, outs, strict=True)]


@rule("stablehlo.rng_bit_generator")
def rng_bit_generator(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Every device makes the whole array and keeps its share: the bits are those of one device."""
    outs = lz.layouts(op)
    wholes = [o.without(*range(len(o.shape))) for o in outs]
    state = lz.operand(op, 0)
    value = lz.at(state, state.layout.without(*range(len(state.layout.shape))))
    got = lz.keep(op, [value], wholes)
    lz.after(op)
    return [lz.move(x, o) for x, o in zip(got, outs, strict=True)]

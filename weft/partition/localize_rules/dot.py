"""Contractions: stablehlo.dot_general."""

from __future__ import annotations

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.layout import Atoms, Layout
from weft.partition.localize import Localizer, rule
from weft.partition.reshard import Local, fill_padding


@rule("stablehlo.dot_general")
def dot_general(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Batch and free dimensions follow the result; a split contraction gives a partial sum."""
    out = lz.layouts(op)[0]
    lhs, rhs = lz.operands(op)
    numbers = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
    lhs_dims: list[Atoms] = [()] * len(lhs.layout.shape)
    rhs_dims: list[Atoms] = [()] * len(rhs.layout.shape)
    place = iter(out.dims)
    for left, right in zip(numbers.lhs_batch, numbers.rhs_batch, strict=True):
        lhs_dims[left] = rhs_dims[right] = next(place)
    for dims, batch, contract in (
        (lhs_dims, numbers.lhs_batch, numbers.lhs_contract),
        (rhs_dims, numbers.rhs_batch, numbers.rhs_contract),
    ):
        for d in range(len(dims)):
            if d not in batch and d not in contract:
                dims[d] = next(place)
    taken = set(out.used)
    across: Atoms = ()
    for left, right in zip(numbers.lhs_contract, numbers.rhs_contract, strict=True):
        a = _free(lhs.layout.dims[left], taken)
        b = _free(rhs.layout.dims[right], taken)
        atoms = a or b
        lhs_dims[left] = rhs_dims[right] = atoms
        taken.update(atoms)
        across += atoms
    x = lz.move(lhs, Layout(lz.mesh, lhs.layout.shape, tuple(lhs_dims)))
    y = lz.move(rhs, Layout(lz.mesh, rhs.layout.shape, tuple(rhs_dims)))
    x = fill_padding(lz.e, x, numbers.lhs_contract)
    y = fill_padding(lz.e, y, numbers.rhs_contract)
    [z] = lz.keep(op, [x.value, y.value], [out])
    if across:
        z.partial = (across, "add")
    return [z]


def _free(atoms: Atoms, taken: set[int]) -> Atoms:
    stop = next((j for j, i in enumerate(atoms) if i in taken), len(atoms))
    return atoms[:stop]

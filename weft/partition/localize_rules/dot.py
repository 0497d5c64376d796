"""Contractions: stablehlo.dot_general."""

from __future__ import annotations

import math

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.collect import byte_size_of
from weft.partition.layout import Atoms, Layout
from weft.partition.local import Local, fill_padding
from weft.partition.localize import Localizer, rule


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
    if across and _gather_is_cheaper(lz, op, lhs, rhs, lhs_dims, rhs_dims, numbers, out, across):
        for dims, contract in ((lhs_dims, numbers.lhs_contract), (rhs_dims, numbers.rhs_contract)):
            for d in contract:
                dims[d] = ()
        lhs, rhs, across = lhs.unsliced or lhs, rhs.unsliced or rhs, ()
    x = lz.move(lhs, Layout(lz.mesh, lhs.layout.shape, tuple(lhs_dims)))
    y = lz.move(rhs, Layout(lz.mesh, rhs.layout.shape, tuple(rhs_dims)))
    x = fill_padding(lz.e, x, numbers.lhs_contract)
    y = fill_padding(lz.e, y, numbers.rhs_contract)
    [z] = lz.keep(op, [x.value, y.value], [out])
    if across:
        z.partial = (across, "add")
    return [z]


def _gather_is_cheaper(
    lz: Localizer, op, lhs: Local, rhs: Local, lhs_dims, rhs_dims, numbers, out: Layout, across
) -> bool:
    """True where one operand was sliced to fit a split contraction, and gathering the other one
    sends less than reducing the result."""
    sides = [(lhs, lhs_dims, numbers.lhs_contract), (rhs, rhs_dims, numbers.rhs_contract)]
    whole = [
        x.unsliced is not None and not any(x.unsliced.layout.dims[d] for d in contract)
        for x, _, contract in sides
    ]
    if sum(whole) != 1:
        return False
    other, dims, _ = sides[whole.index(False)]
    n = lz.mesh.count(across)
    held = Layout(lz.mesh, other.layout.shape, tuple(dims))
    gathered = (n - 1) * math.prod(held.local) * byte_size_of(other.value.type.element_type)
    users = [use.owner.operation.name for use in op.results[0].uses]
    passes = 1 if users == ["sdy.reduce_scatter"] else 2
    size = math.prod(out.local) * byte_size_of(op.results[0].type.element_type)
    return gathered < passes * (n - 1) * size // n


def _free(atoms: Atoms, taken: set[int]) -> Atoms:
    stop = next((j for j, i in enumerate(atoms) if i in taken), len(atoms))
    return atoms[:stop]

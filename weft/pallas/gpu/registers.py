"""Refs that a program holds in registers: those it only ever reads and writes as a whole.

A cell has no memory: what it holds is a value of the program. Loops carry it and branches return
it, so an accumulator stays next to the matrix units, and no barrier orders its uses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft._xla.mlir import ir
from weft.core.jaxpr import Eqn, open_jaxpr
from weft.core.ref import AbstractRef
from weft.pallas.gpu.emitter import Emitter, padded
from weft.pallas.ir import ACCESSES, ref_operands
from weft.pallas.uses import passed

if TYPE_CHECKING:
    from weft.core.jaxpr import ClosedJaxpr

BYTES = 512
"""Limit of a thread's registers for one ref, of its 255 of 4 bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A ref in registers; `Emitter.cells` has its value."""

    shape: tuple[int, ...]
    dtype: Any


def new_cell(e: Emitter, ref: AbstractRef) -> Cell:
    """Return a cell of a ref's type, of zeros: what a ref holds at first is unspecified."""
    cell = Cell(ref.shape, ref.dtype)
    e.cells[cell] = e.constant(0, ref.shape, ref.dtype)
    return cell


def holds(jaxpr: ClosedJaxpr, index: int, ref: AbstractRef, threads: int) -> bool:
    """Tell whether a body's index-th operand, a ref, can be a cell of so many threads."""
    size = math.prod(padded(ref.shape)) * ref.dtype.itemsize
    return size <= threads * BYTES and not ref.holds_semaphores and used_whole(jaxpr, index)


def used(jaxpr: ClosedJaxpr, index: int) -> bool:
    """Return whether a body uses its index-th operand."""
    body = open_jaxpr(jaxpr)
    uses = [body.outvars, *(eqn.invars for eqn in body.eqns)]
    return any(v is body.invars[index] for atoms in uses for v in atoms)


def reads(jaxpr: ClosedJaxpr, index: int) -> bool:
    """Return whether a body does more to the ref that is its index-th operand than set it."""
    body = open_jaxpr(jaxpr)
    var = body.invars[index]
    return any(v is var and eqn.primitive.name != "set" for eqn in body.eqns for v in eqn.invars)


def is_set(jaxpr: ClosedJaxpr, index: int) -> bool:
    """Return whether a body surely sets all of the ref that is its index-th operand."""
    body = open_jaxpr(jaxpr)
    var = body.invars[index]
    return any(
        eqn.primitive.name == "set" and eqn.invars[0] is var and _uses_whole(eqn, 0)
        for eqn in body.eqns
    )


def used_whole(jaxpr: ClosedJaxpr, index: int) -> bool:
    """Tell whether a body reads and writes the ref that is its index-th operand only as a whole."""
    body = open_jaxpr(jaxpr)
    var = body.invars[index]
    if any(v is var for v in body.outvars):
        return False
    return all(
        _uses_whole(eqn, i) for eqn in body.eqns for i, v in enumerate(eqn.invars) if v is var
    )


def _uses_whole(eqn: Eqn, operand: int) -> bool:
    name = eqn.primitive.name
    if name in ACCESSES and not name.startswith("atomic"):
        unmasked = ref_operands(eqn, eqn.invars).mask is None
        whole = eqn.rule_params["indexer"].is_whole(eqn.invars[0].aval.shape)
        return operand == 0 and unmasked and whole
    inner = [(body, places.index(operand)) for body, places in passed(eqn) if operand in places]
    return bool(inner) and all(used_whole(body, i) for body, i in inner)


# Control flow ------------------------------------------------------------------------------------


def held(operands: Sequence[Any]) -> list[Cell]:
    """Return the cells among operands, each once."""
    return list(dict.fromkeys(x for x in operands if isinstance(x, Cell)))


def values(e: Emitter, cells: Sequence[Cell]) -> list[ir.Value]:
    return [e.cells[c] for c in cells]


def update(e: Emitter, cells: Sequence[Cell], new: Sequence[ir.Value]) -> None:
    e.cells.update(zip(cells, new, strict=True))

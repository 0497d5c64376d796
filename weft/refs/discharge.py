# Tests: tests/refs/test_api.py, tests/refs/test_indexing.py
"""Discharge: ops on open refs become ops on the arrays they hold.

A jaxpr with refs among its inputs becomes a pure one that also gives what the refs hold at the
end: it is evaluated with cells in place of the refs. jit, scan, while, cond and checkpoint call
the pure jaxpr and write the results back (`weft/api/ref_rules.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.core.cell import Cell
from weft.core.errors import ArgumentError
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.ref import AbstractRef
from weft.core.state import state
from weft.core.trace import trace_to_jaxpr

if TYPE_CHECKING:
    from weft.runtime.array import Array


class Discharged:
    """A pure jaxpr: the outputs of the original, then the final values of the refs in `written`.

    The inputs stand where the original's stand, with arrays for the open refs.
    """

    __slots__ = ("jaxpr", "written")

    def __init__(self, jaxpr: ClosedJaxpr, written: list[int]) -> None:
        self.jaxpr = jaxpr
        self.written = written  # positions of inputs


def discharge_jaxpr(
    closed: ClosedJaxpr, is_open: Sequence[bool], write: Sequence[int] | None = None
) -> Discharged:
    """Return the jaxpr without the refs marked in `is_open`.

    write: positions of the inputs whose final values to give; by default those that change.
    """
    key = ("discharge", tuple(is_open), None if write is None else tuple(write))
    return closed.memo(key, lambda: _discharge(closed, is_open, write))


def _discharge(
    closed: ClosedJaxpr, is_open: Sequence[bool], write: Sequence[int] | None
) -> Discharged:
    written: list[int] = []

    def flat(*args: Array) -> list:
        values = [
            Cell(x, a, state.trace, fixed=True) if o else x
            for x, a, o in zip(args, closed.in_avals, is_open, strict=True)
        ]
        outs = eval_closed(closed, *values)
        _check_no_refs(closed)
        if write is None:
            changed = [i for i, o in enumerate(is_open) if o and values[i].value is not args[i]]
        else:
            changed = list(write)
        written[:] = changed
        return [*outs, *(values[i].value for i in changed)]

    avals = [a.inner if o else a for a, o in zip(closed.in_avals, is_open, strict=True)]
    traced, consts = trace_to_jaxpr(flat, avals, closed.jaxpr.debug)
    return Discharged(ClosedJaxpr(traced, consts), list(written))


def _check_no_refs(closed: ClosedJaxpr) -> None:
    for aval in closed.out_avals:
        if isinstance(aval, AbstractRef):
            raise ArgumentError(
                f"{closed.jaxpr.debug} returns a {aval.str_short()}; a transformed function "
                "cannot return refs: return its value, ref[...], or nothing, as the caller sees "
                "what is written to it"
            )

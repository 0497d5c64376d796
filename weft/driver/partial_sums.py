# Tests: tests/sharding/test_explicit.py, tests/sharding/test_partial_types.py
"""Partial sums in programs that XLA partitions: which it would lose, and which it cannot take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core import dtypes
from weft.core.jaxpr import walk_eqns

if TYPE_CHECKING:
    from weft.driver.program import Program

XLA_HANDS_ON = frozenset(
    (
        *("add", "add_any", "sub", "neg", "mul", "div", "dot_general", "reduce_sum", "select_n"),
        *("reshape", "transpose", "broadcast_in_dim", "squeeze", "slice", "rev", "concatenate"),
        *("pad", "convert_element_type", "copy", "reshard", "sharding_constraint", "jit"),
    )
)
"""Ops through which XLA's partitioner passes partial sums; in others, such as gathers, loops and
complex numbers, it loses parts (quirks.GSPMD_LOOP_SUMS)."""


def loses_sums(program: Program) -> bool:
    """Return whether XLA's partitioner would lose parts of partial sums that the types show.

    Raises ValueError where it would also end the process, and where nothing holds the parts.
    """
    touching = [
        (e, [_is_partial(v.aval) for v in e.invars], v.aval)
        for e in walk_eqns(program.jaxpr)
        for v in e.outvars
        if _is_partial(v.aval) or any(_is_partial(v.aval) for v in e.invars)
    ]
    loses = any(e.primitive.name not in XLA_HANDS_ON for e, _, _ in touching)
    kept_sums = [a for e, ins, a in touching if e.primitive.name == "reshard" and not any(ins)]
    crossing = [a for a in (*program.jaxpr.in_avals, *program.jaxpr.out_avals) if _is_partial(a)]
    for aval in crossing:
        if aval.sharding.mesh.auto_axes:
            raise ValueError(
                f"{program.name}: XLA's partitioner takes and returns no partial sums, "
                f"{aval.str_short()}, beside mesh axes of type Auto; use partitioner='weft', or "
                "add them up: weft.reshard(x, P(...)) without unreduced axes"
            )
    if loses:
        kept_sums += program.jaxpr.out_avals
    for aval in kept_sums:
        if _is_partial(aval) and dtypes.is_complex(aval.dtype):
            raise ValueError(
                f"{program.name}: XLA's partitioner cannot make partial sums of complex numbers, "
                f"{aval.str_short()}, of whole values; use partitioner='weft', or add them up: "
                "weft.reshard(x, P(...)) without unreduced axes"
            )
    return loses


def _is_partial(aval: object) -> bool:
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and bool(sharding.spec.unreduced)

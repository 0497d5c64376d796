"""The types of casts and collectives: a table of manual-axis states, and the rules it gives.

A value has one state along each manual axis: invarying, varying, unreduced (a partial sum) or
reduced (equal, with an unreduced cotangent). Each row says what an op makes of the axes it acts
over and which rows, applied in order, are its transpose. Along an axis, cotangents of unreduced
values are reduced and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.core.aval import Mat, ShapedArray
from weft.core.errors import ShardingTypeError, names_text

if TYPE_CHECKING:
    from weft.collectives.groups import AxisGroup

INVARYING, VARYING, UNREDUCED, REDUCED = "invarying", "varying", "unreduced", "reduced"
STATES = (INVARYING, VARYING, UNREDUCED, REDUCED)

DUAL = {INVARYING: INVARYING, VARYING: VARYING, UNREDUCED: REDUCED, REDUCED: UNREDUCED}
"""The state of a value's cotangents."""


class Row(NamedTuple):
    """op: before → after; transpose: the ops, with their states, that its transpose consists of."""

    op: str
    before: str
    after: str
    transpose: tuple[tuple[str, str, str], ...] = ()


TABLE = (
    Row("pcast", INVARYING, VARYING, (("psum", VARYING, INVARYING),)),
    Row("pcast", INVARYING, REDUCED, (("psum", UNREDUCED, INVARYING),)),
    Row("pcast", VARYING, UNREDUCED, (("pcast", REDUCED, VARYING),)),
    Row("pcast", REDUCED, VARYING, (("pcast", VARYING, UNREDUCED),)),
    Row("psum", VARYING, INVARYING, (("pcast", INVARYING, VARYING),)),
    Row("psum", UNREDUCED, INVARYING, (("pcast", INVARYING, REDUCED),)),
    Row("all_gather", VARYING, VARYING, (("psum_scatter", VARYING, VARYING),)),
    Row("all_gather", VARYING, INVARYING, (("all_slice", INVARYING, VARYING),)),
    Row("all_gather", VARYING, REDUCED, (("psum_scatter", UNREDUCED, VARYING),)),
    Row("all_slice", INVARYING, VARYING, (("all_gather", VARYING, INVARYING),)),
    Row("psum_scatter", VARYING, VARYING, (("all_gather", VARYING, VARYING),)),
    Row("psum_scatter", UNREDUCED, VARYING, (("all_gather", VARYING, REDUCED),)),
    Row("ppermute", VARYING, VARYING, (("ppermute", VARYING, VARYING),)),
    Row("all_to_all", VARYING, VARYING, (("all_to_all", VARYING, VARYING),)),
    Row("ragged_all_to_all", VARYING, VARYING, (("ragged_all_to_all", VARYING, VARYING),)),
    Row(
        "pbroadcast",
        VARYING,
        VARYING,
        (("psum", VARYING, INVARYING), ("pcast", INVARYING, VARYING)),
    ),
    Row("pmax", VARYING, INVARYING),
    Row("pmin", VARYING, INVARYING),
)
ALLOWED = {(row.op, row.before, row.after) for row in TABLE}
CASTS = {(row.before, row.after) for row in TABLE if row.op == "pcast"}
ACCEPTED = {op: {r.before for r in TABLE if r.op == op} for op in {r.op for r in TABLE}}

_REMEDY = {
    UNREDUCED: "add the partial sums up first with weft.lax.psum(x, {axes})",
    REDUCED: "cast first with weft.lax.pcast(x, {axes}, to='varying')",
    INVARYING: "cast first with weft.lax.pcast(x, {axes}, to='varying')",
    VARYING: "make it equal along the axis first, for example with weft.lax.psum or "
    "weft.lax.all_gather(..., to='invarying')",
}


def state_over(api: str, aval: ShapedArray, axes: tuple) -> str:
    """Return the one state that the value has along all the axes; they must agree."""
    mat = aval.mat
    if not mat.unreduced and not mat.reduced:
        varying = mat.varying
        is_varying = [axis in varying for axis in axes]
        if all(is_varying):
            return VARYING
        if not any(is_varying):
            return INVARYING
    states = {axis: mat.state(axis) for axis in axes}
    if len(set(states.values())) > 1:
        listing = ", ".join(f"{state} along {axis!r}" for axis, state in states.items())
        remedy = "make one call for each state"
        if set(states.values()) == {VARYING, INVARYING}:
            equal = names_text(tuple(a for a, s in states.items() if s == INVARYING))
            remedy = (
                f"cast first with weft.lax.pcast(x, {equal}, to='varying') to count it once for "
                f"each device, or leave {equal} out"
            )
        raise ValueError(
            f"{api}: the operand of type {aval.str_short()} is {listing}; one call takes axes in "
            f"one state: {remedy}"
        )
    return next(iter(states.values()))


def moved(mat: Mat, axes: tuple, after: str) -> Mat:
    """Return the type with the axes in another state."""
    moving = frozenset(axes)
    sets = {s: getattr(mat, s) - moving for s in (VARYING, UNREDUCED, REDUCED)}
    if after != INVARYING:
        sets[after] |= moving
    return Mat(**sets)


def check_state(api: str, aval: ShapedArray, axes: tuple, accepted: set[str]) -> str:
    """Return the value's state along the axes, which must be one that the op accepts."""
    state = state_over(api, aval, axes)
    if state not in accepted:
        raise ValueError(
            f"{api} over {names_text(axes)}: the operand of type {aval.str_short()} is {state} "
            f"along the axis, but {api} takes {' or '.join(sorted(accepted))} values; "
            + _REMEDY[state].format(axes=names_text(axes))
        )
    return state


def result_mat(api: str, x: ShapedArray, over: AxisGroup, after: str) -> Mat:
    """Return the type of a collective's result: the named axes change state by the table."""
    if over.groups is None:
        if over.tracked:
            before = check_state(api, x, over.tracked, ACCEPTED[api])
            if (api, before, after) not in ALLOWED:
                raise ValueError(
                    f"{api} over {names_text(over.tracked)} takes no {before} value to {after}; "
                    f"the operand has type {x.str_short()}"
                )
            return moved(x.mat, over.tracked, after)
    elif over.tracked:
        check_state(api, x, over.tracked, {VARYING})
    return x.mat


def result_type(
    api: str, x: ShapedArray, shape: Sequence[int], origin: Sequence[int | None], mat: Mat
) -> ShapedArray:
    """Return a result's type whose dimension d is the operand's dimension origin[d], or a new one.

    Inside a partly manual shard_map, each dimension keeps its split over explicit axes.
    """
    sharding = x.sharding
    if sharding is not None:
        entries = [() if i is None else sharding.spec_of(i) for i in origin]
        sharding = sharding.with_spec(sharding.spec.update(partitions=entries))
        for d, size in enumerate(shape):
            if size % sharding.num_parts(d):
                raise ShardingTypeError(
                    f"{api} of {x.str_short()}: dimension {d} of the result would have size {size},"
                    f" which explicit mesh axis {names_text(sharding.spec_of(d))} cannot split "
                    f"into {sharding.num_parts(d)} parts. Join it first with weft.reshard(x, "
                    "P(...)), or communicate along another dimension"
                )
    return ShapedArray(tuple(shape), x.dtype, x.weak_type, sharding, mat)

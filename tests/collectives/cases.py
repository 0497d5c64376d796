"""Every collective with arguments that exercise it, and its meaning on the reference machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests import spmd_reference as ref
from tests.spmd_reference import Machine, Value
from weft import lax

MACHINE = Machine(x=2, v=4)
"""x becomes a mesh axis or a vmapped one, v too: see CONTEXTS."""

SHAPE = (8, 4)
ALL = ("x", "v")
SWAPPED = ("v", "x")
QUADS = [[0, 2, 5, 7], [1, 3, 4, 6]]  # every device in both groups, in SWAPPED and ALL alike
PAIRS = [[0, 7], [2, 3], [4, 5], [6, 1]]
UNEQUAL = [[0, 3, 5], [1], [2, 4, 6, 7]]
SHIFT = [(i, (i + 3) % 8) for i in range(8)]
PARTIAL = [(0, 7), (3, 1), (7, 2)]


class Case(NamedTuple):
    """fun: one device's function; meaning: the same on a value of MACHINE.

    push(value, tangent): the tangent of the result, where fun is not linear.
    """

    name: str
    fun: Callable
    meaning: Callable[[Value], Value]
    push: Callable[[Value, Value], Value] | None = None


def _case(name: str, weft_function: Callable, reference: Callable, *args, **kwargs) -> Case:
    """One set of arguments for both; the reference calls dimension arguments dim."""
    renamed = {
        "axis": "dim",
        "scatter_dimension": "dim",
        "axis_index_groups": "groups",
        "split_axis": "split",
        "concat_axis": "concat",
    }
    ref_kwargs = {renamed.get(k, k): v for k, v in kwargs.items() if k != "to"}
    return Case(
        name,
        lambda v: weft_function(v, *args, **kwargs),
        lambda v: reference(MACHINE, v, *args, **ref_kwargs),
    )


def _extremum(name: str, weft_function: Callable, reference: Callable, axes, groups=None) -> Case:
    """pmax and pmin: the tangent is the mean over the members that attain the extremum."""

    def push(value: Value, tangent: Value) -> Value:
        best = reference(MACHINE, value, axes, groups)
        at = {d: (value[d] == best[d]).astype(value[d].dtype) for d in value}
        total = ref.psum(MACHINE, {d: at[d] * tangent[d] for d in value}, axes, groups)
        count = ref.psum(MACHINE, at, axes, groups)
        return {d: total[d] / count[d] for d in value}

    return Case(
        name,
        lambda v: weft_function(v, axes, axis_index_groups=groups),
        lambda v: reference(MACHINE, v, axes, groups),
        push,
    )


def _index(name: str, weft_function: Callable, reference: Callable, axis: str) -> Case:
    """pargmax and pargmin: their derivative is zero."""
    return Case(
        name,
        lambda v: weft_function(v, axis).astype(v.dtype),
        lambda v: {d: x.astype(np.float32) for d, x in reference(MACHINE, v, axis).items()},
        lambda v, t: {d: np.zeros_like(x) for d, x in t.items()},
    )


def _send_and_receive(v):
    token = lax.psend(v, SWAPPED, PARTIAL)
    return lax.precv(token, v, SWAPPED, PARTIAL)


def _difference(v: Value, w: Value) -> Value:
    return {d: v[d] - w[d] for d in v}


def _doubled_where_reduced(v):
    reduced = lax.pcast(v, "x", to="reduced")
    return lax.pcast(reduced + reduced, "x", to="varying")


RAGGED_STARTS = np.array([[0, 2, 3, 7], [1, 1, 4, 6], [5, 0, 0, 2], [0, 0, 0, 0]], np.int32)
RAGGED_SIZES = np.array([[2, 1, 3, 1], [0, 3, 2, 1], [2, 0, 1, 5], [1, 2, 0, 0]], np.int32)
RAGGED_PLACES = np.array([[0, 4, 2, 1], [0, 0, 5, 2], [2, 7, 7, 3], [5, 5, 0, 0]], np.int32)
"""Per sender and receiver of a group of four: from which row, how many, to which row there."""


def _ragged(name: str, axes, groups=None) -> Case:
    """Slices of v are written over 3 v; every group exchanges as the tables say."""
    size = 4
    members = np.arange(size)[None] if groups is None else np.array(groups)
    rank = np.empty(members.size, np.int32)
    rank[members] = np.arange(size)

    def rows(table: np.ndarray, index):
        return lax.dynamic_index_in_dim(table[rank], index, 0, keepdims=False)

    def fun(v):
        index = lax.axis_index(axes)
        tables = (RAGGED_STARTS, RAGGED_SIZES, RAGGED_PLACES, RAGGED_SIZES.T.copy())
        return lax.ragged_all_to_all(
            v,
            v * 3,
            *(rows(t, index) for t in tables),
            axis_name=axes,
            axis_index_groups=groups,
        )

    def meaning(v: Value) -> Value:
        def per_device(table: np.ndarray) -> Value:
            return {d: table[rank[MACHINE.index(d, ref.axes_of(axes))]] for d in v}

        given = map(per_device, (RAGGED_STARTS, RAGGED_SIZES, RAGGED_PLACES, RAGGED_SIZES.T))
        return ref.ragged_all_to_all(
            MACHINE, v, {d: 3 * x for d, x in v.items()}, *given, axes, groups
        )

    return Case(name, fun, meaning)


CASES = [
    _case("psum", lax.psum, ref.psum, ALL),
    _case("psum of one axis", lax.psum, ref.psum, "v"),
    _case("psum in groups", lax.psum, ref.psum, ALL, axis_index_groups=QUADS),
    _case("psum in pairs", lax.psum, ref.psum, SWAPPED, axis_index_groups=PAIRS),
    _case("psum in unequal groups", lax.psum, ref.psum, SWAPPED, axis_index_groups=UNEQUAL),
    _case("pmean", lax.pmean, ref.pmean, SWAPPED),
    _extremum("pmax", lax.pmax, ref.pmax, ALL),
    _extremum("pmax in unequal groups", lax.pmax, ref.pmax, ALL, UNEQUAL),
    _extremum("pmin in pairs", lax.pmin, ref.pmin, SWAPPED, PAIRS),
    _index("pargmax", lax.pargmax, ref.pargmax, "v"),
    _index("pargmin", lax.pargmin, ref.pargmin, "x"),
    Case(
        "axis_index and axis_size",
        lambda v: v * (lax.axis_index(SWAPPED) + lax.axis_size(ALL)).astype(v.dtype),
        lambda v: {d: x * np.float32(MACHINE.index(d, SWAPPED) + 8) for d, x in v.items()},
    ),
    Case(
        "psum and pvary",
        lambda v: v - lax.pvary(lax.psum(v, "v"), "v"),
        lambda v: _difference(v, ref.psum(MACHINE, v, "v")),
    ),
    Case(
        "psum of unreduced",
        lambda v: lax.psum(lax.pcast(v, ALL, to="unreduced"), ALL),
        lambda v: ref.psum(MACHINE, v, ALL),
    ),
    Case(
        "psum_scatter of unreduced",
        lambda v: lax.psum_scatter(lax.pcast(v, ALL, to="unreduced"), ALL),
        lambda v: ref.psum_scatter(MACHINE, v, ALL),
    ),
    _case("all_gather", lax.all_gather, ref.all_gather, SWAPPED, axis=1),
    _case("all_gather tiled", lax.all_gather, ref.all_gather, ALL, axis=1, tiled=True),
    _case("all_gather invarying", lax.all_gather, ref.all_gather, ALL, to="invarying"),
    Case(
        "all_gather reduced",
        lambda v: lax.pcast(lax.all_gather(v, SWAPPED, to="reduced"), SWAPPED, to="varying"),
        lambda v: ref.all_gather(MACHINE, v, SWAPPED),
    ),
    Case(
        "pcast to reduced",
        lambda v: _doubled_where_reduced(lax.psum(v, "x")),
        lambda v: {d: 2 * x for d, x in ref.psum(MACHINE, v, "x").items()},
    ),
    _case(
        "all_gather in groups",
        lax.all_gather,
        ref.all_gather,
        SWAPPED,
        tiled=True,
        axis_index_groups=QUADS,
    ),
    _case("all_gather in pairs", lax.all_gather, ref.all_gather, ALL, axis_index_groups=PAIRS),
    _case("psum_scatter", lax.psum_scatter, ref.psum_scatter, ALL),
    _case("psum_scatter tiled", lax.psum_scatter, ref.psum_scatter, SWAPPED, tiled=True),
    _case(
        "psum_scatter in groups",
        lax.psum_scatter,
        ref.psum_scatter,
        SWAPPED,
        scatter_dimension=1,
        axis_index_groups=QUADS,
    ),
    _case(
        "psum_scatter in pairs",
        lax.psum_scatter,
        ref.psum_scatter,
        ALL,
        scatter_dimension=1,
        tiled=True,
        axis_index_groups=PAIRS,
    ),
    _case("all_to_all", lax.all_to_all, ref.all_to_all, ALL, split_axis=0, concat_axis=1),
    _case(
        "all_to_all tiled",
        lax.all_to_all,
        ref.all_to_all,
        SWAPPED,
        split_axis=0,
        concat_axis=1,
        tiled=True,
    ),
    _case(
        "all_to_all in groups",
        lax.all_to_all,
        ref.all_to_all,
        ALL,
        split_axis=1,
        concat_axis=0,
        axis_index_groups=QUADS,
    ),
    _case(
        "all_to_all in pairs",
        lax.all_to_all,
        ref.all_to_all,
        SWAPPED,
        split_axis=1,
        concat_axis=1,
        tiled=True,
        axis_index_groups=PAIRS,
    ),
    Case(
        "pswapaxes",
        lambda v: lax.pswapaxes(v, "v", 1),
        lambda v: ref.pswapaxes(MACHINE, v, "v", 1),
    ),
    _case("ppermute", lax.ppermute, ref.ppermute, SWAPPED, SHIFT),
    _case("ppermute, partial", lax.ppermute, ref.ppermute, ALL, PARTIAL),
    Case(
        "pshuffle",
        lambda v: lax.pshuffle(v, "v", [2, 0, 3, 1]),
        lambda v: ref.ppermute(MACHINE, v, "v", [(2, 0), (0, 1), (3, 2), (1, 3)]),
    ),
    Case(
        "psend and precv", _send_and_receive, lambda v: ref.ppermute(MACHINE, v, SWAPPED, PARTIAL)
    ),
    _case("pbroadcast", lax.pbroadcast, ref.pbroadcast, SWAPPED, 5),
    _case("pbroadcast along one axis", lax.pbroadcast, ref.pbroadcast, "x", 1),
    Case(
        "psum_start",
        lambda v: lax.psum_start(v, ALL).done(),
        lambda v: ref.psum(MACHINE, v, ALL),
    ),
    Case(
        "all_gather_start",
        lambda v: lax.all_gather_start(v, "v", axis=1).done(),
        lambda v: ref.all_gather(MACHINE, v, "v", dim=1),
    ),
    Case(
        "psum_scatter_start",
        lambda v: lax.psum_scatter_start(v, "v", scatter_dimension=1).done(),
        lambda v: ref.psum_scatter(MACHINE, v, "v", dim=1),
    ),
    Case(
        "all_to_all_start",
        lambda v: lax.all_to_all_start(v, "v", 1, 0).done(),
        lambda v: ref.all_to_all(MACHINE, v, "v", 1, 0),
    ),
    Case(
        "ppermute_start",
        lambda v: lax.ppermute_start(v, ALL, SHIFT).done(),
        lambda v: ref.ppermute(MACHINE, v, ALL, SHIFT),
    ),
    Case(
        "pbroadcast_start",
        lambda v: lax.pbroadcast_start(v, "v", 2).done(),
        lambda v: ref.pbroadcast(MACHINE, v, "v", 2),
    ),
    _ragged("ragged_all_to_all", "v"),
    _ragged("ragged_all_to_all in groups", SWAPPED, QUADS),
]

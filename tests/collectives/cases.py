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
    """fun: one device's function. meaning: the same on a value of MACHINE. linear: in its operand."""

    name: str
    fun: Callable
    meaning: Callable[[Value], Value]
    linear: bool = True


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


def _tied(name: str, fun: Callable, meaning: Callable) -> Case:
    """pmax and pmin: linear where the extremum is attained, which derivatives test apart."""
    return Case(name, fun, meaning, linear=False)


def _send_and_receive(v):
    token = lax.psend(v, SWAPPED, PARTIAL)
    return lax.precv(token, v, SWAPPED, PARTIAL)


CASES = [
    _case("psum", lax.psum, ref.psum, ALL),
    _case("psum of one axis", lax.psum, ref.psum, "v"),
    _case("psum in groups", lax.psum, ref.psum, ALL, axis_index_groups=QUADS),
    _case("psum in pairs", lax.psum, ref.psum, SWAPPED, axis_index_groups=PAIRS),
    _case("psum in unequal groups", lax.psum, ref.psum, SWAPPED, axis_index_groups=UNEQUAL),
    _case("pmean", lax.pmean, ref.pmean, SWAPPED),
    _tied("pmax", lambda v: lax.pmax(v, ALL), lambda v: ref.pmax(MACHINE, v, ALL)),
    _tied(
        "pmax in unequal groups",
        lambda v: lax.pmax(v, ALL, axis_index_groups=UNEQUAL),
        lambda v: ref.pmax(MACHINE, v, ALL, UNEQUAL),
    ),
    _tied(
        "pmin in pairs",
        lambda v: lax.pmin(v, SWAPPED, axis_index_groups=PAIRS),
        lambda v: ref.pmin(MACHINE, v, SWAPPED, PAIRS),
    ),
    _case("all_gather", lax.all_gather, ref.all_gather, SWAPPED, axis=1),
    _case("all_gather tiled", lax.all_gather, ref.all_gather, ALL, axis=1, tiled=True),
    _case("all_gather invarying", lax.all_gather, ref.all_gather, ALL, to="invarying"),
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
]

CONTEXTS = {
    "vmap": {"mesh_axes": ()},
    "shard_map": {"mesh_axes": ("x", "v")},
    "shard_map, check_vma=False": {"mesh_axes": ("x", "v"), "check_vma": False},
    "vmap in shard_map": {"mesh_axes": ("x",)},
}


def tangent_of_extremum(case: Case, value: Value, tangent: Value) -> np.ndarray:
    """The mean of the tangents of the members that attain the extremum, by its definition."""
    best = case.meaning(value)
    at = {d: (value[d] == best[d]).astype(value[d].dtype) for d in value}
    moved = {d: at[d] * tangent[d] for d in value}
    groups = {"pmax": (ALL, None), "pmax in unequal groups": (ALL, UNEQUAL)}.get(
        case.name, (SWAPPED, PAIRS)
    )
    total = ref.psum(MACHINE, moved, *groups)
    count = ref.psum(MACHINE, at, *groups)
    return MACHINE.stack({d: total[d] / count[d] for d in value})

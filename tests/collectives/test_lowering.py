"""What collectives become in StableHLO: one op for a call, with the right groups of devices."""

import re

import numpy as np
import pytest

import weft
from tests.collectives.cases import CASES, MACHINE, SHAPE
from tests.collectives.harness import Context, mesh_of, program
from tests.spmd_reference import Machine
from weft import P, lax

TWO = Machine(x=2, y=4)
COLLECTIVE = re.compile(
    r"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute|"
    r"collective_broadcast)|@(ragged_all_to_all)"
)


def text_of(body, machine=TWO, platform="cpu", **options):
    """StableHLO of a per-device function of f32[8, 8], all axes manual."""
    names = machine.names
    options = {"in_specs": P(), "out_specs": P(names), "check_vma": False} | options
    mapped = weft.shard_map(body, mesh=mesh_of(machine, names), **options)
    x = np.zeros((8, 8), np.float32)
    return weft.jit(mapped).trace(x).lower(lowering_platforms=(platform,)).as_text()


def collectives(text):
    """(op, groups or pairs) of every collective in a module."""
    found = []
    for line in text.splitlines():
        name = COLLECTIVE.search(line)
        if name:
            groups = re.search(r"(?:replica_groups|source_target_pairs) = dense<(.*?)>", line)
            found.append((name[1] or name[2], eval(groups[1])))
    return found


ROWS = [[0, 1, 2, 3], [4, 5, 6, 7]]  # along y
COLUMNS = [[0, 4], [1, 5], [2, 6], [3, 7]]  # along x
MINOR_FIRST = [[0, 4, 1, 5, 2, 6, 3, 7]]  # along ("y", "x")
IN_ORDER = [list(range(8))]
QUADS = [[0, 2, 5, 7], [1, 3, 4, 6]]  # of indices along ("y", "x")

ONE_OP = {
    "psum along one axis": (lambda v: lax.psum(v, "y"), "all_reduce", ROWS),
    "psum along the other": (lambda v: lax.psum(v, "x"), "all_reduce", COLUMNS),
    "psum along two axes": (lambda v: lax.psum(v, ("x", "y")), "all_reduce", IN_ORDER),
    "psum in another order": (lambda v: lax.psum(v, ("y", "x")), "all_reduce", IN_ORDER),
    "psum in groups": (
        lambda v: lax.psum(v, ("y", "x"), axis_index_groups=QUADS),
        "all_reduce",
        [[0, 1, 6, 7], [2, 3, 4, 5]],
    ),
    "psum in unequal groups": (
        lambda v: lax.psum(v, ("x", "y"), axis_index_groups=[[0, 3, 5], [1], [2, 4, 6, 7]]),
        "all_reduce",
        [[0, 3, 5, -1], [1, -1, -1, -1], [2, 4, 6, 7]],
    ),
    "pmax": (lambda v: lax.pmax(v, "x"), "all_reduce", COLUMNS),
    "pmean": (lambda v: lax.pmean(v, "x"), "all_reduce", COLUMNS),
    "all_gather": (lambda v: lax.all_gather(v, ("y", "x")), "all_gather", MINOR_FIRST),
    "all_gather in groups": (
        lambda v: lax.all_gather(v, "y", axis_index_groups=[[2, 0], [1, 3]]),
        "all_gather",
        [[2, 0], [1, 3], [6, 4], [5, 7]],
    ),
    "psum_scatter": (
        lambda v: lax.psum_scatter(v, ("y", "x"), tiled=True),
        "reduce_scatter",
        MINOR_FIRST,
    ),
    "all_to_all": (lambda v: lax.all_to_all(v, "y", 0, 1, tiled=True), "all_to_all", ROWS),
    "ppermute": (
        lambda v: lax.ppermute(v, "x", [(0, 1)]),
        "collective_permute",
        [[0, 4], [1, 5], [2, 6], [3, 7]],
    ),
    "ppermute along two axes": (
        lambda v: lax.ppermute(v, ("y", "x"), [(1, 2)]),
        "collective_permute",
        [[4, 1]],
    ),
    "psend and precv": (
        lambda v: lax.precv(lax.psend(v, "x", [(1, 0)]), v, "x", [(1, 0)]),
        "collective_permute",
        [[4, 0], [5, 1], [6, 2], [7, 3]],
    ),
    "pbroadcast": (lambda v: lax.pbroadcast(v, "x", 1), "all_reduce", COLUMNS),
}


@pytest.mark.parametrize("name", ONE_OP)
def test_a_call_is_one_collective_over_the_right_devices(name):
    body, op, groups = ONE_OP[name]
    text = text_of(body)
    assert collectives(text) == [(op, groups)]
    assert "channel_handle<handle = 1, type = 1>" in text
    if op in ("all_reduce", "all_gather", "reduce_scatter"):
        assert "use_global_device_ids" in text


def test_channels_are_numbered():
    text = text_of(lambda v: lax.ppermute(lax.psum(v, "x"), "y", [(0, 1)]))
    assert re.findall(r"channel_handle<handle = (\d+)", text) == ["1", "2"]


def test_where_the_platform_has_a_broadcast_the_source_stands_first():
    text = text_of(lambda v: lax.pbroadcast(v, "x", 1), platform="cuda")
    assert collectives(text) == [("collective_broadcast", [[4, 0], [5, 1], [6, 2], [7, 3]])]


def test_where_the_platform_has_a_ragged_exchange_it_is_native():
    index = np.zeros(4, np.int32)

    def body(v):
        return lax.ragged_all_to_all(v, v, index, index, index, index, axis_name="y")

    assert collectives(text_of(body, platform="cuda")) == [("ragged_all_to_all", ROWS)]
    assert "channel_id = 1" in text_of(body, platform="cuda")
    assert {op for op, _ in collectives(text_of(body))} == {"all_to_all"}


def test_a_native_ragged_exchange_has_no_channel_where_devices_are_replicas():
    """What weft's partitioner makes: XLA would take devices for partitions otherwise."""
    index = np.zeros(8, np.int32)
    mapped = weft.shard_map(
        lambda v: lax.ragged_all_to_all(v, v, index, index, index, index, axis_name="x"),
        mesh=mesh_of(Machine(x=8), ("x",)),
        in_specs=P("x"),
        out_specs=P("x"),
    )
    traced = weft.jit(mapped).trace(np.zeros((8, 8), np.float32))
    text = str(traced.lower(lowering_platforms=("cuda",)).stages.local)
    assert collectives(text) == [("ragged_all_to_all", IN_ORDER)]
    assert "channel_id = 0" in text and "num_replicas = 8" in text


def test_axes_of_size_one_cost_nothing():
    def body(v):
        v = lax.psum(v, "x") + lax.pmax(v, "x") + lax.all_gather(v, "x", tiled=True)
        v = v + lax.psum_scatter(v, "x", tiled=True) + lax.all_to_all(v, "x", 0, 1, tiled=True)
        v = v + lax.ppermute(v, "x", [(0, 0)]) + lax.pbroadcast(v, "x", 0)
        return v + lax.axis_index("x")

    text = text_of(body, Machine(x=1, y=8))
    assert not collectives(text)
    assert "partition_id" not in text


def test_groups_of_one_cost_nothing():
    alone = [[i] for i in (3, 1, 0, 2)]
    text = text_of(lambda v: lax.psum(v, "y", axis_index_groups=alone))
    assert not collectives(text)


def test_a_constant_is_summed_without_communication():
    assert not collectives(text_of(lambda v: v * lax.psum(1, ("x", "y"))))


def local_text(body, **options):
    """The per-device program after weft's partitioner."""
    options = {"in_specs": P("x"), "out_specs": P(), "check_vma": True} | options
    mapped = weft.shard_map(body, mesh=mesh_of(Machine(x=8), ("x",)), **options)
    return str(weft.jit(mapped).lower(np.zeros((8, 8), np.float32)).stages.local)


def test_small_neighbouring_sums_over_the_same_devices_are_one():
    text = local_text(lambda v: lax.psum({"a": v, "b": v * 2, "c": v.sum()}, "x"))
    assert text.count("stablehlo.all_reduce") == 1


def test_a_joined_sum_names_the_lines_of_all_its_parts():
    def body(v):
        one = lax.psum(v, "x")
        return one + lax.psum(v * 2, "x")

    mapped = weft.shard_map(
        body, mesh=mesh_of(TWO, ("x", "y")), in_specs=P(("x", "y")), out_specs=P("y")
    )
    (joined,) = weft.comm(weft.jit(mapped), np.zeros((8, 8), np.float32)).collectives
    first, second = (place.rsplit(":", 1) for place in joined.source.split(", "))
    assert first[0] == second[0] == __file__
    assert int(second[1]) == int(first[1]) + 1


def test_sums_over_two_axes_in_either_order_combine():
    mesh = mesh_of(TWO, ("x", "y"))
    mapped = weft.shard_map(
        lambda v: (lax.psum(v, ("x", "y")), lax.psum(v * 2, ("y", "x"))),
        mesh=mesh,
        in_specs=P(("x", "y")),
        out_specs=P(),
    )
    text = str(weft.jit(mapped).lower(np.zeros((8, 8), np.float32)).stages.local)
    assert text.count("stablehlo.all_reduce") == 1


def test_sums_that_wait_for_each_other_stay_apart():
    text = local_text(lambda v: lax.psum(lax.psum(v, "x") * v, "x"))
    assert text.count("stablehlo.all_reduce") == 2


def test_large_sums_stay_apart():
    def body(v):
        large = lax.broadcast_in_dim(v, (1, 8, 100_000), (0, 1))
        return lax.psum((large, large * 2), "x")

    assert local_text(body).count("stablehlo.all_reduce") == 2


def test_a_ragged_exchange_sends_as_many_bytes_as_an_all_to_all():
    """One round sends a block of rows / devices to each device: the whole operand once."""
    index = np.zeros(4, np.int32)

    def body(v):
        return lax.ragged_all_to_all(v, v, index, index, index, index, axis_name="y")

    text = text_of(body)
    first, further = text.split("stablehlo.while")
    for part in (first, further):
        sent = re.findall(r'"stablehlo.all_to_all".*?\(tensor<(\S+)xf32>\)', part)
        assert sent == ["4x2x8"]  # of an operand of 8x8


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_every_collective_lowers_for_accelerators(platform):
    """To a program of its own collectives only, in which weft's partitioner finds its way."""
    for case in CASES:
        for context in (Context(("x", "v")), Context(("x",))):
            traced = weft.jit(program(MACHINE, case.fun, context)).trace(
                np.zeros((*MACHINE.sizes.values(), *SHAPE), np.float32)
            )
            local = str(traced.lower(lowering_platforms=(platform,)).stages.local)
            assert "sdy." not in re.sub(r"sdy\.sharding_origins", "", local), case.name

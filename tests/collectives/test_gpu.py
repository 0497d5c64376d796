"""Collectives compiled for eight H100s: XLA's own instruction for each, begun early, ended late."""

import re

import numpy as np
import pytest

import weft
from tests.gpu_machine import mesh_of, placed
from weft import P, lax

pytestmark = pytest.mark.accelerators

N = 8
RING = [(i, (i + 1) % N) for i in range(N)]
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]


def text_of(body, shape=(64, 16), dtype=np.float32, partitioner="weft", **sizes):
    """The optimized HLO of a per-device function of (8, 16) rows."""
    mesh = mesh_of(**sizes)
    rows = tuple(sizes) or "x"
    mapped = weft.shard_map(body, mesh=mesh, in_specs=P(rows), out_specs=P(rows))
    lowered = weft.jit(mapped, partitioner=partitioner).lower(placed((shape, dtype), mesh, rows))
    return lowered.compile().as_text()


def instructions(text):
    """What communicates, in the order of the schedule. Where nothing is to run meanwhile, XLA
    (jaxlib 0.11) does not start and end it."""
    kinds = "all|reduce-scatter|collective|ragged|send|recv|async"
    found = re.findall(rf" ((?:{kinds})[a-z-]*)\(", text)
    return [name.removesuffix("-start") for name in found if not name.endswith("-done")]


def ragged(x):
    one = lax.pcast(np.ones(N, np.int32), "x", to="varying")
    at = lax.pcast(np.arange(N, dtype=np.int32), "x", to="varying")
    return lax.ragged_all_to_all(x, weft.numpy.zeros_like(x), at, one, at, one, axis_name="x")


KINDS = {
    "psum": ("all-reduce", lambda x: lax.psum(x, "x") + x),
    "pmean": ("all-reduce", lambda x: lax.pmean(x, "x") + x),
    "pmax": ("all-reduce", lambda x: lax.pmax(x, "x") + x),
    "pmin": ("all-reduce", lambda x: lax.pmin(x, "x") + x),
    "all_gather": ("all-gather", lambda x: lax.all_gather(x, "x", axis=1)[:, 0]),
    "psum_scatter": ("reduce-scatter", lambda x: lax.psum_scatter(x, "x", tiled=True)),
    "all_to_all": ("all-to-all", lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True)),
    "pswapaxes": ("all-to-all", lambda x: lax.pswapaxes(x, "x", 0)),
    "ppermute": ("collective-permute", lambda x: lax.ppermute(x, "x", RING[1:])),
    "pshuffle": ("collective-permute", lambda x: lax.pshuffle(x, "x", [3, 2, 1, 0, 7, 6, 5, 4])),
    "pbroadcast": ("collective-broadcast", lambda x: lax.pbroadcast(x, "x", 3)),
    "ragged_all_to_all": ("ragged-all-to-all", ragged),
    "psum of groups": (
        "all-reduce",
        lambda x: lax.psum(x, "x", axis_index_groups=[[0, 1, 2], [3, 4, 5, 6, 7]]) + x,
    ),
    "all_gather of groups": (
        "all-gather",
        lambda x: lax.all_gather(x, "x", axis_index_groups=HALVES, axis=1)[:, 0],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_collective_is_one_instruction_of_xla(name):
    kind, body = KINDS[name]
    assert instructions(text_of(body)) == [kind]


def test_partitions_of_xla_run_the_same_instructions():
    for name in ("psum", "all_gather", "ragged_all_to_all", "pbroadcast"):
        kind, body = KINDS[name]
        found = instructions(text_of(body, partitioner="xla"))
        assert found == [kind], name


STARTED = {
    "psum_start": ("all-reduce", lambda x: lax.psum_start(x, "x")),
    "all_gather_start": ("all-gather", lambda x: lax.all_gather_start(x, "x", axis=1)),
    "psum_scatter_start": (
        "reduce-scatter",
        lambda x: lax.psum_scatter_start(x, "x", tiled=True),
    ),
    "all_to_all_start": ("all-to-all", lambda x: lax.all_to_all_start(x, "x", 0, 1, tiled=True)),
    "ppermute_start": ("collective-permute", lambda x: lax.ppermute_start(x, "x", RING)),
    "pbroadcast_start": ("collective-broadcast", lambda x: lax.pbroadcast_start(x, "x", 1)),
}


def overlapped(text, kind):
    """How many products the schedule has between a start and its done, in each computation."""
    counts = []
    for body in text.split("\n\n"):
        # XLA (jaxlib 0.11) writes small sums as kernels of its own.
        between = re.search(rf" ({kind}|fusion)-start\(.*?\n(.*?) \1-done\(", body, re.DOTALL)
        if between:
            counts.append(len(re.findall(r"gemm|custom_call_target=\"__cublas", between[2])))
    return counts


def around_products(start, loop):
    """A per-device function that multiplies between a start and its done, once or in a scan."""

    def step(x, _=None):
        future = start(x)
        y = x @ x.T @ x
        arrived = future.done()
        return y + (arrived if arrived.shape == y.shape else arrived.sum()), None

    def body(x):
        return lax.scan(step, x, None, length=4)[0] if loop else step(x)[0]

    return body


@pytest.mark.parametrize("name", STARTED)
@pytest.mark.parametrize("loop", [False, True], ids=["plain", "scan"])
def test_products_run_between_the_start_and_the_end(name, loop):
    kind, start = STARTED[name]
    text = text_of(around_products(start, loop), (8 * 256, 256))
    assert "stablehlo.async_start" not in text and instructions(text)[0] == kind
    [between] = overlapped(text, kind)
    assert between >= 2


def test_the_program_itself_keeps_its_starts():
    def body(x):
        return lax.ppermute_start(x, "x", RING).done()

    mesh = mesh_of()
    mapped = weft.jit(weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    lowered = mapped.lower(placed(((8, 4), np.float32), mesh, "x"))
    lowered.compile()
    assert "stablehlo.async_start" in str(lowered.stages.local)
    assert "stablehlo.async_start" in lowered.as_text()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16"])
def test_collectives_of_small_and_large_dtypes_compile(dtype):
    def body(x):
        one = x[:1]
        moved = [
            lax.all_to_all(x, "x", 0, 1, tiled=True),
            lax.ppermute(x, "x", RING),
            lax.pbroadcast(x, "x", 2),
            lax.all_gather(x, "x")[0],
            ragged(x),
            lax.pmax(one, "x") | x if dtype == "bool" else lax.pmax(one, "x") + x,
        ]
        total = [lax.psum(one, "x"), lax.psum_scatter(x, "x", tiled=True)]
        return [m.reshape(8, 16) for m in moved] + [t * np.ones((8, 1), t.dtype) for t in total]

    counted = instructions(text_of(body, dtype=np.dtype(getattr(weft.dtypes, dtype, dtype))))
    assert len(counted) >= 6


def test_groups_of_a_mesh_over_hosts_name_devices_of_all_hosts():
    from tests.gpu_machine import topology

    devices = np.array(topology("h100:2x8").devices).reshape(2, 8)
    mesh = weft.sharding.Mesh(devices, ("host", "gpu"))
    both = weft.shard_map(
        lambda x: lax.psum(x, "host") + lax.psum(x, "gpu"),
        mesh=mesh,
        in_specs=P(("host", "gpu")),
        out_specs=P(("host", "gpu")),
        check_vma=False,
    )
    text = weft.jit(both).lower(placed(((16, 4), np.float32), mesh, ("host", "gpu"))).compile()
    groups = re.findall(
        r"replica_groups=(\{\{.*?\}\}|\[.*?\]<=\[.*?\](?:T\(.*?\))?)", text.as_text()
    )
    spelled = {
        "{{0,8},{1,9},{2,10},{3,11},{4,12},{5,13},{6,14},{7,15}}": "host",
        "[8,2]<=[2,8]T(1,0)": "host",
        "{{0,1,2,3,4,5,6,7},{8,9,10,11,12,13,14,15}}": "gpu",
        "[2,8]<=[16]": "gpu",
    }
    assert {spelled[g] for g in groups} == {"host", "gpu"}

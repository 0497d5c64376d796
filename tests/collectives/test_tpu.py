"""Collectives compiled for eight v5e TPUs: XLA's own instruction for each that it has there."""

import re

import numpy as np
import pytest

import weft
from tests.collectives.test_gpu import KINDS, STARTED, around_products, instructions
from tests.gpu_machine import mesh_of, placed
from weft import P

pytestmark = pytest.mark.accelerators

# XLA:TPU has no collective_broadcast and no groups of different sizes, and sums small parts whole.
ELSEWISE = {
    "pbroadcast": "all-reduce",
    "psum_scatter": "all-reduce",
    "psum of groups": "all-gather",
}


def text_of(body, shape=(64, 16), partitioner="weft"):
    mesh = mesh_of("v5e:2x4", x=8)
    mapped = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    lowered = weft.jit(mapped, partitioner=partitioner).lower(
        placed((shape, np.float32), mesh, "x")
    )
    return lowered.compile().as_text()


def kinds(text):
    """What communicates, whether in one instruction or as a start and a done."""
    return {n.removesuffix("-start").removesuffix("-done") for n in instructions(text)}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_a_collective_is_one_instruction(name, partitioner):
    kind, body = KINDS[name]
    assert kinds(text_of(body, partitioner=partitioner)) == {ELSEWISE.get(name, kind)}


@pytest.mark.parametrize("name", STARTED)
@pytest.mark.parametrize("loop", [False, True], ids=["plain", "scan"])
def test_started_collectives_compile(name, loop):
    kind, start = STARTED[name]
    found = kinds(text_of(around_products(start, loop), (8 * 256, 256)))
    assert found == {"all-reduce" if name == "pbroadcast_start" else kind}


def test_products_run_while_a_permute_is_under_way():
    start = STARTED["ppermute_start"][1]

    def body(x):
        future = start(x)
        return x @ x.T @ x + future.done()

    text = text_of(body, (8 * 1024, 1024))
    between = text.split("collective-permute-start(")[-1].split("collective-permute-done(")[0]
    assert len(re.findall(r" fusion\(", between)) >= 1

"""Processes that trace different programs are told so, all of them, with ranks and lines."""

import pytest

from tests import processes

START = """
import sys, time, numpy as np, weft
from weft import P
import weft.runtime.divergence as divergence
address, rank = sys.argv[1], int(sys.argv[2])
weft.distributed.initialize(address, 3, rank)
mesh = weft.make_mesh((3,), ("x",))
def over_all(f):
    return weft.jit(weft.shard_map(f, mesh=mesh, in_specs=(), out_specs=P()))
"""


def run(program):
    with processes.free_address() as address:
        runs = [
            processes.start(START + program, address, rank, WEFT_NUM_CPU_DEVICES="1")
            for rank in range(3)
        ]
        return processes.end(*runs)


CAUGHT = """
try:
    print("result", f())
except weft.errors.DistributedError as error:
    print("CAUGHT", error)
"""
DIFFERENT = {
    "another operation": (
        "f = over_all(lambda: weft.lax.psum(weft.numpy.sin(1.0) if rank == 1 else "
        "weft.numpy.cos(1.0), 'x'))",
        ("sin", "cos"),
    ),
    "another constant": (
        "f = over_all(lambda: weft.lax.psum(weft.lax.axis_index('x') * (2 + (rank == 2)), 'x'))",
        ("2:i32[]", "3:i32[]"),
    ),
    "one collective more": (
        "f = over_all(lambda: weft.lax.psum(weft.lax.pmax(weft.lax.axis_index('x'), 'x') if rank "
        "== 0 else weft.lax.psum(weft.lax.axis_index('x'), 'x') * 1, ()))",
        ("pmax", "psum"),
    ),
    "another order": (
        "g = over_all(lambda: weft.lax.psum(weft.lax.axis_index('x'), 'x'))\n"
        "h = over_all(lambda: weft.lax.pmax(weft.lax.axis_index('x'), 'x'))\n"
        "f = lambda: (g(), h()) if rank else (h(), g())",
        ("psum", "pmax"),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_all_processes_are_told_what_differs(name):
    program, words = DIFFERENT[name]
    for rank, (out, errors) in enumerate(run(program + CAUGHT)):
        text = out.partition("CAUGHT")[2]
        assert text, f"process {rank}: {out} {errors[-3000:]}"
        assert all(word in text for word in words), text
        assert f"process {rank}: " in text and "<string>:" in text, text


def test_equal_programs_run_and_the_store_does_not_grow():
    program = """
for i in range(20):
    f = over_all(lambda: weft.lax.psum(weft.lax.axis_index('x') + i, 'x'))
    assert int(f()) == 3 + 3 * i
from weft.runtime import backend
client = backend.distributed_state["client"]
left = client.key_value_dir_get("weft/program/")
assert len(left) <= 16, left
print("CAUGHT nothing")
"""
    for out, errors in run(program):
        assert "CAUGHT nothing" in out, errors[-3000:]


def test_a_process_that_does_not_come_is_named():
    program = (
        """
divergence.WAIT_SECONDS = 5
if rank == 2:
    time.sleep(12)
    raise SystemExit
f = over_all(lambda: weft.lax.psum(weft.lax.axis_index('x'), 'x'))
"""
        + CAUGHT
    )
    *two, _ = run(program)
    for out, errors in two:
        assert "process 2 has not come to it in 5 s" in out, out + errors[-3000:]

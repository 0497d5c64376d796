"""Programs of two processes through the public names, and what initialize refuses."""

import math
import os
import re
import signal
import socket

import pytest

from tests.processes import end, free_address, run_pair, start
from weft.runtime import backend, distributed

PROGRAM = """
import sys
import numpy as np
import weft
from weft import P
from weft.sharding import AxisType, NamedSharding

rank = int(sys.argv[1])
weft.distributed.initialize(sys.argv[2], 2, rank)
assert weft.distributed.is_initialized()
assert (weft.process_index(), weft.process_count()) == (rank, 2)
assert (weft.device_count(), weft.local_device_count()) == (4, 2)
assert {d.process_index for d in weft.local_devices()} == {rank}

mesh = weft.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
split, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
values = np.arange(8, dtype=np.float32)
x = weft.make_array_from_process_local_data(split, values[4 * rank : 4 * rank + 4])
y = weft.make_array_from_callback((8,), split, lambda index: values[index])
assert x.shape == (8,) and not x.is_fully_addressable and not x.is_fully_replicated
assert [s.index for s in x.addressable_shards] == [(slice(2 * i, 2 * i + 2),)
                                                   for i in (2 * rank, 2 * rank + 1)]
assert [s.data is None for s in x.global_shards] == [i // 2 != rank for i in range(4)]
assert "float32[8]" in str(x) and "P('x',)" in repr(x)

total = weft.jit(lambda a, b: a @ b, out_shardings=whole)(x, y)
assert float(total) == values @ values
add_up = weft.shard_map(lambda a: weft.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
np.testing.assert_array_equal(np.asarray(weft.jit(add_up)(x)), [12, 16])
slope = weft.jit(weft.grad(lambda w: ((x * w) ** 2).sum()), out_shardings=whole)
np.testing.assert_array_equal(np.asarray(slope(weft.device_put(values, whole))), 2 * values**3)
np.testing.assert_array_equal(np.asarray(weft.device_put(x, whole)), values)
assert float(x[5]) == 5
np.testing.assert_array_equal(weft.jit(lambda a: a + rank)(np.ones(3)), np.ones(3) + rank)
try:
    np.asarray(x)
except RuntimeError as error:
    assert "other processes" in str(error) and "addressable_shards" in str(error)
else:
    raise AssertionError("a value with parts on other processes cannot be read")
try:
    weft.device_put(values + rank, split)
except ValueError as error:
    assert rank == 1 and "process 1 gives other values than process 0" in str(error)
else:
    assert rank == 0
other = next(d for d in weft.devices() if d.process_index != rank)
elsewhere = weft.device_put(values[1], other)
assert "on SingleDeviceSharding" in repr(elsewhere) and f"{elsewhere}" == str(elsewhere)
try:
    float(elsewhere)
except RuntimeError as error:
    assert "this float32[] array is on devices of other processes only" in str(error)
else:
    raise AssertionError("a value of another process cannot be read")
try:
    weft.device_put(weft.device_put(values, weft.local_devices()[0]), other)
except ValueError as error:
    assert "CPU devices of different processes do not send" in str(error)
else:
    raise AssertionError("the CPU's devices do not send to other processes")

# Devices of the processes in turn: a process's parts are not next to each other.
turns = weft.sharding.Mesh(np.array(weft.devices()).reshape(2, 2).T.ravel(), ("x",))
z = weft.make_array_from_process_local_data(NamedSharding(turns, P("x")), values[:4] + 10 * rank)
assert z.shape == (8,)
assert [s.index[0].start for s in z.addressable_shards] == [2 * rank, 2 * rank + 4]
np.testing.assert_array_equal(
    np.asarray(weft.device_put(z, NamedSharding(turns, P()))), [0, 1, 10, 11, 2, 3, 12, 13]
)
weft.distributed.shutdown()
assert not weft.distributed.is_initialized()
print("done", rank)
"""


def test_two_processes_run_one_program_over_all_their_devices():
    for rank, (status, out) in enumerate(run_pair(PROGRAM, devices=2)):
        assert status == 0 and f"done {rank}" in out, out[-3000:]


@pytest.fixture
def unstarted(monkeypatch):
    monkeypatch.setattr(backend, "_clients", {})
    for name in list(os.environ):
        if name.startswith(
            ("SLURM_", "OMPI_", "WEFT_COORDINATOR", "WEFT_PROCESS", "WEFT_NUM_PROC")
        ):
            monkeypatch.delenv(name)


def test_initialize_after_the_first_device_is_refused():
    backend.devices()
    with pytest.raises(RuntimeError, match="before the first use of a device.*top of the program"):
        distributed.initialize("localhost:1", 1, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "coordinator_address is missing.*WEFT_COORDINATOR_ADDRESS"),
        (("localhost:1",), "num_processes is missing.*WEFT_NUM_PROCESSES"),
        (("localhost:1", 2), "process_id is missing"),
        (("localhost:1", 2, 2), "process_id 2 is not one of 2 processes.*0 to 1"),
        (("localhost:1", 2, -1), "process_id must be a whole number, at least 0, got -1"),
        (("localhost:1", 0, 0), "num_processes must be a whole number, at least 1, got 0"),
        (("localhost", 2, 1), "must be 'host:port', got 'localhost'"),
        (("localhost:99999", 2, 1), "must be 'host:port', got 'localhost:99999'"),
        (("local host:1", 2, 1), "must be 'host:port', got 'local host:1'"),
        (("localhost:1", "two", 1), "num_processes must be a whole number, .*got 'two'"),
        (("localhost:1", 2, 0.5), "process_id must be a whole number, .*got 0.5"),
        (("localhost:1", 2, 1, "0,1"), "local_device_ids must be a whole number, .*got '0,1'"),
        (("localhost:1", 2, 1, [0, -1]), "local_device_ids must be a whole number, .*got -1"),
    ],
)
def test_what_initialize_lacks_is_named(unstarted, arguments, words):
    with pytest.raises(ValueError, match=words):
        distributed.initialize(*arguments)
    assert not distributed.is_initialized()


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, "soon", None])
@pytest.mark.parametrize("name", ["initialization_timeout", "shutdown_timeout_seconds"])
def test_a_timeout_that_is_none_is_named(unstarted, name, value):
    with pytest.raises(ValueError, match=f"{name} must be a number of seconds, .*got"):
        distributed.initialize("localhost:1", 2, 1, **{name: value})
    assert not distributed.is_initialized()


def test_a_coordinator_that_does_not_answer_is_named(unstarted):
    with (
        free_address() as address,
        pytest.raises(RuntimeError, match=f"nothing answers at {address} after 0.2 s.*process 0"),
    ):
        distributed.initialize(address, 2, 1, initialization_timeout=0.2)
    assert not distributed.is_initialized()


@pytest.mark.parametrize("bind", [None, "junk", "no.such.host.invalid:1234"])
def test_process_0_says_where_it_cannot_listen(unstarted, bind):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        address = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(RuntimeError, match="cannot listen at .*choose a free port"):
            distributed.initialize(address, 1, 0, coordinator_bind_address=bind)
    assert not distributed.is_initialized()


def test_wefts_own_variables_come_before_the_launchers(unstarted, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NODELIST", "gpu1")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "5")
    monkeypatch.setenv("WEFT_PROCESS_ID", "6")
    known = distributed._from_environment(None)
    assert (known["num_processes"], known["process_id"]) == ("8", "6")
    assert distributed._from_environment("deactivate") == {"process_id": "6"}


DEATH = """
import os, sys
import numpy as np
import weft
from weft import P
from weft.sharding import NamedSharding

rank = int(sys.argv[1])
weft.distributed.initialize(sys.argv[2], 2, rank)
mesh = weft.make_mesh((2,), ("x",))
x = weft.make_array_from_callback((2,), NamedSharding(mesh, P("x")), lambda i: np.ones(2)[i])
total = weft.jit(lambda a: a.sum())
assert float(total(x)) == float(total(x.copy())) == 2
if rank == 1:
    os._exit(3)
try:
    float(total(x + 1))
except Exception as error:
    print("ended", error, flush=True)
os._exit(0)  # leaving the group would wait for the dead one
"""


def test_when_a_process_dies_the_others_end_with_an_error():
    (_, first), (status, second) = run_pair(DEATH, devices=1)
    assert status == 3, second
    assert "process 1 has ended" in first, first


DIES_EARLY = """
import os, signal, sys
import weft
from weft.runtime import distributed, rendezvous

place = {"meeting": (rendezvous, "tell_ready"), "connecting": (distributed, "Watchdog"),
         "serving": (distributed.rendezvous, "let_go")}[sys.argv[3]]
if sys.argv[1] == sys.argv[4]:
    setattr(*place, lambda *args: os.kill(os.getpid(), signal.SIGKILL))
try:
    weft.distributed.initialize(sys.argv[2], 3, int(sys.argv[1]), initialization_timeout=8)
except RuntimeError as error:
    print("NAMED", error)
"""


@pytest.mark.parametrize(
    "rank, place, words",
    [
        (1, "meeting", "not all connected within 8 s: process 1 ended or hangs"),
        (2, "connecting", "all 3 processes connected, but process 2 ended or hangs"),
        (0, "connecting", "all 3 processes connected, but process 0 ended or hangs"),
        (0, "serving", "nothing answers at|process 0 ended before all processes had connected"),
    ],
)
def test_a_process_that_dies_while_the_group_connects_is_named(rank, place, words):
    with free_address() as address:
        runs = [start(DIES_EARLY, r, address, place, rank) for r in range(3)]
        said = end(*runs)
    for number, (run, (out, errors)) in enumerate(zip(runs, said, strict=True)):
        assert run.returncode == (-signal.SIGKILL if number == rank else 0), errors
        assert number == rank or re.search(f"NAMED .*({words})", out), out + errors

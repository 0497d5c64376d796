"""Processes that die, stop, get stuck or call something else are named on all others."""

import json
import socket
import threading
import time

import pytest

from tests import processes
from weft.runtime import calls, divergence, transport
from weft.runtime.replay import ReplayError, describe, replay
from weft.runtime.verdicts import Calls, State, find_difference, find_late
from weft.runtime.watchdog import Watchdog

PROGRAM = """
import os, signal, sys, time, numpy as np, weft
from weft import P
address, rank, early = sys.argv[1], int(sys.argv[2]), weft.jit(lambda x: x * 2)
weft.distributed.initialize(
    address, 4, rank, heartbeat_timeout_seconds=HEARTBEAT, hang_timeout_seconds=HANG)
mesh = weft.make_mesh((4,), ("x",))
split = weft.NamedSharding(mesh, P("x"))
def array(n):
    return weft.make_array_from_callback((4, n), split, lambda i: np.ones((1, n), np.float32))
def over_all(f, out):
    return weft.jit(weft.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out))
total = over_all(lambda x: weft.lax.psum(x, "x"), P())
shift = over_all(lambda x: weft.lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]), P("x"))
x, large = array(4), array(32)
def step():
    np.asarray(early(total(x)))
    shift(x).block_until_ready()
try:
    step(), step()
    if rank == FAULTY:
        BODY
    for _ in range(3):
        step()
    weft.distributed.shutdown()
    print("no error")
except weft.errors.DistributedError as error:
    print("NAMED", error)
    sys.stdout.flush()
os._exit(0)
"""


def run(body, tmp_path, faulty=2, heartbeat=60, hang=60):
    program = PROGRAM.replace("BODY", body).replace("FAULTY", str(faulty))
    program = program.replace("HEARTBEAT", str(heartbeat)).replace("HANG", str(hang))
    with processes.free_address() as address:
        runs = [
            processes.start(
                program, address, r, WEFT_NUM_CPU_DEVICES="1", WEFT_DUMP_DIR=str(tmp_path)
            )
            for r in range(4)
        ]
        ended = processes.end(*(r for i, r in enumerate(runs) if i != faulty))
        runs[faulty].kill()
        runs[faulty].communicate()
    assert all(r.returncode == 0 for i, r in enumerate(runs) if i != faulty), ended
    for out, errors in ended:
        assert "NAMED" in out, out + errors[-3000:]
    return [out.partition("NAMED ")[2] for out, _ in ended]


# Faults, the limits by which they are found, and what all others say.
FAULTS = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", 60, 60, "process 2 has ended"),
    "stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", 5, 60, "process 2 has been silent for"),
    "stuck": ("time.sleep(10000)", 60, 5, "process 2 is in Python code at <string>:22"),
    "skipped": ("shift(x).block_until_ready()", 60, 60, "process 2 called"),
    "swapped": ("shift(x); total(x)", 60, 60, "process 2 called"),
    "jitted early": ("early(x)", 60, 60, ") at <string>:22; process 0, 1, 3"),
    "another shape": ("total(large)", 60, 5, "process 2 compiles another program in call"),
    "an exception": ("raise KeyError('lost')", 60, 60, "process 2 failed: KeyError: 'lost'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_on_all_other_processes(fault, tmp_path):
    body, heartbeat, hang, words = FAULTS[fault]
    for text in run(body, tmp_path, heartbeat=heartbeat, hang=hang):
        assert words in text, text
    dumps = [p for p in tmp_path.iterdir() if json.loads(p.read_text())["rank"] != 2]
    assert len(dumps) == 3
    for dump in dumps:
        told, same = describe(dump)
        assert same, told


STUCK = """
import os, signal, sys, weft
weft.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), hang_timeout_seconds=2)
if sys.argv[2] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
# A wait that no broken connection ends, as that of a collective whose failure Gloo has missed.
weft.jit(lambda x: weft.lax.while_loop(lambda x: x >= 0, lambda x: x * 1.0, x))(1.0).item()
"""


def test_a_process_that_stays_stuck_after_the_verdict_ends_and_says_why():
    with processes.free_address() as address:
        runs = [processes.start(STUCK, address, r, WEFT_NUM_CPU_DEVICES="1") for r in range(2)]
        (_, errors), _ = processes.end(*runs)
    assert runs[0].returncode == 1, errors
    assert "DistributedError: process 1 has ended" in errors and "does not end" in errors


def test_the_death_of_process_0_ends_nobody_else(tmp_path):
    for text in run("os.kill(os.getpid(), signal.SIGKILL)", tmp_path, faulty=0):
        assert "process 0 has ended" in text, text


def test_a_correct_program_ends_in_peace(tmp_path):
    program = PROGRAM.replace("BODY", "pass").replace("FAULTY", "2")
    program = program.replace("HEARTBEAT", "60").replace("HANG", "60")
    with processes.free_address() as address:
        runs = [processes.start(program, address, r, WEFT_NUM_CPU_DEVICES="1") for r in range(4)]
        for out, errors in processes.end(*runs):
            assert "no error" in out, out + errors[-3000:]


def state(rank, *names, waits=True, still=10.0):
    recent = [(i, name, f"train.py:{i}") for i, name in enumerate(names, 1)]
    return State(
        rank, f"train.py:{100 + rank}", waits, still, False, {"0,1,2": Calls(len(names), recent)}
    )


def of(*states):
    return {s.rank: s for s in states}


def test_the_fewer_that_call_something_else_are_at_fault():
    verdict = find_difference(of(state(0, "f", "g"), state(1, "f", "h"), state(2, "f", "g")), True)
    assert verdict is not None and verdict.ranks == (1,)
    assert "process 1 called h at train.py:2; process 0, 2 called g at train.py:2" in verdict.text


def test_a_difference_is_not_judged_before_all_are_there():
    states = of(state(0, "f"), state(1, "f", "h"), state(2, "f", "g"))
    assert find_difference(states, True) is None
    assert find_difference(states, False) is not None


def test_nobody_is_late_before_the_timeout_or_while_nobody_waits():
    states = of(state(0, "f", "g"), state(1, "f"), state(2, "f", "g"))
    assert find_late(states, 11.0) is None
    verdict = find_late(states, 9.0)
    assert verdict is not None and verdict.ranks == (1,)
    states = of(*(state(r, *"fg"[: 1 + (r != 1)], waits=False) for r in range(3)))
    assert find_late(states, 9.0) is None


def test_states_survive_json():
    before = state(1, "f", "g")
    assert State.from_json(json.loads(json.dumps(before.to_json()))) == before


def test_a_replay_makes_the_calls_that_all_made_and_stops_at_the_first_that_differs():
    steps, verdict = replay(of(state(0, "f", "g", "f"), state(1, "f", "h"), state(2, "f", "g")))
    assert len(steps) == 1 and " f " in steps[0]
    assert verdict is not None and verdict.ranks == (1,)
    steps, verdict = replay(of(state(0, "f", "g"), state(1, "f", "g"), state(2, "f")))
    assert len(steps) == 1
    assert verdict is not None and verdict.ranks == (2,)


def test_what_is_no_dump_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"format": "other"}')
    with pytest.raises(ReplayError, match="no dump of a group"):
        describe(path)
    with pytest.raises(ReplayError, match="no dump of a group"):
        describe(tmp_path / "missing")


def test_a_log_keeps_its_newest_calls_and_their_lines():
    import sys

    log = calls.CallLog()
    for i in range(100):
        log.note(f"f{i}", sys._getframe())
    told = log.state()
    assert told.count == 100 and told.recent[-1][:2] == (100, "f99")
    assert "test_watchdog.py:" in told.recent[-1][2] and len(told.recent) < 100


def state_of(thread):
    """The state that a watchdog tells of a process whose main thread is this one."""
    watchdog = object.__new__(Watchdog)
    watchdog.rank, watchdog.main, watchdog.ended = 0, thread.ident, False
    watchdog._progress = (0, time.monotonic())
    for _ in range(1000):  # until it waits
        state = watchdog.state()
        if state.waits or "test_watchdog" in state.line:
            break
        time.sleep(0.01)
    return state


def test_who_waits_for_another_thread_is_where_it_asked_for_it():
    comparison = divergence._Comparison(None, lambda source_info: [])
    event = threading.Event()
    inside = threading.Thread(target=lambda: comparison.wait(), daemon=True)
    outside = threading.Thread(target=lambda: event.wait(), daemon=True)
    inside.start()
    outside.start()
    assert state_of(inside).waits
    state = state_of(outside)
    assert not state.waits and "test_watchdog.py:" in state.line
    event.set()
    comparison.agreed = True
    comparison._running.release()
    for thread in (inside, outside):
        thread.join(timeout=processes.HANGS)
        assert not thread.is_alive()


def test_new_ports_are_told_at_once(monkeypatch):
    """Who is stopped right after its first collective was connected has told where it listens."""
    told = []
    monkeypatch.setattr(transport, "ports", set())
    monkeypatch.setattr(transport, "announce", [lambda: told.append(set(transport.ports))])
    with transport.note_ports(lambda: socket.create_server(("127.0.0.1", 0))) as server:
        assert told == [{server.getsockname()[1]}]

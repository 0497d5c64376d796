"""`weft launch` starts processes, prefixes what they print, ends all when one fails."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


def run(*words, timeout=300, **variables):
    return subprocess.run(
        [sys.executable, "-m", "weft", "launch", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **variables},
    )


def script(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text("import os, sys, time\nrank = int(os.environ['WEFT_PROCESS_ID'])\n" + text)
    return str(path)


def test_every_process_has_a_number_and_its_lines_a_prefix(tmp_path):
    path = script(tmp_path, "print('of', os.environ['WEFT_NUM_PROCESSES'], sys.argv[1:])")
    ended = run("-n", "3", path, "--steps", "4")
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"[{i}] of 3 ['--steps', '4']" for i in range(3)]


def test_every_group_has_a_secret_of_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("WEFT_COORDINATOR_TOKEN", raising=False)
    path = script(tmp_path, "print(len(s := os.environ['WEFT_COORDINATOR_TOKEN']), s)")
    tokens = [
        {line.split(" ", 1)[1] for line in run("-n", "2", path).stdout.splitlines()}
        for _ in range(2)
    ]
    assert all(len(group) == 1 for group in tokens)
    assert tokens[0] != tokens[1]
    assert all(token.startswith("64 ") for group in tokens for token in group)


def test_a_module_is_run_with_its_arguments():
    ended = run("-n", "1", "-m", "base64", "-t")
    assert ended.returncode == 0, ended.stderr
    assert all(line.startswith("[0] ") for line in ended.stdout.splitlines())


def test_the_first_failure_ends_all_and_its_traceback_comes_last(tmp_path):
    path = script(
        tmp_path,
        "if rank == 1: raise ValueError('wrong shard')\ntime.sleep(600)",
    )
    before = time.monotonic()
    ended = run("-n", "3", path)
    assert time.monotonic() - before < 120
    assert ended.returncode == 1
    assert "process 1 failed with exit status 1" in ended.stderr
    assert ended.stderr.rstrip().endswith("ValueError: wrong shard")


def test_a_process_that_a_signal_ends_is_named(tmp_path):
    path = script(tmp_path, "if rank == 0: os.kill(os.getpid(), 9)\ntime.sleep(600)")
    ended = run("-n", "2", path)
    assert ended.returncode == 128 + 9
    assert "process 0 was ended by SIGKILL" in ended.stderr


def test_processes_that_ignore_the_request_are_killed(tmp_path):
    path = script(
        tmp_path,
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready')\n"
        "if rank: sys.exit(3)\ntime.sleep(600)",
    )
    code = (
        f"import sys, weft.launch as l; l.GRACE = 0.5; sys.exit(l.launch([{path!r}], processes=2))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 3, ended.stderr


def test_restarts_start_all_again_until_one_attempt_succeeds(tmp_path):
    path = script(
        tmp_path,
        "print('attempt', os.environ['WEFT_RESTART'], 'of', os.environ['WEFT_NUM_PROCESSES'])\n"
        "sys.exit(rank == 1 and os.environ['WEFT_RESTART'] < '2')",
    )
    ended = run("-n", "4", "--restarts", "3", "--elastic", "2", path)
    assert ended.returncode == 0, ended.stderr
    assert "[0] attempt 2 of 2" in ended.stdout and "attempt 3" not in ended.stdout
    assert "starting 3 processes again (restart 1 of 3)" in ended.stderr


def test_restarts_end(tmp_path):
    ended = run("-n", "1", "--restarts", "2", script(tmp_path, "sys.exit(7)"))
    assert ended.returncode == 7
    assert ended.stderr.count("failed with exit status 7") == 3


def test_signals_are_forwarded(tmp_path):
    path = script(
        tmp_path,
        "import signal\n"
        "def end(*_): print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(600)",
    )
    launcher = subprocess.Popen(
        [sys.executable, "-m", "weft", "launch", "-n", "2", path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout is not None
    ready = {launcher.stdout.readline() for _ in range(2)}
    assert ready == {"[0] ready\n", "[1] ready\n"}
    launcher.send_signal(signal.SIGTERM)
    out, _ = launcher.communicate(timeout=120)
    assert sorted(out.splitlines()) == ["[0] saved", "[1] saved"]


def test_a_program_over_all_processes_adds_up(tmp_path):
    path = script(
        tmp_path,
        "import weft, numpy as np\n"
        "from weft import P\n"
        "weft.distributed.initialize()\n"
        "mesh = weft.make_mesh((4,), ('x',))\n"
        "f = weft.shard_map(lambda: weft.lax.psum(weft.lax.axis_index('x'), 'x'), mesh=mesh,"
        " in_specs=(), out_specs=P())\n"
        "print(len(weft.devices()), int(f()))",
    )
    ended = run("-n", "2", "--devices-per-process", "2", path)
    assert ended.returncode == 0, ended.stderr
    # XLA's transport prints lines of its own, whole or in parts.
    assert {"[0] 4 6", "[1] 4 6"} <= set(ended.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "which program"),
        (("-n", "0", "x.py"), "-n must be at least 1, got 0"),
        (("-n", "1", "--restarts", "-1", "x.py"), "--restarts must be at least 0"),
        (("-n", "1", "--devices-per-process", "-2", "x.py"), "--devices-per-process must be"),
        (("x.py",), "say how many processes to start with -n"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_line(words, text):
    ended = run(*words)
    assert ended.returncode == 2
    assert text in ended.stderr and ended.stderr.count("\n") == 1


def test_a_process_of_another_launcher_becomes_the_program(tmp_path):
    text = "print(os.environ['RANK'], os.environ['WEFT_NUM_CPU_DEVICES'], sys.argv[1:])"
    (tmp_path / "p.py").write_text("import os, sys\n" + text)
    ended = run(
        *("--devices-per-process", "3", str(tmp_path / "p.py"), "a"),
        **{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "5"},
    )
    assert (ended.returncode, ended.stdout) == (0, "1 3 ['a']\n"), ended.stderr


TRAINING = """
import os, sys, numpy as np, weft
from weft import P
weft.distributed.initialize()
attempt, folder = int(os.environ["WEFT_RESTART"]), sys.argv[1]
count, rank = weft.process_count(), weft.process_index()
mesh = weft.make_mesh((count,), ("data",))
split = weft.NamedSharding(mesh, P("data"))
whole = weft.NamedSharding(mesh, P())
data = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
x = weft.make_array_from_callback((12, 3), split, lambda i: data[i])
y = weft.make_array_from_callback((12,), split, lambda i: (data @ np.float32([1, -2, 3]))[i])
loss = lambda w: ((x @ w - y) ** 2).mean()
step = weft.jit(lambda w: (loss(w), w - 0.1 * weft.grad(loss)(w)))
manager = weft.checkpoints.Manager(folder)
w, start = weft.make_array_from_callback((3,), whole, lambda i: np.zeros(3, np.float32)[i]), 0
if manager.latest_step() is not None:
    state = manager.restore(like={"w": w, "step": 0})
    w, start = state["w"], state["step"] + 1
for i in range(start, 8):
    value, w = step(w)
    manager.save(i, {"w": w, "step": i})
    manager.wait()
    if rank == 0:
        print(f"LOSS {i} {float(value):.6f} {count}", flush=True)
    if i == 2 + 2 * attempt and attempt < 2 and rank == attempt:
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("elastic", [False, True])
def test_a_run_whose_processes_are_killed_continues_the_same_loss_curve(tmp_path, elastic):
    pytest.importorskip("tensorstore")
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    words = ["--elastic", "2"] if elastic else []
    ended = run("-n", "4", "--devices-per-process", "1", "--restarts", "3", *words, str(path),
                str(tmp_path / "steps"))  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    data = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    target, w = data @ np.float32([1, -2, 3]), np.zeros(3, np.float32)
    expected = []
    for _ in range(8):
        error = data @ w - target
        expected.append((error**2).mean())
        w = w - 0.1 * 2 * data.T @ error / len(error)
    lines = re.findall(r"LOSS (\d+) (\S+) (\d)", ended.stdout)
    losses = {int(i): float(value) for i, value, _ in lines}
    np.testing.assert_allclose([losses[i] for i in range(8)], expected, rtol=1e-3, atol=1e-5)
    counts = [int(count) for _, _, count in lines]
    assert counts[0] == 4 and counts[-1] == (2 if elastic else 4)
    assert "process 0 was ended by SIGKILL" in ended.stderr
    assert "process 1 was ended by SIGKILL" in ended.stderr

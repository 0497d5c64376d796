"""No native kernel waits for ever: deadlocks are found, and what only looks has a limit of time."""

from __future__ import annotations

import inspect
import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.pallas as pl
from tests.pallas import waiting_kernels
from tests.processes import end, python, start
from weft import lax
from weft.core.config import options

PROGRAM = Path(waiting_kernels.__file__)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What became of each kernel."""
    said = python("from tests.pallas import waiting_kernels; waiting_kernels.main()")
    return dict(map(json.loads, said.splitlines()))


def line_of(fun: object, text: str) -> str:
    """`file:line` of the line of a function that holds the text."""
    lines, first = inspect.getsourcelines(fun)
    number = next(first + i for i, line in enumerate(lines) if text in line)
    return f"{PROGRAM.name}:{number}"


HANGS = waiting_kernels
DEADLOCKS = {
    "nobody signals": [
        "m(i=0) waits at",
        "m(i=1) waits at",
        "its semaphore sem to be at least 1 (it is 0)",
        line_of(HANGS.nobody_signals, "wait"),
    ],
    "one of an array": ["semaphore sems[1, 0] to be at least 3 (it is 0)", "sems[1, 1]"],
    "crossed": ["left(c=0) waits at", "right(c=0) waits at", "semaphore a", "semaphore b"],
    "not all arrive": ["m(i=1) waits at", "barrier barrier (1 of 2 cores are there)"],
    "barrier in a loop": ["m(i=1) waits at", "barrier barrier (1 of 2 cores are there)"],
    "no copy": ["for a copy to finish: its semaphore sem to be at least 1 (it is 0)"],
    "scoped": ["scratch 0 of run_scoped at waiting_kernels.py:", "at least 2 (it is 0)"],
    "waits later": ["m(i=0) waits at", "at least 1 (it is 0)"],
    "a hundred cores": ["m(i=15) waits", "and so on"],
    "under vmap": ["a copy to finish"],
    "under scan": ["a copy to finish"],
    "under shard_map": ["m(i=0) waits at", "m(i=1) waits at"],
    "before a collective": ["m(i=0) waits at", "m(i=1) waits at"],
}
LIMITS = {
    "polls": [f"m(i=1) looks again and again at {PROGRAM}", "m(i=0) looks", "wait_limit"],
    "polls and counts": ["m(i=0) looks again", "m(i=1) looks again"],
    "one polls, one waits": ["m(i=0) looks again", "m(i=1) waits at", "its semaphore sem"],
    "one computes, one waits": [
        "m(i=0) is in the loop at",
        line_of(HANGS.one_computes_one_waits, "while_loop"),
        "m(i=1) waits at",
    ],
    "locked": ["m(i=0) looks again and again at"],
    "exchanged": ["m(i=0) looks again and again at"],
    "flag in memory": ["a program looks again and again at", line_of(HANGS.forever, "while")],
    "whole grid": ["a program looks again and again at"],
    "interpreted flag": ["program (0,) looks again and again at", "nothing else has happened"],
    "interpreted count": ["m(i=0) looks again and again at"],
}


@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_is_found_and_says_who_waits_for_what_where(name, outcomes):
    text = outcomes[name]
    assert "kernel k: deadlock, no core can go on:" in text
    for part in DEADLOCKS[name]:
        assert part in text


@pytest.mark.parametrize("name", LIMITS)
def test_a_loop_that_looks_in_vain_ends_at_the_limit_and_names_its_line(name, outcomes):
    text = outcomes[name]
    assert "kernel k: " in text and f"{waiting_kernels.LIMIT:g} s, the limit of waiting" in text
    for part in LIMITS[name]:
        assert part in text


def test_a_program_of_a_grid_that_waits_alone_is_a_deadlock(outcomes):
    text = outcomes["wait alone"]
    line = line_of(HANGS.wait_alone, "semaphore_wait")
    assert "kernel k: deadlock: a program waits at" in text
    assert line in text and "for sem, and nobody else" in text


def test_every_kernel_that_waits_has_been_looked_at(outcomes):
    assert {*DEADLOCKS, *LIMITS, "wait alone"} == set(outcomes)


LIMIT = 0.75


def ping_pong(rounds, pause):
    """Two cores that wait for each other by turns, one of them computing for a while."""

    def kernel(x, out, sem, flag):
        i = lax.axis_index("i")
        pl.when(i == 0)(lambda: pl.debug_print("begun"))

        def step(k, c):
            @pl.when(i == 0)
            def _():
                total = lax.fori_loop(0, x[0], lambda j, s: s * 3 + j, k)
                flag[...] = total
                pl.semaphore_signal(sem, 1, core_index=1)
                lax.while_loop(lambda c: pl.semaphore_read(sem) < 1, lambda c: c, c)
                pl.semaphore_wait(sem)

            @pl.when(i == 1)
            def _():
                pl.semaphore_wait(sem)
                out[0] = flag[...]
                pl.semaphore_signal(sem, 1, core_index=0)

            return c

        lax.fori_loop(0, rounds, step, jnp.int32(0))

    call = pl.mpmd_map(
        [(pl.Mesh({"i": 2}), kernel)],
        weft.ShapeDtypeStruct((1,), "int32"),
        [pl.SemaphoreType.REGULAR, pl.SHARED((), "int32")],
        compiler_params={"wait_limit": LIMIT},
    )
    return call(np.array([pause], np.int32))


def test_waits_that_end_take_no_notice_of_the_limit():
    """All waits together take longer than the limit, none alone."""
    want = 299
    for j in range(5):
        want = want * 3 + j
    assert int(ping_pong(300, 5)[0]) == want
    rounds, seconds = 500, 0.0
    while seconds < LIMIT:
        rounds *= 2
        ping_pong(rounds, 5).block_until_ready()  # compiles it
        begin = time.monotonic()
        ping_pong(rounds, 1_000_000).block_until_ready()
        seconds = time.monotonic() - begin


def test_while_the_process_is_stopped_nobody_waits():
    """As by Ctrl-Z, in the middle of a kernel of which one core looks and one computes."""
    run = start(
        "from tests.pallas.cpu.test_waits import ping_pong; print(ping_pong(200, 1_000_000))"
    )
    assert run.stdout.readline() == "begun\n"
    run.send_signal(signal.SIGSTOP)
    time.sleep(2 * LIMIT)
    run.send_signal(signal.SIGCONT)
    [(_, errors)] = end(run)
    assert run.returncode == 0, errors


def test_wait_limit_must_be_seconds():
    def kernel(out):
        out[...] = 1

    for wrong in (-1, "long", True):
        with pytest.raises(ValueError, match="wait_limit must be seconds, 0 for none"):
            pl.pallas_call(
                kernel,
                weft.ShapeDtypeStruct((), "int32"),
                compiler_params=pl.CompilerParams(wait_limit=wrong),
            )


def test_the_option_gives_the_limit_where_a_call_does_not():
    def kernel(x, out):
        lax.while_loop(lambda _: x[0] == 0, lambda c: c, jnp.int32(0))

    with options["pallas_wait_limit"](0.125):
        call = pl.pallas_call(kernel, weft.ShapeDtypeStruct((), "int32"))
        with pytest.raises(Exception, match=r"0\.125 s, the limit of waiting"):
            np.asarray(call(np.zeros(1, np.int32)))


def test_num_threads_of_one_runs_all_programs_on_the_thread_of_the_call(monkeypatch):
    from weft.pallas.cpu.lower import kernel_text
    from weft.pallas.op import pallas_call_p

    monkeypatch.setattr("weft.pallas.cpu.grid.cpu_count", lambda: 4)
    x = np.arange(1 << 16, dtype=np.float32).reshape(64, 1024)
    spec = pl.BlockSpec((1, 1024), lambda i: (i, 0))

    def kernel(x, out):
        out[...] = jnp.exp(x[...] * 1e-5)

    for threads, apart in ((1, False), (2, True)):
        call = pl.pallas_call(
            kernel,
            weft.ShapeDtypeStruct(x.shape, x.dtype),
            grid=64,
            in_specs=[spec],
            out_specs=spec,
            compiler_params=pl.CompilerParams(num_threads=threads),
        )
        np.testing.assert_allclose(call(x), np.exp(x * np.float32(1e-5)), rtol=1e-6)
        jaxpr = weft.make_jaxpr(call)(x)
        built = next(e for e in jaxpr.eqns if e.primitive is pallas_call_p).params["call"]
        assert ("job_help" in kernel_text(built)) == apart

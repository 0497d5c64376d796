"""Random mpmd_map programs give what their phases say, on every executor; broken ones are found."""

import linecache
import re

import numpy as np
import pytest

import weft
import weft.pallas as pl
from tests.pallas import random_mpmd, triton_machine
from tests.pallas.random_mpmd import Copy, Gate, Meeting, Message, Stream, Tally, broken, draw
from weft.core.jaxpr import walk_eqns


def on_gpu(call, *args):
    jaxpr = weft.make_jaxpr(call)(*args)
    (found,) = [e.params["call"] for e in walk_eqns(jaxpr) if e.primitive.name == "pallas_call"]
    return triton_machine.run(found, *args)


def check(seed, interleavings=2, gpu=True):
    program = draw(seed)
    want = program.expected()
    for turn in range(interleavings):
        got = program.run(pl.InterpretParams(random_seed=turn))
        np.testing.assert_array_equal(got, want, f"interpreted, interleaving {turn}")
    for _ in range(2):
        np.testing.assert_array_equal(program.run(), want, "native")
    if gpu:
        np.testing.assert_array_equal(program.run(with_call=on_gpu), want, "Triton on the host")


@pytest.mark.parametrize("seed", range(12))
def test_every_executor_gives_what_the_phases_say(seed):
    check(seed)


@pytest.mark.parametrize("interpret", [True, False])
@pytest.mark.parametrize("seed", [500, 501])
def test_programs_run_under_jit_and_vmap(seed, interpret):
    program = draw(seed, phases=8)

    def mapped(call, x, counts):
        twice = weft.jit(weft.vmap(call))(np.stack([x, x[:, ::-1]]), np.stack([counts, counts]))
        return [np.asarray(out)[0] for out in twice]

    got = program.run(interpret, with_call=mapped)
    np.testing.assert_array_equal(got, program.expected())


def crossing(program, phase):
    """Whether what one core does in the phase is of concern to another."""
    if isinstance(phase, Message):
        return any(phase.source != phase.target or i != j for i, j in phase.edges(program))
    if isinstance(phase, Meeting):
        n = sum(program.sizes[m] for m in phase.meshes)
        return len(phase.meshes) > 1 and phase.shift % n != 0
    if isinstance(phase, Stream):
        return phase.count > phase.buffers
    return not isinstance(phase, Tally) or len(program.sizes) > 1


BROKEN = [
    (Message, "no signal", pl.DeadlockError),
    (Message, "two signals", (pl.SemaphoreError, pl.DataRaceError)),
    (Message, "no wait", pl.DataRaceError),
    (Message, "out of bounds", pl.OutOfBoundsError),
    (Message, "far core", pl.OutOfBoundsError),
    (Copy, "no wait", pl.DataRaceError),
    (Copy, "source changed", pl.DataRaceError),
    (Meeting, "nobody meets", pl.DataRaceError),
    (Meeting, "one stays away", (pl.DataRaceError, pl.DeadlockError)),
    (Stream, "no wait", pl.DataRaceError),
    (Stream, "no signal", pl.DeadlockError),
    (Tally, "not atomic", pl.DataRaceError),
    (Gate, "no signal", pl.DeadlockError),
    (Gate, "not taken", pl.SemaphoreError),
]


def break_one(kind, how, count):
    """The first programs that have such a phase, with it broken."""
    found = []
    for seed in range(1000):
        program = draw(seed)
        for k, phase in enumerate(program.phases):
            if isinstance(phase, kind) and crossing(program, phase):
                found.append(broken(program, k, how))
                break
        if len(found) == count:
            return found
    raise AssertionError(f"no program has a {kind.__name__}")


def lines_named(error):
    """The lines of source that a message names."""
    numbers = re.findall(r"random_mpmd\.py:(\d+)", str(error))
    return [linecache.getline(random_mpmd.__file__, int(n)) for n in numbers]


@pytest.mark.parametrize(
    ("kind", "how", "error"), BROKEN, ids=[f"{k.__name__}-{h}" for k, h, _ in BROKEN]
)
def test_the_interpreter_names_what_is_wrong_in_whatever_order_it_happens(kind, how, error):
    for program in break_one(kind, how, 3):
        for turn in range(3):
            with pytest.raises(error) as caught:
                program.run(pl.InterpretParams(random_seed=turn))
            lines = lines_named(caught.value)
            assert lines, caught.value
            if caught.type is pl.DataRaceError:
                assert len(lines) >= 2
                assert all(
                    any(a in s for a in ("board", "out[", "counts", "copy", "refs")) for s in lines
                )


@pytest.mark.parametrize("kind", [Message, Stream, Gate])
def test_a_missing_signal_ends_native_code_with_an_error(kind):
    (program,) = break_one(kind, "no signal", 1)
    with pytest.raises(Exception, match=r"kernel drawn: deadlock[^$]*random_mpmd\.py:\d+"):
        program.run()


@pytest.mark.parametrize(
    ("kind", "how"),
    [(k, h) for k, h, e in BROKEN if h in ("no wait", "nobody meets", "not atomic", "not taken")],
)
def test_native_code_ends_when_nothing_orders_accesses(kind, how):
    (program,) = break_one(kind, how, 1)
    assert program.run().shape == program.expected().shape


@pytest.mark.parametrize("how", ["out of bounds", "far core"])
def test_debug_mode_finds_a_place_that_does_not_exist(how):
    (program,) = break_one(Message, how, 1)
    with pytest.raises(Exception, match=r"kernel drawn.*random_mpmd\.py:\d+.*out of"):
        program.run(debug=True)

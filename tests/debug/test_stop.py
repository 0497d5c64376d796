"""weft.debug.breakpoint, driven by commands in a file as a user types them."""

import bdb
import io

import numpy as np
import pytest

import weft
import weft.numpy as wnp


class Session:
    """Commands, and what the prompt answers to each."""

    def __init__(self, *commands):
        self.stdin = io.StringIO("\n".join(commands) + "\n")
        self.stdout = io.StringIO()

    @property
    def files(self):
        return {"stdin": self.stdin, "stdout": self.stdout}

    @property
    def answers(self):
        weft.effects_barrier()
        parts = self.stdout.getvalue().split("(weft) ")[1:]
        return [p.split("\n> ")[0].strip() if not p.startswith("> ") else p for p in parts]

    @property
    def shown(self):
        """The numbers that single values were printed with, in order."""
        return [a[6 : a.index(",")] for a in self.answers if a.startswith("Array(")]


def test_traced_variables_have_the_values_of_the_run_under_jit():
    session = Session("p x", "p pair['sum']", "pp n", "c")

    @weft.jit
    def f(x, n=3):
        pair = {"sum": x + 1, "n": n}
        weft.debug.breakpoint(**session.files)
        return pair["sum"]

    assert float(f(2.0)) == 3.0
    assert session.shown == ["2.", "3."]
    assert session.answers[2] == "3"


def test_a_cached_program_stops_in_each_run():
    session = Session(*["p x", "c"] * 2)

    @weft.jit
    def f(x):
        weft.debug.breakpoint(ordered=True, **session.files)
        return x

    f(1.0), f(5.0)
    assert session.shown == ["1.", "5."]


def test_vmap_stops_for_each_example():
    session = Session(*["p y", "c"] * 3)

    def f(x):
        y = 2 * x
        weft.debug.breakpoint(ordered=True, **session.files)
        return y

    np.testing.assert_array_equal(weft.jit(weft.vmap(f))(wnp.arange(3.0)), [0, 2, 4])
    assert sorted(session.shown) == ["0.", "2.", "4."]


def test_scan_stops_in_each_iteration():
    session = Session(*["p carry, x", "c"] * 3)

    def f(carry, x):
        weft.debug.breakpoint(ordered=True, **session.files)
        return carry + x, None

    total, _ = weft.lax.scan(f, 10.0, wnp.arange(3.0))
    assert float(total) == 13.0
    weft.effects_barrier()
    pairs = [a for a in session.answers if a.startswith("(")]
    assert [[float(p.split("(")[i].split(",")[0]) for i in (2, 3)] for p in pairs] == [
        [10.0, 0.0],
        [10.0, 1.0],
        [11.0, 2.0],
    ]


def test_derivatives_pass_it_by():
    session = Session("p x", "c")

    def f(x):
        weft.debug.breakpoint(**session.files)
        return x**3

    assert float(weft.grad(f)(2.0)) == 12.0
    assert session.shown == ["2."]


def test_it_stops_outside_of_jit_too():
    session = Session("p x", "c")
    x = wnp.float32(4)
    assert weft.debug.breakpoint(**session.files) is None
    assert session.shown == ["4."]
    assert float(x) == 4


def test_commands_move_in_the_stack_and_show_it():
    session = Session("p x", "u", "p x", "a", "d", "d", "w", "l", "nonsense", "new = 5", "new", "c")

    def inner(x):
        weft.debug.breakpoint(**session.files)
        return x

    @weft.jit
    def outer(x):
        return inner(x + 1)

    outer(1.0)
    answers = session.answers
    assert session.shown == ["2.", "1."]
    assert answers[1].startswith("> ") and "return inner(x + 1)" in answers[1]
    assert answers[3].startswith("x = Array(1.")
    assert answers[5] == "*** Newest frame"
    assert answers[6].endswith("outer()\n-> return inner(x + 1)")
    assert "/weft/" not in session.stdout.getvalue()
    assert "breakpoint(**session.files)" in answers[7]
    assert answers[8] == "*** NameError: name 'nonsense' is not defined"
    assert answers[10] == "5"


@pytest.mark.parametrize("frames", [1, 2])
def test_num_frames_limits_the_stack(frames):
    session = Session(*["u"] * frames, "c")

    @weft.jit
    def f(x):
        weft.debug.breakpoint(num_frames=frames, **session.files)
        return x

    f(1.0)
    assert session.answers[frames - 1] == "*** Oldest frame"
    assert sum(a.startswith("> ") for a in session.answers) == frames - 1


@pytest.mark.parametrize("command", ["q", "exit", ""])
def test_quitting_ends_the_program(command):
    session = Session(command)
    if not command:
        session.stdin = io.StringIO("")  # no more input

    @weft.jit
    def f(x):
        weft.debug.breakpoint(**session.files)
        return x

    with pytest.raises(Exception, match="quit at weft.debug.breakpoint"):
        f(1.0).block_until_ready()
        weft.effects_barrier()
    with pytest.raises(bdb.BdbQuit):
        weft.debug.breakpoint(stdin=io.StringIO("q\n"), stdout=io.StringIO())


def test_a_token_is_returned_with_its_derivative_once_it_was_seen():
    session = Session(*["p y", "c"] * 2)

    def f(x):
        y = 3 * x
        y = weft.debug.breakpoint(token=y, **session.files)
        return y * y

    value, slope = weft.jit(weft.value_and_grad(f))(2.0)
    assert (float(value), float(slope)) == (36.0, 36.0)
    assert session.shown[0] == "6."


def test_a_token_that_nobody_uses_stops_nothing():
    session = Session("c")

    @weft.jit
    def f(x):
        weft.debug.breakpoint(token=x, **session.files)
        return x

    f(1.0).block_until_ready()
    weft.effects_barrier()
    assert session.stdout.getvalue() == ""


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"backend": "web"}, ValueError, "no backend 'web'; there is cli"),
        ({"stdn": None}, TypeError, "unexpected keyword argument 'stdn'.*stdin and stdout"),
        ({"ordered": True, "token": 1.0}, ValueError, "exclude each other"),
    ],
)
def test_bad_arguments_are_named(options, error, words):
    with pytest.raises(error, match=words):
        weft.debug.breakpoint(**options)


def test_variables_that_are_no_pytrees_stay_as_they_are():
    session = Session("p odd", "p x", "c")

    class Odd:
        def __repr__(self):
            return "<odd>"

    @weft.jit
    def f(x):
        odd = {1: Odd(), "a": x}  # keys that cannot be sorted
        weft.debug.breakpoint(**session.files)
        return x + len(odd)

    f(1.0)
    assert "<odd>" in session.answers[0]
    assert session.shown == ["1."]

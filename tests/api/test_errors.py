"""Bad input to transformations and control flow: the exception, its words, the frames it shows."""

import os
import subprocess
import sys
import textwrap
import traceback

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.error_cases import CASES, F, X, Y
from weft import lax
from weft.core import boundary
from weft.core.source import is_internal_file
from weft.errors import (
    ArgumentError,
    AxisNameError,
    MissingRuleError,
    ShapeError,
    UnexpectedTracerError,
)


def raised(function, error):
    with pytest.raises(error) as info:
        function()
    assert type(info.value) in (error, ArgumentError, AxisNameError, MissingRuleError)
    return info.value


def frames(exception):
    return [f.filename for f in traceback.extract_tb(exception.__traceback__)]


# Leaks -------------------------------------------------------------------------------------------

LEAKED = []


def leaker(x):
    y = jnp.sin(x)
    LEAKED.append(y)  # the line above is the one that messages must name
    return y.sum()


def leak_line():
    return f"test_errors.py:{leaker.__code__.co_firstlineno + 1} (leaker)"


TRANSFORMS = {
    "jit": lambda: weft.jit(lambda x: leaker(x))(X),
    "grad": lambda: weft.grad(leaker)(X),
    "vmap": lambda: weft.vmap(leaker)(X),
    "jvp": lambda: weft.jvp(leaker, (X,), (X,)),
    "vmap of grad": lambda: weft.vmap(weft.grad(leaker))(X),
    "grad of grad": lambda: weft.grad(lambda x: weft.grad(leaker)(x).sum())(X),
    "jit of grad": lambda: weft.jit(weft.grad(lambda x: leaker(x)))(X),
    "scan": lambda: lax.scan(lambda c, x: (leaker(x), c), F, X),
    "cond": lambda: lax.cond(True, lambda x: leaker(x), lambda x: F, X),
    "checkpoint": lambda: weft.checkpoint(lambda x: leaker(x))(X),
    "make_jaxpr": lambda: weft.make_jaxpr(leaker)(X),
    "eval_shape": lambda: weft.eval_shape(leaker, X),
}
USES = {
    "an operator": lambda x: x + 1.0,
    "a function": lambda x: jnp.cos(x),
    "jit that closes over it": lambda x: weft.jit(lambda y: y + x)(1.0),
    "jit of it": lambda x: weft.jit(lambda y: y)(x),
    "grad that closes over it": lambda x: weft.grad(lambda y: jnp.sum(y * x))(1.0),
    "vmap that closes over it": lambda x: weft.vmap(lambda y: y * x)(X),
    "numpy": lambda x: np.asarray(x),
    "bool": lambda x: bool(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_leaked_value_names_the_line_where_it_was_made(name):
    LEAKED.clear()
    TRANSFORMS[name]()
    e = raised(lambda: LEAKED[-1] + 1.0, UnexpectedTracerError)
    assert leak_line() in str(e)
    assert "after its trace had ended" in str(e) and "Return it" in str(e)


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_leaked_value_is_reported(use):
    LEAKED.clear()
    TRANSFORMS["jit"]()
    e = raised(lambda: USES[use](LEAKED[-1]), UnexpectedTracerError)
    assert leak_line() in str(e)


def test_a_leaked_argument_names_its_function():
    kept = []

    def keeper(x):
        kept.append(x)
        return x

    weft.jit(keeper)(F)
    assert "an argument of keeper" in str(raised(lambda: kept[0] + 1, UnexpectedTracerError))


# The table ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_message_names_what_was_wrong_and_the_remedy(name):
    function, error, words = CASES[name]
    e = raised(function, error)
    missing = [w for w in words if w not in str(e)]
    assert not missing, f"{missing} not in:\n{e}"


@pytest.mark.parametrize("name", CASES)
def test_a_traceback_ends_in_the_user_s_code_without_weft_s_frames(name):
    function, error, _ = CASES[name]
    e = raised(function, error)
    shown = frames(e)
    assert shown[-1] == function.__code__.co_filename
    assert not any(map(is_internal_file, shown)), shown
    context = e.__context__
    assert context is None or e.__suppress_context__, repr(context)


def test_the_user_s_own_context_and_cause_are_kept():
    def f(x):
        try:
            {}["missing"]
        except KeyError:
            raise RuntimeError("no such layer")  # noqa: B904

    e = raised(lambda: weft.jit(f)(F), RuntimeError)
    assert isinstance(e.__context__, KeyError) and not e.__suppress_context__

    def g(x):
        raise RuntimeError("no such layer") from ValueError("cause")

    e = raised(lambda: weft.grad(g)(F), RuntimeError)
    assert isinstance(e.__cause__, ValueError)


def test_frames_of_nested_user_functions_are_shown_in_order():
    def innermost(x):
        return x + Y

    def middle(x):
        return weft.vmap(innermost, in_axes=None, axis_size=2)(x).sum()

    def outer(x):
        return weft.grad(middle)(x)

    with pytest.raises(ValueError) as info:
        weft.jit(outer)(X)
    names = [f.name for f in traceback.extract_tb(info.value.__traceback__)]
    assert [n for n in names if n in ("outer", "middle", "innermost")] == [
        "outer",
        "middle",
        "innermost",
    ]
    assert not any(map(is_internal_file, frames(info.value)))


def test_filtering_can_be_switched_off():
    weft.config.update("traceback_filtering", "off")
    try:
        e = raised(lambda: weft.jit(lambda x: x + Y)(X), ShapeError)
    finally:
        weft.config.update("traceback_filtering", "auto")
    assert any(map(is_internal_file, frames(e)))


def test_an_uncaught_error_of_an_eager_op_shows_only_the_user_s_lines(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
            import weft.numpy as jnp

            def add(x):
                return jnp.concatenate([x, jnp.ones((2, 4))])

            add(jnp.ones((2, 3)))
        """)
    )
    root = os.path.dirname(os.path.dirname(weft.__file__))
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    files = [line for line in done.stderr.splitlines() if line.lstrip().startswith("File ")]
    assert len(files) == 2 and all(str(script) in f for f in files), done.stderr
    assert "f32[2,4]" in done.stderr


EAGER = {
    "an operator": lambda x: x + jnp.ones(4),
    "a reflected operator": lambda x: np.ones(4) - x,
    "a comparison": lambda x: x < jnp.ones(4),
    "a power": lambda x: x ** jnp.ones(4),
    "a quotient": lambda x: x / jnp.ones(4),
    "a product of matrices": lambda x: x @ jnp.ones(4),
    "an index": lambda x: x[1, 2],
    "an update": lambda x: x.at[0].set(jnp.ones(2)),
    "an assignment": lambda x: x.__setitem__(0, 1),
    "a method": lambda x: x.sum(axis=5),
    "reshape": lambda x: x.reshape(2, 2),
    "a forwarded method": lambda x: x.astype("foo"),
}


@pytest.mark.parametrize("name", EAGER)
def test_errors_of_arrays_that_are_caught_show_only_the_users_frames(name):
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        EAGER[name](jnp.ones(3))
    own = weft.__path__[0]
    assert [f.path for f in caught.traceback if str(f.path).startswith(own)] == []


def test_other_libraries_hide_their_frames_and_other_modes_keep_them(tmp_path):
    library = tmp_path / "library.py"
    library.write_text("def call(f, x):\n    return f(x)\n")
    space: dict = {}
    exec(compile(library.read_text(), str(library), "exec"), space)

    def fails():
        weft.jit(lambda x: space["call"](lambda v: v + Y, x))(X)

    def files(e):
        return {f.filename for f in traceback.extract_tb(e.__traceback__)}

    assert str(library) in files(raised(fails, ShapeError))
    boundary.hidden_paths.append(str(tmp_path))
    try:
        assert str(library) not in files(raised(fails, ShapeError))
        weft.config.update("traceback_filtering", "remove_frames")
        e = raised(fails, ShapeError)
        assert str(library) not in files(e)
        assert isinstance(e.__cause__, boundary.UnfilteredStackTrace)
        assert str(library) in files(e.__cause__)
        assert any(map(is_internal_file, frames(e.__cause__)))
        weft.config.update("traceback_filtering", "tracebackhide")
        e = raised(fails, ShapeError)
    finally:
        weft.config.update("traceback_filtering", "auto")
        boundary.hidden_paths.clear()
    for frame, _ in traceback.walk_tb(e.__traceback__):
        own = boundary.is_hidden(frame.f_code.co_filename) or str(library) == (
            frame.f_code.co_filename
        )
        assert ("__tracebackhide__" in frame.f_locals) == own

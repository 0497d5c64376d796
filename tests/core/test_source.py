"""Source locations: the user's line, in warnings as in equations."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.core.source import with_cells


def warned_at(f):
    """The file and line (from f's first) of the one warning that f gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f()
    [warning] = caught
    return warning.filename, warning.lineno - f.__code__.co_firstlineno


def narrow():
    return wnp.ones(3, dtype=np.float64)


def narrow_under_jit():
    return weft.jit(lambda x: x.astype(np.int64))(1.0)


def update():
    x = wnp.zeros(11, np.int32)
    return x.at[5].set(1.5)


def drop_imaginary():
    return weft.jit(lambda x: wnp.astype(x, np.float32))(1j)


def donate():
    f = weft.jit(lambda x: x.sum(), donate_argnums=0)
    return f(weft.device_put(np.ones(3, np.float32)))


@pytest.mark.parametrize(
    ("f", "line"),
    [(narrow, 1), (narrow_under_jit, 1), (update, 2), (drop_imaginary, 1), (donate, 2)],
)
def test_a_warning_stands_at_the_users_line(f, line):
    filename, at = warned_at(f)
    assert filename == __file__
    assert at == line


def test_the_warning_for_a_narrowed_dtype_says_how_to_keep_it():
    with pytest.warns(UserWarning, match=r'config.update\("enable_x64", True\)'):
        wnp.zeros(2, dtype="float64")
    with options["enable_x64"](True):
        assert wnp.zeros(2, dtype="float64").dtype == np.float64


def test_a_location_knows_line_column_and_function():
    def f(x):
        return wnp.sin(x) + wnp.cos(x)

    sin, cos, add = weft.make_jaxpr(f)(1.0).eqns
    line = f.__code__.co_firstlineno + 1
    assert {e.source.line for e in (sin, cos, add)} == {line}
    columns = [e.source.position()[1] for e in (sin, cos, add)]
    assert columns[0] == columns[2] < columns[1], "sin and the sum begin where the expression does"
    assert sin.source.file == __file__ and sin.source.function.endswith("<locals>.f")
    assert str(sin.source).endswith(f"test_source.py:{line} ({sin.source.function})")


def test_cells_of_notebooks_have_the_names_that_ipython_shows(monkeypatch):
    cell = "/tmp/ipykernel_12/3456.py"
    names = SimpleNamespace(
        format_code_name=lambda name: ("Cell", "In[3]") if name == cell else None
    )
    shell = SimpleNamespace(compile=names)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    code = compile("import weft\ndef f(x):\n    return x * 2", cell, "exec")
    exec(code, scope := {})
    jaxpr = weft.make_jaxpr(scope["f"])(1.0)
    assert jaxpr.jaxpr.eqns[0].source.short() == "In[3]:3"
    assert with_cells(f"(a at {cell}:3), /tmp/ipykernel_12/7.py:1") == (
        "(a at In[3]:3), /tmp/ipykernel_12/7.py:1"
    )

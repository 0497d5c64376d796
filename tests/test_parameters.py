"""Every parameter of a public function is read: none is taken and ignored without a reason."""

import ast
import inspect
import textwrap

import pytest

from tests.test_docstrings import MODULES, public

# Parameters of SciPy's functions that concern its own memory, checks and choice of method.
ANYWHERE = {
    *("overwrite_a", "overwrite_b", "overwrite_c", "overwrite_data", "check_finite", "turbo"),
    *("lapack_driver", "lwork"),
}

# Parameters that may change nothing, and why.
MAY_CHANGE_NOTHING = {
    "approx_max_k": {"reduction_input_size_override": "tunes a recall that is exact here"},
    "approx_min_k": {"reduction_input_size_override": "tunes a recall that is exact here"},
    "create_device_mesh": {
        "contiguous_submeshes": "tori of TPUs only",
        "allow_split_physical_axes": "tori of TPUs only",
    },
    "create_hybrid_device_mesh": {"allow_split_physical_axes": "tori of TPUs only"},
    "custom_partitioning.def_partition": {
        "decode_shardings": "shardings are always NamedShardings here"
    },
    "eigh_tridiagonal": {"key": "eigenvectors are those of the dense matrix"},
    "histogram_bin_edges": {
        "weights": "NumPy reads them for rules by name only, which are refused"
    },
    "intersect1d": {"assume_unique": "a promise that may save work"},
    "isin": {"assume_unique": "a promise that may save work"},
    "ones": {"key": "initializers take a key"},
    "qr": {"use_magma": "GPUs only"},
    "qdwh": {"is_hermitian": "a promise that may save work"},
    "reciprocal": {"approx": "allows an error", "full_range": "allows an error"},
    "reshape": {"copy": "arrays do not change: whether one is a copy cannot be seen"},
    "scaled_dot_general": {"implementation": "deprecated, the system chooses"},
    "solve": {"debug": "prints nothing"},
    "solve_triangular": {"debug": "prints nothing"},
    "setxor1d": {"assume_unique": "a promise that may save work"},
    "symmetric_product": {"symmetrize_output": "the result is whole in any case"},
    "unique": {"sorted": "False allows any order"},
    "zeros": {"key": "initializers take a key"},
}


def unread(function):
    """Names of parameters that stand nowhere in the body."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        definition = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError):
        return []
    if not isinstance(definition, ast.FunctionDef):
        return []
    a = definition.args
    given = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    body = [n for statement in definition.body for n in ast.walk(statement)]
    read = {n.id for n in body if isinstance(n, ast.Name)}
    if all(isinstance(s, ast.Expr | ast.Pass | ast.Raise) for s in definition.body):
        return []  # a protocol's method, or one that refuses to be called
    names = [p.arg for p in given if p is not None]
    read |= ANYWHERE | {"self", "cls"}
    return [n for n in names if n not in read and n[0] != "_"]


def functions(name, value):
    if not inspect.isclass(value):
        yield name, value
        return
    for member, method in vars(value).items():
        if inspect.isfunction(method) and not member.startswith("_"):
            yield f"{name}.{member}", method


@pytest.mark.parametrize("name", MODULES)
def test_no_parameter_is_taken_and_ignored(name):
    ignored = {
        who: names
        for member, value in public(name)
        for who, function in functions(member, value)
        if (names := [n for n in unread(function) if n not in MAY_CHANGE_NOTHING.get(who, ())])
    }
    assert not ignored


def test_the_check_sees_a_parameter_that_is_not_read():
    assert unread(lambda x: x) == []  # no definition

    def f(a, b, *rest, c=1, **named):
        """Reads a alone."""
        return a

    assert unread(f) == ["b", "c", "rest", "named"]


def test_every_reason_is_still_needed():
    found = {}
    for name in MODULES:
        for member, value in public(name):
            for who, function in functions(member, value):
                found.setdefault(who, set()).update(unread(function))
    stale = {w: set(p) - found.get(w, set()) for w, p in MAY_CHANGE_NOTHING.items()}
    assert not {who: names for who, names in stale.items() if names}

"""The mistakes a new user makes: one exception each, at the user's line, with name and remedy.

`Case.words` are regular expressions, all of which the message must match. Every case runs twice, so
that nothing a failed call leaves behind changes the answer, and in one process, which must survive.
"""

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.core.source import is_internal_file
from weft.errors import (
    ConcretizationTypeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from weft.sharding import AxisType, IndivisibleError, Mesh, NamedSharding

AUTO = (AxisType.Auto,) * 2
MESH = weft.make_mesh((4, 2), ("x", "y"), axis_types=AUTO)
SPLIT = NamedSharding(MESH, P("x", "y"))
DEVICES = weft.devices()
PAIR = Mesh(np.array(DEVICES[:2]), ("z",))
X = np.arange(32, dtype=np.float32).reshape(8, 4)
ODD = np.ones((6, 4), np.float32)


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[], object]
    error: type[Exception]
    words: tuple[str, ...]
    eager: bool  # no transformation around it: frames of weft go when the error is printed


CASES: list[Case] = []


def case(name, error, *words, eager=False):
    def add(run):
        CASES.append(Case(name, run, error, words, eager))
        return run

    return add


def jit(f, *args, **options):
    return weft.jit(f, **options)(*args)


ROWS = P("x")


def shard_map(f, *args, specs=ROWS, out=ROWS):
    return weft.shard_map(f, mesh=MESH, in_specs=specs, out_specs=out)(*args)


# Shapes ------------------------------------------------------------------------------------------

MARKED_DOT = re.escape("first  f32[8,4]\n               ^\n  second f32[8,4]\n             ^")


@case("dot", ValueError, "dimension 1 of the first.*size 4.*size 8", MARKED_DOT, "transpose")
def _():
    return jit(lambda a, b: wnp.dot(a, b), X, X)


@case("eager dot", ValueError, MARKED_DOT, eager=True)
def _():
    return weft.device_put(X) @ X


@case("dot_general", TypeError, "contracting dimension 1 of lhs", r"lhs f32\[8,4\]\n +\^\n  rhs")
def _():
    return jit(lambda a: lax.dot_general(a, a, (((1,), (0,)), ((), ()))), X)


@case("add", ValueError, r"\(8, 4\), \(3,\)", "dimension -1 has sizes 4 and 3")
def _():
    return jit(lambda a: a + np.ones(3, np.float32), X)


@case("concatenate", TypeError, r"operand 0 f32\[8,4\]\n +\^\n  operand 1 f32\[3,5\]\n +\^")
def _():
    return jit(lambda a: wnp.concatenate([a, np.ones((3, 5), np.float32)]), X)


@case("concatenate of other dtypes", TypeError, r"f32\[8,4\]\n  got      i32\[8,4\]\n +\^")
def _():
    return jit(lambda a: lax.concatenate([a, a.astype("int32")], 0), X)


@case("scan carry of another shape", TypeError, r"f32\[3\]\n  got +f32\[2,3\]\n +\^\^", "shape")
def _():
    return lax.scan(lambda c, x: (wnp.stack([c, c]), x), np.zeros(3, np.float32), X)


@case("scan carry of another dtype", TypeError, r"i32\[3\]\n +\^", r"\.astype\('float32'\)")
def _():
    return lax.scan(lambda c, x: (c.astype("int32"), x), np.zeros(3, np.float32), X)


# Shardings ---------------------------------------------------------------------------------------

INDIVISIBLE = ("dimension 0.*size 6", "mesh axis 'x'.*size 4", "[Pp]ad.*8")


@case("in_shardings that do not divide", IndivisibleError, "argument a of type f32", *INDIVISIBLE)
def _():
    return jit(lambda a: a, ODD, in_shardings=SPLIT)


@case("out_shardings that do not divide", IndivisibleError, "result 0 of type", *INDIVISIBLE)
def _():
    return jit(lambda a: a, ODD, out_shardings=SPLIT)


@case("device_put that does not divide", IndivisibleError, *INDIVISIBLE, eager=True)
def _():
    return weft.device_put(ODD, SPLIT)


@case("shard_map that does not divide", ValueError, "argument a of type f32", *INDIVISIBLE)
def _():
    return shard_map(lambda a: a, ODD)


@case("spec longer than the rank", ValueError, "2 entries.*1 dimension.*at most 1", eager=True)
def _():
    return weft.device_put(X[0], SPLIT)


@case("two sets of devices", ValueError, "argument a.*cpu:7", "argument b.*cpu:1", "device_put")
def _():
    return jit(lambda a, b: a + b, weft.device_put(X, SPLIT), weft.device_put(X, DEVICES[1]))


@case("an array on a device outside of the mesh", ValueError, "'a' of <lambda>", "device 5", "0, 1")
def _():
    a = weft.device_put(X, DEVICES[5])
    return jit(lambda a: a, a, in_shardings=NamedSharding(PAIR, P("z")))


@case(
    "shard_map of an array elsewhere", ValueError, "argument a.*cpu:5.*cpu:0, cpu:1", "device_put"
)
def _():
    a = weft.device_put(X, DEVICES[5])
    return weft.shard_map(lambda a: a, mesh=PAIR, in_specs=P("z"), out_specs=P("z"))(a)


@case(
    "eager operands on two devices", ValueError, "argument 0.*cpu:1.*argument 1.*cpu:5", eager=True
)
def _():
    return weft.device_put(X, DEVICES[1]) + weft.device_put(X, DEVICES[5])


@case("a mesh of what is no device", TypeError, "a mesh holds devices", "weft.devices", eager=True)
def _():
    return Mesh(np.array([DEVICES[0], "cpu:9"], dtype=object), ("x",))


@case("a mesh larger than there are devices", ValueError, "16 devices.*8.*smaller", eager=True)
def _():
    return weft.make_mesh((16,), ("x",))


@case(
    "device_put on a name", TypeError, "must be a device, a sharding.*got str: 'cpu:9'", eager=True
)
def _():
    return weft.device_put(X, "cpu:9")


@case("a bare spec without a mesh", ValueError, r"P\('x',\)", "weft.set_mesh", eager=True)
def _():
    return weft.device_put(X, P("x"))


# Axis names --------------------------------------------------------------------------------------


@case("psum of an unknown axis", NameError, "'i' is not bound.*no named axis", "axis_name")
def _():
    return jit(lambda a: lax.psum(a, "i"), X)


@case("psum beside the mapped axis", NameError, "'i' is not bound.*'j' .size 8, vmap", "axis_name")
def _():
    return weft.vmap(lambda a: lax.psum(a, "i"), axis_name="j")(X)


@case("psum beside the mesh's axes", NameError, "'z' is not bound.*'x' .size 4.*'y' .size 2")
def _():
    return shard_map(lambda a: lax.psum(a, "z"), X)


@case(
    "in_specs of an unknown axis", ValueError, "in_specs for a.*'z' is not an axis.*'x': 4, 'y': 2"
)
def _():
    return shard_map(lambda a: a, X, specs=P("z"))


@case("NamedSharding of an unknown axis", ValueError, "'z'.*'x': 4, 'y': 2", eager=True)
def _():
    return NamedSharding(MESH, P("z"))


@case("an axis twice in a spec", ValueError, "'x' twice.*dimension 0 and dimension 1", eager=True)
def _():
    return P("x", "x")


# shard_map ---------------------------------------------------------------------------------------


@case("in_specs longer than the rank", ValueError, "argument a.*rank 2.*3 entries.*at most one")
def _():
    return shard_map(lambda a: a, X, specs=P("x", "y", None))


@case("out_specs longer than the rank", ValueError, r"result of type f32\[\].*rank 0.*x\[None\]")
def _():
    return shard_map(lambda a: a.sum(), X)


@case(
    "a result that varies", ValueError, r"f32\[2,4\]\{V:x\} varies over.*'x'", "psum", "check_vma"
)
def _():
    return shard_map(lambda a: a, X, out=P())


@case("as many in_specs as arguments", ValueError, "in_specs has 2 entries for 1 arguments")
def _():
    return shard_map(lambda a: a, X, specs=(P("x"), P("y")))


@case("cond branches that vary over other axes", TypeError, r"f32\[2,4\]\{V:x\}\n +\^+", "pcast")
def _():
    def body(a):
        return lax.cond(True, lambda: a, lambda: wnp.zeros(a.shape))

    return shard_map(body, X)


@case("scan carry that starts to vary", TypeError, r"f32\[\]\{V:x\}\n +\^+", r"pcast\(x, 'x'")
def _():
    def body(a):
        return lax.scan(lambda c, _: (c + a.sum(), None), wnp.zeros(()), None, length=3)[0][None]

    return shard_map(body, X)


# Traced values -----------------------------------------------------------------------------------


@case("if on a traced value", TracerBoolConversionError, r"bool\[\]", "where or weft.lax.cond")
def _():
    def f(a):
        if a.sum() > 0:
            return a
        return -a

    return jit(f, X)


@case("int of a traced value", ConcretizationTypeError, r"f32\[\]", "static")
def _():
    return jit(lambda a: int(a[0, 0]), X)


@case("a traced shape", (TracerIntegerConversionError, ConcretizationTypeError), "static")
def _():
    return jit(lambda n: wnp.zeros(n), 3)


LEAKED: list = []


@case("a leaked value", UnexpectedTracerError, r"f32\[8,4\]", "test_bad_input.py:LINE", "Return it")
def _():
    def leak(a):
        LEAKED.append(a * 2)
        return a

    jit(leak, X)
    return jit(lambda a: a + LEAKED[-1], X)


# Arguments of jit --------------------------------------------------------------------------------


@case("a static argument that does not hash", ValueError, "static argument 'n'.*list.*tuple")
def _():
    return jit(lambda a, n: a, X, [3], static_argnums=1)


@case("a static argument among those by name", ValueError, "static argument 'n'.*dict.*tuple")
def _():
    return weft.jit(lambda a, n: a, static_argnames="n")(X, n={})


@case("an argument that is no array", TypeError, r"argument p\['w'\].*str.*static", "pytree")
def _():
    return jit(lambda p: p, {"w": "abc"})


@case("a result that is no array", TypeError, "str.*'abc'")
def _():
    return jit(lambda a: "abc", X)


DONATED = r"argument 'state' of step.*donated.*x\.copy\(\)"


@case("a donated array passed again", RuntimeError, DONATED)
def _():
    def step(state):
        return state + 1

    update = weft.jit(step, donate_argnums=0)
    update(weft.device_put(X))
    state = weft.device_put(X)
    update(state)
    return update(state)


@case("a donated array over many devices passed again", RuntimeError, DONATED)
def _():
    def step(state):
        return state + 1

    update = weft.jit(step, donate_argnums=0)
    update(weft.device_put(X, SPLIT))
    state = weft.device_put(X, SPLIT)
    update(state)
    return update(state)


@case(
    "a donated array given to another function", RuntimeError, "argument 'a' of <lambda>.*donated"
)
def _():
    plain = weft.jit(lambda a: a * 2)
    plain(weft.device_put(X, SPLIT))
    state = weft.device_put(X, SPLIT)
    jit(lambda a: a + 1, state, donate_argnums=0)
    return plain(state)


@case("an array donated twice in one call", ValueError, "donated.*2 times.*copy")
def _():
    a = weft.device_put(X, SPLIT)
    return jit(lambda a, b: (a + b, a - b), a, a, donate_argnums=(0, 1))


@case("an array donated twice to a compiled function", ValueError, "donated.*2 times.*copy")
def _():
    f = weft.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
    a = weft.device_put(X, SPLIT)
    return f.lower(a, a).compile()(a, a)


@case("a donated array read", RuntimeError, r"float32\[8,4\].*donated.*copy", eager=True)
def _():
    a = weft.device_put(X, SPLIT)
    jit(lambda a: a + 1, a, donate_argnums=0)
    return np.asarray(a)


def lines_of(function):
    return {line for _, _, line in function.__code__.co_lines()}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("again", [False, True], ids=["", "again"])
def test_a_mistake_is_one_exception_with_name_and_remedy_at_the_users_line(case, again):
    with pytest.raises(case.error) as caught:
        case.run()
    message = str(caught.value)
    for pattern in case.words:
        pattern = pattern.replace("LINE", str(case.run.__code__.co_firstlineno + 3))
        assert re.search(pattern, message, re.DOTALL), f"{pattern!r} is not in:\n{message}"
    frames = traceback.extract_tb(caught.value.__traceback__)
    users = [f for f in frames if not is_internal_file(f.filename)]
    assert users[-1].filename == __file__
    assert any(f.lineno in lines_of(case.run) for f in users)
    if not case.eager:
        assert users == list(frames), "frames of weft are left in the traceback"
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_the_process_computes_on_after_all_of_them():
    np.testing.assert_array_equal(jit(lambda a: a + 1, weft.device_put(X, SPLIT)), X + 1)

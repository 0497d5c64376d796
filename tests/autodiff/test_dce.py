"""Dead code elimination: what nothing reads goes, effects stay, loops keep what they need."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax
from weft.autodiff.dce import dce_closed, dce_jaxpr
from weft.autodiff.dependence import program_depends
from weft.core.jaxpr import ClosedJaxpr, eval_closed, walk_eqns

X = np.array([0.5, -1.0, 2.0], np.float32)


def cut(f, used, *args):
    """The jaxpr of f with only some of its results; also which inputs it still reads."""
    closed = weft.make_jaxpr(f)(*args)
    jaxpr, read = dce_jaxpr(closed.jaxpr, used)
    return ClosedJaxpr(jaxpr, closed.consts), read


def names(closed):
    return [e.primitive.name for e in walk_eqns(closed)]


def test_equations_nobody_reads_are_dropped_and_inputs_are_marked():
    closed, read = cut(lambda x, y: (jnp.sin(x), jnp.cos(y)), [True, False], 1.0, 2.0)
    assert names(closed) == ["sin"] and read == [True, False]
    close(eval_closed(closed, 1.0, 2.0), [np.sin(np.float32(1.0))])
    closed, read = cut(lambda x, y: (jnp.sin(x), jnp.cos(y)), [False, False], 1.0, 2.0)
    assert names(closed) == [] and read == [False, False]


def test_constants_nobody_reads_are_dropped():
    closed = weft.make_jaxpr(lambda x: (x + X, x * np.ones(3, np.float32))[0])(X)
    assert len(closed.consts) == 2
    small, _ = dce_closed(closed)
    assert len(small.consts) == 1 and names(small) == ["add"]


def test_effects_keep_their_equations():
    def f(x):
        weft.debug.callback(lambda v: None, jnp.sin(x))
        return jnp.cos(x), jnp.exp(x)

    closed, _ = cut(f, [False, False], 1.0)
    assert "sin" in names(closed) and not {"cos", "exp"} & set(names(closed))


def test_scan_loses_carries_results_and_operands_nobody_reads():
    def f(x, y):
        def body(c, a):
            used, unused, feeder = c
            return (used + jnp.sin(feeder), jnp.exp(unused), feeder * 2), (jnp.cos(a[0]), a[1])

        (used, unused, _), (cosines, copies) = lax.scan(body, (x, x, y), (X, X))
        return used, unused, cosines, copies

    closed, read = cut(f, [True, False, False, False], 1.0, 2.0)
    (scan,) = [e for e in closed.eqns if e.primitive.name == "scan"]
    assert scan.params["num_carry"] == 2 and len(scan.outvars) == 2
    assert "exp" not in names(closed) and "cos" not in names(closed)
    want = 1 + sum(np.sin(2.0 * 2**i) for i in range(3))
    close(eval_closed(closed, np.float32(1.0), np.float32(2.0)), [want])
    closed, _ = cut(f, [False, False, True, False], 1.0, 2.0)
    assert "sin" not in names(closed)
    close(eval_closed(closed, np.float32(1.0), np.float32(2.0)), [np.cos(X)])


def test_while_loses_what_neither_its_condition_nor_its_results_need():
    def f(x):
        step = lambda s: (s[0] + 1, s[1] * 2, jnp.exp(s[2]))
        return lax.while_loop(lambda s: s[0] < 3, step, (0, x, x))

    closed, _ = cut(f, [False, True, False], 1.0)
    assert "exp" not in names(closed)
    close(eval_closed(closed, np.float32(1.0)), [8.0])


def test_cond_loses_results_in_all_branches():
    def f(p, x):
        return lax.cond(p, lambda x: (jnp.sin(x), jnp.exp(x)), lambda x: (x, jnp.tanh(x)), x)

    closed, _ = cut(f, [True, False], True, 1.0)
    assert not {"exp", "tanh"} & set(names(closed))
    for p, want in ((True, np.sin(np.float32(1.0))), (False, 1.0)):
        close(eval_closed(closed, p, np.float32(1.0)), [want])


def test_checkpoint_bodies_are_cut():
    f = weft.checkpoint(lambda x, y: (jnp.sin(x), jnp.exp(y)))
    closed, read = cut(f, [True, False], 1.0, 2.0)
    assert "exp" not in names(closed) and read == [True, False]


# Which results depend on which inputs ----------------------------------------------------------


def mixed_loop(x, y, z):
    def body(c, a):
        return (c[0] + a, c[1] * c[2], c[2]), c[0]

    (p, q, _), ys = lax.scan(body, (x, y, z), X)
    return p, q, ys


DEPENDENCE = {
    "separate": (lambda x, y, z: (jnp.sin(x), y + z, z), [[1, 0, 0], [0, 1, 1], [0, 0, 1]]),
    "jit": (weft.jit(lambda x, y, z: (x, y * z)), [[1, 0, 0], [0, 1, 1]]),
    "scan": (mixed_loop, [[1, 0, 0], [0, 1, 1], [1, 0, 0]]),
    "cond": (
        lambda x, y, z: lax.cond(True, lambda: (x, y), lambda: (x, z)),
        [[1, 0, 0], [0, 1, 1]],
    ),
    "cond by its predicate": (
        # Both branches hand x on as the first result, whatever the predicate.
        lambda x, y, z: lax.cond(z > 0, lambda: (x, x), lambda: (x, y)),
        [[1, 0, 0], [1, 1, 1]],
    ),
    "while": (
        lambda x, y, z: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + x, s[1] + z), (x, y)),
        [[1, 0, 0], [1, 1, 1]],
    ),
    "checkpoint": (weft.checkpoint(lambda x, y, z: (x * 2, y * z)), [[1, 0, 0], [0, 1, 1]]),
    "no one": (lambda x, y, z: (3.0, jnp.ones(2)), [[0, 0, 0], [0, 0, 0]]),
}


@pytest.mark.parametrize("name", DEPENDENCE)
def test_dependence_is_followed_into_inner_programs(name):
    f, want = DEPENDENCE[name]
    closed = weft.make_jaxpr(f)(1.0, 2.0, 3.0)
    columns = [program_depends(closed, [i == k for i in range(3)]) for k in range(3)]
    assert [[int(c[row]) for c in columns] for row in range(len(want))] == want

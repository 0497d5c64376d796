"""Random programs under random stacks of transformations, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from tests.api import dual
from tests.api.programs import MATRIX, WEIGHTS, programs, run_reference, run_weft

X = np.array([0.31, -0.72, 0.93])
Y = np.array([-0.44, 0.83, 0.27])
BATCH = np.stack([X, Y, X - 0.6 * Y])
DIRECTION = np.array([0.7, -0.2, 0.5])


@pytest.fixture(autouse=True, scope="module")
def _x64():
    with weft.enable_x64(True):
        yield


def close(got, want):
    """Errors grow with the values on the way, which may be larger than the result."""
    want = np.asarray(want)
    scale = max(1.0, np.abs(want).max(initial=0.0))
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-8, atol=1e-8 * scale)


def examples(f):
    """The reference of a batched program."""
    return np.stack([f(row) for row in BATCH])


# A function of one vector under each transformation: what weft computes, what it must be.
CHECKS = {
    "value": (lambda f: f(X), lambda f: f(X)),
    "vmap": (lambda f: weft.vmap(f)(BATCH), examples),
    "vmap over columns": (
        lambda f: weft.vmap(f, in_axes=1, out_axes=-1)(BATCH.T),
        lambda f: examples(f).T,
    ),
    "nested vmap": (
        lambda f: weft.vmap(weft.vmap(f))(jnp.stack([BATCH, BATCH[::-1]])),
        lambda f: np.stack([examples(f), examples(f)[::-1]]),
    ),
    "jvp": (
        lambda f: weft.jvp(f, (X,), (DIRECTION,))[1],
        lambda f: dual.derivative(f, X, DIRECTION)[1],
    ),
    "vmap of jvp": (
        lambda f: weft.vmap(lambda x: weft.jvp(f, (x,), (DIRECTION,))[1])(BATCH),
        lambda f: examples(lambda x: dual.derivative(f, x, DIRECTION)[1]),
    ),
    "jacfwd": (
        lambda f: weft.jacfwd(f)(X) @ DIRECTION,
        lambda f: dual.derivative(f, X, DIRECTION)[1],
    ),
    "jvp of jvp": (
        lambda f: weft.jvp(lambda x: weft.jvp(f, (x,), (DIRECTION,))[1], (X,), (Y,))[1],
        lambda f: dual.derivative(lambda x: dual.derivative(f, x, DIRECTION)[1], X, Y)[1],
    ),
}
REVERSE = {
    "vjp": (
        lambda f: weft.vjp(f, X)[1](jnp.asarray(WEIGHTS))[0],
        lambda f: dual.pullback(f, X, WEIGHTS),
    ),
    "grad of jit": (
        lambda f: weft.grad(lambda x: jnp.sum(weft.jit(f)(x) * WEIGHTS))(X),
        lambda f: dual.pullback(f, X, WEIGHTS),
    ),
    "jacrev": (
        lambda f: WEIGHTS @ weft.jacrev(f)(X),
        lambda f: dual.pullback(f, X, WEIGHTS),
    ),
    "vmap of grad": (
        lambda f: weft.vmap(weft.grad(lambda x: jnp.sum(f(x) * WEIGHTS)))(BATCH),
        lambda f: examples(lambda x: dual.pullback(f, x, WEIGHTS)),
    ),
    "grad of vmap": (
        lambda f: weft.grad(lambda b: jnp.sum(MATRIX * weft.vmap(f)(b)))(BATCH),
        lambda f: np.stack(
            [dual.pullback(f, b, w) for b, w in zip(BATCH, MATRIX, strict=True)]
        ),
    ),
    "grad of checkpoint": (
        lambda f: weft.grad(weft.checkpoint(lambda x: jnp.sum(f(x) * WEIGHTS)))(X),
        lambda f: dual.pullback(f, X, WEIGHTS),
    ),
    "jvp of grad": (
        lambda f: weft.jvp(weft.grad(lambda x: jnp.sum(f(x) * WEIGHTS)), (X,), (DIRECTION,))[1],
        lambda f: dual.derivative(lambda x: dual.pullback(f, x, WEIGHTS), X, DIRECTION)[1],
    ),
    "grad of jvp": (
        lambda f: weft.grad(
            lambda x: jnp.sum(weft.jvp(f, (x,), (DIRECTION,))[1] * WEIGHTS)
        )(X),
        lambda f: dual.derivative(lambda x: dual.pullback(f, x, WEIGHTS), X, DIRECTION)[1],
    ),
    "grad of grad": (
        lambda f: weft.grad(
            lambda x: weft.grad(lambda y: jnp.sum(f(y) * WEIGHTS))(x) @ DIRECTION
        )(X),
        lambda f: dual.derivative(lambda x: dual.pullback(f, x, WEIGHTS), X, DIRECTION)[1],
    ),
}  # fmt: skip


def on_both_sides(program):
    """The program as a function of one vector; the other input stays fixed."""
    return lambda x: run_weft(program, jnp.asarray(x), jnp.asarray(Y)), lambda x: run_reference(
        program, x, Y
    )


def check(program, checks):
    """All checks of one program in one compiled function: compiling is what this test costs."""
    f, reference = on_both_sides(program)
    results = weft.jit(lambda: [weft_side(f) for weft_side, _ in checks])()
    for got, (_, reference_side) in zip(results, checks, strict=True):
        close(got, reference_side(reference))


def some(table):
    return st.lists(st.sampled_from(sorted(table)), min_size=2, max_size=2, unique=True)


@given(programs(), some({**CHECKS, **REVERSE}))
def test_a_program_agrees_with_numpy_under_transformations(program, names):
    check(program, [{**CHECKS, **REVERSE}[n] for n in names])


@given(programs(mode="forward"), some(CHECKS))
def test_a_program_with_while_loops_agrees_with_numpy_in_forward_mode(program, names):
    check(program, [CHECKS[n] for n in names])


# Without what pushes tangents forward.
BACKWARD = {
    **{n: CHECKS[n] for n in ("value", "vmap", "vmap over columns", "nested vmap")},
    **{n: REVERSE[n] for n in REVERSE if "jvp" not in n},
}


@given(programs(mode="reverse"), some(BACKWARD))
def test_a_program_with_backward_rules_agrees_with_numpy_in_reverse_mode(program, names):
    check(program, [BACKWARD[n] for n in names])


@given(programs(depth=1), st.sampled_from(sorted({**CHECKS, **REVERSE})))
def test_a_program_agrees_with_numpy_when_nothing_is_compiled_together(program, name):
    f, reference = on_both_sides(program)
    weft_side, reference_side = {**CHECKS, **REVERSE}[name]
    close(weft_side(f), reference_side(reference))


@settings(max_examples=max(settings().max_examples // 3, 8))
@given(st.data(), some({**CHECKS, **REVERSE}))
def test_a_program_with_shard_map_agrees_with_numpy(data, names):
    inner = data.draw(programs(depth=1))
    options = {"check_vma": data.draw(st.booleans())}
    program = (*data.draw(programs(depth=1)), ("shard_map", 0, -1, options, inner), ("mul", 0, -1))
    check(program, [{**CHECKS, **REVERSE}[n] for n in names])

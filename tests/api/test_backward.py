"""Eager backward passes: one compiled function for each structure of linear program."""

import gc
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax
from weft.api import backward

X = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.fixture
def compiled():
    backward._compiled.clear()
    return backward._compiled


def test_a_function_known_already_compiles_nothing_new(compiled):
    f = lambda x: jnp.sum(jnp.sin(x) * x)
    for k in (1.0, 2.0, -3.0):
        close(weft.grad(f)(k * X), np.sin(k * X) + k * X * np.cos(k * X))
    assert len(compiled) == 1
    weft.grad(f)(np.ones(5, np.float32))
    assert len(compiled) == 2


def test_functions_of_one_structure_share_the_program_but_not_their_values(compiled):
    for c in (X, 2 * X, np.ones(3, np.float32)):
        close(weft.grad(lambda x, c=c: jnp.sum(x * c))(X), c)
    assert len(compiled) == 1


def test_literals_and_parameters_tell_programs_apart():
    for c in (2.0, 3.0, 0.0, -0.0):
        g = np.asarray(weft.grad(lambda x, c=c: jnp.sum(x * c))(X))
        np.testing.assert_array_equal(np.signbit(g), np.signbit(np.full(3, c)))
        close(g, np.full(3, c))
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    close(weft.grad(lambda a: jnp.sum(a.sum(0) * X))(a), np.tile(X, (3, 1)))
    close(weft.grad(lambda a: jnp.sum(a.sum(1) * X))(a), np.tile(X[:, None], 3))
    for n in (1, 2):
        close(
            weft.grad(lambda x, n=n: jnp.sum(x[n:] ** 2))(X), np.where(np.arange(3) < n, 0, 2 * X)
        )


def test_types_of_constants_tell_programs_apart(compiled):
    for dtype in ("float32", "bfloat16"):
        g = weft.grad(lambda x: jnp.sum(x * x))(jnp.asarray(X, dtype))
        assert g.dtype == dtype
    assert weft.grad(lambda x: x * x)(2.0).weak_type
    assert not weft.grad(lambda x: x * x)(np.float32(2.0)).weak_type
    assert len(compiled) == 4


def test_inner_programs_compile_their_backward_pass_when_they_come_again():
    f = weft.jit(lambda x: jnp.sum(lax.scan(lambda c, a: (c * jnp.sin(a), c), 1.0, x)[1]))
    s, c = np.sin(X), np.cos(X)  # f is 1 + s0 + s0 s1
    want = np.array([c[0] * (1 + s[1]), s[0] * c[1], 0])
    for _ in range(3):
        close(weft.grad(f)(X), want)
        close(weft.grad(lambda x: f(x) * 2.0)(X), 2 * want)


def test_inner_programs_are_not_kept_alive():
    def once():
        f = lambda x: jnp.sum(jnp.cos(x))
        jitted = weft.jit(f)
        for _ in range(3):
            close(weft.grad(jitted)(X), -np.sin(X))
        return weakref.ref(f)

    ref = once()
    gc.collect()
    assert ref() is None


def test_batches_and_higher_orders_use_it_too(compiled):
    f = lambda x: jnp.sum(jnp.sin(x) ** 2)
    rows = np.stack([X, 2 * X])
    for _ in range(2):
        close(weft.vmap(weft.grad(f))(rows), np.sin(2 * rows))
        close(weft.grad(lambda x: weft.grad(f)(x) @ X)(X), 2 * np.cos(2 * X) * X)
        close(weft.hessian(f)(X), np.diag(2 * np.cos(2 * X)))
        close(weft.jvp(weft.grad(f), (X,), (X,))[1], 2 * np.cos(2 * X) * X)
    assert compiled


def test_long_programs_run_op_by_op(compiled):
    def f(x):
        for _ in range(backward.LARGEST):
            x = x * 1.01 + jnp.sin(x) * 0.0
        return x

    close(weft.grad(f)(1.0), 1.01**backward.LARGEST, 1e-3)
    assert not compiled


def test_debugging_options_run_op_by_op(compiled):
    f = lambda x: jnp.sum(jnp.log(x))
    with weft.disable_jit():
        close(weft.grad(f)(X + 2), 1 / (X + 2))
    with weft.debug_nans(True), pytest.raises(FloatingPointError):
        weft.grad(lambda x: jnp.sum(jnp.sqrt(x) * 0.0))(np.zeros(2, np.float32))
    assert not compiled


def test_clear_caches_forgets_them(compiled):
    close(weft.grad(lambda x: jnp.sum(x**2))(X), 2 * X)
    assert compiled
    weft.clear_caches()
    assert not compiled
    close(weft.grad(lambda x: jnp.sum(x**2))(X), 2 * X)


def test_old_programs_make_room(compiled, monkeypatch):
    monkeypatch.setattr(backward, "KEPT", 2)
    for n in (1, 2, 3, 4):
        close(weft.grad(lambda x: jnp.sum(x**2))(np.ones(n, np.float32)), 2 * np.ones(n))
    assert len(compiled) == 2

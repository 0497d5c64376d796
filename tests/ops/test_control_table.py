"""Every control-flow op under stacks of transformations, against loops in NumPy.

A program maps a vector x and a scalar p to a vector of the same size. Its reference is written in
NumPy; derivatives of the reference are central differences in float64.
"""

from collections.abc import Callable

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

STEP = 1e-5


def _scan(x, p):
    def body(c, a):
        c = jnp.sin(c * p) + a
        return c, c * a

    last, ys = lax.scan(body, x, jnp.stack([x, 2.0 * x, x * p]))
    return last + ys.sum(0)


def _scan_reference(x, p):
    total, c = 0.0, x
    for a in (x, 2.0 * x, x * p):
        c = np.sin(c * p) + a
        total = total + c * a
    return c + total


def _scan_reverse_unrolled(x, p):
    last, ys = lax.scan(
        lambda c, a: (c * jnp.cos(a), c + a * p),
        x,
        jnp.stack([x, x + 1.0, x * p]),
        reverse=True,
        unroll=2,
    )
    return last + ys[0] * ys[2]


def _scan_reverse_reference(x, p):
    c, ys = x, []
    for a in (x * p, x + 1.0, x):
        ys.append(c + a * p)
        c = c * np.cos(a)
    return c + ys[2] * ys[0]


def _scan_invariant(x, p):
    # exp(p) does not change from one iteration to the next.
    return lax.scan(lambda c, _: (jnp.tanh(c * jnp.exp(p) + x), None), x, None, length=3)[0]


def _scan_invariant_reference(x, p):
    c = x
    for _ in range(3):
        c = np.tanh(c * np.exp(p) + x)
    return c


def _scan_in_scan(x, p):
    def outer(c, a):
        inner = lax.scan(lambda d, _: (d * p + jnp.sin(a), d), c, None, length=2)
        return inner[0], inner[1].sum(0)

    last, ys = lax.scan(outer, x, jnp.stack([x, x * x]))
    return last * ys[1]


def _scan_in_scan_reference(x, p):
    c = x
    for a in (x, x * x):
        total = 0.0
        for _ in range(2):
            total = total + c
            c = c * p + np.sin(a)
    return c * total


def _cond(x, p):
    return lax.cond(p > 0.5, lambda x: jnp.sin(x) * p, lambda x: x * x + p, x)


def _cond_reference(x, p):
    return np.sin(x) * p if p > 0.5 else x * x + p


def _switch(x, p):
    branches = [lambda x: x * p, lambda x: jnp.exp(x), lambda x: x**3 + p]
    return lax.switch((p * 3.0).astype("int32"), branches, x)


def _switch_reference(x, p):
    i = min(int(p * 3.0), 2)
    return (x * p, np.exp(x), x**3 + p)[i]


def _cond_in_scan(x, p):
    def body(c, i):
        c = lax.cond(i % 2 == 0, lambda c: jnp.sin(c * p), lambda c: c * c, c)
        return c, None

    return lax.scan(body, x, jnp.arange(4))[0]


def _cond_in_scan_reference(x, p):
    for i in range(4):
        x = np.sin(x * p) if i % 2 == 0 else x * x
    return x


def _fori(x, p):
    return lax.fori_loop(1, 4, lambda i, c: c * p + i * jnp.sin(c), x)


def _fori_reference(x, p):
    c = x
    for i in range(1, 4):
        c = c * p + i * np.sin(c)
    return c


def _while(x, p):
    # The number of iterations depends on p.
    return lax.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + p, jnp.sin(s[1]) + x), (p, x))[1]


def _while_reference(x, p):
    s, c = p, x
    while s < 3.0:
        s, c = s + p, np.sin(c) + x
    return c


def _fori_dynamic(x, p):
    return lax.fori_loop(0, (p * 4.0).astype("int32"), lambda i, c: c * p + x, x)


def _fori_dynamic_reference(x, p):
    c = x
    for _ in range(int(p * 4.0)):
        c = c * p + x
    return c


def _map(x, p):
    return lax.map(lambda a: jnp.sin(a) * p, x)


def _map_batched(x, p):
    return lax.map(lambda a: jnp.sin(a) * p, x, batch_size=2)


def _map_reference(x, p):
    return np.sin(x) * p


def _associative_scan(x, p):
    return lax.associative_scan(lambda a, b: a * b, x * p)


def _associative_scan_reference(x, p):
    return np.cumprod(x * p)


def _checkpoint_in_scan(x, p):
    def step(c, a):
        c = jnp.sin(c * p) + a
        return c, c * a

    body = weft.checkpoint(step, prevent_cse=False)
    last, ys = lax.scan(body, x, jnp.stack([x, 2.0 * x, x * p]))
    return last + ys.sum(0)


PROGRAMS: dict[str, tuple[Callable, Callable]] = {
    "scan": (_scan, _scan_reference),
    "scan reverse, unrolled": (_scan_reverse_unrolled, _scan_reverse_reference),
    "scan with invariant work": (_scan_invariant, _scan_invariant_reference),
    "scan in scan": (_scan_in_scan, _scan_in_scan_reference),
    "cond": (_cond, _cond_reference),
    "switch": (_switch, _switch_reference),
    "cond in scan": (_cond_in_scan, _cond_in_scan_reference),
    "fori_loop": (_fori, _fori_reference),
    "map": (_map, _map_reference),
    "map in batches": (_map_batched, _map_reference),
    "associative_scan": (_associative_scan, _associative_scan_reference),
    "checkpoint in scan": (_checkpoint_in_scan, _scan_reference),
}
FORWARD_ONLY = {
    "while_loop": (_while, _while_reference),
    "fori_loop, dynamic": (_fori_dynamic, _fori_dynamic_reference),
}
ALL = {**PROGRAMS, **FORWARD_ONLY}

X = np.array([0.3, -0.7, 0.9])
P = 0.6
WEIGHTS = np.array([1.0, -2.0, 0.5])


def loss(program, xp):
    return lambda x, p: xp.sum(program(x, p) * WEIGHTS.astype("float64"))


def differences(f, x):
    """Central differences of a function of a vector, along each element; any output shape."""
    columns = []
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = STEP
        columns.append((f(x + e) - f(x - e)) / (2 * STEP))
    return np.stack(columns, -1)


def grad_reference(reference, p=P):
    return lambda x: differences(lambda y: loss(reference, np)(y, p), x)


@pytest.fixture(autouse=True)
def _x64():
    with weft.enable_x64(True):
        yield


def close(got, want, tolerance=1e-7):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ALL)
def test_values_agree_eagerly_and_under_jit(name):
    program, reference = ALL[name]
    close(program(jnp.asarray(X), jnp.asarray(P)), reference(X, P))
    close(weft.jit(program)(X, P), reference(X, P))


V = np.array([1.0, 0.5, -0.25])
XS, PS = np.stack([X, X + 0.1, -X]), np.array([0.4, 0.6, 0.9])


def agree(results, wants):
    """Results of one compiled function by what they are; compiling is what these tests cost."""
    for what, got in results.items():
        want, tolerance = wants[what]
        np.testing.assert_allclose(
            np.asarray(got), want, rtol=tolerance, atol=tolerance, err_msg=what
        )


@pytest.mark.parametrize("name", ALL)
def test_vmap_over_each_argument_agrees_with_a_loop(name):
    program, reference = ALL[name]

    @weft.jit
    def run(xs, ps):
        return {
            "both": weft.vmap(program)(xs, ps),
            "columns": weft.vmap(program, in_axes=(1, None))(xs.T, jnp.asarray(P)),
            "the scalar": weft.vmap(program, in_axes=(None, 0), out_axes=1)(xs[0], ps),
        }

    wants = {
        "both": [reference(x, p) for x, p in zip(XS, PS, strict=True)],
        "columns": [reference(x, P) for x in XS],
        "the scalar": np.stack([reference(X, p) for p in PS], 1),
    }
    agree(run(XS, PS), {what: (want, 1e-7) for what, want in wants.items()})


@pytest.mark.parametrize("name", ALL)
def test_forward_derivatives_agree_with_differences(name):
    program, reference = ALL[name]

    @weft.jit
    def run(x, p):
        out, tangent = weft.jvp(program, (x, p), (V, jnp.asarray(0.0)))
        value, push = weft.linearize(lambda x: program(x, p), x)
        return {"value": out, "jvp": tangent, "linearized value": value, "linearize": push(V)}

    value, slope = reference(X, P), differences(lambda y: reference(y, P), X) @ V
    wants = {"value": (value, 1e-7), "linearized value": (value, 1e-7)}
    agree(run(X, P), {**wants, "jvp": (slope, 1e-6), "linearize": (slope, 1e-6)})


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_agree_with_differences(name):
    program, reference = PROGRAMS[name]
    f = loss(program, jnp)

    @weft.jit
    def run(x, p, xs, ps):
        gx, gp = weft.grad(f, argnums=(0, 1))(x, p)
        each = lambda xs: jnp.sum(weft.vmap(f)(xs, ps))
        return {
            "grad": gx,
            "grad in p": gp,
            "grad of checkpoint": weft.grad(weft.checkpoint(f))(x, p),
            "vmap of grad": weft.vmap(weft.grad(f))(xs, ps),
            "grad of vmap": weft.grad(each)(xs),
        }

    gx = grad_reference(reference)(X)
    gp = differences(lambda q: loss(reference, np)(X, q[0]), np.array([P]))[0]
    rows = [grad_reference(reference, p)(x) for x, p in zip(XS, PS, strict=True)]
    wants = {"grad": gx, "grad in p": gp, "grad of checkpoint": gx, "vmap of grad": rows,
             "grad of vmap": rows}  # fmt: skip
    agree(run(X, P, XS, PS), {what: (want, 1e-6) for what, want in wants.items()})


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager_gradients_of_a_jitted_function_agree_with_differences(name):
    program, reference = PROGRAMS[name]
    g = weft.grad(loss(weft.jit(program), jnp))(jnp.asarray(X), jnp.asarray(P))
    close(g, grad_reference(reference)(X), 1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_agree_with_differences_of_the_first(name):
    program, _ = PROGRAMS[name]
    gradient = weft.grad(lambda x: loss(program, jnp)(x, jnp.asarray(P)))

    @weft.jit
    def run(x):
        e = STEP * jnp.eye(3)
        rows = (weft.vmap(gradient)(x + e) - weft.vmap(gradient)(x - e)) / (2 * STEP)
        return rows.T @ V, {
            "forward over reverse": weft.jvp(gradient, (x,), (V,))[1],
            "reverse over reverse": weft.grad(lambda x: jnp.sum(gradient(x) * V))(x),
        }

    want, results = run(X)
    agree(results, dict.fromkeys(results, (np.asarray(want), 1e-5)))


@pytest.mark.parametrize("name", ALL)
def test_disable_jit_gives_the_same_values(name):
    program, reference = ALL[name]
    with weft.disable_jit():
        close(program(jnp.asarray(X), jnp.asarray(P)), reference(X, P))

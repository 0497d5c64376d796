"""Weight gradients of loops as one product behind the loop, against sums over the steps."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.jaxpr import walk_eqns

STEPS, BATCH, WIDTH = 5, 4, 64


@pytest.fixture
def data(rng):
    x, h = rng.standard_normal((STEPS, BATCH, WIDTH)), rng.standard_normal((BATCH, WIDTH))
    return [v.astype(np.float32) for v in (rng.standard_normal((WIDTH, WIDTH)) / 8, x, h)]


def loss(w, x, h, wrap=lambda f: f, **how):
    def step(h, x):
        h = wnp.tanh(h @ w + x)
        return h, h

    _, hs = lax.scan(wrap(step), h, x, **how)
    return (hs**2).sum() / 2


def gradient(w, x, h):
    """Backpropagation through time, step by step."""
    w, x, h = (v.astype(np.float64) for v in (w, x, h))
    states = [h]
    for t in range(STEPS):
        states.append(np.tanh(states[-1] @ w + x[t]))
    total, back = np.zeros_like(w), np.zeros_like(h)
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        slope = (back + after) * (1 - after**2)
        total += before.T @ slope
        back = slope @ w.T
    return total


def shapes_in_loops(function, *operands):
    """The shapes of what the program's loops carry and compute."""
    jaxpr = weft.make_jaxpr(function)(*operands).jaxpr
    loops = [e for e in walk_eqns(jaxpr) if e.primitive.name == "scan"]
    inside = [e for loop in loops for e in walk_eqns(loop.params["jaxpr"].jaxpr)]
    return {v.aval.shape for e in inside for v in e.outvars}


def test_the_gradient_of_weights_is_one_product_behind_the_loop(data):
    np.testing.assert_allclose(weft.grad(loss)(*data), gradient(*data), rtol=1e-4, atol=1e-4)
    assert (WIDTH, WIDTH) not in shapes_in_loops(weft.grad(loss), *data)


@pytest.mark.parametrize("how", [{"unroll": 2}, {"unroll": 5}])
def test_unrolled_loops_have_the_same_gradient(data, how):
    grad = weft.jit(weft.grad(lambda *v: loss(*v, **how)))
    np.testing.assert_allclose(grad(*data), gradient(*data), rtol=1e-4, atol=1e-4)


def test_reversed_loops_pair_operands_of_one_step(data):
    w, x, h = data
    grad = weft.jit(weft.grad(lambda w: loss(w, x[::-1], h, reverse=True)))(w)
    np.testing.assert_allclose(grad, gradient(w, x, h), rtol=1e-4, atol=1e-4)


def test_steps_that_compute_residuals_again_stack_no_more(data):
    grad = weft.grad(lambda *v: loss(*v, wrap=weft.checkpoint))
    np.testing.assert_allclose(grad(*data), gradient(*data), rtol=1e-4, atol=1e-4)


def test_batches_of_gradients_and_of_weights(data, rng):
    w, x, h = data
    ws = np.stack([w, -w, 2 * w])
    grads = weft.jit(weft.vmap(weft.grad(loss), (0, None, None)))(ws, x, h)
    for got, one in zip(grads, ws, strict=True):
        np.testing.assert_allclose(got, gradient(one, x, h), rtol=1e-3, atol=1e-3)
    xs = np.stack([x, x + 1])
    grads = weft.vmap(weft.grad(loss), (None, 0, None))(w, xs, h)
    for got, one in zip(grads, xs, strict=True):
        np.testing.assert_allclose(got, gradient(w, one, h), rtol=1e-3, atol=1e-3)


def test_derivatives_of_the_gradient(data, rng):
    w, x, h = data
    v = rng.standard_normal(w.shape).astype(np.float32)
    _, tangent = weft.jvp(lambda w: weft.grad(loss)(w, x, h), (w,), (v,))
    step = 1e-6
    up, down = (gradient(w + s * step * v.astype(np.float64), x, h) for s in (1, -1))
    np.testing.assert_allclose(tangent, (up - down) / (2 * step), rtol=1e-2, atol=1e-2)


def test_products_of_several_operands_and_a_bias_add_up(data, rng):
    w, x, h = data
    b = rng.standard_normal(WIDTH).astype(np.float32)

    def run(w, b):
        def step(h, x):
            return wnp.tanh(h @ w) + x @ w.T + b, None

        return (lax.scan(step, h, x)[0] ** 2).sum()

    def at(w, b):
        state = h.astype(np.float64)
        for t in range(STEPS):
            state = np.tanh(state @ w) + x[t] @ w.T + b
        return (state**2).sum()

    of_w, of_b = weft.grad(run, (0, 1))(w, b)
    v = rng.standard_normal(w.shape) / 100
    change = (at(w + 1e-4 * v, b) - at(w - 1e-4 * v, b)) / 2e-4
    np.testing.assert_allclose((of_w * v).sum(), change, rtol=1e-3)
    u = rng.standard_normal(WIDTH)
    change = (at(w, b + 1e-4 * u) - at(w, b - 1e-4 * u)) / 2e-4
    np.testing.assert_allclose((of_b * u).sum(), change, rtol=1e-3)

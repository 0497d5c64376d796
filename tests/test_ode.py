"""weft.ode and weft.example_libraries against solutions and formulas on the host."""

import numpy as np
import pytest
import scipy.integrate

import weft
import weft.numpy as wnp
from weft.example_libraries import optimizers
from weft.ode import odeint

T = np.linspace(0.0, 2.0, 5)


def pendulum(y, t, k, m):
    return wnp.stack([y[1], -k * wnp.sin(y[0]) - m["drag"] * y[1] + wnp.cos(t)])


ARGS = (np.float64(2.0), {"drag": np.float64(0.3)})
START = np.array([1.0, -0.5])


def reference(y0, t, k, drag):
    f = lambda s, y: [y[1], -k * np.sin(y[0]) - drag * y[1] + np.cos(s)]
    return scipy.integrate.solve_ivp(
        f, (t[0], t[-1]), y0, t_eval=t, rtol=1e-12, atol=1e-12, method="DOP853"
    ).y.T


def test_solutions_are_scipys():
    with weft.enable_x64(True):
        got = weft.jit(lambda y, t: odeint(pendulum, y, t, *ARGS))(START, T)
        np.testing.assert_allclose(got, reference(START, T, 2.0, 0.3), atol=1e-7)
        tree = odeint(lambda y, t: {"a": -y["a"], "b": 2 * y["b"]}, {"a": 1.0, "b": np.ones(2)}, T)
        np.testing.assert_allclose(tree["a"], np.exp(-T), atol=1e-7)
        np.testing.assert_allclose(tree["b"][:, 1], np.exp(2 * T), rtol=1e-7)


def test_gradients_are_differences_of_scipys_solutions():
    weights = np.cos(np.arange(10.0)).reshape(5, 2)

    def loss(y0, t, k, drag):
        return wnp.sum(weights * odeint(pendulum, y0, t, k, {"drag": drag}))

    want = lambda y0, t, k, drag: np.sum(weights * reference(y0, t, k, drag))
    with weft.enable_x64(True):
        g = weft.jit(weft.grad(loss, argnums=(0, 1, 2, 3)))(START, T, 2.0, 0.3)
        h = 1e-5
        for i in range(2):
            e = h * np.eye(2)[i]
            d = (want(START + e, T, 2.0, 0.3) - want(START - e, T, 2.0, 0.3)) / (2 * h)
            assert float(g[0][i]) == pytest.approx(d, abs=1e-5)
        for i in range(5):
            e = h * np.eye(5)[i]
            d = (want(START, T + e, 2.0, 0.3) - want(START, T - e, 2.0, 0.3)) / (2 * h)
            assert float(g[1][i]) == pytest.approx(d, abs=1e-5)
        d = (want(START, T, 2 + h, 0.3) - want(START, T, 2 - h, 0.3)) / (2 * h)
        assert float(g[2]) == pytest.approx(d, abs=1e-5)
        d = (want(START, T, 2, 0.3 + h) - want(START, T, 2, 0.3 - h)) / (2 * h)
        assert float(g[3]) == pytest.approx(d, abs=1e-5)


def test_what_the_function_closes_over_is_differentiated():
    f = lambda k: odeint(lambda y, t: -k * y, 1.0, np.float32([0, 1]), rtol=1e-5, atol=1e-5)[1]
    assert float(weft.grad(f)(0.5)) == pytest.approx(-np.exp(-0.5), rel=1e-3)


def test_too_few_steps_give_nan():
    y = odeint(lambda y, t: 50 * wnp.cos(50 * t), 0.0, np.float32([0, 0.01, 9]), mxstep=3)
    assert np.isnan(y[2]) and not np.isnan(y[0])


MAKERS = {
    "sgd": optimizers.sgd(0.05),
    "momentum": optimizers.momentum(0.02, 0.9),
    "nesterov": optimizers.nesterov(0.02, 0.9),
    "adagrad": optimizers.adagrad(0.3),
    "rmsprop": optimizers.rmsprop(0.02),
    "rmsprop_momentum": optimizers.rmsprop_momentum(0.005),
    "adam": optimizers.adam(0.1),
    "adamax": optimizers.adamax(0.1),
    "sm3": optimizers.sm3(0.3),
}
TARGET = {"w": np.float32([[1, -2], [0.5, 3]]), "b": np.float32([0.25, -1])}


@pytest.mark.parametrize("name", MAKERS)
def test_optimizers_find_the_minimum(name):
    init, update, get_params = MAKERS[name]

    def loss(p):
        return sum(wnp.sum((p[k] - TARGET[k]) ** 2) for k in TARGET)

    def step(state, i):
        return update(i, weft.grad(loss)(get_params(state)), state), None

    zeros = weft.tree.map(wnp.zeros_like, TARGET)
    state = weft.jit(lambda s: weft.lax.scan(step, s, wnp.arange(300))[0])(init(zeros))
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    for k, v in get_params(again).items():
        np.testing.assert_allclose(v, TARGET[k], atol=0.1)


def test_the_first_steps_of_adam_are_those_of_the_paper():
    init, update, get_params = optimizers.adam(0.1)
    state, m, v, x = init(np.float32(1)), 0.0, 0.0, 1.0
    for i, g in enumerate([0.5, -0.25, 2.0]):
        state = update(i, np.float32(g), state)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x -= 0.1 * (m / (1 - 0.9 ** (i + 1))) / (np.sqrt(v / (1 - 0.999 ** (i + 1))) + 1e-8)
        assert float(get_params(state)) == pytest.approx(x, rel=1e-5)


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (optimizers.constant(0.1), [0.1, 0.1, 0.1]),
        (optimizers.exponential_decay(1.0, 5, 0.5), [1.0, 0.5, 0.25]),
        (optimizers.inverse_time_decay(1.0, 5, 1.0), [1.0, 1 / 2, 1 / 3]),
        (optimizers.inverse_time_decay(1.0, 4, 1.0, staircase=True), [1.0, 1 / 2, 1 / 3]),
        (optimizers.polynomial_decay(1.0, 10, 0.2), [1.0, 0.6, 0.2]),
        (optimizers.piecewise_constant([3, 8], [1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]),
    ],
)
def test_schedules(schedule, values):
    np.testing.assert_allclose([schedule(i) for i in (0, 5, 10)], values, rtol=1e-6)


def test_gradients_are_clipped_to_a_norm():
    tree = {"a": np.float32([3.0]), "b": np.float32([4.0])}
    assert float(optimizers.l2_norm(tree)) == 5.0
    assert float(optimizers.l2_norm(optimizers.clip_grads(tree, 1.0))) == pytest.approx(1)
    assert float(optimizers.l2_norm(optimizers.clip_grads(tree, 9.0))) == 5.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: odeint(lambda y, t: y, 1, T), TypeError, "floats"),
        (lambda: odeint(lambda y, t: y, 1.0, T + 0j), TypeError, "t of floats; got complex"),
        (lambda: odeint(lambda y, t: y, 1.0, T[:, None]), ValueError, "vector of times"),
        (lambda: optimizers.sgd(0.1).update_fn(0, (1.0,), optimizers.sgd(0.1).init_fn([1.0])),
         TypeError, "structure"),
        (lambda: optimizers.make_schedule("fast"), TypeError, "function or a number"),
        (lambda: optimizers.piecewise_constant([1], [1.0]), ValueError, "one element more"),
        (lambda: optimizers.pack_optimizer_state([1.0]), TypeError, "JoinPoint"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_solutions_and_their_gradients_may_be_complex():
    turn = lambda y, t, w: 1j * w * y  # the solution is y exp(i w t)
    with weft.enable_x64(True):
        w, y, end = 1.5, 2.0 - 1.0j, 0.8
        out = odeint(turn, y, T, w)
        np.testing.assert_allclose(out, y * np.exp(1j * w * T), atol=1e-6)
        real = lambda w, y, end: odeint(turn, y, wnp.stack([0.0, end]), w)[-1].real
        by_w, by_y, by_end = weft.jit(weft.grad(real, (0, 1, 2)))(w, y, end)
        factor = np.exp(1j * w * end)
        np.testing.assert_allclose(by_w, (1j * end * y * factor).real, atol=1e-5)
        np.testing.assert_allclose(by_end, (1j * w * y * factor).real, atol=1e-5)
        np.testing.assert_allclose(by_y, factor, atol=1e-5)  # d Re(f y) = Re(f dy)


def test_second_derivatives_integrate_backwards_again():
    solution = lambda k, y: odeint(lambda y, t, k: -k * y, y, wnp.array([0.0, 1.0]), k)[-1]
    k, y = 2.0, 1.5  # the solution is y exp(-k)
    np.testing.assert_allclose(
        weft.grad(weft.grad(solution))(k, y), y * np.exp(-k), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(
        weft.jit(weft.grad(weft.grad(solution, 1), 0))(k, y), -np.exp(-k), rtol=1e-3, atol=1e-4
    )


def test_optimizers_take_trees_without_parameters():
    init, update, get_params = optimizers.adam(0.1)
    for empty in ({}, [], {"a": ()}):
        assert get_params(update(0, empty, init(empty))) == empty

"""The recurrent example: the cell by NumPy, its loss falls, gradients meet once a step."""

import numpy as np
import pytest
from scipy.special import expit

import weft
from examples import rnn
from examples.text import Text, batch

WIDTH = 16


@pytest.fixture(scope="module")
def params():
    return rnn.init(weft.random.key(0), len(Text().alphabet), width=WIDTH)


def logits(params, ids):
    """The same network, step by step in NumPy."""
    p = {k: np.asarray(v, np.float64) for k, v in params.items()}
    state, out = np.zeros((ids.shape[0], WIDTH)), []
    for column in ids.T:
        x = p["tokens"][column] @ p["input"] + p["bias"]
        gates = expit(x[:, : 2 * WIDTH] + state @ p["gates"])
        reset, keep = gates[:, :WIDTH], gates[:, WIDTH:]
        new = np.tanh(x[:, 2 * WIDTH :] + (reset * state) @ p["state"])
        state = keep * state + (1 - keep) * new
        out.append(state @ p["tokens"].T)
    return np.stack(out, 1)


def loss(params, crops):
    scores = logits(params, crops[:, :-1])
    scores = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    return -np.take_along_axis(scores, crops[:, 1:, None], -1).mean()


def check_along_a_direction(grad, name, params, crops, rng):
    """The gradient of one parameter along a direction is a difference of losses in NumPy."""
    h, value = 1e-5, np.asarray(params[name], np.float64)
    direction = rng.standard_normal(value.shape)
    up, down = (loss({**params, name: value + s * direction}, crops) for s in (h, -h))
    np.testing.assert_allclose(
        (grad * direction).sum(), (up - down) / (2 * h), rtol=1e-3, atol=1e-5
    )


def test_scores_are_those_of_the_network_step_by_step(params):
    ids = batch(Text().train, 3, 10, (0, 0))[:, :-1]
    np.testing.assert_allclose(rnn.logits(params, ids), logits(params, ids), rtol=1e-4, atol=1e-5)


def test_the_gradient_through_the_scan_is_a_difference(params, rng):
    crops = batch(Text().train, 2, 8, (0, 0))
    grad = weft.grad(rnn.loss)(params, crops)["gates"]
    check_along_a_direction(grad, "gates", params, crops, rng)


def test_devices_add_up_gradients_once_a_step(params, rng):
    mesh = weft.make_mesh((8,), ("data",), axis_types=(weft.sharding.AxisType.Auto,))
    crops = batch(Text().train, 8, 16, (0, 0))
    step = weft.jit(weft.value_and_grad(rnn.split_loss(mesh)))
    value, grads = step(params, crops)
    np.testing.assert_allclose(value, loss(params, crops), rtol=1e-5)
    for name, grad in grads.items():
        check_along_a_direction(grad, name, params, crops, rng)
    found = weft.comm(step, params, crops).collectives
    assert {c.kind for c in found} == {"all_reduce"}
    assert all(c.trips == 1 for c in found)


def test_the_loss_falls():
    lines = []
    _, losses = rnn.train(12, lines.append, size=16)
    assert losses[-1] < losses[0] - 1
    assert "held-out loss" in lines[-1]

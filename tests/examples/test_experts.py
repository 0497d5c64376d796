"""Experts: every token gets its two best, while there is room."""

import numpy as np
import pytest

import weft
from examples import experts
from weft import P

EXPERTS, WIDTH, TOKENS = 8, 6, 32


@pytest.fixture(scope="module")
def split():
    mesh = weft.make_mesh((4,), ("expert",), axis_types=(weft.AxisType.Auto,))
    params = experts.init(weft.random.key(0), EXPERTS, WIDTH, 5)
    shardings = {n: weft.NamedSharding(mesh, spec) for n, spec in experts.SPECS.items()}
    return mesh, weft.device_put(params, shardings)


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def reference(params, x, capacity):
    params = {name: np.asarray(p, np.float64) for name, p in params.items()}
    out = np.zeros(x.shape)
    for tokens in np.split(np.arange(len(x)), 4):  # of one device
        logits = x[tokens] @ params["router"]
        best = np.argsort(-logits, 1, kind="stable")[:, :2]
        gate = np.exp(np.take_along_axis(logits, best, 1))
        gate /= gate.sum(1, keepdims=True)
        room = np.full(EXPERTS, capacity)
        for choice in range(2):
            for i, token in enumerate(tokens):
                expert = best[i, choice]
                room[expert] -= 1
                if room[expert] >= 0:
                    hidden = gelu(x[token] @ params["up"][expert])
                    out[token] += gate[i, choice] * (hidden @ params["down"][expert])
    return out


@pytest.mark.parametrize("capacity", [16, 1])
def test_tokens_get_the_weighted_results_of_the_experts_that_have_room(rng, split, capacity):
    mesh, params = split
    x = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    tokens = weft.device_put(x, weft.NamedSharding(mesh, P("expert")))
    layer = weft.jit(experts.over(mesh, capacity))
    result, balance = layer(params, tokens)
    np.testing.assert_allclose(result, reference(params, x, capacity), rtol=1e-4, atol=1e-5)
    assert result.sharding.spec[0] == "expert" and float(balance) > 1
    assert weft.comm(layer, params, tokens).counts()["all_to_all"] == 2

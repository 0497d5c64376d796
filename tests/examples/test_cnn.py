"""The convolutional example: its loss falls, it sees only the past, and halos are what moves."""

import numpy as np
import pytest

import weft
from examples import cnn
from examples.text import Text, batch
from weft import P


@pytest.fixture(scope="module")
def params():
    return cnn.init(weft.random.key(0), len(Text().alphabet), width=16)


def convolve(x, kernel, dilation):
    out = np.zeros((*x.shape[:2], kernel.shape[2]))
    for tap in range(kernel.shape[0]):
        back = (kernel.shape[0] - 1 - tap) * dilation
        out[:, back:] += x[:, : x.shape[1] - back] @ kernel[tap]
    return out


@pytest.mark.parametrize("dilation", [1, 4])
def test_convolutions_reach_back(rng, dilation):
    x, kernel = rng.standard_normal((2, 10, 3)), rng.standard_normal((3, 3, 4))
    got = cnn.convolve(x, kernel, dilation)
    np.testing.assert_allclose(got, convolve(x, kernel, dilation), rtol=1e-4, atol=1e-5)


def test_a_position_sees_no_later_one(params):
    ids = np.arange(32)[None]
    changed = ids.copy()
    changed[0, 20] = 50
    before, after = (np.asarray(cnn.logits(params, x)) for x in (ids, changed))
    np.testing.assert_allclose(before[0, :20], after[0, :20], atol=1e-5)
    assert np.abs(before[0, 20:] - after[0, 20:]).max() > 1e-3


def test_time_split_over_devices_gives_the_same_loss_by_halos(params):
    auto = (weft.sharding.AxisType.Auto,) * 2
    mesh = weft.make_mesh((4, 2), ("data", "time"), axis_types=auto)
    split = weft.NamedSharding(mesh, P("data", "time"))
    crops = batch(Text().train, 8, 32, (0, 0))
    run = weft.jit(lambda params, crops: cnn.loss(params, crops, split))
    placed = weft.device_put(crops, weft.NamedSharding(mesh, P("data")))
    np.testing.assert_allclose(run(params, placed), cnn.loss(params, crops), rtol=1e-5)
    counts = weft.comm(run, params, placed).counts()
    assert counts == {"collective_permute": len(cnn.DILATIONS), "all_reduce": 1}


def test_the_loss_falls():
    lines = []
    _, losses = cnn.train(12, lines.append, size=16)
    assert losses[-1] < losses[0] - 1
    assert "held-out loss" in lines[-1]

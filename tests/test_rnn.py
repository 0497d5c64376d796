"""weft.rnn and weft.example_libraries.stax against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import rnn
from weft.example_libraries import stax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(x, h0, c0, weights, lengths, hidden, layers, bidirectional):
    directions = 2 if bidirectional else 1
    h_n, c_n = np.array(h0), np.array(c0)
    for layer in range(layers):
        out = np.zeros((*x.shape[:2], hidden * directions))
        for d in range(directions):
            i = layer * directions + d
            w_ih, w_hh, b_ih, b_hh = (np.asarray(part[i]) for part in weights)
            for b in range(len(x)):
                steps = range(lengths[b])
                for t in steps[::-1] if d else steps:
                    gates = w_ih @ x[b, t] + w_hh @ h_n[i, b] + b_ih + b_hh
                    g_i, g_f, g_g, g_o = np.split(gates, 4)
                    c_n[i, b] = sigmoid(g_f) * c_n[i, b] + sigmoid(g_i) * np.tanh(g_g)
                    h_n[i, b] = sigmoid(g_o) * np.tanh(c_n[i, b])
                    out[b, t, d * hidden : (d + 1) * hidden] = h_n[i, b]
        x = out
    return x, h_n, c_n


@pytest.mark.parametrize("layers, bidirectional", [(1, False), (2, False), (2, True)])
def test_lstm_is_that_of_a_loop(rng, layers, bidirectional):
    sizes = (3, 4, layers, bidirectional)
    w = rnn.init_lstm_weight(weft.random.key(0), *sizes)
    assert w.shape == (rnn.get_num_params_in_lstm(*sizes),)
    assert np.abs(np.asarray(w)).max() <= 0.5
    state = (layers * (2 if bidirectional else 1), 2, 4)
    x, h, c = (rng.normal(size=s).astype(np.float32) for s in ((2, 5, 3), state, state))
    lengths = np.array([5, 3], np.int32)
    parts = rnn.unpack_lstm_weights(w, *sizes)
    want = reference(x, h, c, parts, lengths, 4, layers, bidirectional)
    options = (lengths, 3, 4, layers, 0.0, bidirectional)
    for got in (rnn.lstm(x, h, c, w, *options), rnn.lstm_ref(x, h, c, *parts, *options)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    swapped = rnn.swap_lstm_gates(rnn.swap_lstm_gates(w, *sizes), *sizes)
    np.testing.assert_array_equal(swapped, w)


def test_lstm_is_differentiated_and_says_what_is_wrong(rng):
    w = rnn.init_lstm_weight(weft.random.key(0), 3, 4, 1, False)
    zeros = wnp.zeros((1, 2, 4))
    x = rng.normal(size=(2, 5, 3)).astype(np.float32)
    f = lambda w: rnn.lstm(x, zeros, zeros, w, wnp.array([5, 5]), 3, 4, 1, 0.0, False)[0].sum()
    v = rng.normal(size=w.shape).astype(np.float32)
    slope = (f(w + 1e-2 * v) - f(w - 1e-2 * v)) / 2e-2
    np.testing.assert_allclose(weft.grad(f)(w) @ v, slope, rtol=2e-2)
    with pytest.raises(ValueError, match="weights must have shape"):
        rnn.lstm(x, zeros, zeros, w[:-1], wnp.array([5, 5]), 3, 4, 1, 0.0, False)
    with pytest.raises(ValueError, match="x must be"):
        rnn.lstm(x[0], zeros, zeros, w, wnp.array([5, 5]), 3, 4, 1, 0.0, False)
    with pytest.raises(NotImplementedError, match="dropout"):
        rnn.lstm(x, zeros, zeros, w, wnp.array([5, 5]), 3, 4, 1, 0.5, False)


LAYERS = [
    (stax.Dense(5), (-1, 4)),
    (stax.Conv(3, (3, 3), (2, 2), "SAME"), (-1, 8, 8, 2)),
    (stax.ConvTranspose(3, (3, 3), (2, 2)), (-1, 4, 4, 2)),
    (stax.BatchNorm(), (-1, 4, 4, 2)),
    (stax.MaxPool((2, 2), (2, 2)), (-1, 4, 4, 2)),
    (stax.AvgPool((2, 2)), (-1, 4, 4, 2)),
    (stax.Flatten, (-1, 4, 4, 2)),
    (stax.serial(stax.Dense(6), stax.Gelu, stax.Dense(2), stax.Softmax), (-1, 3)),
    (
        stax.serial(
            stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInConcat()
        ),
        (-1, 3),
    ),
    (stax.serial(stax.FanOut(2), stax.parallel(stax.Tanh, stax.Relu), stax.FanInSum), (-1, 3)),
    (stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])), (-1, 3)),
    (stax.Dropout(0.5), (-1, 3)),
]


@pytest.mark.parametrize("layer, shape", LAYERS)
def test_layers_give_the_shapes_that_they_say(layer, shape):
    init, apply = layer
    out_shape, params = init(weft.random.key(0), shape)
    x = weft.random.normal(weft.random.key(1), (2, *shape[1:]))
    y = weft.jit(apply)(params, x, rng=weft.random.key(2))
    assert y.shape == (2, *out_shape[1:]) and out_shape[0] == -1


def test_layers_compute_their_formulas(rng):
    x = rng.normal(size=(6, 4)).astype(np.float32)
    init, apply = stax.serial(stax.Dense(3), stax.LogSoftmax)
    _, ((w, b), _) = init(weft.random.key(0), (-1, 4))
    z = x @ np.asarray(w) + np.asarray(b)
    want = z - np.log(np.exp(z).sum(1, keepdims=True))
    np.testing.assert_allclose(apply([(w, b), ()], x), want, rtol=1e-4, atol=1e-5)
    image = rng.normal(size=(2, 4, 4, 1)).astype(np.float32)
    pooled = stax.AvgPool((2, 2), (2, 2))[1]((), image)
    np.testing.assert_allclose(pooled, image.reshape(2, 2, 2, 2, 2, 1).mean((2, 4)), rtol=1e-5)
    normal = stax.BatchNorm(center=False, scale=False)[1](((), ()), image)
    want = (image - image.mean((0, 1, 2))) / np.sqrt(image.var((0, 1, 2)) + 1e-5)
    np.testing.assert_allclose(normal, want, rtol=1e-3, atol=1e-4)
    kept = stax.Dropout(0.8)[1]((), np.ones(1000), rng=weft.random.key(0))
    assert set(np.unique(kept).round(3).tolist()) == {0, 1.25}
    with pytest.raises(ValueError, match="needs rng="):
        stax.Dropout(0.8)[1]((), np.ones(3))

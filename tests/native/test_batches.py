"""Products of batches in loops over the batch, against NumPy in float64."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn
from weft.core.config import options

SHAPE = (4, 8, 256, 16)  # the scores of all heads have 2 Mi elements


@pytest.fixture
def qkv(rng):
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def expected(q, k, v, change=lambda scores: scores):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    p = softmax(change(q @ k.swapaxes(-1, -2) * 0.25))
    return p @ v, p


def attention(q, k, v, change=lambda scores: scores):
    return nn.softmax(change(wnp.einsum("...id,...jd->...ij", q, k) * 0.25)) @ v


def loops(function, *operands):
    """How many loops a compiled program has."""
    return weft.jit(function).lower(*operands).compile().as_text().count(" while(")


CAUSAL = np.tril(np.ones((256, 256), bool))
KEPT = np.arange(256)[None, None, None, :] < np.array([256, 100, 7, 31])[:, None, None, None]
SLOPES = np.linspace(0, 1, 8, dtype=np.float32)[:, None, None]
CHANGES = {
    "plain": lambda xp, s: s,
    "causal": lambda xp, s: xp.where(CAUSAL, s, -1e9),
    "mask of examples": lambda xp, s: xp.where(KEPT, s, -1e9),
    "bias of heads": lambda xp, s: s + SLOPES * xp.arange(256, dtype="float32"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_attention_runs_in_a_loop_over_examples(change, qkv):
    def of(xp):  # without a soft cap it would be one kernel
        return lambda s: CHANGES[change](xp, 2 * xp.tanh(s / 2))

    def function(*a):
        return attention(*a, of(wnp))

    np.testing.assert_allclose(
        weft.jit(function)(*qkv), expected(*qkv, of(np))[0], rtol=1e-4, atol=1e-4
    )
    assert loops(function, *qkv) == 1
    with options["native_ops"](False):
        assert loops(function, *qkv) == 0


def test_gradients_run_in_loops(qkv):
    q, k, v = (x.astype(np.float64) for x in qkv)
    out, p = expected(*qkv)
    d_out = 2 * out
    d_scores = p * (d_out @ v.swapaxes(-1, -2) - (d_out * out).sum(-1, keepdims=True)) * 0.25
    wanted = d_scores @ k, d_scores.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_out

    def loss(*a):
        return (attention(*a) ** 2).sum()

    for got, want in zip(weft.jit(weft.grad(loss, (0, 1, 2)))(*qkv), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    assert loops(weft.grad(loss, (0, 1, 2)), *qkv) == 2


def test_keys_that_heads_share_are_read_whole(qkv):
    q, k, v = qkv
    got = weft.jit(
        lambda q, k, v: nn.softmax(wnp.einsum("bhid,bjd->bhij", q, k) * 0.25) @ v
    )(q, k[:, 0], v)  # fmt: skip
    np.testing.assert_allclose(got, expected(q, k[:, :1], v)[0], rtol=1e-4, atol=1e-5)


def test_weights_that_somebody_else_uses_are_results_too(qkv):
    def function(q, k, v):
        weights = nn.softmax(wnp.einsum("...id,...jd->...ij", q, k) * 0.25)
        return weights @ v, weights, weights.max(-1)

    out, p = expected(*qkv)
    got = weft.jit(function)(*qkv)
    for a, b in zip(got, (out, p, p.max(-1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_product_that_needs_another_is_not_of_its_loop(qkv):
    def function(q, k, v):
        scores = wnp.exp(wnp.einsum("...id,...jd->...ij", q, k) * 0.1)
        first = scores @ v
        return scores @ (first / 100), first

    q, k, v = (x.astype(np.float64) for x in qkv)
    scores = np.exp(q @ k.swapaxes(-1, -2) * 0.1)
    second, first = weft.jit(function)(*qkv)
    np.testing.assert_allclose(first, scores @ v, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(second, scores @ (scores @ v / 100), rtol=1e-3, atol=1e-2)


def test_a_large_operand_may_come_second_and_transposed(qkv):
    def function(q, k, v):
        return wnp.einsum("...id,...ij->...dj", v, wnp.exp(wnp.einsum("...id,...jd->...ij", q, k)))

    q, k, v = (x.astype(np.float64) for x in qkv)
    want = v.swapaxes(-1, -2) @ np.exp(q @ k.swapaxes(-1, -2))
    got = np.asarray(weft.jit(function)(*qkv), np.float64)
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()
    assert loops(function, *qkv) == 1


def test_scans_bfloat16_and_shards(qkv, rng):
    def layers(x):
        return weft.lax.scan(lambda x, _: (attention(x, x, x), None), x, length=2)[0]

    x = qkv[0]
    once = expected(x, x, x)[0].astype(np.float32)
    want = expected(once, once, once)[0]
    np.testing.assert_allclose(weft.jit(layers)(x), want, rtol=1e-3, atol=1e-4)
    low = weft.jit(attention)(*(wnp.asarray(a, "bfloat16") for a in qkv))
    np.testing.assert_allclose(np.asarray(low, np.float32), expected(*qkv)[0], atol=0.1)
    mesh = weft.make_mesh((2,), ("x",), axis_types=(weft.AxisType.Auto,))
    wide = [np.concatenate([a, a]) for a in qkv]
    placed = [weft.device_put(a, weft.NamedSharding(mesh, weft.P("x"))) for a in wide]
    np.testing.assert_allclose(
        weft.jit(attention)(*placed), expected(*wide)[0], rtol=1e-4, atol=1e-5
    )


def test_small_products_stay(rng):
    small = [rng.standard_normal((2, 2, 64, 16)).astype(np.float32) for _ in range(3)]
    assert loops(attention, *small) == 0


def test_quotients_that_are_no_softmax_do_not_overflow(qkv):
    def function(q, k, v):
        powers = wnp.exp(wnp.einsum("...id,...jd->...ij", q, k) * 0.1 + 80)
        return (powers / powers.sum(-1, keepdims=True)) @ (v * 1e3)

    q, k, v = (x.astype(np.float64) for x in qkv)
    want = softmax(q @ k.swapaxes(-1, -2) * 0.1) @ (v * 1e3)
    np.testing.assert_allclose(weft.jit(function)(*qkv), want, rtol=1e-3, atol=1e-2)

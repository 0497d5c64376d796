"""dot_product_attention against a loop over heads in NumPy: masks, groups, windows, lengths."""

import numpy as np
import pytest

import weft
from weft.nn import dot_product_attention

R = np.random.default_rng(4)
B, T, S, N, H = 2, 5, 6, 4, 3


def floats(*shape):
    return R.standard_normal(shape).astype(np.float32)


Q, K, V = floats(B, T, N, H), floats(B, S, N, H), floats(B, S, N, H)


def reference(q, k, v, bias=0.0, visible=True, scale=None):
    """Attention of every head by itself; also the logsumexp of its logits."""
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
    logits = np.einsum("btnh,bsnh->bnts", q, k) * (scale or q.shape[3] ** -0.5) + bias
    logits = np.where(visible, logits, -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = e / e.sum(-1, keepdims=True)
    residual = np.log(np.exp(logits).sum(-1))
    return np.einsum("bnts,bsnh->btnh", probabilities, v), np.moveaxis(residual, 1, 2)


def check(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_every_head_attends_by_itself():
    check(dot_product_attention(Q, K, V), reference(Q, K, V)[0])
    check(dot_product_attention(Q, K, V, scale=0.3), reference(Q, K, V, scale=0.3)[0])


def test_a_batch_of_one_may_be_left_out():
    check(dot_product_attention(Q[0], K[0], V[0]), reference(Q, K, V)[0][0])


@pytest.mark.parametrize("heads", [1, 2])
def test_groups_of_query_heads_share_a_key_head(heads):
    k, v = K[:, :, :heads], V[:, :, :heads]
    check(dot_product_attention(Q, k, v), reference(Q, k, v)[0])


@pytest.mark.parametrize("shape", [(B, N, T, S), (N, 1, S), (1, 1, T, S)])
def test_a_bias_is_added_to_the_logits(shape):
    bias = floats(*shape)
    check(dot_product_attention(Q, K, V, bias), reference(Q, K, V, bias)[0])


@pytest.mark.parametrize("shape", [(B, N, T, S), (B, 1, 1, S), (T, S)])
def test_a_mask_hides_keys(shape):
    mask = R.random(shape) < 0.5
    mask[..., 0] = True
    check(dot_product_attention(Q, K, V, mask=mask), reference(Q, K, V, visible=mask)[0])


def test_causal_queries_see_no_later_key():
    visible = np.tri(T, S, dtype=bool)
    check(dot_product_attention(Q, K, V, is_causal=True), reference(Q, K, V, visible=visible)[0])


@pytest.mark.parametrize(("window", "left", "right"), [(1, 1, 1), ((2, 0), 2, 0), ((0, 3), 0, 3)])
def test_a_window_is_left_and_right_of_the_position(window, left, right):
    distance = np.arange(S) - np.arange(T)[:, None]
    visible = (-left <= distance) & (distance <= right)
    got = dot_product_attention(Q, K, V, local_window_size=window)
    check(got, reference(Q, K, V, visible=visible)[0])


def test_lengths_cut_keys_and_zero_queries():
    queries, keys = np.array([3, 5], np.int32), np.array([6, 2], np.int32)
    got = dot_product_attention(Q, K, V, query_seq_lengths=queries, key_value_seq_lengths=keys)
    visible = (np.arange(S) < keys[:, None])[:, None, None]
    want = reference(Q, K, V, visible=visible)[0]
    want[np.arange(T) >= queries[:, None]] = 0
    check(got, want)


def test_the_residual_is_the_logsumexp_and_has_no_derivative():
    out, residual = dot_product_attention(Q, K, V, return_residual=True)
    want, want_residual = reference(Q, K, V)
    check(out, want)
    check(residual, want_residual)
    grad = weft.grad(lambda q: dot_product_attention(q, K, V, return_residual=True)[1].sum())(Q)
    np.testing.assert_array_equal(grad, 0)


@pytest.mark.parametrize("heads", [2, 4])
def test_gradients_are_differences(heads):
    k, v = K[:, :, :heads], V[:, :, :heads]
    args = [x.astype(np.float64) for x in (Q, k, v)]
    weights = R.standard_normal(Q.shape)
    directions = [R.standard_normal(x.shape) for x in args]
    h = 1e-6

    def value(q, k, v):
        return (dot_product_attention(q, k, v, is_causal=True) * weights).sum()

    with weft.enable_x64(True):
        grads = weft.jit(weft.grad(value, argnums=(0, 1, 2)))(*args)
    visible = np.tri(T, S, dtype=bool)
    for i, d in enumerate(directions):
        moved = lambda s: [a + s * h * d if j == i else a for j, a in enumerate(args)]  # noqa: B023
        up, down = ((reference(*moved(s), visible=visible)[0] * weights).sum() for s in (1, -1))
        np.testing.assert_allclose(
            (np.asarray(grads[i]) * d).sum(), (up - down) / (2 * h), rtol=1e-6
        )


def test_low_precision_operands_keep_their_dtype():
    import ml_dtypes

    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in (Q, K, V))
    out = dot_product_attention(q, k, v)
    assert out.dtype == ml_dtypes.bfloat16
    want = reference(*(x.astype(np.float32) for x in (q, k, v)))[0]
    np.testing.assert_allclose(np.asarray(out, np.float32), want, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dot_product_attention(Q, K, V, implementation="cudnn"), "implementation"),
        (lambda: dot_product_attention(Q, K, V[:, :3]), "key .* and value"),
        (lambda: dot_product_attention(Q, K[..., :2], V[..., :2]), "head size"),
        (lambda: dot_product_attention(Q, K[:, :, :3], V[:, :, :3]), "must be a multiple"),
        (lambda: dot_product_attention(Q[0, 0], K, V), "3 or 4 dimensions"),
        (lambda: dot_product_attention(Q, K, V, mask=floats(T, S)), "mask must be boolean"),
        (
            lambda: dot_product_attention(Q, K, V, query_seq_lengths=np.ones(3, np.int32)),
            "query_seq_lengths must have shape",
        ),
    ],
)
def test_errors_name_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call()

"""Attention as one kernel, against NumPy in float64."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn
from weft.core.config import options

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def reference(q, k, v, scale=1.0, bias=0.0, mask=True, hidden=-np.inf):
    """Attention of [..., queries, size], [..., keys, size], [..., keys, features]."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(invalid="ignore"):
        scores = np.where(mask, q @ np.swapaxes(k, -1, -2) * scale + bias, hidden)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def run(function, *xs, native=True):
    compiled = weft.jit(function).lower(*xs).compile()
    assert ("native_attention" in compiled.as_text()) is native
    return np.asarray(compiled(*xs))


def check(function, expected, *xs):
    np.testing.assert_allclose(run(function, *xs), expected, rtol=2e-5, atol=3e-5)


SIZES = [
    ((3, 4, 301, 47), 577, 33),
    ((2, 3, 520, 64), 512, 64),
    ((1, 6, 300, 1), 700, 40),
    ((7, 400, 24), 401, 5),
    ((1, 1, 1500, 16), 1030, 16),
]


@pytest.mark.parametrize(("shape", "keys", "features"), SIZES)
def test_attention_of_any_sizes(shape, keys, features):
    q, k = normal(*shape), normal(*shape[:-2], keys, shape[-1])
    v = normal(*shape[:-2], keys, features)
    formula = lambda q, k, v: nn.softmax(q @ wnp.swapaxes(k, -1, -2) / 3.0) @ v
    check(formula, reference(q, k, v, 1 / 3.0), q, k, v)


def heads_last(function):
    """Call attention on [batch, length, heads, size] with operands that have heads second."""
    turned = lambda x: wnp.swapaxes(x, 1, 2)
    return lambda q, k, v, *rest: turned(function(turned(q), turned(k), turned(v), *rest))


CAUSAL = np.tril(np.ones((400, 420), bool))
SOME = RNG.random((2, 1, 400, 420)) > 0.3
SOME[0, 0, :, :260] = False  # more than a block of keys
SOME[1, 0, 7] = False  # a query that sees nothing
FAR = 0.7 * float(np.finfo(np.float32).max)
BIAS = normal(4, 400, 420)


@pytest.mark.parametrize(
    ("options", "arrays", "expected"),
    [
        ({}, {}, {}),
        ({"is_causal": True}, {}, {"mask": CAUSAL}),
        ({}, {"bias": BIAS}, {"bias": BIAS}),
        ({"scale": -0.5}, {"mask": SOME}, {"mask": SOME, "scale": -0.5}),
        (
            {"is_causal": True},
            {"bias": BIAS[:1], "mask": SOME},
            {"bias": BIAS[:1], "mask": SOME & CAUSAL},
        ),
    ],
)
def test_scores_with_biases_and_masks(options, arrays, expected):
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)
    names = list(arrays)
    function = heads_last(
        lambda q, k, v, *rest: nn.dot_product_attention(
            q, k, v, **options, **dict(zip(names, rest, strict=True))
        )
    )
    want = reference(q, k, v, **{"scale": 32**-0.5, "hidden": -FAR} | expected)
    check(function, want, q, k, v, *arrays.values())


@pytest.mark.parametrize("flipped", [False, True])
def test_scores_hidden_by_infinity(flipped):
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)

    def formula(q, k, v, mask):
        scores = q @ wnp.swapaxes(k, 2, 3)
        hidden = wnp.where(mask, -wnp.inf, scores) if flipped else wnp.where(mask, scores, -wnp.inf)
        return nn.softmax(hidden) @ v

    check(formula, reference(q, k, v, mask=SOME), q, k, v, ~SOME if flipped else SOME)


def test_what_is_visible_and_far_below_what_is_hidden_has_no_weight():
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)
    formula = lambda q, k, v, mask: (
        nn.softmax(wnp.where(mask, q @ wnp.swapaxes(k, 2, 3), 300.0)) @ v
    )
    want = reference(q, k, v, mask=SOME, hidden=300.0)
    check(formula, want, q, k, v, SOME)


def test_nans_and_infinities_make_their_query_nan():
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)
    q[0, 1, 2, 3], q[1, 2, 3, 4] = np.nan, np.inf
    out = run(lambda q, k, v: nn.softmax(q @ wnp.swapaxes(k, 2, 3)) @ v, q, k, v)
    bad = np.zeros((2, 4, 400), bool)
    bad[0, 1, 2] = bad[1, 2, 3] = True
    np.testing.assert_array_equal(np.isnan(out), np.repeat(bad[..., None], 32, 3))


def test_large_scores_keep_their_ratios():
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)
    q[..., 0], k[..., 0] = 30.0, np.arange(420)  # the greatest score is in each block's last key
    formula = lambda q, k, v: nn.softmax(q @ wnp.swapaxes(k, 2, 3)) @ v
    np.testing.assert_allclose(run(formula, q, k, v), reference(q, k, v), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("kept", ["weights", "scores"])
def test_what_others_read_is_computed(kept):
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)

    def formula(q, k, v):
        scores = q @ wnp.swapaxes(k, 2, 3)
        weights = nn.softmax(scores)
        return weights @ v, weights if kept == "weights" else scores

    assert "native_attention" not in weft.jit(formula).lower(q, k, v).compile().as_text()


def test_the_switch_and_other_dtypes_leave_it_to_xla():
    q = normal(2, 4, 400, 32)
    formula = lambda q: nn.softmax(q @ wnp.swapaxes(q, 2, 3)) @ q
    with options["native_ops"](False):
        run(formula, q, native=False)
    run(formula, q.astype(np.float16), native=False)


def test_gradients_are_those_of_the_formula():
    q, k, v = normal(2, 4, 400, 32), normal(2, 4, 420, 32), normal(2, 4, 420, 32)
    formula = lambda q, k, v: (nn.softmax(q @ wnp.swapaxes(k, 2, 3) * 0.2) @ v).sum()
    slope = weft.jit(weft.grad(formula))(q, k, v)
    at, step = (1, 2, 3, 4), 1e-4
    sums = []
    for sign in (1, -1):
        moved = q.astype(np.float64)
        moved[at] += sign * step
        sums.append(reference(moved, k, v, 0.2)[1, 2, 3].sum())
    np.testing.assert_allclose(slope[at], (sums[0] - sums[1]) / (2 * step), rtol=1e-3)

"""Softmax and sums of exponentials: values, masks, derivatives, and no overflow."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn

R = np.random.default_rng(2)
X = R.standard_normal((3, 4, 5)).astype(np.float32)
MASK = R.random((3, 4, 5)) < 0.6
MASK[0, 0] = False


def softmax(x, axis, where=True):
    e = np.where(where, np.exp(x - x.max(axis=axis, keepdims=True)), 0)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(e / e.sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
def test_softmax_and_its_logarithm_along_axes(axis):
    want = softmax(X, axis)
    np.testing.assert_allclose(nn.softmax(X, axis), want, rtol=1e-5)
    np.testing.assert_allclose(nn.log_softmax(X, axis), np.log(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats_are_added_up_in_float32(dtype):
    # Added up in bfloat16, ones stop counting at 256; in float16, at 2048.
    x = weft.numpy.zeros((2, 4096), dtype)
    np.testing.assert_array_equal(np.asarray(nn.softmax(x), np.float32), 1 / 4096)
    want = np.full((2, 4096), -np.log(4096), np.float32)
    np.testing.assert_allclose(np.asarray(nn.log_softmax(x), np.float32), want, rtol=4e-3)
    total = np.asarray(nn.logsumexp(x, axis=1), np.float32)
    np.testing.assert_allclose(total, np.log(4096), rtol=4e-3)
    slope = weft.grad(lambda x: nn.softmax(x)[0, 0])(x)
    np.testing.assert_allclose(slope[0, 1:].astype("float32"), -(2.0**-24), rtol=1e-2)


def test_large_logits_neither_overflow_nor_underflow():
    x = np.array([1e4, 0.0, -1e4], np.float32)
    np.testing.assert_array_equal(nn.softmax(x), [1, 0, 0])
    np.testing.assert_array_equal(nn.log_softmax(x), [0, -1e4, -2e4])


def test_the_jacobian_is_that_of_the_formula():
    x = X[0, 0]
    p = softmax(x, -1)
    want = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(weft.jacrev(nn.softmax)(x), want, atol=1e-6)
    np.testing.assert_allclose(weft.jacfwd(nn.softmax)(x), want, atol=1e-6)
    log_want = np.eye(5) - p
    np.testing.assert_allclose(weft.jacrev(nn.log_softmax)(x), log_want, atol=1e-6)
    np.testing.assert_allclose(weft.jacfwd(nn.log_softmax)(x), log_want, atol=1e-6)


def test_second_derivatives_are_differences_of_first():
    x, h = X[0, 0].astype(np.float64), 1e-5
    with weft.enable_x64(True):
        first = weft.jit(weft.jacrev(nn.softmax))
        second = np.asarray(weft.jacfwd(first)(x))
        for i, step in enumerate(np.eye(5) * h):
            quotient = (np.asarray(first(x + step)) - np.asarray(first(x - step))) / (2 * h)
            np.testing.assert_allclose(second[..., i], quotient, atol=1e-7)


@pytest.mark.parametrize("axis", [-1, (1, 2)])
def test_where_leaves_elements_out(axis):
    want = softmax(X, axis, MASK)
    np.testing.assert_allclose(nn.softmax(X, axis, where=MASK), want, rtol=1e-5)
    with np.errstate(divide="ignore"):
        log_want = np.log(want)
    np.testing.assert_allclose(nn.log_softmax(X, axis, where=MASK), log_want, rtol=1e-4, atol=1e-6)


def test_a_row_without_elements_is_zero_with_a_zero_derivative():
    grad = weft.grad(lambda x: (nn.softmax(x, where=MASK) ** 2).sum())(X)
    assert np.isfinite(grad).all()
    np.testing.assert_array_equal(np.asarray(grad)[~MASK], 0)


def test_where_broadcasts():
    mask = np.array([True, False, True, True, False])
    np.testing.assert_allclose(nn.softmax(X, where=mask), softmax(X, -1, mask), rtol=1e-5)


def test_softmax_maps_over_any_dimension():
    for axis in range(3):
        mapped = weft.vmap(nn.softmax, in_axes=axis, out_axes=axis)(X)
        reduced = -1 if axis < 2 else 1
        np.testing.assert_allclose(mapped, softmax(X, reduced), rtol=1e-5)


def test_integers_become_floats():
    np.testing.assert_allclose(nn.softmax(np.array([0, 0], np.int32)), [0.5, 0.5])


def log_sum(x, axis, b=1.0, where=True, keepdims=False):
    total = np.sum(np.where(where, b * np.exp(x.astype(np.float64)), 0), axis, keepdims=keepdims)
    return np.log(np.abs(total)), np.sign(total)


@pytest.mark.parametrize("axis", [None, 1, (0, -1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_is_the_logarithm_of_the_sum(axis, keepdims):
    want, _ = log_sum(X, axis, keepdims=keepdims)
    np.testing.assert_allclose(nn.logsumexp(X, axis, keepdims=keepdims), want, rtol=1e-5, atol=1e-6)


def test_logsumexp_takes_factors_signs_and_masks():
    b = np.float32([1, -2, 0, 3, -1])
    out, sign = nn.logsumexp(X, -1, b=b, return_sign=True)
    want, want_sign = log_sum(X, -1, b)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(sign, want_sign)
    plain = np.asarray(nn.logsumexp(X, -1, b=b))
    np.testing.assert_array_equal(np.isnan(plain), want_sign < 0)
    some = MASK.any(-1)
    masked = np.asarray(nn.logsumexp(X, -1, where=MASK))
    np.testing.assert_allclose(masked[some], log_sum(X[some], -1, where=MASK[some])[0], rtol=1e-5)
    np.testing.assert_array_equal(masked[~some], -np.inf)


def test_logsumexp_at_the_ends():
    big = np.array([1e4, 1e4], np.float32)
    np.testing.assert_allclose(nn.logsumexp(big), 1e4 + np.log(2), rtol=1e-6)
    inf = np.float32(np.inf)
    assert nn.logsumexp(np.array([-inf, -inf])) == -inf
    assert nn.logsumexp(np.array([inf, 0.0])) == inf
    np.testing.assert_allclose(weft.grad(nn.logsumexp)(big), [0.5, 0.5])


def test_the_gradient_of_logsumexp_is_softmax():
    np.testing.assert_allclose(weft.grad(nn.logsumexp)(X), softmax(X, None), rtol=1e-4, atol=1e-7)


def test_logmeanexp_divides_by_the_count():
    np.testing.assert_allclose(nn.logmeanexp(X, 0), log_sum(X, 0)[0] - np.log(3), atol=1e-6)
    count = MASK[1:].sum(-1)
    want = log_sum(X[1:], -1, where=MASK[1:])[0] - np.log(count)
    np.testing.assert_allclose(nn.logmeanexp(X[1:], -1, where=MASK[1:]), want, atol=1e-5)


def _total(x):
    return x.sum(1, keepdims=True)


def _shares(x):
    return np.exp(x) / _total(np.exp(x))


# name -> the function along axes, and the formula along a row.
NAMED = {
    "softmax": (nn.softmax, _shares),
    "log_softmax": (nn.log_softmax, lambda x: np.log(_shares(x))),
    "masked": (
        lambda x, axis: nn.softmax(x, axis, where=x > -1),
        lambda x: np.exp(x) * (x > -1) / _total(np.exp(x) * (x > -1)),
    ),
    "logsumexp": (
        lambda x, axis: x - nn.logsumexp(x, axis, keepdims=True),
        lambda x: np.log(_shares(x)),
    ),
    "factors": (
        lambda x, axis: x * nn.logsumexp(x, axis, b=x + 4, keepdims=True),
        lambda x: x * np.log(_total(np.exp(x) * (x + 4))),
    ),
    "signed": (
        lambda x, axis: x * nn.logsumexp(x, axis, b=x, keepdims=True, return_sign=True)[1],
        lambda x: x * np.sign(_total(np.exp(x) * x)),
    ),
    "logmeanexp": (
        lambda x, axis: x - nn.logmeanexp(x, axis, keepdims=True),
        lambda x: np.log(_shares(x)) + np.log(8),
    ),
    "vector_norm": (
        lambda x, axis: x / wnp.linalg.vector_norm(x, axis=axis, keepdims=True),
        lambda x: x / np.sqrt(_total(x * x)),
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_row_that_is_split_over_named_axes_is_one_row(name):
    f, formula = NAMED[name]
    x, weights, direction = R.standard_normal((3, 3, 8))
    narrow = x.astype(np.float32)
    mesh = weft.make_mesh((4,), ("d",), (weft.AxisType.Auto,), devices=weft.devices()[:4])
    specs = {"in_specs": weft.P(None, "d"), "out_specs": weft.P(None, "d")}
    split = weft.shard_map(lambda x: f(x, ("d", 1)), mesh=mesh, **specs)
    np.testing.assert_allclose(weft.jit(split)(narrow), formula(x), rtol=2e-5, atol=2e-6)
    mapped = weft.vmap(lambda v: f(v[None], "v")[0], 1, 1, axis_name="v")
    np.testing.assert_allclose(mapped(narrow), formula(x), rtol=2e-5, atol=2e-6)
    gradient = weft.grad(lambda y: wnp.sum(split(y) * weights.astype(np.float32)))(narrow)
    ends = [np.sum(formula(x + step * direction) * weights) for step in (1e-6, -1e-6)]
    slope = np.sum(np.asarray(gradient, np.float64) * direction)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-3, atol=1e-3)

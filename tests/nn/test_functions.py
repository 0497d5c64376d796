"""standardize, one_hot and products of scaled blocks, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import nn

R = np.random.default_rng(5)
X = (R.standard_normal((3, 4, 5)) + 1).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
@pytest.mark.parametrize("algorithm", ["fast", "stable"])
def test_standardize_gives_mean_zero_and_variance_one(axis, algorithm):
    mean, var = X.mean(axis, keepdims=True), X.var(axis, keepdims=True)
    got = nn.standardize(X, axis, algorithm=algorithm)
    np.testing.assert_allclose(got, (X - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)


def test_standardize_takes_given_moments_and_epsilon():
    got = nn.standardize(X, mean=0.5, variance=np.float32(4), epsilon=0.0)
    np.testing.assert_allclose(got, (X - 0.5) / 2, rtol=1e-6)


def test_standardize_counts_only_where_the_mask_holds():
    mask = R.random(X.shape) < 0.7
    mask[..., 0] = True
    mean, var = (f(X, -1, keepdims=True, where=mask) for f in (np.mean, np.var))
    got = nn.standardize(X, where=mask, algorithm="stable")
    # The stable variance is taken about the mean of all that counts.
    np.testing.assert_allclose(got, (X - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)


def test_standardize_of_equal_numbers_has_a_finite_derivative():
    grad = weft.grad(lambda x: (nn.standardize(x) ** 2).sum())(np.full(4, 3.0, np.float32))
    np.testing.assert_allclose(grad, 0, atol=1e-5)


def test_standardize_refuses_an_unknown_algorithm():
    with pytest.raises(ValueError, match="'fast' or 'stable'"):
        nn.standardize(X, algorithm="slow")


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_puts_a_one_at_the_class(axis):
    ids = np.array([[0, 2], [1, 5], [-1, 1]], np.int32)
    want = np.moveaxis((ids[..., None] == np.arange(3)).astype(np.float32), -1, axis)
    got = nn.one_hot(ids, 3, axis=axis)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)


def test_one_hot_takes_a_dtype():
    got = nn.one_hot(1, 3, dtype=np.int8)
    assert got.dtype == np.int8
    assert got.tolist() == [0, 1, 0]


def test_one_hot_along_a_mapped_axis_gives_each_member_its_entry():
    ids = np.array([2, 0], np.int32)
    got = weft.vmap(lambda _: nn.one_hot(ids, 3, axis="i"), axis_name="i")(np.zeros(3))
    np.testing.assert_array_equal(got, np.eye(3)[ids].T)
    with pytest.raises(ValueError, match="has size 3"):
        weft.vmap(lambda _: nn.one_hot(ids, 4, axis="i"), axis_name="i")(np.zeros(3))


def test_scaled_matmul_multiplies_blocks_by_their_scales():
    lhs = R.standard_normal((2, 3, 8)).astype(ml_dtypes.float8_e4m3fn)
    rhs = R.standard_normal((2, 5, 8)).astype(ml_dtypes.float8_e4m3fn)
    sl, sr = (np.exp2(R.integers(-3, 4, (2, n, 2))).astype(np.float32) for n in (3, 5))
    wide = lambda x, s: x.astype(np.float32) * np.repeat(s, 4, -1)
    want = np.einsum("bmk,bnk->bmn", wide(lhs, sl), wide(rhs, sr))
    np.testing.assert_allclose(nn.scaled_matmul(lhs, rhs, sl, sr), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 3), (2, 5, 8), (2, 3, 2), (2, 5, 2)), "lhs must have 3 dimensions"),
        (((2, 3, 8), (2, 5, 4), (2, 3, 2), (2, 5, 2)), "agree in the batch"),
        (((2, 3, 8), (2, 5, 8), (2, 3, 3), (2, 5, 2)), "lhs_scales"),
        (((2, 3, 8), (2, 5, 8), (2, 3, 2), (2, 5, 4)), "block sizes"),
    ],
)
def test_scaled_matmul_names_what_does_not_fit(shapes, words):
    with pytest.raises(ValueError, match=words):
        nn.scaled_matmul(*(np.ones(s, np.float32) for s in shapes))

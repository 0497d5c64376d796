"""Maxima and minima with NaNs, against NumPy: by kernels, by XLA's loops, beside its library."""

import warnings

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax, nn
from weft.core.config import options

RNG = np.random.default_rng(11)
EXTREMA = {"max": (wnp.max, np.max), "min": (wnp.min, np.min)}


def with_nans(*shape, dtype=np.float32, every=97):
    x = RNG.standard_normal(shape).astype(dtype)
    x.reshape(-1)[::every] = np.nan
    x.reshape(-1)[5::every] = -np.array(np.nan, dtype)
    x.reshape(-1)[11::every] = np.inf
    return x


@pytest.mark.parametrize("name", EXTREMA)
@pytest.mark.parametrize(
    "shape, axes",
    [
        ((4096,), 0),
        ((20, 3000), 1),
        ((20, 3000), 0),
        ((9, 1500), 0),
        ((3, 1500), 0),
        ((64, 64), None),
        ((300, 10), 1),
        ((16, 16, 16), 1),
        ((16, 16, 16), (0, 1)),
        ((16, 16, 16), (0, 2)),
        ((100, 7, 33), (1, 2)),
        ((32, 16, 64), (0, 1)),
        ((16, 4099), None),
        ((16387, 3), 0),
        ((4, 4099), 1),
        ((450, 37), 1),
        ((37, 450), 0),
        ((700, 64), 1),
    ],
)
def test_reductions_keep_nans(name, shape, axes):
    ours, theirs = EXTREMA[name]
    x = with_nans(*shape)
    for y in (x, with_nans(*shape, every=1009)):
        want = theirs(y, axes)
        np.testing.assert_array_equal(weft.jit(lambda y: ours(y, axes))(y), want)
        got = weft.jit(lambda y: ours(-2 * y, axes))(y)  # of what the program computes
        np.testing.assert_array_equal(got, theirs(-2 * y, axes))
        np.testing.assert_array_equal(ours(wnp.asarray(y), axes), want)


@pytest.mark.parametrize("row", range(3))
def test_sums_of_extrema_of_few_rows_keep_nans(row):
    x = np.zeros((3, 65536), np.float32)
    x[row, 7] = np.nan
    assert np.isnan(weft.jit(lambda x: wnp.max(x * 2, 0).sum())(x))


def test_of_float64_too():
    with options["enable_x64"](True):
        x = with_nans(70, 90, dtype=np.float64)
        for axis in (0, 1):
            np.testing.assert_array_equal(weft.jit(lambda x: wnp.max(x, axis))(x), x.max(axis))  # noqa: B023
            np.testing.assert_array_equal(weft.jit(lambda x: wnp.min(x, axis))(x), x.min(axis))  # noqa: B023


def test_infinities_without_a_nan_are_extrema():
    x = np.full((80, 90), -np.inf, np.float32)
    x[3] = np.inf
    np.testing.assert_array_equal(weft.jit(lambda x: x.max(1))(x), x.max(1))
    np.testing.assert_array_equal(weft.jit(lambda x: x.max(0))(x), x.max(0))
    np.testing.assert_array_equal(weft.jit(lambda x: x.min(0))(x), x.min(0))


X, Y = with_nans(64, 128), with_nans(64, 128, every=89)
SUMMED = {
    "relu": (lambda x, y: nn.relu(x), lambda x, y: np.maximum(x, 0)),
    "constant first": (lambda x, y: lax.max(np.float32(0.5), x), lambda x, y: np.maximum(x, 0.5)),
    "two arrays": (lambda x, y: wnp.minimum(x * 2, y), lambda x, y: np.minimum(x * 2, y)),
    "exchanged": (lambda x, y: wnp.maximum(y, x), lambda x, y: np.maximum(y, x)),
    "clip": (lambda x, y: wnp.clip(x, -1, 1), lambda x, y: np.clip(x, -1, 1)),
    "of the same kind": (lambda x, y: nn.relu(nn.relu(x) - 1), lambda x, y: np.maximum(x - 1, 0)),
    "bounded by arrays": (
        lambda x, y: wnp.minimum(nn.relu(x), y),
        lambda x, y: np.minimum(np.maximum(x, 0), y),
    ),
    "squared": (lambda x, y: nn.relu(x) ** 2, lambda x, y: np.maximum(x, 0) ** 2),
}


@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_maxima_of_arrays_keep_nans(name):
    ours, theirs = SUMMED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x, y in ((X, Y), (X, np.ones_like(Y)), (np.ones_like(X), Y)):
            for axis in (0, 1):
                got = weft.jit(lambda x, y: ours(x, y).sum(axis))(x, y)  # noqa: B023
                np.testing.assert_allclose(got, theirs(x, y).sum(axis), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", [(2, 2), (64, 1), (1, 128), (4, 8)])
def test_windows_side_by_side_keep_nans(window):
    blocks = X.reshape(64 // window[0], window[0], 128 // window[1], window[1])
    for op, init, theirs in ((lax.max, -np.inf, np.max), (lax.min, np.inf, np.min)):
        pooled = weft.jit(lambda x: lax.reduce_window(x, init, op, window, window, "VALID"))(X)  # noqa: B023
        np.testing.assert_array_equal(pooled, theirs(blocks, (1, 3)))


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax, nn.logsumexp])
def test_rows_with_a_nan_are_nan_behind_sums_of_exponentials(function):
    x = np.zeros((8, 1024), np.float32)
    x[2, 7] = np.nan
    out = np.isnan(weft.jit(lambda x: function(x * 2, -1))(x)).reshape(8, -1)
    assert out[2].all() and not out[[0, 1, 3, 4, 5, 6, 7]].any()


def test_derivatives_of_large_reductions():
    x = RNG.standard_normal((64, 128)).astype(np.float32)
    gradient = weft.jit(weft.grad(lambda x: (wnp.max(x * 2, 1) ** 2).sum()))(x)
    want = np.zeros_like(x)
    at = np.arange(64), x.argmax(1)
    want[at] = 8 * x[at]
    np.testing.assert_allclose(gradient, want, rtol=1e-5)

"""Sorting against NumPy, with several keys, NaN and equal elements."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(4)
X = R.permutation(12).reshape(3, 4) / 3.0
Y = R.standard_normal((3, 4))


def top(x, k, axis):
    order = np.argsort(-x, axis, kind="stable").take(range(k), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


CASES = [
    Case("sort", lambda x: lax.sort(x, 0), lambda x: np.sort(x, 0), (X,), (0,), "columns"),
    Case(
        "sort",
        lambda x, y: lax.sort((x, y), 1),
        lambda x, y: (np.sort(x, 1), np.take_along_axis(y, np.argsort(x, 1), 1)),
        (X, Y),
        (0, 1),
        "with values",
    ),
    Case("top_k", lambda x: lax.top_k(x, 2), lambda x: top(x, 2, 1), (X,), (0,), "last"),
    Case("top_k", lambda x: lax.top_k(x, 2, axis=0), lambda x: top(x, 2, 0), (X,), (0,), "first"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_keys_are_compared_in_order():
    a = np.array([1, 0, 1, 0], np.int32)
    b = np.float32([2, 5, 1, np.nan])
    c = np.arange(4, dtype=np.int32)
    assert [np.asarray(v).tolist() for v in lax.sort((a, b, c), num_keys=2)][2] == [1, 3, 2, 0]
    assert np.asarray(lax.sort_key_val(a, c)[1]).tolist() == [1, 3, 0, 2]


def test_nan_comes_last_and_zeros_are_equal():
    x = np.float32([np.nan, 0.0, -np.inf, -0.0, np.inf, -np.nan])
    values, order = lax.sort_key_val(x, np.arange(6))
    np.testing.assert_array_equal(values, [-np.inf, 0, 0, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(order, [2, 1, 3, 4, 0, 5])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "bfloat16", "float16", "complex64"])
def test_all_dtypes_sort(dtype):
    x = np.array([3, 1, 0, 2])
    x = (x % 2 + 1j * x if dtype == "complex64" else x).astype(dtype)
    want = np.sort(x.astype(np.float32) if dtype == "bfloat16" else x)
    np.testing.assert_array_equal(np.asarray(lax.sort(x)).astype(want.dtype), want)


def test_approximate_top_k_is_exact():
    x = X.astype(np.float32)
    values, order = lax.approx_min_k(x, 2)
    np.testing.assert_array_equal(values, np.sort(x, 1)[:, :2])
    np.testing.assert_array_equal(order, np.argsort(x, 1)[:, :2])
    np.testing.assert_array_equal(lax.approx_max_k(x, 1)[0], x.max(1, keepdims=True))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lax.sort((X, Y[:2])), TypeError, "operand 1 is"),
        (lambda: lax.sort((X, Y), num_keys=3), ValueError, "num_keys"),
        (lambda: lax.sort(1.0), TypeError, "rank 1"),
        (lambda: lax.top_k(X, 5), ValueError, "between 0 and the size 4"),
        (lambda: lax.approx_max_k(X, 1, recall_target=2.0), ValueError, "recall_target"),
        (lambda: lax.approx_min_k(X, 1, aggregate_to_topk=False), ValueError, "aggregate_to_topk"),
    ],
)
def test_errors_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_top_k_of_equal_elements_takes_the_first():
    np.testing.assert_array_equal(weft.lax.top_k(np.ones(4, np.float32), 2)[1], [0, 1])


@pytest.mark.parametrize("shape, axis", [((0,), 0), ((3, 0), 1), ((0, 4), 1)])
def test_empty_arrays_sort_and_differentiate(shape, axis):
    x = np.zeros(shape, np.float32)

    def f(x):
        return lax.sort(x, dimension=axis) + lax.top_k(x, shape[axis])[0]

    out, tangent = weft.jvp(f, (x,), (x,))
    assert out.shape == tangent.shape == weft.grad(lambda x: f(x).sum())(x).shape == shape


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_narrow_integers_sort_with_what_they_bring(dtype):
    low = 0 if dtype.startswith("u") else -(2 ** (int(dtype[-1]) - 1))
    x = R.integers(low, low + 2 ** int(dtype[-1]), (16, 16))
    narrow = weft.numpy.asarray(x.astype(np.int8)).astype(dtype)
    keys, places = weft.jit(lambda x: lax.sort((x, lax.broadcasted_iota(int, x.shape, 0)), 0))(
        narrow
    )
    assert keys.dtype == narrow.dtype
    np.testing.assert_array_equal(np.asarray(keys).astype(int), np.sort(x, 0))
    np.testing.assert_array_equal(np.asarray(places), np.argsort(x, 0, kind="stable"))

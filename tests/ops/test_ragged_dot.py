"""Ragged products against loops over groups, in all three modes; scaled products."""

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(8)
X, W = R.standard_normal((7, 3)), R.standard_normal((4, 3, 2))
SIZES = np.array([2, 0, 3, 1], np.int32)
Dims = lax.RaggedDotDimensionNumbers


def rows(x, w, sizes, first=0):
    out = np.zeros((x.shape[0], w.shape[-1]))
    ends = np.cumsum(sizes)
    for g in range(w.shape[0]):
        part = slice(ends[g + first] - sizes[g + first], ends[g + first])
        out[part] = x[part] @ w[g]
    return out


def columns(x, y, sizes):
    """A product of each group of the contracted dimension."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return np.stack([x[:, a:b] @ y[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)])


CONTRACTED = Dims((((1,), (0,)), ((), ())), [1], [])
CASES = [
    Case("dot_general", lax.ragged_dot, rows, (X, W, SIZES), (0, 1), "rows"),
    Case(
        "dot_general",
        lambda x, y, s: lax.ragged_dot_general(x, y, s, CONTRACTED),
        columns,
        (X.T, R.standard_normal((7, 2)), SIZES),
        (0, 1),
        "contracted",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_a_group_offset_starts_in_the_middle():
    got = lax.ragged_dot(X, W[2:], SIZES, group_offset=np.array([2], np.int32))
    np.testing.assert_allclose(got, rows(X, W[2:], SIZES, 2), rtol=1e-5, atol=1e-6)


def test_batches_may_have_groups_of_their_own():
    x, w = R.standard_normal((2, 7, 3)), R.standard_normal((4, 2, 3, 5))
    sizes = np.array([[2, 0, 3, 1], [1, 1, 1, 4]], np.int32)
    numbers = Dims((((2,), (2,)), ((0,), (1,))), [1], [0])
    got = lax.ragged_dot_general(x, w, sizes, numbers)
    want = np.stack([rows(x[b], w[:, b], sizes[b]) for b in range(2)])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    same = lax.ragged_dot_general(x, w, sizes[0], numbers)
    want = np.stack([rows(x[b], w[:, b], sizes[0]) for b in range(2)])
    np.testing.assert_allclose(same, want, rtol=1e-4, atol=1e-5)


def test_a_contracted_ragged_dimension_of_a_batch():
    x, y = R.standard_normal((2, 3, 7)), R.standard_normal((2, 7, 4))
    got = lax.ragged_dot_general(x, y, SIZES, Dims((((2,), (1,)), ((0,), (0,))), [2], []))
    want = np.stack([columns(x[b], y[b], SIZES) for b in range(2)], 1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_ragged_batches_multiply_as_they_are():
    x, y = R.standard_normal((7, 3, 2)), R.standard_normal((7, 2, 4))
    got = lax.ragged_dot_general(x, y, SIZES, Dims((((2,), (1,)), ((0,), (0,))), [0], []))
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-5)


def test_the_result_has_the_preferred_type():
    x, w = (v.astype(ml_dtypes.bfloat16) for v in (X, W))
    got = lax.ragged_dot(x, w, SIZES, preferred_element_type=np.float32)
    assert got.dtype == np.float32
    want = rows(x.astype(np.float32), w.astype(np.float32), SIZES)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lax.ragged_dot(X, X, SIZES), r"lhs \[m, k\] and rhs \[g, k, n\]"),
        (lambda: lax.ragged_dot(X, W, SIZES[:3]), "3 groups, rhs has 4"),
        (lambda: lax.ragged_dot(X, W, SIZES.astype(np.float32)), "must be integers"),
        (lambda: lax.ragged_dot(X, W, SIZES[None]), "group_sizes must have shape"),
        (
            lambda: lax.ragged_dot_general(X, W, SIZES, Dims((((1,), (1,)), ((), ())), [0], [])),
            "must name one dimension",
        ),
        (
            lambda: lax.ragged_dot_general(X, W, SIZES, Dims((((1,), (1,)), ((), ())), [], [0])),
            "lhs_ragged_dimensions must name one",
        ),
    ],
)
def test_errors_say_what_does_not_fit(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_scaled_dot_multiplies_blocks_by_their_scales():
    x = R.standard_normal((2, 3, 8)).astype(ml_dtypes.float8_e4m3fn)
    y = R.standard_normal((2, 8, 5)).astype(ml_dtypes.float8_e4m3fn)
    sx = np.exp2(R.integers(-2, 3, (2, 3, 2))).astype(ml_dtypes.float8_e8m0fnu)
    sy = np.exp2(R.integers(-2, 3, (2, 4, 5))).astype(ml_dtypes.float8_e8m0fnu)
    wide = lambda v: v.astype(np.float32)
    want = (wide(x) * np.repeat(wide(sx), 4, 2)) @ (wide(y) * np.repeat(wide(sy), 2, 1))
    got = lax.scaled_dot(x, y, lhs_scale=sx, rhs_scale=sy, preferred_element_type=np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert lax.scaled_dot(x, y).dtype == ml_dtypes.bfloat16


def test_scaled_dot_names_a_scale_that_does_not_fit():
    x = np.ones((2, 8), np.float32)
    with pytest.raises(TypeError, match="lhs_scale has shape"):
        lax.scaled_dot(x, x.T, lhs_scale=np.ones((2, 3), np.float32))


# Accuracy of functions ------------------------------------------------------------------------


def test_an_accuracy_stands_in_the_program_and_not_where_it_was_not_asked_for():
    tolerance = lax.Tolerance(rtol=1e-3, ulps=2)
    text = weft.jit(lambda x: lax.exp(x, accuracy=tolerance)).lower(1.0).as_text()
    assert "rtol = 1.000000e-03, ulps = 2" in text and "TOLERANCE" in text
    for plain in (lambda x: lax.exp(x), lambda x: lax.exp(x, lax.AccuracyMode.DEFAULT)):
        assert "accuracy" not in weft.jit(plain).lower(1.0).as_text()


# Name: (the function, its derivative).
WITH_ACCURACY = {
    "cbrt": (np.cbrt, lambda x: np.cbrt(x) / (3 * x)),
    "cos": (np.cos, lambda x: -np.sin(x)),
    "exp": (np.exp, np.exp),
    "exp2": (np.exp2, lambda x: np.log(2) * np.exp2(x)),
    "expm1": (np.expm1, np.exp),
    "log": (np.log, lambda x: 1 / x),
    "log1p": (np.log1p, lambda x: 1 / (1 + x)),
    "rsqrt": (lambda x: x**-0.5, lambda x: -0.5 * x**-1.5),
    "sin": (np.sin, np.cos),
    "sqrt": (np.sqrt, lambda x: 0.5 * x**-0.5),
    "tan": (np.tan, lambda x: np.cos(x) ** -2),
}


@pytest.mark.parametrize("name", WITH_ACCURACY)
def test_functions_with_an_accuracy_differentiate(name):
    value, derivative = WITH_ACCURACY[name]
    accurate = lambda x: getattr(lax, name)(x, accuracy=lax.AccuracyMode.HIGHEST)
    np.testing.assert_allclose(accurate(np.float32(0.7)), value(0.7), rtol=1e-5)
    np.testing.assert_allclose(weft.grad(accurate)(np.float32(0.7)), derivative(0.7), rtol=1e-5)


def test_tolerances_are_checked():
    with pytest.raises(ValueError, match="give atol, rtol or ulps"):
        lax.Tolerance()
    with pytest.raises(ValueError, match="negative"):
        lax.Tolerance(atol=-1.0)
    with pytest.raises(TypeError, match="exp: accuracy must be"):
        lax.exp(1.0, accuracy="high")

"""gather: values, modes, derivatives and batching against NumPy."""

import numpy as np
import pytest

import weft
from weft.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather

X = np.arange(20, dtype=np.float32).reshape(4, 5)
ROWS = GatherDimensionNumbers((1,), (0,), (0,))
ELEMENTS = GatherDimensionNumbers((), (0, 1), (0, 1))


def rows(x, i, **options):
    return gather(x, i[:, None], ROWS, (1, 5), **options)


def test_rows_and_elements_equal_numpys():
    i, j = np.array([3, 0, 3]), np.array([1, 4, 2])
    np.testing.assert_array_equal(rows(X, i), X[i])
    np.testing.assert_array_equal(gather(X, np.stack([i, j], -1), ELEMENTS, (1, 1)), X[i, j])


def test_windows_keep_their_dimensions():
    dnums = GatherDimensionNumbers((1, 2), (), (0, 1))
    starts = np.array([[0, 1], [2, 2]])
    out = gather(X, starts, dnums, (2, 3))
    np.testing.assert_array_equal(out, [X[0:2, 1:4], X[2:4, 2:5]])


def test_index_vectors_may_name_dimensions_in_any_order():
    dnums = GatherDimensionNumbers((), (0, 1), (1, 0))
    np.testing.assert_array_equal(gather(X, np.array([[4, 2]]), dnums, (1, 1)), [X[2, 4]])


def test_batching_dimensions_run_together():
    dnums = GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    index = np.array([[0, 1], [4, 4], [2, 3], [1, 0]])
    out = gather(X, index[..., None], dnums, (1, 1))
    np.testing.assert_array_equal(out, np.take_along_axis(X, index, 1))


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("float32", np.nan),
        ("int32", -(2**31)),
        ("uint8", 255),
        ("bool", True),
        ("bfloat16", np.nan),
        ("complex64", np.nan),
    ],
)
def test_mode_fill_has_a_value_for_each_dtype(dtype, fill):
    x = weft.numpy.asarray(X).astype(dtype)
    out = rows(x, np.array([1, 4, -1]), mode="fill")
    assert out.dtype == x.dtype
    out = np.asarray(out).astype(X.dtype if dtype == "bfloat16" else dtype)
    np.testing.assert_array_equal(out[0], X[1].astype(out.dtype))
    np.testing.assert_array_equal(out[1:], np.full((2, 5), fill).astype(out.dtype))


def test_modes_fill_with_a_value_or_clip():
    i = np.array([7, 2, -1])
    filled = rows(X, i, mode="fill", fill_value=9)
    np.testing.assert_array_equal(filled, [[9] * 5, X[2], [9] * 5])
    np.testing.assert_array_equal(rows(X, i, mode="clip"), X[[3, 2, 0]])
    in_bounds = rows(X, np.array([2, 1]), mode=GatherScatterMode.PROMISE_IN_BOUNDS)
    np.testing.assert_array_equal(in_bounds, X[[2, 1]])
    np.testing.assert_array_equal(rows(X, i), X[[3, 2, 0]])


def test_small_index_types_reach_no_further_than_they_can_count():
    x = np.arange(300, dtype=np.int32)
    dnums = GatherDimensionNumbers((), (0,), (0,))
    for dtype in ("int8", "uint8"):
        i = np.array([[5], [100]], dtype)
        np.testing.assert_array_equal(gather(x, i, dnums, (1,)), [5, 100])


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_the_gradient_adds_up_what_was_read(mode):
    i = np.array([1, 9, 1, 3])
    w = np.arange(1, 21, dtype=np.float32).reshape(4, 5)
    gradient = weft.jit(weft.grad(lambda x: (rows(x, i, mode=mode, fill_value=0) * w).sum()))(X)
    expected = np.zeros_like(X)
    for k, row in enumerate(i):
        if row < 4 or mode == "clip":
            expected[min(row, 3)] += w[k]
    np.testing.assert_array_equal(gradient, expected)


def test_the_tangent_of_filled_windows_is_zero():
    out, t = weft.jvp(
        lambda x: rows(x, np.array([0, 9]), mode="fill", fill_value=5), (X,), (X + 1,)
    )
    np.testing.assert_array_equal(out, [X[0], [5] * 5])
    np.testing.assert_array_equal(t, [X[0] + 1, [0] * 5])


def test_second_derivatives_by_both_modes():
    i = np.array([0, 0, 2])
    f = lambda v: (gather(v, i[:, None], GatherDimensionNumbers((), (0,), (0,)), (1,)) ** 3).sum()
    v = np.array([1.0, 2.0, 3.0], np.float32)
    expected = np.diag([12.0, 0.0, 18.0])
    np.testing.assert_allclose(weft.jacfwd(weft.grad(f))(v), expected)
    np.testing.assert_allclose(weft.jacrev(weft.grad(f))(v), expected)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1), (1, 0)])
@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_batching_over_operand_and_indices(axes, mode):
    examples = [X, X + 100, X * 2]
    xs = X if axes[0] is None else np.stack(examples, axes[0])
    indices = np.array([[0, 3], [2, 8], [-1, 1]])
    i = indices[0] if axes[1] is None else np.moveaxis(indices, 0, axes[1])
    f = lambda x, i: rows(x, i, mode=mode, fill_value=-7)
    out = np.asarray(weft.vmap(f, in_axes=axes)(xs, i))
    for k in range(3):
        x = X if axes[0] is None else examples[k]
        row = indices[0] if axes[1] is None else indices[k]
        expected = x[np.clip(row, 0, 3)]
        if mode == "fill":
            expected = np.where(((row < 0) | (row > 3))[:, None], -7, expected)
        np.testing.assert_array_equal(out[k], expected)


def test_nested_batching_stays_one_gather():
    x = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    i = np.array([[[0, 1], [1, 2], [3, 3]], [[2, 1], [0, 0], [1, 3]]])
    take = lambda v, i: gather(v, i[:, None], GatherDimensionNumbers((), (0,), (0,)), (1,))
    f = weft.vmap(weft.vmap(take))
    np.testing.assert_array_equal(f(x, i), np.take_along_axis(x, i, 2))
    jaxpr = weft.make_jaxpr(f)(x, i)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns].count("gather") == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gather(X, np.array([[0.5]]), ROWS, (1, 5)), TypeError, "must be integers"),
        (lambda: gather(X, np.array([[0, 1]]), ROWS, (1, 5)), TypeError, "one\\s+component"),
        (lambda: gather(X, np.array([[0]]), ROWS, (2, 5)), TypeError, "must be 1"),
        (lambda: gather(X, np.array([[0]]), ROWS, (1, 6)), TypeError, "does not fit"),
        (lambda: gather(X, np.array([[0]]), ROWS, (1, 5), mode="wrap"), ValueError, "'clip'"),
        (lambda: gather(X, np.array([[0]]), ROWS, (1,)), TypeError, "one entry for each"),
        (
            lambda: gather(X, np.array([[0]]), ROWS, (1, 5), fill_value=np.ones(2)),
            ValueError,
            "scalar",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()

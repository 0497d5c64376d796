"""x[ds(start, size)]: windows are those of NumPy slices, at known and at traced starts."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import ds

X = np.arange(24, dtype=np.float32).reshape(4, 6)

# An index with windows of given starts, and the same in NumPy.
CASES = {
    "rows": lambda i: (ds(i, 2), np.s_[i : i + 2]),
    "columns": lambda i: ((slice(None), ds(i, 3)), np.s_[:, i : i + 3]),
    "behind an integer": lambda i: ((2, ds(i, 3)), np.s_[2, i : i + 3]),
    "behind an ellipsis": lambda i: ((..., ds(i, 2)), np.s_[..., i : i + 2]),
    "with a new dimension": lambda i: ((None, ds(i, 2), 1), np.s_[None, i : i + 2, 1]),
    "strided": lambda i: (ds(i, 2, 2), np.s_[i : i + 3 : 2]),
    "two": lambda i: ((ds(i, 2), ds(i, 4)), np.s_[i : i + 2, i : i + 4]),
    "beside an index array": lambda i: (
        (ds(i, 2), np.array([0, 5])),
        np.s_[i : i + 2, np.array([0, 5])],
    ),
    "empty": lambda i: (ds(i, 0), np.s_[i:i]),
}


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_windows_are_read_and_written_as_slices_are(case, start):
    index, slices = CASES[case](start)
    np.testing.assert_array_equal(wnp.asarray(X)[index], X[slices])
    traced = weft.jit(lambda i: wnp.asarray(X)[CASES[case](i)[0]])
    np.testing.assert_array_equal(traced(start), X[slices])
    want = X.copy()
    want[slices] += 10
    np.testing.assert_array_equal(wnp.asarray(X).at[index].add(10.0), want)
    traced = weft.jit(lambda i: wnp.asarray(X).at[CASES[case](i)[0]].add(10.0))
    np.testing.assert_array_equal(traced(start), want)


@pytest.mark.parametrize("run", [lambda f: f, weft.jit], ids=["known", "traced"])
def test_windows_out_of_bounds_move_into_them_when_read_and_are_dropped_when_written(run):
    x = wnp.asarray(X)
    for start, moved in ((3, 2), (9, 2), (-1, 2), (-4, 0), (-9, 0)):
        got = run(lambda i: x[ds(i, 2)])(start)
        np.testing.assert_array_equal(got, X[moved : moved + 2])
    np.testing.assert_array_equal(run(lambda i: x.at[ds(i, 2)].set(0.0))(3), X)
    inside = run(lambda i: x.at[ds(i, 2)].set(0.0))(-2)
    np.testing.assert_array_equal(inside[2:], np.zeros((2, 6)))
    clipped = run(lambda i: x.at[ds(i, 2)].set(0.0, mode="clip"))(3)
    np.testing.assert_array_equal(clipped[2:], np.zeros((2, 6)))


def test_derivatives_and_vmap_pass_windows():
    g = weft.grad(lambda x, i: wnp.sum(x[ds(i, 2)] ** 2))(X, 1)
    want = np.zeros_like(X)
    want[1:3] = 2 * X[1:3]
    np.testing.assert_array_equal(g, want)
    rows = weft.vmap(lambda i: wnp.asarray(X)[ds(i, 2), 0])(np.array([0, 2]))
    np.testing.assert_array_equal(rows, [[0, 6], [12, 18]])


def test_a_window_longer_than_its_dimension_is_refused():
    with pytest.raises(ValueError, match=r"ds\(0, 5\) spans 5 positions, but dimension 0 of .*4"):
        wnp.asarray(X)[ds(0, 5)]
    with pytest.raises(IndexError, match="3 entries"):
        wnp.asarray(X)[0, 0, ds(0, 1)]


def test_keys_have_windows():
    keys = weft.random.split(weft.random.key(0), 4)
    got = weft.random.key_data(keys[ds(1, 2)])
    np.testing.assert_array_equal(got, weft.random.key_data(keys)[1:3])

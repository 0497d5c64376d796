"""Indexing against NumPy: every kind of index, eager and traced, and what happens out of bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import weft
import weft.numpy as wnp
from weft.core.config import options

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
A = np.array
INDICES = [
    0,
    -1,
    np.int64(1),
    slice(1, 3),
    slice(None, None, -1),
    slice(5, 2),
    (),
    Ellipsis,
    None,
    (0, 1),
    (0, slice(1, 3), 2),
    (Ellipsis, 1),
    (None, 0, None),
    (slice(None, None, 2), slice(3, 0, -2)),
    (1, slice(None), slice(None, None, 3)),
    A([0, 2, 1]),
    A([[0, -1], [2, 2]]),
    (A([0, 2]), A([1, 3])),
    (A([0, 2]), slice(None), A([1, 3])),
    (slice(None), A([[0, 1], [2, 3]])),
    (0, slice(None), A([1, 2])),
    (slice(None), 1, A([0, 1])),
    (slice(None, None, 2), A([1, 2]), slice(1, 3)),
    (slice(None), slice(None, None, -1), A([-1, 0])),
    (A([0, 1]), None, A([1, 2])),
    (A([[0], [2]]), A([1, -1]), 3),
    (Ellipsis, A([0]), slice(0, 0)),
    (A([], int),),
    A([True, False, True]),
    X % 2 == 0,
    (A([True, False, True]), slice(None), A([0, 1])),
    (slice(None), A([True, False, True, True])),
    True,
    False,
    (True, 0),
    (slice(None), True, A([0, 1])),
    (slice(None), [0, -1]),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_every_kind_of_index_equals_numpys(index):
    x = wnp.asarray(X)
    np.testing.assert_array_equal(x[index], X[index], strict=True)
    np.testing.assert_array_equal(weft.jit(lambda v: v[index])(x), X[index], strict=True)


def of_integers(index):
    """Which parts of an index are arrays of integers."""
    parts = index if isinstance(index, tuple) else (index,)
    numbers = np.ndarray | np.integer
    return [k for k, i in enumerate(parts) if isinstance(i, numbers) and i.dtype != bool]


@pytest.mark.parametrize("index", [i for i in INDICES if of_integers(i)], ids=str)
def test_index_arrays_may_be_weft_arrays_and_traced(index):
    parts = index if isinstance(index, tuple) else (index,)
    which = of_integers(index)
    x = wnp.asarray(X)

    def f(v, *arrays):
        full = list(parts)
        for k, a in zip(which, arrays, strict=True):
            full[k] = a
        return v[tuple(full)]

    arrays = [wnp.asarray(parts[k]) for k in which]
    np.testing.assert_array_equal(f(x, *arrays), X[index], strict=True)
    np.testing.assert_array_equal(weft.jit(f)(x, *arrays), X[index], strict=True)


@given(index=hnp.basic_indices((3, 4, 5), allow_newaxis=True))
def test_any_basic_index_equals_numpys(index):
    np.testing.assert_array_equal(wnp.asarray(X)[index], X[index])


@given(data=st.data())
def test_any_integer_arrays_equal_numpys(data):
    arrays = data.draw(
        hnp.integer_array_indices((3, 4, 5), result_shape=hnp.array_shapes(max_dims=2, max_side=3))
    )
    np.testing.assert_array_equal(wnp.asarray(X)[arrays], X[arrays])


def test_a_traced_scalar_takes_one_dynamic_slice():
    jaxpr = weft.make_jaxpr(lambda x, i: x[i, 1:3])(X, 1)
    names = [e.primitive.name for e in jaxpr.jaxpr.eqns]
    assert "dynamic_slice" in names and "gather" not in names
    f = weft.jit(lambda x, i, j: x[i, 1:3, j])
    for i, j in [(0, 0), (-1, 4), (2, -5)]:
        np.testing.assert_array_equal(f(X, i, j), X[i, 1:3, j])


def test_static_indices_are_slices_and_one_reshape():
    jaxpr = weft.make_jaxpr(lambda x: x[1, None, ::2, ..., 3])(X)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["slice", "reshape"]
    assert not weft.make_jaxpr(lambda x: x[:, ...])(X).jaxpr.eqns


def test_reads_out_of_bounds_clamp():
    v = wnp.asarray(X[0, 0])
    assert v[7] == 4 and v[-9] == 0 and v[wnp.asarray(7)] == 4
    assert weft.jit(lambda v, i: v[i])(v, 9) == 4
    np.testing.assert_array_equal(v[np.array([1, 9, -6])], [1, 4, 0])
    assert wnp.asarray(X)[7, wnp.asarray(0), 0] == X[2, 0, 0]


def test_indexing_differentiates_and_batches():
    i = np.array([0, 2, 0])
    gradient = weft.grad(lambda x: (x[:, i] ** 2).sum())(X[0])
    expected = np.zeros((4, 5), np.float32)
    np.add.at(expected, (slice(None), i), 2 * X[0][:, i])
    np.testing.assert_array_equal(gradient, expected)
    picked = weft.vmap(lambda x, k: x[k, ::2])(X, np.array([3, 0, -1]))
    np.testing.assert_array_equal(picked, [X[0, 3, ::2], X[1, 0, ::2], X[2, -1, ::2]])


def test_equal_windows_share_one_compiled_function():
    from weft.numpy.indexing import window_function

    v = wnp.arange(100.0)
    functions = {window_function((100,), (0,), (1,), ()) for _ in range(3)}
    assert len(functions) == 1
    for i in range(5):
        assert v[i] == i
        np.testing.assert_array_equal(v[i : i + 7], np.arange(i, i + 7))
    assert functions.pop()._cache_size() == 1


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        ((0, 0, 0, 0), IndexError, "too many indices"),
        ((Ellipsis, Ellipsis), IndexError, "one ellipsis"),
        ([0, 1], TypeError, r"x\[weft.numpy.array"),
        (1.0, TypeError, "integer or boolean type, got"),
        (A([0.5]), TypeError, r"astype\('int32'\)"),
        ("a", TypeError, "consists of integers, slices"),
        (slice(0.5, 2), TypeError, "bounds of a slice"),
        (A([True, False]), IndexError, "must match"),
    ],
)
def test_bad_indices_are_explained(index, error, words):
    with pytest.raises(error, match=words):
        wnp.asarray(X)[index]


def test_traced_masks_and_bounds_are_explained():
    with pytest.raises(weft.errors.NonConcreteBooleanIndexError, match=r"numpy.where\(mask"):
        weft.jit(lambda x: x[x > 0])(X)
    with pytest.raises(IndexError, match="dynamic_slice_in_dim"):
        weft.jit(lambda x, n: x[:n])(X, 2)
    with pytest.raises(IndexError, match="size 0"):
        wnp.zeros((0, 3))[0]


@pytest.mark.parametrize("index", [5, -4, (0, 4), (slice(None), -5), (0, ..., 5), (A([0]), 4)])
@pytest.mark.parametrize("jitted", [False, True])
def test_ints_out_of_bounds_are_errors_where_the_setting_asks(index, jitted):
    with options["check_static_indices"](True):
        read = (weft.jit if jitted else lambda f: f)(lambda x: x[index])
        with pytest.raises(IndexError, match=r"out of bounds for an array of shape \(3, 4, 5\)"):
            read(wnp.asarray(X))
        with pytest.raises(IndexError, match="out of bounds"):
            wnp.asarray(X).at[index].get()
        wnp.asarray(X).at[index].get(mode="clip")
        wnp.asarray(X).at[index].set(1)
        np.testing.assert_array_equal(wnp.asarray(X)[2, -4:9], X[2, -4:9])
    wnp.asarray(X)[index]

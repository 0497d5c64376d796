"""weft.flatten_util: trees become vectors and come back, also under derivatives."""

import numpy as np
import pytest

import weft
from weft.flatten_util import ravel_pytree

TREE = {"b": np.arange(2, dtype=np.float32), "w": [np.ones((2, 3), np.float32), 5.0]}


def test_a_tree_becomes_a_vector_in_the_order_of_its_leaves_and_comes_back():
    vector, unravel = ravel_pytree(TREE)
    np.testing.assert_array_equal(vector, [0, 1, 1, 1, 1, 1, 1, 1, 5])
    back = unravel(vector * 2)
    assert weft.tree.structure(back) == weft.tree.structure(TREE)
    np.testing.assert_array_equal(back["w"][0], np.full((2, 3), 2))
    assert back["w"][1].shape == () and float(back["w"][1]) == 10


def test_leaves_of_several_dtypes_are_promoted_and_get_their_own_back():
    tree = (np.ones(2, np.int8), np.full((1, 2), 2j, np.complex64), np.array(True))
    vector, unravel = ravel_pytree(tree)
    assert vector.dtype == np.complex64
    for got, want in zip(unravel(vector), tree, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    with pytest.raises(TypeError, match=r"expected c64\n  got      f32"):
        unravel(np.ones(5, np.float32))


def test_a_vector_of_another_dtype_keeps_it_where_all_leaves_have_the_same():
    _, unravel = ravel_pytree(np.ones((2, 2), np.float32))
    assert unravel(np.ones(4, np.int32)).dtype == np.int32


def test_an_empty_tree_is_an_empty_vector():
    vector, unravel = ravel_pytree({"a": ()})
    assert vector.shape == (0,) and vector.dtype == np.float32
    assert unravel(vector) == {"a": ()}


def test_another_length_is_refused():
    _, unravel = ravel_pytree(TREE)
    with pytest.raises(ValueError, match=r"shape \(9,\).*got f32\[8\]"):
        unravel(np.ones(8, np.float32))


def test_derivatives_and_vmap_pass_through():
    vector, unravel = ravel_pytree(TREE)

    def loss(v):
        tree = unravel(v)
        return weft.numpy.sum(tree["w"][0] ** 2) + tree["w"][1] * tree["b"][1]

    want = np.array([0, 5, 2, 2, 2, 2, 2, 2, 1], np.float32)
    np.testing.assert_allclose(weft.jit(weft.grad(loss))(vector), want)
    rows = weft.vmap(lambda s: ravel_pytree({"x": s, "y": TREE["b"]})[0])(np.ones((3, 2), "f4"))
    np.testing.assert_array_equal(rows, [[1, 1, 0, 1]] * 3)


def test_inverses_of_like_trees_are_equal_so_that_structures_with_them_are():
    def inverse(a, b):
        return weft.flatten_util.ravel_pytree({"a": a, "b": b})[1]

    x, n = np.ones((2, 3), np.float32), np.arange(4)
    assert inverse(x, x) == inverse(2 * x, x + 1)
    assert hash(inverse(x, x)) == hash(inverse(2 * x, x + 1))
    assert inverse(x, n) == inverse(x, n + 1) != inverse(x, x)
    assert inverse(x, x) != inverse(x, x.T)
    step = weft.lax.scan
    carry = weft.tree_util.Partial(inverse(x, x))

    def body(carry, _):
        vector, unravel = weft.flatten_util.ravel_pytree({"a": 2 * x, "b": x})
        return weft.tree_util.Partial(unravel), unravel(vector)["a"]

    _, out = step(body, carry, None, length=2)
    np.testing.assert_array_equal(out, np.full((2, 2, 3), 2))

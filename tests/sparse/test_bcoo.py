"""BCOO arrays to and from dense ones, their order, duplicates and layouts."""

import itertools

import numpy as np
import pytest
import scipy.sparse

import weft
from tests.sparse.cases import LAYOUTS, close, holes, padded
from weft import sparse
from weft.sparse import BCOO


@pytest.mark.parametrize("n_batch, n_dense", LAYOUTS)
def test_elements_go_to_sparse_form_and_back(rng, n_batch, n_dense):
    x = holes(rng, 2, 3, 4)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    assert (m.n_batch, m.n_dense, m.shape, m.dtype) == (n_batch, n_dense, x.shape, x.dtype)
    there = (x != 0).any(tuple(range(3 - n_dense, 3)))
    assert m.nse == there.sum(tuple(range(n_batch, there.ndim))).max()
    close(m, x)
    close(weft.jit(lambda x: BCOO.fromdense(x, nse=24, n_batch=n_batch, n_dense=n_dense))(x), x)
    close(sparse.bcoo_extract(m, 3 * x), 3 * x)


def test_duplicates_are_summed_and_padding_dropped(rng):
    x = holes(rng, 3, 4, 5)
    m = padded(x, 1)
    close(m, x)
    for summed in (m.sum_duplicates(), weft.jit(lambda m: m.sum_duplicates(nse=20))(m)):
        close(summed, x)
        assert summed.unique_indices and summed.indices_sorted
    assert m.sum_duplicates().nse == (x != 0).sum((1, 2)).max()
    first = sparse.bcoo_extract(m, x, assume_unique=False)
    close(first, x)
    zeros = BCOO((np.zeros(2), np.array([[1], [1]])), shape=(3,))
    assert zeros.sum_duplicates().nse == 0
    assert zeros.sum_duplicates(remove_zeros=False).nse == 1


def test_indices_are_sorted_also_where_one_key_is_too_small(rng):
    index = np.stack([rng.integers(0, s, 20) for s in (7, 9)], 1)
    data = rng.normal(size=20).astype(np.float32)
    order = np.lexsort(index.T[::-1])
    for scale in (1, 40_000):  # 280 000 × 360 000 places have no number in int32
        m = BCOO((data, (index * scale).astype(np.int32)), shape=(7 * scale, 9 * scale))
        got = m.sort_indices()
        np.testing.assert_array_equal(got.indices, index[order] * scale)
        np.testing.assert_array_equal(got.data, data[order])


@pytest.mark.parametrize("n_batch, n_dense", LAYOUTS)
def test_layouts_change_into_each_other(rng, n_batch, n_dense):
    x = holes(rng, 2, 3, 4)
    u = BCOO.fromdense(x, nse=24)
    u = u.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
    assert (u.n_batch, u.n_dense) == (n_batch, n_dense)
    close(u, x)
    back = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense).update_layout(n_batch=0, n_dense=0)
    close(back, x)


def test_axes_of_one_kind_are_permuted(rng):
    x = holes(rng, 2, 3, 4, 5)
    for perm in itertools.permutations(range(4)):
        close(BCOO.fromdense(x).transpose(perm), x.transpose(perm))
    m = BCOO.fromdense(x, n_batch=1, n_dense=1)
    close(m.transpose((0, 2, 1, 3)), x.transpose(0, 2, 1, 3))
    with pytest.raises(NotImplementedError, match="mixes batch, sparse and dense axes"):
        m.transpose((1, 0, 2, 3))


def test_scipys_matrices_become_sparse_arrays(rng):
    x = holes(rng, 4, 5)
    close(BCOO.from_scipy_sparse(scipy.sparse.csr_matrix(x)), x)
    close(sparse.BCSR.from_scipy_sparse(scipy.sparse.coo_matrix(x)), x)


WRONG = {
    "data of another length": (
        lambda: BCOO((np.ones(3), np.zeros((2, 1), int)), shape=(4,)),
        ValueError,
        "data must be",
    ),
    "indices of floats": (
        lambda: BCOO((np.ones(2), np.zeros((2, 1))), shape=(4,)),
        TypeError,
        "indices must be integers",
    ),
    "a dense array": (lambda: sparse.bcoo_todense(np.ones(3)), TypeError, "BCOO.fromdense"),
    "nse unknown under jit": (
        lambda: weft.jit(lambda x: BCOO.fromdense(x).data)(np.ones(3)),
        TypeError,
        "give an int",
    ),
    "dense dimensions that are not there": (
        lambda: BCOO.fromdense(np.ones(3), n_dense=2),
        ValueError,
        "n_batch and n_dense",
    ),
    "an inefficient layout": (
        lambda: BCOO.fromdense(np.eye(3)).update_layout(n_batch=1),
        sparse.SparseEfficiencyError,
        "on_inefficient=None allows it",
    ),
    "another shape": (
        lambda: sparse.bcoo_extract(BCOO.fromdense(np.eye(3)), np.ones(3)),
        ValueError,
        "shape of sparr",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case):
    call, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        call()


def test_an_inefficient_layout_may_warn():
    with pytest.warns(sparse.SparseEfficiencyWarning, match="all their zeros"):
        BCOO.fromdense(np.eye(3)).update_layout(n_batch=1, on_inefficient="warn")

"""COO, CSR and CSC matrices, BCSR arrays, and arrays made of nothing."""

import numpy as np
import pytest

import weft
from tests.sparse.cases import close, holes, padded
from weft import sparse
from weft.sparse import BCSR, COO, CSC, CSR
from weft.sparse.array_functions import COOInfo


@pytest.mark.parametrize("kind", [COO, CSR, CSC])
def test_matrices_multiply_and_transpose(rng, kind):
    x, y = holes(rng, 3, 4), rng.normal(size=(4, 2)).astype(np.float32)
    m = kind.fromdense(x)
    assert m.nse == (x != 0).sum()
    close(m, x)
    close(m.T, x.T)
    close(m @ y, x @ y)
    close(m @ y[:, 0], x @ y[:, 0])
    close(y.T @ m.T, y.T @ x.T)
    close(m.sum(), x.sum())
    close(weft.jit(lambda m, y: m @ y)(m, y), x @ y)
    close(
        weft.grad(lambda m: (m @ y).sum(), allow_int=True)(m).data,
        kind.fromdense(np.broadcast_to(y.sum(1), x.shape) * (x != 0)).data,
    )
    with pytest.raises(ValueError, match="must be a matrix"):
        kind.fromdense(x[0])


def test_functions_of_matrices_are_numpys(rng):
    x, y = holes(rng, 3, 4), rng.normal(size=(3, 2)).astype(np.float32)
    for name, kind in (("coo", COO), ("csr", CSR)):
        made = getattr(sparse, f"{name}_fromdense")(x, nse=12)
        assert isinstance(made, kind) and made.nse == 12
        close(getattr(sparse, f"{name}_todense")(made), x)
        close(getattr(sparse, f"{name}_matvec")(made, y[:, 0], transpose=True), x.T @ y[:, 0])
        close(getattr(sparse, f"{name}_matmat")(made, y, transpose=True), x.T @ y)
        with pytest.raises(ValueError, match="rank 1"):
            getattr(sparse, f"{name}_matvec")(made, y)


@pytest.mark.parametrize("n_batch, n_dense", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_bcsr_is_bcoo_by_rows(rng, n_batch, n_dense):
    shape = (2, 3, 4, 2)[1 - n_batch : 3 + n_dense]
    x = holes(rng, *shape)
    m = BCSR.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    close(m, x)
    close(BCSR.from_bcoo(padded(x, n_batch, n_dense)), x)
    close(m.sum_duplicates(), x)
    close(sparse.bcsr_sum_duplicates(m, nse=12), x)
    close(sparse.bcsr_fromdense(x, n_batch=n_batch, n_dense=n_dense, nse=12), x)
    np.testing.assert_array_equal(sparse.bcsr_extract(m.indices, m.indptr, x), m.data)
    counts = (x != 0).any(tuple(range(x.ndim - n_dense, x.ndim))).sum(-1)
    np.testing.assert_array_equal(np.diff(m.indptr), counts)
    close(
        sparse.bcsr_broadcast_in_dim(
            m, shape=(5, *shape), broadcast_dimensions=range(1, x.ndim + 1)
        ),
        np.broadcast_to(x, (5, *shape)),
    )
    close(sparse.bcsr_concatenate([m, m], dimension=n_batch), np.concatenate([x, x], n_batch))
    if not (n_batch or n_dense):
        dims = (((0,), (0,)), ((), ()))
        close(sparse.bcsr_dot_general(m, x, dimension_numbers=dims), x.T @ x)


def test_operations_on_the_arrays_of_a_matrix(rng):
    x, y = holes(rng, 3, 4), rng.normal(size=(3, 2)).astype(np.float32)
    nse = int((x != 0).sum())
    data, row, col = sparse.coo_fromdense_p.bind(x, nse=nse, index_dtype=np.int32)
    info = COOInfo((3, 4))
    close(sparse.coo_todense_p.bind(data, row, col, spinfo=info), x)
    close(
        sparse.coo_matvec_p.bind(data, row, col, y[:, 0], spinfo=info, transpose=True),
        x.T @ y[:, 0],
    )
    product = weft.jit(
        lambda d: sparse.coo_matmat_p.bind(d, row, col, y, spinfo=info, transpose=True)
    )
    close(product(data), x.T @ y)
    close(weft.grad(lambda d: product(d).sum())(data), y.sum(1)[np.asarray(row)])
    arrays = sparse.csr_fromdense_p.bind(x, nse=nse, index_dtype=np.int32)
    close(sparse.csr_todense_p.bind(*arrays, shape=(3, 4)), x)
    close(sparse.csr_matvec_p.bind(*arrays, y[:, 0], shape=(3, 4), transpose=True), x.T @ y[:, 0])
    close(sparse.csr_matmat_p.bind(*arrays, x.T, shape=(3, 4), transpose=False), x @ x.T)


@pytest.mark.parametrize("sparse_format", ["bcoo", "bcsr", "coo", "csr", "csc"])
def test_empty_and_eye_are_numpys(sparse_format):
    close(sparse.empty((2, 3), sparse_format=sparse_format), np.zeros((2, 3)))
    for k in (-2, 0, 1, 5):
        close(sparse.eye(3, 4, k, sparse_format=sparse_format), np.eye(3, 4, k))
    close(sparse.eye(3, 4, 1, n_batch=1), np.eye(3, 4, 1))
    with pytest.raises(ValueError, match="sparse_format must be one of"):
        sparse.eye(3, sparse_format="lil")


def test_random_arrays_have_what_is_asked_for():
    key = weft.random.key(1)
    m = sparse.random_bcoo(key, (3, 6, 7, 2), nse=0.5, n_batch=1, n_dense=1, sorted_indices=True)
    assert (m.nse, m.n_batch, m.n_dense) == (21, 1, 1)
    flat = np.asarray(m.indices) @ [7, 1]
    assert (np.diff(flat, axis=-1) > 0).all() and flat.max() < 42
    assert (np.asarray(m.data) != 0).all()
    close(sparse.random_bcoo(key, (4,), nse=2, generator=weft.random.normal).data.shape, (2,))
    with pytest.raises(ValueError, match="nse must be between 0 and 4"):
        sparse.random_bcoo(key, (4,), nse=5)

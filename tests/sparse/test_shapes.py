"""Operations that move elements of BCOO arrays about, against NumPy."""

import numpy as np
import pytest

import weft
from tests.sparse.cases import LAYOUTS, close, holes, padded
from weft import lax, sparse
from weft.sparse import BCOO

# name -> (of a sparse array of shape (2, 3, 4), of a NumPy array)
OPS = {
    "slice": (
        lambda m: sparse.bcoo_slice(
            m, start_indices=(0, 1, 0), limit_indices=(2, 3, 4), strides=(1, 1, 2)
        ),
        lambda x: x[:, 1:3, ::2],
    ),
    "slice of one batch": (
        lambda m: sparse.bcoo_slice(m, start_indices=(1, 0, 1), limit_indices=(2, 3, 3)),
        lambda x: x[1:2, :, 1:3],
    ),
    "dynamic_slice": (
        lambda m: weft.jit(lambda m, i: sparse.bcoo_dynamic_slice(m, (i, i, 9), (1, 2, 2)))(m, 1),
        lambda x: x[1:2, 1:3, 2:4],
    ),
    "rev": (lambda m: sparse.bcoo_rev(m, (0, 2)), lambda x: x[::-1, :, ::-1]),
    "sum 0": (lambda m: sparse.bcoo_reduce_sum(m, axes=(0,)), lambda x: x.sum(0)),
    "sum 1": (lambda m: sparse.bcoo_reduce_sum(m, axes=(1,)), lambda x: x.sum(1)),
    "sum 0, 2": (lambda m: sparse.bcoo_reduce_sum(m, axes=(0, 2)), lambda x: x.sum((0, 2))),
    "sum all": (lambda m: sparse.bcoo_reduce_sum(m, axes=(0, 1, 2)), lambda x: x.sum()),
    "reshape": (
        lambda m: sparse.bcoo_reshape(m, new_sizes=(2, 6, 2)),
        lambda x: x.reshape(2, 6, 2),
    ),
    "reshape across": (
        lambda m: sparse.bcoo_reshape(m, new_sizes=(4, 6)),
        lambda x: x.reshape(4, 6),
    ),
    "concatenate 0": (
        lambda m: sparse.bcoo_concatenate([m, m], dimension=0),
        lambda x: np.concatenate([x, x], 0),
    ),
    "broadcast": (
        lambda m: sparse.bcoo_broadcast_in_dim(
            m, shape=(5, 2, 3, 4), broadcast_dimensions=(1, 2, 3)
        ),
        lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
    ),
    "broadcast of sparse dimensions": (
        lambda m: sparse.bcoo_broadcast_in_dim(
            m[:, :1], shape=(2, 5, 3, 4), broadcast_dimensions=(0, 2, 3)
        ),
        lambda x: np.broadcast_to(x[:, None, :1], (2, 5, 3, 4)),
    ),
    "squeeze": (
        lambda m: sparse.bcoo_squeeze(m[:1], dimensions=(0,)) if m.n_batch < 2 else m[0],
        lambda x: x[0],
    ),
    "gather": (
        lambda m: sparse.bcoo_gather(
            m, np.array([1]), lax.GatherDimensionNumbers((0, 1), (0,), (0,)), (1, 3, 4)
        ),
        lambda x: x[1],
    ),
    "index": (lambda m: m[1, ..., 1:], lambda x: x[1, ..., 1:]),
    "index by a number that is traced": (
        lambda m: sparse.sparsify(lambda m, i: m[i])(m, np.int32(-1)),
        lambda x: x[-1],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_elements_move_as_in_dense_arrays(rng, name, layout):
    x = holes(rng, 2, 3, 4)
    op, want = OPS[name]
    close(op(padded(x, *layout)), want(x))


def test_joins_along_sparse_dimensions_leave_padding_outside(rng):
    x, y = holes(rng, 2, 3), holes(rng, 4, 3)
    joined = sparse.bcoo_concatenate([padded(x), padded(y)], dimension=0)
    want = np.concatenate([x, y])
    close(joined, want)
    assert (np.asarray(joined.indices) < want.shape).all(-1).sum() == 2 * (want != 0).sum()
    both = [BCOO.fromdense(x[None], n_batch=1), BCOO.fromdense(x)[None]]
    close(sparse.bcoo_concatenate(both, dimension=0), np.stack([x, x]))


def test_new_dimensions_behind_dense_ones_are_dense(rng):
    x = holes(rng, 3, 2)
    m = sparse.bcoo_broadcast_in_dim(
        BCOO.fromdense(x, n_dense=1), shape=(3, 2, 4), broadcast_dimensions=(0, 1)
    )
    assert m.n_dense == 2
    close(m, np.broadcast_to(x[..., None], (3, 2, 4)))


@pytest.mark.parametrize("padding", ["VALID", "SAME", [(2, 1)]])
def test_sparse_signals_are_convolved(rng, padding):
    x, k = holes(rng, 1, 1, 9), holes(rng, 1, 1, 4, share=0.3)
    full = np.convolve(x[0, 0], k[0, 0][::-1])  # correlation
    low, high = {"VALID": (0, 0), "SAME": (1, 2)}.get(str(padding), (2, 1))
    want = np.pad(full, 3)[6 - low : 6 - low + 9 + low + high - 3]
    got = sparse.bcoo_conv_general_dilated(
        BCOO.fromdense(x), BCOO.fromdense(k), window_strides=(1,), padding=padding
    )
    close(got, want[None, None])
    dense = sparse.bcoo_conv_general_dilated(
        x, BCOO.fromdense(k), window_strides=(1,), padding=padding
    )
    close(dense, want[None, None])


EYE = BCOO.fromdense(np.eye(3, dtype=np.float32))
WRONG = [
    (lambda: sparse.bcoo_reshape(EYE, new_sizes=(2, 2)), TypeError, "as many elements"),
    (lambda: sparse.bcoo_squeeze(EYE, dimensions=(0,)), ValueError, "must have size 1"),
    (lambda: sparse.bcoo_reduce_sum(EYE, axes=(2,)), ValueError, "out of bounds"),
    (lambda: sparse.bcoo_rev(EYE, (5,)), ValueError, "out of bounds"),
    (lambda: sparse.bcoo_concatenate([], dimension=0), ValueError, "at least one"),
    (lambda: sparse.bcoo_concatenate([EYE, np.eye(3)], dimension=0), TypeError, "operands\\[1\\]"),
    (lambda: sparse.bcoo_dynamic_slice(EYE, (0, 0), (4, 1)), TypeError, "within shape"),
    (
        lambda: sparse.bcoo_broadcast_in_dim(EYE, shape=(3, 2), broadcast_dimensions=(0, 1)),
        ValueError,
        "must place each dimension",
    ),
    (
        lambda: sparse.bcoo_conv_general_dilated(EYE, EYE, window_strides=(1,), padding="SAME"),
        NotImplementedError,
        "convolve the dense arrays",
    ),
]


@pytest.mark.parametrize("call, error, words", WRONG)
def test_what_is_wrong_is_said(call, error, words):
    with pytest.raises(error, match=words):
        call()

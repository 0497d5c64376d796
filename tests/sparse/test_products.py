"""Products of BCOO arrays against NumPy."""

import numpy as np
import pytest

from tests.sparse.cases import close, holes, padded
from weft import sparse
from weft.sparse import BCOO

# (n_batch, n_dense), contracted and batch dimensions of the sparse operand of rank 4.
DOTS = [
    ((0, 0), (), ()),
    ((0, 0), (1,), ()),
    ((0, 0), (0, 3), ()),
    ((0, 0), (3, 1, 0, 2), ()),
    ((1, 0), (2,), (0,)),
    ((1, 0), (2, 1, 3), (0,)),
    ((1, 0), (0, 2), ()),
    ((2, 0), (3,), (1, 0)),
    ((2, 0), (0, 3), (1,)),
    ((2, 0), (2,), (1,)),
    ((0, 1), (0,), ()),
    ((0, 1), (1, 3), ()),
    ((1, 1), (3,), (0,)),
    ((0, 2), (0, 1), ()),
]


def numbers(contracted, batch):
    b, c = range(len(batch)), range(len(batch), len(batch) + len(contracted))
    return (contracted, tuple(c)), (batch, tuple(b))


def reference(x, y, dims):
    (xc, yc), (xb, yb) = dims
    names = list("abcdefgh"[: x.ndim])
    other = [""] * y.ndim
    for i, j in zip((*xc, *xb), (*yc, *yb), strict=True):
        other[j] = names[i]
    free = iter("uvwxyz")
    other = [n or next(free) for n in other]
    out = [names[i] for i in xb]
    out += [n for i, n in enumerate(names) if i not in (*xb, *xc)]
    out += [n for j, n in enumerate(other) if j not in (*yb, *yc)]
    return np.einsum(f"{''.join(names)},{''.join(other)}->{''.join(out)}", x, y)


@pytest.mark.parametrize("layout, contracted, batch", DOTS)
def test_a_sparse_operand_is_contracted(rng, layout, contracted, batch):
    x = holes(rng, 2, 3, 4, 2)
    dims = numbers(contracted, batch)
    shape = [x.shape[d] for d in (*batch, *contracted)]
    y = rng.normal(size=(*shape, 3)).astype(np.float32)
    want = reference(x, y, dims)
    m = padded(x, *layout)
    close(sparse.bcoo_dot_general(m, y, dimension_numbers=dims), want)
    swapped = tuple(d[::-1] for d in dims)
    got = sparse.bcoo_dot_general(y, m, dimension_numbers=swapped)
    close(got, reference(y, x, swapped))


@pytest.mark.parametrize("contracted, batch", [((2,), ()), ((3, 1), (0,)), ((), (0,))])
def test_two_sparse_operands_are_contracted(rng, contracted, batch):
    x = holes(rng, 2, 3, 4, 2, share=0.8)
    dims = numbers(contracted, batch)
    y = holes(rng, *(x.shape[d] for d in (*batch, *contracted)), 3)
    ms = padded(x, len(batch)), padded(y, len(batch), more=1)
    got = sparse.bcoo_dot_general(*ms, dimension_numbers=dims)
    assert isinstance(got, BCOO)
    close(got, reference(x, y, dims))


def test_a_large_product_of_sparse_matrices_stays_sparse(rng):
    rows, n = rng.integers(0, 100_000, (2, 6)), 100_000
    at = [np.stack([rows[0], rows[1] // 50_000], 1), np.stack([rows[1] // 50_000, rows[0]], 1)]
    data = rng.normal(size=(2, 6)).astype(np.float32)
    x = BCOO((data[0], at[0].astype(np.int32)), shape=(n, 2))
    y = BCOO((data[1], at[1].astype(np.int32)), shape=(2, n))
    got = (x @ y).sum_duplicates()
    want = {}
    for d, (i, k) in zip(data[0], at[0], strict=True):
        for e, (m, j) in zip(data[1], at[1], strict=True):
            if k == m:
                want[int(i), int(j)] = want.get((int(i), int(j)), 0) + d * e
    assert got.indices.tolist() == [list(k) for k in sorted(want)]
    np.testing.assert_allclose(got.data, [want[k] for k in sorted(want)], rtol=1e-5)


# dimension numbers, sparse dimensions and batches of the product's indices
SAMPLED = [
    ((((1,), (0,)), ((), ())), 2, 0),
    ((((1,), (0,)), ((), ())), 1, 0),
    ((((1,), (0,)), ((), ())), 1, 1),
    ((((2,), (1,)), ((0,), (0,))), 2, 1),
    ((((2,), (1,)), ((0,), (0,))), 3, 0),
    ((((2,), (1,)), ((0,), (0,))), 1, 0),
    ((((2,), (1,)), ((0,), (0,))), 1, 1),
]


@pytest.mark.parametrize("dims, n_sparse, n_batch", SAMPLED)
def test_elements_of_a_product_are_computed_alone(rng, dims, n_sparse, n_batch):
    batch = (4,) if dims[1][0] else ()
    a = rng.normal(size=(*batch, 3, 2)).astype(np.float32)
    b = rng.normal(size=(*batch, 2, 5)).astype(np.float32)
    full = a @ b
    sizes = full.shape[n_batch : n_batch + n_sparse]
    lead = full.shape[:n_batch]
    at = np.stack([rng.integers(0, s + 1, (*lead, 6)) for s in sizes], -1).astype(np.int32)
    got = sparse.bcoo_dot_general_sampled(a, b, at, dimension_numbers=dims)
    for i in np.ndindex(*lead):
        for k in range(6):
            inside = (at[i][k] < sizes).all()
            want = full[i][tuple(at[i][k])] if inside else np.zeros_like(got[i][k])
            close(got[i][k], want)


def test_arrays_are_multiplied_element_by_element(rng):
    x, y = holes(rng, 2, 3, 4), holes(rng, 2, 3, 4)
    for layout in [(0, 0), (1, 0), (1, 1)]:
        m = padded(x, *layout)
        close(m * y, x * y)
        close(y[:, :1] * m, x * y[:, :1])
        close(m / (2 + y), x / (2 + y))
        close(m * padded(y, 1), x * y)
        close(m * padded(y[:1], 0), x * y[:1]) if layout == (0, 0) else None
    close(padded(x[0]) * padded(y[0][:, :1]), x[0] * y[0][:, :1])


def test_batches_that_are_alike_are_stored_once(rng):
    x, y = holes(rng, 3, 4), rng.normal(size=(5, 4)).astype(np.float32)
    m = sparse.bcoo_broadcast_in_dim(
        BCOO.fromdense(x), shape=(5, 3, 4), broadcast_dimensions=(1, 2)
    )
    assert m.data.shape[0] == 1
    dims = (((2,), (1,)), ((0,), (0,)))
    close(sparse.bcoo_dot_general(m, y, dimension_numbers=dims), np.einsum("ij,bj->bi", x, y))
    dims = (((0,), (0,)), ((), ()))
    close(sparse.bcoo_dot_general(m, y, dimension_numbers=dims), np.einsum("ij,bk->ijk", x, y))
    close(m.sum(0), 5 * x)


def test_what_is_wrong_is_said():
    m = BCOO.fromdense(np.eye(3, dtype=np.float32))
    with pytest.raises(TypeError, match="summed dimensions differ"):
        m @ np.ones(4, np.float32)
    with pytest.raises(NotImplementedError, match="batch dimensions of the sparse operand"):
        sparse.bcoo_dot_general(
            m, np.ones((3, 3), np.float32), dimension_numbers=(((), ()), ((0,), (0,)))
        )
    with pytest.raises(ValueError, match="must broadcast to the sparse one's shape"):
        sparse.bcoo_multiply_dense(m, np.ones((2, 3, 3)))
    with pytest.raises(ValueError, match="indices of shape"):
        sparse.bcoo_dot_general_sampled(
            np.ones((2, 2)),
            np.ones((2, 2)),
            np.zeros((1, 3), int),
            dimension_numbers=(((1,), (0,)), ((), ())),
        )

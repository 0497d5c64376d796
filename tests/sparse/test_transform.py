"""sparsify, operators, derivatives, batches and shards of sparse arrays."""

import operator

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.sparse.cases import close, holes, padded
from weft import P, lax, sparse
from weft.sparse import BCOO, BCSR

FUNCTIONS = {
    "unary": lambda np, m, y: np.sin(m) + np.sqrt(np.abs(m)) - np.expm1(m),
    "arithmetic": lambda np, m, y: 2 * m / 3 + m * m - m**3,
    "matmul": lambda np, m, y: (m @ y).T,
    "rmatmul": lambda np, m, y: y.T @ m.T,
    "mixed": lambda np, m, y: np.sum(m * y.T, 1),
    "joined": lambda np, m, y: np.concatenate([m, m], 1),
    "dense sum": lambda np, m, y: m + y.T,
    "stacked": lambda np, m, y: np.stack([m, m]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_sparse_arrays(rng, name):
    f = FUNCTIONS[name]
    x, y = holes(rng, 3, 4), rng.normal(size=(4, 3)).astype(np.float32)
    want = f(np, x, y)
    for m in (padded(x), BCSR.fromdense(x)):
        got = sparse.sparsify(lambda m, y: f(wnp, m, y))
        close(got(m, y), want)
        close(weft.jit(got)(m, y), want)


def test_keyword_arguments_are_settings_or_sparse_arrays(rng):
    x = holes(rng, 3, 4)
    close(sparse.sparsify(wnp.sum)(padded(x), axis=0), x.sum(0))
    close(sparse.sparsify(lambda v, *, m: m @ v)(np.ones(4), m=padded(x)), x.sum(1))


def test_control_flow_takes_sparse_arrays(rng):
    x = holes(rng, 3, 3)
    m = BCOO.fromdense(x)
    cond = lambda m, i: lax.cond(i > 0, lambda m: 2 * m, lambda m: -m, m)
    for i in (0, 1):
        close(sparse.sparsify(cond)(m, i), 2 * x if i else -x)
    loop = lambda m: lax.fori_loop(0, 3, lambda i, m: m * 2, m)
    close(sparse.sparsify(loop)(m), 8 * x)
    scan = lambda m, v: lax.scan(lambda v, s: (m @ v, s * v), v, wnp.arange(3.0))
    v, vs = sparse.sparsify(scan)(m, np.ones(3, np.float32))
    close(v, x @ x @ x @ np.ones(3))
    close(vs[2], 2 * x @ x @ np.ones(3))
    inner = sparse.sparsify(lambda m: sparse.todense(weft.jit(wnp.sin)(m)) + 1)
    close(inner(m), np.sin(x) + 1)


def test_operators_give_sparse_arrays(rng):
    x = holes(rng, 3, 4)
    m, r = padded(x), BCSR.fromdense(x)
    for got, want in [
        (abs(m), abs(x)),
        (-m, -x),
        (m**2, x**2),
        (m - m, 0 * x),
        (m.sum(1), x.sum(1)),
        (m.reshape(2, 6), x.reshape(2, 6)),
        (m.astype(np.int32), m.todense().astype(np.int32)),
        (r * 2, 2 * x),
        (r.T, x.T),
    ]:
        assert isinstance(got, BCOO | BCSR)
        close(got, want) if got.dtype == np.float32 else None
    close(np.stack([row.todense() for row in m]), x)
    assert repr(m[0]).startswith("BCOO(float32[4], nse=")
    with pytest.raises(NotImplementedError, match=r"sparse rule for exp .*test_transform.py"):
        sparse.sparsify(wnp.exp)(m)
    with pytest.raises(NotImplementedError, match="not implemented"):
        operator.eq(m, 1)


def test_derivatives_are_those_of_the_stored_elements(rng):
    x, y = holes(rng, 3, 4), rng.normal(size=4).astype(np.float32)
    for m in (BCOO.fromdense(x), BCSR.fromdense(x), BCOO.fromdense(x, n_batch=1)):
        f = lambda m, y: wnp.sum(wnp.sin(m @ y))
        slope = np.cos(x @ y)
        value, (dm, dy) = sparse.value_and_grad(f, (0, 1))(m, y)
        assert type(dm) is type(m)
        close(value, np.sin(x @ y).sum())
        close(dm, np.outer(slope, y) * (x != 0))
        close(dy, x.T @ slope)
        for jacobian in (sparse.jacfwd, sparse.jacrev):
            close(jacobian(lambda m, y: m @ y, 1)(m, y), x)
        other = lambda d, m=m: type(m).tree_unflatten(m._info, (d, *m._bufs[1:])) @ y
        close(weft.jvp(other, (m.data,), (m.data,))[1], x @ y)
    m = BCOO.fromdense(x)
    jac = sparse.jacrev(lambda m: m @ y)(m)
    close(jac, np.einsum("ai,ij,j->aij", np.eye(3), x != 0, y))
    both = sparse.grad(lambda m: ((m @ m.T).todense() ** 2).sum())(m)
    close(both, 4 * x @ x.T @ x * (x != 0), rtol=1e-4, atol=1e-4)
    loss, aux = sparse.grad(lambda m: (m.todense().sum(), 7), has_aux=True)(m)
    close(loss, x != 0)
    assert aux == 7
    dense = weft.grad(lambda x: (BCOO.fromdense(x, nse=12).sum_duplicates(nse=12) @ y).sum())(x)
    close(dense, np.broadcast_to(y, (3, 4)) * (x != 0))


def test_batches_are_mapped(rng):
    x, y = holes(rng, 5, 3, 4), rng.normal(size=(5, 4)).astype(np.float32)
    want = np.einsum("bij,bj->bi", x, y)
    for kind in (BCOO, BCSR):
        m = kind.fromdense(x, n_batch=1)
        close(weft.vmap(lambda m, y: m @ y)(m, y), want)
        doubled = weft.jit(weft.vmap(lambda m: m * 2))(m)
        assert doubled.shape == x.shape and doubled.n_batch == 1
        close(doubled, 2 * x)
    m = BCOO.fromdense(x, n_batch=1)
    close(weft.vmap(lambda m: BCOO.fromdense(m, nse=12))(x), x)
    close(weft.vmap(lambda m, y: m @ y, (None, 0))(m.update_layout(n_batch=0)[0], y), y @ x[0].T)
    alike = sparse.bcoo_broadcast_in_dim(m[0], shape=(5, 3, 4), broadcast_dimensions=(1, 2))
    close(weft.vmap(lambda m, y: m @ y)(alike, y), y @ x[0].T)
    with pytest.raises(ValueError, match="mapped over its batch dimensions"):
        weft.vmap(lambda m: m * 2, in_axes=1)(m)
    with pytest.raises(ValueError, match="args\\[1\\]|inconsistent sizes"):
        weft.vmap(lambda m, y: m @ y)(m, y[:3])


def test_batches_are_sharded_without_communication(rng):
    mesh = weft.make_mesh((8,), ("i",), axis_types=(weft.AxisType.Auto,))
    x, y = holes(rng, 8, 3, 4), rng.normal(size=(8, 4)).astype(np.float32)
    m = BCOO.fromdense(x, n_batch=1)
    placed = weft.device_put((m, y), weft.NamedSharding(mesh, P("i")))
    f = weft.jit(lambda m, y: weft.vmap(lambda m, y: m @ y)(m, y))
    want = np.einsum("bij,bj->bi", x, y)
    got = f(*placed)
    close(got, want)
    assert got.sharding.is_equivalent_to(weft.NamedSharding(mesh, P("i")), 2)
    for word in ("all-gather", "all-reduce", "all-to-all"):
        assert word not in f.lower(*placed).compile().as_text()
    in_specs = (P("i"), P("i"))

    @weft.shard_map(mesh=mesh, in_specs=in_specs, out_specs=P("i"))
    def local(bufs, y):
        m = BCOO((bufs["data"], bufs["indices"]), shape=(1, 3, 4))
        return sparse.bcoo_dot_general(m, y, dimension_numbers=(((2,), (1,)), ((0,), (0,))))

    close(weft.jit(local)({"data": m.data, "indices": m.indices}, y), want)

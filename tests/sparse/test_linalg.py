"""Sparse linear algebra against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.sparse.cases import close, holes
from weft import sparse
from weft.sparse.linalg import lobpcg_standard, spsolve


def test_systems_are_solved_and_differentiated(rng):
    a = holes(rng, 5, 5) + 4 * np.eye(5, dtype=np.float32)
    b = rng.normal(size=5).astype(np.float32)
    m = sparse.BCSR.fromdense(a)
    solve = lambda data, b: spsolve(data, m.indices, m.indptr, b)
    x = np.linalg.solve(a, b)
    close(weft.jit(solve)(m.data, b), x, rtol=1e-4)
    ddata, db = weft.grad(lambda d, b: (solve(d, b) ** 2).sum(), (0, 1))(m.data, b)
    adjoint = np.linalg.solve(a.T, 2 * x)
    close(db, adjoint, rtol=1e-3)
    da = sparse.BCSR((ddata, m.indices, m.indptr), shape=a.shape)
    close(da, -np.outer(adjoint, x) * (a != 0), rtol=1e-3, atol=1e-4)
    bs = np.stack([b, 2 * b])
    close(weft.vmap(lambda b: solve(m.data, b))(bs), np.stack([x, 2 * x]), rtol=1e-4)
    with pytest.raises(TypeError, match="one dtype of floats"):
        spsolve(m.data, m.indices, m.indptr, np.ones(5, np.int32))
    with pytest.raises(ValueError, match="one entry more than b"):
        spsolve(m.data, m.indices, m.indptr, b[:4])


def test_systems_are_solved_without_scipy(rng, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    a = holes(rng, 4, 4) + 3 * np.eye(4, dtype=np.float32)
    m = sparse.BCSR.fromdense(a)
    b = np.ones(4, np.float32)
    close(spsolve(m.data, m.indices, m.indptr, b), np.linalg.solve(a, b), rtol=1e-4)


def test_the_largest_eigenvalues_are_numpys(rng):
    q = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    values = np.linspace(1, 10, 40) ** 2
    a = (q * values) @ q.T
    x = rng.normal(size=(40, 3))
    with weft.enable_x64(True):
        for operator in (a, lambda v: wnp.asarray(a) @ v, sparse.BCOO.fromdense(a)):
            theta, u, steps = lobpcg_standard(operator, x, m=200)
            np.testing.assert_allclose(theta, values[::-1][:3], rtol=1e-8)
            np.testing.assert_allclose(a @ u, u * np.asarray(theta), atol=1e-6)
            assert 0 < steps < 200
    with pytest.raises(ValueError, match="5 k < n"):
        lobpcg_standard(a, x[:15])

"""Decompositions and solvers against NumPy, with derivatives and batching."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft.lax import linalg
from weft.ops.linalg.lu import solve

R = np.random.default_rng(7)


def real(*shape):
    return R.standard_normal(shape)


def cplx(*shape):
    return R.standard_normal(shape) + 1j * R.standard_normal(shape)


def definite(make, n=4):
    x = make(n, n)
    return x @ x.conj().T + n * np.eye(n)


def hermitian(x):
    return (x + x.swapaxes(-1, -2).conj()) / 2


def np_solve_triangular(a, b, left, lower, trans=False, conj=False, unit=False):
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        a = a - np.diag(np.diag(a)) + np.eye(len(a))
    a = a.T if trans else a
    a = a.conj() if conj else a
    return np.linalg.solve(a, b) if left else np.linalg.solve(a.T, b.T).T


def triangular_case(name, make, **options):
    a, b = definite(make), make(4, 2) if options["left_side"] else make(2, 4)
    return Case(
        "triangular_solve",
        lambda a, b: linalg.triangular_solve(a, b, **options),
        lambda a, b: np_solve_triangular(
            a,
            b,
            options["left_side"],
            options.get("lower", False),
            options.get("transpose_a", False),
            options.get("conjugate_a", False),
            options.get("unit_diagonal", False),
        ),
        (a, b),
        (0, 1),
        name,
        derivative_tolerance=1e-5,
    )


def tridiagonal(dl, d, du, b):
    m = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    return np.linalg.solve(m, b)


CASES = [
    Case(
        "cholesky",
        linalg.cholesky,
        lambda x: np.linalg.cholesky(hermitian(x)),
        (definite(real),),
        (0,),
        "real",
        batch=False,
    ),
    Case(
        "cholesky",
        linalg.cholesky,
        lambda x: np.linalg.cholesky(hermitian(x)),
        (definite(cplx),),
        (0,),
        "complex",
        batch=False,
    ),
    triangular_case("left lower", real, left_side=True, lower=True),
    triangular_case("right upper", real, left_side=False, lower=False),
    triangular_case("transposed", real, left_side=True, lower=True, transpose_a=True),
    triangular_case("unit", real, left_side=False, lower=True, unit_diagonal=True),
    triangular_case("adjoint", cplx, left_side=True, transpose_a=True, conjugate_a=True),
    triangular_case("conjugate", cplx, left_side=False, lower=True, conjugate_a=True),
    Case(
        "tridiagonal_solve",
        linalg.tridiagonal_solve,
        tridiagonal,
        (real(5), real(5) + 5, real(5), real(5, 2)),
        (0, 1, 2, 3),
    ),
    Case("lu_solve", solve, np.linalg.solve, (definite(real), real(4, 2)), (0, 1), "matrix"),
    Case("lu_solve", solve, None, (definite(cplx), cplx(4)), (0, 1), "vector", batch=False),
    Case("lu", lambda x: linalg.lu(x)[0], None, (definite(real),), (0,), "square"),
    Case("lu", lambda x: linalg.lu(x)[0], None, (definite(real, 5)[:, :3],), (0,), "tall"),
    Case("lu", lambda x: linalg.lu(x)[0], None, (definite(cplx, 5)[:3],), (0,), "wide"),
    Case("qr", lambda x: linalg.qr(x, full_matrices=False), None, (real(5, 3),), (0,), "tall"),
    Case("qr", lambda x: linalg.qr(x), None, (cplx(3, 3),), (0,), "square complex"),
    Case("qr", lambda x: linalg.qr(x), None, (real(3, 5),), (0,), "wide"),
    Case(
        "qr",
        lambda x: linalg.qr(x, full_matrices=False, pivoting=True),
        None,
        (real(5, 3),),
        (0,),
        "pivoting",
    ),
    Case("eigh", lambda x: linalg.eigh(x), None, (definite(real),), (0,), "real"),
    Case(
        "eigh",
        lambda x: linalg.eigh(x)[1],
        lambda x: np.linalg.eigvalsh(hermitian(x)),
        (definite(cplx),),
        (0,),
        "complex",
    ),
    Case("svd", lambda x: linalg.svd(x, full_matrices=False), None, (real(4, 3),), (0,), "tall"),
    Case("svd", lambda x: linalg.svd(x, full_matrices=False), None, (real(3, 4),), (0,), "wide"),
    Case(
        "svd",
        lambda x: linalg.svd(x, compute_uv=False),
        lambda x: np.linalg.svd(x, compute_uv=False),
        (cplx(4, 3),),
        (0,),
        "values",
    ),
    Case(
        "eig",
        lambda x: linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[
            0
        ],
        None,
        (np.diag(np.arange(1.0, 5)) + 0.1 * real(4, 4),),
        (0,),
        "values",
    ),
    Case(
        "eig",
        lambda x: linalg.eig(x, enable_eigvec_derivs=True),
        None,
        (np.diag(np.arange(1.0, 5)) + 0.1 * cplx(4, 4),),
        (0,),
        "vectors",
        order2=False,
    ),
    Case("schur", lambda x: linalg.schur(x), None, (real(4, 4),), None),
    Case("hessenberg", lambda x: linalg.hessenberg(x), None, (real(4, 4),), None),
    Case("tridiagonal", lambda x: linalg.tridiagonal(x), None, (definite(real),), None),
    Case(
        "lu_pivots_to_permutation",
        lambda p: linalg.lu_pivots_to_permutation(p, 4),
        None,
        (np.array([2, 3, 2], np.int32),),
        None,
    ),
    Case("geqrf", lambda x: linalg.geqrf(x), None, (real(4, 3),), None),
    Case(
        "householder_product",
        linalg.householder_product,
        None,
        (real(4, 3), 0.1 * real(3)),
        None,
    ),
    Case("ormqr", linalg.ormqr, None, (real(4, 3), 0.1 * real(3), real(4, 2)), None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def product(*factors):
    out = factors[0]
    for f in factors[1:]:
        out = np.asarray(out) @ np.asarray(f)
    return out


@pytest.mark.parametrize("make", [real, cplx])
@pytest.mark.parametrize(("m", "n"), [(4, 4), (5, 3), (3, 5)])
def test_factors_multiply_to_the_matrix(make, m, n):
    x = make(2, m, n)
    k = min(m, n)
    with weft.enable_x64(True):
        for full in (False, True):
            q, r = linalg.qr(x, full_matrices=full)
            assert q.shape[-1] == (m if full else k)
            np.testing.assert_allclose(product(q, r), x, atol=1e-12)
            u, s, vh = map(np.asarray, linalg.svd(x, full_matrices=full))
            assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k)
            np.testing.assert_allclose(u[..., :k] * s[:, None] @ vh[:, :k], x, atol=1e-12)
        packed, pivots, permutation = map(np.asarray, linalg.lu(x))
    for i in range(2):
        lower = np.tril(packed[i][:, :k], -1) + np.eye(m, k)
        upper = np.triu(packed[i][:k])
        np.testing.assert_allclose(lower @ upper, x[i][permutation[i]], atol=1e-12)
        order = np.arange(m)
        for j, p in enumerate(pivots[i]):
            order[[j, p]] = order[[p, j]]
        np.testing.assert_array_equal(order, permutation[i])


def test_pivoted_qr_orders_columns_by_size():
    x = real(4, 3) * [1, 100, 10]
    with weft.enable_x64(True):
        q, r, p = map(np.asarray, linalg.qr(x, pivoting=True, full_matrices=False))
    np.testing.assert_allclose(q @ r, x[:, p], atol=1e-12)
    assert (np.diff(np.abs(np.diag(r))) <= 0).all()


@pytest.mark.parametrize("make", [real, cplx])
def test_eigen_decompositions_satisfy_their_equations(make):
    x = make(2, 4, 4)
    h = hermitian(x)
    with weft.enable_x64(True):
        v, w = map(np.asarray, linalg.eigh(h))
        np.testing.assert_allclose(h @ v, v * w[:, None], atol=1e-12)
        v2, w2 = linalg.eigh(h, subset_by_index=(1, 3))
        np.testing.assert_allclose(w2, w[:, 1:3])
        assert v2.shape == (2, 4, 2)
        w, vl, vr = map(np.asarray, linalg.eig(x))
        np.testing.assert_allclose(x @ vr, vr * w[:, None], atol=1e-12)
        adjoint = x.swapaxes(-1, -2).conj()
        np.testing.assert_allclose(adjoint @ vl, vl * w.conj()[:, None], atol=1e-12)
        t, z = map(np.asarray, linalg.schur(x))
        np.testing.assert_allclose(z @ t @ z.swapaxes(-1, -2).conj(), x, atol=1e-12)


@pytest.mark.parametrize("make", [real, cplx])
def test_reduced_forms_are_similar_to_the_matrix(make):
    x = make(4, 4)
    h = hermitian(x)
    with weft.enable_x64(True):
        packed, taus = map(np.asarray, linalg.hessenberg(x))
        form = np.triu(packed, -1)
        inner = np.zeros((4, 4), x.dtype)
        inner[0, 0] = 1
        inner[1:, 1:] = linalg.householder_product(np.ascontiguousarray(packed[1:, :-1]), taus)
        np.testing.assert_allclose(inner @ form @ inner.conj().T, x, atol=1e-12)
        _, d, e, _ = map(np.asarray, linalg.tridiagonal(h))
    values = np.linalg.eigvalsh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(h), atol=1e-12)


def test_ormqr_multiplies_by_the_q_of_geqrf():
    x, c = real(4, 3), real(4, 2)
    with weft.enable_x64(True):
        packed, taus = linalg.geqrf(x)
        q = np.asarray(linalg.qr(x)[0])
        np.testing.assert_allclose(linalg.ormqr(packed, taus, c), q @ c, atol=1e-12)
        got = linalg.ormqr(packed, taus, c.T, left=False, transpose=True)
        np.testing.assert_allclose(got, c.T @ q.T, atol=1e-12)


def test_cholesky_update_equals_a_new_decomposition():
    a, w = definite(real), real(4)
    r = np.linalg.cholesky(a).T
    with weft.enable_x64(True):
        got = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_allclose(got.T @ got, a + np.outer(w, w), atol=1e-12)
    np.testing.assert_allclose(np.tril(got, -1), 0, atol=1e-12)


def test_symmetric_product_and_polar_decomposition():
    a, c = real(4, 3), hermitian(real(4, 4))
    with weft.enable_x64(True):
        got = linalg.symmetric_product(a, c, alpha=2.0, beta=0.5)
        np.testing.assert_allclose(got, 2 * a @ a.T + 0.5 * c, atol=1e-12)
        u, h, _, converged = linalg.qdwh(a)
    np.testing.assert_allclose(np.asarray(u) @ np.asarray(h), a, atol=1e-12)
    np.testing.assert_allclose(np.asarray(u).T @ np.asarray(u), np.eye(3), atol=1e-12)
    assert bool(converged)


def test_polar_decomposition_stops_where_asked():
    a = real(5, 5)
    assert [int(v) for v in linalg.qdwh(a, max_iterations=2)[2:]] == [2, 0]
    assert [int(v) for v in linalg.qdwh(a, max_iterations=0)[2:]] == [0, 0]
    coarse, fine = (linalg.qdwh(a, eps=eps) for eps in (1e-2, 1e-7))
    assert coarse[3] and fine[3] and int(coarse[2]) < int(fine[2])
    for options in ({"max_iterations": -1}, {"eps": 0.0}, {"dynamic_shape": (3, 3)}):
        with pytest.raises(ValueError, match=f"qdwh: {next(iter(options))}"):
            linalg.qdwh(a, **options)


@pytest.mark.parametrize("shape", [(4, 4), (6, 2), (3, 1)])
def test_polar_decomposition_of_complex_and_ill_conditioned_matrices(shape):
    n = shape[1]
    u = np.linalg.qr(real(*shape) + 1j * real(*shape))[0]
    v = np.linalg.qr(real(n, n) + 1j * real(n, n))[0]
    h = v @ np.diag(10.0 ** -(np.arange(n) ** 2)) @ v.conj().T
    with weft.enable_x64(True):
        got_u, got_h, _, converged = weft.jit(linalg.qdwh)(u @ h)
    assert converged
    np.testing.assert_allclose(got_h, h, atol=1e-12)
    np.testing.assert_allclose(got_u @ got_h, u @ h, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: linalg.eigh(x, implementation=linalg.EighImplementation.JACOBI),
        lambda x: linalg.eigh(x, implementation=linalg.EighImplementation.QDWH),
        lambda x: linalg.eig(x, implementation=linalg.EigImplementation.CUSOLVER),
        lambda x: linalg.eig(x, use_magma=True),
    ],
)
def test_algorithms_that_are_not_there_are_refused(call):
    with pytest.raises(ValueError, match=r"implementation .* is not available.*leave it out"):
        call(hermitian(real(3, 3)))


def test_cholesky_of_an_indefinite_matrix_is_nan_in_that_example_only():
    x = np.stack([np.eye(2), -np.eye(2)]).astype(np.float32)
    out = np.asarray(linalg.cholesky(x))
    np.testing.assert_array_equal(out[0], np.eye(2))
    assert np.isnan(out[1]).any()


def test_a_singular_matrix_has_an_lu_decomposition():
    packed, _, _ = linalg.lu(np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(packed, [[1, 1], [1, 0]])


def test_perturbed_tridiagonal_solve_is_finite_where_the_plain_one_is_not():
    zero, b = np.zeros(3, np.float32), np.ones((3, 1), np.float32)
    assert np.isnan(linalg.tridiagonal_solve(zero, zero, zero, b)).all()
    got = linalg.tridiagonal_solve(zero, zero, zero, b, perturb_singular=True)
    assert np.isfinite(got).all()


def test_empty_matrices_have_empty_decompositions():
    x = np.zeros((0, 0), np.float32)
    assert linalg.cholesky(x).shape == (0, 0)
    assert [o.shape for o in linalg.qr(np.zeros((3, 0), np.float32))] == [(3, 3), (3, 0)]
    assert [o.shape for o in linalg.svd(np.zeros((2, 0), np.float32))] == [(2, 2), (0,), (0, 0)]
    assert [o.shape for o in linalg.eigh(x)] == [(0, 0), (0,)]
    assert [o.shape for o in linalg.lu(np.zeros((2, 0), np.float32))] == [(2, 0), (0,), (2,)]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linalg.cholesky(np.ones((2, 3), np.float32)), ValueError, "square matrices"),
        (lambda: linalg.qr(np.ones((2, 2), np.float16)), TypeError, "convert it first"),
        (lambda: linalg.svd(np.ones(3, np.float32)), ValueError, r"\(\.\.\., m, n\)"),
        (
            lambda: linalg.triangular_solve(
                np.eye(2, dtype=np.float32), np.ones((2, 3), np.float32)
            ),
            TypeError,
            "b's dimension -1",
        ),
        (
            lambda: weft.grad(lambda x: linalg.qr(x)[0].sum())(np.ones((3, 2), np.float32)),
            TypeError,
            "full_matrices=False",
        ),
        (
            lambda: weft.jvp(
                linalg.eig, (np.eye(2, dtype=np.float32),), (np.eye(2, dtype=np.float32),)
            ),
            TypeError,
            "enable_eigvec_derivs=True",
        ),
    ],
)
def test_errors_say_what_to_do(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("f", "reference"),
    [
        (lambda a: weft.lax.linalg.lu(a)[2], lambda a: np.arange(3)),
        (
            lambda a: weft.lax.linalg.cholesky_update(a, np.ones(3, np.float32)),
            lambda a: np.linalg.cholesky(a.T @ a + 1).T,
        ),
    ],
    ids=["lu", "cholesky_update"],
)
def test_loops_inside_run_on_each_device_of_a_tracked_region(f, reference):
    mesh = weft.make_mesh((2,), ("x",), axis_types=(weft.AxisType.Auto,))
    a = np.stack([np.diag(np.float32([3, 4, 5])), np.diag(np.float32([2, 3, 4]))])
    body = lambda v: f(v[0])[None]
    g = weft.shard_map(body, mesh=mesh, in_specs=weft.P("x"), out_specs=weft.P("x"))
    want = np.stack([reference(m) for m in a])
    np.testing.assert_allclose(weft.jit(g)(a), want, rtol=1e-5, atol=1e-5)

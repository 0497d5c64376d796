"""weft.scipy.linalg against SciPy, and against what a decomposition multiplies to."""

import numpy as np
import pytest
import scipy.linalg as sl

import weft
import weft.numpy as wnp
from tests.scipy.table import Case, check, check_narrow
from weft.scipy import linalg

_rng = np.random.default_rng(5)
A, B, C = (_rng.standard_normal((4, 4)) for _ in range(3))
Z = A + 1j * B
TALL, WIDE = _rng.standard_normal((5, 3)), _rng.standard_normal((3, 5))
POSITIVE = A @ A.T + 2 * np.eye(4)
LOWER = np.tril(A) + 3 * np.eye(4)
x, v = _rng.standard_normal((4, 2)), _rng.standard_normal(4)
GENERAL = A + 4 * np.eye(4)
SMALL = A[:3, :3] / 3


def case(name, *args, diff=(), label="", keywords=None, ref=None, **options):
    kw = keywords or {}
    ours, theirs = getattr(linalg, name), ref or getattr(sl, name)
    fun, want = (lambda *xs: ours(*xs, **kw)), (lambda *xs: theirs(*xs, **kw))
    return Case(f"{name}-{label}" if label else name, fun, want, args, diff, **options)


def solved(a, b, **kw):
    """Of the Cholesky or LU factors alone."""
    return sl.solve(a, b)


CASES = [
    case("cholesky", POSITIVE),
    case("cholesky", POSITIVE, keywords={"lower": True}, label="lower"),
    case("det", A, diff=(0,)),
    case("inv", GENERAL, diff=(0,)),
    case("solve", GENERAL, x, diff=(0, 1)),
    case("solve", GENERAL, v, label="vector"),
    case("solve", POSITIVE, x, keywords={"assume_a": "pos"}, label="pos"),
    case("solve_triangular", LOWER, x, keywords={"lower": True}, diff=(0, 1)),
    *(
        case("solve_triangular", LOWER.T + 1j * np.triu(B), v + 0j, label=str(t),
             keywords={"trans": t})
        for t in (0, "T", 2)
    ),
    *(
        Case(f"cho_solve-{lower}", lambda a, b, lower=lower: linalg.cho_solve(
            linalg.cho_factor(a, lower), b), solved, (POSITIVE + 0j, x + 1j * x[::-1]))
        for lower in (True, False)
    ),
    *(
        Case(f"lu_solve-{t}", lambda a, b, t=t: linalg.lu_solve(linalg.lu_factor(a), b, t),
             lambda a, b, t=t: sl.lu_solve(sl.lu_factor(a), b, t), (Z, x + 0j))
        for t in (0, 1, 2)
    ),
    case("lu", TALL), case("lu", WIDE, label="wide"),
    case("lu", A, keywords={"permute_l": True}, label="permuted"),
    case("lu_factor", A),
    case("svd", A, keywords={"compute_uv": False}, diff=(0,)),
    case("eigh", POSITIVE, keywords={"eigvals_only": True}),
    *(
        case("eigh", C + C.T, POSITIVE, keywords={"eigvals_only": True, "type": t},
             label=f"type {t}")
        for t in (1, 2, 3)
    ),
    case("eigh", C, keywords={"eigvals_only": True, "lower": False}, label="upper"),
    case("expm", A, diff=(0,)),
    case("expm", 20 * A, label="large", rtol=1e-9, batch=False),
    case("expm", Z / 2, label="complex"),
    case("expm", np.triu(A), keywords={"upper_triangular": True}, label="triangular",
         ref=lambda a, upper_triangular: sl.expm(a)),
    case("expm_frechet", A, B),
    case("expm_frechet", A, B, keywords={"compute_expm": False}, label="alone"),
    case("sqrtm", POSITIVE + 0j, rtol=1e-9),
    case("sqrtm", Z, rtol=1e-9, label="complex"),
    Case("funm", lambda a: linalg.funm(a, wnp.sin), lambda a: sl.funm(a, np.sin) + 0j, (A,),
         rtol=1e-8),
    case("solve_sylvester", A, B + 5 * np.eye(4), C, rtol=1e-9),
    case("solve_sylvester", SMALL, B + 5 * np.eye(4), C[:3], label="eigen", rtol=1e-9,
         keywords={"method": "eigen"}, ref=lambda a, b, c, method: sl.solve_sylvester(a, b, c)),
    *(case("polar", a, keywords={"side": s, "method": "svd"}, label=f"{s} {a.shape[0]}",
           ref=lambda a, side, method: sl.polar(a, side), rtol=1e-9)
      for s in ("left", "right") for a in (A, TALL, WIDE)),
    case("polar", TALL, ref=sl.polar, rtol=1e-9, batch=False),
    case("polar", WIDE, keywords={"side": "left"}, rtol=1e-9, batch=False, label="left"),
    *(case("eigh_tridiagonal", v, A[0, :3], keywords={"eigvals_only": True} | kw, label=str(kw))
      for kw in ({}, {"select": "i", "select_range": (1, 2)})),
    case("block_diag", A, v, diff=(0, 1)),
    case("toeplitz", v, x[:3, 0]), case("toeplitz", v + 1j, label="one"),
    case("hankel", v, x[:3, 0]), case("hankel", v, label="one"),
    case("circulant", v, diff=(0,)), case("companion", v), case("fiedler", v),
    *(case("fiedler_companion", c, label=str(len(c))) for c in (v, A.ravel()[:7], v[:2], v[:3])),
    case("leslie", v, v[:3]),
    *(case("convolution_matrix", v[:m], keywords={"n": n, "mode": mode}, label=f"{mode} {m} {n}")
      for mode in ("full", "same", "valid") for m, n in ((4, 3), (3, 5))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


@pytest.mark.parametrize("name", ["solve", "expm", "eigh", "sqrtm", "polar", "solve_sylvester"])
def test_float32_has_its_own_accuracy(name):
    for c in CASES:
        if c.id.split("-")[0] == name:
            check_narrow(c, 5e-3)


SIZED = [
    *(("dft", (n, scale)) for n in (1, 4) for scale in (None, "sqrtn", "n")),
    *((name, (n,)) for name in ("hadamard", "helmert", "hilbert", "invhilbert") for n in (1, 8)),
    *((name, (5, kind)) for name in ("pascal", "invpascal")
      for kind in ("symmetric", "lower", "upper")),
    ("helmert", (4, True)),
    *((name, (70,)) for name in ("dft", "hilbert")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), SIZED)
def test_matrices_of_a_size_are_scipys(name, args):
    with weft.enable_x64(True):
        np.testing.assert_allclose(
            getattr(linalg, name)(*args), getattr(sl, name)(*args), atol=1e-14, rtol=1e-12
        )


def product(*parts):
    out = parts[0]
    for p in parts[1:]:
        out = np.asarray(out) @ np.asarray(p)
    return out


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.parametrize("a", [A, Z, np.stack([A, B])], ids=["real", "complex", "batch"])
def test_decompositions_multiply_to_the_matrix(a):
    with weft.enable_x64(True):
        near = lambda got, want: np.testing.assert_allclose(got, want, atol=1e-12)
        h, q = linalg.hessenberg(a, calc_q=True)
        near(product(q, h, adjoint(q)), a)
        near(np.tril(h, -2), 0 * a)
        near(linalg.hessenberg(a), h)
        t, z = linalg.schur(a)
        near(product(z, t, adjoint(z)), a)
        upper, unitary = linalg.rsf2csf(t, z)
        near(product(unitary, upper, adjoint(unitary)), a)
        near(np.tril(upper, -1), 0 * upper)
        t, z = linalg.schur(a, output="complex")
        near(product(z, t, adjoint(z)), a)
        near(np.tril(t, -1), 0 * t)
        near(product(*linalg.qr(a)), a)
        (r,) = linalg.qr(a, mode="r")
        near(np.tril(r, -1), 0 * r)
        q, r, p = linalg.qr(a, pivoting=True)
        near(product(q, r), np.take_along_axis(a, np.asarray(p)[..., None, :], -1))
        u, s, vh = linalg.svd(a)
        near(product(u * s[..., None, :], vh), a)


@pytest.mark.parametrize("a", [TALL, WIDE])
@pytest.mark.parametrize("pivoting", [False, True])
def test_products_with_q_are_scipys(a, pivoting):
    m, n = a.shape
    with weft.enable_x64(True):
        for c, mode in (
            (_rng.standard_normal((2, m)), "right"),
            (_rng.standard_normal(m), "right"),
            (_rng.standard_normal((min(m, n), 2)), "left"),
        ):
            got = linalg.qr_multiply(a, c, mode, pivoting)
            want = sl.qr_multiply(a, c, mode, pivoting)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(abs(g), abs(w), atol=1e-12)


def test_generalized_eigenvectors_solve_their_equations():
    s = C + C.T
    with weft.enable_x64(True):
        for kind, residual in (
            (1, lambda w, q: s @ q - POSITIVE @ q * w),
            (2, lambda w, q: s @ POSITIVE @ q - q * w),
            (3, lambda w, q: POSITIVE @ s @ q - q * w),
        ):
            w, q = map(np.asarray, linalg.eigh(s, POSITIVE, type=kind))
            np.testing.assert_allclose(residual(w, q), 0, atol=1e-11)
        w, q = linalg.eigh(s, eigvals=(1, 2))
        assert w.shape == (2,) and q.shape == (4, 2)


def test_tridiagonal_eigenvectors_and_ranges():
    e = A[0, :3]
    matrix = np.diag(v) + np.diag(e, 1) + np.diag(e, -1)
    with weft.enable_x64(True):
        w, q = map(np.asarray, linalg.eigh_tridiagonal(v, e))
        np.testing.assert_allclose(matrix @ q, q * w, atol=1e-12)
        kept = linalg.eigh_tridiagonal(
            v, e, eigvals_only=True, select="v", select_range=(w[0] + 1e-6, w[2] + 1e-6)
        )
        np.testing.assert_allclose(kept, w[1:3], rtol=1e-12)
        rough = linalg.eigh_tridiagonal(v, e, eigvals_only=True, tol=1e-2)
        assert 1e-9 < np.abs(rough - w).max() < 1e-2
        large = linalg.eigh_tridiagonal(np.zeros(30), np.ones(29), eigvals_only=True)
    np.testing.assert_allclose(large, -2 * np.cos(np.pi * np.arange(1, 31) / 31), atol=1e-13)


def test_exponentials_that_need_too_many_squarings_are_nan():
    assert np.isnan(linalg.expm(1e6 * np.eye(2), max_squarings=2)).all()


def test_functions_of_matrices_estimate_their_error():
    value, error = linalg.funm(A.astype(np.float32), wnp.exp, disp=False)
    np.testing.assert_allclose(value, sl.expm(A), rtol=1e-3)
    assert 0 < float(error) < 1e-2


def test_batches_of_matrices_stay_sharded():
    mesh = weft.make_mesh((8,), ("x",))
    rows = weft.NamedSharding(mesh, weft.P("x"))
    a = weft.ShapeDtypeStruct((16, 4, 4), "float32", sharding=rows)
    b = weft.ShapeDtypeStruct((16, 4, 2), "float32", sharding=rows)
    for call in (linalg.solve, lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b)):
        assert weft.comm(call, a, b).counts() == {}
    assert weft.comm(linalg.lu, a).counts() == {}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linalg.solve(A, v, assume_a="diagonal"), ValueError, "assume_a must be one of"),
        (lambda: linalg.solve_triangular(A, v, trans=3), ValueError, "trans must be one of"),
        (lambda: linalg.qr(A, mode="raw"), ValueError, "mode must be one of"),
        (lambda: linalg.polar(WIDE), NotImplementedError, "method='svd'"),
        (lambda: linalg.sqrtm(A, blocksize=2), NotImplementedError, "blocksize must be 1"),
        (lambda: linalg.hadamard(3), ValueError, "power of 2"),
        (lambda: linalg.expm(TALL), ValueError, "square"),
        (lambda: linalg.solve_sylvester(A, B, TALL), ValueError, "must have the rows of A"),
        (lambda: linalg.block_diag(np.ones((2, 2, 2))), ValueError, "argument 0"),
        (lambda: linalg.leslie(v, v), ValueError, "one element more"),
        (lambda: linalg.eigh_tridiagonal(v, v), ValueError, "(n - 1,)"),
        (lambda: linalg.eigh_tridiagonal(v, v[:3], select="i"), ValueError, "do not fit"),
        (lambda: linalg.pascal(-1), ValueError, "0 or more"),
        (lambda: linalg.funm(np.stack([A, A]), wnp.exp), ValueError, "vmap"),
    ],
)
def test_what_cannot_be_says_why(call, error, words):
    import re

    with pytest.raises(error, match=re.escape(words)):
        call()


_MATRIX, _VECTOR = [[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0]


@pytest.mark.parametrize(
    "name, args, keywords",
    [
        ("cholesky", (_MATRIX,), {"lower": True}),
        ("cho_solve", ((np.linalg.cholesky(_MATRIX).tolist(), True), _VECTOR), {}),
        ("solve_triangular", (_MATRIX, _VECTOR), {"lower": True}),
        ("solve", (_MATRIX, _VECTOR), {}),
        ("expm_frechet", (_MATRIX, _MATRIX), {}),
        ("eigh", (_MATRIX,), {"eigvals_only": True}),
        ("eigh_tridiagonal", (_VECTOR, [1.0]), {"eigvals_only": True}),
        ("polar", (_MATRIX,), {}),
        ("svd", (_MATRIX,), {"compute_uv": False}),
        ("lu", (_MATRIX,), {}),
        ("solve_sylvester", (_MATRIX, _MATRIX, _MATRIX), {}),
    ],
)
def test_nested_lists_are_matrices_as_in_scipy(name, args, keywords):
    got = getattr(linalg, name)(*args, **keywords)
    want = getattr(sl, name)(*args, **keywords)
    for g, w in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-5)

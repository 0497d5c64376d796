"""weft.scipy.optimize, sparse.linalg, interpolate, cluster and integrate against SciPy."""

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.interpolate
import scipy.optimize

import weft
import weft.numpy as wnp
from weft.scipy import cluster, integrate, interpolate, optimize
from weft.scipy.sparse import linalg

_rng = np.random.default_rng(4)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(x, a):
    return a * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


@pytest.mark.parametrize(
    ("fun", "x0", "args"),
    [
        (rosenbrock, [-1.2, 1.0, 0.5], ()),
        (himmelblau, [1.0, 1.0], ()),
        (matyas, [1.0, 2.0], (0.26,)),
        (lambda x: ((x**2 - 2) ** 2).sum() + x[0] ** 4, [10.0, -0.3], ()),
    ],
)
def test_minima_are_scipys(fun, x0, args):
    with weft.enable_x64(True):
        got = weft.jit(lambda x: optimize.minimize(fun, x, args, method="BFGS", tol=1e-8))(
            x0 := np.array(x0)
        )
        want = scipy.optimize.minimize(fun, x0, args, method="BFGS", tol=1e-8)
    assert bool(got.success) and int(got.status) == 0
    np.testing.assert_allclose(got.x, want.x, atol=3e-5)
    np.testing.assert_allclose(got.fun, want.fun, atol=1e-9)
    assert np.abs(got.jac).max() < 1e-8
    assert int(got.nfev) < 4 * want.nfev + 20


def test_a_search_that_ends_early_says_so():
    got = optimize.minimize(rosenbrock, wnp.zeros(4), method="BFGS", options={"maxiter": 2})
    assert not bool(got.success) and int(got.status) == 1 and int(got.nit) == 2


MATRIX = _rng.standard_normal((6, 6))
POSITIVE = MATRIX @ MATRIX.T + np.eye(6)
GENERAL = MATRIX + 6 * np.eye(6)
RIGHT = _rng.standard_normal(6)
SOLVERS = [
    ("cg", POSITIVE, {}),
    ("bicgstab", GENERAL, {}),
    ("gmres", GENERAL, {}),
    ("gmres", GENERAL, {"restart": 3}),
    ("gmres", GENERAL, {"solve_method": "incremental"}),
    ("gmres", GENERAL + 1j * POSITIVE, {}),
    ("bicgstab", GENERAL + 0.2j * POSITIVE, {}),
    ("cg", POSITIVE + 1j * (MATRIX - MATRIX.T) / 9, {}),
]


@pytest.mark.parametrize(("name", "a", "options"), SOLVERS)
def test_solutions_and_their_derivatives_are_those_of_linear_systems(name, a, options):
    solver = getattr(linalg, name)
    with weft.enable_x64(True):
        solve = lambda a, b: solver(lambda x: a @ x, b, tol=1e-12, **options)[0]
        got = weft.jit(solve)(a, RIGHT + 0 * a[0])
        np.testing.assert_allclose(got, np.linalg.solve(a, RIGHT), rtol=1e-8)
        preconditioned = solver(a, RIGHT + 0 * a[0], M=np.diag(1 / np.diag(a)), tol=1e-12)[0]
        np.testing.assert_allclose(preconditioned, np.linalg.solve(a, RIGHT), rtol=1e-8)
        if np.isrealobj(a):
            da, db = _rng.standard_normal((6, 6)), _rng.standard_normal(6)
            da = da + da.T
            tangent = weft.jvp(solve, (a, RIGHT), (da, db))[1]
            x = np.linalg.solve(a, RIGHT)
            np.testing.assert_allclose(tangent, np.linalg.solve(a, db - da @ x), rtol=1e-7)
            slopes = weft.grad(lambda a, b: solve(a, b).sum(), 1)(a, RIGHT)
            np.testing.assert_allclose(slopes, np.linalg.solve(a.T, np.ones(6)), rtol=1e-7)


def test_operators_take_pytrees():
    tree = {"a": np.float32([1, 2]), "b": np.float32([[3.0]])}
    x, info = linalg.cg(lambda t: {"a": 2 * t["a"], "b": 4 * t["b"]}, tree)
    assert info is None
    np.testing.assert_allclose(x["a"], [0.5, 1], rtol=1e-5)
    np.testing.assert_allclose(x["b"], [[0.75]], rtol=1e-5)


GRID = (np.array([0.0, 1, 3, 4]), np.array([-1.0, 0, 2]))
VALUES = _rng.standard_normal((4, 3))
XI = _rng.uniform(-2, 5, (5, 4, 2))


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 7.0, None])
@pytest.mark.parametrize("values", [VALUES, np.stack([VALUES, 2 * VALUES], -1)])
def test_interpolation_on_grids_is_scipys(method, fill, values):
    arguments = (GRID, values, method, False, fill)
    want = scipy.interpolate.RegularGridInterpolator(*arguments)(XI)
    with weft.enable_x64(True):
        f = interpolate.RegularGridInterpolator(*arguments)
        got = weft.jit(lambda f, x: f(x))(f, XI)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        pair = f((XI[..., 0], XI[..., 1]))
        np.testing.assert_allclose(pair, want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(20, 3), (20,)])
def test_nearest_codes_are_scipys(shape):
    x, codes = _rng.standard_normal(shape), _rng.standard_normal((4, *shape[1:]))
    got = cluster.vq.vq(x, codes)
    for g, w in zip(got, scipy.cluster.vq.vq(x, codes), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def test_integrals_of_samples_are_numpys():
    np.testing.assert_allclose(
        integrate.trapezoid(VALUES, dx=2.0), np.trapezoid(VALUES, dx=2.0), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: optimize.minimize(matyas, RIGHT, 0.2, method="BFGS"), TypeError, "tuple"),
        (lambda: optimize.minimize(rosenbrock, RIGHT, method="Powell"), ValueError, "BFGS"),
        (lambda: optimize.minimize(rosenbrock, MATRIX, method="BFGS"), ValueError, "vector"),
        (lambda: optimize.minimize(rosenbrock, RIGHT, method="BFGS", options={"x": 1}), TypeError,
         "options may have"),
        (lambda: linalg.cg(VALUES, RIGHT), TypeError, "square"),
        (lambda: linalg.cg(POSITIVE, RIGHT, np.zeros(5)), ValueError, "same shapes"),
        (lambda: linalg.cg(POSITIVE, RIGHT, (RIGHT,)), ValueError, "one structure"),
        (lambda: linalg.gmres(POSITIVE, RIGHT, solve_method="best"), ValueError, "solve_method"),
        (lambda: interpolate.RegularGridInterpolator(GRID, VALUES, "cubic"), ValueError, "method"),
        (lambda: interpolate.RegularGridInterpolator(GRID, VALUES, bounds_error=True),
         NotImplementedError, "fill_value"),
        (lambda: interpolate.RegularGridInterpolator(GRID, VALUES.T), ValueError, "points"),
        (lambda: interpolate.RegularGridInterpolator(GRID, VALUES)(RIGHT), ValueError, "end with"),
        (lambda: cluster.vq.vq(VALUES, MATRIX), ValueError, "columns"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()

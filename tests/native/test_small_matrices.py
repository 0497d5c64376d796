"""Many small matrices, by kernels that take one in each lane or by LAPACK, against NumPy's."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
import weft.scipy.linalg
from weft.core.config import options


def within(got, expected, a, factor=4):
    """Compare matrix by matrix, to a few roundings times the condition number."""
    rounding = np.finfo(a.dtype).eps * np.linalg.cond(a.astype(np.float64))
    error = np.abs(np.asarray(got, np.float64) - expected).max((-2, -1))
    assert (error <= factor * rounding * np.abs(expected).max((-2, -1))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(50, 2), (700, 3), (3, 41, 4), (33, 7), (100, 8), (40, 9)], ids=str
)
def test_inverses_solutions_and_their_derivatives(shape, dtype, rng):
    with options["enable_x64"](True):
        n = shape[-1]
        a = rng.standard_normal((*shape, n)).astype(dtype)
        b = rng.standard_normal((*shape, 3)).astype(dtype)
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        within(weft.jit(wnp.linalg.inv)(a), np.linalg.inv(wide_a), a)
        x = np.linalg.solve(wide_a, wide_b)
        within(weft.jit(wnp.linalg.solve)(a, b), x, a)
        grad = weft.jit(weft.grad(lambda b: wnp.linalg.solve(a, b).sum()))(b)
        transposed = wide_a.swapaxes(-1, -2)
        within(grad, np.linalg.solve(transposed, np.ones_like(wide_b)), a)
        np.testing.assert_allclose(
            wnp.linalg.det(a), np.linalg.det(wide_a), rtol=1e4 * np.finfo(dtype).eps, atol=1e-4
        )


def test_rows_are_exchanged_for_the_greatest_pivot(rng):
    a = rng.integers(-3, 4, (500, 5, 5)).astype(np.float32)
    packed, pivots, permutation = weft.jit(weft.lax.linalg.lu)(a)
    rows = np.take_along_axis(a, np.asarray(permutation)[..., None], -2)
    lower = np.tril(packed, -1) + np.eye(5)
    np.testing.assert_allclose(lower @ np.triu(packed), rows, atol=1e-5)
    assert np.abs(np.tril(packed, -1)).max() <= 1
    swapped = np.tile(np.arange(5), (500, 1))
    for k in range(5):
        for order, other in zip(swapped, np.asarray(pivots)[:, k], strict=True):
            order[[k, other]] = order[[other, k]]
    np.testing.assert_array_equal(permutation, swapped)


def test_singular_matrices_have_factors_and_no_finite_inverse():
    a = np.ones((64, 3, 3), np.float32)
    packed, _, _ = weft.jit(weft.lax.linalg.lu)(a)
    np.testing.assert_array_equal(packed, np.tile([[1, 1, 1], [1, 0, 0], [1, 0, 0]], (64, 1, 1)))
    assert not np.isfinite(weft.jit(wnp.linalg.inv)(a)).any(axis=(1, 2)).all()
    np.testing.assert_array_equal(wnp.linalg.det(a), np.zeros(64))


def test_batches_of_batches_and_shards(rng):
    a = rng.standard_normal((64, 40, 3, 3)).astype(np.float32)
    expected = np.linalg.inv(a.astype(np.float64))
    within(weft.jit(weft.vmap(wnp.linalg.inv))(a), expected, a)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    placed = weft.device_put(a, weft.sharding.NamedSharding(mesh, weft.P("x")))
    within(weft.jit(wnp.linalg.inv)(placed), expected, a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        ("bij,bjk->bik", ((101, 4, 4), (101, 4, 4))),
        ("bij,bkj->bik", ((77, 3, 8), (77, 5, 8))),
        ("bji,bjk->bki", ((200, 6, 2), (200, 6, 7))),
        ("abij,bajk->abik", ((9, 8, 4, 3), (8, 9, 3, 6))),
        ("ibj,jb->bi", ((4, 150, 4), (4, 150))),
        ("bij,bj->bi", ((333, 1, 8), (333, 8))),
        ("bj,bj->b", ((513, 4), (513, 4))),
        ("bi,bj->bij", ((99, 4), (99, 5))),
    ],
)
def test_products_of_many_small_matrices(formula, shapes, dtype, rng):
    x, y = (rng.standard_normal(s).astype(dtype) for s in shapes)
    x.flat[5], x.flat[40], y.flat[70] = np.inf, np.nan, -np.inf
    with weft.enable_x64(dtype == np.float64):
        product = weft.jit(lambda x, y: wnp.einsum(formula, x, y))
        with np.errstate(invalid="ignore"):
            want = np.einsum(formula, x, y)
            np.testing.assert_allclose(product(x, y), want, rtol=1e-4, atol=1e-5)
            exps = weft.jit(lambda x, y: wnp.einsum(formula, wnp.sin(x), y + 1) * 2)
            want = 2 * np.einsum(formula, np.sin(x), y + 1)
            np.testing.assert_allclose(exps(x, y), want, rtol=1e-4, atol=1e-5)
        x, y = (rng.standard_normal(s).astype(dtype) for s in shapes)
        cotangent = rng.standard_normal(want.shape).astype(dtype)
        gradient = weft.jit(weft.grad(lambda x: (wnp.einsum(formula, x, y) * cotangent).sum()))(x)
        direction = rng.standard_normal(x.shape).astype(dtype)
        change = (np.einsum(formula, direction, y) * cotangent).sum()
        np.testing.assert_allclose((gradient * direction).sum(), change, rtol=1e-3, atol=1e-2)


def test_products_of_small_matrices_of_shards_and_of_batches(rng):
    x, y = rng.standard_normal((2, 160, 4, 8)).astype(np.float32), rng.standard_normal((160, 8, 4))
    y = y.astype(np.float32)
    got = weft.jit(weft.vmap(lambda x: x @ y))(x)
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-5)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, None, "x")):
        placed = weft.device_put(x[0], weft.NamedSharding(mesh, spec))
        got = weft.jit(lambda x, y: x @ y)(placed, y)
        np.testing.assert_allclose(got, x[0] @ y, rtol=1e-4, atol=1e-5)

"""The scatter family: values, modes, derivatives and batching against NumPy."""

import numpy as np
import pytest

import weft
from weft import lax

D = lax.ScatterDimensionNumbers((), (0,), (0,))
ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
X = np.array([1.5, -2.0, 3.0, 0.5], np.float32)
I = np.array([2, 0, 2])  # one index repeats
U = np.array([2.0, -1.0, 4.0], np.float32)
UFUNCS = {
    "scatter_add": np.add,
    "scatter_sub": np.subtract,
    "scatter_mul": np.multiply,
    "scatter_min": np.minimum,
    "scatter_max": np.maximum,
}


def scattered(name, x, i, u):
    out = np.array(x)
    UFUNCS[name].at(out, i, u)
    return out


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_updates_combine_as_numpys_ufunc_at(name, dtype):
    x, u = (weft.numpy.asarray(a).astype(dtype) for a in (X, U))
    out = np.asarray(getattr(lax, name)(x, I[:, None], u, D)).astype(np.float32)
    expected = scattered(name, np.asarray(x).astype(np.float32), I, np.asarray(u, np.float32))
    np.testing.assert_array_equal(out, expected)


def test_scatter_replaces_and_any_one_of_repeated_updates_wins():
    out = np.asarray(lax.scatter(X, np.array([[3], [1]]), U[:2], D))
    np.testing.assert_array_equal(out, [1.5, -1.0, 3.0, 2.0])
    assert np.asarray(lax.scatter(X, I[:, None], U, D))[2] in (2.0, 4.0)


def test_updates_out_of_bounds_are_dropped_or_clipped():
    i = np.array([[9], [-1], [1]])
    np.testing.assert_array_equal(lax.scatter_add(X, i, U, D), [1.5, 2.0, 3.0, 0.5])
    clipped = lax.scatter_add(X, i, U, D, mode="clip")
    np.testing.assert_array_equal(clipped, [0.5, 2.0, 3.0, 2.5])


def test_windows_and_batching_dimensions():
    x = np.zeros((3, 4), np.float32)
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = x.copy()
    expected[[2, 0]] = rows
    np.testing.assert_array_equal(lax.scatter(x, np.array([[2], [0]]), rows, ROWS), expected)
    batched = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
    index = np.array([[1], [3], [0]])
    expected = x.copy()
    np.put_along_axis(expected, index, 5, 1)
    u = np.full((3, 1), 5, np.float32)
    np.testing.assert_array_equal(lax.scatter(x, index[..., None], u, batched), expected)


# Derivatives --------------------------------------------------------------------------------------

FUNCTIONS = {
    name: (lambda f: lambda x, u, i: f(x, i[:, None], u, D))(getattr(lax, name))
    for name in (*UFUNCS, "scatter")
}


def smooth(name):
    """A scalar function with curvature in all elements."""
    w = np.array([0.3, -0.7, 1.1, 0.4], np.float32)
    return lambda x, u, i: (FUNCTIONS[name](x, u, i) ** 3 * w).sum()


def central(f, x, step=1e-2):
    """Central differences of a function to arrays, along each element of x."""
    columns = []
    for k in range(x.size):
        e = np.zeros(x.size, np.float32)
        e[k] = step
        e = e.reshape(x.shape)
        columns.append((np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * step))
    return np.stack(columns, -1)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "indices", [np.array([2, 0, 2]), np.array([3, 9, 1])], ids=["twice", "oob"]
)
def test_first_and_second_derivatives_equal_central_differences(name, indices):
    f = smooth(name)
    gradient = weft.jit(weft.grad(f, argnums=(0, 1)))
    value = weft.jit(f)
    gx, gu = gradient(X, U, indices)
    close = dict(rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(gx, central(lambda x: value(x, U, indices), X), **close)
    np.testing.assert_allclose(gu, central(lambda u: value(X, u, indices), U), **close)
    hessian = weft.jit(weft.jacfwd(weft.grad(f, argnums=(0, 1)), argnums=(0, 1)))
    (xx, xu), (ux, uu) = hessian(X, U, indices)
    close = dict(rtol=2e-2, atol=5e-2)
    np.testing.assert_allclose(xx, central(lambda x: gradient(x, U, indices)[0], X), **close)
    np.testing.assert_allclose(xu, central(lambda u: gradient(X, u, indices)[0], U), **close)
    np.testing.assert_allclose(ux, central(lambda x: gradient(x, U, indices)[1], X), **close)
    np.testing.assert_allclose(uu, central(lambda u: gradient(X, u, indices)[1], U), **close)


def test_forward_and_reverse_mode_agree():
    t = (X * 0.5, U + 1)
    for name in FUNCTIONS:
        g = smooth(name)
        f = lambda x, u, g=g: g(x, u, I)
        _, forward = weft.jvp(f, (X, U), t)
        gx, gu = weft.grad(f, argnums=(0, 1))(X, U)
        np.testing.assert_allclose(forward, (gx * t[0]).sum() + (gu * t[1]).sum(), rtol=1e-4)


def test_the_winner_of_a_repeated_set_gets_the_whole_gradient():
    f = lambda u: lax.scatter(X, I[:, None], u, D)
    out = np.asarray(f(U))
    gradient = np.asarray(weft.grad(lambda u: f(u).sum())(U))
    assert gradient[1] == 1 and sorted(gradient[[0, 2]]) == [0, 1]
    assert out[2] == U[[0, 2]][gradient[[0, 2]] == 1]


def test_products_with_zero_factors_have_exact_gradients():
    u = np.array([0.0, 3.0, 5.0, 0.0], np.float32)
    i = np.array([[1], [1], [2], [3]])
    gradient = weft.grad(lambda u: lax.scatter_mul(np.ones(4, np.float32), i, u, D).sum())(u)
    np.testing.assert_array_equal(gradient, [3.0, 0.0, 1.0, 1.0])


def test_equal_extrema_share_the_gradient():
    x = np.array([1.0, 1.0], np.float32)
    u = np.array([1.0, 1.0, 0.0], np.float32)
    i = np.array([[0], [0], [1]])
    gx, gu = weft.grad(lambda x, u: lax.scatter_max(x, i, u, D).sum(), argnums=(0, 1))(x, u)
    np.testing.assert_allclose(gx, [1 / 3, 1.0])
    np.testing.assert_allclose(gu, [1 / 3, 1 / 3, 0.0])


# Batching -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (1, 1, 1)])
@pytest.mark.parametrize("name", ["scatter_add", "scatter_mul", "scatter_max"])
def test_batching_over_each_operand(name, axes):
    bases = (X, U, I)
    stacks = [np.stack([b, b + 1, b * 0], 0) for b in bases]
    args = [
        b if a is None else np.moveaxis(s, 0, a)
        for a, b, s in zip(axes, bases, stacks, strict=True)
    ]
    f = lambda x, u, i: FUNCTIONS[name](x, u, i)
    out = weft.vmap(f, in_axes=axes)(*args)
    for k in range(3):
        x, u, i = (b if a is None else s[k] for a, b, s in zip(axes, bases, stacks, strict=True))
        np.testing.assert_array_equal(out[k], scattered(name, x, i, u))


def test_the_gradient_of_a_batch_is_the_batch_of_gradients():
    xs = np.stack([X, X + 1])
    indices = np.stack([I, I - 1])
    f = lambda x, i: (lax.scatter_add(x, i[:, None], U, D) ** 2).sum()
    out = weft.vmap(weft.grad(f))(xs, indices)
    for k in range(2):
        expected = 2 * scattered("scatter_add", xs[k], indices[k] % 4, U)
        if (indices[k] < 0).any():  # dropped
            keep = indices[k] >= 0
            expected = 2 * scattered("scatter_add", xs[k], indices[k][keep], U[keep])
        np.testing.assert_allclose(out[k], expected, rtol=1e-6)


# scatter_apply ------------------------------------------------------------------------------------


def applied(x, i, func, **options):
    return lax.scatter_apply(x, i[:, None], func, D, update_shape=i.shape, **options)


def test_apply_runs_once_for_each_occurrence():
    out = applied(X, I, lambda v: v * v)
    np.testing.assert_allclose(out, [2.25, -2.0, 81.0, 0.5])


def test_apply_closes_over_scalars_and_differentiates_in_them():
    f = lambda x, c: applied(x, I, lambda v: v * c + 1).sum()
    gx, gc = weft.grad(f, argnums=(0, 1))(X, np.float32(3.0))
    np.testing.assert_allclose(gx, [3.0, 1.0, 9.0, 1.0])
    np.testing.assert_allclose(gc, X[0] + (2 * 3 * X[2] + 1))


def test_apply_has_first_and_second_derivatives():
    f = lambda x: applied(x, I, lambda v: v * v * 0.5).sum()
    np.testing.assert_allclose(weft.grad(f)(X), [X[0], 1, X[2] ** 3 / 2, 1], rtol=1e-5)
    hessian = weft.jacfwd(weft.grad(f))(X)
    np.testing.assert_allclose(hessian, np.diag([1, 0, 1.5 * X[2] ** 2, 0]), rtol=1e-5)


def test_apply_batches():
    out = weft.vmap(lambda x, i: applied(x, i, lambda v: v + 1))(np.stack([X, X]), np.stack([I, I]))
    expected = X + np.array([1, 0, 2, 0])
    np.testing.assert_allclose(out, [expected, expected])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lax.scatter(X, I[:, None], U.astype(np.int32), D), "the same dtype"),
        (lambda: lax.scatter(X, I[:, None].astype(float), U, D), "must be integers"),
        (lambda: lax.scatter(X, I[:, None], U[:2], D), "the dimensions"),
        (lambda: lax.scatter(X, I, U, D), "component"),
        (lambda: applied(X, I, lambda v: v * X), "scalar to a scalar"),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(TypeError, match=words):
        call()

"""Decompositions and Fourier transforms in native kernels, against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.pallas import triton_machine
from weft import pallas as pl
from weft.lax import linalg

DTYPES = ["float32", "complex64"]
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def native(f, *args):
    """f of whole arrays, in a native kernel."""
    leaves, tree = weft.tree.flatten(weft.eval_shape(f, *args))

    def kernel(*refs):
        results = weft.tree.leaves(f(*(r[...] for r in refs[: len(args)])))
        for out, value in zip(refs[len(args) :], results, strict=True):
            out[...] = value

    outs = pl.pallas_call(kernel, [weft.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves])(*args)
    return weft.tree.unflatten(tree, [np.asarray(x) for x in outs])


def draw(rng, *shape, dtype="float32"):
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(got, want, tolerance=3e-5):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@dtypes
def test_cholesky_of_a_stack_of_matrices(dtype, rng):
    a = draw(rng, 3, 6, 6, dtype=dtype)
    a = (a @ adjoint(a) + 2 * np.eye(6)).astype(dtype)
    close(native(jnp.linalg.cholesky, a), np.linalg.cholesky(a))


def test_cholesky_of_an_indefinite_matrix_is_nan():
    got = native(jnp.linalg.cholesky, np.diag([1, -1, 1]).astype("float32"))
    assert np.isnan(np.tril(got)[np.tril_indices(3)]).all()


@dtypes
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_triangular_systems_of_every_form(dtype, left, transpose, rng):
    a = (draw(rng, 5, 5, dtype=dtype) + 4 * np.eye(5)).astype(dtype)
    b = draw(rng, *((5, 3) if left else (3, 5)), dtype=dtype)
    for lower in (True, False):
        for unit in (True, False):
            x = native(
                lambda a, b, lower=lower, unit=unit: linalg.triangular_solve(
                    a,
                    b,
                    left_side=left,
                    lower=lower,
                    transpose_a=transpose,
                    conjugate_a=transpose,
                    unit_diagonal=unit,
                ),
                a,
                b,
            )
            t = np.tril(a) if lower else np.triu(a)
            if unit:
                np.fill_diagonal(t, 1)
            t = adjoint(t) if transpose else t
            close(t @ x if left else x @ t, b, 1e-3)


@dtypes
@pytest.mark.parametrize("shape", [(6, 6), (4, 7), (7, 4)])
def test_lu_and_qr_multiply_to_the_matrix(dtype, shape, rng):
    a, k = draw(rng, *shape, dtype=dtype), min(shape)
    packed, pivots, permutation = native(linalg.lu, a)
    lower = np.tril(packed, -1)[:, :k] + np.eye(shape[0], k)
    assert np.abs(lower).max() < 1 + 1e-6
    close(lower @ np.triu(packed)[:k], a[permutation])
    order = np.arange(shape[0])
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    np.testing.assert_array_equal(permutation, order)
    for full in (True, False):
        q, r = native(lambda a, full=full: linalg.qr(a, full_matrices=full), a)
        close(q @ r, a)
        close(adjoint(q) @ q, np.eye(q.shape[1]))
        close(np.tril(r, -1), 0)


@dtypes
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_eigenvectors_of_hermitian_matrices(dtype, n, rng):
    a = draw(rng, n, n, dtype=dtype)
    a = a + adjoint(a)
    v, w = native(linalg.eigh, a)
    close(w, np.linalg.eigvalsh(a), 1e-4)
    close(a @ v, v * w, 1e-4)
    close(adjoint(v) @ v, np.eye(n))


@dtypes
@pytest.mark.parametrize("shape", [(6, 6), (3, 5), (5, 2), (1, 3)])
def test_singular_values_of_full_and_deficient_matrices(dtype, shape, rng):
    a = draw(rng, *shape, dtype=dtype)
    if shape == (6, 6):
        a[:, 3], a[:, 5] = a[:, 2], 0
    k = min(shape)
    for full in (True, False):
        u, s, vh = native(lambda a, full=full: linalg.svd(a, full_matrices=full), a)
        close(s, np.linalg.svd(a, compute_uv=False))
        close(u[:, :k] * s @ vh[:k], a)
        close(adjoint(u) @ u, np.eye(u.shape[1]))
        close(vh @ adjoint(vh), np.eye(vh.shape[0]))


def test_what_is_made_of_decompositions(rng):
    a, b = draw(rng, 5, 5), draw(rng, 5, 2)
    close(native(jnp.linalg.inv, a), np.linalg.inv(a), 1e-3)
    close(native(jnp.linalg.solve, a, b), np.linalg.solve(a, b), 1e-3)
    close(native(jnp.linalg.det, a), np.linalg.det(a), 1e-3)


def test_systems_with_the_transposed_matrix_and_nan(rng):
    a, b = draw(rng, 5, 5), draw(rng, 5)
    grad = native(weft.grad(lambda b: jnp.linalg.solve(a, b).sum()), b)
    close(grad, np.linalg.solve(a.T, np.ones(5)), 1e-3)
    v, w = native(linalg.eigh, np.full((3, 3), np.nan, "float32"))
    assert np.isnan(v).all() and np.isnan(w).all()


@pytest.mark.parametrize("n", [1, 2, 7, 16, 30, 64, 97, 256])
def test_transforms_of_powers_of_two_products_and_primes(n, rng):
    x, y = draw(rng, 3, n, dtype="complex64"), draw(rng, 3, n)

    def f(x, y):
        spectrum = jnp.fft.rfft(y)
        return jnp.fft.fft(x), jnp.fft.ifft(x), spectrum, jnp.fft.irfft(spectrum, n)

    want = np.fft.fft(x), np.fft.ifft(x), np.fft.rfft(y), y
    for g, w in zip(native(f, x, y), want, strict=True):
        close(g, w, 1e-4)


def test_transforms_of_several_dimensions_and_double_precision(rng):
    x = draw(rng, 6, 5, 8)
    got = native(lambda x: (jnp.fft.fftn(x), jnp.fft.rfftn(x)), x)
    close(got[0], np.fft.fftn(x), 1e-4)
    close(got[1], np.fft.rfftn(x), 1e-4)
    with weft.enable_x64(True):
        y = rng.normal(size=(2, 48))
        close(native(jnp.fft.fft, y), np.fft.fft(y), 1e-12)


def test_a_grid_of_kernels_solves_a_system_each(rng):
    a = draw(rng, 6, 4, 4) + 4 * np.eye(4, dtype="float32")
    b = draw(rng, 6, 4)

    def kernel(a, b, out):
        out[...] = jnp.linalg.solve(a[...], b[...])

    got = pl.pallas_call(
        kernel,
        weft.ShapeDtypeStruct((6, 4), "float32"),
        grid=6,
        in_specs=[
            pl.BlockSpec((None, 4, 4), lambda i: (i, 0, 0)),
            pl.BlockSpec((None, 4), lambda i: (i, 0)),
        ],
        out_specs=pl.BlockSpec((None, 4), lambda i: (i, 0)),
    )(a, b)
    close(got, np.linalg.solve(a, b[..., None])[..., 0], 1e-3)


def test_the_gpus_ir_decomposes_real_matrices(rng):
    a, b = draw(rng, 6, 6), draw(rng, 6, 2)
    p, s = a @ a.T + 2 * np.eye(6, dtype="float32"), a + a.T

    def on_gpu(f, *args):
        leaves = weft.tree.leaves(weft.eval_shape(f, *args))

        def kernel(*refs):
            results = weft.tree.leaves(f(*(r[...] for r in refs[: len(args)])))
            for out, value in zip(refs[len(args) :], results, strict=True):
                out[...] = value

        call = pl.pallas_call(kernel, [weft.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves])
        (eqn,) = weft.make_jaxpr(call)(*args).eqns
        return triton_machine.run(eqn.params["call"], *args)

    close(on_gpu(jnp.linalg.cholesky, p)[0], np.linalg.cholesky(p))
    close(on_gpu(jnp.linalg.solve, p, b)[0], np.linalg.solve(p, b), 1e-3)
    packed, _, permutation = on_gpu(linalg.lu, a)
    close((np.tril(packed, -1) + np.eye(6)) @ np.triu(packed), a[permutation])
    q, r = on_gpu(linalg.qr, a)
    close(q @ r, a)
    v, w = on_gpu(linalg.eigh, s)
    close(s @ v, v * w, 1e-4)
    u, d, vh = on_gpu(linalg.svd, a)
    close(u * d @ vh, a)

"""Decompositions of small matrices on one thread, against NumPy."""

import ctypes
import threading

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.native.lapack import _openblas

CASES = {
    "cholesky": (wnp.linalg.cholesky, np.linalg.cholesky),
    "inv": (wnp.linalg.inv, np.linalg.inv),
    "det": (lambda x: wnp.linalg.slogdet(x)[1], lambda x: np.linalg.slogdet(x)[1]),
    "eigenvalues": (wnp.linalg.eigvalsh, np.linalg.eigvalsh),
    "singular values": (
        lambda x: wnp.linalg.svd(x, compute_uv=False),
        lambda x: np.linalg.svd(x, compute_uv=False),
    ),
    "qr": (lambda x: abs(wnp.linalg.qr(x)[1]), lambda x: abs(np.linalg.qr(x)[1])),
}


def definite(rng, *shape):
    x = rng.standard_normal((*shape, shape[-1])).astype(np.float32)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)


@pytest.mark.parametrize("shape", [(60,), (3, 50), (230,)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_decompositions_of_small_matrices(name, shape, rng):
    x = definite(rng, *shape)
    ours, reference = CASES[name]
    compiled = weft.jit(ours).lower(x).compile()
    assert "weft_native_lapack" in compiled.as_text()
    expected = reference(x.astype(np.float64))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-3, atol=1e-5 * scale)
    with options["native_ops"](False):
        assert "weft_native" not in weft.jit(ours).lower(x).compile().as_text()


def test_large_matrices_are_left_to_all_threads():
    x = np.zeros((1100, 1100), np.float32)
    compiled = weft.jit(wnp.linalg.cholesky).lower(x).compile()
    assert "weft_native" not in compiled.as_text()


def test_a_matrix_that_is_not_definite_is_nan():
    x = -np.eye(100, dtype=np.float32)
    assert np.isnan(np.asarray(wnp.linalg.cholesky(x))).any()


def test_calls_at_once_leave_the_number_of_threads_as_it_was(rng):
    addresses = _openblas()
    count = ctypes.CFUNCTYPE(ctypes.c_int)(addresses["openblas_threads"])
    change = ctypes.CFUNCTYPE(None, ctypes.c_int)(addresses["set_openblas_threads"])
    before = count()
    change(2)
    try:
        x = definite(rng, 64)
        solve = weft.jit(wnp.linalg.inv)
        outs = []
        workers = [
            threading.Thread(target=lambda: outs.extend(solve(x) for _ in range(50)))
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for out in outs:
            np.testing.assert_allclose(out, np.linalg.inv(x), rtol=1e-3, atol=1e-6)
        assert count() == 2
    finally:
        change(before)


def test_derivatives_and_shards_of_them(rng):
    x = definite(rng, 8, 50)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    placed = weft.device_put(x, weft.NamedSharding(mesh, weft.P("x")))
    out = weft.jit(wnp.linalg.inv)(placed)
    np.testing.assert_allclose(out, np.linalg.inv(x), rtol=1e-3, atol=1e-6)
    grad = weft.jit(weft.grad(lambda x: wnp.linalg.slogdet(x)[1].sum()))(placed)
    expected = np.swapaxes(np.linalg.inv(x), -1, -2)
    np.testing.assert_allclose(grad, expected, rtol=1e-3, atol=1e-6)

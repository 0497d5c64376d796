"""Every numeric primitive compiles for TPUs; decompositions are XLA's own or made of them."""

import re

import numpy as np
import pytest

import weft
from tests.gpu_machine import placed, topology
from tests.ops.test_gpu import halved
from tests.ops.test_table import TABLES
from weft.lax import linalg
from weft.ops.linalg.tpu import multiply_by_q, svd_by_polar
from weft.runtime import backend, compile

pytestmark = pytest.mark.accelerators

CPU_ONLY = {"schur", "hessenberg", "eig", "tridiagonal"}


def mesh():
    return weft.sharding.Mesh(np.array(topology("v5e:2x2").devices[:1]), ("x",))


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.__name__.rpartition("_")[2])
def test_the_ops_of_a_table_compile_in_one_program(table):
    cases = [c for c in table.CASES if c.op not in CPU_ONLY and c.name != "pivoting"]

    def everything(args):
        return [case.fun(*xs) for case, xs in zip(cases, args, strict=True)]

    args = [tuple(placed(halved(x), mesh()) for x in c.args) for c in cases]
    text = weft.jit(everything).lower(args).compile().as_text()
    assert text.count("parameter(") >= sum(len(c.args) for c in cases)


def run_here(function, *args):
    """What the program for TPUs gives on the CPU, where XLA expands the same calls."""
    text = weft.jit(function).lower(*(placed(x, mesh()) for x in args)).as_text()
    program = compile.compile_module(text, backend.devices()[:1])
    arrays = [weft.device_put(x, backend.devices()[0]) for x in args]
    results = program.xla.execute_sharded(arrays).disassemble_into_single_device_arrays()
    return [np.asarray(out) for (out,) in results]


def check(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def matrix(*shape, dtype="c8"):
    rng = np.random.default_rng(sum(shape))
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def h(x):
    return np.swapaxes(x.conj(), -1, -2)


def test_cholesky_is_xlas_own():
    x = matrix(3, 4, 4)
    x = x @ h(x)
    check(run_here(linalg.cholesky, x)[0], np.linalg.cholesky(x))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_qr_is_made_of_xlas_reflectors(shape):
    x = matrix(*shape)
    for full in (False, True):
        q, r = run_here(lambda x, full=full: linalg.qr(x, full_matrices=full), x)
        check(q @ r, x)
        check(h(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)))
        check(np.tril(r, -1), np.zeros_like(r))


@pytest.mark.parametrize("lower", [False, True])
def test_eigenvectors_come_before_ascending_eigenvalues(lower):
    x = matrix(2, 5, 5)
    x = x + h(x)
    half = np.tril(x) if lower else np.triu(x)
    options = {"lower": lower, "symmetrize_input": False}
    v, w = run_here(lambda x: linalg.eigh(x, **options), half)
    check(w, np.linalg.eigvalsh(x))
    check(x @ v, v * w[..., None, :])


def test_lu_is_a_call_of_xlas():
    text = weft.jit(linalg.lu).lower(placed(matrix(2, 4, 3), mesh())).as_text()
    assert re.search(r"custom_call @LuDecomposition.*2x4x3xcomplex.*2x3xi32.*2x4xi32", text)


def test_tridiagonal_systems_are_solved_row_by_row():
    d, b = matrix(5) + 4, matrix(5, 2)
    low, up = matrix(5), matrix(5)
    low[0] = up[-1] = 0
    whole = np.diag(d) + np.diag(low[1:], -1) + np.diag(up[:-1], 1)
    check(run_here(linalg.tridiagonal_solve, low, d, up, b)[0], np.linalg.solve(whole, b))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_products_with_q_form_all_of_it(left, transpose):
    x = matrix(4, 3)
    a, taus = map(np.asarray, linalg.geqrf(x))
    q = np.eye(4)
    for k, tau in enumerate(taus):
        v = np.r_[np.zeros(k), 1, a[k + 1 :, k]][:, None]
        q = q @ (np.eye(4) - tau * v @ h(v))
    q = h(q) if transpose else q
    c = matrix(4, 2) if left else matrix(2, 4)
    check(multiply_by_q(a, taus, c, left, transpose), q @ c if left else c @ q)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (5, 5), (2, 6, 4), (7, 1), (1, 1)])
@pytest.mark.parametrize("rank", [None, 1, 0])
def test_singular_values_by_the_polar_form(shape, rank):
    x = matrix(*shape)
    if rank is not None:
        x = x[..., :1] * x[..., :1, :] * np.float32(rank)
    for full in (False, True):
        s, u, vh = map(np.asarray, svd_by_polar(x, full, True))
        k = s.shape[-1]
        check(s, np.linalg.svd(x, compute_uv=False))
        check((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
        for side in (u, h(vh)):
            check(h(side) @ side, np.eye(side.shape[-1]) + np.zeros((*shape[:-2], 1, 1)))


def test_what_has_no_counterpart_says_so():
    for function in (linalg.eig, linalg.schur, lambda x: linalg.qr(x, pivoting=True)):
        with pytest.raises(TypeError, match="no counterpart on tpu; compute it on the CPU"):
            weft.jit(function).lower(placed(matrix(3, 3), mesh()))

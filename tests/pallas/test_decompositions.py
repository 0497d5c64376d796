"""Decompositions and Fourier transforms inside of kernels: refused natively, interpreted."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.pallas import triton_machine
from weft import pallas as pl
from weft.lax import linalg

MATRIX = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]], np.float32)
CASES = {
    "cholesky": (jnp.linalg.cholesky, np.linalg.cholesky),
    "eigh": (lambda a: linalg.eigh(a)[1], np.linalg.eigvalsh),
    "fft": (lambda a: jnp.fft.fft(a).real, lambda a: np.fft.fft(a).real),
    "lu": (lambda a: jnp.abs(jnp.diag(linalg.lu(a)[0])).prod()[None], lambda a: [np.linalg.det(a)]),
    "qr": (lambda a: jnp.abs(linalg.qr(a)[1]), lambda a: np.abs(np.linalg.qr(a)[1])),
    "svd": (lambda a: linalg.svd(a)[1], lambda a: np.linalg.svd(a)[1]),
    "triangular_solve": (
        lambda a: linalg.triangular_solve(a, jnp.eye(3), left_side=True, lower=True),
        lambda a: np.linalg.inv(np.tril(a)),
    ),
    "solve": (lambda a: jnp.linalg.solve(a, jnp.ones(3)), lambda a: np.linalg.solve(a, np.ones(3))),
}


def kernel_of(function, **options):
    def kernel(a, out):
        out[...] = function(a[...])

    return pl.pallas_call(kernel, weft.eval_shape(function, MATRIX), **options)


@pytest.mark.parametrize("name", CASES)
def test_native_kernels_refuse_them_with_the_line_and_the_remedy(name):
    call = kernel_of(CASES[name][0])
    with pytest.raises(TypeError, match=r"test_decompositions.*not supported by the CPU .*outside"):
        call(MATRIX)
    (eqn,) = weft.make_jaxpr(call)(MATRIX).eqns
    with pytest.raises(TypeError, match=r"test_decompositions.*not supported by the .*outside"):
        triton_machine.run(eqn.params["call"], MATRIX)


@pytest.mark.parametrize("name", CASES)
def test_interpreted_kernels_compute_them(name):
    function, reference = CASES[name]
    got = kernel_of(function, interpret=True)(MATRIX)
    np.testing.assert_allclose(got, reference(MATRIX), rtol=1e-4, atol=1e-5)

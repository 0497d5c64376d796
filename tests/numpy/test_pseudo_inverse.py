"""The pseudo-inverse: derivatives where singular values are equal or zero, against differences."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.jaxpr import subjaxprs

WIDE = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0]])
MATRICES = {
    "one": np.eye(3),
    "repeated": np.diag([1.0, 1.0, 2.0]),
    "wide": WIDE,
    "tall": WIDE.T,
    "complex": np.array([[1 + 1j, 2, 0.5j], [0.3, -1j, 2]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_the_derivative_is_that_of_differences(name):
    a = MATRICES[name]
    t = np.arange(a.size).reshape(a.shape)[::-1] * (0.1 if name != "complex" else 0.1 + 0.2j)
    with weft.enable_x64(True):
        value, got = weft.jvp(wnp.linalg.pinv, (a,), (t.astype(a.dtype),))
    np.testing.assert_allclose(value, np.linalg.pinv(a), rtol=1e-9, atol=1e-12)
    h = 1e-6
    want = (np.linalg.pinv(a + h * t) - np.linalg.pinv(a - h * t)) / (2 * h)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


def test_where_the_rank_stays_the_derivative_does_too():
    a = np.outer([1.0, 2.0, 3.0], [1.0, 0.5, -1.0])
    scaled = lambda c: wnp.linalg.pinv(c * a)
    with weft.enable_x64(True):
        got = weft.jacrev(scaled)(2.0)
    np.testing.assert_allclose(got, -np.linalg.pinv(a) / 4, rtol=1e-9, atol=1e-12)


def test_a_batch_has_cutoffs_of_its_own():
    a = np.stack([np.diag([1.0, 0.3]), np.diag([1.0, 0.3])]).astype(np.float32)
    got = wnp.linalg.pinv(a, rtol=np.array([0.1, 0.5], np.float32))
    np.testing.assert_allclose(got, np.linalg.pinv(a, rcond=np.array([0.1, 0.5])), rtol=1e-6)


@pytest.mark.parametrize("shape", [(300, 2), (2, 300), (5, 300, 2)])
def test_gradients_grow_with_the_long_side_not_with_its_square(shape):
    def total(a):
        return (wnp.linalg.pinv(a) ** 2).sum()

    def largest(jaxpr):
        sizes = [v.aval.size for e in jaxpr.eqns for v in e.outvars]
        return max(sizes + [largest(j) for e in jaxpr.eqns for _, j in subjaxprs(e.params)])

    like = weft.ShapeDtypeStruct(shape, np.float32)
    for f in (weft.grad(total), lambda a: weft.jvp(total, (a,), (a,))[1]):
        assert largest(weft.make_jaxpr(f)(like)) <= 4 * np.prod(shape)

"""Cumulative ops against NumPy's accumulate."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

X = np.random.default_rng(2).standard_normal((3, 7))
X[1, 2] = 0.0  # a product's derivative there is that of the others
OPS = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}


def case(op, axis, reverse):
    def ref(x):
        x = np.flip(x, axis) if reverse else x
        out = OPS[op].accumulate(x, axis)
        return np.flip(out, axis) if reverse else out

    return Case(
        op,
        lambda x: getattr(lax, op)(x, axis, reverse),
        ref,
        (X,),
        (0,),
        f"axis {axis}" + " reverse" * reverse,
    )


CASES = [case(op, axis, reverse) for op in OPS for axis, reverse in ((1, False), (0, True))]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_infinities_pass_through_cumlogsumexp():
    x = np.float32([-np.inf, 0, np.inf, 1])
    np.testing.assert_array_equal(lax.cumlogsumexp(x), [-np.inf, 0, np.inf, np.inf])


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (3, 0)])
def test_short_dimensions_stay_as_they_are(shape):
    x = np.ones(shape, np.float32)
    np.testing.assert_array_equal(lax.cumsum(x, 0), np.cumsum(x, 0))


def test_integers_and_errors():
    np.testing.assert_array_equal(lax.cumprod(np.array([2, 3, 4], np.int32)), [2, 6, 24])
    np.testing.assert_array_equal(lax.cummax(np.array([2, 5, 4], np.uint8)), [2, 5, 5])
    with pytest.raises(ValueError, match="out of bounds"):
        lax.cumsum(X, 2)
    with pytest.raises(TypeError, match="takes float or complex"):
        lax.cumlogsumexp(np.arange(3))


def lexicographic(xs, best):
    return [best(xs[: i + 1], key=lambda z: (z.real, z.imag)) for i in range(len(xs))]


@pytest.mark.parametrize(("op", "best"), [(lax.cummax, max), (lax.cummin, min)])
def test_extrema_of_complex_numbers_are_by_real_then_imaginary_part(op, best):
    z = np.complex64([1 + 2j, 1 - 1j, 1 + 3j, 3, -2 + 9j, 3 - 1j])
    want = np.complex64(lexicographic(z, best))
    np.testing.assert_array_equal(op(z), want)
    np.testing.assert_array_equal(weft.jvp(op, (z,), (1j * z,))[1], 1j * want)


def test_log_sums_of_complex_numbers_have_the_principal_phase():
    z = np.complex64([1 + 2j, 1 - 1j, 3, 2 + 9j])
    want = np.log(np.cumsum(np.exp(z.astype(complex))))
    np.testing.assert_allclose(lax.cumlogsumexp(z), want, rtol=1e-5)

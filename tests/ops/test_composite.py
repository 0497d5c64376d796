"""Elementwise ops made of others, against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.ops.numerics import Case, check
from tests.ops.test_elementwise_api import OTHER, POSITIVE, SIGNED
from weft import lax

CASES = [
    Case("one_minus_square", lax.one_minus_square, lambda x: 1 - x * x, (SIGNED,), (0,)),
    Case("log2", wnp.log2, np.log2, (POSITIVE,), (0,)),
    Case("log10", wnp.log10, np.log10, (POSITIVE,), (0,)),
    Case("logaddexp", wnp.logaddexp, np.logaddexp, (SIGNED, OTHER), (0, 1)),
    Case("logaddexp2", wnp.logaddexp2, np.logaddexp2, (SIGNED, OTHER), (0, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_of_infinities_is_numpys(name):
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, 300.0], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(getattr(wnp, name)(x, y), getattr(np, name)(x, y))


def test_the_derivative_of_logaddexp_at_equal_operands_is_a_half():
    grad = weft.grad(wnp.logaddexp, argnums=(0, 1))
    for at in (0.0, np.inf, -np.inf):
        assert [float(g) for g in grad(np.float32(at), np.float32(at))] == [0.5, 0.5]


@pytest.mark.parametrize("phase", [7.0, -50.0, 3e19])
def test_logaddexp_of_large_phases_is_the_logarithm_of_the_sum(phase):
    x, y = np.complex64(0.25 + 1j * phase), np.complex64(-0.5)
    want = np.log(np.exp(x.astype(complex)) + np.exp(y.astype(complex)))
    np.testing.assert_allclose(wnp.logaddexp(x, y), want, rtol=1e-5)


def test_one_minus_square_is_accurate_where_it_is_small():
    x = np.float32([0.25, 1 - 2.0**-24, -1 + 2.0**-20, 1e-5])
    np.testing.assert_allclose(lax.one_minus_square(x), 1 - x.astype(float) ** 2, rtol=2e-7)
    slopes = weft.vmap(weft.grad(lax.one_minus_square))(x)
    np.testing.assert_array_equal(slopes, -2 * x)
    assert int(lax.one_minus_square(3)) == -8


def test_log2_takes_complex_numbers_and_accuracies():
    z = np.complex64([1j, -3 + 4j])
    np.testing.assert_allclose(lax.log2(z), np.log2(z), rtol=1e-6)
    x = np.float32([1.0, 8.0, 10.0])
    got = lax.log2(x, accuracy=lax.AccuracyMode.HIGHEST)
    np.testing.assert_allclose(got, np.log2(x), rtol=1e-6)
    with pytest.raises(TypeError, match="log2.*float"):
        lax.log2(np.int32(8))

"""Cumulative ops against NumPy's accumulate."""

import numpy as np
import pytest

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
    with pytest.raises(TypeError, match="takes float"):
        lax.cumlogsumexp(np.arange(3))

"""Derivatives where they are a convention, or where a careless rule loses them: kinks and ties."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

INF, NAN = np.inf, np.nan
F = np.float32

# name: function, point, derivative
KINKS = {
    "abs at 0 is that from above": (jnp.abs, 0.0, 1.0),
    "abs": (jnp.abs, -2.0, -1.0),
    "sign": (jnp.sign, 0.0, 0.0),
    "floor at an integer": (jnp.floor, 1.0, 0.0),
    "round at a half": (jnp.round, 0.5, 0.0),
    "sqrt at 0": (jnp.sqrt, 0.0, INF),
    "cbrt at 0": (jnp.cbrt, 0.0, INF),
    "log at 0": (jnp.log, 0.0, INF),
    "x**2 at 0": (lambda x: x**2, 0.0, 0.0),
    "x**1 at 0": (lambda x: x**1, 0.0, 1.0),
    "x**0 at 0": (lambda x: x**0, 0.0, 0.0),
    "power(x, 2.0) at 0": (lambda x: jnp.power(x, F(2)), 0.0, 0.0),
    "maximum at a tie": (lambda x: jnp.maximum(x, F(1)), 1.0, 0.5),
    "minimum at a tie": (lambda x: jnp.minimum(x, F(1)), 1.0, 0.5),
    "both sides of a tie": (lambda x: jnp.maximum(x, x), 1.0, 1.0),
    "clip at its end": (lambda x: jnp.clip(x, F(-1), F(1)), 1.0, 0.5),
    "relu at 0": (weft.nn.relu, 0.0, 0.0),
    "mod": (lambda x: jnp.mod(x, F(2)), 4.0, 1.0),
    "mod by x": (lambda y: jnp.mod(F(5), y), 2.0, -2.0),
    "fmod by x": (lambda y: jnp.fmod(F(-5), y), 2.0, 2.0),
    "floor_divide": (lambda x: jnp.floor_divide(x, F(2)), 4.0, 0.0),
    "hypot at the origin": (lambda x: jnp.hypot(x, F(0)), 0.0, 0.5),
    "hypot": (lambda x: jnp.hypot(x, F(4)), 3.0, 0.6),
    "hypot of infinity": (lambda x: jnp.hypot(x, F(INF)), 3.0, 0.0),
    "copysign at 0": (lambda x: jnp.copysign(x, F(-1)), 0.0, -1.0),
    "mantissa": (lambda x: jnp.frexp(x)[0], 3.0, 0.25),
    "mantissa of a large number": (lambda x: jnp.frexp(x)[0] * F(2.0**100), 2.0**100, 0.5),
    "ldexp": (lambda x: jnp.ldexp(x, 2), 3.0, 4.0),
    "spacing": (jnp.spacing, 3.0, 0.0),
    "sinc at 0": (jnp.sinc, 0.0, 0.0),
    "where guards the branch not taken": (
        lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1)), 0),
        -1.0,
        0.0,
    ),
}


@pytest.mark.parametrize("name", KINKS)
def test_first_derivatives_at_kinks(name):
    f, point, want = KINKS[name]
    assert weft.grad(f)(F(point)) == F(want)
    assert weft.jvp(f, (F(point),), (F(1),))[1] == F(want)


SECOND = {
    "hypot on an axis": (lambda x: jnp.hypot(x, F(2)), 0.0, 0.5),
    "hypot on a diagonal": (lambda x: jnp.hypot(x, F(1)), 1.0, 2**-1.5),
    "logaddexp at a tie": (lambda x: jnp.logaddexp(x, F(1)), 1.0, 0.25),
    "abs": (jnp.abs, 0.0, 0.0),
    "sinc": (jnp.sinc, 0.0, -(np.pi**2) / 3),
    "i0": (jnp.i0, 0.0, 0.5),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_at_kinks(name):
    f, point, want = SECOND[name]
    np.testing.assert_allclose(weft.grad(weft.grad(f))(F(point)), want, rtol=1e-5, atol=1e-6)


# name: function, vector, gradient of the sum of its results
TIES = {
    "max": (jnp.max, [1, 3, 3], [0, 0.5, 0.5]),
    "min": (jnp.min, [1, 1, 3], [0.5, 0.5, 0]),
    "sort": (lambda v: jnp.sort(v)[0], [1, 1, 3], [1, 0, 0]),
    "taken at argmax": (lambda v: v[jnp.argmax(v)], [1, 3, 3], [0, 1, 0]),
    "prod with a zero": (jnp.prod, [0, 2, 3], [6, 0, 0]),
    "prod with two zeros": (jnp.prod, [0, 0, 3], [0, 0, 0]),
    "1-norm at 0": (lambda v: jnp.linalg.norm(v, 1), [0, -1, 2], [1, -1, 1]),
    "quantile between equals": (lambda v: jnp.quantile(v, 0.25), [1, 1, 2], [0.5, 0.5, 0]),
    "nanstd": (jnp.nanstd, [NAN, 1, 2], [0, -0.5, 0.5]),
    "2-norm": (jnp.linalg.norm, [3, 0, 4], [0.6, 0, 0.8]),
    "logsumexp of -inf": (weft.nn.logsumexp, [-INF, 0, 0], [0, 0.5, 0.5]),
    "softmax of -inf": (lambda v: weft.nn.softmax(v)[1], [-INF, 0, 0], [0, 0.25, -0.25]),
}


@pytest.mark.parametrize("name", TIES)
def test_gradients_at_ties(name):
    f, point, want = TIES[name]
    np.testing.assert_allclose(weft.grad(f)(np.array(point, F)), np.array(want, F), rtol=1e-6)


def test_second_derivatives_of_cumlogsumexp_at_ties():
    half, third = np.zeros((3, 3)), np.full((3, 3), -1 / 9) + np.eye(3) / 3
    half[:2, :2] = [[0.25, -0.25], [-0.25, 0.25]]
    got = weft.hessian(lambda v: lax.cumlogsumexp(v).sum())(np.zeros(3, F))
    np.testing.assert_allclose(got, half + third, rtol=1e-5, atol=1e-6)

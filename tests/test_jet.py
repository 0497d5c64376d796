"""weft.jet against derivatives that are known or computed by NumPy."""

import math

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as wnp
from weft import lax
from weft.jet import jet

K = 5

# name -> (function, its derivatives of order 0 to K at a point, as a function of the order)
KNOWN = {
    "exp": (wnp.exp, 0.3, lambda k: math.exp(0.3)),
    "sin": (wnp.sin, 0.4, lambda k: math.sin(0.4 + k * math.pi / 2)),
    "cos": (wnp.cos, 0.4, lambda k: math.cos(0.4 + k * math.pi / 2)),
    "sinh": (wnp.sinh, 0.4, lambda k: math.cosh(0.4) if k % 2 else math.sinh(0.4)),
    "cosh": (wnp.cosh, 0.4, lambda k: math.sinh(0.4) if k % 2 else math.cosh(0.4)),
    "log": (
        wnp.log,
        1.5,
        lambda k: -((-1) ** k) * math.factorial(k - 1) / 1.5**k if k else math.log(1.5),
    ),
    "log1p": (
        wnp.log1p,
        0.5,
        lambda k: -((-1) ** k) * math.factorial(k - 1) / 1.5**k if k else math.log(1.5),
    ),
    "reciprocal": (lambda x: 1 / x, 2.0, lambda k: (-1) ** k * math.factorial(k) / 2.0 ** (k + 1)),
    "power": (
        lambda x: x**2.5,
        1.3,
        lambda k: math.prod(2.5 - j for j in range(k)) * 1.3 ** (2.5 - k),
    ),
    "integer power": (lambda x: x**3, 1.3, lambda k: math.perm(3, k) * 1.3 ** (3 - k)),
    "sqrt": (wnp.sqrt, 1.3, lambda k: math.prod(0.5 - j for j in range(k)) * 1.3 ** (0.5 - k)),
    "exp2": (wnp.exp2, 0.7, lambda k: math.log(2) ** k * 2**0.7),
    "digamma": (weft.scipy.special.digamma, 1.7, lambda k: scipy.special.polygamma(k, 1.7)),
    "lgamma": (
        weft.scipy.special.gammaln,
        1.7,
        lambda k: scipy.special.polygamma(k - 1, 1.7) if k else math.lgamma(1.7),
    ),
}

# Functions whose Taylor coefficients at 0 are known numbers, in powers of x.
AT_ZERO = {
    "tan": (wnp.tan, [0, 1, 0, 1 / 3, 0, 2 / 15]),
    "tanh": (wnp.tanh, [0, 1, 0, -1 / 3, 0, 2 / 15]),
    "sigmoid": (weft.nn.sigmoid, [1 / 2, 1 / 4, 0, -1 / 48, 0, 1 / 480]),
    "asin": (wnp.arcsin, [0, 1, 0, 1 / 6, 0, 3 / 40]),
    "atan": (wnp.arctan, [0, 1, 0, -1 / 3, 0, 1 / 5]),
    "atanh": (wnp.arctanh, [0, 1, 0, 1 / 3, 0, 1 / 5]),
    "asinh": (wnp.arcsinh, [0, 1, 0, -1 / 6, 0, 3 / 40]),
    "expm1": (wnp.expm1, [0, 1, 1 / 2, 1 / 6, 1 / 24, 1 / 120]),
    "erf": (lax.erf, [0, 2 / math.pi**0.5, 0, -2 / 3 / math.pi**0.5, 0, 1 / 5 / math.pi**0.5]),
    "softplus": (weft.nn.softplus, [math.log(2), 1 / 2, 1 / 8, 0, -1 / 192, 0]),
    "sin exp": (
        lambda x: wnp.sin(x) * wnp.exp(x),
        [0, 1, 1, 1 / 3, 0, -1 / 30],
    ),
    "atan2": (lambda x: wnp.arctan2(x, 1.0), [0, 1, 0, -1 / 3, 0, 1 / 5]),
    "maximum": (lambda x: wnp.maximum(x, -1.0) ** 2, [0, 0, 1, 0, 0, 0]),
}


@pytest.fixture(autouse=True)
def x64():
    with weft.enable_x64(True):
        yield


@pytest.mark.parametrize("name", KNOWN)
def test_derivatives_along_a_line_are_known(name):
    f, x, derivative = KNOWN[name]
    y, terms = jet(f, (x,), ([1.0] + [0.0] * (K - 1),))
    np.testing.assert_allclose([y, *terms], [derivative(k) for k in range(K + 1)], rtol=1e-9)


@pytest.mark.parametrize("name", AT_ZERO)
def test_taylor_coefficients_are_known(name):
    f, known = AT_ZERO[name]
    y, terms = jet(f, (0.0,), ([1.0] + [0.0] * (K - 1),), factorial_scaled=False)
    np.testing.assert_allclose([y, *terms], known, atol=1e-10)
    curve = ([1.0, 2.0, 0.0, 0.0, 0.0],)  # x(t) = t + 2 t²
    composed = sum(c * np.polynomial.Polynomial([0, 1, 2]) ** k for k, c in enumerate(known))
    y, terms = weft.jit(lambda: jet(f, (0.0,), curve, factorial_scaled=False))()
    np.testing.assert_allclose([y, *terms], np.pad(composed.coef, (0, K))[: K + 1], atol=1e-10)


def polynomial(terms):
    return lambda t: sum(np.asarray(c) * t**k for k, c in enumerate(terms))


# Functions of arrays that NumPy computes at any t: derivatives are those of a polynomial fit.
ARRAYS = {
    "matmul": (lambda np, a, b: a @ b),
    "sum": (lambda np, a, b: np.sum(a * b.T, 0)),
    "index": (lambda np, a, b: (a[1] * b[:, ::2].sum(), np.concatenate([a, b.T[:, ::-1]]))),
    "solve": (lambda np, a, b: np.linalg.solve(a @ a.T + 9 * np.eye(3), b.T[:3] @ b)),
    "inverse": (lambda np, a, b: np.linalg.inv(a @ a.T + 9 * np.eye(3))),
    "norm": (lambda np, a, b: np.sqrt(1 + np.sum(a**2)) / (3 + np.cos(b).sum())),
    "cumprod": (lambda np, a, b: np.cumprod(1 + a / 5, 1)),
    "sort": (lambda np, a, b: np.sort(a.ravel())),
    "max": (lambda np, a, b: np.max(b, 0)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_functions_of_arrays_follow_their_curves(rng, name):
    f = ARRAYS[name]
    curves = [rng.normal(size=(4, 3, 4)), rng.normal(size=(4, 4, 3))]
    y, terms = jet(
        lambda a, b: f(wnp, a, b), [c[0] for c in curves], [list(c[1:]) for c in curves], False
    )
    ys, all_terms = weft.tree.leaves(y), weft.tree.leaves(terms)
    # Chebyshev points close to 0, where the remainder is small.
    ts = 0.02 * np.cos(np.pi * (np.arange(9) + 0.5) / 9)
    samples = [weft.tree.leaves(f(np, *(polynomial(c)(t) for c in curves))) for t in ts]
    for i, value in enumerate(ys):
        fit = np.polynomial.polynomial.polyfit(
            ts / 0.02, np.stack([np.ravel(s[i]) for s in samples]), 8
        )
        got = [value, *all_terms[3 * i : 3 * i + 3]]
        for k, term in enumerate(got):
            want = (fit[k] / 0.02**k).reshape(np.shape(value))
            np.testing.assert_allclose(term, want, rtol=1e-5, atol=1e-5 * 10**k)


def test_control_flow_and_custom_rules_have_series():
    @weft.custom_jvp
    def cube(x):
        return x * x * x

    cube.defjvp(lambda p, t: (p[0] ** 3, 3 * p[0] ** 2 * t[0]))

    @weft.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    programs = {
        "cond": lambda x: lax.cond(x > 0, lambda x: x**3, lambda x: -x, x),
        "while": lambda x: lax.while_loop(
            lambda c: c[1] < 2, lambda c: (c[0] * x, c[1] + 1), (x, 0)
        )[0],
        "scan": lambda x: lax.scan(lambda c, s: (c * x, c * s), 1.0, wnp.array([1.0, 2.0, 3.0]))[0],
        "custom_jvp": cube,
        "custom_vjp": lambda x: square(x) * x,
        "checkpoint": weft.checkpoint(lambda x: x**3),
        "jit": weft.jit(lambda x: x * x * x),
    }
    for name, f in programs.items():
        y, terms = jet(f, (2.0,), ([1.0, 0.0, 0.0, 0.0],))
        np.testing.assert_allclose([y, *terms], [8, 12, 12, 6, 0], err_msg=name)


def test_jets_are_mapped_and_differentiated():
    f = lambda x: jet(wnp.sin, (x,), ([1.0, 0.0],))[1][1]  # - sin
    xs = np.linspace(0, 1, 4)
    np.testing.assert_allclose(weft.vmap(f)(xs), -np.sin(xs))
    np.testing.assert_allclose(weft.grad(f)(0.3), -np.cos(0.3))
    y, terms = jet(
        lambda d: {"s": d["a"] * d["b"]}, ({"a": 2.0, "b": 3.0},), ([{"a": 1.0, "b": 1.0}],)
    )
    assert (float(y["s"]), float(terms["s"][0])) == (6.0, 5.0)
    y, terms = jet(lambda x, n: x * n, (2.0, 3), ([1.0], [0]))
    assert (float(y), float(terms[0])) == (6.0, 3.0)


WRONG = [
    (lambda: jet(wnp.sin, (1.0, 2.0), ([1.0], [1.0, 2.0])), "same number of terms"),
    (lambda: jet(wnp.sin, (1.0,), ([np.ones(2)],)), "must have its shape"),
    (lambda: jet(wnp.sin, ({"a": 1.0},), ([1.0],)), "structure of primals"),
]


@pytest.mark.parametrize("call, words", WRONG)
def test_series_that_do_not_fit_are_told(call, words):
    with pytest.raises(ValueError, match=words):
        call()

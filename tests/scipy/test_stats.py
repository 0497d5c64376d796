"""weft.scipy.stats against SciPy: distributions, ranks, modes, estimated densities."""

import numpy as np
import pytest
import scipy.stats as ss

import weft
from tests.scipy.table import Case, check, check_narrow
from weft.scipy import stats

_rng = np.random.default_rng(11)


def draw(low, high):
    return _rng.uniform(low, high, (12,))


X, POSITIVE, UNIT, SHAPE, OTHER = (
    draw(-3, 3), draw(0.05, 4), draw(0.02, 0.98), draw(0.5, 5), draw(0.5, 5)
)  # fmt: skip
COUNT, TRIALS = _rng.integers(0, 9, 12), _rng.integers(8, 20, 12)
LOC, SCALE = draw(-1, 1), draw(0.5, 3)

# Distribution → shape parameters, points of its support.
CONTINUOUS = {
    "beta": ((SHAPE, OTHER), UNIT),
    "cauchy": ((), X),
    "chi2": ((SHAPE,), POSITIVE),
    "expon": ((), POSITIVE),
    "gamma": ((SHAPE,), POSITIVE),
    "gumbel_l": ((), X),
    "gumbel_r": ((), X),
    "laplace": ((), X),
    "logistic": ((), X),
    "norm": ((), 3 * X),
    "pareto": ((SHAPE,), 1 + POSITIVE),
    "t": ((SHAPE,), X),
    "truncnorm": ((-SHAPE, OTHER), X / 6),
    "uniform": ((), UNIT),
}
UNSCALED = {
    "gennorm": ((SHAPE,), X),
    "vonmises": ((SHAPE,), X),
    "wrapcauchy": ((UNIT,), POSITIVE),
}
DISCRETE = {
    "bernoulli": ((UNIT,), COUNT % 2),
    "betabinom": ((TRIALS, SHAPE, OTHER), COUNT),
    "binom": ((TRIALS, UNIT), COUNT),
    "geom": ((UNIT,), COUNT + 1),
    "nbinom": ((SHAPE, UNIT), COUNT),
    "poisson": ((SHAPE,), COUNT),
}


# In these the derivative in a shape parameter is tested with the special function it is.
BY_POSITION = {"beta", "gamma", "chi2", "gennorm"}


def arguments(name, method):
    shapes, y = (CONTINUOUS | UNSCALED | DISCRETE)[name]
    if method == "entropy":
        return shapes
    if name not in CONTINUOUS:
        return (UNIT if method == "ppf" else y, *shapes)
    return (UNIT if method in ("ppf", "isf") else y * SCALE + LOC, *shapes, LOC, SCALE)


def together(name, methods):
    """The methods as one case: their arguments in a row."""
    rows = [arguments(name, m) for m in methods]

    def of(module):
        def run(*args):
            args = iter(args)
            return [
                getattr(module, m)(*[next(args) for _ in row])
                for m, row in zip(methods, rows, strict=True)
            ]

        return run

    args = sum(rows, ())
    return of(getattr(stats, name)), of(getattr(ss, name)), args


@pytest.mark.parametrize("name", [*CONTINUOUS, *UNSCALED, *DISCRETE])
def test_functions_of_distributions_are_scipys(name, rng):
    methods = getattr(stats, name).__all__
    case = Case(name, *together(name, methods), rtol=1e-10)
    check(case, rng)
    check_narrow(case)


@pytest.mark.parametrize("name", [*CONTINUOUS, *UNSCALED, *DISCRETE])
def test_derivatives_of_distributions_are_scipys_differences(name, rng):
    density = "logpmf" if name in DISCRETE else "logpdf"
    smooth = {density, "cdf", "logsf"} & set(getattr(stats, name).__all__)
    methods = [density] if name in BY_POSITION else sorted(smooth)
    fun, ref, args = together(name, methods)
    chosen = tuple(i for i, a in enumerate(args) if a.dtype.kind == "f")
    check(Case(name, fun, ref, args, chosen, 1e-10, 1e-5, batch=False), rng)


FAR = np.array([-40.0, -1.0, 0.0, 0.5, 1.0, 2.0, 7.5, 60.0, np.nan])


@pytest.mark.parametrize("name", [*CONTINUOUS, "gennorm", *DISCRETE])
def test_outside_of_the_support_values_are_scipys_and_derivatives_finite(name):
    shapes = [s[:1] for s in (CONTINUOUS | UNSCALED | DISCRETE)[name][0]]
    module = getattr(stats, name)
    points = FAR if name not in DISCRETE else np.round(FAR)
    with weft.enable_x64(True):
        for method in set(module.__all__) - {"ppf", "isf", "entropy"}:
            got = getattr(module, method)(points, *shapes)
            want = getattr(getattr(ss, name), method)(points, *shapes)
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-300, err_msg=method)
        density = getattr(module, "logpdf", None) or module.logpmf
        outside = points[(points < -20) | (points > 20)]
        slopes = weft.vmap(weft.grad(lambda x: density(x, *[s[0] for s in shapes])))(outside)
        assert np.isfinite(slopes).all()


def test_quantiles_outside_of_probabilities_are_nan():
    with weft.enable_x64(True):
        for name in ("norm", "expon", "cauchy", "uniform", "gumbel_l", "gumbel_r", "logistic"):
            q = np.array([-0.1, 0.0, 0.3, 1.0, 1.1])
            got, want = np.asarray(getattr(stats, name).ppf(q)), getattr(ss, name).ppf(q)
            inner = np.abs(want) < 1e10  # a tangent at its pole is large
            np.testing.assert_allclose(got[inner], want[inner], atol=1e-14)
            assert np.isnan(got[::4]).all()
        q = np.array([0.0, 0.2, 0.7, 1.0, 1.5, -1.0])
        np.testing.assert_array_equal(stats.bernoulli.ppf(q, 0.3), ss.bernoulli.ppf(q, 0.3))


def test_parameters_that_are_none_give_nan():
    assert np.isnan(stats.norm.logpdf(0.0, 0.0, -1.0))
    assert np.isnan(stats.beta.pdf(0.5, -1.0, 1.0))
    assert np.isnan(stats.poisson.pmf(1, -1.0))
    assert np.isnan(stats.binom.pmf(1, 3, 1.5))


def test_entropies_of_poisson_distributions_are_accurate_at_all_sizes():
    mu = np.array([0.0, 0.1, 5.0, 30.0, 59.0, 61.0, 1000.0])
    with weft.enable_x64(True):
        np.testing.assert_allclose(stats.poisson.entropy(mu), ss.poisson.entropy(mu), rtol=1e-8)


ALPHA = np.array([0.5, 1.5, 3.0])
SIMPLEX = _rng.dirichlet(np.ones(3), 4)
MEAN, ROOT = _rng.standard_normal(3), _rng.standard_normal((3, 3))
COV = ROOT @ ROOT.T + np.eye(3)
POINTS = _rng.standard_normal((5, 3))


@pytest.mark.parametrize(
    "case",
    [
        Case("dirichlet", stats.dirichlet.logpdf, ss.dirichlet.logpdf, (SIMPLEX[0], ALPHA)),
        Case("dirichlet-many", lambda x, a: stats.dirichlet.pdf(x.T, a),
             lambda x, a: ss.dirichlet.pdf(x.T, a), (SIMPLEX, ALPHA)),
        Case("dirichlet-short", stats.dirichlet.logpdf, ss.dirichlet.logpdf,
             (SIMPLEX[0][:2], ALPHA)),
        Case("multinomial", stats.multinomial.logpmf, ss.multinomial.logpmf,
             (np.array([[2, 1, 3], [1, 1, 1]]), np.array(6), SIMPLEX[0])),
        Case("multinomial-pmf", stats.multinomial.pmf, ss.multinomial.pmf,
             (np.array([2, 1, 3]), np.array(6), SIMPLEX[0])),
        Case("normal", stats.multivariate_normal.logpdf, ss.multivariate_normal.logpdf,
             (POINTS, MEAN, COV), (0, 1)),
        Case("normal-pdf", stats.multivariate_normal.pdf, ss.multivariate_normal.pdf,
             (POINTS[0], MEAN, COV)),
        Case("normal-scalar", stats.multivariate_normal.logpdf, ss.multivariate_normal.logpdf,
             (POINTS[0], np.array(0.5), np.array(2.0)), (0, 1, 2)),
        Case("normal-batch", stats.multivariate_normal.logpdf,
             lambda x, m, c: np.stack([ss.multivariate_normal.logpdf(a, m, b)
                                       for a, b in zip(x, c, strict=True)]),
             (POINTS[:2], MEAN, np.stack([COV, 2 * COV]))),
    ],
    ids=lambda c: c.id,
)  # fmt: skip
def test_distributions_of_vectors_are_scipys(case, rng):
    check(case, rng)


VALUES = np.array([[1, 2, 2, 0, 1], [5, 5, 1, 1, 1], [0, 3, 2, 2, 2]])


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("keepdims", [True, False])
def test_modes_are_scipys(axis, keepdims):
    got = stats.mode(VALUES, axis=axis, keepdims=keepdims)
    want = ss.mode(VALUES, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(got.mode, want.mode)
    np.testing.assert_array_equal(got.count, want.count)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_ranks_are_scipys(axis, method):
    got = weft.jit(lambda x: stats.rankdata(x, method, axis=axis))(VALUES)
    np.testing.assert_array_equal(got, ss.rankdata(VALUES, method, axis=axis))
    holed = np.where(VALUES == 3, np.nan, VALUES)
    got = stats.rankdata(holed, method, axis=axis)
    np.testing.assert_array_equal(got, ss.rankdata(holed, method, axis=axis))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_standard_errors_are_scipys(axis):
    x = np.where(VALUES == 3, np.nan, VALUES)
    for policy in ("propagate", "omit"):
        got = stats.sem(x, axis, nan_policy=policy)
        np.testing.assert_allclose(got, ss.sem(x, axis, nan_policy=policy), rtol=1e-5)


@pytest.mark.parametrize("weights", [None, POSITIVE])
@pytest.mark.parametrize("method", [None, "silverman", 0.4])
def test_estimated_densities_are_scipys(weights, method):
    data = np.stack([X, X[::-1] + OTHER])
    points = np.stack([POSITIVE, UNIT])
    with weft.enable_x64(True):
        got = stats.gaussian_kde(data, method, weights)
        want = ss.gaussian_kde(data, method, weights)
        near = lambda g, w: np.testing.assert_allclose(g, w, rtol=1e-10)
        near(got(points), want(points))
        near(weft.jit(lambda e, p: e.logpdf(p))(got, points), want.logpdf(points))
        near(got.integrate_gaussian(MEAN[:2], COV[:2, :2]),
             want.integrate_gaussian(MEAN[:2], COV[:2, :2]))  # fmt: skip
        near(got.integrate_kde(got), want.integrate_kde(want))
        line, other = stats.gaussian_kde(X, method, weights), ss.gaussian_kde(X, method, weights)
        near(line.integrate_box_1d(-1, 2), other.integrate_box_1d(-1, 2))
        sample = got.resample(weft.random.key(0), (4000,))
        assert sample.shape == (2, 4000)
        spread = np.average(data, axis=1, weights=weights) - np.mean(sample, 1)
        assert np.abs(spread).max() < 0.2


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: stats.mode(X, nan_policy="omit"), ValueError, "nan_policy"),
        (lambda: stats.rankdata(X, "median"), ValueError, "method must be one of"),
        (lambda: stats.gaussian_kde([1.0]), (ValueError, TypeError), "dataset|array"),
        (lambda: stats.gaussian_kde(X, "wide"), ValueError, "bw_method"),
        (lambda: stats.gaussian_kde(X).set_bandwidth(1), NotImplementedError, "make another"),
        (lambda: stats.gaussian_kde(X)(np.ones((3, 2))), ValueError, "dimensions"),
        (lambda: stats.dirichlet.pdf(np.ones(5), ALPHA), ValueError, "do not fit"),
        (lambda: stats.multivariate_normal.logpdf(X, MEAN, np.eye(2)), ValueError, "cov"),
        (lambda: stats.multivariate_normal.logpdf(0, 0, 1, True), NotImplementedError, "singular"),
        (lambda: stats.norm.pdf("a"), TypeError, "array"),
        (lambda: stats.norm.pdf(1, scal=2), TypeError, "scal"),
    ],
)
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()

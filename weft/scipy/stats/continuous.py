# Tests: tests/scipy/test_stats.py
"""Continuous distributions: densities and integrals of their standardized forms."""

from __future__ import annotations

from math import inf, log, pi

import weft.numpy as wnp
from weft import lax
from weft.nn import softplus
from weft.scipy.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammaln,
    i0e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)
from weft.scipy.stats.distribution import distribution

_ALL = "cdf logcdf logpdf logsf pdf sf"

beta = distribution(
    "beta",
    "beta distribution",
    _ALL,
    "a b",
    (0, 1),
    valid=lambda a, b: (a > 0) & (b > 0),
    logpdf=lambda y, a, b: xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b),
    cdf=lambda y, a, b: betainc(a, b, y),
    sf=lambda y, a, b: betainc(b, a, 1 - y),
)
cauchy = distribution(
    "cauchy",
    "Cauchy distribution",
    f"{_ALL} ppf isf",
    logpdf=lambda y: -log(pi) - wnp.log1p(y * y),
    cdf=lambda y: wnp.arctan2(1.0, -y) / pi,
    sf=lambda y: wnp.arctan2(1.0, y) / pi,
    ppf=lambda q: wnp.tan(pi * (q - 0.5)),
    isf=lambda q: -wnp.tan(pi * (q - 0.5)),
)
chi2 = distribution(
    "chi2",
    "chi-squared distribution",
    _ALL,
    "df",
    (0, inf),
    valid=lambda df: df > 0,
    logpdf=lambda y, df: xlogy(df / 2 - 1, y) - y / 2 - gammaln(df / 2) - df * (log(2) / 2),
    cdf=lambda y, df: gammainc(df / 2, y / 2),
    sf=lambda y, df: gammaincc(df / 2, y / 2),
)
expon = distribution(
    "expon",
    "exponential distribution",
    f"{_ALL} ppf",
    support=(0, inf),
    logpdf=lambda y: -y,
    cdf=lambda y: -wnp.expm1(-y),
    logsf=lambda y: -y,
    ppf=lambda q: -wnp.log1p(-q),
)
gamma = distribution(
    "gamma",
    "gamma distribution",
    _ALL,
    "a",
    (0, inf),
    valid=lambda a: a > 0,
    logpdf=lambda y, a: xlogy(a - 1, y) - y - gammaln(a),
    cdf=lambda y, a: gammainc(a, y),
    sf=lambda y, a: gammaincc(a, y),
)


def _power_of_size(y, beta):
    size = wnp.abs(y)
    return wnp.where(size == 0, 0, wnp.where(size == 0, 1, size) ** beta)


gennorm = distribution(
    "gennorm",
    "generalized normal distribution",
    "cdf logpdf pdf",
    "beta",
    scaled=False,
    valid=lambda beta: beta > 0,
    logpdf=lambda y, beta: wnp.log(beta / 2) - gammaln(1 / beta) - _power_of_size(y, beta),
    cdf=lambda y, beta: (1 + wnp.sign(y) * gammainc(1 / beta, _power_of_size(y, beta))) / 2,
)
gumbel_l = distribution(
    "gumbel_l",
    "left-skewed Gumbel distribution",
    f"{_ALL} ppf:p",
    logpdf=lambda y: y - wnp.exp(y),
    cdf=lambda y: -wnp.expm1(-wnp.exp(y)),
    logsf=lambda y: -wnp.exp(y),
    ppf=lambda q: wnp.log(-wnp.log1p(-q)),
)
gumbel_r = distribution(
    "gumbel_r",
    "right-skewed Gumbel distribution",
    f"{_ALL} ppf:p",
    logpdf=lambda y: -y - wnp.exp(-y),
    logcdf=lambda y: -wnp.exp(-y),
    sf=lambda y: -wnp.expm1(-wnp.exp(-y)),
    ppf=lambda q: -wnp.log(-wnp.log(q)),
)
laplace = distribution(
    "laplace",
    "Laplace distribution",
    "cdf logpdf pdf",
    logpdf=lambda y: -wnp.abs(y) - log(2),
    cdf=lambda y: wnp.where(
        y < 0, wnp.exp(wnp.minimum(y, 0)) / 2, 1 - wnp.exp(-wnp.maximum(y, 0)) / 2
    ),
)
logistic = distribution(
    "logistic",
    "logistic distribution",
    "cdf isf:x logpdf pdf ppf:x sf",
    logpdf=lambda y: -wnp.abs(y) - 2 * softplus(-wnp.abs(y)),
    cdf=expit,
    sf=lambda y: expit(-y),
    ppf=logit,
    isf=lambda q: -logit(q),
)
norm = distribution(
    "norm",
    "normal distribution",
    f"{_ALL} ppf isf",
    logpdf=lambda y: -y * y / 2 - log(2 * pi) / 2,
    cdf=ndtr,
    sf=lambda y: ndtr(-y),
    logcdf=log_ndtr,
    logsf=lambda y: log_ndtr(-y),
    ppf=ndtri,
    isf=lambda q: -ndtri(q),
)
pareto = distribution(
    "pareto",
    "Pareto distribution",
    f"{_ALL} ppf",
    "b",
    (1, inf),
    valid=lambda b: b > 0,
    logpdf=lambda y, b: wnp.log(b) - (b + 1) * wnp.log(y),
    cdf=lambda y, b: -wnp.expm1(-b * wnp.log(y)),
    logsf=lambda y, b: -b * wnp.log(y),
    ppf=lambda q, b: wnp.exp(-wnp.log1p(-q) / b),
)
t = distribution(
    "t",
    "Student's t distribution",
    "logpdf pdf",
    "df",
    valid=lambda df: df > 0,
    logpdf=lambda y, df: (
        gammaln((df + 1) / 2) - gammaln(df / 2) - wnp.log(df * pi) / 2
        - (df + 1) / 2 * wnp.log1p(y * y / df)
    ),
)  # fmt: skip


def _log_mass(a, b):
    """Return the logarithm of the normal integral from a to b, in the tail nearer to 0."""
    low, high = wnp.where(a > 0, -b, a), wnp.where(a > 0, -a, b)
    upper, lower = log_ndtr(high), log_ndtr(low)
    gap = wnp.where(lower == -wnp.inf, -wnp.inf, lower - upper)
    return upper + wnp.log(-wnp.expm1(gap))


def _between(a, b):
    """Return a finite number from a to b."""
    low, high = wnp.isfinite(a), wnp.isfinite(b)
    finite_a, finite_b = wnp.where(low, a, 0), wnp.where(high, b, 0)
    one_sided = wnp.where(low, finite_a + 1, wnp.where(high, finite_b - 1, 0))
    return wnp.where(low & high, (finite_a + finite_b) / 2, one_sided)


truncnorm = distribution(
    "truncnorm",
    "normal distribution truncated to [a, b]",
    _ALL,
    "a b",
    (lambda a, b: a, lambda a, b: b),  # type: ignore[arg-type]
    valid=lambda a, b: a < b,
    interior=_between,
    logpdf=lambda y, a, b: -y * y / 2 - log(2 * pi) / 2 - _log_mass(a, b),
    logcdf=lambda y, a, b: _log_mass(a, y) - _log_mass(a, b),
    logsf=lambda y, a, b: _log_mass(y, b) - _log_mass(a, b),
)
uniform = distribution(
    "uniform",
    "uniform distribution over [loc, loc + scale]",
    "cdf logpdf pdf ppf",
    support=(0, 1),
    logpdf=lambda y: 0 * y,
    cdf=lambda y: y,
    ppf=lambda q: q,
)
vonmises = distribution(
    "vonmises",
    "von Mises distribution over the circle",
    "logpdf pdf",
    "kappa",
    scaled=False,
    valid=lambda kappa: kappa >= 0,
    logpdf=lambda y, kappa: (
        kappa * (wnp.cos(y) - 1) - wnp.log(2 * pi * i0e(lax.max(kappa, 0 * kappa)))
    ),
)
wrapcauchy = distribution(
    "wrapcauchy",
    "wrapped Cauchy distribution over [0, 2 pi]",
    "logpdf pdf",
    "c",
    (0, 2 * pi),
    scaled=False,
    valid=lambda c: (c > 0) & (c < 1),
    logpdf=lambda y, c: wnp.log((1 - c * c) / (2 * pi)) - wnp.log(1 + c * c - 2 * c * wnp.cos(y)),
)

# Tests: tests/scipy/test_stats.py
"""Discrete distributions of whole numbers."""

from __future__ import annotations

from math import inf, log, pi
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.scipy.special import betaln, gammaincc, gammaln, xlog1py, xlogy
from weft.scipy.special.factorials import floats
from weft.scipy.stats.distribution import distribution, make_module, signed

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _probability(p: Array) -> Any:
    return (p >= 0) & (p <= 1)


def _log_binomial(n: Array, k: Array) -> Any:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _bernoulli_cdf(k: ArrayLike, p: ArrayLike) -> Any:
    k, p = wnp.broadcast_arrays(*floats(k, p))
    value = wnp.where(k < 0, 0, wnp.where(k < 1, 1 - p, 1))
    return wnp.where(_probability(p) & ~wnp.isnan(k), value, wnp.nan)


def _bernoulli_ppf(q: object, p: Array) -> Any:
    q, p = wnp.broadcast_arrays(*floats(q, p))
    value = wnp.where(q == 0, -1, wnp.where(q <= 1 - p, 0, 1))
    return wnp.where(_probability(p) & _probability(q), value, wnp.nan)


bernoulli = distribution(
    "bernoulli",
    "Bernoulli distribution: 1 with probability p, else 0",
    "logpmf pmf",
    "p",
    (0, 1),
    discrete=True,
    valid=_probability,
    logpmf=lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p),
)
bernoulli = make_module(
    "bernoulli",
    bernoulli.__doc__ or "",
    {
        "logpmf": bernoulli.logpmf,
        "pmf": bernoulli.pmf,
        "cdf": signed(
            "cdf", ("k", "p"), (), _bernoulli_cdf,
            "Return the probability of at most k.\n\n    Source: scipy.stats.bernoulli.cdf.\n    ",
        ),
        "ppf": signed(
            "ppf", ("q", "p"), (), _bernoulli_ppf,
            "Return the least k with a probability of q of at most k.\n\n"
            "    Source: scipy.stats.bernoulli.ppf.\n    ",
        ),
    },
)  # fmt: skip
betabinom = distribution(
    "betabinom",
    "beta-binomial distribution of n trials",
    "logpmf pmf",
    "n a b",
    (0, lambda n, a, b: n),  # type: ignore[arg-type]
    discrete=True,
    valid=lambda n, a, b: (n >= 0) & (n == wnp.floor(n)) & (a > 0) & (b > 0),
    logpmf=lambda k, n, a, b: _log_binomial(n, k) + betaln(k + a, n - k + b) - betaln(a, b),
)
binom = distribution(
    "binom",
    "binomial distribution of n trials",
    "logpmf pmf",
    "n p",
    (0, lambda n, p: n),  # type: ignore[arg-type]
    discrete=True,
    valid=lambda n, p: (n >= 0) & (n == wnp.floor(n)) & _probability(p),
    logpmf=lambda k, n, p: _log_binomial(n, k) + xlogy(k, p) + xlog1py(n - k, -p),
)
geom = distribution(
    "geom",
    "geometric distribution: the trial of the first success",
    "logpmf pmf",
    "p",
    (1, inf),
    discrete=True,
    valid=lambda p: (p > 0) & (p <= 1),
    logpmf=lambda k, p: xlog1py(k - 1, -p) + wnp.log(p),
)
nbinom = distribution(
    "nbinom",
    "negative binomial distribution: failures before the n-th success",
    "logpmf pmf",
    "n p",
    (0, inf),
    discrete=True,
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    logpmf=lambda k, n, p: (
        gammaln(k + n) - gammaln(n) - gammaln(k + 1) + n * wnp.log(p) + xlog1py(k, -p)
    ),
)
poisson = distribution(
    "poisson",
    "Poisson distribution",
    "cdf logpmf pmf",
    "mu",
    (0, inf),
    discrete=True,
    valid=lambda mu: mu >= 0,
    logpmf=lambda k, mu: xlogy(k, mu) - gammaln(k + 1) - mu,
    cdf=lambda k, mu: gammaincc(k + 1, mu),
)


def _poisson_entropy(mu: ArrayLike, loc: ArrayLike) -> Any:
    """mu - mu log mu + E[log k!] by its sum, and by its asymptotic series where mu is large."""
    mu, _ = wnp.broadcast_arrays(*floats(mu, loc))
    large = mu > 60
    small = wnp.where(large, 1, mu)[..., None]
    k = wnp.arange(160).astype(mu.dtype)
    weights = wnp.exp(xlogy(k, small) - gammaln(k + 1) - small)
    direct = small[..., 0] - xlogy(small, small)[..., 0] + wnp.sum(weights * gammaln(k + 1), -1)
    m = wnp.where(large, mu, 60)
    series = 1 / (12 * m) + 1 / (24 * m**2) + 19 / (360 * m**3) + 9 / (80 * m**4)
    value = wnp.where(large, wnp.log(m) / 2 + (log(2 * pi) + 1) / 2 - series, direct)
    return wnp.where(mu >= 0, value, wnp.nan)


poisson = make_module(
    "poisson",
    poisson.__doc__ or "",
    {name: getattr(poisson, name) for name in ("cdf", "logpmf", "pmf")}
    | {
        "entropy": signed(
            "entropy", ("mu",), ("loc=0",), _poisson_entropy,
            "Return the Poisson distribution's entropy.\n\n    Source: scipy.stats.poisson.\n    ",
        )
    },
)  # fmt: skip

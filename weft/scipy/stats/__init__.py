"""Distributions and statistics, under the names and with the semantics of jax.scipy.stats.

A distribution is a module: `weft.scipy.stats.norm.logpdf(x)`.
"""

from weft.core.namespace import seal
from weft.numpy.eager import eager_programs
from weft.scipy.stats.continuous import (
    beta,
    cauchy,
    chi2,
    expon,
    gamma,
    gennorm,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    norm,
    pareto,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from weft.scipy.stats.discrete import bernoulli, betabinom, binom, geom, nbinom, poisson
from weft.scipy.stats.kde import gaussian_kde
from weft.scipy.stats.multivariate import dirichlet, multinomial, multivariate_normal
from weft.scipy.stats.samples import mode, rankdata, sem

__all__ = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gaussian_kde",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "mode",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "rankdata",
    "sem",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
]
seal(globals(), programs=eager_programs("mode rankdata sem", options="nan_policy"))

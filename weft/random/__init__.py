"""Random numbers from explicit keys, under the names and with the values of jax.random."""

import weft.driver.execute  # noqa: F401  (samplers run eagerly too)
from weft.core.config import config
from weft.core.namespace import seal
from weft.numpy.eager import eager_programs
from weft.random.api import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from weft.random.basic import (
    bernoulli,
    bits,
    normal,
    rademacher,
    randint,
    truncated_normal,
    uniform,
)
from weft.random.continuous import (
    ball,
    cauchy,
    double_sided_maxwell,
    exponential,
    generalized_normal,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    multivariate_normal,
    orthogonal,
    pareto,
    rayleigh,
    t,
    triangular,
    wald,
    weibull_min,
)
from weft.random.discrete import (
    binomial,
    categorical,
    choice,
    geometric,
    multinomial,
    permutation,
    poisson,
)
from weft.random.gamma_family import (
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    loggamma,
    random_gamma_p,
)
from weft.random.keys import PRNGKeyArray
from weft.runtime.array import ArrayImpl

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "random_gamma_p",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
_PROGRAMS = """
    ball bernoulli beta bits cauchy chisquare double_sided_maxwell exponential f gamma
    generalized_normal geometric gumbel laplace loggamma logistic lognormal maxwell normal
    orthogonal pareto poisson rademacher rayleigh t truncated_normal uniform wald weibull_min
"""


def _each_key_is_looked_at() -> bool:
    return config.debug_key_reuse or config.legacy_prng_key != "allow"


seal(
    globals(),
    programs=eager_programs(
        _PROGRAMS,
        options="d m shape",
        arrays=(PRNGKeyArray, ArrayImpl),
        separate=_each_key_is_looked_at,
    ),
)

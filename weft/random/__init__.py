"""Random numbers from explicit keys, under the names and with the values of jax.random."""

from weft.core.config import config
from weft.core.namespace import EagerPrograms, load_on_use
from weft.numpy.eager import eager_programs
from weft.runtime.array import ArrayImpl

_PROGRAMS = """
    ball bernoulli beta bits cauchy chisquare double_sided_maxwell exponential f gamma
    generalized_normal geometric gumbel laplace loggamma logistic lognormal maxwell normal
    orthogonal pareto poisson rademacher rayleigh t truncated_normal uniform wald weibull_min
"""


def _each_key_is_looked_at() -> bool:
    return config.debug_key_reuse or config.legacy_prng_key != "allow"


def _programs() -> EagerPrograms:
    from weft.random.keys import PRNGKeyArray  # this package loads none of its modules

    return eager_programs(
        _PROGRAMS,
        options="d m shape",
        arrays=(PRNGKeyArray, ArrayImpl),
        separate=_each_key_is_looked_at,
    )


__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "api": "PRNGKey clone fold_in key key_data key_dtype key_impl split wrap_key_data",
        "basic": "bernoulli bits normal rademacher randint truncated_normal uniform",
        "continuous": """ball cauchy double_sided_maxwell exponential generalized_normal gumbel
            laplace logistic lognormal maxwell multivariate_normal orthogonal pareto rayleigh t
            triangular wald weibull_min""",
        "discrete": "binomial categorical choice geometric multinomial permutation poisson",
        "gamma_family": "beta chisquare dirichlet f gamma loggamma random_gamma_p",
    },
    _programs,
)

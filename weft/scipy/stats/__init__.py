"""Distributions and statistics, under the names and with the semantics of jax.scipy.stats.

A distribution is a module: `weft.scipy.stats.norm.logpdf(x)`.
"""

from functools import lru_cache

from weft.core.namespace import EagerPrograms, load_on_use


@lru_cache(maxsize=1)
def _programs() -> EagerPrograms:
    from weft.numpy.eager import eager_programs  # where a function is used, not to import this

    return eager_programs("mode rankdata sem", options="nan_policy")


__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "continuous": """beta cauchy chi2 expon gamma gennorm gumbel_l gumbel_r laplace logistic
            norm pareto t truncnorm uniform vonmises wrapcauchy""",
        "discrete": "bernoulli betabinom binom geom nbinom poisson",
        "kde": "gaussian_kde",
        "multivariate": "dirichlet multinomial multivariate_normal",
        "samples": "mode rankdata sem",
    },
    _programs,
)

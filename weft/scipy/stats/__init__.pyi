"""Types of weft.scipy.stats, written by `make stubs` from the definitions."""

from typing import Any

from weft.scipy.stats.kde import gaussian_kde as gaussian_kde
from weft.scipy.stats.samples import ModeResult
from weft.typing import Array as Array
from weft.typing import ArrayLike

class bernoulli:
    @staticmethod
    def logpmf(k: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the logarithm of the probability of the Bernoulli distribution: 1 with …"""
    @staticmethod
    def pmf(k: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the probability of the Bernoulli distribution: 1 with probability p, else 0."""
    @staticmethod
    def cdf(k: Any, p: ArrayLike) -> Array:
        """Return the probability of at most k."""
    @staticmethod
    def ppf(q: ArrayLike, p: ArrayLike) -> Array:
        """Return the least k with a probability of q of at most k."""

class beta:
    @staticmethod
    def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the beta distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the beta distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the beta distribution."""
    @staticmethod
    def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the beta distribution."""
    @staticmethod
    def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the beta distribution."""
    @staticmethod
    def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the beta distribution."""

class betabinom:
    @staticmethod
    def logpmf(k: Any, n: Any, a: ArrayLike, b: ArrayLike, loc: Any = ...) -> Array:
        """Return the logarithm of the probability of the beta-binomial distribution of n …"""
    @staticmethod
    def pmf(k: Any, n: Any, a: ArrayLike, b: ArrayLike, loc: Any = ...) -> Array:
        """Return the probability of the beta-binomial distribution of n trials."""

class binom:
    @staticmethod
    def logpmf(k: Any, n: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the logarithm of the probability of the binomial distribution of n trials."""
    @staticmethod
    def pmf(k: Any, n: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the probability of the binomial distribution of n trials."""

class cauchy:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the Cauchy distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the Cauchy distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the Cauchy distribution."""
    @staticmethod
    def logsf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the Cauchy distribution."""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the Cauchy distribution."""
    @staticmethod
    def sf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the Cauchy distribution."""
    @staticmethod
    def ppf(q: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the Cauchy distribution."""
    @staticmethod
    def isf(q: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability above it of the Cauchy distribution."""

class chi2:
    @staticmethod
    def cdf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the chi-squared distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the chi-squared …"""
    @staticmethod
    def logpdf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the chi-squared distribution."""
    @staticmethod
    def logsf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the chi-squared …"""
    @staticmethod
    def pdf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the chi-squared distribution."""
    @staticmethod
    def sf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the chi-squared distribution."""

class dirichlet:
    @staticmethod
    def pdf(x: ArrayLike, alpha: Any) -> Array:
        """Return the Dirichlet density, of what `logpdf` takes."""
    @staticmethod
    def logpdf(x: ArrayLike, alpha: Any) -> Array:
        """Return the log of the Dirichlet density at x (k, ...) or, without the last row, (k …"""

class expon:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the exponential distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the exponential …"""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the exponential distribution."""
    @staticmethod
    def logsf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the exponential …"""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the exponential distribution."""
    @staticmethod
    def sf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the exponential distribution."""
    @staticmethod
    def ppf(q: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the exponential distribution."""

class gamma:
    @staticmethod
    def cdf(x: ArrayLike, a: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the gamma distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, a: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the gamma distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, a: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the gamma distribution."""
    @staticmethod
    def logsf(x: ArrayLike, a: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the gamma distribution."""
    @staticmethod
    def pdf(x: ArrayLike, a: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the gamma distribution."""
    @staticmethod
    def sf(x: ArrayLike, a: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the gamma distribution."""

class gennorm:
    @staticmethod
    def cdf(x: ArrayLike, beta: Any) -> Array:
        """Return the probability of at most x of the generalized normal distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, beta: Any) -> Array:
        """Return the logarithm of the density of the generalized normal distribution."""
    @staticmethod
    def pdf(x: ArrayLike, beta: Any) -> Array:
        """Return the density of the generalized normal distribution."""

class geom:
    @staticmethod
    def logpmf(k: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the logarithm of the probability of the geometric distribution: the trial …"""
    @staticmethod
    def pmf(k: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the probability of the geometric distribution: the trial of the first …"""

class gumbel_l:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the left-skewed Gumbel distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the left-skewed Gumbel …"""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the left-skewed Gumbel distribution."""
    @staticmethod
    def logsf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the left-skewed Gumbel …"""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the left-skewed Gumbel distribution."""
    @staticmethod
    def sf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the left-skewed Gumbel distribution."""
    @staticmethod
    def ppf(p: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the left-skewed Gumbel …"""

class gumbel_r:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the right-skewed Gumbel distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the right-skewed Gumbel …"""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the right-skewed Gumbel distribution."""
    @staticmethod
    def logsf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the right-skewed Gumbel …"""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the right-skewed Gumbel distribution."""
    @staticmethod
    def sf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the right-skewed Gumbel distribution."""
    @staticmethod
    def ppf(p: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the right-skewed Gumbel …"""

class laplace:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the Laplace distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the Laplace distribution."""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the Laplace distribution."""

class logistic:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the logistic distribution."""
    @staticmethod
    def isf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability above it of the logistic distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the logistic distribution."""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the logistic distribution."""
    @staticmethod
    def ppf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the logistic distribution."""
    @staticmethod
    def sf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the logistic distribution."""

def mode(
    a: ArrayLike, axis: int | None = ..., nan_policy: str = ..., keepdims: bool = ...
) -> ModeResult:
    """Return the commonest value along an axis, the least of several, and its count."""

class multinomial:
    @staticmethod
    def pmf(x: ArrayLike, n: Any, p: ArrayLike) -> Array:
        """Return the probability, of what `logpmf` takes."""
    @staticmethod
    def logpmf(x: ArrayLike, n: Any, p: ArrayLike) -> Array:
        """Return the log of the probability of counts x (..., k) in n trials of chances p …"""

class multivariate_normal:
    @staticmethod
    def pdf(x: ArrayLike, mean: Any, cov: Any) -> Array:
        """Return the density, of what `logpdf` takes."""
    @staticmethod
    def logpdf(x: ArrayLike, mean: Any, cov: Any, allow_singular: Any = ...) -> Array:
        """Return the log of the normal density at x (..., n) with mean (n,) and covariance …"""

class nbinom:
    @staticmethod
    def logpmf(k: Any, n: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the logarithm of the probability of the negative binomial distribution: …"""
    @staticmethod
    def pmf(k: Any, n: Any, p: ArrayLike, loc: Any = ...) -> Array:
        """Return the probability of the negative binomial distribution: failures before the …"""

class norm:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the normal distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the normal distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the normal distribution."""
    @staticmethod
    def logsf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the normal distribution."""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the normal distribution."""
    @staticmethod
    def sf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the normal distribution."""
    @staticmethod
    def ppf(q: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the normal distribution."""
    @staticmethod
    def isf(q: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability above it of the normal distribution."""

class pareto:
    @staticmethod
    def cdf(x: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the Pareto distribution."""
    @staticmethod
    def logcdf(x: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the Pareto distribution."""
    @staticmethod
    def logpdf(x: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the Pareto distribution."""
    @staticmethod
    def logsf(x: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the Pareto distribution."""
    @staticmethod
    def pdf(x: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the Pareto distribution."""
    @staticmethod
    def sf(x: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the Pareto distribution."""
    @staticmethod
    def ppf(q: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the Pareto distribution."""

class poisson:
    @staticmethod
    def cdf(k: Any, mu: Any, loc: Any = ...) -> Array:
        """Return the probability of at most x of the Poisson distribution."""
    @staticmethod
    def logpmf(k: Any, mu: Any, loc: Any = ...) -> Array:
        """Return the logarithm of the probability of the Poisson distribution."""
    @staticmethod
    def pmf(k: Any, mu: Any, loc: Any = ...) -> Array:
        """Return the probability of the Poisson distribution."""
    @staticmethod
    def entropy(mu: Any, loc: Any = ...) -> Array:
        """Return the Poisson distribution's entropy."""

def rankdata(
    a: ArrayLike, method: str = ..., *, axis: int | None = ..., nan_policy: str = ...
) -> Array:
    """Rank the elements from 1, along an axis or of the whole array, in its order."""

def sem(
    a: ArrayLike,
    axis: int | None = ...,
    ddof: int = ...,
    nan_policy: str = ...,
    *,
    keepdims: bool = ...,
) -> Array:
    """Return the standard error of the mean: the standard deviation over the root of the …"""

class t:
    @staticmethod
    def logpdf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the Student's t distribution."""
    @staticmethod
    def pdf(x: ArrayLike, df: Any, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the Student's t distribution."""

class truncnorm:
    @staticmethod
    def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the normal distribution truncated to [a, b]."""
    @staticmethod
    def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of at most x of the normal distribution …"""
    @staticmethod
    def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the normal distribution truncated to [a, b]."""
    @staticmethod
    def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the probability of more than x of the normal distribution …"""
    @staticmethod
    def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the normal distribution truncated to [a, b]."""
    @staticmethod
    def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of more than x of the normal distribution truncated to [a, …"""

class uniform:
    @staticmethod
    def cdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the probability of at most x of the uniform distribution over [loc, loc + …"""
    @staticmethod
    def logpdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the logarithm of the density of the uniform distribution over [loc, loc + …"""
    @staticmethod
    def pdf(x: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the density of the uniform distribution over [loc, loc + scale]."""
    @staticmethod
    def ppf(q: ArrayLike, loc: Any = ..., scale: Any = ...) -> Array:
        """Return the value with q of the probability below it of the uniform distribution …"""

class vonmises:
    @staticmethod
    def logpdf(x: ArrayLike, kappa: Any) -> Array:
        """Return the logarithm of the density of the von Mises distribution over the circle."""
    @staticmethod
    def pdf(x: ArrayLike, kappa: Any) -> Array:
        """Return the density of the von Mises distribution over the circle."""

class wrapcauchy:
    @staticmethod
    def logpdf(x: ArrayLike, c: Any) -> Array:
        """Return the logarithm of the density of the wrapped Cauchy distribution over [0, 2 …"""
    @staticmethod
    def pdf(x: ArrayLike, c: Any) -> Array:
        """Return the density of the wrapped Cauchy distribution over [0, 2 pi]."""

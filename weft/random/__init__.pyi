"""Types of weft.random, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.random.gamma_family import random_gamma_p as random_gamma_p
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def PRNGKey(seed: int | ArrayLike, *, impl: Any = ...) -> Array:
    """Return a key as the raw uint32 words that older programs pass around; prefer `key`."""

def ball(
    key: Any,
    d: int,
    p: ArrayLike = ...,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw points uniform in the unit ball of the p-norm in d dimensions; shape …"""

def bernoulli(
    key: Any,
    p: ArrayLike = ...,
    shape: int | Sequence[int] | None = ...,
    mode: str = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Booleans, True with probability p, which broadcasts to the shape."""

def beta(
    key: Any,
    a: ArrayLike,
    b: ArrayLike,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Beta floats: density proportional to x**(a-1) (1-x)**(b-1) on [0, 1]."""

def binomial(
    key: Any,
    n: Any,
    p: ArrayLike,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Binomial counts, as floats: successes in n trials of probability p."""

def bits(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Uniform random bits as unsigned integers."""

def categorical(
    key: Any,
    logits: Any,
    axis: int = ...,
    shape: int | Sequence[int] | None = ...,
    replace: bool = ...,
    mode: str | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Return indices along `axis` with probabilities softmax(logits), by the Gumbel-max …"""

def cauchy(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw Cauchy floats: density 1 / (pi (1 + x**2))."""

def chisquare(
    key: Any,
    df: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Chi-square floats with df degrees of freedom."""

def choice(
    key: Any,
    a: ArrayLike,
    shape: int | Sequence[int] = ...,
    replace: bool = ...,
    p: ArrayLike | None = ...,
    axis: int = ...,
    mode: str | None = ...,
) -> Array:
    """Random elements of an array along `axis`, or of `arange(a)` for an integer a."""

def clone(key: Any) -> Array:
    """Return the same key, marked as meant to be used again."""

def dirichlet(
    key: Any,
    alpha: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Dirichlet vectors: points of the simplex with concentrations alpha `[..., n]`."""

def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: int | Sequence[int] = ..., dtype: DTypeLike | None = ...
) -> Array:
    """Maxwell floats times a random sign, times scale, plus loc."""

def exponential(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw exponential floats of rate 1: density exp(-x) for x >= 0."""

def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """F floats with dfnum and dfden degrees of freedom."""

def fold_in(key: Any, data: Any) -> Array:
    """Return a new key from a key and a 32-bit integer, such as a step or a device number."""

def gamma(
    key: Any,
    a: ArrayLike,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Gamma floats: density proportional to x**(a-1) exp(-x) for x >= 0. Differentiable …"""

def generalized_normal(
    key: Any,
    p: ArrayLike,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Generalized normal floats: density proportional to exp(-|x|**p)."""

def geometric(
    key: Any,
    p: ArrayLike,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Geometric integers: the number of trials up to the first success of probability p."""

def gumbel(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    mode: str | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Gumbel floats: density exp(-(x + exp(-x)))."""

def key(seed: int | ArrayLike, *, impl: Any = ..., dtype: DTypeLike | None = ...) -> Array:
    """Return a random key made of an integer seed."""

def key_data(keys: Any) -> Array:
    """Return the uint32 words of keys, in a last dimension."""

def key_dtype(impl_spec: Any = ...) -> Any:
    """Return the dtype of keys of a generator, the default one if it is not named."""

def key_impl(keys: Any) -> Any:
    """Return the name of the generator of keys."""

def laplace(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw Laplace floats: density exp(-|x|) / 2."""

def loggamma(
    key: Any,
    a: ArrayLike,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw logarithms of gamma floats; exact also where `gamma` underflows (small a)."""

def logistic(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw logistic floats: density exp(-x) / (1 + exp(-x))**2."""

def lognormal(
    key: Any,
    sigma: Any = ...,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Log-normal floats: exp(sigma * z) of a standard normal z."""

def maxwell(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw Maxwell floats: the length of a standard normal vector of three dimensions."""

def multinomial(
    key: Any,
    n: Any,
    p: ArrayLike,
    *,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    unroll: int | bool = ...,
) -> Array:
    """Multinomial counts, floats unless dtype is integer: how often each outcome comes up."""

def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    method: str = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Return normal vectors of given mean `[..., n]` and covariance `[..., n, n]`."""

def normal(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Return standard normal floats; for complex dtypes the whole number has variance 1."""

def orthogonal(
    key: Any,
    n: int,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    m: int | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw matrices uniform among those with orthonormal columns (or rows): shape …"""

def pareto(
    key: Any,
    b: ArrayLike,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Pareto floats of shape parameter b: density b / x**(b+1) for x >= 1."""

def permutation(
    key: Any, x: ArrayLike, axis: int = ..., independent: bool = ..., *, out_sharding: Any = ...
) -> Array:
    """Shuffle an array's slices along `axis`; for an integer x, those of `arange(x)`."""

def poisson(
    key: Any,
    lam: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Poisson integers of rate lam, which broadcasts to the shape. Threefry keys only."""

def rademacher(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """-1 or 1 with equal probability."""

def randint(
    key: Any,
    shape: int | Sequence[int],
    minval: Any,
    maxval: Any,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Uniform integers in [minval, maxval); the bounds broadcast to the shape."""

def rayleigh(
    key: Any,
    scale: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Rayleigh floats: density x exp(-x**2 / (2 scale**2)) / scale**2 for x >= 0."""

def split(key: Any, num: int | Sequence[int] = ...) -> Array:
    """Return new independent keys from one key, which must not be used again."""

def t(
    key: Any,
    df: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Student's t floats with df degrees of freedom."""

def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw floats of the triangular distribution on [left, right] with its peak at `mode`."""

def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Draw normal floats conditioned on (lower, upper); the bounds broadcast to the shape."""

def uniform(
    key: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
    minval: Any = ...,
    maxval: Any = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Uniform floats in [minval, maxval); the bounds broadcast to the shape."""

def wald(
    key: Any,
    mean: Any,
    shape: int | Sequence[int] | None = ...,
    dtype: DTypeLike | None = ...,
    *,
    out_sharding: Any = ...,
) -> Array:
    """Wald (inverse Gaussian) floats of the given mean and scale 1."""

def weibull_min(
    key: Any,
    scale: Any,
    concentration: Any,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike | None = ...,
) -> Array:
    """Weibull floats: density c/s (x/s)**(c-1) exp(-(x/s)**c) for x > 0, scale s, …"""

def wrap_key_data(key_bits_array: Any, *, impl: Any = ..., dtype: DTypeLike | None = ...) -> Array:
    """Return keys made of their words: the inverse of `key_data`."""

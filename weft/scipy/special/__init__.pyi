"""Types of weft.scipy.special, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from weft.typing import Array as Array
from weft.typing import ArrayLike

def bernoulli(n: int) -> Array:
    """Return the Bernoulli numbers from B0 to Bn, with B1 = -1/2."""

def bessel_jn(z: Any, *, v: int, n_iter: int = ...) -> Array:
    """Return the Bessel functions J0(z) … Jv(z) of real z, along a new first axis."""

def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """gamma(a) gamma(b) / gamma(a + b)."""

def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized incomplete beta function I_x(a, b)."""

def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the logarithm of |beta(a, b)|."""

def boxcox(x: ArrayLike, lmbda: Any) -> Array:
    """Return the Box-Cox transform (x**lmbda - 1) / lmbda, and log(x) where lmbda is 0."""

def boxcox1p(x: ArrayLike, lmbda: Any) -> Array:
    """Return the Box-Cox transform of 1 + x."""

def comb(N: Any, k: Any, *, repetition: bool = ...) -> Array:
    """Return the number of ways to take k of N things; N and k may be fractional."""

def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral exp(-x**2) times the integral of exp(t**2) from 0 to x."""

def digamma(x: ArrayLike) -> Array:
    """Return the derivative of gammaln. Source: scipy.special.digamma."""

def entr(x: ArrayLike) -> Array:
    """Return the entropy -x log(x): 0 at 0, -inf where x is negative."""

def erf(x: ArrayLike) -> Array:
    """Return the error function. Source: scipy.special.erf."""

def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate where it is small. Source: scipy.special.erfc."""

def erfcx(x: ArrayLike) -> Array:
    """exp(x**2) * erfc(x), which does not underflow."""

def erfinv(x: ArrayLike) -> Array:
    """Return the inverse of the error function. Source: scipy.special.erfinv."""

def exp1(x: ArrayLike) -> Array:
    """Return the exponential integral E1(x) = -Ei(-x): exp(-t) / t integrated from x to …"""

def expi(x: ArrayLike) -> Array:
    """Return the exponential integral Ei(x): the principal value of exp(t) / t …"""

def expit(x: ArrayLike) -> Array:
    """Return the logistic function 1 / (1 + exp(-x)). Source: scipy.special.expit."""

def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Integrate exp(-x t) / t**n over t from 1 to infinity, for integers n >= 0, x >= 0."""

def factorial(n: Any, exact: bool = ...) -> Array:
    """gamma(n + 1), and 0 where n is negative."""

def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Return the Fresnel integrals S(x) and C(x), of sin and cos of pi t**2 / 2 from 0 …"""

def gamma(x: ArrayLike) -> Array:
    """Return the gamma function, (x - 1)! for positive integers."""

def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized lower incomplete gamma function P(a, x)."""

def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""

def gammaln(x: ArrayLike) -> Array:
    """Return the logarithm of |gamma(x)|. Source: scipy.special.gammaln."""

def gammasgn(x: ArrayLike) -> Array:
    """Return the sign of gamma(x): 1 or -1, and NaN at negative integers."""

def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function 1F1(a, b, x) of real arguments."""

def hyp2f1(a: ArrayLike, b: ArrayLike, c: Any, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function 2F1(a, b, c, x) of real arguments, x <= 1."""

def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function I0."""

def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) I0(x), of the modified Bessel function I0. Source: scipy.special.i0e."""

def i1(x: ArrayLike) -> Array:
    """Return the modified Bessel function I1."""

def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) I1(x), of the modified Bessel function I1. Source: scipy.special.i1e."""

def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) - p + q, a Kullback-Leibler divergence's term, which is never negative."""

def log_ndtr(x: ArrayLike, series_order: int = ...) -> Array:
    """Return the logarithm of ndtr(x), accurate in the lower tail."""

def log_softmax(x: ArrayLike, /, *, axis: int | Sequence[int] | None = ...) -> Array:
    """Return the logarithm of softmax, accurate where it is small."""

def loggamma(x: ArrayLike) -> Array:
    """Return the logarithm of gamma(x); for real x, NaN where gamma(x) is negative."""

def logit(x: ArrayLike) -> Array:
    """Return the logarithm of the odds, log(x / (1 - x)): the inverse of expit."""

@overload
def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: ArrayLike | None = ...,
) -> Array:
    """log(sum(b exp(a))) along axes, without overflow."""

@overload
def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = ...,
) -> tuple[Array, Array]:
    """log(sum(b exp(a))) along axes, without overflow."""

@overload
def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: bool = ...,
    where: ArrayLike | None = ...,
) -> Any:
    """log(sum(b exp(a))) along axes, without overflow."""

def multigammaln(a: ArrayLike, d: int) -> Array:
    """Return the logarithm of the multivariate gamma function of dimension d."""

def ndtr(x: ArrayLike) -> Array:
    """Return the integral of the standard normal density up to x."""

def ndtri(p: ArrayLike) -> Array:
    """Return the x with ndtr(x) = p: -inf at 0, inf at 1, NaN outside."""

def owens_t(h: Any, a: ArrayLike) -> Array:
    """Owen's T: the probability of X > h and 0 < Y < a X for independent normal X and Y."""

def poch(z: Any, m: ArrayLike) -> Array:
    """Return the rising factorial gamma(z + m) / gamma(z)."""

def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the n-th derivative of digamma at x."""

def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Return the relative entropy p log(p / q): 0 where p is 0, infinite where either is …"""

def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Return the sine integral Si(x) and the cosine integral Ci(x), NaN where x is …"""

def softmax(x: ArrayLike, /, *, axis: int | Sequence[int] | None = ...) -> Array:
    """exp(x) over its sum along an axis, or along all."""

def spence(x: ArrayLike) -> Array:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x: Li2(1 - x), for x …"""

def sph_harm_y(
    n: Any, m: ArrayLike, theta: Any, phi: Any, diff_n: int | None = ..., n_max: int | None = ...
) -> Array:
    """Return the spherical harmonic of degree n and order m at polar angle theta and …"""

def wofz(z: Any) -> Array:
    """Return the Faddeeva function exp(-z**2) * erfc(-i z) of complex z; the result is …"""

def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x * log(1 + y), and 0 where x is 0."""

def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x * log(y), and 0 where x is 0."""

def zeta(x: ArrayLike, q: ArrayLike | None = ...) -> Array:
    """Return the Hurwitz zeta function, the sum of (k + q)**-x over k >= 0; q=None: …"""

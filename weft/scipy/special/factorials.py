# Tests: tests/scipy/test_special.py
"""The gamma function and what is made of it: factorials, beta, incomplete gamma and beta."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb as host_comb
from math import log, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import inexact, static_int, to_array
from weft.ops.complex_values import fusible
from weft.ops.promote import broadcast_args, promote_inexact
from weft.scipy.special.elementwise import choose, polynomial, special_op

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def as_float(x: ArrayLike) -> Any:
    """Return the operand as an array of floats."""
    return inexact(to_array(x))


def float_array(x: ArrayLike) -> Any:
    """Return the operand, which may be nested sequences, as an array of floats."""
    return inexact(wnp.asarray(x))


def floats(*xs: Array) -> tuple:
    """Return operands in their common float dtype and shape."""
    return broadcast_args(*promote_inexact(*map(to_array, xs)))


def _unary(name: str, op: Callable, doc: str) -> Callable:
    def traced(x: ArrayLike) -> Any:
        return op(as_float(x))

    traced.__name__ = traced.__qualname__ = name
    traced.__doc__ = f"{doc} Source: scipy.special.{name}."
    return traced


gammaln = _unary("gammaln", lax.lgamma, "Return the logarithm of |gamma(x)|.")
digamma = _unary("digamma", lax.digamma, "Return the derivative of gammaln.")


def loggamma(x: ArrayLike) -> Any:
    """Return the logarithm of gamma(x); for real x, NaN where gamma(x) is negative.

    Of complex x, the branch that is continuous off the negative real axis.

    Source: Hare, Computing the principal branch of log-gamma, 1997; scipy.special.loggamma.

    >>> from weft.scipy import special
    >>> round(float(special.loggamma(0.5)), 4)
    0.5724
    """
    x = as_float(x)
    if wnp.iscomplexobj(x):
        return _complex_loggamma(x)
    return wnp.where(gammasgn(x) < 0, wnp.nan, gammaln(x))


# The coefficients B(2k) / (2k (2k - 1)) of Stirling's series.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8  # the series is taken so far to the right


def _complex_loggamma(z: Array) -> Any:
    reflected = z.real < 0.5
    right = wnp.where(reflected, 1 - z, z)
    far = right + _SHIFT
    series = polynomial(1 / (far * far), _STIRLING) / far
    value = (far - 0.5) * wnp.log(far) - far + log(2 * pi) / 2 + series
    for k in range(_SHIFT):
        value = value - wnp.log(right + k)
    # log(sin(pi z)) in the upper half plane, where it has no cut; the lower one mirrors it.
    down = wnp.signbit(z.imag)
    upper = lax.complex(z.real, wnp.abs(z.imag))
    whole = wnp.round(z.real)
    turned = lax.complex(z.real - whole, upper.imag)
    log_sine = wnp.log1p(-wnp.exp(2j * pi * turned)) - 1j * pi * (upper - 0.5) - log(2)
    log_sine = wnp.where(down, wnp.conj(log_sine), log_sine)
    return wnp.where(reflected, log(pi) - log_sine - value, value)


def gammasgn(x: Any) -> Any:
    """Return the sign of gamma(x): 1 or -1, and NaN at negative integers.

    Source: scipy.special.gammasgn.

    >>> from weft.scipy import special
    >>> special.gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    x = as_float(x)
    below = wnp.floor(x)
    sign = wnp.where((x < 0) & (wnp.fmod(below, 2) != 0), -1.0, 1.0)
    sign = wnp.where((x == 0) & wnp.signbit(x), -1.0, sign)
    undefined = wnp.isnan(x) | ((x < 0) & (x == below))
    return wnp.where(undefined, wnp.nan, sign).astype(x.dtype)


_GAMMA = {
    "float32": (
        1.32934036, 0.934734522, 0.654561648, 0.253871236, 0.109612047, 0.0283609536, 0.0107805656,
        0.00160703492,
    ),
    "float64": (
        1.329340388179137, 0.93473452162608586, 0.65455857798133664, 0.253871246841081,
        0.10967323400218487, 0.028360780598296692, 0.010392403424525894, 0.0016074003982781529,
        0.0007544741634534283, 3.942933739732899e-6, 6.132951527532448e-5, -1.2810259356350583e-5,
        7.2573352099711103e-6, -2.5237611386457593e-6, 1.0675361551610871e-6,
        -5.0603824839247318e-7, 2.0386319960055562e-7,
    ),
}  # fmt: skip
"""gamma(x) in x - 5/2, for x from 2 to 3."""
_GAMMA_SERIES = {
    "float32": (1.0, 0.083333333, 0.00347225022, -0.00268210609, -0.000220460864, 0.000748442429),
    "float64": (
        1.0, 0.083333333333325026, 0.003472222224135661, -0.0026813273310288094,
        -0.0002294644020032874, 0.00078384104876311684, 7.2806663191278843e-5,
        -0.00062119182516931809, 0.00010585507208784539, 0.00044109434022851355,
    ),
}  # fmt: skip
"""gamma(x) exp(x) x**(1/2 - x) / sqrt(2 pi) in 1 / x, for x from 7 on."""
_SINE_OF_HALF_TURNS = {
    "float32": (3.14159264, -5.16771008, 2.55007739, -0.598290411, 0.0776559123),
    "float64": (
        3.1415926535897932, -5.1677127800499696, 2.5501640398773005, -0.59926452931894468,
        0.082145886573102895, -0.0073704305059169434, 0.00046629981618983938,
        -2.1903497074626017e-5, 7.6978267682241906e-7,
    ),
}  # fmt: skip
"""sin(pi x) / x in x**2, for x up to 1/2."""


def _gamma(x: Array) -> Any:
    """Multiply from the interval between 2 and 3 up to 7, then take Stirling's series.

    A power by its root does not overflow before the result. Negative x are reflected.
    """
    kind = x.dtype.name
    negative, size = x < 0, wnp.abs(x)
    far = size > 7
    y, product = wnp.where(far, 2, size), wnp.ones_like(x)
    for _ in range(4):
        above = y > 3
        y = wnp.where(above, y - 1, y)
        product = wnp.where(above, product * y, product)
    below = wnp.where(size < 2, size * wnp.where(size < 1, size + 1, 1), 1)
    y = choose(size < 1, size + 2, size < 2, size + 1, y)
    near = polynomial(y - 2.5, _GAMMA[kind]) * product / below
    most = 36.5 if kind == "float32" else 200  # where the result is infinite, but no part of it
    large = wnp.where(far, wnp.minimum(size, most), 7)
    root = lax.pow(large, 0.5 * large - 0.25)
    series = polynomial(fusible(1 / large, large), _GAMMA_SERIES[kind]) * sqrt(2 * pi)
    value = wnp.where(far, root * (wnp.exp(-large) * series) * root, near)
    # Source: M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 1964, 6.1.17.
    whole = wnp.round(x)
    part = x - whole
    sine = part * polynomial(part * part, _SINE_OF_HALF_TURNS[kind])
    sine = wnp.where(negative, wnp.where(wnp.fmod(whole, 2) == 0, sine, -sine), 1)
    value = wnp.where(negative, -pi / (sine * value * x), value)
    value = choose(x == 0, 1 / x, x == wnp.inf, x, value)
    return wnp.where(negative & (x == whole), wnp.nan, value)


_gamma_op = special_op(
    "gamma",
    _gamma,
    lambda out, x: out * digamma(x),
    of_complex=lambda x: wnp.exp(_complex_loggamma(x)),
    weak_type=True,
)


def gamma(x: ArrayLike) -> Any:
    """Return the gamma function, (x - 1)! for positive integers.

    Source: scipy.special.gamma.

    >>> from weft.scipy import special
    >>> round(float(special.gamma(5.0)), 4)
    24.0
    """
    return _gamma_op(x)


def _log_beta(a: Array, b: Array) -> Any:
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def _beta(a: Array, b: Array) -> Any:
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * wnp.exp(_log_beta(a, b))


def _poch(z: Array, m: Array) -> Any:
    value = gammasgn(z) * gammasgn(z + m) * wnp.exp(gammaln(z + m) - gammaln(z))
    return wnp.where(m == 0, 1, value)


def _binomial(n: Array, k: Array) -> Any:
    value = wnp.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
    exact = value < 1 / (512 * wnp.finfo(value.dtype).eps)
    whole = (n == wnp.floor(n)) & (k == wnp.floor(k)) & exact
    return wnp.where(whole, wnp.round(value), value)


_log_beta_op = special_op(
    "betaln",
    _log_beta,
    lambda out, a, b: digamma(a) - digamma(a + b),
    lambda out, a, b: digamma(b) - digamma(a + b),
    weak_type=True,
    doubled=True,
)
_beta_op = special_op(
    "beta",
    _beta,
    lambda out, a, b: out * (digamma(a) - digamma(a + b)),
    lambda out, a, b: out * (digamma(b) - digamma(a + b)),
    weak_type=True,
    doubled=True,
)
_poch_op = special_op(
    "poch",
    _poch,
    lambda out, z, m: wnp.where(m == 0, 0, out * (digamma(z + m) - digamma(z))),
    lambda out, z, m: wnp.where(m == 0, 0, out * digamma(z + m)),
    weak_type=True,
    doubled=True,
)
_binomial_op = special_op(
    "binomial",
    _binomial,
    lambda out, n, k: out * (digamma(n + 1) - digamma(n - k + 1)),
    lambda out, n, k: out * (digamma(n - k + 1) - digamma(k + 1)),
    weak_type=True,
    doubled=True,
)


def betaln(a: Any, b: ArrayLike) -> Any:
    """Return the logarithm of |beta(a, b)|.

    Source: scipy.special.betaln.

    >>> from weft.scipy import special
    >>> round(float(special.betaln(2.0, 3.0)), 4)
    -2.4849
    """
    return _log_beta_op(a, b)


def beta(a: Any, b: ArrayLike) -> Any:
    """gamma(a) gamma(b) / gamma(a + b).

    Source: scipy.special.beta.

    >>> from weft.scipy import special
    >>> round(float(special.beta(2.0, 3.0)), 4)
    0.0833
    """
    return _beta_op(a, b)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularized incomplete beta function I_x(a, b).

    Source: scipy.special.betainc.

    >>> from weft.scipy import special
    >>> round(float(special.betainc(2.0, 2.0, 0.5)), 4)
    0.5
    """
    return lax.betainc(*floats(a, b, x))


def gammainc(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularized lower incomplete gamma function P(a, x).

    Source: scipy.special.gammainc.

    >>> from weft.scipy import special
    >>> round(float(special.gammainc(2.0, 1.0)), 4)
    0.2642
    """
    return lax.igamma(*floats(a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    Source: scipy.special.gammaincc.

    >>> from weft.scipy import special
    >>> round(float(special.gammaincc(2.0, 1.0)), 4)
    0.7358
    """
    return lax.igammac(*floats(a, x))


def factorial(n: Any, exact: bool = False) -> Any:
    """gamma(n + 1), and 0 where n is negative.

    exact: integers of any size, which arrays do not hold: it must be False.
    Source: scipy.special.factorial.

    >>> from weft.scipy import special
    >>> round(float(special.factorial(4)), 4)
    24.0
    """
    if exact:
        raise NotImplementedError(
            "factorial: exact=True gives Python integers, which arrays do not hold; use "
            "math.factorial, or exact=False"
        )
    n = as_float(n)
    large = n > 1  # where adding 1 to fractions loses bits
    return wnp.where(n < 0, 0, gamma(wnp.where(large, n, n + 1)) * wnp.where(large, n, 1))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """Return the number of ways to take k of N things; N and k may be fractional.

    repetition: things may be taken more than once. 0 where k < 0, N < 0 or k > N.
    Source: scipy.special.comb.

    >>> from weft.scipy import special
    >>> round(float(special.comb(5, 2)), 4)
    10.0
    """
    N, k = floats(N, k)
    if repetition:
        N, none = N + k - 1, (N <= 0) & (k > 0)
        return wnp.where(none | (k < 0), 0, wnp.where(k == 0, 1, _binomial_op(N, k)))
    return wnp.where((k < 0) | (N < 0) | (k > N), 0, _binomial_op(N, k))


def poch(z: Any, m: ArrayLike) -> Any:
    """Return the rising factorial gamma(z + m) / gamma(z).

    Source: scipy.special.poch.

    >>> from weft.scipy import special
    >>> round(float(special.poch(2.0, 3.0)), 4)
    24.0
    """
    return _poch_op(z, m)


def multigammaln(a: ArrayLike, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function of dimension d.

    Source: Wilks, Mathematical Statistics, 1962.

    >>> from weft.scipy import special
    >>> round(float(special.multigammaln(3.0, 2)), 4)
    1.5502
    """
    d = static_int(d, "multigammaln: d")
    shifted = as_float(a)[..., None] - wnp.arange(d) / 2
    return gammaln(shifted).sum(-1) + d * (d - 1) / 4 * log(pi)


def polygamma(n: ArrayLike, x: ArrayLike) -> Any:
    """Return the n-th derivative of digamma at x.

    n: whole numbers, of an integer dtype or Python's. Source: scipy.special.polygamma.

    >>> from weft.scipy import special
    >>> round(float(special.polygamma(1, 0.5)), 4)
    4.9348
    """
    dtype = typeof(to_array(n)).dtype
    if not dtypes.is_integer(dtype) and not dtypes.is_bool(dtype):
        raise ArgumentError(f"polygamma: n must be of an integer dtype, got {dtype}")
    order, at = floats(n, x)
    odd = wnp.where(order % 2 == 1, 1.0, -1.0).astype(at.dtype)
    count = gamma(to_array(n).astype(at.dtype) + 1)  # of n alone, whatever the shape of x
    power = wnp.where(order > 0, order, 1) + 1
    is_below = (at <= 0) & (order > 0)
    above = lax.zeta(power, wnp.where(is_below, 1.0, at))  # below, not even derivatives are
    value = odd * count * wnp.where(is_below, _zeta_below(power, at), above)
    first = digamma(wnp.where(order == 0, at, 1.0))
    return choose(order == 0, first, order < 0, wnp.nan, value)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Any:
    """Return the Hurwitz zeta function, the sum of (k + q)**-x over k >= 0; q=None: Riemann's, q=1.

    Source: scipy.special.zeta.

    >>> from weft.scipy import special
    >>> round(float(special.zeta(2.0, 1.0)), 4)
    1.6449
    """
    if q is None:
        return lax.zeta(*floats(x, 1))
    power, start = floats(x, q)
    above = lax.zeta(power, wnp.where(start <= 0, 1.0, start))  # below, not even derivatives are
    return wnp.where(start <= 0, _zeta_below(power, start), above)


def _zeta_below(x: Array, q: Array) -> Any:
    """Return the Hurwitz zeta function of q up to 0, for whole x only; of others nan, at poles inf.

    Its terms from q to 0 are those of two such functions of positive arguments, as XLA's own sum
    ends after ten: sum((q + k)**-x) = zeta(x, f) ± (zeta(x, 1 - f) - zeta(x, 1 - q)) for q = f - n.
    """
    q = wnp.where(q <= 0, q, -0.5)  # of others nothing is used, nor their derivatives
    below = wnp.floor(q)
    pole = q == below
    part = wnp.where(pole, 0.5, q - below)
    rest = wnp.where(pole, 0.5, (below + 1) - q)  # exact where 1 - part is not
    left = lax.zeta(x, rest) - lax.zeta(x, 1 - q)
    value = lax.zeta(x, part) + wnp.where(x % 2 == 1, -left, left)
    value = wnp.where(x == wnp.floor(x), value, wnp.nan)
    return wnp.where(pole | (x == 1), wnp.inf, value)


def bernoulli(n: int) -> Any:
    """Return the Bernoulli numbers from B0 to Bn, with B1 = -1/2.

    n: a Python integer, 0 or more. Source: scipy.special.bernoulli.

    >>> from weft.scipy import special
    >>> [round(float(y), 4) for y in special.bernoulli(4)]
    [1.0, -0.5, 0.1667, 0.0, -0.0333]
    """
    n = static_int(n, "bernoulli: n")
    if n < 0:
        raise ArgumentError(f"bernoulli: n must be 0 or more, got {n}")
    exact = [Fraction(1), Fraction(-1, 2)]
    for m in range(2, n + 1):
        terms = (host_comb(m + 1, k) * exact[k] for k in range(m) if k < 2 or k % 2 == 0)
        exact.append(Fraction(0) if m % 2 else -sum(terms, Fraction(0)) / (m + 1))
    return wnp.asarray(np.array([float(b) for b in exact[: n + 1]]), dtype=float)

# Tests: tests/scipy/test_special.py
"""Products with logarithms, which are 0 where a factor is; logistic functions; power transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft import lax
from weft.scipy.special.elementwise import choose, special_op
from weft.scipy.special.factorials import _unary, floats

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

expit = _unary("expit", lax.logistic, "Return the logistic function 1 / (1 + exp(-x)).")


def _log_odds(p: Array) -> Any:
    return wnp.log(p) - wnp.log1p(-p)


def _real_log_odds(p: Array) -> Any:
    """Return one logarithm of 1 + |1 - 2 p| / min(p, 1 - p), which is accurate around 1/2."""
    below = p < 0.5
    rest = choose(p == 0, 0, below, p, 1 - p)  # for -0 what 0 has
    size = wnp.log1p(wnp.abs(1 - 2 * p) / rest)
    return wnp.where(below, -size, size)


_logit = special_op(
    "logit", _real_log_odds, lambda out, p: 1 / (p * (1 - p)), of_complex=_log_odds, weak_type=True
)


def _times_log(name: str, log: Callable, slope: Callable) -> Callable:
    """Make the op x * log(y); slope: the derivative of log."""

    def formula(x: Array, y: Array) -> Any:
        return wnp.where((x == 0) & ~wnp.isnan(y), 0, x * log(y))

    partials = (lambda out, x, y: log(y), lambda out, x, y: x * slope(y))
    return special_op(name, formula, *partials, of_complex=formula, weak_type=True)


_xlogy = _times_log("xlogy", wnp.log, lambda y: 1 / y)
_xlog1py = _times_log("xlog1py", wnp.log1p, lambda y: 1 / (1 + y))
_entr = special_op(
    "entr",
    lambda x: choose(x < 0, -wnp.inf, x == 0, 0, -x * wnp.log(x)),
    lambda out, x: -wnp.log(x) - 1,
    weak_type=True,
)


def _log_ratio(p: Array, q: Array) -> Any:
    """log(p / q) of positive numbers, by their difference, which is exact near 1."""
    size = wnp.log1p(wnp.abs(p - q) / wnp.minimum(p, q))
    return wnp.where(p < q, -size, size)


_rel_entr = special_op(
    "rel_entr",
    lambda p, q: choose(
        wnp.isnan(p) | wnp.isnan(q),
        wnp.nan,
        (p == 0) & (q >= 0),
        0,
        (p > 0) & (q > 0),
        p * _log_ratio(p, q),
        wnp.inf,
    ),
    lambda out, p, q: wnp.where((p > 0) & (q > 0), _log_ratio(p, q) + 1, 0),
    lambda out, p, q: wnp.where((p > 0) & (q > 0), -p / q, 0),
    weak_type=True,
)


def logit(x: ArrayLike) -> Any:
    """Return the logarithm of the odds, log(x / (1 - x)): the inverse of expit.

    Source: scipy.special.logit.

    >>> from weft.scipy import special
    >>> round(float(special.logit(0.5)), 4)
    0.0
    """
    return _logit(x)


def xlogy(x: ArrayLike, y: ArrayLike) -> Any:
    """Return x * log(y), and 0 where x is 0.

    Source: scipy.special.xlogy.

    >>> from weft.scipy import special
    >>> round(float(special.xlogy(0.5, 2.0)), 4)
    0.3466
    """
    return _xlogy(x, y)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Any:
    """Return x * log(1 + y), and 0 where x is 0.

    Source: scipy.special.xlog1py.

    >>> from weft.scipy import special
    >>> round(float(special.xlog1py(0.5, 1.0)), 4)
    0.3466
    """
    return _xlog1py(x, y)


def entr(x: ArrayLike) -> Any:
    """Return the entropy -x log(x): 0 at 0, -inf where x is negative.

    Source: scipy.special.entr.

    >>> from weft.scipy import special
    >>> round(float(special.entr(0.5)), 4)
    0.3466
    """
    return _entr(x)


def rel_entr(p: ArrayLike, q: ArrayLike) -> Any:
    """Return the relative entropy p log(p / q): 0 where p is 0, infinite where either is negative.

    Source: scipy.special.rel_entr.

    >>> from weft.scipy import special
    >>> round(float(special.rel_entr(0.5, 0.25)), 4)
    0.3466
    """
    return _rel_entr(p, q)


def kl_div(p: ArrayLike, q: ArrayLike) -> Any:
    """p log(p / q) - p + q, a Kullback-Leibler divergence's term, which is never negative.

    Source: scipy.special.kl_div.

    >>> from weft.scipy import special
    >>> round(float(special.kl_div(0.5, 0.25)), 4)
    0.0966
    """
    p, q = floats(p, q)
    return rel_entr(p, q) - p + q


def boxcox(x: ArrayLike, lmbda: object) -> Any:
    """Return the Box-Cox transform (x**lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    Source: scipy.special.boxcox.

    >>> from weft.scipy import special
    >>> round(float(special.boxcox(4.0, 0.5)), 4)
    2.0
    """
    x, lmbda = floats(x, lmbda)
    return _power_transform(wnp.log(x), lmbda)


def boxcox1p(x: ArrayLike, lmbda: object) -> Any:
    """Return the Box-Cox transform of 1 + x.

    Source: scipy.special.boxcox1p.

    >>> from weft.scipy import special
    >>> round(float(special.boxcox1p(3.0, 0.5)), 4)
    2.0
    """
    x, lmbda = floats(x, lmbda)
    return _power_transform(wnp.log1p(x), lmbda)


def _power_transform(log_x: Array, lmbda: Array) -> Any:
    at_zero = lmbda == 0
    safe = wnp.where(at_zero, 1, lmbda)
    # At 0 the derivative in lmbda comes from the second term of the series.
    near = log_x + lmbda * wnp.where(wnp.isfinite(log_x), log_x, 0) ** 2 / 2
    return wnp.where(at_zero, near, wnp.expm1(safe * log_x) / safe)

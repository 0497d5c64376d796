# Tests: tests/scipy/test_stats.py
"""Distributions of vectors: Dirichlet, multinomial, normal."""

from __future__ import annotations

from math import log, pi
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.lax import linalg as lax_linalg
from weft.scipy.special import gammaln, xlogy
from weft.scipy.special.factorials import as_float, floats
from weft.scipy.stats.distribution import make_module

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def _dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    """Return the log of the Dirichlet density at x (k, ...) or, without the last row, (k - 1, ...).

    alpha: (k,). Source: scipy.stats.dirichlet.
    """
    x, alpha = as_float(x), as_float(alpha)
    if alpha.ndim != 1 or x.ndim < 1 or alpha.shape[0] - x.shape[0] not in (0, 1):
        raise ArgumentError(
            f"dirichlet: x (k, ...) or (k - 1, ...) and alpha (k,) do not fit: got {x.shape}, "
            f"{alpha.shape}"
        )
    if x.shape[0] < alpha.shape[0]:
        x = wnp.concatenate([x, 1 - wnp.sum(x, 0, keepdims=True)])
    inside = wnp.all(x >= 0, 0) & (wnp.abs(wnp.sum(x, 0) - 1) < 1e-5)
    a = alpha.reshape(-1, *[1] * (x.ndim - 1))
    value = wnp.sum(xlogy(a - 1, wnp.where(x >= 0, x, 1)), 0)
    value = value - wnp.sum(gammaln(alpha)) + gammaln(wnp.sum(alpha))
    return wnp.where(wnp.all(alpha > 0), wnp.where(inside, value, -wnp.inf), wnp.nan)


def _multinomial_logpmf(x: Any, n: Any, p: ArrayLike) -> Any:
    """Return the log of the probability of counts x (..., k) in n trials of chances p (..., k).

    Source: scipy.stats.multinomial.
    """
    for name, number in (("x", x), ("n", n)):
        if not dtypes.is_integer(wnp.asarray(number).dtype):
            raise ArgumentError(f"multinomial: {name} must be integers, got {number!r:.60}")
    x, p = floats(x, p)
    n = as_float(n).astype(x.dtype)
    value = gammaln(n + 1) + wnp.sum(xlogy(x, p) - gammaln(x + 1), -1)
    counts = wnp.all((x >= 0) & (x == wnp.floor(x)), -1) & (wnp.sum(x, -1) == n)
    return wnp.where(counts, value, -wnp.inf)


def _normal_logpdf(x: Any, mean: Any, cov: Any, allow_singular: object = None) -> Any:
    """Return the log of the normal density at x (..., n) with mean (n,) and covariance (n, n).

    mean, cov: scalars for one dimension; leading dimensions broadcast. allow_singular: must be
    None. Source: scipy.stats.multivariate_normal.
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "multivariate_normal.logpdf: allow_singular must be None; the covariance is positive "
            "definite"
        )
    x, mean, cov = (as_float(v) for v in (x, mean, cov))
    dtype = wnp.result_type(x, mean, cov)
    x, mean, cov = (v.astype(dtype) for v in (x, mean, cov))
    if not mean.shape:
        return -((x - mean) ** 2) / (2 * cov) - wnp.log(2 * pi * cov) / 2
    n = mean.shape[-1]
    if not cov.shape:
        gap = x - mean
        return -wnp.sum(gap * gap, -1) / (2 * cov) - n / 2 * wnp.log(2 * pi * cov)
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ArgumentError(
            f"multivariate_normal: cov {cov.shape} must end with the shape ({n}, {n}) that mean "
            f"{mean.shape} asks for"
        )
    factor = lax_linalg.cholesky(cov)
    gap = x - mean
    batch = wnp.broadcast_shapes(gap.shape[:-1], cov.shape[:-2])
    gap = wnp.broadcast_to(gap, (*batch, n))
    if cov.ndim == 2:  # one system with many right-hand sides
        flat = gap.reshape(-1, n).T
        white = lax_linalg.triangular_solve(factor, flat, left_side=True, lower=True).T
    else:
        factors = wnp.broadcast_to(factor, (*batch, n, n))
        white = lax_linalg.triangular_solve(factors, gap[..., None], left_side=True, lower=True)
    white = white.reshape(*batch, n)
    half_log = wnp.sum(wnp.log(wnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -wnp.sum(white * white, -1) / 2 - n / 2 * log(2 * pi) - half_log


def _dirichlet_pdf(x: ArrayLike, alpha: object) -> Any:
    """Return the Dirichlet density, of what `logpdf` takes."""
    return wnp.exp(_dirichlet_logpdf(x, alpha))


def _multinomial_pmf(x: ArrayLike, n: object, p: ArrayLike) -> Any:
    """Return the probability, of what `logpmf` takes."""
    return wnp.exp(_multinomial_logpmf(x, n, p))


def _normal_pdf(x: ArrayLike, mean: object, cov: object) -> Any:
    """Return the density, of what `logpdf` takes."""
    return wnp.exp(_normal_logpdf(x, mean, cov))


dirichlet = make_module(
    "dirichlet", "The Dirichlet distribution.", {"pdf": _dirichlet_pdf, "logpdf": _dirichlet_logpdf}
)
multinomial = make_module(
    "multinomial",
    "The multinomial distribution.",
    {"pmf": _multinomial_pmf, "logpmf": _multinomial_logpmf},
)
multivariate_normal = make_module(
    "multivariate_normal",
    "The multivariate normal distribution.",
    {"pdf": _normal_pdf, "logpdf": _normal_logpdf},
)

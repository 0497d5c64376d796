# Tests: tests/scipy/test_stats.py
"""Densities estimated from samples with Gaussian kernels."""

from __future__ import annotations

from math import log, pi
from typing import Any

import weft.numpy as wnp
from weft import lax, random, tree_util
from weft.core.errors import ArgumentError
from weft.lax import linalg as lax_linalg
from weft.nn.exponential_sums import logsumexp
from weft.scipy.special import ndtr
from weft.scipy.special.factorials import as_float


@tree_util.register_pytree_node_class
class gaussian_kde:
    """The density of which a data set is a sample, as a sum of Gaussian kernels; a pytree.

    dataset: (n,) or (d, n). bw_method: 'scott' (default), 'silverman', a number, or a function of
    the estimate that gives one. weights: of the elements, (n,), equal by default.

    Source: Scott, Multivariate density estimation, 1992; scipy.stats.gaussian_kde.

    >>> import numpy as np
    >>> from weft.scipy.stats import gaussian_kde
    >>> estimate = gaussian_kde(np.array([-1.0, 0.0, 1.0]))
    >>> round(float(estimate(0.0)[0]), 3)
    0.318
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None):
        data = wnp.atleast_2d(as_float(dataset))
        if wnp.iscomplexobj(data):
            raise NotImplementedError("gaussian_kde: dataset must be real")
        if data.ndim != 2 or data.shape[1] < 2:
            raise ArgumentError(
                f"gaussian_kde: dataset must have several elements, got shape {data.shape}"
            )
        self.dataset = data
        n = data.shape[1]
        if weights is None:
            self.weights = wnp.full(n, 1 / n, data.dtype)
        else:
            w = as_float(weights).astype(data.dtype)
            if w.shape != (n,):
                raise ArgumentError(f"gaussian_kde: weights must be ({n},), got {w.shape}")
            self.weights = w / wnp.sum(w)
        factor = self._factor(bw_method)
        covariance = wnp.atleast_2d(wnp.cov(data, rowvar=True, bias=False, aweights=self.weights))
        self.covariance = covariance * factor**2
        self.inv_cov = wnp.linalg.inv(covariance) / factor**2

    def _factor(self, method: object) -> Any:
        if method is None or method == "scott":
            return self.neff ** (-1.0 / (self.d + 4))
        if method == "silverman":
            return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        if callable(method):
            return method(self)
        if isinstance(method, str):
            raise ArgumentError(
                f"gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function, "
                f"got {method!r}"
            )
        return method

    def set_bandwidth(self, bw_method: object = None) -> Any:
        """Refuses: an estimate does not change; make another one with `bw_method`."""
        del bw_method
        raise NotImplementedError(
            "gaussian_kde.set_bandwidth: an estimate does not change; make another one with "
            "gaussian_kde(dataset, bw_method)"
        )

    def tree_flatten(self) -> tuple:
        """Return the arrays that the estimate is made of."""
        return (self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: object, children: Any) -> gaussian_kde:
        """Return the estimate of the arrays that `tree_flatten` gave."""
        del aux_data
        self = object.__new__(cls)
        self.dataset, self.weights, self.covariance, self.inv_cov = children
        return self

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of elements."""
        return self.dataset.shape[1]

    @property
    def neff(self) -> Any:
        """The number of equally weighted elements that would say as much."""
        return 1 / wnp.sum(self.weights**2)

    def _points(self, points: Any) -> Any:
        points = wnp.atleast_2d(as_float(points)).astype(self.dataset.dtype)
        if points.ndim != 2:
            raise ArgumentError(f"gaussian_kde: points must be (d, m), got shape {points.shape}")
        if points.shape[0] != self.d and points.shape == (1, self.d):
            points = points.T
        if points.shape[0] != self.d:
            raise ArgumentError(
                f"gaussian_kde: points have {points.shape[0]} dimensions, the data set {self.d}"
            )
        return points

    def _log_kernels(self, points: object, covariance: Any) -> Any:
        """Return the logarithm of each element's weighted kernel at each point, (m, n)."""
        factor = lax_linalg.cholesky(covariance)
        solve = lambda x: lax_linalg.triangular_solve(factor, x, left_side=True, lower=True)
        gaps = solve(points)[:, :, None] - solve(self.dataset)[:, None, :]
        size = wnp.sum(wnp.log(wnp.diagonal(factor))) + self.d / 2 * log(2 * pi)
        return wnp.log(self.weights) - wnp.sum(gaps * gaps, 0) / 2 - size

    def logpdf(self, x: object) -> Any:
        """Return the logarithm of the density at points (m,) or (d, m)."""
        return logsumexp(self._log_kernels(self._points(x), self.covariance), axis=1)

    def evaluate(self, points: object) -> Any:
        """Return the density at points (m,) or (d, m)."""
        return wnp.exp(self.logpdf(points))

    def pdf(self, x: object) -> Any:
        """Return the density at points (m,) or (d, m)."""
        return self.evaluate(x)

    __call__ = evaluate

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """Return the integral of the density times a normal one."""
        mean = wnp.atleast_1d(as_float(mean))
        cov = wnp.atleast_2d(as_float(cov))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ArgumentError(
                f"gaussian_kde.integrate_gaussian: mean {mean.shape} and cov {cov.shape} must be "
                f"({self.d},) and ({self.d}, {self.d})"
            )
        return wnp.exp(logsumexp(self._log_kernels(mean[:, None], self.covariance + cov)))

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Return the integral of a density of one dimension from low to high."""
        if self.d != 1:
            raise ArgumentError(
                "gaussian_kde.integrate_box_1d: the data set has several dimensions"
            )
        deviation = wnp.sqrt(self.covariance[0, 0])
        ends = [ndtr((as_float(e) - self.dataset[0]) / deviation) for e in (low, high)]
        return wnp.sum(self.weights * (ends[1] - ends[0]))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """Return the integral of the product with another density."""
        if other.d != self.d:
            raise ArgumentError(
                f"gaussian_kde.integrate_kde: {other.d} dimensions do not fit {self.d}"
            )
        small, large = (self, other) if self.n < other.n else (other, self)
        log_kernels = large._log_kernels(small.dataset, small.covariance + large.covariance)
        return wnp.sum(wnp.exp(logsumexp(log_kernels, axis=1)) * small.weights)

    def integrate_box(self, low_bounds: object, high_bounds: object, maxpts: object = None) -> Any:
        """Refuses: only `integrate_box_1d` is there."""
        del low_bounds, high_bounds, maxpts
        raise NotImplementedError(
            "gaussian_kde.integrate_box: only integrate_box_1d is there, of one dimension"
        )

    def resample(self, key: object, shape: tuple[int, ...] = ()) -> Any:
        """Return a sample of the density, (d, *shape)."""
        first, second = random.split(key)
        chosen = random.choice(first, self.n, shape, p=self.weights)
        noise = random.normal(second, (self.d, *shape), self.dataset.dtype)
        factor = lax_linalg.cholesky(self.covariance)
        return self.dataset[:, chosen] + lax.dot_general(factor, noise, (((1,), (0,)), ((), ())))

# Tests: tests/scipy/test_solvers.py
"""Interpolation on grids, under the names and with the semantics of jax.scipy.interpolate."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import weft.numpy as wnp
from weft import tree_util
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.scipy.special.factorials import as_float

__all__ = ["RegularGridInterpolator"]


@tree_util.register_pytree_node_class
class RegularGridInterpolator:
    """A function of n variables, interpolated between its values on a rectilinear grid; a pytree.

    points: the ascending coordinates along each dimension. values: the function's, of the grid's
    shape, and more dimensions where it has several. method: 'linear' or 'nearest'. bounds_error:
    must be False. fill_value: outside of the grid; None extrapolates.

    Source: scipy.interpolate.RegularGridInterpolator.

    >>> import numpy as np
    >>> from weft.scipy.interpolate import RegularGridInterpolator
    >>> f = RegularGridInterpolator((np.array([0.0, 1.0]),), np.array([0.0, 2.0]))
    >>> f(np.array([[0.25]]))
    Array([0.5], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: object,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = wnp.nan,
    ):
        if method not in ("linear", "nearest"):
            raise ArgumentError(
                f"RegularGridInterpolator: method must be 'linear' or 'nearest', got {method!r}"
            )
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator: bounds_error must be False, since values are not looked "
                "at while tracing; give a fill_value"
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.values = as_float(values)
        self.grid = tuple(as_float(p) for p in points)
        if len(self.grid) > self.values.ndim:
            raise ArgumentError(
                f"RegularGridInterpolator: points has {len(self.grid)} arrays, values "
                f"{self.values.ndim} dimensions"
            )
        for i, p in enumerate(self.grid):
            if p.shape != self.values.shape[i : i + 1]:
                raise ArgumentError(
                    f"RegularGridInterpolator: points[{i}] {p.shape} does not fit dimension {i} of "
                    f"values {self.values.shape}"
                )

    def tree_flatten(self) -> tuple:
        """Return the arrays and the static parts."""
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> RegularGridInterpolator:
        """Return the interpolator of what `tree_flatten` gave."""
        self = object.__new__(cls)
        self.method, self.bounds_error = aux_data
        self.grid, self.values, self.fill_value = children
        return self

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """Return the values at points xi (..., n), or a tuple of n arrays that broadcast."""
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise ArgumentError(
                f"RegularGridInterpolator: method must be 'linear' or 'nearest', got {method!r}"
            )
        n = len(self.grid)
        if isinstance(xi, tuple):
            xi = wnp.stack(wnp.broadcast_arrays(*(as_float(x) for x in xi)), -1)
        x = as_float(xi)
        if x.ndim == 1 and n == 1:
            x = x[:, None]
        if x.shape[-1] != n:
            raise ArgumentError(
                f"RegularGridInterpolator: xi {x.shape} must end with the grid's {n} dimensions"
            )
        batch = x.shape[:-1]
        flat = x.reshape(-1, n)
        edges, outside = [], wnp.zeros(flat.shape[0], bool)
        for d, p in enumerate(self.grid):
            at = flat[:, d]
            # The two grid points around, and the weight of each.
            i = wnp.clip(wnp.searchsorted(p, at, side="right") - 1, 0, max(p.shape[0] - 2, 0))
            j = wnp.minimum(i + 1, p.shape[0] - 1)
            width = p[j] - p[i]
            share = wnp.where(width == 0, 0, (at - p[i]) / wnp.where(width == 0, 1, width))
            edges.append(((i, 1 - share), (j, share)))
            outside = outside | (at < p[0]) | (at > p[-1]) | wnp.isnan(at)
        if method == "nearest":
            index = tuple(wnp.where(lo[1] >= 0.5, lo[0], hi[0]) for lo, hi in edges)
            result = self.values[index]
        else:
            result = 0
            spread = (-1,) + (1,) * (self.values.ndim - n)
            # A sum over the 2^n corners of the cell.
            for corner in itertools.product(*edges):
                weight = wnp.ones(())
                for _, share in corner:
                    weight = weight * share
                result = result + self.values[tuple(i for i, _ in corner)] * weight.reshape(spread)
        if self.fill_value is not None:
            hidden = outside.reshape((-1,) + (1,) * (result.ndim - 1))
            result = wnp.where(hidden, self.fill_value, result)
        return result.reshape(*batch, *self.values.shape[n:])


seal(globals())

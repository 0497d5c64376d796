# Tests: tests/numpy/test_indexing.py
"""Objects that make arrays by being indexed: mgrid, ogrid, r_, c_, s_."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.errors import ArgumentError
from weft.numpy.common import to_array
from weft.numpy.creation import arange, array, asarray
from weft.numpy.joining import concatenate, stack
from weft.numpy.matrices import meshgrid
from weft.numpy.shaping import moveaxis
from weft.numpy.spaced_ranges import linspace
from weft.ops.promote import promote

s_, index_exp = np.s_, np.index_exp


def _range(index: slice) -> Any:
    """Return the points of the slice start:stop:step; an imaginary step is their number."""
    start = index.start or 0
    step = 1 if index.step is None else index.step
    if isinstance(step, complex):
        return linspace(start, index.stop, int(abs(step)))
    return arange(start, index.stop, step)


class _Grid:
    """The class of mgrid and ogrid: a slice for each dimension, such as `mgrid[0:2, 0:1:5j]`."""

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: slice | tuple) -> Any:
        if isinstance(key, slice):
            return _range(key)
        axes = promote(*(_range(k) for k in key))
        grids = meshgrid(*axes, sparse=self.sparse, indexing="ij")
        return grids if self.sparse else stack(grids)

    def __repr__(self) -> str:
        return "weft.numpy.ogrid" if self.sparse else "weft.numpy.mgrid"


mgrid, ogrid = _Grid(False), _Grid(True)


class _Concatenator:
    """Join slices and arrays. Source: numpy.r_."""

    name: str
    directives: tuple[int, int, int]  # axis, ndmin, trans1d

    def __getitem__(self, key: tuple) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, trans1d = self.directives
        matrix = None
        if items and isinstance(items[0], str):
            directive, items = items[0], items[1:]
            if directive in ("r", "c"):
                matrix = directive
            else:
                axis, ndmin, trans1d = self._parse(directive)
        parts = []
        for item in items:
            if isinstance(item, slice):
                item = _range(item)
            else:
                item = asarray(item) if isinstance(item, list | tuple) else to_array(item)
            rank = item.ndim
            item = array(item, copy=False, ndmin=max(ndmin, 1))
            if 0 < rank < ndmin and trans1d != -1:
                position = trans1d if trans1d >= 0 else trans1d + ndmin - rank + 1
                moved = list(range(ndmin - rank, ndmin))
                item = moveaxis(item, moved, [position + i for i in range(rank)])
            parts.append(item)
        joined = concatenate(parts, axis)
        if matrix and joined.ndim == 1:  # a row or a column
            return joined[None] if matrix == "r" else joined[:, None]
        return joined

    def _parse(self, text: str) -> tuple[int, int, int]:
        try:
            numbers = [int(p) for p in text.split(",")]
        except ValueError:
            raise ArgumentError(
                f"weft.numpy.{self.name}: a string directive holds up to three integers "
                f"'axis,ndmin,trans1d', got {text!r}"
            ) from None
        axis, ndmin, trans1d = (*numbers, *self.directives[len(numbers) :])
        return axis, ndmin, trans1d

    def __repr__(self) -> str:
        return f"weft.numpy.{self.name}"


class RClass(_Concatenator):
    """The class of r_."""

    name, directives = "r_", (0, 1, -1)


class CClass(_Concatenator):
    """The class of c_."""

    name, directives = "c_", (-1, 2, 0)


r_, c_ = RClass(), CClass()

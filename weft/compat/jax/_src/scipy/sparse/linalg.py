# Tests: tests/compat/test_private_names.py
"""jax._src.scipy.sparse.linalg, for solvers that go on from those of jax.scipy.sparse.linalg."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import weft.numpy as wnp
from weft import tree

_add = functools.partial(tree.map, operator.add)
_sub = functools.partial(tree.map, operator.sub)


def _mul(scalar: Any, values: Any) -> Any:
    return tree.map(lambda x: scalar * x, values)


def _identity(x: Any) -> Any:
    return x


def _vdot_tree(x: Any, y: Any) -> Any:
    return sum(tree.leaves(tree.map(wnp.vdot, x, y)))


def _vdot_real_tree(x: Any, y: Any) -> Any:
    """Return the real part of the product of two trees."""
    return wnp.real(_vdot_tree(x, y))


def _norm(x: Any) -> Any:
    return wnp.sqrt(_vdot_real_tree(x, x))


def _normalize_matvec(f: Any) -> Callable:
    """Return a matrix, or a function, as the function that applies it."""
    if callable(f):
        return f
    if getattr(f, "ndim", 0) == 2 and f.shape[0] == f.shape[1]:
        return functools.partial(wnp.dot, f)
    raise TypeError(f"linear operator must be a square matrix or a function, got {f!r:.100}")

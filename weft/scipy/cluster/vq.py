# Tests: tests/scipy/test_solvers.py
"""Vector quantization, under the names and with the semantics of jax.scipy.cluster.vq."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.scipy.special.factorials import as_float

__all__ = ["vq"]


def vq(obs: object, code_book: object, check_finite: bool = True) -> tuple[Any, Any]:
    """Return the nearest row of the code book to each observation, and its distance.

    obs: (m, n) or (m,). code_book: (k, n) or (k,). Source: scipy.cluster.vq.vq.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import cluster
    >>> cluster.vq.vq(wnp.array([[0.0], [5.0]]), wnp.array([[4.0], [1.0]]))[0]
    Array([1, 0], dtype=int32)
    """
    x, codes = as_float(obs), as_float(code_book)
    if x.ndim != codes.ndim or x.ndim not in (1, 2):
        raise ArgumentError(
            f"vq: obs {x.shape} and code_book {codes.shape} are both (m, n) or (m,)"
        )
    if x.ndim == 1:
        x, codes = x[:, None], codes[:, None]
    if x.shape[1] != codes.shape[1]:
        raise ArgumentError(f"vq: obs {x.shape} and code_book {codes.shape} differ in columns")
    gaps = wnp.linalg.norm(x[:, None] - codes[None], axis=-1)
    nearest = wnp.argmin(gaps, axis=-1)
    return nearest, wnp.take_along_axis(gaps, nearest[:, None], 1)[:, 0]


seal(globals())

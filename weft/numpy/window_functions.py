# Tests: tests/numpy/test_functions.py
"""Window functions of signal processing, computed on the host: their sizes are static."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.trace import Tracer, typeof
from weft.numpy.common import created, static_int, to_array
from weft.numpy.formulas import i0
from weft.numpy.ufuncs import multiply, true_divide

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def _made(values: np.ndarray) -> Any:
    return created(values.astype(dtypes.canonicalize_dtype(float)))


def _size(M: ArrayLike, name: str) -> int:
    return static_int(M, f"{name}: M")


def bartlett(M: int) -> Any:
    """Return a triangle of M points. Source: numpy.bartlett.

    >>> import weft.numpy as wnp
    >>> wnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _made(np.bartlett(_size(M, "bartlett")))


def blackman(M: int) -> Any:
    """Return the Blackman window of M points. Source: numpy.blackman.

    >>> import weft.numpy as wnp
    >>> wnp.blackman(5).round(2)
    Array([-0.  ,  0.34,  1.  ,  0.34, -0.  ], dtype=float32)
    """
    return _made(np.blackman(_size(M, "blackman")))


def hamming(M: int) -> Any:
    """Return the Hamming window of M points. Source: numpy.hamming.

    >>> import weft.numpy as wnp
    >>> wnp.hamming(3).round(2)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _made(np.hamming(_size(M, "hamming")))


def hanning(M: int) -> Any:
    """Return the Hann window of M points. Source: numpy.hanning.

    >>> import weft.numpy as wnp
    >>> wnp.hanning(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _made(np.hanning(_size(M, "hanning")))


def kaiser(M: int, beta: Any) -> Any:
    """Return the Kaiser window of M points; beta may be traced. Source: numpy.kaiser.

    >>> import weft.numpy as wnp
    >>> wnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    n = _size(M, "kaiser")
    if not isinstance(beta, Tracer) and typeof(beta).ndim == 0:
        return _made(_kaiser(n, float(np.asarray(beta))))
    half = (n - 1) / 2
    arch = np.sqrt(np.maximum(1 - ((np.arange(n) - half) / max(half, 0.5)) ** 2, 0))
    beta = to_array(beta)
    shape = arch.astype(typeof(beta).dtype)
    return true_divide(i0(multiply(beta, shape)), i0(beta))


@functools.lru_cache(16)
def _kaiser(n: int, beta: float) -> np.ndarray:
    return np.kaiser(n, beta)

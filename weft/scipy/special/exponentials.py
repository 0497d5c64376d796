# Tests: tests/scipy/test_special.py
"""Softmax with SciPy's parameters."""

from weft.nn.exponential_sums import log_softmax as _log_softmax
from weft.nn.exponential_sums import softmax as _softmax


def softmax(x, /, *, axis=None):
    """exp(x) over its sum along an axis, or along all.

    Source: scipy.special.softmax.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import special
    >>> [round(float(y), 3) for y in special.softmax(wnp.array([0.0, 1.0]))]
    [0.269, 0.731]
    """
    return _softmax(x, axis=axis)


def log_softmax(x, /, *, axis=None):
    """Return the logarithm of softmax, accurate where it is small.

    Source: scipy.special.log_softmax.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import special
    >>> [round(float(y), 3) for y in special.log_softmax(wnp.array([0.0, 1.0]))]
    [-1.313, -0.313]
    """
    return _log_softmax(x, axis=axis)

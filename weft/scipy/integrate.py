# Tests: tests/scipy/test_solvers.py
"""Integration of samples, under the names and with the semantics of jax.scipy.integrate."""

from weft.core.namespace import seal
from weft.numpy.calculus import trapezoid

__all__ = ["trapezoid"]
seal(globals())

"""Types of weft.scipy.integrate, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

def trapezoid(y: ArrayLike, x: ArrayLike | None = ..., dx: Any = ..., axis: int = ...) -> Array:
    """Return the integral along an axis by the trapezoidal rule. Source: numpy.trapezoid."""

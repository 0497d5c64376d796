"""Types of weft.ode, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any

from weft.typing import Array as Array

def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = ...,
    atol: float = ...,
    mxstep: float = ...,
    hmax: float = ...,
) -> Array:
    """Return the solution of dy/dt = func(y, t, *args) with y0 at t[0], at each time of t."""

"""Types of weft.scipy.optimize, written by `make stubs` from the definitions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from weft.typing import Array as Array

class OptimizeResults(NamedTuple):
    """The result of minimize: the point x, whether and why it ended, and values at x."""

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any

def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = ...,
    *,
    method: str,
    tol: float | None = ...,
    options: Mapping[str, Any] | None = ...,
) -> OptimizeResults:
    """Return a local minimum of fun(x, *args), a number, near x0 (n,)."""

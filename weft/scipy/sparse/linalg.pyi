"""Types of weft.scipy.sparse.linalg, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

def bicgstab(
    A: Any,
    b: ArrayLike,
    x0: Any = ...,
    *,
    tol: float = ...,
    atol: float = ...,
    maxiter: int | None = ...,
    M: Any = ...,
) -> tuple[Array, None]:
    """Return x with A x = b for any square A, by stabilized biconjugate gradients; and …"""

def cg(
    A: Any,
    b: ArrayLike,
    x0: Any = ...,
    *,
    tol: float = ...,
    atol: float = ...,
    maxiter: int | None = ...,
    M: Any = ...,
) -> tuple[Array, None]:
    """Return x with A x = b for Hermitian positive definite A, by conjugate gradients; …"""

def gmres(
    A: ArrayLike,
    b: ArrayLike,
    x0: Any = ...,
    *,
    tol: float = ...,
    atol: float = ...,
    restart: int = ...,
    maxiter: int | None = ...,
    M: Any = ...,
    solve_method: str = ...,
) -> tuple[Array, None]:
    """Return x with A x = b for any square A, by restarted generalized minimal …"""

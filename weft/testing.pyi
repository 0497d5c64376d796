"""Types of weft.testing, written by `make stubs` from the definitions."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.typing import Array as Array

def assert_comm(
    fun: Callable[..., Any],
    args: Sequence[Any] = ...,
    kwargs: dict[str, Any] | None = ...,
    *,
    max_bytes: str | float | None = ...,
    exact: bool = ...,
    golden: Any = ...,
    **counts: int,
) -> None:
    """Fail unless `fun(*args, **kwargs)` communicates within a budget."""

def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = ...,
    modes: Sequence[str] = ...,
    atol: Any = ...,
    rtol: Any = ...,
    eps: float | None = ...,
) -> None:
    """Fail unless derivatives agree with central differences along random directions."""

def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = ...,
    rtol: Any = ...,
    eps: float | None = ...,
    err_msg: str = ...,
) -> None:
    """Fail unless a derivative agrees with central differences along a random direction."""

def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = ...,
    rtol: Any = ...,
    eps: float | None = ...,
    err_msg: str = ...,
) -> None:
    """Fail unless a derivative agrees with central differences along a random direction."""

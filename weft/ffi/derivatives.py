# Tests: tests/ffi/test_transforms.py
"""differentiable: a native forward and backward call as one differentiable function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.api.custom import custom_vjp
from weft.core.source import wraps

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def differentiable(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    nondiff_argnums: tuple[int, ...] = (),
) -> Callable[..., Any]:
    """Return a function computed by `forward` whose derivative is computed by `backward`.

    forward(*args) returns (result, residuals); backward(residuals, cotangent) returns a tuple
    with one cotangent for each argument (with the nondiff arguments in front of residuals, as
    weft.custom_vjp has it). When nothing is differentiated the residuals are dropped, and the
    compiler drops what only they need.

    >>> import weft
    >>> cube = weft.ffi.differentiable(lambda x: (x * x * x, x), lambda x, ct: (3 * x * x * ct,))
    >>> weft.grad(cube)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    for name, f in (("forward", forward), ("backward", backward)):
        if not callable(f):
            raise TypeError(f"differentiable: {name} must be a function, got {type(f).__name__}")

    @wraps(forward)
    def function(*args: ArrayLike) -> Any:
        return forward(*args)[0]

    wrapped = custom_vjp(function, nondiff_argnums=nondiff_argnums)
    wrapped.defvjp(forward, backward)
    return wrapped

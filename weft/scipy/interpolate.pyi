"""Types of weft.scipy.interpolate, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

class RegularGridInterpolator:
    """A function of n variables, interpolated between its values on a rectilinear grid; a …"""
    def __init__(
        self,
        points: Sequence[Any],
        values: ArrayLike,
        method: str = ...,
        bounds_error: bool = ...,
        fill_value: ArrayLike = ...,
    ) -> None: ...
    def tree_flatten(self) -> tuple[Any, ...]:
        """Return the arrays and the static parts."""

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        """Return the interpolator of what `tree_flatten` gave."""

    def __call__(self, xi: Any, method: str | None = ...) -> Any:
        """Return the values at points xi (..., n), or a tuple of n arrays that broadcast."""

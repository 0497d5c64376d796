"""Types of weft.debug, written by `make stubs` from the definitions."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

def breakpoint(
    *,
    backend: str | None = ...,
    filter_frames: bool = ...,
    num_frames: int | None = ...,
    ordered: bool = ...,
    token: Any = ...,
    **kwargs: Any,
) -> Any:
    """Stop when a program comes to this point, and take commands as pdb does."""

def callback(
    callback: Callable[..., Any] | None = ...,
    *args: Any,
    ordered: bool = ...,
    partitioned: bool = ...,
    **kwargs: Any,
) -> None:
    """Call a Python function when the program runs, for its side effects; its result is …"""

def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Call callback(sharding) with the sharding of an array, or of a traced value."""

def log(
    fmt: str | None = ...,
    *args: Any,
    ordered: bool = ...,
    partitioned: bool = ...,
    skip_format_check: bool = ...,
    **kwargs: Any,
) -> None:
    """Log values when the program runs, formatted as by `fmt.format(*args, **kwargs)`."""

def print(
    fmt: str | None = ...,
    *args: Any,
    ordered: bool = ...,
    partitioned: bool = ...,
    skip_format_check: bool = ...,
    **kwargs: Any,
) -> None:
    """Print values when the program runs, formatted as by `fmt.format(*args, **kwargs)`."""

def visualize_array_sharding(arr: ArrayLike, **kwargs: Any) -> None:
    """Print which device holds which part of an array (see `visualize_sharding`)."""

def visualize_sharding(
    shape: Sequence[int],
    sharding: Any,
    *,
    use_color: bool = ...,
    scale: float = ...,
    min_width: int = ...,
    max_width: int = ...,
    color_map: Any = ...,
) -> None:
    """Print which device holds which part of an array of this shape."""

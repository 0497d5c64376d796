"""Types of weft.shard_alike, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

def shard_alike(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Return two trees of arrays as they are, which partitioners will split alike."""

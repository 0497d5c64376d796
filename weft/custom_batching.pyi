"""Types of weft.custom_batching, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any

from weft.api.custom_vmap import custom_vmap as custom_vmap
from weft.typing import Array as Array

def sequential_vmap(f: Callable[..., Any]) -> Any:
    """Return a function that vmap applies to one example after the other, by …"""

"""Names of the module `jax` itself."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft import process_count as host_count
from weft import process_index as host_id
from weft import process_indices as host_ids
from weft.compat.finder import REFERENCE, VERSION
from weft.compat.types import typeof  # noqa: F401

__all__ = ["host_count", "host_id", "host_ids", "print_environment_info"]

__version__ = VERSION
__version_info__ = tuple(map(int, REFERENCE.split(".")))


def __getattr__(name: str) -> Any:
    if name != "Array":
        raise AttributeError(name)
    import weft.numpy.methods  # noqa: F401  (gives arrays their methods)
    from weft.runtime.array import Array, ArrayImpl

    # Libraries look up the methods on the public class, when they are imported.
    for member, value in vars(ArrayImpl).items():
        written_in_python = isinstance(value, FunctionType | property)
        if not hasattr(Array, member) and (written_in_python or not member.startswith("_")):
            setattr(Array, member, value)
    return Array


def print_environment_info(return_string: bool = False) -> str | None:
    """Print what a report of a fault should say of this machine, or return it."""
    from weft.debug.env import describe

    text = describe()
    if not return_string:
        print(text)
    return text if return_string else None

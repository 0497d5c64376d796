"""Names of the module `jax` itself."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft import process_count as host_count
from weft import process_index as host_id
from weft import process_indices as host_ids
from weft.compat.finder import REFERENCE, VERSION
from weft.compat.types import typeof  # noqa: F401
from weft.core.config import options

__all__ = ["host_count", "host_id", "host_ids", "print_environment_info"]


class _Version(str):
    """The version, whose parts are the reference's: libraries make numbers of all of them."""

    __slots__ = ()

    def split(self, *args: Any) -> list[str]:  # type: ignore[override]
        return REFERENCE.split(*args)


__version__ = _Version(VERSION)
__version_info__ = tuple(map(int, REFERENCE.split(".")))


# Options of JAX's that are context managers too.
_OPTIONS = """
    allow_f16_reductions auto_pcast jax2tf_associative_scan_reductions
    remove_size_one_mesh_axis_from_type softmax_custom_jvp
""".split()  # noqa: SIM905


def __getattr__(name: str) -> Any:
    if name in _OPTIONS:
        return options[name]
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

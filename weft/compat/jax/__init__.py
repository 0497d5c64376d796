"""Names of the module `jax` itself."""

from weft import process_count as host_count
from weft import process_index as host_id
from weft import process_indices as host_ids
from weft.compat.finder import REFERENCE, VERSION
from weft.compat.types import typeof  # noqa: F401

__all__ = ["host_count", "host_id", "host_ids", "print_environment_info"]

__version__ = VERSION
__version_info__ = tuple(map(int, REFERENCE.split(".")))


def print_environment_info(return_string: bool = False) -> str | None:
    """Print what a report of a fault should say of this machine, or return it."""
    from weft.debug.env import describe

    text = describe()
    if not return_string:
        print(text)
    return text if return_string else None

"""Names of the module `jax` itself."""

from weft.compat.finder import REFERENCE, VERSION
from weft.compat.types import typeof  # noqa: F401

__version__ = VERSION
__version_info__ = tuple(map(int, REFERENCE.split(".")))

"""Names of the module `jax` itself."""

from typing import Any

from weft.compat.finder import REFERENCE, VERSION

__version__ = VERSION
__version_info__ = tuple(map(int, REFERENCE.split(".")))


def __getattr__(name: str) -> Any:
    import weft

    if name == "pmap" and not hasattr(weft, name):
        from weft.compat.pmap import pmap

        return pmap
    raise AttributeError(name)

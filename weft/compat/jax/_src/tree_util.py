"""jax._src.tree_util, for flax and chex."""

from typing import Any

from weft import tree_util as _tree_util
from weft._xla.pytree import registry as _registry_


class _Registry:
    """Which types are pytree nodes, asked as a dict of them."""

    def __contains__(self, kind: type) -> bool:
        return _tree_util.is_tree_node(kind)


_registry = _Registry()
default_registry = _registry_


def __getattr__(name: str) -> Any:
    return getattr(_tree_util, name)

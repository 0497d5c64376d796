# Tests: tests/compat/test_as_jax.py
"""jax._src.tree_util, for flax and chex."""

from typing import Any

from weft import tree_util as _tree_util
from weft._xla.pytree import registry as _registry_


def prefix_errors(prefix: Any, full: object, is_leaf: Any = None) -> list:
    """Return where a tree is no prefix of another, as functions of the argument's name."""
    if _tree_util.all_leaves([prefix], is_leaf):
        return []
    (kept, one), (leaves, other) = map(_tree_util.tree_flatten_with_path, (prefix, full))
    outer, inner = map(_one_level, (prefix, full))
    if outer is not None and inner is not None and outer[:2] == inner[:2]:
        pairs = zip(outer[2], inner[2], strict=True)
        return [
            lambda name, e=e, key=key: e(f"{name}{key}")
            for (key, a), (_, b) in pairs
            for e in prefix_errors(a, b, is_leaf)
        ]
    return [
        lambda name: ValueError(
            f"pytree structure error: {name} is no prefix of the values it stands for: its "
            f"structure {one} has {len(kept)} leaves, where the values' {other} has {len(leaves)}"
        )
    ]


def _one_level(node: object) -> tuple | None:
    """Return the type of a node, its keys, and its children with their keys; None of a leaf."""
    if not isinstance(node, dict | list | tuple) and not _tree_util.is_tree_node(type(node)):
        return None
    children, _ = _tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    return (
        type(node),
        [str(path[0]) for path, _ in children],
        [(str(path[0]), child) for path, child in children],
    )


class _Registry:
    """Which types are pytree nodes, asked as a dict of them."""

    def __contains__(self, kind: type) -> bool:
        return _tree_util.is_tree_node(kind)


def broadcast_prefix(prefix: Any, full: Any, is_leaf: Any = None) -> list:
    """Return the leaf of the prefix that stands for each leaf of a tree."""
    out: list = []

    def repeat(leaf: object, part: object) -> None:
        out.extend([leaf] * len(_tree_util.tree_leaves(part)))

    _tree_util.tree_map(repeat, prefix, full, is_leaf=is_leaf)
    return out


Leaf = Any
generate_key_paths = _tree_util.tree_leaves_with_path
_registry = _Registry()
default_registry = _registry_


def __getattr__(name: str) -> Any:
    return getattr(_tree_util, name)

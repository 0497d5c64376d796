"""Pytrees: jaxlib's C++ registry, flattening and tree definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib import _jax

_pytree = _jax.pytree

PyTreeDef = _pytree.PyTreeDef
PyTreeRegistry = _pytree.PyTreeRegistry
SequenceKey = _pytree.SequenceKey
DictKey = _pytree.DictKey
GetAttrKey = _pytree.GetAttrKey
FlattenedIndexKey = _pytree.FlattenedIndexKey

registry: PyTreeRegistry = _pytree.default_registry()
"""None, tuple, list, dict, namedtuple and every registered class are nodes."""

dispatch_registry = PyTreeRegistry()
"""The registry with which the C++ dispatch flattens: ``registry`` plus wrappers such as typed keys,
whose buffers the executable sees directly."""

none_leaf_registry = PyTreeRegistry(enable_none=False)
"""As ``registry``, but None is a leaf (for axis specifications)."""

# jaxlib pickles a registry, and so the tree definitions of it, by where it can be imported from.
for _name in ("registry", "dispatch_registry", "none_leaf_registry"):
    globals()[_name].__module__, globals()[_name].__name__ = __name__, _name

flatten = registry.flatten
flatten_with_path = registry.flatten_with_path
flatten_one_level = registry.flatten_one_level
flatten_one_level_with_keys = registry.flatten_one_level_with_keys


def register_node(
    node_type: type,
    to_iterable: Callable[[Any], tuple[Any, Any]],
    from_iterable: Callable[[Any, Any], Any],
    to_iterable_with_keys: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Make ``node_type`` a pytree node in every registry."""
    for each in (registry, dispatch_registry, none_leaf_registry):
        each.register_node(node_type, to_iterable, from_iterable, to_iterable_with_keys)


def register_dataclass_node(node_type: type, data_fields, meta_fields) -> None:
    """Make a dataclass a pytree node: ``data_fields`` are children, ``meta_fields`` are static."""
    for each in (registry, dispatch_registry, none_leaf_registry):
        each.register_dataclass_node(node_type, list(data_fields), list(meta_fields))


def register_dispatch_node(node_type: type, to_iterable, from_iterable) -> None:
    """Make ``node_type`` a node for the C++ dispatch only; elsewhere it stays a leaf."""
    dispatch_registry.register_node(node_type, to_iterable, from_iterable, None)


def all_leaves(values) -> bool:
    """Return whether no element of ``values`` is a pytree node."""
    return _pytree.all_leaves(registry, values)


def treedef_tuple(treedefs) -> PyTreeDef:
    """Return the tree definition of a tuple with the given children.

    >>> import weft
    >>> weft.tree_util.treedef_tuple([weft.tree.structure(0), weft.tree.structure(0)])
    PyTreeDef((*, *))
    """
    return _pytree.treedef_tuple(registry, list(treedefs))

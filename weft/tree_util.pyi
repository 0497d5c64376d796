"""Types of weft.tree_util, written by `make stubs` from the definitions."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, Never, TypeVar, overload

from weft.typing import Array as Array
from weft.typing import ArrayLike
from weft.typing import PyTreeDef as PyTreeDef

_T = TypeVar("_T")
_R = TypeVar("_R")
_Key = TypeVar("_Key")
_Leaf = TypeVar("_Leaf", bound=ArrayLike)

class DictKey:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    key: Any

class FlattenedIndexKey:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    key: Any

class GetAttrKey:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    name: Any

KeyEntry = Any

KeyPath = tuple[Any, ...]

class Partial(functools.partial[Any]):
    """`functools.partial` as a pytree: its arguments are leaves, its function is static."""

class SequenceKey:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    idx: Any

def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = ...) -> bool:
    """Return whether no element is a pytree node."""

default_registry: Any

def flatten_one_level(tree: Any) -> Any:
    """Return the children of a node and its data. Raises ValueError for a leaf."""

def flatten_one_level_with_keys(tree: Any) -> Any:
    """`(key, child)` pairs of a node and its data. Raises ValueError for a leaf."""

def is_tree_node(typ: type[Any]) -> bool:
    """Return whether instances of exactly this type are pytree nodes."""

def keystr(keys: Any, *, simple: bool = ..., separator: str = ...) -> str:
    """Write a path as Python does, `['w'][0].bias`; simple: only names, joined by …"""

@overload
def register_dataclass(
    nodetype: type[_T],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type[_T]:
    """Make a dataclass a pytree node; also a class decorator."""

@overload
def register_dataclass(
    nodetype: None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Callable[[type[_T]], type[_T]]:
    """Make a dataclass a pytree node; also a class decorator."""

def register_pytree_node(
    nodetype: type[Any],
    flatten_func: Callable[[Any], tuple[Any, ...]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Any, ...]] | None = ...,
) -> None:
    """Make a type a pytree node."""

def register_pytree_node_class(cls: type[_T]) -> type[_T]:
    """Class decorator: a node by its `tree_flatten()` and `tree_unflatten(data, children)`."""

def register_pytree_with_keys(
    nodetype: type[Any],
    flatten_with_keys: Callable[[Any], tuple[Any, ...]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Any, ...]] | None = ...,
) -> None:
    """Make a type a pytree node whose children have names."""

def register_pytree_with_keys_class(cls: type[_T]) -> type[_T]:
    """Class decorator: a node by its `tree_flatten_with_keys()` and `tree_unflatten`."""

def register_static(cls: type[_T]) -> type[_T]:
    """Class decorator: instances are nodes without leaves, so jit treats them as static."""

def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = ...) -> bool:
    """Return whether every leaf is true."""

def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = ...
) -> Any:
    """Return the full tree's structure with each leaf of a prefix tree repeated below it."""

def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = ...
) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree in order, and its structure."""

def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = ..., is_leaf_takes_path: bool = ...
) -> tuple[list[tuple[Any, Any]], PyTreeDef]:
    """`(path, leaf)` pairs in order, and the structure; `keystr` writes a path as Python …"""

def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = ...) -> list[Any]:
    """Return the leaves of a tree, in order."""

def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = ..., is_leaf_takes_path: bool = ...
) -> list[tuple[Any, Any]]:
    """`(path, leaf)` pairs in order."""

@overload
def tree_map(
    f: Callable[Concatenate[Any, ...], Any],
    tree: Never,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[[_Leaf, Any], _R],
    tree: dict[_Key, _Leaf],
    other: Any,
    /,
    *,
    is_leaf: Callable[[Any], bool] | None = None,
) -> dict[_Key, _R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[[_Leaf, Any], _R],
    tree: list[_Leaf],
    other: Any,
    /,
    *,
    is_leaf: Callable[[Any], bool] | None = None,
) -> list[_R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[Concatenate[_Leaf, ...], _R],
    tree: _Leaf,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> _R:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[Concatenate[_Leaf, ...], _R],
    tree: dict[_Key, _Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> dict[_Key, _R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[Concatenate[_Leaf, ...], _R],
    tree: list[_Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> list[_R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[..., _R],
    tree: dict[_Key, _Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> dict[_Key, _R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[..., _R],
    tree: list[_Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> list[_R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[..., Array], tree: _T, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> _T:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = ...,
    is_leaf_takes_path: bool = ...,
) -> Any:
    """`map` with f also given the path of each leaf, as its first argument."""

def tree_reduce(
    function: Callable[..., Any],
    tree: Any,
    initializer: Any = ...,
    is_leaf: Callable[[Any], bool] | None = ...,
) -> Any:
    """Return function folded over the leaves from left to right."""

def tree_reduce_associative(
    operation: Callable[..., Any],
    tree: Any,
    *,
    identity: Any = ...,
    is_leaf: Callable[[Any], bool] | None = ...,
) -> Any:
    """Return an associative operation over the leaves, as a balanced tree of applications."""

def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = ...) -> PyTreeDef:
    """Return the structure of a tree: its nodes, with leaves left open."""

def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Return a tree of trees turned inside out: inner structure outside, outer inside."""

def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure and its leaves: the inverse of `flatten`."""

def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of a structure's children."""

def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Return whether a structure is a single leaf (or an empty node)."""

def treedef_tuple(treedefs: Any) -> PyTreeDef:
    """Return the tree definition of a tuple with the given children."""

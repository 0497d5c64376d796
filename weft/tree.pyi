"""Types of weft.tree, written by `make stubs` from the definitions."""

from collections.abc import Callable, Iterable
from typing import Any, Concatenate, Never, TypeVar, overload

from weft.typing import Array as Array
from weft.typing import ArrayLike, PyTreeDef

_T = TypeVar("_T")
_R = TypeVar("_R")
_Key = TypeVar("_Key")
_Leaf = TypeVar("_Leaf", bound=ArrayLike)

def all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = ...) -> bool:
    """Return whether every leaf is true."""

def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = ...) -> Any:
    """Return the full tree's structure with each leaf of a prefix tree repeated below it."""

def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = ...) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree in order, and its structure."""

def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = ..., is_leaf_takes_path: bool = ...
) -> tuple[list[tuple[Any, Any]], PyTreeDef]:
    """`(path, leaf)` pairs in order, and the structure; `keystr` writes a path as Python …"""

def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = ...) -> list[Any]:
    """Return the leaves of a tree, in order."""

def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = ..., is_leaf_takes_path: bool = ...
) -> list[tuple[Any, Any]]:
    """`(path, leaf)` pairs in order."""

@overload
def map(
    f: Callable[Concatenate[Any, ...], Any],
    tree: Never,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[[_Leaf, Any], _R],
    tree: dict[_Key, _Leaf],
    other: Any,
    /,
    *,
    is_leaf: Callable[[Any], bool] | None = None,
) -> dict[_Key, _R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[[_Leaf, Any], _R],
    tree: list[_Leaf],
    other: Any,
    /,
    *,
    is_leaf: Callable[[Any], bool] | None = None,
) -> list[_R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[Concatenate[_Leaf, ...], _R],
    tree: _Leaf,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> _R:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[Concatenate[_Leaf, ...], _R],
    tree: dict[_Key, _Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> dict[_Key, _R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[Concatenate[_Leaf, ...], _R],
    tree: list[_Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> list[_R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[..., _R],
    tree: dict[_Key, _Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> dict[_Key, _R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[..., _R],
    tree: list[_Leaf],
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> list[_R]:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[..., Array], tree: _T, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> _T:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

@overload
def map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other …"""

def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = ...,
    is_leaf_takes_path: bool = ...,
) -> Any:
    """`map` with f also given the path of each leaf, as its first argument."""

def reduce(
    function: Callable[..., Any],
    tree: Any,
    initializer: Any = ...,
    is_leaf: Callable[[Any], bool] | None = ...,
) -> Any:
    """Return function folded over the leaves from left to right."""

def reduce_associative(
    operation: Callable[..., Any],
    tree: Any,
    *,
    identity: Any = ...,
    is_leaf: Callable[[Any], bool] | None = ...,
) -> Any:
    """Return an associative operation over the leaves, as a balanced tree of applications."""

def static(**kwargs: Any) -> Any:
    """Declare a dataclass field part of the structure, not a leaf (for …"""

def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = ...) -> PyTreeDef:
    """Return the structure of a tree: its nodes, with leaves left open."""

def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Return a tree of trees turned inside out: inner structure outside, outer inside."""

def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure and its leaves: the inverse of `flatten`."""

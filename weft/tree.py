"""Pytrees: flatten, map and compare nested containers of arrays (the names of jax.tree)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft._xla import pytree
from weft._xla.pytree import PyTreeDef
from weft.core.namespace import seal
from weft.core.ref import AbstractRef
from weft.core.tree import key_path
from weft.refs.api import Ref


def _flatten(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list, PyTreeDef]:
    """Act as `pytree.flatten`, but a ref is a leaf; transformations take it apart."""
    leaves, treedef = pytree.flatten(tree, is_leaf)
    if not _has_refs(leaves):
        return leaves, treedef
    return pytree.flatten(
        tree, lambda x: isinstance(x, Ref) or (is_leaf is not None and is_leaf(x))
    )


def _has_refs(leaves: Iterable) -> bool:
    return Ref.exist and any(isinstance(getattr(x, "aval", None), AbstractRef) for x in leaves)


_LEAF = _flatten(0)[1]
_MISSING = object()


def flatten(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list, PyTreeDef]:
    """Return the leaves of a tree in order, and its structure.

    is_leaf: says of a node that it counts as a leaf.

    >>> import weft
    >>> weft.tree.flatten({"b": [1, 2], "a": 3})[0]
    [3, 1, 2]
    """
    return _flatten(tree, is_leaf)


def unflatten(treedef: PyTreeDef, leaves: Iterable) -> Any:
    """Return the tree of a structure and its leaves: the inverse of `flatten`.

    >>> import weft
    >>> weft.tree.unflatten(weft.tree.structure((0, [0])), [1, 2])
    (1, [2])
    """
    return treedef.unflatten(leaves)


def leaves(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> list:
    """Return the leaves of a tree, in order.

    >>> import weft
    >>> weft.tree.leaves((1, None, [2]))
    [1, 2]
    """
    return _flatten(tree, is_leaf)[0]


def structure(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """Return the structure of a tree: its nodes, with leaves left open.

    >>> import weft
    >>> weft.tree.structure((1, [2]))
    PyTreeDef((*, [*]))
    """
    return _flatten(tree, is_leaf)[1]


def map(
    f: Callable, tree: object, *rest: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply f to every leaf of a tree, and to the leaves at the same paths of the other trees.

    rest: trees of the same structure, or deeper ones: f then gets their subtrees.
    Raises ValueError where the structures differ, naming the place.

    >>> import weft
    >>> weft.tree.map(lambda x, y: x + y, {"a": 1}, {"a": 10})
    {'a': 11}
    """
    xs, treedef = _flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(x) for x in xs])
    columns = [xs, *(_up_to(treedef, tree, r, is_leaf, "map") for r in rest)]
    return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])


def _up_to(treedef: PyTreeDef, tree: object, other: object, is_leaf: object, name: str) -> list:
    try:
        return treedef.flatten_up_to(other)
    except (ValueError, TypeError) as e:
        difference = first_difference(tree, other, is_leaf)
        if difference is None:
            raise
        raise ValueError(f"weft.tree.{name}: the trees differ: {difference}") from e


def first_difference(prefix: Any, full: Any, is_leaf: Any = None) -> str | None:
    """Return where a tree is no prefix of another, in words; None if it is one."""
    return _difference((), prefix, full, is_leaf)


def _difference(
    path: tuple, prefix: Sequence | dict | int, full: dict | int | list, is_leaf: Any
) -> str | None:
    if _flatten(prefix, is_leaf)[1] == _LEAF:
        return None
    at = f"at {key_path(path)}" if path else "at the root"
    kinds = type(prefix), type(full)
    if kinds[0] is not kinds[1]:
        return f"{at}, one has {kinds[0].__name__}, the other {kinds[1].__name__}"
    if prefix is None:
        return None
    children, my_data = pytree.flatten_one_level_with_keys(prefix)
    theirs, their_data = pytree.flatten_one_level_with_keys(full)
    children, theirs = list(children), list(theirs)
    if len(children) != len(theirs) or my_data != their_data:
        one, other = ({str(k) for k, _ in side} for side in (children, theirs))
        if one == other:
            return f"{at}, the {kinds[0].__name__} nodes hold different data"
        only = [f"{', '.join(sorted(s))} only in the {n}" for s, n in
                ((one - other, "first"), (other - one, "second")) if s]  # fmt: skip
        return f"{at}, {len(children)} children against {len(theirs)}: {'; '.join(only)}"
    for (key, a), (_, b) in zip(children, theirs, strict=True):
        difference = _difference((*path, key), a, b, is_leaf)
        if difference is not None:
            return difference
    return None


def reduce(
    function: Callable,
    tree: object,
    initializer: object = _MISSING,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Return function folded over the leaves from left to right.

    >>> import weft
    >>> weft.tree.reduce(lambda a, b: a + b, [1, (2, 3)])
    6
    """
    first = () if initializer is _MISSING else (initializer,)
    return functools.reduce(function, _flatten(tree, is_leaf)[0], *first)


def reduce_associative(
    operation: Callable,
    tree: object,
    *,
    identity: object = _MISSING,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Return an associative operation over the leaves, as a balanced tree of applications.

    >>> import weft
    >>> weft.tree.reduce_associative(lambda a, b: a + b, [1, (2, 3)])
    6
    """
    level = _flatten(tree, is_leaf)[0]
    if not level:
        if identity is _MISSING:
            raise TypeError("reduce_associative: an empty tree needs identity")
        return identity

    def fold(xs: list) -> Any:
        if len(xs) == 1:
            return xs[0]
        half = len(xs) // 2
        return operation(fold(xs[:half]), fold(xs[half:]))

    return fold(level)


def all(tree: object, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether every leaf is true.

    >>> import weft
    >>> weft.tree.all([True, {"a": False}])
    False
    """
    return not any(not x for x in _flatten(tree, is_leaf)[0])


def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: object
) -> Any:
    """Return a tree of trees turned inside out: inner structure outside, outer inside.

    inner_treedef: None takes that of the first inner tree.

    >>> import weft
    >>> outer = weft.tree.structure([0, 0])
    >>> weft.tree.transpose(outer, None, [(1, 2), (3, 4)])
    ([1, 3], [2, 4])
    """
    flat, treedef = _flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = _flatten(outer_treedef.flatten_up_to(pytree_to_transpose)[0])[1]
    expected = outer_treedef.compose(inner_treedef)
    if treedef.num_leaves != expected.num_leaves:
        raise TypeError(f"transpose: the tree has structure {treedef}, expected {expected}")
    inner = inner_treedef.num_leaves
    columns = [outer_treedef.unflatten(flat[i::inner]) for i in range(inner)]
    return inner_treedef.unflatten(columns)


def broadcast(
    prefix_tree: object, full_tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Return the full tree's structure with each leaf of a prefix tree repeated below it.

    >>> import weft
    >>> weft.tree.broadcast((1, 2), ([0, 0], 0))
    ([1, 1], 2)
    """
    values, treedef = _flatten(prefix_tree, is_leaf)
    subtrees = _up_to(treedef, prefix_tree, full_tree, is_leaf, "broadcast")
    repeated: list = []
    for value, subtree in zip(values, subtrees, strict=True):
        repeated += [value] * len(_flatten(subtree)[0])
    return _flatten(full_tree)[1].unflatten(repeated)


def flatten_with_path(
    tree: object, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list, PyTreeDef]:
    """`(path, leaf)` pairs in order, and the structure; `keystr` writes a path as Python does.

    is_leaf_takes_path: is_leaf is called with the path, too.

    >>> import weft
    >>> weft.tree.flatten_with_path([5])[0]
    [((SequenceKey(idx=0),), 5)]
    """
    if is_leaf is not None and not is_leaf_takes_path:
        test = is_leaf
        is_leaf = lambda path, x: test(x)
    pairs, treedef = pytree.flatten_with_path(tree, is_leaf)
    if not _has_refs(x for _, x in pairs):
        return pairs, treedef
    return pytree.flatten_with_path(
        tree, lambda path, x: isinstance(x, Ref) or (is_leaf is not None and is_leaf(path, x))
    )


def leaves_with_path(
    tree: object, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list:
    """`(path, leaf)` pairs in order.

    >>> import weft
    >>> [(weft.tree_util.keystr(p), x) for p, x in weft.tree.leaves_with_path({"a": [5]})]
    [("['a'][0]", 5)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable,
    tree: object,
    *rest: object,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """`map` with f also given the path of each leaf, as its first argument.

    >>> import weft
    >>> weft.tree.map_with_path(lambda path, x: len(path) * x, [1, [1]])
    [1, [2]]
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    paths = [p for p, _ in pairs]
    columns = [[x for _, x in pairs]]
    columns += [_up_to(treedef, tree, r, None, "map_with_path") for r in rest]
    return treedef.unflatten([f(*row) for row in zip(paths, *columns, strict=True)])


def static(**kwargs: Any) -> Any:
    """Declare a dataclass field part of the structure, not a leaf (for `register_dataclass`).

    Takes the arguments of `dataclasses.field`.

    >>> import weft
    >>> weft.tree.static(default=1).metadata["static"]
    True
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
seal(globals())

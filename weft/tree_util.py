# Tests: tests/test_tree.py
"""Registering pytree nodes, paths of leaves, and the tree functions under their older names."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from weft import tree as _tree
from weft._xla import pytree
from weft._xla.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    PyTreeDef,
    SequenceKey,
    treedef_tuple,
)
from weft.core.namespace import seal
from weft.refs.api import Ref

KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]
default_registry = pytree.registry

tree_all = _tree.all
tree_broadcast = _tree.broadcast
tree_flatten = _tree.flatten
tree_flatten_with_path = _tree.flatten_with_path
tree_leaves = _tree.leaves
tree_leaves_with_path = _tree.leaves_with_path
tree_map = _tree.map
tree_map_with_path = _tree.map_with_path
tree_reduce = _tree.reduce
tree_reduce_associative = _tree.reduce_associative
tree_structure = _tree.structure
tree_transpose = _tree.transpose
tree_unflatten = _tree.unflatten

_LEAF = pytree.flatten(0)[1]


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of a structure's children.

    >>> import weft
    >>> weft.tree_util.treedef_children(weft.tree.structure((1, [2])))
    [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Return whether a structure is a single leaf (or an empty node).

    >>> import weft
    >>> weft.tree_util.treedef_is_leaf(weft.tree.structure(0))
    True
    """
    return treedef.num_nodes == 1


def all_leaves(iterable: Iterable, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether no element is a pytree node.

    >>> import weft
    >>> weft.tree_util.all_leaves([1, (2,)])
    False
    """
    if is_leaf is None:
        return pytree.all_leaves([x for x in iterable if not isinstance(x, Ref)])
    return all(pytree.flatten(x, is_leaf)[1] == _LEAF for x in iterable)


def is_tree_node(typ: type) -> bool:
    """Return whether instances of exactly this type are pytree nodes.

    >>> import weft
    >>> [weft.tree_util.is_tree_node(kind) for kind in (list, dict, set, float)]
    [True, True, False, False]
    """
    return default_registry.is_node(typ) and typ is not Ref


def flatten_one_level(tree: Any) -> tuple[Iterable, Hashable]:
    """Return the children of a node and its data. Raises ValueError for a leaf.

    >>> import weft
    >>> weft.tree_util.flatten_one_level({"a": 1})
    ([1], ('a',))
    """
    return _one_level(pytree.flatten_one_level, tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable, Hashable]:
    """`(key, child)` pairs of a node and its data. Raises ValueError for a leaf.

    >>> import weft
    >>> children, data = weft.tree_util.flatten_one_level_with_keys({"b": [1, 2], "a": 3})
    >>> list(children), data
    ([(DictKey(key='a'), 3), (DictKey(key='b'), [1, 2])], ('a', 'b'))
    """
    return _one_level(pytree.flatten_one_level_with_keys, tree)


def _one_level(flatten: Callable, tree: dict | int) -> tuple[Iterable, Hashable]:
    result = flatten(tree)
    if result is None:
        raise ValueError(f"a value of type {type(tree).__name__} is a leaf and has no children")
    children, data = result
    return list(children), data


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Write a path as Python does, `['w'][0].bias`; simple: only names, joined by separator.

    >>> import weft
    >>> path = (weft.tree_util.DictKey("w"), weft.tree_util.SequenceKey(0))
    >>> weft.tree_util.keystr(path), weft.tree_util.keystr(path, simple=True, separator="/")
    ("['w'][0]", 'w/0')
    """
    return separator.join(_key_name(k) if simple else str(k) for k in keys)


def _key_name(key: object) -> str:
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)


# Registration ---------------------------------------------------------------------------------


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple] | None = None,
) -> None:
    """Make a type a pytree node.

    flatten_func(node) -> (children, data), data hashable and comparable; unflatten_func(data,
    children) -> node; flatten_with_keys_func(node) -> ((key, child) pairs, data) names children.

    >>> import weft
    >>> class Pair(tuple): pass
    >>> weft.tree_util.register_pytree_node(Pair, lambda p: (p, None), lambda _, xs: Pair(xs))
    >>> weft.tree.map(lambda x: -x, Pair((1, 2)))
    (-1, -2)
    """
    pytree.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: Any) -> Any:
    """Decorate a class as a node by its `tree_flatten()` and `tree_unflatten(data, children)`.

    >>> import weft
    >>> @weft.tree_util.register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...     def tree_flatten(self):
    ...         return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children):
    ...         return cls(*children)
    >>> weft.tree.leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple] | None = None,
) -> None:
    """Make a type a pytree node whose children have names.

    flatten_with_keys(node) -> ((key, child) pairs, data). flatten_func: a faster way without keys.

    >>> import weft
    >>> from weft.tree_util import GetAttrKey
    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> weft.tree_util.register_pytree_with_keys(
    ...     Point,
    ...     lambda p: (((GetAttrKey("x"), p.x), (GetAttrKey("y"), p.y)), None),
    ...     lambda data, children: Point(*children),
    ... )
    >>> [weft.tree_util.keystr(path) for path, _ in weft.tree.leaves_with_path(Point(1, 2))]
    ['.x', '.y']
    """

    def without_keys(node: object) -> tuple:
        pairs, data = flatten_with_keys(node)
        return [child for _, child in pairs], data

    register_pytree_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: Any) -> Any:
    """Decorate a class as a node by its methods `tree_flatten_with_keys()` and `tree_unflatten`.

    >>> import weft
    >>> @weft.tree_util.register_pytree_with_keys_class
    ... class Named:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return ((weft.tree_util.GetAttrKey("x"), self.x),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children):
    ...         return cls(*children)
    >>> weft.tree.map(lambda x: x + 1, Named(1)).x
    2
    """
    register_pytree_with_keys(
        cls,
        operator.methodcaller("tree_flatten_with_keys"),
        cls.tree_unflatten,
        operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None,
    )
    return cls


def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Make a dataclass a pytree node; also a class decorator.

    data_fields: children. meta_fields: part of the structure, hashable. Without both, fields made
    with `weft.tree.static()` are meta fields, the others data. drop_fields: left to their defaults.

    >>> import weft, dataclasses
    >>> @weft.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = weft.tree.static(default="linear")
    >>> weft.tree.map(lambda x: 2 * x, Layer(3.0))
    Layer(weight=6.0, name='linear')
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass,
            data_fields=data_fields,
            meta_fields=meta_fields,
            drop_fields=drop_fields,
        )
    name = nodetype.__name__
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if data_fields is not None or meta_fields is not None:
            raise TypeError("register_dataclass: give both data_fields and meta_fields, or neither")
        if not is_dataclass:
            raise TypeError(
                f"register_dataclass: {name} is not a dataclass; decorate it with "
                "@dataclasses.dataclass, or give data_fields and meta_fields"
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    both = set(data_fields) & set(meta_fields)
    if both:
        raise ValueError(
            f"register_dataclass: {', '.join(sorted(both))} of {name} cannot be data and meta "
            "fields at once"
        )
    if is_dataclass:
        init = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
        listed = {*data_fields, *meta_fields}
        for problem, names in (("missing", init - listed), ("not an init field", listed - init)):
            if names:
                raise ValueError(
                    f"register_dataclass: data_fields and meta_fields must be the init fields of "
                    f"{name}; {problem}: {', '.join(sorted(names))} (see drop_fields)"
                )
    pytree.register_dataclass_node(nodetype, data_fields, meta_fields)
    return nodetype


def register_static(cls: Any) -> Any:
    """Decorate a class whose instances are nodes without leaves, so jit treats them as static.

    The class must be hashable and comparable.

    >>> import weft
    >>> @weft.tree_util.register_static
    ... class Mode(str): pass
    >>> weft.tree.leaves((1, Mode("train")))
    [1]
    """
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


class Partial(functools.partial):
    """`functools.partial` as a pytree: its arguments are leaves, its function is static.

    >>> import weft
    >>> weft.tree.leaves(weft.tree_util.Partial(max, 3))
    [3]
    """

    def __new__(cls, func: Callable, *args: Any, **kw: Any) -> Any:
        if isinstance(func, functools.partial):
            # functools would merge an inner partial's arguments into ours, making leaves of them.
            func = _Whole(func)
        return super().__new__(cls, func, *args, **kw)


class _Whole:
    """A callable kept as one function, equal to others of the same function."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable) -> None:
        self.fun = fun

    def __call__(self, *args: object, **kw: object) -> Any:
        return self.fun(*args, **kw)

    def __eq__(self, other: object) -> bool:
        return self.fun == (other.fun if isinstance(other, _Whole) else other)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __repr__(self) -> str:
        return repr(self.fun)


register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, xs: Partial(func, *xs[0], **xs[1]),
    lambda p: ((((GetAttrKey("args")), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
seal(globals())

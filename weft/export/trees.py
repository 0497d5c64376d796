# Tests: tests/test_export.py
"""Structures of arguments and results, as values of JSON."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, TypeVar

from weft._xla.pytree import registry
from weft.core.tree import PyTreeDef, flatten
from weft.numpy import decompositions, determinants, setops

T = TypeVar("T")
_LEAF = flatten(0)[1]
_PLAIN: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict, "none": type(None)}
_PLAIN["OrderedDict"] = collections.OrderedDict

_by_name: dict[str, tuple[type, Callable[[bytes], Any], Callable | None]] = {}
_by_type: dict[type, tuple[str, Callable[[Any], bytes]]] = {}


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type[T]:
    """Let exported functions with a registered class of pytree nodes be serialized.

    Args:
      nodetype: the class, which is registered as a pytree.
      serialized_name: what files call it.
      serialize_auxdata, deserialize_auxdata: the static data of a node as bytes, and back.
      from_children: (static data, children) -> node, where the class is read; None: as registered.

    >>> import weft
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> weft.tree_util.register_pytree_node(
    ...     Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
    >>> cls = weft.export.register_pytree_node_serialization(Pair, serialized_name="Pair",
    ...     serialize_auxdata=lambda _: b"", deserialize_auxdata=lambda _: None)
    >>> f = weft.jit(lambda p: p.a + p.b)
    >>> data = weft.export.export(f)(Pair(1.0, 2.0)).serialize()
    >>> float(weft.export.deserialize(data).call(Pair(3.0, 4.0)))
    7.0
    """
    if serialized_name in _by_name or nodetype in _by_type:
        raise ValueError(
            f"register_pytree_node_serialization: {nodetype.__name__} or the name "
            f"{serialized_name!r} is registered already; use another serialized_name"
        )
    _by_type[nodetype] = (serialized_name, serialize_auxdata)
    _by_name[serialized_name] = (nodetype, deserialize_auxdata, from_children)
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Let exported functions with a class of named tuples be serialized.

    >>> import collections, weft
    >>> Point = collections.namedtuple("Point", "x y")
    >>> Point = weft.export.register_namedtuple_serialization(Point, serialized_name="Point")
    >>> f = weft.jit(lambda p: p.x * p.y)
    >>> data = weft.export.export(f)(Point(1.0, 2.0)).serialize()
    >>> float(weft.export.deserialize(data).call(Point(3.0, 4.0)))
    12.0
    """
    if not (issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(
            f"register_namedtuple_serialization: {nodetype.__name__} is no class of named tuples; "
            "use register_pytree_node_serialization"
        )
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: b"",
        deserialize_auxdata=lambda _: nodetype,
    )


def as_json(tree: PyTreeDef) -> Any:
    """Return the structure as lists and strings; ValueError for nodes that are not registered."""
    if tree == _LEAF:
        return "*"
    data: Any = tree.node_data() or (type(None), None)
    node, aux = data
    if issubclass(node, tuple) and hasattr(node, "_fields"):
        aux = None
    children = [as_json(c) for c in tree.children()]
    for name, cls in _PLAIN.items():
        if node is cls:
            keys = list(aux) if issubclass(node, dict) else None
            for key in keys or ():
                if type(key) not in (str, int):
                    raise ValueError(
                        f"serialize: {key!r} is a key of a dict; only strings and integers can be "
                        "serialized"
                    )
            return [name, keys, children]
    if node not in _by_type:
        raise ValueError(
            f"serialize: arguments or results have a node of type {node.__name__}; register it "
            "with weft.export.register_pytree_node_serialization or "
            "register_namedtuple_serialization"
        )
    name, dump = _by_type[node]
    return [f"registered {name}", bytes(dump(aux)).hex(), children]


def from_json(value: Any) -> PyTreeDef:
    """Return the structure that `as_json` gave."""
    if value == "*":
        return _LEAF
    name, aux, inner = value
    children = [from_json(c) for c in inner]
    if name == "none":
        return flatten(None)[1]
    if name in _PLAIN:
        node = _PLAIN[name]
        aux = tuple(aux) if node is collections.OrderedDict else aux
        return PyTreeDef.from_node_data_and_children(registry, (node, aux), children)
    short = name.removeprefix("registered ")
    if short not in _by_name:
        raise ValueError(
            f"deserialize: the file has nodes named {short!r}; register their class first, with "
            "weft.export.register_pytree_node_serialization or register_namedtuple_serialization"
        )
    node, load, make = _by_name[short]
    data = load(bytes.fromhex(aux))
    if make is not None:
        return flatten(make(data, [c.unflatten([0] * c.num_leaves) for c in children]))[1]
    return PyTreeDef.from_node_data_and_children(registry, (node, data), children)


for _result in (
    *(decompositions.EigResult, decompositions.EighResult, decompositions.QRResult),
    *(decompositions.SVDResult, determinants.SlogdetResult),
    *(setops._UniqueAll, setops._UniqueCounts, setops._UniqueInverse),
):
    register_namedtuple_serialization(_result, serialized_name=f"weft.{_result.__name__}")

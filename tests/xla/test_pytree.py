"""Pytrees: which types are nodes, and in which registry."""

from collections import namedtuple

import pytest

from weft._xla import pytree

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "tree, leaves",
    [
        (1, [1]),
        (None, []),
        ((1, [2, {"b": 4, "a": 3}], None), [1, 2, 3, 4]),
        (Point(1, (2,)), [1, 2]),
        ({}, []),
    ],
)
def test_flatten_and_unflatten_are_inverse(tree, leaves):
    flat, definition = pytree.flatten(tree)
    assert flat == leaves
    assert definition.unflatten(flat) == tree


def test_a_registered_class_is_a_node_in_every_registry():
    class Box:
        def __init__(self, value):
            self.value = value

    pytree.register_node(Box, lambda b: ((b.value,), "aux"), lambda aux, kids: Box(*kids))
    for registry in (pytree.registry, pytree.dispatch_registry, pytree.none_leaf_registry):
        flat, definition = registry.flatten(Box(3))
        assert flat == [3]
        assert definition.unflatten([4]).value == 4


def test_a_dispatch_node_is_a_leaf_elsewhere():
    class Key:
        def __init__(self, data):
            self.data = data

    pytree.register_dispatch_node(Key, lambda k: ((k.data,), None), lambda _, kids: Key(*kids))
    key = Key(1)
    assert pytree.flatten(key)[0] == [key]
    assert pytree.dispatch_registry.flatten(key)[0] == [1]


def test_none_is_a_leaf_for_axis_specifications():
    assert pytree.none_leaf_registry.flatten((None, 1))[0] == [None, 1]


def test_tree_definitions_are_composed_of_children():
    child = pytree.flatten([1, 2])[1]
    pair = pytree.treedef_tuple([child, child])
    assert pair.unflatten([1, 2, 3, 4]) == ([1, 2], [3, 4])
    assert pytree.all_leaves([1, 2]) and not pytree.all_leaves([1, (2,)])

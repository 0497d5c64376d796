"""weft.tree and weft.tree_util: flattening, mapping, paths, registration, and their errors."""

import collections
import copy
import dataclasses
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import tree, tree_util

Point = collections.namedtuple("Point", "x y")
TREES = st.recursive(
    st.integers() | st.none(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abcd"), children, max_size=3)
        | st.tuples(children, children).map(lambda p: Point(*p))
    ),
    max_leaves=8,
)


def by_hand(node):
    """Leaves in the order of the documentation: dictionaries by sorted key, None has none."""
    if node is None:
        return []
    if isinstance(node, dict):
        return [leaf for key in sorted(node) for leaf in by_hand(node[key])]
    if isinstance(node, list | tuple):
        return [leaf for child in node for leaf in by_hand(child)]
    return [node]


@given(TREES)
def test_flatten_lists_leaves_in_order_and_unflatten_inverts_it(value):
    leaves, treedef = tree.flatten(value)
    assert leaves == by_hand(value) == tree.leaves(value)
    assert tree.unflatten(treedef, leaves) == value
    assert treedef == tree.structure(value)
    assert treedef.num_leaves == len(leaves)


@given(TREES)
def test_paths_lead_to_their_leaves(value):
    def follow(node, path):
        for key in path:
            if isinstance(key, tree_util.DictKey):
                node = node[key.key]
            elif isinstance(key, tree_util.SequenceKey):
                node = node[key.idx]
            else:
                node = getattr(node, key.name)
        return node

    pairs = tree.leaves_with_path(value)
    assert [leaf for _, leaf in pairs] == tree.leaves(value)
    for path, leaf in pairs:
        assert follow(value, path) is leaf
        assert eval("value" + tree_util.keystr(path)) is leaf


@given(TREES)
def test_map_changes_leaves_and_keeps_nodes(value):
    doubled = tree.map(lambda x: x * 2, value)
    assert tree.structure(doubled) == tree.structure(value)
    assert tree.leaves(doubled) == [2 * x for x in tree.leaves(value)]
    assert tree.map(operator.add, value, doubled) == tree.map(lambda x: 3 * x, value)


def test_map_gives_subtrees_of_deeper_trees():
    assert tree.map(lambda x, sub: (x, sub), [1, 2], [{"a": 3}, (4, 5)]) == [
        (1, {"a": 3}),
        (2, (4, 5)),
    ]


def test_is_leaf_stops_descent():
    value = {"a": (1, 2), "b": [None, 3]}
    assert tree.leaves(value, is_leaf=lambda n: isinstance(n, tuple)) == [(1, 2), 3]
    assert tree.leaves(value, is_leaf=lambda n: n is None) == [1, 2, None, 3]
    deep = tree.leaves_with_path(value, is_leaf=lambda p, n: len(p) == 1, is_leaf_takes_path=True)
    assert [leaf for _, leaf in deep] == [(1, 2), [None, 3]]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ([1, 2], [1], "at the root, 2 children against 1"),
        ({"a": (1, 2)}, {"a": [1, 2]}, r"at \['a'\], one has tuple, the other list"),
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}, "'b'.* only in the first.*'c'.* only in the second"),
        ({"w": [1, {"x": (2,)}]}, {"w": [1, {"x": 2}]}, r"at \['w'\]\[1\]\['x'\]"),
    ],
)
def test_map_names_the_place_where_trees_differ(one, other, words):
    with pytest.raises(ValueError, match=words):
        tree.map(operator.add, one, other)


def test_reductions():
    value = [1, (2, {"a": 3}), 4]
    assert tree.reduce(operator.sub, value) == 1 - 2 - 3 - 4
    assert tree.reduce(operator.sub, value, 10) == 0
    assert tree.reduce_associative(operator.add, [[1], ["no"][:0], 2, 3]) == 6
    assert tree.reduce_associative(lambda a, b: a + b, [[], ()], identity=0) == 0
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(operator.add, [])
    assert tree.all([True, (1,)]) and tree.all([]) and not tree.all([True, {"a": 0}])


def test_transpose_turns_a_tree_of_trees_inside_out():
    value = {"a": Point(1, 2), "b": Point(3, 4)}
    outer, inner = tree.structure({"a": 0, "b": 0}), tree.structure(Point(0, 0))
    want = Point({"a": 1, "b": 3}, {"a": 2, "b": 4})
    assert tree.transpose(outer, inner, value) == want
    assert tree.transpose(outer, None, value) == want
    with pytest.raises(TypeError, match="expected"):
        tree.transpose(outer, tree.structure((0, 0, 0)), value)


def test_broadcast_repeats_a_prefix():
    full = {"a": [1, 2], "b": (3, {"c": 4})}
    assert tree.broadcast({"a": 0, "b": (5, 6)}, full) == {"a": [0, 0], "b": (5, {"c": 6})}
    assert tree.broadcast(7, full) == tree.map(lambda _: 7, full)
    with pytest.raises(ValueError, match="weft.tree.broadcast: the trees differ"):
        tree.broadcast({"a": 0}, full)


def test_map_with_path_gives_each_leaf_its_path():
    value = {"a": [1, 2], "p": Point(3, 4)}
    names = tree.map_with_path(lambda path, x, y: f"{tree_util.keystr(path)}={x + y}", value, value)
    assert tree.leaves(names) == ["['a'][0]=2", "['a'][1]=4", "['p'].x=6", "['p'].y=8"]


def test_keystr_writes_short_names_too():
    (path, _), *_ = tree.leaves_with_path({"w": [Point(1, 2)]})
    assert tree_util.keystr(path, simple=True, separator="/") == "w/0/x"


# Registration ---------------------------------------------------------------------------------


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b, tag):
        self.a, self.b, self.tag = a, b, tag

    def tree_flatten(self):
        return (self.a, self.b), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(*children, tag)


@tree_util.register_pytree_with_keys_class
class Named(Pair):
    def tree_flatten_with_keys(self):
        keys = tree_util.GetAttrKey("a"), tree_util.GetAttrKey("b")
        return tuple(zip(keys, (self.a, self.b), strict=True)), self.tag


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = tree.static(default="linear")


@pytest.mark.parametrize("cls", [Pair, Named])
def test_registered_classes_are_nodes(cls):
    out = tree.map(lambda x: -x, cls(1, (2, 3), "tag"))
    assert (out.a, out.b, out.tag) == (-1, (-2, -3), "tag")
    assert type(out) is cls
    assert tree.structure(cls(1, 2, "s")) != tree.structure(cls(1, 2, "t"))
    assert tree_util.is_tree_node(cls) and not tree_util.is_tree_node(int)


def test_keys_of_registered_classes():
    paths = lambda x: [tree_util.keystr(p) for p, _ in tree.leaves_with_path(x)]
    assert paths(Named(1, [2], 0)) == [".a", ".b[0]"]
    assert paths(Pair(1, [2], 0)) == ["[<flat index 0>]", "[<flat index 1>][0]"]
    assert paths(Layer(1, 2)) == [".weight", ".bias"]


def test_dataclasses_are_traced_and_differentiated():
    layer = Layer(np.float32(3), np.float32(1), "affine")

    @weft.jit
    def apply(layer, x):
        assert layer.name == "affine"
        return layer.weight * x + layer.bias

    assert float(apply(layer, 2.0)) == 7
    grad = weft.grad(apply)(layer, 2.0)
    assert isinstance(grad, Layer)
    assert (float(grad.weight), float(grad.bias), grad.name) == (2, 1, "affine")


def test_dropped_fields_keep_their_defaults():
    @dataclasses.dataclass
    class Cached:
        x: int
        cache: dict = dataclasses.field(default_factory=dict)

    tree_util.register_dataclass(Cached, ["x"], [], drop_fields=["cache"])
    out = tree.map(lambda x: x + 1, Cached(1, {"old": 1}))
    assert out == Cached(2, {})


@pytest.mark.parametrize(
    ("data", "meta", "words"),
    [
        (["x"], None, "both data_fields and meta_fields"),
        (["x", "y"], ["y"], "y of Some cannot be"),
        (["x"], [], "missing: y"),
        (["x", "y", "z"], [], "not an init field: z"),
    ],
)
def test_register_dataclass_names_wrong_fields(data, meta, words):
    @dataclasses.dataclass
    class Some:
        x: int
        y: int

    with pytest.raises((TypeError, ValueError), match=words):
        tree_util.register_dataclass(Some, data, meta)


def test_register_dataclass_needs_fields_of_other_classes():
    with pytest.raises(TypeError, match="not a dataclass"):
        tree_util.register_dataclass(type("Bare", (), {}))


def test_static_instances_are_structure():
    @tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Mode:
        train: bool

    traces = []

    @weft.jit
    def run(mode, x):
        traces.append(mode)
        return x + 1 if mode.train else x

    assert [int(run(Mode(t), 1)) for t in (True, False, True)] == [2, 1, 2]
    assert traces == [Mode(True), Mode(False)]


def test_a_type_is_registered_once():
    with pytest.raises(ValueError, match="[Dd]uplicate|already"):
        tree_util.register_pytree_node(Pair, lambda p: ((), None), lambda d, c: None)


def test_partial_has_its_arguments_as_leaves():
    add = tree_util.Partial(lambda x, y, z: x + 10 * y + 100 * z, 1, z=3)
    assert tree.leaves(add) == [1, 3]
    doubled = tree.map(lambda x: 2 * x, add)
    assert doubled(5) == 2 + 50 + 600
    assert float(weft.jit(lambda f, y: f(y))(add, 2.0)) == 321
    nested = tree_util.Partial(tree_util.Partial(operator.add, 1), 2)
    assert nested() == 3 and tree.leaves(nested) == [2]


def test_dictionaries_keep_their_kind():
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    assert tree.leaves(ordered) == [1, 2]
    default = collections.defaultdict(list, {"b": 1, "a": 2})
    assert tree.leaves(default) == [2, 1]
    for node in (ordered, default):
        assert type(tree.map(lambda x: x, node)) is type(node)


def test_keys_that_cannot_be_sorted_are_an_error():
    with pytest.raises((TypeError, ValueError), match="must be ordered"):
        tree.flatten({1: 0, "a": 0})


def test_one_level():
    children, data = tree_util.flatten_one_level({"b": [1], "a": 2})
    assert (children, tuple(data)) == ([2, [1]], ("a", "b"))
    with pytest.raises(ValueError, match="int is a leaf"):
        tree_util.flatten_one_level(3)


def test_structures_have_children():
    treedef = tree.structure((1, [2, None]))
    assert [d.num_leaves for d in tree_util.treedef_children(treedef)] == [1, 1]
    assert tree_util.treedef_tuple(tree_util.treedef_children(treedef)) == treedef
    assert tree_util.treedef_is_leaf(tree.structure(0)) and not tree_util.treedef_is_leaf(treedef)
    assert tree_util.all_leaves([1, "a"]) and not tree_util.all_leaves([1, (2,)])
    assert tree_util.all_leaves([(1,)], is_leaf=lambda n: isinstance(n, tuple))


@given(TREES)
def test_structures_survive_pickling_and_copying(node):
    leaves, structure = tree.flatten(node)
    for again in (pickle.loads(pickle.dumps(structure)), copy.deepcopy(structure)):
        assert again == structure and again.unflatten(leaves) == node


def test_structures_with_registered_nodes_survive_pickling():
    structure = tree.structure({"f": tree_util.Partial(operator.add, 1)})
    again = pickle.loads(pickle.dumps(structure))
    assert again == structure and again.unflatten([3])["f"](4) == 7


def test_refs_are_leaves():
    refs = {"a": weft.new_ref(weft.numpy.ones(2)), "b": [weft.new_ref(3.0)]}
    assert all(isinstance(r, weft.Ref) for r in weft.tree.leaves(refs))
    doubled = weft.tree.map(lambda r: r[...] * 2, refs)
    np.testing.assert_array_equal(doubled["a"], [2, 2])
    frozen = weft.tree.map(weft.freeze, refs)
    assert frozen["b"] == [3.0]
    sums = weft.jit(lambda refs: weft.tree.map(lambda r: r[...].sum(), refs))
    assert sums({"a": weft.new_ref(weft.numpy.ones(2))}) == {"a": 2.0}


def test_a_ref_is_a_leaf_in_whatever_way_a_tree_is_taken_apart():
    ref = weft.new_ref(np.zeros(4, np.float32))
    both = {"a": ref, "b": [ref, 1]}
    kinds = ["Ref", "Ref", "int"]
    pairs, treedef = weft.tree.flatten_with_path(both)
    assert treedef == weft.tree.structure(both) and [type(x).__name__ for _, x in pairs] == kinds
    assert [weft.tree_util.keystr(path) for path, _ in pairs] == ["['a']", "['b'][0]", "['b'][1]"]
    names = weft.tree.map_with_path(lambda path, x: type(x).__name__, both)
    assert weft.tree.leaves(names) == kinds
    of_list = weft.tree.leaves_with_path(both, is_leaf=lambda x: isinstance(x, list))
    assert [type(x).__name__ for _, x in of_list] == ["Ref", "list"]
    assert weft.tree_util.all_leaves([ref, 1]) and not weft.tree_util.is_tree_node(type(ref))

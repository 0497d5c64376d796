"""Wrong calls of collectives: one exception each, the same under vmap, shard_map and jit."""

import re
import traceback

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 8
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]
SEVEN = np.zeros((N, 7), np.float32)


def ragged(v, *, operand=None, output=None, index=None, last=None):
    index = np.zeros(N, np.int32) if index is None else index
    return lax.ragged_all_to_all(
        v if operand is None else operand,
        v if output is None else output,
        index,
        index,
        index,
        index if last is None else last,
        axis_name="x",
    )


# name: (per-device call on f32[7], exception, what the message must contain)
CALLS = {
    "unbound axis": (
        lambda v: lax.psum(v, "z"),
        NameError,
        ["'z' is not bound", "axes in scope: 'x' (size 8", "axis_name"],
    ),
    "unbound axis of axis_index": (lambda v: lax.axis_index("z"), NameError, ["'z'", "'x'"]),
    "unbound axis of axis_size": (lambda v: lax.axis_size("z"), NameError, ["'z'", "'x'"]),
    "unbound axis of a start": (lambda v: lax.psum_start(v, "z"), NameError, ["'z'", "'x'"]),
    "unbound among several": (lambda v: lax.all_gather(v, ("x", "z")), NameError, ["'z'", "'x'"]),
    "an axis twice": (lambda v: lax.psum(v, ("x", "x")), ValueError, ["names axis 'x' twice"]),
    "a set of axes": (lambda v: lax.psum(v, {"x"}), TypeError, ["not a set", "order"]),
    "no axis": (lambda v: lax.psum(v, None), TypeError, ["must be the name of an axis"]),
    "groups that miss indices": (
        lambda v: lax.psum(v, "x", axis_index_groups=[[0, 1], [2, 3]]),
        ValueError,
        ["psum: axis_index_groups", "axis 'x' (size 8)", "missing 4, 5, 6, 7"],
    ),
    "groups that repeat an index": (
        lambda v: lax.all_gather(v, "x", axis_index_groups=[[0, 1, 2, 3], [3, 4, 5, 6]]),
        ValueError,
        ["all_gather: axis_index_groups", "missing 7", "repeated 3"],
    ),
    "groups out of range": (
        lambda v: lax.pmax(v, "x", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 8]]),
        ValueError,
        ["missing 7", "out of range 8"],
    ),
    "an empty group": (
        lambda v: lax.psum(v, "x", axis_index_groups=[list(range(8)), []]),
        ValueError,
        ["an empty group"],
    ),
    "groups of another kind": (
        lambda v: lax.psum(v, "x", axis_index_groups=3),
        TypeError,
        ["a list of lists of ints, got 3"],
    ),
    "unequal groups of all_gather": (
        lambda v: lax.all_gather(v, "x", axis_index_groups=[[0, 1, 2], [3, 4, 5, 6, 7]]),
        ValueError,
        ["equal sizes", "[3, 5]", "psum, pmax and pmin take unequal"],
    ),
    "unequal groups of psum_scatter": (
        lambda v: lax.psum_scatter(v, "x", axis_index_groups=[[0, 1, 2], [3, 4, 5, 6, 7]]),
        ValueError,
        ["psum_scatter", "equal sizes"],
    ),
    "unequal groups of all_to_all": (
        lambda v: lax.all_to_all(v, "x", 0, 0, axis_index_groups=[[0, 1, 2], [3, 4, 5, 6, 7]]),
        ValueError,
        ["all_to_all", "equal sizes"],
    ),
    "groups with positional axes": (
        lambda v: lax.psum(v, ("x", 0), axis_index_groups=HALVES),
        ValueError,
        ["cannot be combined with positional axes"],
    ),
    "an array dimension where none is taken": (
        lambda v: lax.pargmax(v, ("x", 0)),
        NameError,
        ["0 is not bound", "Array dimensions", "psum, pmean, pmax and pmin"],
    ),
    "a positional axis out of range": (
        lambda v: lax.psum(v, ("x", 5)),
        ValueError,
        ["positional axis 5", "rank 1"],
    ),
    "psum_scatter of a dimension that does not divide": (
        lambda v: lax.psum_scatter(v, "x", tiled=True),
        ValueError,
        ["scatter_dimension=0", "f32[7]", "size 7", "axis 'x' has 8 devices", "Pad it to 8"],
    ),
    "psum_scatter of a dimension of another size": (
        lambda v: lax.psum_scatter(v, "x"),
        ValueError,
        ["scatter_dimension=0", "size 7", "tiled=False they must be equal"],
    ),
    "all_to_all of a dimension that does not divide": (
        lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True),
        ValueError,
        ["split_axis=0", "f32[7]", "size 7", "axis 'x' has 8 devices"],
    ),
    "all_to_all in groups of a dimension of another size": (
        lambda v: lax.all_to_all(v, "x", 0, 0, axis_index_groups=HALVES),
        ValueError,
        ["split_axis=0", "axis 'x' has 4 devices in a group"],
    ),
    "all_to_all of a scalar": (
        lambda v: lax.all_to_all(v[0], "x", 0, 0),
        ValueError,
        ["scalar", "no dimension to split"],
    ),
    "psum_scatter of a scalar": (lambda v: lax.psum_scatter(v[0], "x"), ValueError, ["use psum"]),
    "all_gather of a scalar, tiled": (
        lambda v: lax.all_gather(v[0], "x", tiled=True),
        ValueError,
        ["scalar", "use tiled=False"],
    ),
    "all_gather along an axis out of range": (
        lambda v: lax.all_gather(v, "x", axis=4),
        ValueError,
        ["all_gather: axis 4", "rank 2"],
    ),
    "all_gather to an unknown state": (
        lambda v: lax.all_gather(v, "x", to="equal"),
        ValueError,
        ["'varying', 'invarying' or 'reduced'", "'equal'"],
    ),
    "all_gather in groups to invarying": (
        lambda v: lax.all_gather(v, "x", axis_index_groups=HALVES, to="invarying"),
        ValueError,
        ["to='invarying'", "axis_index_groups", "use to='varying'"],
    ),
    "pcast to an unknown state": (
        lambda v: lax.pcast(v, "x", to="invarying"),
        ValueError,
        ["'varying', 'reduced' or 'unreduced'", "psum and pmax"],
    ),
    "a target twice": (
        lambda v: lax.ppermute(v, "x", [(0, 1), (2, 1)]),
        ValueError,
        ["ppermute", "not a permutation", "1 is a target twice"],
    ),
    "a source twice": (
        lambda v: lax.psend(v, "x", [(0, 1), (0, 2)]),
        ValueError,
        ["psend", "0 is a source twice"],
    ),
    "a target out of range": (
        lambda v: lax.ppermute(v, "x", [(0, 9)]),
        ValueError,
        ["target 9 is out of range", "axis 'x' has size 8"],
    ),
    "a perm that is no list of pairs": (
        lambda v: lax.ppermute(v, "x", [1, 2]),
        TypeError,
        ["(source, target) pairs"],
    ),
    "pshuffle without all indices": (
        lambda v: lax.pshuffle(v, "x", [0, 1]),
        ValueError,
        ["every index from 0 to 7"],
    ),
    "a source out of range": (
        lambda v: lax.pbroadcast(v, "x", 8),
        ValueError,
        ["source 8 is out of range", "0 to 7"],
    ),
    "a source that is no int": (
        lambda v: lax.pbroadcast(v, "x", 1.5),
        TypeError,
        ["source must be an int, got 1.5"],
    ),
    "pargmax over an axis twice": (
        lambda v: lax.pargmax(v, ("x", "x")),
        ValueError,
        ["pargmax", "names axis 'x' twice"],
    ),
    "pmax of complex values": (
        lambda v: lax.pmax(v.astype("complex64"), "x"),
        TypeError,
        ["ordered values", "c64[7]", "absolute value"],
    ),
    "psum of a string": (lambda v: lax.psum("abc", "x"), TypeError, ["'abc'"]),
    "psum of keys": (
        lambda v: lax.psum(weft.random.split(weft.random.key(0), 3) if v.ndim else v, "x"),
        TypeError,
        ["key<fry>"],
    ),
    "receiving what was not sent": (
        lambda v: lax.precv(v, v, "x", [(0, 1)]),
        TypeError,
        ["what weft.lax.psend returned"],
    ),
    "receiving by another perm": (
        lambda v: lax.precv(lax.psend(v, "x", [(0, 1)]), v, "x", [(1, 0)]),
        ValueError,
        ["sent over x with perm [(0, 1)]", "[(1, 0)]"],
    ),
    "receiving another shape": (
        lambda v: lax.precv(lax.psend(v, "x", [(0, 1)]), v[:3], "x", [(0, 1)]),
        TypeError,
        ["f32[3]", "f32[7]"],
    ),
    "a perm of floats, which equal ints that were fine": (
        lambda v: lax.ppermute(lax.ppermute(v, "x", [(0, 1)]), "x", [(0.0, 1.0)]),
        TypeError,
        ["ppermute: source must be an int, got 0.0"],
    ),
    "a perm that is traced": (
        lambda v: lax.psend(v, "x", [(0, (v[0] > 0).astype(int))]),
        TypeError,
        ["psend: target must be an int, got a traced i32[]", "not known while tracing"],
    ),
    "pshuffle by pairs": (
        lambda v: lax.pshuffle(v, "x", [(i, i) for i in range(N)]),
        TypeError,
        ["pshuffle: perm must be a sequence of ints", "(0, 0)"],
    ),
    "pshuffle by nothing": (
        lambda v: lax.pshuffle(v, "x", None),
        TypeError,
        ["pshuffle: perm must be a sequence of ints", "got None"],
    ),
    "a name in lists": (
        lambda v: lax.psum(v, [["x"]]),
        TypeError,
        ["psum: axis_name must be a name or a tuple of names, got [['x']]", "hashable"],
    ),
    "a dict of names": (
        lambda v: lax.all_gather(v, {"x": 0}),
        TypeError,
        ["all_gather: axis_name must be a name", "{'x': 0}"],
    ),
    "an array as the name": (
        lambda v: lax.axis_index(np.zeros(2)),
        TypeError,
        ["axis_index: axis_name must be a name", "array([0., 0.])"],
    ),
    "None among the names": (
        lambda v: lax.pmax(v, ("x", None)),
        TypeError,
        ["pmax: axis_name must be the name of an axis", "('x', None)"],
    ),
    "groups of floats": (
        lambda v: lax.pmin(v, "x", axis_index_groups=np.array(HALVES, np.float32)),
        TypeError,
        ["pmin: axis_index_groups must be a list of lists of ints"],
    ),
    "groups of negative indices": (
        lambda v: lax.psum(v, "x", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, -1]]),
        ValueError,
        ["psum: axis_index_groups", "missing 7", "out of range -1"],
    ),
    "groups of None": (
        lambda v: lax.all_to_all(v, "x", 0, 0, axis_index_groups=[[0, None]]),
        TypeError,
        ["all_to_all: axis_index_groups must be a list of lists of ints", "None"],
    ),
    "groups as an array of rank 3": (
        lambda v: lax.psum(v, "x", axis_index_groups=np.zeros((2, 4, 1), int)),
        TypeError,
        ["psum: axis_index_groups must be a list of lists of ints"],
    ),
    "the shape of an operand": (
        lambda v: lax.psum(weft.ShapeDtypeStruct((3,), "float32"), "x"),
        TypeError,
        ["psum: x must be an array, a number, or a pytree of them", "ShapeDtypeStruct"],
    ),
    "an operand that is no array": (
        lambda v: lax.all_gather({"a": v, "b": object}, "x"),
        TypeError,
        ["all_gather: x must be an array, a number, or a pytree of them", "object"],
    ),
    "an operand of strings": (
        lambda v: lax.ppermute(np.array(["a"]), "x", [(0, 1)]),
        TypeError,
        ["ppermute: x must be an array", "<U1"],
    ),
    "an operand of dates": (
        lambda v: lax.pmax(np.array(["2020-01-01"], "datetime64[D]"), "x"),
        TypeError,
        ["pmax: x must be an array", "datetime64"],
    ),
    "a future as operand": (
        lambda v: lax.psum(lax.psum_start(v, "x"), "x"),
        TypeError,
        ["psum: x is a value in flight", "in_flight[psum f32[7]]", "call .done() on the future"],
    ),
    "a message as operand": (
        lambda v: lax.pbroadcast(lax.psend(v, "x", [(0, 1)]), "x", 0),
        TypeError,
        ["pbroadcast: x is a value in flight", "receive it with weft.lax.precv"],
    ),
    "a start's wrong groups": (
        lambda v: lax.all_gather_start(v, "x", axis_index_groups=[[0, 1]]),
        ValueError,
        ["all_gather_start: axis_index_groups [[0, 1]]", "missing 2, 3"],
    ),
    "a start's wrong dimension": (
        lambda v: lax.psum_scatter_start(v, "x", tiled=True),
        ValueError,
        ["psum_scatter_start: scatter_dimension=0", "Pad it to 8"],
    ),
    "tiled that is no flag": (
        lambda v: lax.all_gather(v, "x", tiled="yes"),
        TypeError,
        ["all_gather: tiled must be True or False", "'yes'"],
    ),
    "tiled that is traced": (
        lambda v: lax.psum_scatter(v, "x", tiled=v[0] > 0),
        TypeError,
        ["psum_scatter: tiled must be True or False, known while tracing", "bool[]"],
    ),
    "an array as the state to gather to": (
        lambda v: lax.all_gather(v, "x", to=np.ones(2)),
        ValueError,
        ["'varying', 'invarying' or 'reduced'", "array([1., 1.])"],
    ),
    "a float as dimension": (
        lambda v: lax.all_gather(v, "x", axis=0.0),
        TypeError,
        ["all_gather: axis must be an integer, got 0.0"],
    ),
    "a negative dimension out of range": (
        lambda v: lax.psum_scatter(v, "x", scatter_dimension=-2),
        ValueError,
        ["psum_scatter: scatter_dimension", "-2", "rank 1"],
    ),
    "None as dimension": (
        lambda v: lax.all_to_all(v, "x", None, 0),
        TypeError,
        ["all_to_all: split_axis", "None"],
    ),
    "a negative source": (
        lambda v: lax.pbroadcast(v, "x", -1),
        ValueError,
        ["pbroadcast: source -1 is out of range"],
    ),
    "receiving nothing": (
        lambda v: lax.precv(None, v, "x", [(0, 1)]),
        TypeError,
        ["precv: token must be what weft.lax.psend returned, got None"],
    ),
    "receiving another structure": (
        lambda v: lax.precv(lax.psend({"a": v}, "x", [(0, 1)]), v, "x", [(0, 1)]),
        TypeError,
        ["precv: out_shape must be a pytree like the token, {'a': Message(sent[f32[7]"],
    ),
    "receiving a shape that is none": (
        lambda v: lax.precv(lax.psend(v, "x", [(0, 1)]), "f32", "x", [(0, 1)]),
        TypeError,
        ["precv: out_shape must have a shape and a dtype", "'f32'"],
    ),
    "computing with a message": (
        lambda v: 2 * lax.psend(v, "x", [(0, 1)]),
        TypeError,
        ["sent[f32[7]", "receive it with weft.lax.precv before it is computed with"],
    ),
    "a message as an array": (
        lambda v: weft.numpy.sin(lax.psend(v, "x", [(0, 1)])),
        TypeError,
        ["sent[f32[7]", "receive it with weft.lax.precv"],
    ),
    "ragged: a list of offsets": (
        lambda v: ragged(v, index=[0] * N),
        TypeError,
        ["ragged_all_to_all: input_offsets must be an array", "list"],
    ),
    "ragged: a pytree": (
        lambda v: ragged(v, operand={"a": v}),
        TypeError,
        ["ragged_all_to_all: operand must be an array", "dict"],
    ),
    "ragged: offsets of floats": (
        lambda v: ragged(v, index=np.zeros(N, np.float32)),
        TypeError,
        ["input_offsets must be integers, got f32[8]", "astype"],
    ),
    "ragged: offsets of rank 2": (
        lambda v: ragged(v, index=np.zeros((N, 1), np.int32)),
        ValueError,
        ["input_offsets must be a vector", "i32[8,1]"],
    ),
    "ragged: too few offsets": (
        lambda v: ragged(v, index=np.zeros(7, np.int32)),
        ValueError,
        ["length 7", "multiple of the 8 devices"],
    ),
    "ragged: offsets of different lengths": (
        lambda v: ragged(v, last=np.zeros(16, np.int32)),
        ValueError,
        ["one length", "recv_sizes has 16"],
    ),
    "ragged: operand and output of different dtypes": (
        lambda v: ragged(v, output=v.astype(int)),
        TypeError,
        ["one dtype", "f32[7]", "i32[7]"],
    ),
    "ragged: operand without rows": (
        lambda v: ragged(v, operand=v[0], output=v[0]),
        ValueError,
        ["rank 1 at least"],
    ),
}


def over_devices(call):
    mesh = mesh_of(Machine(x=N), ("x",))
    return weft.shard_map(lambda v: call(v[0]), mesh=mesh, in_specs=P("x"), out_specs=P())


CONTEXTS = {
    "vmap": lambda call: weft.vmap(call, axis_name="x"),
    "jit of vmap": lambda call: weft.jit(weft.vmap(call, axis_name="x")),
    "shard_map": over_devices,
    "jit of shard_map": lambda call: weft.jit(over_devices(call)),
    "grad of shard_map": lambda call: weft.grad(lambda x: over_devices(call)(x).sum()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_says_the_same_everywhere(name):
    call, kind, parts = CALLS[name]
    said = set()
    for wrap in CONTEXTS.values():
        with pytest.raises(kind) as caught:
            wrap(call)(SEVEN)
        text = str(caught.value)
        for part in parts:
            assert part in text
        assert traceback.extract_tb(caught.tb)[-1].filename == __file__  # the user's line
        # Types say {V:x} where axes are tracked, and scopes what kind of axis it is.
        said.add(re.sub(r"\{V:x\}|, (vmap|manual)|Traced<.*", "", text))
    assert len(said) == 1


@pytest.mark.parametrize("kind", [np.asarray, weft.numpy.asarray, tuple, iter])
def test_groups_and_permutations_may_be_arrays(kind):
    x = np.arange(float(N), dtype=np.float32)

    def call(v):
        total = lax.psum(v, "x", axis_index_groups=kind(HALVES))
        return total + lax.ppermute(v, "x", kind([(0, 1), (5, 2)]))

    want = np.repeat([6.0, 22.0], 4)
    want[1], want[2] = want[1] + x[0], want[2] + x[5]
    mapped = weft.shard_map(
        lambda v: call(v[0])[None],
        mesh=mesh_of(Machine(x=N), ("x",)),
        in_specs=P("x"),
        out_specs=P("x"),
    )
    for f in (weft.vmap(call, axis_name="x"), weft.jit(mapped)):
        np.testing.assert_array_equal(f(x), want)


def test_an_axis_outside_of_any_scope_is_unbound():
    for run in (lambda f: f(SEVEN), lambda f: weft.jit(f)(SEVEN), lambda f: weft.vmap(f)(SEVEN)):
        with pytest.raises(NameError, match="'x' is not bound.*no named axis is in scope"):
            run(lambda v: lax.ppermute(v, "x", [(0, 1)]))


TWO = Machine(x=2, y=4)


@pytest.mark.parametrize("call", [lambda v: lax.psum(v, "y"), lambda v: lax.pvary(v, ("x", "y"))])
def test_a_mesh_axis_that_is_left_to_the_partitioner_is_named(call):
    f = weft.shard_map(
        call,
        mesh=mesh_of(TWO, ("x", "y")),
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
    )
    with pytest.raises(NameError, match=r"'y' is a mesh axis, but not manual.*axis_names"):
        f(np.ones((8, 8), np.float32))


def on_two_axes(call, spec):
    mesh = mesh_of(TWO, ("x", "y"))
    mapped = weft.shard_map(call, mesh=mesh, in_specs=spec, out_specs=P("x", "y"))
    return weft.make_jaxpr(mapped)(np.ones((2, 4), np.float32))


# name: (call, in_specs, what the message must contain); all are ValueErrors
STATES = {
    "psum along an axis over which the value does not vary": (
        lambda v: lax.psum(v, ("x", "y")),
        P("x"),
        ["f32[1,4]{V:x}", "varying along 'x', invarying along 'y'", "pcast(x, 'y', to='varying')"],
    ),
    "psum of unreduced and varying": (
        lambda v: lax.psum(lax.pcast(v, "x", to="unreduced"), ("x", "y")),
        P("x", "y"),
        ["unreduced along 'x', varying along 'y'", "one call for each state"],
    ),
    "pmax of unreduced": (
        lambda v: lax.pmax(lax.pcast(v, "x", to="unreduced"), "x"),
        P("x", "y"),
        ["pmax over 'x'", "f32[1,1]{V:y U:x}", "unreduced", "weft.lax.psum(x, 'x')"],
    ),
    "psum in groups of unreduced": (
        lambda v: lax.psum(lax.pcast(v, "x", to="unreduced"), "x", axis_index_groups=[[0], [1]]),
        P("x", "y"),
        ["psum over 'x'", "unreduced", "weft.lax.psum(x, 'x')"],
    ),
    "all_gather of reduced": (
        lambda v: lax.all_gather(lax.pcast(lax.psum(v, "x"), "x", to="reduced"), "x"),
        P("x", "y"),
        ["all_gather over 'x'", "{V:y R:x}", "reduced", "pcast(x, 'x', to='varying')"],
    ),
    "ppermute of unreduced": (
        lambda v: lax.ppermute(lax.pcast(v, "y", to="unreduced"), "y", [(0, 1)]),
        P("x", "y"),
        ["ppermute over 'y'", "unreduced"],
    ),
    "a start of unreduced": (
        lambda v: lax.ppermute_start(lax.pcast(v, "y", to="unreduced"), "y", [(0, 1)]),
        P("x", "y"),
        ["over 'y'", "unreduced"],
    ),
    "pcast of mixed states": (
        lambda v: lax.pcast(v, ("x", "y"), to="unreduced"),
        P("x"),
        ["pcast", "varying along 'x', invarying along 'y'"],
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_wrong_state_is_named_with_its_type_and_the_cast_to_write(name):
    call, spec, parts = STATES[name]
    with pytest.raises(ValueError) as caught:
        on_two_axes(call, spec)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "mix",
    [
        lambda v, u: u * u,
        lambda v, u: lax.sin(u),
        lambda v, u: u + v,
        lambda v, u: lax.max(u, u),
    ],
    ids=["product", "sine", "sum with varying", "maximum"],
)
def test_a_partial_sum_enters_only_ops_that_add(mix):
    with pytest.raises(TypeError, match=r"unreduced.*weft\.lax\.psum\(x, 'x'\)"):
        on_two_axes(lambda v: mix(v, lax.pcast(v, "x", to="unreduced")), P("x", "y"))


def test_a_rule_whose_tangent_varies_where_the_output_does_not_says_what_to_add_up():
    @weft.custom_jvp
    def total(v):
        return lax.psum(v, ("x", "y"))

    total.defjvp(lambda primals, tangents: (total(*primals), tangents[0]))
    with pytest.raises(TypeError) as caught:
        on_two_axes(lambda v: weft.jvp(total, (v,), (v,))[1], P("x", "y"))
    for part in ("jvp rule of total", "f32[1,1]{V:x,y}", "weft.lax.psum(t, ('x', 'y'))"):
        assert part in str(caught.value)


def test_a_rule_whose_tangent_is_equal_where_the_output_varies_is_promoted():
    @weft.custom_jvp
    def ten(v):
        return 10 * v

    ten.defjvp(lambda primals, tangents: (ten(*primals), lax.psum(tangents[0], "x")))
    f = weft.shard_map(
        lambda v: weft.jvp(ten, (v,), (v,))[1],
        mesh=mesh_of(Machine(x=N), ("x",)),
        in_specs=P("x"),
        out_specs=P("x"),
    )
    np.testing.assert_array_equal(f(np.arange(float(N))), [N * (N - 1) / 2] * N)

"""axis_index and axis_size: positions along one axis and several, partly manual meshes."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

THREE = Machine(a=2, b=2, c=2)


def test_the_size_is_a_python_int_that_may_be_a_shape():
    def body(v):
        assert lax.axis_size("i") == 3 and type(lax.axis_size("i")) is int
        assert lax.axis_size(("i", "j")) == 6
        return v + np.zeros(lax.axis_size("i"), np.float32)

    f = weft.vmap(weft.vmap(body, axis_name="j"), axis_name="i")
    assert f(np.zeros((3, 2), np.float32)).shape == (3, 2, 3)


@pytest.mark.parametrize("axes", [("a", "b", "c"), ("c", "a"), ("b",), ("c", "b", "a")])
def test_the_index_along_several_axes_is_row_major(axes):
    mesh = mesh_of(THREE, THREE.names)
    f = weft.shard_map(
        lambda: lax.axis_index(axes)[None, None, None],
        mesh=mesh,
        in_specs=(),
        out_specs=P("a", "b", "c"),
        check_vma=False,
    )
    want = THREE.stack({d: np.int32(THREE.index(d, axes)) for d in THREE.devices})
    np.testing.assert_array_equal(f(), want)


@pytest.mark.parametrize("manual", [("a", "c"), ("c",), ("b", "c"), ("a", "b", "c")])
def test_the_index_where_other_axes_are_left_to_the_partitioner(manual):
    mesh = mesh_of(THREE, THREE.names)
    order = manual[::-1]
    f = weft.shard_map(
        lambda v: v + lax.axis_index(order),
        mesh=mesh,
        in_specs=P(*manual),
        out_specs=P(*manual),
        axis_names=frozenset(manual),
    )
    part = Machine(**dict.fromkeys(manual, 2))
    want = part.stack({d: np.int32(part.index(d, order)) for d in part.devices})
    np.testing.assert_array_equal(weft.jit(f)(np.zeros(want.shape, np.int32)), want)


def test_the_index_along_a_mesh_axis_and_one_of_vmap():
    mesh = mesh_of(Machine(x=4), ("x",))

    def body(v):
        return weft.vmap(lambda w: w + lax.axis_index(("j", "x")), 1, 1, axis_name="j")(v)

    f = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    want = np.arange(3)[None] * 4 + np.arange(4)[:, None]
    np.testing.assert_array_equal(f(np.zeros((4, 3), np.int32)), want)


def test_nested_shard_maps_see_all_their_axes():
    mesh = mesh_of(THREE, THREE.names)

    def inner(v):
        return v + lax.axis_index(("b", "a"))

    def outer(v):
        return weft.shard_map(
            inner, in_specs=P(None, "b"), out_specs=P(None, "b"), axis_names={"b"}
        )(v)

    f = weft.shard_map(outer, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    np.testing.assert_array_equal(weft.jit(f)(np.zeros((2, 2), np.int32)), [[0, 2], [1, 3]])


NONE = np.zeros((0, 3), np.float32)
OF_NONE = {
    "psum": (lambda v: lax.psum(v, "i"), (0, 3)),
    "psum in no groups": (lambda v: lax.psum(v, "i", axis_index_groups=[]), (0, 3)),
    "pmax": (lambda v: lax.pmax(v, "i"), (0, 3)),
    "pargmin": (lambda v: lax.pargmin(v, "i"), (0, 3)),
    "all_gather": (lambda v: lax.all_gather(v, "i"), (0, 0, 3)),
    "ppermute": (lambda v: lax.ppermute(v, "i", []), (0, 3)),
    "psum_start": (lambda v: lax.psum_start(v, "i").done(), (0, 3)),
    "psum_scatter": (lambda v: lax.psum_scatter(v[:0], "i"), (0,)),
    "all_to_all": (lambda v: lax.all_to_all(v[:0], "i", 0, 0), (0, 0)),
}


@pytest.mark.parametrize("name", OF_NONE)
def test_an_axis_of_no_examples_has_no_results(name):
    call, shape = OF_NONE[name]
    assert weft.vmap(call, axis_name="i")(NONE).shape == shape


@pytest.mark.parametrize(
    "call",
    [
        lambda v: lax.psum_scatter(v, "i", tiled=True),
        lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True),
    ],
)
def test_nothing_can_be_split_among_no_examples(call):
    with pytest.raises(ValueError, match="there are none to split it among"):
        weft.vmap(call, axis_name="i")(NONE)


ALONG_NONE = {
    "psum": lambda v: lax.psum(v, ()),
    "pmean": lambda v: lax.pmean(v, ()),
    "pmax": lambda v: lax.pmax(v, ()),
    "pmin": lambda v: lax.pmin(v, []),
    "pcast": lambda v: lax.pcast(v, (), to="varying"),
    "all_gather": lambda v: lax.all_gather(v, ()),
    "all_gather, axis": lambda v: lax.all_gather(v, [], axis=1),
    "all_gather, tiled": lambda v: lax.all_gather(v, (), tiled=True),
    "all_gather to invarying": lambda v: lax.all_gather(v, (), to="invarying"),
    "all_gather to reduced": lambda v: lax.all_gather(v, (), to="reduced"),
    "psum_scatter": lambda v: lax.psum_scatter(v, ()),
    "psum_scatter, tiled": lambda v: lax.psum_scatter(v, (), tiled=True, scatter_dimension=1),
    "ppermute": lambda v: lax.ppermute(v, (), [(0, 0)]),
    "pshuffle": lambda v: lax.pshuffle(v, (), [0]),
    "pbroadcast": lambda v: lax.pbroadcast(v, (), 0),
    "all_to_all": lambda v: lax.all_to_all(v, (), 0, 0, tiled=True),
    "psum_start": lambda v: lax.psum_start(v, ()).done(),
    "all_gather_start": lambda v: lax.all_gather_start(v, ()).done(),
    "all_gather_start, tiled": lambda v: lax.all_gather_start(v, (), tiled=True).done(),
    "psum_scatter_start": lambda v: lax.psum_scatter_start(v, ()).done(),
    "ppermute_start": lambda v: lax.ppermute_start(v, (), [(0, 0)]).done(),
    "pbroadcast_start": lambda v: lax.pbroadcast_start(v, (), 0).done(),
    "all_to_all_start": lambda v: lax.all_to_all_start(v, (), 0, 0, tiled=True).done(),
}


@pytest.mark.parametrize("check_vma", [True, False])
def test_along_no_axes_every_collective_gives_its_operand(check_vma):
    v = np.arange(16, dtype=np.float32).reshape(8, 2)
    f = weft.shard_map(
        lambda v: {name: call(v) for name, call in ALONG_NONE.items()},
        mesh=mesh_of(THREE, THREE.names),
        in_specs=P(("a", "b")),
        out_specs=P(("a", "b")),
        check_vma=check_vma,
    )
    for name, got in f(v).items():
        np.testing.assert_array_equal(got, v, err_msg=name)
    for name, call in ALONG_NONE.items():
        got = weft.vmap(call, axis_name="i")(v[:, None])
        np.testing.assert_array_equal(got, v[:, None], err_msg=f"{name} under vmap")

"""Transfers: host to devices, between shardings, back; placement errors."""

import itertools

import numpy as np
import pytest

import weft
from weft.core.config import options
from weft.runtime import backend
from weft.runtime.device_put import (
    block_until_ready,
    device_get,
    device_put,
    shard_argument,
)
from weft.runtime.executable import _reshard_program
from weft.runtime.transfers import default_sharding
from weft.sharding.mesh import AbstractMesh, AxisType, make_mesh, set_mesh
from weft.sharding.named import NamedSharding, type_sharding
from weft.sharding.physical import SingleDeviceSharding
from weft.sharding.spec import P

AUTO = (AxisType.Auto,) * 2
MESH = make_mesh((4, 2), ("x", "y"), AUTO)
BACKWARD = make_mesh((2, 4), ("p", "q"), AUTO, devices=backend.devices()[::-1])
HALF = make_mesh((2, 2), ("x", "y"), AUTO, devices=backend.devices()[4:])
VALUE = np.arange(64, dtype=np.float32).reshape(8, 8)

PLACES = {
    "one device": SingleDeviceSharding(backend.devices()[2]),
    "x,y": NamedSharding(MESH, P("x", "y")),
    "yx": NamedSharding(MESH, P(("y", "x"))),
    "replicated": NamedSharding(MESH, P()),
    "backward": NamedSharding(BACKWARD, P("q", "p")),
    "backward, replicated": NamedSharding(BACKWARD, P()),
    "y": NamedSharding(MESH, P(None, "y")),
    "half": NamedSharding(HALF, P(None, "y")),
}


def check_placed(x, sharding):
    assert x.sharding is sharding and x.committed
    np.testing.assert_array_equal(x, VALUE)
    for device, shard in zip(sharding._devices_in_order, x.addressable_shards, strict=True):
        assert shard.device is device
        assert shard.data.unsafe_buffer_pointer()
        np.testing.assert_array_equal(shard.data, VALUE[shard.index])


@pytest.mark.parametrize("name", PLACES)
def test_a_host_array_goes_to_any_placement(name):
    check_placed(device_put(VALUE, PLACES[name]), PLACES[name])


@pytest.mark.parametrize("source, target", list(itertools.permutations(PLACES, 2)))
def test_an_array_moves_between_any_two_placements(source, target):
    x = device_put(VALUE, PLACES[source])
    check_placed(device_put(x, PLACES[target]), PLACES[target])
    check_placed(x, PLACES[source])


def test_a_change_of_the_split_dimension_is_one_exchange():
    ring = make_mesh((8,), ("z",), (AxisType.Auto,))
    rows, columns = NamedSharding(ring, P("z")), NamedSharding(ring, P(None, "z"))
    x = device_put(device_put(VALUE, rows), columns)
    check_placed(x, columns)
    program = _reshard_program(x.aval, rows, x.aval, columns, False, rows)
    text = program.compiled.as_text()
    assert "all-to-all(" in text and "all-gather" not in text


def test_an_array_stays_where_it_is_without_a_target():
    x = device_put(VALUE, PLACES["x,y"])
    assert device_put(x) is x
    assert device_put(x, PLACES["x,y"]) is x


def test_equivalent_placements_share_buffers():
    x = device_put(VALUE, PLACES["x,y"])
    y = device_put(x, NamedSharding(make_mesh((4, 2), ("p", "q"), AUTO), P("p", "q")))
    pointers = [[s.data.unsafe_buffer_pointer() for s in a.addressable_shards] for a in (x, y)]
    assert pointers[0] == pointers[1]
    z = device_put(x, PLACES["x,y"], may_alias=False)
    assert z.addressable_data(0).unsafe_buffer_pointer() != pointers[0][0]


def test_donation_gives_up_the_source():
    for source, target in (
        *(("one device", "half"), ("x,y", "yx"), ("one device", "x,y"), ("x,y", "replicated")),
        *(("replicated", "y"), ("x,y", "backward")),
    ):
        x = device_put(VALUE, PLACES[source])
        y = device_put(x, PLACES[target], donate=True)
        assert x.is_deleted()
        np.testing.assert_array_equal(y, VALUE)


@pytest.mark.parametrize("held", [lambda x: None, np.asarray, np.from_dlpack])
def test_a_donated_array_that_went_to_another_device_can_be_asked_what_became_of_it(held):
    x = device_put(VALUE, backend.devices()[0])
    view = held(x)
    y = device_put(x, backend.devices()[1], donate=True)
    assert x.is_deleted() and repr(x) == "Array(float32[8,8], deleted)"
    with pytest.raises(RuntimeError, match="has been deleted"):
        x.block_until_ready()
    np.testing.assert_array_equal(y, VALUE)
    if view is not None:
        np.testing.assert_array_equal(view, VALUE)


def test_may_alias_false_protects_against_later_changes():
    value = VALUE.copy()
    x = device_put(value, may_alias=False)
    value[0, 0] = 99
    assert float(x.addressable_data(0).tolist()[0][0]) == 0.0


@pytest.mark.parametrize("target", ["backward", "backward, replicated", "x,y", "replicated"])
def test_copies_are_made_in_another_order_of_devices_too(target):
    for source in ("x,y", "backward", "replicated", "backward, replicated"):
        x = device_put(VALUE, PLACES[source])
        y = device_put(x, PLACES[target], may_alias=False)
        held = {s.data.unsafe_buffer_pointer() for s in x.addressable_shards}
        assert not held & {s.data.unsafe_buffer_pointer() for s in y.addressable_shards}
        x.delete()
        check_placed(y, PLACES[target])


@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P(), P("x", "y")], ids=str)
def test_what_several_devices_hold_alike_can_be_copied(spec):
    value = VALUE.copy()
    x = device_put(value, NamedSharding(MESH, spec), may_alias=False)
    value[...] = 0
    check_placed(x, NamedSharding(MESH, spec))


@pytest.mark.parametrize("given", ["device", "pinned_host"])
@pytest.mark.parametrize("result", ["device", "pinned_host"])
def test_donated_arrays_may_lie_in_another_memory_than_results(given, result):
    device = backend.devices()[1]
    x = device_put(VALUE, SingleDeviceSharding(device, memory_kind=given))
    there = SingleDeviceSharding(device, memory_kind=result)
    add = weft.jit(lambda v: v + 1, donate_argnums=0, out_shardings=there)
    for _ in range(2):
        y = add(x)
        np.testing.assert_array_equal(y, VALUE + 1)
        assert y.sharding.memory_kind == result
        assert x.is_deleted() == (given == result)
        x = device_put(VALUE, SingleDeviceSharding(device, memory_kind=given))


def test_pytrees_take_one_place_or_a_prefix_of_places():
    devices = backend.devices()
    tree = {"a": VALUE, "b": (1.0, np.int32(2))}
    moved = device_put(tree, {"a": PLACES["x,y"], "b": devices[3]})
    assert moved["a"].sharding is PLACES["x,y"]
    assert [v.device for v in moved["b"]] == [devices[3]] * 2
    assert moved["b"][0].weak_type and not moved["b"][1].weak_type
    back = device_get(moved)
    np.testing.assert_array_equal(back["a"], VALUE)
    assert isinstance(back["b"][0], np.ndarray)
    assert block_until_ready(moved) is moved
    with pytest.raises(ValueError, match="device must be a pytree prefix"):
        device_put(tree, {"a": devices[0]})


def test_the_default_device_is_where_uncommitted_arrays_go():
    chosen = backend.devices()[5]
    with options["default_device"](chosen):
        assert device_put(1.0).device is chosen
        assert default_sharding() is SingleDeviceSharding(chosen)
    assert device_put(1.0).device is backend.devices()[0]


def test_a_bare_spec_is_resolved_by_the_mesh_in_context():
    with set_mesh(MESH):
        assert device_put(VALUE, P("x", "y")).sharding is PLACES["x,y"]


def test_explicit_axes_become_part_of_the_type():
    mesh = make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    x = device_put(VALUE, NamedSharding(mesh, P("x", "y")))
    assert x.aval.sharding is NamedSharding(mesh.abstract_mesh, P("x", None))
    assert str(x.aval) == "f32[8@x,8]"
    assert type_sharding(PLACES["x,y"], 2) is None
    moved = device_put(x, PLACES["x,y"])
    assert moved.aval.sharding is None


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: device_put(VALUE[:6], PLACES["x,y"]), ValueError, "6 is not divisible by 4"),
        (lambda: device_put(1.0, NamedSharding(MESH, P("x"))), ValueError, "P\\(\\) for a scalar"),
        (
            lambda: device_put(VALUE, NamedSharding(MESH, P(P.UNCONSTRAINED))),
            ValueError,
            "cannot be UNCONSTRAINED",
        ),
        (
            lambda: device_put(VALUE, NamedSharding(AbstractMesh((8,), ("x",)), P("x"))),
            ValueError,
            "mesh is abstract",
        ),
        (lambda: device_put(VALUE, P("x")), ValueError, "weft.set_mesh"),
        (lambda: device_put("text"), TypeError, "builtins.str.*'text'"),
        (lambda: device_put(np.array(["a"])), TypeError, "<U1"),
        (lambda: device_put(VALUE, "cpu"), TypeError, "device must be a device, a sharding"),
        (lambda: device_put(VALUE, src="cpu"), TypeError, "src must be a device, a sharding"),
        (lambda: device_put(VALUE, donate="yes"), TypeError, "donate must be True, False.*'yes'"),
        (lambda: device_put([VALUE], may_alias=[3]), TypeError, "may_alias must be True, False.*3"),
    ],
)
def test_transfers_that_cannot_be_made_say_why(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_committed_argument_on_other_devices_is_refused_naming_both():
    x = device_put(VALUE, backend.devices()[5])
    with pytest.raises(ValueError, match="committed to cpu device 5.*cpu devices 0..7"):
        shard_argument(x, PLACES["x,y"])
    check_placed(shard_argument(device_put(VALUE), PLACES["x,y"]), PLACES["x,y"])


def test_memory_kinds_are_kept():
    sharding = NamedSharding(MESH, P("x"), memory_kind="pinned_host")
    x = device_put(VALUE, sharding)
    assert x.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(x, VALUE)
    y = device_put(x, sharding.with_memory_kind("device"))
    np.testing.assert_array_equal(y, VALUE)


@pytest.mark.parametrize("before", [None, P("x", "y"), P(("y", "x"))])
def test_a_value_is_placed_as_a_sum_over_devices(before):
    mesh = make_mesh((4, 2), ("x", "y"))
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    x = value if before is None else device_put(value, NamedSharding(mesh, before))
    parts = device_put(x, NamedSharding(mesh, P("x", unreduced={"y"})))
    assert str(weft.typeof(parts)) == "f32[8@x,4]{U:y}"
    for start in range(0, 8, 2):
        shards = [s.data for s in parts.addressable_shards if s.index[0].start in (start, None)]
        assert len(shards) == 2
        np.testing.assert_array_equal(sum(map(np.asarray, shards)), value[start : start + 2])


def test_device_get_leaves_traced_values_as_they_are():
    np.testing.assert_array_equal(weft.jit(lambda x: weft.device_get({"a": x})["a"] + 1)(2.0), 3)

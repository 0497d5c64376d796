"""Shardings: shapes and indices of parts, equivalence, texts for the compiler, errors."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.runtime import backend
from weft.sharding.mesh import AbstractMesh, AxisType, make_mesh, set_mesh
from weft.sharding.named import IndivisibleError, NamedSharding, Sharding, hlo_sharding
from weft.sharding.physical import (
    GSPMDSharding,
    SingleDeviceSharding,
    as_sharding,
    from_hlo,
    make_single_device_sharding,
    spec_from_hlo,
)
from weft.sharding.spec import P

MESH = make_mesh((4, 2), ("x", "y"))
CUBE = make_mesh((2, 2, 2), ("a", "b", "c"))


def named(*partitions, mesh=MESH, **sets):
    return NamedSharding(mesh, P(*partitions, **sets))


def expected_part(array, mesh, spec, coordinate):
    """The part at one mesh coordinate, by splitting dimension after dimension, axis after axis."""
    at = dict(zip(mesh.axis_names, coordinate, strict=True))
    for dim, axes in enumerate(spec.axes):
        for axis in axes:
            array = np.split(array, mesh.shape[axis], dim)[at[axis]]
    return array


ENTRIES = [None, "a", "b", "c", ("a", "b"), ("b", "a"), ("c", "a"), ("c", "b", "a")]


@given(st.permutations(["a", "b", "c"]), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_every_device_holds_the_part_that_its_coordinates_name(axes, dims):
    entries = [tuple(a for a, d in zip(axes, dims, strict=True) if d == i) for i in range(2)]
    sharding = NamedSharding(CUBE, P(*entries))
    array = np.arange(8 * 16).reshape(8, 16)
    places = sharding.devices_indices_map(array.shape)
    for coordinate in np.ndindex(2, 2, 2):
        part = array[places[CUBE.devices[coordinate]]]
        expected = expected_part(array, CUBE, sharding.spec, coordinate)
        np.testing.assert_array_equal(part, expected)
        assert part.shape == sharding.shard_shape(array.shape)


def test_equal_shardings_are_one_object_and_survive_pickling():
    sharding = named("x", "y")
    assert named("x", "y") is sharding
    assert pickle.loads(pickle.dumps(sharding)) is sharding
    assert isinstance(sharding, Sharding)
    single = SingleDeviceSharding(backend.devices()[3])
    assert SingleDeviceSharding(backend.devices()[3]) is single
    assert pickle.loads(pickle.dumps(single)) is single
    assert sharding.with_spec(P("y")) is named("y")


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: named("z"), ValueError, r"dimension 0 uses axis 'z'.*'x': 4, 'y': 2"),
        (lambda: named(unreduced="z"), ValueError, "unreduced uses axis 'z'"),
        (
            lambda: NamedSharding(MESH.update(axis_types=(AxisType.Auto,) * 2), P(unreduced="x")),
            ValueError,
            "unreduced uses mesh axis 'x', which is of type Auto.*Explicit",
        ),
        (lambda: named(P.UNCONSTRAINED), ValueError, "UNCONSTRAINED.*no axis of type Auto"),
        (lambda: NamedSharding(MESH, ("x",)), TypeError, "PartitionSpec such as P"),
        (lambda: NamedSharding("mesh", P()), TypeError, "must be a Mesh"),
        (lambda: named("x", "y").shard_shape((8,)), ValueError, "2 entries.*1 dimension"),
        (lambda: named("x").shard_shape(()), ValueError, r"P\(\) for a scalar"),
        (
            lambda: named("x").shard_shape((6, 2)),
            IndivisibleError,
            "dimension 0 .* size 6.* 4 parts .*'x' of size 4.*Pad the dimension to 8",
        ),
        (
            lambda: named(None, ("y", "x")).shard_shape((1, 12)),
            IndivisibleError,
            "dimension 1 .*'y' of size 2 x 'x' of size 4",
        ),
        (lambda: as_sharding(P("x")), ValueError, "no mesh is in context"),
        (lambda: as_sharding(3), TypeError, "device, a sharding or a PartitionSpec"),
        (lambda: SingleDeviceSharding("cpu"), TypeError, "weft.devices"),
    ],
)
def test_wrong_shardings_are_refused_with_the_reason(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_bare_spec_refers_to_the_mesh_in_context():
    with set_mesh(MESH):
        assert as_sharding(P("x")) is named("x")


def test_replication_and_replicated_axes():
    assert named().is_fully_replicated
    assert not named("x").is_fully_replicated
    assert not named(unreduced="x").is_fully_replicated
    assert named("x", mesh=make_mesh((1, 8), ("x", "y"))).is_fully_replicated
    assert named("x").replicated_axes == {"y"}


def test_equivalence_looks_at_parts_not_at_spelling():
    assert named("x").is_equivalent_to(named("x", None), 2)
    assert named().is_equivalent_to(named(None, None), 2)
    assert not named("x").is_equivalent_to(named("y"), 2)
    assert not named("x").is_equivalent_to(named(None, "x"), 2)
    other_names = make_mesh((4, 2), ("p", "q"))
    assert named("x", "y").is_equivalent_to(named("p", "q", mesh=other_names), 2)
    assert not named("x").is_equivalent_to(named(unreduced="x"), 1)
    flat = make_mesh((8,), ("z",))
    assert named(("x", "y")).is_equivalent_to(named("z", mesh=flat), 1)
    assert not named(("y", "x")).is_equivalent_to(named("z", mesh=flat), 1)


def test_an_abstract_sharding_has_shapes_but_no_devices():
    sharding = NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x"))
    assert isinstance(sharding, NamedSharding)
    assert sharding.shard_shape((8, 3)) == (2, 3)
    assert sharding.spec_of(0) == ("x",) and sharding.spec_of(1) == ()
    with pytest.raises(ValueError, match="its mesh is abstract"):
        _ = sharding.device_set


def test_hlo_shardings_convert_back_to_the_spec():
    for first, second in itertools.product(ENTRIES, ENTRIES):
        for unreduced in ((), ("b",), ("b", "c")):
            try:
                spec = P(first, second, unreduced=unreduced)
            except ValueError:
                continue
            hlo = hlo_sharding(NamedSharding(CUBE, spec), 2)
            found = spec_from_hlo(hlo, CUBE, 2)
            assert found.padded(2) is spec.padded(2)


def test_a_placement_no_spec_can_express_keeps_xlas_notation():
    # Eight tiles, with the devices of the 4 x 2 mesh in an order that no axes give.
    tiles = np.array([0, 2, 1, 3, 4, 5, 6, 7])
    from weft._xla.sharding import tile_with_devices

    sharding = from_hlo(tile_with_devices(tiles), MESH, backend.devices(), 1)
    assert isinstance(sharding, GSPMDSharding)
    places = sharding.devices_indices_map((8,))
    assert [places[d][0].start for d in backend.devices()] == [0, 2, 1, 3, 4, 5, 6, 7]
    assert pickle.loads(pickle.dumps(sharding)) is sharding


def test_shardings_tell_whether_they_fit_a_shape_and_have_devices_here():
    device = backend.devices()[1]
    split, single = named(None, "x"), make_single_device_sharding(device)
    assert split.has_addressable_devices and single.has_addressable_devices
    assert single is SingleDeviceSharding(device)
    split.check_compatible_aval((3, 4))
    single.check_compatible_aval(())
    with pytest.raises(ValueError, match="has 2 entries"):
        split.check_compatible_aval((3,))

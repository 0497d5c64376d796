"""Meshes over the same devices in terms of one another."""

import numpy as np

import weft
from weft.sharding import AbstractMesh, Mesh, NamedSharding, P
from weft.sharding.common_mesh import axes_in, common_mesh, in_terms_of

DEVICES = tuple(weft.devices()[:8])


def mesh(shape, names, order=slice(None)):
    return Mesh(np.array(DEVICES, dtype=object)[order].reshape(shape), names)


def test_a_mesh_that_is_cut_wherever_the_others_are_is_taken():
    fine = mesh((2, 2, 2), ("a", "b", "c"))
    meshes = [mesh((4, 2), ("x", "y")), AbstractMesh((8,), ("z",)), fine]
    assert common_mesh(meshes, DEVICES) == fine
    abstract = AbstractMesh((2, 2, 2), ("a", "b", "c"))
    assert common_mesh([meshes[0], abstract], DEVICES).shape == {"a": 2, "b": 2, "c": 2}


def test_axes_are_cut_where_no_mesh_has_all_cuts():
    found = common_mesh([mesh((4, 2), ("x", "y")), mesh((2, 4), ("p", "q"))], DEVICES)
    assert found.shape == {"x_0": 2, "x_1": 2, "y": 2}
    assert axes_in(mesh((2, 4), ("p", "q")), found) == {"p": ("x_0",), "q": ("x_1", "y")}


def test_other_orders_and_axes_that_overlap_in_part_have_no_common_mesh():
    line = mesh((8,), ("z",))
    assert common_mesh([line, mesh((8,), ("z",), slice(None, None, -1))], DEVICES) is None
    assert common_mesh([line, AbstractMesh((4,), ("z",))], DEVICES) is None
    six = DEVICES[:6]
    assert (
        common_mesh([AbstractMesh((2, 3), ("p", "q")), AbstractMesh((3, 2), ("r", "s"))], six)
        is None
    )


def test_a_sharding_in_terms_of_another_mesh_places_the_same_parts():
    fine = mesh((2, 1, 2, 2), ("a", "one", "b", "c"))
    for own, spec in (
        (mesh((4, 2), ("x", "y")), P("y", "x")),
        (mesh((4, 2), ("x", "y")), P(("x", "y"), None)),
        (mesh((2, 4), ("p", "q")), P("q")),
        (mesh((8, 1), ("z", "unit")), P("unit", "z")),
    ):
        sharding = NamedSharding(own, spec)
        found = in_terms_of(sharding, fine)
        assert found.mesh == fine
        indices = sharding.devices_indices_map((8, 8))
        assert found.devices_indices_map((8, 8)) == indices

"""Device groups and layouts, against coordinates computed by NumPy."""

import numpy as np
import pytest

from weft.partition import AxisLayout, DeviceMesh, Unsupported


def grid(mesh):
    return np.arange(mesh.size).reshape(tuple(mesh.axes.values()))


def test_groups_along_one_axis_are_the_rows_of_the_device_grid():
    mesh = DeviceMesh({"x": 4, "y": 2})
    want = np.moveaxis(grid(mesh), 0, -1).reshape(-1, 4)
    np.testing.assert_array_equal(mesh.groups(mesh.atoms_of("x")), want)


def test_groups_along_two_axes_follow_the_order_of_the_axes():
    mesh = DeviceMesh({"x": 2, "y": 3, "z": 2})
    got = mesh.groups(mesh.atoms_of("z") + mesh.atoms_of("x"))
    want = np.transpose(grid(mesh), (1, 2, 0)).reshape(3, 4)
    np.testing.assert_array_equal(got, want)


def test_a_piece_of_an_axis_has_its_own_groups():
    mesh = DeviceMesh({"x": 8}, cuts={"x": {2}})
    np.testing.assert_array_equal(
        mesh.groups(mesh.atoms_of("x", 1, 2)), [[0, 4], [1, 5], [2, 6], [3, 7]]
    )
    np.testing.assert_array_equal(
        mesh.groups(mesh.atoms_of("x", 2, 4)), [[0, 1, 2, 3], [4, 5, 6, 7]]
    )


def test_device_ids_rename_the_members_of_groups():
    mesh = DeviceMesh({"x": 2, "y": 2}, device_ids=[3, 1, 2, 0])
    np.testing.assert_array_equal(mesh.groups(mesh.atoms_of("y")), [[3, 1], [2, 0]])


def test_cuts_that_cross_are_unsupported():
    with pytest.raises(Unsupported, match="cut at both 2 and 3"):
        DeviceMesh({"x": 6}, cuts={"x": {2, 3}})


def test_pairs_send_from_the_named_source_within_each_group():
    mesh = DeviceMesh({"x": 3, "y": 2})
    pairs = mesh.pairs(mesh.atoms_of("x"), [1, 2, -1])
    assert sorted(map(tuple, pairs.tolist())) == [(2, 0), (3, 1), (4, 2), (5, 3)]


def test_axis_names_show_pieces():
    mesh = DeviceMesh({"x": 4, "y": 2}, cuts={"x": {2}})
    assert mesh.axis_names(mesh.atoms_of("x") + mesh.atoms_of("y")) == ("x", "y")
    assert mesh.axis_names(mesh.atoms_of("x", 2, 2)) == ("x:(2)2",)


def test_local_shapes_round_up():
    mesh = DeviceMesh({"x": 4, "y": 2})
    layout = AxisLayout(mesh, (10, 6), (mesh.atoms_of("x"), mesh.atoms_of("y")))
    assert layout.local == (3, 3)
    assert layout.padded(0) and not layout.padded(1)

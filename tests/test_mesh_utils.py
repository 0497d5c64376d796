"""weft.mesh_utils: where devices stand in meshes over one and over two networks."""

from types import SimpleNamespace

import numpy as np
import pytest

import weft
from weft.mesh_utils import create_device_mesh, create_hybrid_device_mesh


def fake(n, per_process, per_slice=None):
    """Devices as several processes and slices would show them."""
    fields = [{"id": i, "process_index": i // per_process} for i in range(n)]
    if per_slice:
        fields = [{**f, "slice_index": f["id"] // per_slice} for f in fields]
    return [SimpleNamespace(**f) for f in fields]


def ids(mesh):
    return np.vectorize(lambda d: d.id)(mesh)


def test_devices_fill_a_mesh_in_their_order():
    mesh = create_device_mesh((4, 2), contiguous_submeshes=True)
    np.testing.assert_array_equal(ids(mesh), np.arange(8).reshape(4, 2))
    assert weft.sharding.Mesh(mesh, ("x", "y")).shape == {"x": 4, "y": 2}
    np.testing.assert_array_equal(ids(create_device_mesh([3], weft.devices()[1:4])), [1, 2, 3])


def test_another_number_of_devices_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 2\) has 6 devices, but there are 8"):
        create_device_mesh((3, 2))


@pytest.mark.parametrize("devices", [fake(8, 4), fake(8, 2, per_slice=4)], ids=["process", "slice"])
def test_granules_are_the_slow_part_of_their_axis(devices):
    data = create_hybrid_device_mesh((1, 4), (2, 1), devices)
    np.testing.assert_array_equal(ids(data), [[0, 1, 2, 3], [4, 5, 6, 7]])
    model = create_hybrid_device_mesh((2, 2), (1, 2), devices)
    np.testing.assert_array_equal(ids(model), [[0, 1, 4, 5], [2, 3, 6, 7]])


def test_processes_are_granules_on_demand_and_keep_their_order():
    devices = fake(8, 2, per_slice=4)[::-1]
    mesh = create_hybrid_device_mesh((2,), (4,), devices, process_is_granule=True)
    np.testing.assert_array_equal(ids(mesh), [1, 0, 3, 2, 5, 4, 7, 6])
    mesh = create_hybrid_device_mesh((4,), (2,), devices, should_sort_granules_by_key=False)
    np.testing.assert_array_equal(ids(mesh), [7, 6, 5, 4, 3, 2, 1, 0])


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((4,), (2, 1)), "one entry for each axis"),
        (((2,), (4,)), "4 granules, but there are 2 processes"),
        (((8,), (2,)), "has 8 devices, but there are 4"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, words):
    with pytest.raises(ValueError, match=words):
        create_hybrid_device_mesh(*shapes, fake(8, 4))

"""Meshes: construction, types of axes, the mesh in context, errors."""

import pickle
import threading

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import config
from weft.runtime import backend
from weft.sharding.abstract_device import AbstractDevice
from weft.sharding.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    make_mesh,
    set_mesh,
    use_abstract_mesh,
)
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec as P

AUTO, EXPLICIT, MANUAL = AxisType.Auto, AxisType.Explicit, AxisType.Manual


def test_make_mesh_takes_the_first_devices_in_order():
    mesh = make_mesh((2, 3), ("a", "b"))
    assert mesh.shape == {"a": 2, "b": 3}
    assert mesh.size == 6 and mesh.axis_sizes == (2, 3)
    np.testing.assert_array_equal(mesh.device_ids, np.arange(6).reshape(2, 3))
    assert mesh.axis_types == (EXPLICIT, EXPLICIT)


def test_a_mesh_from_devices_has_auto_axes_and_their_order():
    devices = np.array(backend.devices()[::-1]).reshape(4, 2)
    mesh = Mesh(devices, ("x", "y"))
    assert mesh.are_all_axes_auto
    np.testing.assert_array_equal(mesh.device_ids, np.arange(8)[::-1].reshape(4, 2))


def test_equal_meshes_are_one_object_and_survive_pickling():
    mesh = make_mesh((4, 2), ("x", "y"), (AUTO, EXPLICIT))
    assert make_mesh((4, 2), ("x", "y"), (AUTO, EXPLICIT)) is mesh
    assert make_mesh((4, 2), ("x", "y")) is not mesh
    assert pickle.loads(pickle.dumps(mesh)) is mesh
    assert pickle.loads(pickle.dumps(mesh.abstract_mesh)) is mesh.abstract_mesh


def test_a_mesh_of_no_device_stands_for_no_mesh():
    mesh = Mesh(np.empty((), object), ())
    assert mesh.empty and mesh.size == 0 and mesh.shape == {} and mesh.local_devices == []
    assert pickle.loads(pickle.dumps(mesh)) is mesh
    with make_mesh((2,), ("a",)), mesh:
        assert get_mesh() is None
    with pytest.raises(TypeError, match="a mesh holds devices"):
        Mesh(np.empty(1, object), ("a",))


def test_axis_types_are_asked_by_type_and_changed_by_name():
    mesh = make_mesh((2, 2, 2), ("a", "b", "c"), (AUTO, EXPLICIT, MANUAL))
    assert (mesh.auto_axes, mesh.explicit_axes, mesh.manual_axes) == (("a",), ("b",), ("c",))
    changed = mesh.abstract_mesh.update_axis_types({"a": MANUAL})
    assert changed.manual_axes == ("a", "c")
    assert (
        repr(changed)
        == "AbstractMesh('a': 2, 'b': 2, 'c': 2, axis_types=(Manual, Explicit, Manual))"
    )


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: make_mesh((4, 4), ("x", "y")), ValueError, "needs 16 devices, but there are 8"),
        (lambda: make_mesh((4, 2), ("x",)), ValueError, "2 dimensions .* 1 axis names"),
        (lambda: make_mesh((4, 2), ("x", "x")), ValueError, "'x' is used twice"),
        (lambda: make_mesh((8,), ("x",), ("auto",)), TypeError, "AxisType.Auto"),
        (lambda: make_mesh((8,), ("x",), (AUTO, AUTO)), ValueError, "2 entries for 1 axes"),
        (lambda: make_mesh((4, 2), (1, 2)), TypeError, "axis names must be strings.*got 1"),
        (lambda: make_mesh((2.5,), ("x",)), TypeError, r"axis_shapes .*whole numbers, got \(2.5"),
        (lambda: make_mesh((4, 0), ("x", "y")), ValueError, r"axis_shapes .*1 or more.*\(4, 0\)"),
        (lambda: AbstractMesh((2.5,), ("x",)), TypeError, r"axis_sizes .*whole numbers"),
        (lambda: AbstractMesh((-1,), ("x",)), ValueError, r"axis_sizes .*1 or more"),
        (lambda: Mesh(np.empty((0, 2), object), "xy"), ValueError, r"shape .*1 or more"),
        (lambda: Mesh([backend.devices()[0]] * 2, ("x",)), ValueError, "appears twice"),
        (lambda: Mesh(np.arange(2), ("x",)), TypeError, "weft.devices"),
        (lambda: make_mesh((8,), ("x",)).axis_type("z"), ValueError, "its axes are 'x': 8"),
        (lambda: set_mesh("x"), TypeError, "got str"),
        (lambda: set_mesh(make_mesh((8,), "x", (MANUAL,))), ValueError, "weft.shard_map"),
    ],
)
def test_wrong_meshes_are_refused_with_the_reason(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_set_mesh_is_a_context_manager_and_part_of_the_trace_key():
    mesh = make_mesh((8,), ("x",))
    before = config.trace_key()
    assert get_mesh() is None and get_abstract_mesh().empty
    with set_mesh(mesh):
        assert get_mesh() is mesh
        assert get_abstract_mesh() is mesh.abstract_mesh
        assert config.trace_key() != before
        with mesh.update(axis_names=("y",)):
            assert get_abstract_mesh().axis_names == ("y",)
        assert get_mesh() is mesh
    assert get_mesh() is None and config.trace_key() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: wnp.ones((8,)),
        lambda: wnp.arange(8.0),
        lambda: wnp.linspace(0.0, 7.0, 8),
        lambda: weft.jit(lambda: wnp.arange(8.0) + 1)(),
        lambda: weft.random.normal(weft.random.key(0), (8,)),
    ],
)
def test_with_mesh_says_what_a_bare_spec_means_and_places_nothing(make):
    mesh = make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    with mesh:
        x = make()
        assert x.sharding.device_set == {weft.devices()[0]} and not x.committed
        asked = NamedSharding(mesh, P("x"))
        assert weft.jit(lambda x: x * 2, in_shardings=asked)(x).sharding == asked
        constrained = weft.jit(lambda x: weft.lax.with_sharding_constraint(x * 2, P("x")))(x)
        assert constrained.sharding == asked
        np.testing.assert_allclose(constrained, 2 * np.asarray(x))
        elsewhere = weft.device_put(np.ones(8, np.float32), weft.devices()[3])
        assert (elsewhere + x).sharding.device_set == {weft.devices()[3]}
    with set_mesh(mesh):
        assert len(make().sharding.device_set) == 8


def test_set_mesh_without_a_block_stays_until_changed():
    mesh = make_mesh((8,), ("x",))
    set_mesh(mesh)
    try:
        assert get_mesh() is mesh
    finally:
        set_mesh(None)
    assert get_mesh() is None


def test_the_mesh_in_context_belongs_to_its_thread():
    seen = []
    with set_mesh(make_mesh((8,), ("x",))):
        thread = threading.Thread(target=lambda: seen.append(get_mesh()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_an_abstract_mesh_in_context_has_no_devices():
    abstract = AbstractMesh((64,), ("x",))
    with use_abstract_mesh(abstract):
        assert get_abstract_mesh() is abstract
        assert get_mesh() is None
    assert get_abstract_mesh().empty


def test_a_mesh_decorates_functions():
    mesh = Mesh(np.array(backend.devices()[:2]), ("i",))

    @mesh
    def f(x, *, y):
        return get_mesh(), x + y

    assert f(1, y=2) == (mesh, 3) and f.__name__ == "f"
    with pytest.raises(TypeError, match="a mesh decorates functions"):
        mesh(3)


def test_an_abstract_mesh_can_say_what_devices_it_is_for():
    device = AbstractDevice("TPU v5e", 1, "tpu")
    mesh = AbstractMesh((4,), ("x",), abstract_device=device)
    assert mesh.abstract_device == AbstractDevice("TPU v5e", 1, "tpu")
    assert AbstractMesh((4,), ("x",)).abstract_device is None
    assert mesh is AbstractMesh((4,), ("x",), abstract_device=device)
    assert mesh is not AbstractMesh((4,), ("x",))
    assert pickle.loads(pickle.dumps(mesh)) is mesh
    assert mesh.update(axis_sizes=(2,)).abstract_device is device
    assert "TPU v5e" in repr(mesh)
    with pytest.raises(ValueError, match=r"give AbstractDevice\(device_kind"):
        AbstractMesh((4,), ("x",), abstract_device="tpu")

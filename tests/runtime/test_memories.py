"""Arrays in other memories of their devices, and programs that read and write them."""

import numpy as np
import pytest

import weft
from weft import P
from weft.sharding import AxisType, NamedSharding, SingleDeviceSharding

mesh = weft.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
rows = NamedSharding(mesh, P("x"))
hosted = rows.with_memory_kind("pinned_host")
one = SingleDeviceSharding(weft.devices()[0], memory_kind="pinned_host")
data = np.arange(16.0, dtype=np.float32)


def test_the_default_memory_has_a_name_and_naming_it_changes_nothing():
    assert rows.memory_kind == "device" and rows.with_memory_kind("device") is rows
    assert hosted.with_memory_kind(None) is rows
    assert SingleDeviceSharding(weft.devices()[0]).memory_kind == "device"
    assert weft.device_put(data, rows).sharding.memory_kind == "device"


@pytest.mark.parametrize("spec", [P("x"), P()], ids=["alike", "resharded"])
@pytest.mark.parametrize("donate", [False, True])
def test_arrays_move_between_memories_and_back(spec, donate):
    target = NamedSharding(mesh, spec, memory_kind="pinned_host")
    x = weft.device_put(data, rows)
    there = weft.device_put(x, target, donate=donate)
    assert there.sharding is target and x.is_deleted() == donate
    np.testing.assert_array_equal(there, data)
    back = weft.device_put(there, rows)
    assert back.sharding is rows
    np.testing.assert_array_equal(back, data)


@pytest.mark.parametrize(("here", "there"), [(rows, hosted), (one.with_memory_kind(None), one)])
def test_results_are_put_in_the_memory_that_out_shardings_names(here, there):
    step = weft.jit(
        lambda a, b: (a + b, a * b), in_shardings=(there, here), out_shardings=(there, here)
    )
    total, product = step(weft.device_put(data, there), weft.device_put(data, here))
    assert (total.sharding, product.sharding) == (there, here)
    np.testing.assert_array_equal(total, 2 * data)
    np.testing.assert_array_equal(product, data * data)


def test_programs_are_told_of_arguments_in_other_memories():
    x = weft.device_put(data, hosted)
    assert 'mhlo.memory_kind = "pinned_host"' in weft.jit(lambda a: a + 1).lower(x).as_text()
    np.testing.assert_array_equal(weft.jit(lambda a: weft.device_put(a, rows) + 1)(x), data + 1)


@pytest.mark.parametrize(("here", "there"), [(rows, hosted), (one.with_memory_kind(None), one)])
def test_results_stay_in_the_memory_that_the_program_put_or_left_them_in(here, there):
    move = weft.jit(lambda a: weft.device_put(2 * a, there))

    def program(state, x):
        return {"state": state, "moved": move(x), "used": weft.device_put(state, here) + x}

    state, x = weft.device_put(data, there), weft.device_put(data, here)
    results = weft.jit(program)(state, x)
    assert {k: v.sharding for k, v in results.items()} == {
        "state": there,
        "moved": there,
        "used": here,
    }
    np.testing.assert_array_equal(results["state"], data)
    np.testing.assert_array_equal(results["moved"], 2 * data)
    np.testing.assert_array_equal(results["used"], 2 * data)
    assert weft.jit(program, out_shardings=here)(state, x)["moved"].sharding == here


def test_cotangents_go_back_to_the_memory_their_values_came_from():
    def loss(w):
        return (weft.device_put(w, rows, src=hosted) ** 2).sum()

    w = weft.device_put(data, hosted)
    for gradient in (weft.grad(loss), weft.jit(weft.grad(loss))):
        assert gradient(w).sharding == hosted
        np.testing.assert_array_equal(gradient(w), 2 * data)

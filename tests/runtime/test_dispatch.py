"""Executables and the C++ dispatch path, on one device and on eight."""

import numpy as np
import pytest

from weft.core.config import enable_x64
from weft.runtime import backend
from weft.runtime.compile import compile_module
from weft.runtime.device_put import device_put
from weft.runtime.dispatch import cached_call, clear_caches, fastpath
from weft.runtime.executable import Executable
from weft.sharding.mesh import AxisType, make_mesh
from weft.sharding.named import NamedSharding
from weft.sharding.physical import SingleDeviceSharding
from weft.sharding.spec import P
from weft.sharding.text import mesh_sdy_text, mhlo_sharding_text, sdy_sharding_text

MESH = make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
SHARDED = NamedSharding(MESH, P(("x", "y")))
SINGLE = SingleDeviceSharding(backend.devices()[0])
VALUE = np.arange(64, dtype=np.float32)


def doubling(sharding, *, use_shardy=True, donate=False, **kwargs):
    devices = sharding._devices_in_order
    mesh = attribute = ""
    if len(devices) > 1 and use_shardy:
        mesh = f"sdy.mesh @mesh = {mesh_sdy_text(sharding.mesh)}"
        attribute = f"sdy.sharding = {sdy_sharding_text(sharding, 1)}"
    elif len(devices) > 1:
        attribute = f'mhlo.sharding = "{mhlo_sharding_text(sharding, 1)}"'
    alias = "tf.aliasing_output = 0 : i32" if donate else ""
    arg = ", ".join(filter(None, (attribute, alias)))
    text = (
        f"module @double attributes {{mhlo.num_partitions = {len(devices)} : i32}} {{ {mesh}\n"
        f"func.func public @main(%x: tensor<64xf32> {{{arg}}}) -> "
        f"(tensor<64xf32> {{{attribute}}}) {{\n"
        "%0 = stablehlo.add %x, %x : tensor<64xf32>\n return %0 : tensor<64xf32> } }"
    )
    aval = device_put(VALUE).aval
    loaded = compile_module(text, devices, use_shardy=use_shardy)
    return Executable(
        loaded, [aval], [sharding], [aval], [sharding], [donate], arg_names=["x"], **kwargs
    )


def counted(executable):
    """A cached call that runs the executable, and the list of its cache misses."""
    misses = []

    def cache_miss(x):
        misses.append(x)
        [out] = executable.call([x])
        return out, fastpath(executable, out, [x]), False

    return cached_call(lambda x: x, cache_miss, cache_key=id(misses)), misses


@pytest.mark.parametrize("use_shardy", [True, False])
@pytest.mark.parametrize("sharding", [SINGLE, SHARDED], ids=["1 device", "8 devices"])
def test_a_known_signature_runs_without_python(sharding, use_shardy):
    f, misses = counted(doubling(sharding, use_shardy=use_shardy))
    x = device_put(VALUE, sharding)
    f(x)
    for _ in range(3):
        out = f(x)
        assert out.sharding is sharding and out.committed
        np.testing.assert_array_equal(out, 2 * VALUE)
    assert len(misses) == 1
    misses.clear()
    for _ in range(2):
        np.testing.assert_array_equal(f(VALUE), 2 * VALUE)
        np.testing.assert_array_equal(f(device_put(VALUE)), 2 * VALUE)
    assert len(misses) == 2, "host arrays and uncommitted arrays have signatures of their own"


def test_shape_sharding_and_configuration_are_part_of_the_signature():
    executable = doubling(SINGLE)
    f, misses = counted(executable)
    f(device_put(VALUE))
    f(device_put(VALUE, SINGLE))
    assert len(misses) == 2
    with enable_x64(True):
        f(device_put(VALUE, SINGLE))
    assert len(misses) == 3
    with MESH:
        f(device_put(VALUE, SINGLE))
    assert len(misses) == 4
    f(device_put(VALUE, SINGLE))
    assert len(misses) == 4
    clear_caches()
    f(device_put(VALUE, SINGLE))
    assert len(misses) == 5


def test_static_arguments_reach_the_cache_miss_and_key_the_cache():
    executable = doubling(SINGLE)
    seen = []

    def cache_miss(x, n, *, mode):
        seen.append((n, mode))
        [out] = executable.call([x])
        return (out, {"n": out}), fastpath(executable, (out, {"n": out}), [x]), False

    f = cached_call(lambda x, n, mode: x, cache_miss, static_argnums=[1], static_argnames=["mode"])
    x = device_put(VALUE, SINGLE)
    out = f(x, 1, mode="a")
    assert isinstance(out, tuple)
    f(x, 1, mode="a")
    f(x, 2, mode="a")
    f(x, 2, mode="b")
    assert seen[0] == (1, "a") and set(seen) == {(1, "a"), (2, "a"), (2, "b")}


def test_without_fast_path_data_every_call_comes_to_python():
    executable = doubling(SINGLE)
    calls = []

    def cache_miss(x):
        calls.append(x)
        return executable.call([x])[0], None, False

    f = cached_call(lambda x: x, cache_miss)
    for _ in range(3):
        np.testing.assert_array_equal(f(VALUE), 2 * VALUE)
    assert len(calls) == 3


def test_donated_buffers_are_given_up_and_a_second_use_names_argument_and_remedy():
    executable = doubling(SINGLE, donate=True)
    x = device_put(VALUE, SINGLE)
    np.testing.assert_array_equal(executable.call([x])[0], 2 * VALUE)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="argument 'x' of double.*donated.*x.copy()"):
        executable.call([x])


def test_an_argument_committed_elsewhere_is_refused_naming_both_places():
    x = device_put(VALUE, backend.devices()[6])
    with pytest.raises(ValueError, match="'x' of double.*cpu device 6.*cpu device 0.*device_put"):
        doubling(SINGLE).call([x])
    with pytest.raises(ValueError, match="cpu device 6.*cpu devices 0..7"):
        doubling(SHARDED).call([x])


def test_misplaced_arguments_are_moved():
    executable = doubling(SHARDED)
    backward = make_mesh((8,), ("z",), (AxisType.Auto,), devices=backend.devices()[::-1])
    for sharding in (
        NamedSharding(MESH, P("y")),
        NamedSharding(backward, P("z")),
        NamedSharding(backward, P()),
        None,
    ):
        [out] = executable.call([device_put(VALUE, sharding)])
        np.testing.assert_array_equal(out, 2 * VALUE)
        assert out.sharding is SHARDED


def test_arguments_the_program_does_not_take_are_dropped():
    inner = doubling(SINGLE)
    executable = Executable(
        inner.compiled,
        inner.in_avals,
        inner.in_shardings,
        inner.out_avals,
        inner.out_shardings,
        kept_args=[False, True, False],
    )
    np.testing.assert_array_equal(executable.call(["unused", VALUE, None])[0], 2 * VALUE)
    misses = []

    def cache_miss(*args):
        misses.append(args)
        [out] = executable.call(args)
        return out, fastpath(executable, out, args), False

    f = cached_call(lambda *args: args, cache_miss)
    x = device_put(VALUE, SINGLE)
    for _ in range(3):
        np.testing.assert_array_equal(f(1.0, x, 2.0), 2 * VALUE)
    assert len(misses) == 1


def test_uncommitted_results_may_move_later():
    executable = doubling(SINGLE, committed=False)
    [out] = executable.call([VALUE])
    assert not out.committed
    np.testing.assert_array_equal(doubling(SHARDED).call([out])[0], 4 * VALUE)

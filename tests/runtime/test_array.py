"""Arrays: attributes, conversion to host values, parts, copies, deletion."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.core.config import enable_x64
from weft.runtime import backend
from weft.runtime.array import Array, Shard, live_arrays
from weft.runtime.device_put import device_put
from weft.sharding.mesh import AxisType, make_mesh
from weft.sharding.named import NamedSharding
from weft.sharding.physical import SingleDeviceSharding
from weft.sharding.spec import P

MESH = make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
DTYPES = ["?", "i1", "i4", "u2", "f2", "f4", "c8"] + [
    getattr(ml_dtypes, n) for n in ("bfloat16", "float8_e4m3fn", "int4")
]


def place(*partitions):
    return NamedSharding(MESH, P(*partitions))


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("partitions", [None, (), ("x",), ("y", "x")], ids=str)
def test_every_dtype_comes_back_from_every_placement(dtype, partitions):
    value = numbers(8, 4, dtype=dtype)
    x = device_put(value, None if partitions is None else place(*partitions))
    back = np.asarray(x)
    assert back.dtype == value.dtype and x.dtype == value.dtype
    np.testing.assert_array_equal(back.astype(np.complex64), value.astype(np.complex64))


@pytest.mark.parametrize("transform", ["jit", "grad", "jvp", "vmap", "make_jaxpr", "linearize"])
def test_traced_arrays_are_arrays(transform):
    seen = []

    def f(x):
        seen.append(isinstance(x, weft.Array))
        return x

    x = np.ones(2, np.float32) if transform == "vmap" else np.float32(1)
    arguments = ((x,), (x,)) if transform == "jvp" else (x,)
    function = getattr(weft, transform)
    function(f, *arguments) if transform in ("jvp", "linearize") else function(f)(*arguments)
    weft.jit(lambda key: seen.append(isinstance(key, weft.Array)))(weft.random.key(0))
    assert seen == [True, True]
    assert not isinstance(x, weft.Array)


def test_attributes_describe_the_global_array():
    x = device_put(numbers(8, 4), place("x", "y"))
    assert isinstance(x, Array)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((8, 4), 2, 32, 4, 128)
    assert x.sharding is place("x", "y") and x.committed and not x.weak_type
    assert x.devices() == set(backend.devices()) and x.device is x.sharding
    assert x.is_fully_addressable and not x.is_fully_replicated
    assert len(x) == 8
    assert x.on_device_size_in_bytes() >= 128
    single = device_put(numbers(2))
    assert single.device == backend.devices()[0] and not single.committed
    assert single.unsafe_buffer_pointer() > 0


def test_shards_hold_the_parts_and_number_the_replicas():
    value = numbers(8, 4)
    x = device_put(value, place("x"))
    assert [s.device.id for s in x.addressable_shards] == list(range(8))
    assert [s.replica_id for s in x.addressable_shards] == [0, 1] * 4
    for i, shard in enumerate(x.addressable_shards):
        np.testing.assert_array_equal(shard.data, value[shard.index])
        assert shard.data.shape == (2, 4)
        assert shard.data.sharding is SingleDeviceSharding(shard.device)
        np.testing.assert_array_equal(x.addressable_data(i), shard.data)
    assert len(x.global_shards) == 8
    (only,) = device_put(value).addressable_shards
    assert only.index == (slice(None),) * 2 and only.replica_id == 0
    np.testing.assert_array_equal(only.data, value)
    with pytest.raises(IndexError, match=r"addressable_data\(8\): this process holds 8 parts"):
        x.addressable_data(8)
    x.delete()
    for read in (lambda: x.addressable_shards, lambda: x.addressable_data(0)):
        with pytest.raises(RuntimeError, match="has been deleted"):
            read()


def test_shards_print_what_they_hold():
    x = device_put(numbers(8, 4), place("x"))
    assert "replica_id=0" in repr(x.addressable_shards[0])


def test_python_scalars_come_from_arrays_without_dimensions():
    assert bool(device_put(True)) is True
    assert int(device_put(3)) == 3 and float(device_put(1.5)) == 1.5
    assert complex(device_put(1j)) == 1j
    assert [10, 20, 30][device_put(2)] == 30
    assert device_put(numbers(1, 1)).item() == 0 and device_put(numbers(3)).item(2) == 2.0
    assert device_put(numbers(2, 2)).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert f"{device_put(1.5):.3f}" == "1.500"


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda x: bool(x), ValueError, "truth value of a float32\\[3\\].*any"),
        (lambda x: float(x), TypeError, "without dimensions, got float32\\[3\\]"),
        (lambda x: int(x), TypeError, "without dimensions"),
        (lambda x: [1][x], TypeError, "integer arrays without dimensions"),
        (lambda x: x.item(), ValueError, "one element"),
        (lambda x: hash(x), TypeError, "not hashable"),
        (lambda x: len(device_put(1.0)), TypeError, "without dimensions"),
        (lambda x: np.asarray(x, np.int32, copy=False), ValueError, "copy=False"),
    ],
)
def test_conversions_that_cannot_be_made_say_why(call, error, words):
    with pytest.raises(error, match=words):
        call(device_put(numbers(3)))


def test_the_text_of_an_array_shows_values_dtype_and_weak_type():
    assert repr(device_put(np.float32([1, 2]))) == "Array([1., 2.], dtype=float32)"
    assert repr(device_put(1)) == "Array(1, dtype=int32, weak_type=True)"
    assert repr(device_put(np.zeros((0, 2), "f"))) == "Array([], shape=(0, 2), dtype=float32)"
    assert str(device_put(np.float32([1, 2]))) == "[1. 2.]"
    assert repr(device_put(numbers(2, 2))) == "Array([[0., 1.],\n       [2., 3.]], dtype=float32)"


def test_the_host_value_of_an_array_is_read_only():
    for x in (device_put(numbers(4)), device_put(numbers(8), place("x"))):
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x)[0] = 1
        np.array(x)[0] = 1


def test_a_deleted_array_says_what_happened_and_what_to_do():
    for x in (device_put(numbers(3)), device_put(numbers(8), place("x"))):
        x.delete()
        assert x.is_deleted() and repr(x).endswith("deleted)")
        with pytest.raises(RuntimeError, match="deleted.*donat.*x.copy()"):
            np.asarray(x)
        with pytest.raises(RuntimeError, match="deleted"):
            _ = x.addressable_shards


def test_copies_have_their_own_buffers_and_the_same_placement():
    value = numbers(8, 4)
    for original in (device_put(value), device_put(value, place("x"))):
        for twin in (original.copy(), copy.copy(original), copy.deepcopy(original)):
            assert twin.sharding is original.sharding
            assert twin.committed == original.committed
            original_value = np.array(original)
            np.testing.assert_array_equal(twin, original_value)
        kept = original.copy()
        original.delete()
        np.testing.assert_array_equal(kept, value)


def test_pickling_keeps_value_dtype_and_weak_type():
    for x in (device_put(numbers(8, 4), place("x")), device_put(2.0)):
        back = pickle.loads(pickle.dumps(x))
        assert back.dtype == x.dtype and back.weak_type == x.weak_type
        np.testing.assert_array_equal(back, x)


def test_numpy_reads_an_array_without_a_copy_through_dlpack():
    x = device_put(numbers(5))
    np.testing.assert_array_equal(np.from_dlpack(x), numbers(5))
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="single-device.*addressable_data"):
        np.from_dlpack(device_put(numbers(8), place("x")))


def test_64_bit_values_stay_only_with_x64():
    assert device_put(np.arange(3)).dtype == np.int32
    with enable_x64(True):
        assert device_put(np.arange(3)).dtype == np.int64
        assert device_put(1.0).dtype == np.float64


def test_copying_to_the_host_can_start_early():
    for sharding in (place("x"), place(), None):
        x = device_put(numbers(8), sharding)
        x.copy_to_host_async()
        np.testing.assert_array_equal(x, numbers(8))


def test_live_arrays_are_those_that_exist_whole():
    mesh = make_mesh((8,), ("x",))
    split = device_put(np.ones(8), NamedSharding(mesh, P("x")))
    parts = split.addressable_shards
    gone = device_put(np.ones(3))
    gone.delete()
    live = {id(x) for x in live_arrays("cpu")}
    assert {id(split), id(parts[0].data)} <= live and id(gone) not in live
    assert isinstance(parts[0], Shard) and isinstance(parts[0].device, backend.Device)


def test_devices_of_an_array_are_a_set_of_the_callers_own():
    device = backend.devices()[2]
    x = device_put(np.arange(3.0), device)
    assert x.devices() == {device}
    assert x.devices().pop() is device and len(x.devices()) == 1


def test_shards_asked_for_again_are_the_same_until_the_array_is_deleted():
    mesh = weft.make_mesh((8,), ("x",))
    sharding = weft.NamedSharding(mesh, weft.P("x"))
    x = weft.device_put(np.arange(16.0, dtype=np.float32), sharding)
    first, again = x.addressable_shards, x.addressable_shards
    assert first is not again and all(a is b for a, b in zip(first, again, strict=True))
    first.clear()
    assert [s.data.tolist() for s in x.addressable_shards] == [[2 * k, 2 * k + 1] for k in range(8)]
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x.addressable_shards  # noqa: B018

"""Arrays shared with other libraries through DLPack."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp


def aligned(shape, dtype):
    """A NumPy array on a boundary of 64 bytes, as XLA shares it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out = raw[start : start + size].view(dtype).reshape(shape)
    out[...] = np.arange(out.size).reshape(shape)
    return out


class Foreign:
    """Another library's array: the protocol, and nothing else."""

    def __init__(self, value):
        self.value = value

    def __dlpack__(self, **options):
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint32", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_values_shapes_and_dtypes_arrive(dtype, shape):
    x = np.asarray(np.arange(np.prod(shape)).reshape(shape) % 2, dtype)
    got = weft.dlpack.from_dlpack(Foreign(x))
    assert isinstance(got, weft.Array) and got.dtype == x.dtype
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(weft.jit(lambda v: v)(got), x)


def test_memory_is_shared_where_it_is_aligned():
    x = aligned((4, 8), np.float32)
    got = weft.dlpack.from_dlpack(Foreign(x), copy=False)
    assert got.unsafe_buffer_pointer() == x.ctypes.data
    copied = weft.dlpack.from_dlpack(Foreign(x), copy=True)
    assert copied.unsafe_buffer_pointer() != x.ctypes.data


def test_arrays_go_out_and_come_back_without_a_copy():
    x = wnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(6.0).reshape(2, 3))
    assert wnp.from_dlpack(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    half = wnp.ones(3, ml_dtypes.bfloat16)
    assert wnp.from_dlpack(half).dtype == ml_dtypes.bfloat16


def test_asarray_takes_what_has_the_protocol():
    np.testing.assert_array_equal(wnp.asarray(Foreign(np.float32([1, 2]))), [1, 2])


def test_the_result_may_go_to_another_device():
    device = weft.devices()[3]
    got = weft.dlpack.from_dlpack(np.float32([1, 2]), device=device)
    assert got.devices() == {device}
    with pytest.raises(ValueError, match="copy=False"):
        weft.dlpack.from_dlpack(aligned((2,), np.float32), device=device, copy=False)


def test_devices_of_the_cpu_are_one_memory_to_other_libraries():
    x = weft.device_put(np.float32([1, 2]), weft.devices()[1])
    assert x.__dlpack_device__() == (1, 1)
    for device in ((1, 0), (1, 1)):
        assert type(x.__dlpack__(dl_device=device)).__name__ == "PyCapsule"
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), [1, 2])
    with pytest.raises(BufferError, match="device_put"):
        x.__dlpack__(dl_device=(2, 0))


def test_errors_name_the_remedy():
    with pytest.raises(TypeError, match="not a capsule"):
        weft.dlpack.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="enable_x64"):
        weft.dlpack.from_dlpack(np.arange(3), copy=False)


def test_types_of_64_bits_are_converted_where_these_are_off():
    for value in (np.arange(3), np.arange(3.0)):
        array = weft.dlpack.from_dlpack(value)
        assert array.dtype.itemsize == 4 and array.dtype.kind == value.dtype.kind
        np.testing.assert_array_equal(array, value)


def read_only():
    x = np.arange(6, dtype=np.float32)
    x.flags.writeable = False
    return x


UNSHAREABLE = {
    "read-only": read_only,
    "repeated": lambda: np.broadcast_to(np.float32(3), (4,)),
    "with gaps": lambda: np.arange(8, dtype=np.float32)[::2],
    "backwards": lambda: np.arange(8, dtype=np.int32)[::-1],
}


@pytest.mark.parametrize("name", UNSHAREABLE)
def test_memory_that_cannot_be_shared_is_copied_unless_that_is_ruled_out(name):
    x = UNSHAREABLE[name]()
    np.testing.assert_array_equal(weft.dlpack.from_dlpack(x), x)
    with pytest.raises(BufferError, match="cannot be shared"):
        weft.dlpack.from_dlpack(x, copy=False)


class Broken:
    """An array whose protocol returns what it was told to."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("capsule", [None, 3, read_only().copy().__dlpack__(max_version=(1, 0))])
def test_what_is_no_capsule_is_refused(capsule):
    with pytest.raises(TypeError, match="new capsule named 'dltensor'"):
        weft.dlpack.from_dlpack(Broken(capsule))


def test_a_capsule_is_read_once():
    array = Broken(np.ones(3, np.float32).__dlpack__())
    weft.dlpack.from_dlpack(array)
    with pytest.raises(TypeError, match="used_dltensor"):
        weft.dlpack.from_dlpack(array)


@pytest.mark.parametrize("device", [None, (1,), ("a", "b")])
def test_a_device_that_is_no_pair_of_numbers_is_refused(device):
    with pytest.raises(TypeError, match="__dlpack_device__"):
        weft.dlpack.from_dlpack(Broken(None, device))


def test_a_device_of_another_kind_is_named():
    with pytest.raises(BufferError, match="device type 7"):
        weft.dlpack.from_dlpack(Broken(None, (7, 0)))


@pytest.mark.parametrize("export", [np.from_dlpack, weft.dlpack.from_dlpack])
def test_a_deleted_array_leaves_its_memory_to_those_who_share_it(export):
    x = wnp.arange(6.0)
    shared = export(x)
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(shared, np.arange(6.0))


def test_supported_dtypes():
    supported = [weft.dlpack.is_supported_dtype(d) for d in ("float32", "bfloat16", "bool")]
    assert supported == [True] * 3
    assert not weft.dlpack.is_supported_dtype("int4")
    assert not weft.dlpack.is_supported_dtype("float8_e4m3fn")

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


def test_errors_name_the_remedy():
    with pytest.raises(TypeError, match="not a capsule"):
        weft.dlpack.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="enable_x64"):
        weft.dlpack.from_dlpack(np.arange(3))


def test_supported_dtypes():
    supported = [weft.dlpack.is_supported_dtype(d) for d in ("float32", "bfloat16", "bool")]
    assert supported == [True] * 3
    assert not weft.dlpack.is_supported_dtype("int4")
    assert not weft.dlpack.is_supported_dtype("float8_e4m3fn")

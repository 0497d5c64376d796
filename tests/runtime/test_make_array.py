"""Arrays made of parts: from single-device arrays, from a function, from a process's own data."""

import numpy as np
import pytest

import weft
from weft import P
from weft.sharding import AxisType, SingleDeviceSharding

AUTO = (AxisType.Auto,) * 2
MESH = weft.make_mesh((4, 2), ("x", "y"), AUTO)
TYPED = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
ROWS = weft.NamedSharding(MESH, P("x"))
BLOCKS = weft.NamedSharding(MESH, P("x", "y"))
VALUE = np.arange(64, dtype=np.float32).reshape(8, 8)


def parts_of(sharding):
    return [s.data for s in weft.device_put(VALUE, sharding).addressable_shards]


def check(x, sharding):
    assert x.sharding is sharding and x.committed and x.dtype == np.float32
    np.testing.assert_array_equal(x, VALUE)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, VALUE[shard.index])


def test_an_array_is_assembled_from_its_parts_in_any_order():
    check(weft.make_array_from_single_device_arrays((8, 8), BLOCKS, parts_of(BLOCKS)[::-1]), BLOCKS)


def test_a_device_may_stand_for_the_sharding_on_it():
    device = weft.devices()[3]
    x = weft.make_array_from_single_device_arrays((8, 8), device, [weft.device_put(VALUE, device)])
    check(x, SingleDeviceSharding(device))


def deleted_part():
    parts = [p.copy() for p in parts_of(ROWS)]
    parts[3].delete()
    return parts


BAD_PARTS = {
    "one is missing": (lambda: ((8, 8), ROWS, parts_of(ROWS)[1:]), ValueError, "none is on .*0"),
    "one is too many": (
        lambda: ((8, 8), ROWS, [*parts_of(ROWS), parts_of(ROWS)[0]]),
        ValueError,
        "8 devices in this process but 9 arrays",
    ),
    "they are smaller": (
        lambda: ((16, 8), ROWS, parts_of(ROWS)),
        ValueError,
        r"parts of shape \(4, 8\)",
    ),
    "they are NumPy's": (lambda: ((8, 8), ROWS, [VALUE]), TypeError, r"arrays\[0\] must be an arr"),
    "one was deleted": (
        lambda: ((8, 8), ROWS, deleted_part()),
        RuntimeError,
        r"arrays\[3\]: .*de",
    ),
    "not a list": (lambda: ((8, 8), ROWS, weft.device_put(VALUE)), TypeError, "a list of arrays"),
    "no sharding": (lambda: ((8, 8), "x", parts_of(ROWS)), TypeError, "must be a device, a shar"),
    "an abstract mesh": (
        lambda: ((8, 8), weft.NamedSharding(MESH.abstract_mesh, P("x")), parts_of(ROWS)),
        ValueError,
        "has no devices: its mesh is abstract",
    ),
    "half a row": (
        lambda: ((8.5, 8), ROWS, parts_of(ROWS)),
        TypeError,
        "shape must be a tuple of integers",
    ),
    "negative sizes": (lambda: ((-8, 8), ROWS, parts_of(ROWS)), ValueError, "negative dimension"),
}


@pytest.mark.parametrize("case", BAD_PARTS)
def test_parts_that_do_not_make_up_an_array_are_refused(case):
    arguments, error, words = BAD_PARTS[case]
    with pytest.raises(error, match=words):
        weft.make_array_from_single_device_arrays(*arguments())


MAKERS = {
    "of single-device arrays": lambda s: weft.make_array_from_single_device_arrays(
        (8, 8), s, parts_of(s)
    ),
    "by a function": lambda s: weft.make_array_from_callback((8, 8), s, lambda i: VALUE[i]),
    "of local data": lambda s: weft.make_array_from_process_local_data(s, VALUE),
}


@pytest.mark.parametrize("how", MAKERS)
def test_explicit_axes_are_part_of_the_type_however_the_array_was_made(how):
    made = MAKERS[how](weft.NamedSharding(TYPED, P("x", "y")))
    assert weft.typeof(made).sharding.spec == P("x", None)
    assert weft.typeof(made + 1).sharding.spec == P("x", None)


def test_a_callback_is_called_once_for_each_distinct_part():
    calls = []

    def part(index):
        calls.append(index)
        return VALUE[index]

    check(weft.make_array_from_callback((8, 8), ROWS, part), ROWS)
    assert len(calls) == 4


def test_what_a_callback_raises_is_the_users_own():
    def part(index):
        raise KeyError("no such row")

    with pytest.raises(KeyError, match="no such row"):
        weft.make_array_from_callback((8, 8), ROWS, part)


def other_dtypes(index):
    return VALUE[index].astype("int32" if index[0].start else "float32")


BAD_DATA = {
    "too large": (lambda i: VALUE, None, ValueError, r"shape \(8, 8\).*have shape \(2, 8\)"),
    "of several dtypes": (
        other_dtypes,
        None,
        ValueError,
        r"int32 for index .slice.2, 4.*float",
    ),
    "not of the dtype": (lambda i: VALUE[i], "int32", ValueError, "float32 for index .*is int32"),
    "text": (lambda i: np.full((2, 8), "a"), None, TypeError, "data_callback returned.*<U1"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_parts_from_a_callback_that_do_not_fit_are_refused_naming_the_index(case):
    callback, dtype, error, words = BAD_DATA[case]
    with pytest.raises(error, match=words):
        weft.make_array_from_callback((8, 8), ROWS, callback, dtype)


def test_64_bit_parts_become_32_bit_like_any_host_array():
    x = weft.make_array_from_callback((8, 8), ROWS, lambda i: VALUE[i].astype("float64"))
    check(x, ROWS)
    check(weft.make_array_from_callback((8, 8), ROWS, lambda i: VALUE[i], "float64"), ROWS)


def test_process_local_data_is_the_whole_array_in_one_process():
    check(weft.make_array_from_process_local_data(BLOCKS, VALUE), BLOCKS)
    with pytest.raises(ValueError, match="global_shape \\(16, 8\\)"):
        weft.make_array_from_process_local_data(BLOCKS, VALUE, (16, 8))
    with pytest.raises(TypeError, match="local_data: dtype object"):
        weft.make_array_from_process_local_data(BLOCKS, np.full((8, 8), None))


def test_a_tree_of_local_data_becomes_a_tree_of_arrays():
    given = {"a": VALUE, "b": (VALUE[0], VALUE[:4])}
    made = weft.make_array_from_process_local_data(
        {"a": BLOCKS, "b": ROWS}, given, {"a": (8, 8), "b": None}
    )
    check(made["a"], BLOCKS)
    for x, value in zip(made["b"], given["b"], strict=True):
        assert x.sharding is ROWS
        np.testing.assert_array_equal(x, value)
    again = weft.make_array_from_process_local_data(ROWS, [VALUE, VALUE], (8, 8))
    assert [x.sharding for x in again] == [ROWS, ROWS]


def test_random_keys_are_assembled_like_numbers():
    keys, asked = weft.random.split(weft.random.key(7), 8), []
    words = np.asarray(weft.random.key_data(keys))

    def part(index):
        asked.append(index)
        return keys[index]

    x = weft.make_array_from_callback((8,), ROWS, part)
    y = weft.make_array_from_single_device_arrays(
        (8,), ROWS, [s.data for s in x.addressable_shards][::-1]
    )
    assert len(asked) == 4  # one for each distinct part
    for made in (x, y):
        assert (made.shape, made.dtype, made.sharding) == ((8,), keys.dtype, ROWS)
        np.testing.assert_array_equal(weft.random.key_data(made), words)
    with pytest.raises(ValueError, match=r"returned key<.*returned float32"):
        weft.make_array_from_callback((8,), ROWS, lambda i: VALUE[0][i] if i[0].start else keys[i])
    got = weft.device_get({"key": keys, "value": x.shape})
    assert got["key"] is keys


def test_masks_are_not_lost():
    sharding = weft.sharding.SingleDeviceSharding(weft.devices()[0])
    masked = np.ma.masked_array(np.ones(4, np.float32), [0, 1, 0, 0])
    with pytest.raises(ValueError, match="the mask would be lost"):
        weft.make_array_from_callback((4,), sharding, lambda index: masked[index])
    with pytest.raises(ValueError, match="the mask would be lost"):
        weft.make_array_from_process_local_data(sharding, masked)
    with pytest.raises(ValueError, match="mask would be lost"):
        weft.pure_callback(lambda: masked, weft.ShapeDtypeStruct((4,), np.float32))

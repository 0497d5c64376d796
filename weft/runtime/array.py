"""The `Array` class: jaxlib's array type with weft's attributes, conversions and errors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from weft._xla import arrays as _xla
from weft._xla.compile import XlaRuntimeError
from weft.core.aval import ShapedArray
from weft.core.caches import clearable
from weft.core.notebook import displayed
from weft.core.state import LAYOUTS
from weft.core.trace import Tracer
from weft.runtime.backend import client, local_devices
from weft.runtime.callback_context import check_there, inside, put_shards
from weft.runtime.shared_buffers import (
    check_alive,
    deleted_text,
    describe,
    free,
    raw_parts,
    release,
    release_shared,
    second_owners,
    share,
    wait,
)
from weft.sharding.physical import SingleDeviceSharding

Array: TypeAlias = _xla.Array
ArrayImpl = _xla.ArrayImpl
_xla.set_tracer_class(Tracer)  # traced arrays are instances of Array, too


class Shard:
    """One device's part of an array: ``device``, ``index`` (slices of the whole), ``data``.

    ``replica_id`` counts the devices that hold the same part; exactly one of them has 0.

    Example:
        >>> import weft
        >>> weft.numpy.arange(3).addressable_shards[0]
        Shard(device=CpuDevice(id=0), index=(slice(None, None, None),), replica_id=0, data=[0 1 2])
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Any, index: tuple, replica_id: int, data: Any):
        self.device, self.index, self.replica_id, self.data = device, index, replica_id, data

    def __repr__(self) -> str:
        shown = None if self.data is None else np.asarray(self.data)
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={shown})"
        )


def _delete(self: object) -> None:
    """Give the memory back: this array, and those that share buffers with it, are unusable."""
    owners = second_owners([self])
    free(self)
    release((), owners)
    if hasattr(self, "_shared"):
        release_shared(self)


def _block_until_ready(self: object) -> Any:
    """Wait until the array has been computed; return it."""
    try:
        return wait(self)
    except XlaRuntimeError as error:
        raise _explained(self, error) from None


def _explained(array: Array, error: XlaRuntimeError) -> BaseException:
    """Return the error to raise for jaxlib's: the array is gone, or its program failed."""
    if array.is_deleted():
        return RuntimeError(deleted_text(array))
    from weft.runtime.host_calls import explained

    return explained(error)


def _read(array: object) -> np.ndarray:
    try:
        return _xla.to_numpy(array)
    except XlaRuntimeError as error:
        raise _explained(array, error) from None


def host_value(array: Array) -> np.ndarray:
    """Return the whole array as a read-only NumPy array."""
    value = array._npy_value
    if value is not None:
        return value
    sharding = array._sharding
    if not (sharding.is_fully_addressable or sharding.addressable_devices):
        raise RuntimeError(
            f"this {describe(array)} array is on devices of other processes only: they read it"
        )
    if sharding.num_devices == 1:
        if array.is_deleted():
            raise RuntimeError(deleted_text(array))
        # Not kept: the view is free to make, and keeping it would pin the buffer against donation.
        return _read(array)
    check_alive(array)
    if sharding.is_fully_replicated:
        return _read(array._fully_replicated_shard())
    if not sharding.is_fully_addressable:
        raise RuntimeError(
            f"this {describe(array)} array has shards on other processes, so its value cannot be "
            "read here; use its addressable_shards, or replicate it first with "
            "weft.device_put(x, NamedSharding(mesh, P()))"
        )
    if getattr(getattr(sharding, "spec", None), "unreduced", None):
        raise ValueError(
            f"this {describe(array)} array is unreduced over {set(sharding.spec.unreduced)}: each "
            "device holds a partial sum. Add them up first with weft.reshard(x, P(...))"
        )
    value = np.empty(array.aval.shape, array.aval.dtype)
    for shard in addressable_shards(array):
        if shard.replica_id == 0:
            value[shard.index] = _read(shard.data)
    value.flags.writeable = False
    array._npy_value = value
    return value


@clearable
@functools.lru_cache(maxsize=4096)
def _replica_ids(sharding: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, tuple, int], ...]:
    """(device, index, replica id) of every device, in the sharding's order."""
    counts: dict[tuple, int] = {}
    rows = []
    for device, index in sharding.devices_indices_map(shape).items():
        key = tuple((s.start, s.stop) for s in index)
        rows.append((device, index, counts.get(key, 0)))
        counts[key] = counts.get(key, 0) + 1
    return tuple(rows)


@clearable
@functools.lru_cache(maxsize=4096)
def _local_ids(sharding: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, tuple, int], ...]:
    """Return the numbers of this process's devices."""
    return tuple(r for r in _replica_ids(sharding, shape) if r[0] in sharding.addressable_devices)


def parts(array: Array) -> list:
    """Return this process's parts as single-device arrays, in device order.

    They get their avals here: quirks.PARTS_WITHOUT_AVAL.
    """
    check_alive(array)
    sharding = array._sharding
    if type(sharding) is SingleDeviceSharding:
        return [array]
    aval = _part_aval(sharding, array.aval)
    singles = raw_parts(array)
    for part in singles:
        part.aval = aval
        share(part, array)
    return singles


@clearable
@functools.lru_cache(maxsize=4096)
def _part_aval(sharding: Any, aval: ShapedArray) -> ShapedArray:
    return ShapedArray(sharding.shard_shape(aval.shape), aval.dtype, aval.weak_type)


def addressable_shards(array: Array) -> list[Shard]:
    """Return the parts that this process holds, in device order."""
    cached = getattr(array, "_shards", None)
    if cached is not None:
        check_alive(array)
        return list(cached)
    sharding = array._sharding
    if type(sharding) is SingleDeviceSharding and sharding.is_fully_addressable:
        check_alive(array)
        return [Shard(sharding._device, (slice(None),) * array.ndim, 0, array)]
    rows = _local_ids(sharding, array.aval.shape)
    shards = [Shard(*row, part) for row, part in zip(rows, parts(array), strict=True)]
    if len(shards) > 1:  # of one, the part may be the array, which would hold itself
        array._shards = shards
        return list(shards)
    return shards


def global_shards(array: Array) -> list[Shard]:
    """Return every part; ``data`` is None for those of other processes."""
    if array._sharding.is_fully_addressable:
        return addressable_shards(array)
    local_shards = {s.device: s for s in addressable_shards(array)}
    rows = _replica_ids(array._sharding, array.aval.shape)
    return [local_shards[r[0]] if r[0] in local_shards else Shard(*r, None) for r in rows]


def live_arrays(platform: str | None = None) -> list:
    """Return all arrays of a platform (the default one) that exist and are not deleted.

    >>> import weft
    >>> x = weft.numpy.ones(3)
    >>> any(array is x for array in weft.live_arrays())
    True
    """
    # jaxlib's own parts of arrays over several devices have no type.
    return [
        x
        for x in client(platform).live_arrays()
        if isinstance(getattr(x, "aval", None), ShapedArray) and not x.is_deleted()
    ]


def _addressable_data(self: object, index: int) -> Any:
    """Return the ``index``-th part of this process, as a single-device array."""
    shards = getattr(self, "_shards", None) or addressable_shards(self)
    check_alive(self)
    try:
        return shards[index].data
    except IndexError:
        raise IndexError(
            f"addressable_data({index}): this process holds {len(shards)} parts of the "
            f"{describe(self)} array"
        ) from None


def _copy_to_host_async(self: Array) -> None:
    """Start copying the value to the host, so that a later `np.asarray` need not wait for it."""
    check_alive(self)
    if self._npy_value is not None:
        return
    if self._sharding.is_fully_replicated:
        self._fully_replicated_shard()._copy_single_device_array_to_host_async()
        return
    for row, part in zip(
        _replica_ids(self._sharding, self.aval.shape), raw_parts(self), strict=False
    ):
        if row[2] == 0:
            part._copy_single_device_array_to_host_async()


def _array(self: object, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    value = host_value(self)
    if dtype is not None and value.dtype != dtype:
        if copy is False:
            raise ValueError(f"np.asarray(copy=False) cannot change {value.dtype} to {dtype}")
        return value.astype(dtype)
    return np.array(value) if copy else value


def _dlpack(
    self: Array,
    *,
    stream: object = None,
    max_version: tuple | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """Return a DLPack capsule sharing this single-device array's memory."""
    check_alive(self)
    if self._sharding.num_devices != 1:
        raise BufferError(
            f"DLPack exports single-device arrays, this one is on {self._sharding.num_devices} "
            "devices; export the parts: x.addressable_data(i)"
        )
    kind, number = self.__dlpack_device__()
    asked = (kind, number) if dl_device is None else tuple(map(int, dl_device))
    if asked[0] == _DLPACK_KINDS["cpu"] != kind and copy is not False:
        from weft.runtime.device_put import device_put

        return device_put(self, local_devices(backend="cpu")[0]).__dlpack__()
    # All devices of the CPU are one memory.
    if asked != (kind, number) and not asked[0] == kind == _DLPACK_KINDS["cpu"]:
        raise BufferError(
            f"DLPack export to device {dl_device} asked for, the array is on {(kind, number)}; "
            "move it with weft.device_put first"
        )
    if copy:
        return _xla.to_dlpack(deep_copy(self), stream)
    if not hasattr(self, "_exported"):
        # An exported buffer needs an array to the end (quirks.EXPORTED_LAST). This one lives as
        # long as `self`, to which the capsule refers.
        self._exported = _xla.new_array(self.aval, self._sharding, [self], committed=True)
    return _xla.to_dlpack(self, stream)


_DLPACK_KINDS = {"cpu": 1, "cuda": 2, "gpu": 2, "rocm": 10}
"""Platforms -> DLDeviceType of dlpack.h."""


def _dlpack_device(self: Array) -> tuple[int, int]:
    device = next(iter(self.devices()))
    return _DLPACK_KINDS[device.platform], device.local_hardware_id or 0


def _scalar(self: Array, label: str) -> Any:
    if self.aval.shape != ():
        raise TypeError(
            f"{label}() needs an array without dimensions, got {describe(self)}"
            + ("; use .item()" if self.aval.size == 1 else "")
        )
    return host_value(self).item()


def _bool(self: Array) -> bool:
    if self.aval.size != 1:
        raise ValueError(
            f"the truth value of a {describe(self)} array with {self.aval.size} elements is "
            "ambiguous; use .any() or .all()"
        )
    return bool(host_value(self).item())


def _index(self: Array) -> int:
    kind = np.dtype(self.aval.dtype).kind
    if kind not in "iu" or self.aval.shape != ():
        raise TypeError(
            f"only integer arrays without dimensions can be an index, got {describe(self)}"
        )
    return int(host_value(self))


def _item(self: Array, *args: int) -> Any:
    """Return the element as a Python scalar; without arguments the array must hold exactly one."""
    if not args and self.aval.size != 1:
        raise ValueError(
            f"item() without an index needs one element, got {describe(self)}; "
            "give the index, or use tolist()"
        )
    return host_value(self).item(*args)


def _len(self: Array) -> int:
    if not self.aval.shape:
        raise TypeError(f"len() of an array without dimensions: {describe(self)}")
    return self.aval.shape[0]


def _hash(self: object) -> int:
    raise TypeError(
        "arrays are not hashable; pass the array as an ordinary argument, "
        "or a tuple as a static one"
    )


def _repr(self: Array) -> str:
    aval = self.aval
    if self.is_deleted():
        return f"Array({describe(self)}, deleted)"
    weak = ", weak_type=True" if aval.weak_type else ""
    tail = f", dtype={np.dtype(aval.dtype).name}{weak})"
    if not _has_value_here(self):
        return f"Array({describe(self)}, on {self._sharding!r})"
    if aval.size == 0:
        return f"Array([], shape={aval.shape}{tail}"
    text = np.array2string(host_value(self), separator=", ", prefix="Array(", suffix=")")
    line = len(text) - (text.rfind("\n") + 1)
    gap = ",\n      " if line + len(tail) > np.get_printoptions()["linewidth"] else ", "
    return f"Array({text}{gap}{tail[2:]}"


def _has_value_here(self: Array) -> bool:
    if getattr(getattr(self._sharding, "spec", None), "unreduced", None):
        return False
    if self._sharding.is_fully_addressable:
        return True
    return self._sharding.is_fully_replicated and bool(self._sharding.addressable_devices)


def _str(self: Array) -> str:
    printable = not self.is_deleted() and _has_value_here(self)
    return str(host_value(self)) if printable else _repr(self)


def _format(self: Array, spec: str) -> str:
    if not spec and (self.aval.shape or not _has_value_here(self)):
        return str(self)
    return format(host_value(self)[()], spec)


def _rebuild(value: np.ndarray, weak_type: bool) -> Any:
    from weft.runtime.transfers import put_host

    return put_host(value, None, weak_type=weak_type)


def _reduce(self: Array) -> tuple:
    return _rebuild, (np.array(host_value(self)), self.aval.weak_type)


def copied(x: Any, sharding: Any, semantics: object) -> Any:
    """Return the array with the same parts on this sharding's devices, one to one."""
    if LAYOUTS.in_use:
        from weft.runtime.memory_layouts import is_own, layout_of, relaid

        if not is_own(x):  # quirks.COPIED_LAYOUT
            return relaid(copied(relaid(x), sharding, semantics), layout_of(x))
    kind = sharding.memory_kind
    devices = list(sharding._internal_device_list.addressable_device_list)
    _check_reachable(x._sharding, sharding)
    if inside.pending is None or sharding._devices_in_order[0].platform != "cpu":
        if len(devices) == 1 and not sharding.is_fully_addressable:
            # Part by part: quirks.COPY_OF_ONE_PART.
            target = SingleDeviceSharding(devices[0], memory_kind=kind)
            return joined(x.aval, sharding, [copied(p, target, semantics) for p in parts(x)])
        check_there(sharding._devices_in_order[0])
        [new] = _xla.batched_copy([x], [sharding._internal_device_list], [sharding], [semantics])
        return new
    singles = [
        put_shards(p.aval, SingleDeviceSharding(d, memory_kind=kind), (host_value(p),), (d,), True)
        for p, d in zip(parts(x), devices, strict=True)
    ]
    return joined(x.aval, sharding, singles)


def _check_reachable(source: Any, target: Any) -> None:
    if source.is_fully_addressable and target.is_fully_addressable:
        return
    # quirks.COPY_BETWEEN_PROCESSES
    processes = [s._internal_device_list.process_indices for s in (source, target)]
    if processes[0] != processes[1] and target._devices_in_order[0].platform == "cpu":
        raise ValueError(
            f"device_put cannot copy from {source!r} to {target!r}: CPU devices of different "
            "processes do not send each other buffers. Put the array on devices of "
            "all of these processes, or pass values with weft.multihost_utils.process_allgather"
        )


def deep_copy(self: Array, memo: object = None) -> Any:
    """Return a copy in new buffers, with the same sharding."""
    check_alive(self)
    sharding = self._sharding
    new = copied(self, sharding, _xla.ArrayCopySemantics.ALWAYS_COPY)
    if not self._committed:
        return _xla.new_array(self.aval, sharding, new._arrays, committed=False)
    return new


def _device(self: Array) -> Any:
    """Return a single-device array's device, else the sharding (as the array API asks)."""
    sharding = self._sharding
    return next(iter(sharding.device_set)) if sharding.num_devices == 1 else sharding


def _format_of(self: object) -> Any:
    """Return the array's layout and sharding, a `weft.layout.Format`."""
    from weft.runtime.memory_layouts import format_of

    return format_of(self)


def install(**members: object) -> None:
    """Add methods or properties to `Array` and its concrete type (operators, `.at`, reductions)."""
    for name, member in members.items():
        setattr(ArrayImpl, name, member)


install(
    shape=property(lambda self: self.aval.shape, doc="The global shape, a tuple of int."),
    dtype=property(lambda self: self.aval.dtype, doc="The element type."),
    ndim=property(lambda self: len(self.aval.shape), doc="The number of dimensions."),
    size=property(lambda self: self.aval.size, doc="The number of elements."),
    weak_type=property(lambda self: self.aval.weak_type, doc="True for a Python scalar's type."),
    itemsize=property(lambda self: np.dtype(self.aval.dtype).itemsize, doc="Bytes an element."),
    nbytes=property(
        lambda self: self.aval.size * np.dtype(self.aval.dtype).itemsize,
        doc="Bytes of the global value.",
    ),
    sharding=property(lambda self: self._sharding, doc="Which device holds which part."),
    format=property(_format_of),
    committed=property(
        lambda self: self._committed, doc="True when the user chose the devices, so they bind."
    ),
    device=property(_device),
    devices=lambda self: set(self._sharding.device_set),
    is_fully_replicated=property(lambda self: self._sharding.is_fully_replicated),
    is_fully_addressable=property(lambda self: self._sharding.is_fully_addressable),
    addressable_shards=property(addressable_shards),
    global_shards=property(global_shards),
    addressable_data=_addressable_data,
    copy_to_host_async=_copy_to_host_async,
    copy=deep_copy,
    delete=_delete,
    block_until_ready=_block_until_ready,
    item=_item,
    tolist=lambda self: host_value(self).tolist(),
    tobytes=lambda self, order="C": host_value(self).tobytes(order),
    _value=property(host_value),
    __array__=_array,
    __array_priority__=100,
    __dlpack__=_dlpack,
    __dlpack_device__=_dlpack_device,
    __len__=_len,
    __bool__=_bool,
    __int__=lambda self: int(_scalar(self, "int")),
    __float__=lambda self: float(_scalar(self, "float")),
    __complex__=lambda self: complex(_scalar(self, "complex")),
    __index__=_index,
    __hash__=_hash,
    __repr__=_repr,
    __str__=_str,
    __format__=_format,
    __reduce__=_reduce,
    __copy__=deep_copy,
    __deepcopy__=deep_copy,
)

displayed("weft.sharding.drawing", "placed_html")(ArrayImpl)


def joined(aval: object, sharding: object, singles: Sequence[Any]) -> Any:
    """Make an array of parts, one on each device, without copying their buffers."""
    whole = _xla.new_array(aval, sharding, singles, committed=True)
    for part in singles:
        share(whole, part)
    return whole

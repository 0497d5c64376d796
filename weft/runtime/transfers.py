# Tests: tests/runtime/test_device_put.py
"""Transfers of single arrays: values of the host and arrays, to a device or a sharding."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from weft._xla import arrays as _xla
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import clearable
from weft.core.config import config
from weft.core.trace import aval_of
from weft.runtime import backend
from weft.runtime.array import ArrayImpl, copied, host_value, joined
from weft.runtime.array import parts as parts_of
from weft.runtime.callback_context import put_shards
from weft.runtime.shared_buffers import check_alive, share
from weft.sharding.named import NamedSharding, is_abstract, type_sharding
from weft.sharding.physical import SingleDeviceSharding, in_device_order
from weft.sharding.spec import UNCONSTRAINED


def array_aval(shape: tuple, dtype: object, weak_type: bool, sharding: object) -> ShapedArray:
    """Return the aval of an array with this sharding: explicit mesh axes are part of the type."""
    return ShapedArray(shape, dtype, weak_type, type_sharding(sharding, len(shape)))


_default: tuple[Any, Any] | None = None


def default_sharding() -> SingleDeviceSharding:
    """Return where values without a given place go."""
    global _default
    chosen = config.default_device
    client = backend._default
    if _default is not None and _default[0] is client and chosen is None:
        return _default[1]
    sharding = SingleDeviceSharding(backend.default_device())
    if chosen is None:
        _default = (backend._default, sharding)
    return sharding


def put_host(
    value: Any,
    sharding: Any = None,
    *,
    weak_type: bool = False,
    copy: bool = False,
    committed: bool | None = None,
) -> Any:
    """Return an array from a NumPy array; to the default device, uncommitted, without a sharding.

    On the CPU the array may share the memory of ``value`` unless ``copy``.
    """
    dtype = value.dtype
    canonical = _canonical.get(dtype)
    if canonical is None or canonical[0] is not config.enable_x64:
        if dtype == dtypes.float0:  # no device holds it
            return value
        canonical = _canonical[dtype] = (config.enable_x64, dtypes.canonicalize_dtype(dtype))
    dtype = canonical[1]
    if sharding is None:
        sharding = default_sharding()
        aval = ShapedArray(value.shape, dtype, weak_type)
        return put_shards(
            aval, sharding, (value,), sharding._devices_in_order, bool(committed), copy
        )
    committed = True if committed is None else committed
    if type(sharding) is SingleDeviceSharding:
        aval = ShapedArray(value.shape, dtype, weak_type)
        return put_shards(aval, sharding, (value,), sharding._devices_in_order, committed, copy)
    shape = value.shape
    check_placeable(sharding, shape)
    aval = array_aval(shape, dtype, weak_type, sharding)
    if sharding.is_fully_addressable:
        devices = sharding._devices_in_order
        if sharding.is_fully_replicated:
            shards = (value,) * len(devices)
        else:
            shards = tuple(value[i] for i in _all_indices(sharding, shape))
    else:
        from weft.runtime.check_replicated import check_same

        check_same(value, sharding)
        places = sharding.addressable_devices_indices_map(shape)
        devices, shards = tuple(places), tuple(value[i] for i in places.values())
    return put_shards(aval, sharding, shards, devices, committed, copy)


_canonical: dict[Any, tuple[bool, Any]] = {}


@clearable
@functools.lru_cache(maxsize=4096)
def _all_indices(sharding: Any, shape: tuple) -> tuple:
    return tuple(sharding.devices_indices_map(shape).values())


def check_placeable(sharding: NamedSharding, shape: tuple[int, ...], parts: bool = False) -> None:
    """Raise when an array of this shape cannot be placed with this sharding.

    parts: it is made of its parts, which may be partial sums.
    """
    if isinstance(sharding, NamedSharding):
        if is_abstract(sharding):
            raise ValueError(f"{sharding!r} has no devices: its mesh is abstract. Use a Mesh")
        sharding.check_rank(shape)
        if UNCONSTRAINED in sharding.spec.partitions:
            raise ValueError(
                f"{sharding.spec!r}: an array's dimensions cannot be UNCONSTRAINED; use None or "
                "axis names"
            )
        if sharding.spec.unreduced and not parts:
            raise ValueError(
                f"{sharding.spec!r}: a whole value is no partial sum; place it by weft.device_put, "
                "which makes it one"
            )
    sharding.shard_shape(shape)


def put_array(x: Any, sharding: Any, *, donate: bool = False, may_alias: bool | None = None) -> Any:
    """Put the array in another sharding, committed. Buffers are shared where nothing moves."""
    if x.is_deleted():
        check_alive(x)
    source = x._sharding
    aval = x.aval
    ndim = len(aval.shape)
    if may_alias is not False:
        if source is sharding:
            return x if x._committed else _rewrap(x, aval, sharding)
        same_order = source._devices_in_order == sharding._devices_in_order
        if same_order and source.is_equivalent_to(sharding, ndim):
            sharding.check_compatible_aval(aval.shape)
            return _rewrap(x, _moved_aval(aval, sharding), sharding)
    if type(sharding) is not SingleDeviceSharding:
        check_placeable(sharding, aval.shape)
    new_aval = _moved_aval(aval, sharding)
    kinds = _xla.ArrayCopySemantics
    semantics = kinds.ALWAYS_COPY if may_alias is False else kinds.REUSE_INPUT
    if getattr(getattr(source, "spec", None), "unreduced", None):
        raise ValueError(
            f"device_put of an array that is unreduced over {set(source.spec.unreduced)}: each "
            "device holds a partial sum. Add them up first with weft.reshard(x, P(...))"
        )
    same_devices = source.num_devices > 1 and source.device_set == sharding.device_set
    if same_devices and source.memory_kind != sharding.memory_kind:
        return _to_memory(x, new_aval, sharding, donate)
    before = source
    if same_devices and source._devices_in_order != sharding._devices_in_order:
        # An executable takes the parts in the order of its own devices and crashes on another one.
        x = _reordered(x, sharding._devices_in_order)
        source = x._sharding
        if source.is_equivalent_to(sharding, ndim):
            x = copied(x, source, semantics) if may_alias is False else x
            return _rewrap(x, new_aval, sharding)
    if _same_parts(source, sharding, aval.shape):
        if not donate:
            return _rewrap(copied(x, sharding, semantics), new_aval, sharding)
        # A copy and a deletion, as a later use of `x` must raise: quirks.DONATE_INPUT.
        moved = _rewrap(copied(x, sharding, kinds.ALWAYS_COPY), new_aval, sharding)
        x.delete()
        return moved
    if same_devices:
        from weft.runtime.executable import reshard

        moved = reshard(x, new_aval, sharding, donate, before)
        if donate:
            x.delete()  # XLA takes only buffers that it can use
        return moved
    if not source.is_fully_addressable:
        raise ValueError(
            f"device_put cannot move an array from {source!r} to {sharding!r}: it has parts on "
            "other processes and the sets of devices differ"
        )
    moved = _from_parts(x, new_aval, sharding)
    if donate:
        x.delete()
    return moved


def _to_memory(x: Any, aval: ShapedArray, sharding: NamedSharding, donate: bool) -> Any:
    """Put the array in another memory of its devices; parts move by the default one."""
    source = x._sharding
    moved = x
    alike = source.with_memory_kind(None).is_equivalent_to(
        sharding.with_memory_kind(None), len(aval.shape)
    )
    if not alike or source._devices_in_order != sharding._devices_in_order:
        if source.other_memory is not None:
            moved = put_array(moved, source.with_memory_kind(None))
        moved = put_array(moved, sharding.with_memory_kind(None))
    if moved is x or sharding.other_memory is not None:
        moved = copied(moved, sharding, _xla.ArrayCopySemantics.ALWAYS_COPY)
    moved = _rewrap(moved, aval, sharding)
    if donate:
        x.delete()
    return moved


def _reordered(x: Any, devices: tuple) -> Any:
    """Return the array with its parts in the order of these devices, which are its own."""
    order = in_device_order(x._sharding, devices, len(x.aval.shape))
    parts = _xla.reorder_shards(x, order, _xla.ArrayCopySemantics.REUSE_INPUT)
    return share(_xla.new_array(x.aval, order, _xla.parts_of(parts), committed=True), x)


def _rewrap(x: Any, aval: object, sharding: object) -> Any:
    return share(_xla.new_array(aval, sharding, _xla.parts_of(x), committed=True), x)


def _moved_aval(aval: ShapedArray, sharding: object) -> Any:
    typed = type_sharding(sharding, len(aval.shape))
    return aval if aval.sharding is typed else aval.update(sharding=typed)


@clearable
@functools.lru_cache(maxsize=4096)
def _same_parts(source: Any, target: Any, shape: tuple) -> bool:
    """Tell whether device i has the same part under both, so that parts are copied one to one."""
    if source.num_devices != target.num_devices:
        return False
    if source.device_set == target.device_set and source.num_devices > 1:
        return False
    return _all_indices(source, shape) == _all_indices(target, shape)


def _from_parts(x: Any, aval: ShapedArray, sharding: NamedSharding) -> Any:
    """Move between different sets of devices: whole parts go directly, others over the host."""
    shape = aval.shape
    part_at: dict[tuple, Any] = {}
    for part, index in zip(parts_of(x), _all_indices(x._sharding, shape), strict=True):
        part_at.setdefault(index_key(index), part)
    places = sharding.addressable_devices_indices_map(shape)
    if all(index_key(index) in part_at for index in places.values()):
        parts = [part_at[index_key(index)] for index in places.values()]
    else:
        value = host_value(x)
        parts = [value[index] for index in places.values()]
    shard_aval = ShapedArray(sharding.shard_shape(shape), aval.dtype, aval.weak_type)
    singles = []
    for part, device in zip(parts, places, strict=True):
        target = SingleDeviceSharding(device, memory_kind=sharding.memory_kind)
        if isinstance(part, np.ndarray):
            singles.append(put_shards(shard_aval, target, (part,), (device,), True))
        else:
            singles.append(put_array(part, target))
    return joined(aval, sharding, singles)


def index_key(index: tuple) -> tuple:
    """Return a hashable key of a shard's index: slices have no hash."""
    return tuple((s.start, s.stop) for s in index)


def devices_text(sharding: Any) -> str:
    """Return the devices of a sharding for messages: ``cpu devices 0..7``."""
    devices = sharding._devices_in_order
    ids = [d.id for d in devices]
    shown = f"{ids[0]}" if len(ids) == 1 else ", ".join(map(str, ids))
    if len(ids) > 2 and ids == list(range(ids[0], ids[0] + len(ids))):
        shown = f"{ids[0]}..{ids[-1]}"
    return f"{devices[0].platform} device{'s' * (len(ids) > 1)} {shown}"


aval_of[ArrayImpl] = operator.attrgetter("aval")

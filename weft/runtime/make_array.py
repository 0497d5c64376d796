"""Arrays from their parts: single-device arrays, what a function gives, a process's own data."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.state import LAYOUTS
from weft.core.trace import check_not_masked
from weft.core.tree import flatten
from weft.runtime.array import ArrayImpl, joined
from weft.runtime.callback_context import put_shards
from weft.runtime.device_put import device_put, is_place, spread
from weft.runtime.memory_layouts import layout_of, relaid
from weft.runtime.shared_buffers import deleted_text, describe
from weft.runtime.transfers import array_aval, check_placeable, index_key, put_host
from weft.sharding.named import is_format, tile_indices
from weft.sharding.physical import SingleDeviceSharding, as_sharding

if TYPE_CHECKING:
    from weft.sharding.named import NamedSharding
    from weft.typing import ArrayLike, DTypeLike


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: DTypeLike | None = None
) -> Any:
    """Return an array from its parts, one single-device array for each device of this process.

    Args:
      shape: the global shape.
      sharding: the global sharding; ``arrays`` are taken in any order.
      arrays: parts of shape ``sharding.shard_shape(shape)`` on the sharding's devices.
      dtype: needed only when this process holds no part.

    Raises:
      ValueError: a part is missing, on a wrong device, or of a wrong shape or dtype.
      RuntimeError: a part has been deleted.

    Example:
        >>> import weft
        >>> x = weft.device_put(3.0)
        >>> weft.make_array_from_single_device_arrays((), x.sharding, [x]).shape
        ()
    """
    if is_format(sharding):
        array = make_array_from_single_device_arrays(shape, sharding.sharding, arrays, dtype=dtype)
        return device_put(array, sharding)
    shape, sharding = _target(shape, sharding, parts=True)
    if not isinstance(arrays, Sequence):
        raise TypeError(f"arrays must be a list of arrays, got {type(arrays).__name__}")
    kind = _key_type(arrays[0]) if arrays else None
    # Random keys are made of their words, which are put together as any array.
    if kind is not None:
        words = [getattr(x, "_base", x) for x in arrays]
        return kind.wrap(
            make_array_from_single_device_arrays((*shape, *kind.physical_shape), sharding, words)
        )
    by_device: dict[Any, Any] = {}
    for i, part in enumerate(arrays):
        if not isinstance(part, ArrayImpl) or part._sharding.num_devices != 1:
            raise TypeError(f"arrays[{i}] must be an array on a single device, got {part!r:.80}")
        if part.is_deleted():
            raise RuntimeError(f"arrays[{i}]: {deleted_text(part)}")
        part_sharding = part._sharding
        single = type(part_sharding) is SingleDeviceSharding
        by_device[part_sharding._device if single else next(iter(part_sharding.device_set))] = part
    devices = list(sharding._internal_device_list.addressable_device_list)
    missing = [d for d in devices if d not in by_device]
    if missing or len(arrays) != len(devices):
        raise ValueError(
            f"the sharding has {len(devices)} devices in this process but {len(arrays)} arrays on "
            f"{sorted(d.id for d in by_device)} were given"
            + (f"; none is on {missing[0]}" if missing else "")
        )
    chosen = [by_device[d] for d in devices]
    if dtype is None:
        if not chosen:
            raise ValueError(_NO_PART)
        dtype = chosen[0].aval.dtype
    expected = sharding.shard_shape(shape)
    aval = None
    for device, part in zip(devices, chosen, strict=True):
        if part.aval is aval:
            continue
        aval = part.aval
        if aval.shape != expected or aval.dtype != dtype:
            raise ValueError(
                f"the part on {device} is {describe(part)}, but a {np.dtype(dtype).name} array of "
                f"shape {shape} with {sharding!r} has parts of shape {expected}"
            )
    # Parts of one array have one layout: that of the first.
    if LAYOUTS.in_use and chosen:
        chosen = [relaid(p, layout_of(chosen[0])) for p in chosen]
    weak = bool(chosen) and all(p.aval.weak_type for p in chosen)
    return joined(array_aval(shape, np.dtype(dtype), weak, sharding), sharding, chosen)


_NO_PART = "dtype must be given when this process holds no part of the array"


def _target(shape: Any, sharding: Any, parts: bool = False) -> tuple[tuple[int, ...], Any]:
    """Return the shape and sharding of an array that is to be made, checked."""
    try:
        shape = tuple(operator.index(d) for d in shape)
    except TypeError:
        raise TypeError(f"shape must be a tuple of integers, got {shape!r:.80}") from None
    if any(d < 0 for d in shape):
        raise ValueError(f"shape {shape} has a negative dimension")
    sharding = as_sharding(sharding)
    check_placeable(sharding, shape, parts)
    return shape, sharding


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[tuple], Any],
    dtype: Any = None,
) -> Any:
    """Make an array by a function of its parts, called once for each distinct local part.

    Args:
      shape: the global shape.
      sharding: the global sharding.
      data_callback: index (tuple of slices) -> array of the part's shape.
      dtype: of all parts; needed only when this process holds none.

    Raises:
      ValueError: a part of a wrong shape or dtype (names the index).

    Example:
        >>> import weft, numpy as np
        >>> s = weft.sharding.SingleDeviceSharding(weft.devices()[0])
        >>> weft.make_array_from_callback((3,), s, lambda index: np.arange(3.0)[index])
        Array([0., 1., 2.], dtype=float32)
    """
    if is_format(sharding):
        array = make_array_from_callback(shape, sharding.sharding, data_callback, dtype)
        return device_put(array, sharding)
    shape, sharding = _target(shape, sharding)
    if dtype is not None:
        dtype = dtypes.canonicalize_dtype(dtype)
    expected = sharding.shard_shape(shape)
    part_by_index: dict[tuple, np.ndarray] = {}
    parts = []
    places = sharding.addressable_devices_indices_map(shape)
    for index in places.values():
        key = index_key(index)
        # Parts that several devices hold are asked for once.
        if key not in part_by_index:
            returned = data_callback(index)
            if type(returned) is not np.ndarray:
                if _key_type(returned) is not None:
                    return _keys_from_callback(shape, sharding, data_callback, returned, key)
                check_not_masked(returned)
            part = np.asarray(returned)
            if part.shape != expected:
                raise ValueError(
                    f"data_callback returned shape {part.shape} for index {index}, but the parts "
                    f"of a {shape} array with {sharding!r} have shape {expected}"
                )
            if dtype is None or part.dtype != dtype:
                part_dtype = _dtype_of("data_callback returned an array", part)
                dtype = part_dtype if dtype is None else dtype
                if part_dtype != dtype:
                    raise ValueError(
                        f"data_callback returned {part_dtype.name} for index {index}, but the "
                        f"array is {dtype.name}; all parts have one dtype: convert them in "
                        "data_callback"
                    )
            part_by_index[key] = part
        parts.append(part_by_index[key])
    if dtype is None:
        raise ValueError(_NO_PART)
    return put_shards(
        array_aval(shape, dtype, False, sharding), sharding, parts, tuple(places), True
    )


def _key_type(x: ArrayLike) -> Any:
    """Return the dtype of random keys; None of numbers."""
    dtype = getattr(x, "dtype", None)
    return dtype if dtypes.is_extended(dtype) else None


def _keys_from_callback(
    shape: tuple, sharding: NamedSharding, data_callback: Callable, first: Any, at: tuple
) -> Any:
    """Act as make_array_from_callback for random keys; `first` are those of the index `at`."""
    kind = first.dtype

    def words(index: tuple) -> Any:
        index = index[: len(shape)]
        keys = first if index_key(index) == at else data_callback(index)
        if _key_type(keys) != kind:
            raise ValueError(
                f"data_callback returned {kind} before, but for index {index} it returned "
                f"{getattr(keys, 'dtype', type(keys).__name__)}; all parts have one dtype"
            )
        return keys._base

    return kind.wrap(make_array_from_callback((*shape, *kind.physical_shape), sharding, words))


def _dtype_of(label: str, part: np.ndarray) -> np.dtype:
    try:
        return np.dtype(dtypes.canonicalize_dtype(part.dtype))
    except TypeError as e:
        raise TypeError(f"{label}: {e}") from None


def make_array_from_process_local_data(
    sharding: object, local_data: object, global_shape: object = None
) -> Any:
    """Return an array of which every process gives the data that belongs to its devices.

    Args:
      sharding: the global sharding.
      local_data: this process's part: those of its devices, side by side in the array's order.
      global_shape: the global shape; without it, each dimension that is split over processes is
        as many times larger as there are processes along it.

    Of a pytree of local data, one of arrays is made; sharding and global_shape then apply to all,
    or are pytrees that are prefixes of it.

    Raises:
      ValueError: the local data does not have the shape that the sharding asks of this process.

    Example:
        >>> import weft, numpy as np
        >>> s = weft.sharding.SingleDeviceSharding(weft.devices()[0])
        >>> weft.make_array_from_process_local_data(s, np.ones((2, 2))).shape
        (2, 2)
    """
    leaves, tree = flatten(local_data)
    shardings = spread("sharding", sharding, tree, is_place)
    shapes = spread("global_shape", global_shape, tree, _is_shape)
    return tree.unflatten(
        [_from_local(s, *r) for s, *r in zip(shardings, leaves, shapes, strict=True)]
    )


def _is_shape(value: dict | tuple) -> bool:
    return value is None or all(isinstance(d, int | np.integer) for d in value)


def _from_local(sharding: Any, local_data: np.ndarray, global_shape: tuple | None) -> Any:
    if is_format(sharding):
        return device_put(_from_local(sharding.sharding, local_data, global_shape), sharding)
    sharding = as_sharding(sharding)
    check_not_masked(local_data)
    local = np.asarray(local_data)
    _dtype_of("local_data", local)
    if sharding.is_fully_addressable:
        if global_shape is not None and tuple(global_shape) != local.shape:
            raise ValueError(
                f"local_data has shape {local.shape}, but this process holds the whole array of "
                f"global_shape {tuple(global_shape)}"
            )
        return put_host(local, sharding)
    splits = local_splits(sharding, local.ndim)
    if global_shape is None:
        global_shape = tuple(
            s * total // len(local_tiles)
            for s, (local_tiles, total) in zip(local.shape, splits, strict=True)
        )
    shape = tuple(int(d) for d in global_shape)
    wanted = tuple(
        g * len(local_tiles) // total for g, (local_tiles, total) in zip(shape, splits, strict=True)
    )
    # The whole array was given: each device takes its part of it.
    if local.shape == shape:
        return make_array_from_callback(shape, sharding, lambda index: local[index])
    if local.shape != wanted:
        raise ValueError(
            f"local_data has shape {local.shape}, but the devices of this process hold {wanted} "
            f"of an array of global_shape {shape}"
        )

    # Parts of this process are next to each other in local_data, wherever they are globally.
    def place(s: slice, size: int, local_tiles: list[int], total: int) -> slice:
        if s.start is None:
            return s
        start = local_tiles.index(s.start * total // size) * size // total
        return slice(start, start + s.stop - s.start)

    def part(index: tuple) -> Any:
        return local[
            tuple(
                place(s, g, local_tiles, total)
                for s, g, (local_tiles, total) in zip(index, shape, splits, strict=True)
            )
        ]

    return make_array_from_callback(shape, sharding, part)


def local_splits(sharding: NamedSharding, ndim: int) -> list[tuple[list[int], int]]:
    """Return for each dimension the numbers of this process's tiles, and how many there are."""
    tiles = tile_indices(sharding, ndim)
    local = [d in sharding.addressable_devices for d in sharding._devices_in_order]
    local_coordinates = tiles[np.array(local)]
    return [
        ([int(t) for t in np.unique(local_coordinates[:, dim])], int(tiles[:, dim].max()) + 1)
        for dim in range(ndim)
    ]

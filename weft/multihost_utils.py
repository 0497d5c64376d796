"""weft.multihost_utils: processes exchange host values; arrays from and to their parts.

Every process calls these functions in the same order: they run a program on all devices.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.namespace import seal
from weft.core.tree import broadcast_prefix, flatten
from weft.driver.jit import jit
from weft.runtime import backend
from weft.runtime.array import ArrayImpl
from weft.runtime.make_array import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec as P

if TYPE_CHECKING:
    from weft.sharding.spec import PartitionSpec
    from weft.typing import ArrayLike

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "process_allgather",
    "sync_global_devices",
]


def _each(function: Callable, tree: ArrayLike | dict) -> Any:
    leaves, structure = flatten(tree)
    return structure.unflatten([function(x) for x in leaves])


def _processes() -> Mesh:
    """Return all devices, those of a process in a row."""
    rows: dict[int, list] = {}
    for device in backend.devices():
        rows.setdefault(device.process_index, []).append(device)
    counts = {len(row) for row in rows.values()}
    if len(counts) > 1:
        raise ValueError(
            f"values are exchanged among processes with equally many devices, these have {counts}"
        )
    return Mesh(np.array([rows[i] for i in sorted(rows)], object), ("process", "device"))


def _from_all(value: np.ndarray, combine: Callable) -> np.ndarray:
    """combine(values of all processes, stacked), computed on the devices, on every host."""
    mesh = _processes()
    stacked = make_array_from_process_local_data(NamedSharding(mesh, P("process")), value[None])
    everywhere = NamedSharding(mesh, P())
    return np.asarray(jit(combine, out_shardings=everywhere)(stacked))


def _bytes(value: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)


def broadcast_one_to_all(in_tree: object, is_source: bool | None = None) -> Any:
    """Return the tree of one process as NumPy arrays, on all.

    in_tree: arrays and numbers, of the same shapes and dtypes on every process. is_source: True
    on the process whose values count, by default process 0.

    >>> import weft
    >>> weft.multihost_utils.broadcast_one_to_all({"seed": 3})
    {'seed': array(3)}
    """
    if backend.process_count() == 1:
        return _each(np.asarray, in_tree)
    source = backend.process_index() == 0 if is_source is None else is_source

    def one(x: object) -> np.ndarray:
        value = np.asarray(x)
        contribution = _bytes(value) if source else np.zeros(value.nbytes, np.uint8)
        sent = _from_all(contribution, lambda rows: rows.sum(0, dtype=rows.dtype))
        return np.frombuffer(sent.tobytes(), value.dtype).reshape(value.shape)

    return _each(one, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until every process has come here, and all their devices with them.

    Raises AssertionError if they come here from places of different names.

    >>> import weft
    >>> weft.multihost_utils.sync_global_devices("data is written")
    """
    assert_equal(np.uint32(zlib.crc32(name.encode())), f"sync_global_devices: other than {name!r}")


def assert_equal(in_tree: object, fail_message: str = "") -> None:
    """Raise AssertionError, on every process, unless all have process 0's values.

    >>> import weft
    >>> weft.multihost_utils.assert_equal({"step": 10})
    """
    expected = broadcast_one_to_all(in_tree)
    pairs = zip(flatten(expected)[0], flatten(in_tree)[0], strict=True)
    same = all(np.array_equal(a, np.asarray(b)) for a, b in pairs)
    others = np.flatnonzero(~process_allgather(np.bool_(same)))
    if len(others):
        raise AssertionError(
            f"{fail_message + ': ' if fail_message else ''}processes {others.tolist()} have other "
            f"values than process 0; process {backend.process_index()} has {in_tree}, process 0 "
            f"{expected}"
        )


def process_allgather(in_tree: object, tiled: bool = False) -> Any:
    """Return the values of all processes as NumPy arrays, on every process.

    in_tree: host values and arrays of a process's own devices are stacked along a new first
    dimension in the order of processes; with tiled=True they are joined along their first. Arrays
    with parts on several processes are returned whole.

    Raises ValueError for scalars with tiled=True.

    >>> import weft
    >>> weft.multihost_utils.process_allgather(weft.numpy.arange(3))
    array([[0, 1, 2]], dtype=int32)
    """
    return _each(partial(_gathered, tiled=tiled), in_tree)


def _gathered(x: ArrayLike, tiled: bool) -> np.ndarray:
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        whole = NamedSharding(x.sharding.mesh, P())
        return np.asarray(jit(lambda v: v, out_shardings=whole)(x))
    value = np.asarray(x)
    if tiled and not value.ndim:
        raise ValueError("process_allgather: a scalar cannot be tiled; leave out tiled=True")
    count = backend.process_count()
    if count == 1:
        return value if tiled else value[None]
    rows = _from_all(_bytes(value), lambda rows: rows)
    stacked = np.frombuffer(rows.tobytes(), value.dtype).reshape(count, *value.shape)
    return stacked.reshape(-1, *value.shape[1:]) if tiled else stacked


def _paired(
    label: str, tree: ArrayLike | dict, mesh: Mesh, pspecs: dict | PartitionSpec, function: Callable
) -> Any:
    leaves, structure = flatten(tree)
    specs = broadcast_prefix(pspecs, structure, label, lambda s: s is None or isinstance(s, P))
    return structure.unflatten(
        [function(x, mesh, s or P()) for x, s in zip(leaves, specs, strict=True)]
    )


def host_local_array_to_global_array(local_inputs: object, global_mesh: Any, pspecs: Any) -> Any:
    """Join each process's local array into one global array over all processes.

    Args:
      local_inputs: a tree of NumPy arrays or arrays of this process's devices.
      global_mesh: a mesh of all devices, of which each process has a block.
      pspecs: a prefix tree of `P`: how the arrays are split over the mesh.

    Returns:
      The tree of arrays over `global_mesh`: along a dimension that is split over processes they
      have as much from each of them.

    >>> import weft, numpy as np
    >>> mesh = weft.make_mesh((1,), ("x",))
    >>> x = weft.multihost_utils.host_local_array_to_global_array(np.ones(4), mesh, weft.P("x"))
    >>> x.shape, x.sharding.spec
    ((4,), P('x',))
    """
    return _paired(
        "host_local_array_to_global_array: pspecs",
        local_inputs,
        global_mesh,
        pspecs,
        lambda x, mesh, s: make_array_from_process_local_data(
            NamedSharding(mesh, s), np.asarray(x)
        ),
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Return this process's part of global arrays, inverse to `host_local_array_to_global_array`.

    Returns the tree of arrays over the part of `global_mesh` that is this process's.

    >>> import weft, numpy as np
    >>> mesh = weft.make_mesh((1,), ("x",))
    >>> x = weft.device_put(np.arange(4), weft.sharding.NamedSharding(mesh, weft.P("x")))
    >>> weft.multihost_utils.global_array_to_host_local_array(x, mesh, weft.P("x"))
    Array([0, 1, 2, 3], dtype=int32)
    """
    label = "global_array_to_host_local_array: pspecs"
    return _paired(label, global_inputs, global_mesh, pspecs, _local_part)


def _local_part(x: Any, mesh: Mesh, spec: P) -> Any:
    local = NamedSharding(mesh.local_mesh, spec)
    parts = [shard.data for shard in x.addressable_shards]
    shape = tuple(n * local.num_parts(d) for d, n in enumerate(parts[0].shape))
    return make_array_from_single_device_arrays(shape, local, parts)


seal(globals())

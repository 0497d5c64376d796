"""Transfers: host values and arrays to devices and shardings, and back."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weft._xla import arrays as _xla
from weft._xla import guards, pytree
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import clearable
from weft.core.config import config
from weft.core.memory_space import Space
from weft.core.state import LAYOUTS, state
from weft.core.trace import EVAL, Tracer, array_method, aval_of, check_not_masked, typeof
from weft.core.tree import broadcast_prefix
from weft.runtime import backend
from weft.runtime.array import (
    ArrayImpl,
    check_alive,
    claim,
    copied,
    describe,
    host_value,
    joined,
    share,
    unclaim,
)
from weft.runtime.array import parts as parts_of
from weft.runtime.callback_context import put_shards
from weft.runtime.host_calls import explained
from weft.sharding.named import NamedSharding, Sharding, is_abstract, type_sharding
from weft.sharding.physical import SingleDeviceSharding, as_sharding, in_device_order
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.runtime.backend import Device
    from weft.typing import ArrayLike

_DEVICE_TYPES: tuple[Any, ...] = (backend.Device,)

leaf_handlers: dict[type, Callable[..., Any]] = {}
"""Other array-like leaves (typed keys): type -> function (value, put); put(array) transfers."""


def array_aval(shape: tuple, dtype: object, weak_type: bool, sharding: object) -> ShapedArray:
    """The aval of an array with this sharding: explicit mesh axes are part of the type."""
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
    """An array from a NumPy array; to the default device, uncommitted, without a sharding.

    On the CPU the array may share the memory of ``value`` unless ``copy``.
    """
    dtype = value.dtype
    canonical = _canonical.get(dtype)
    if canonical is None or canonical[0] is not config.enable_x64:
        canonical = (config.enable_x64, dtypes.canonicalize_dtype(dtype))
        _canonical[dtype] = canonical
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
    """The array with another sharding, committed. Shares buffers where nothing has to move."""
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
    """The array in another memory of its devices; parts that must move do so in the default one."""
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
    """The array with its parts in the order of these devices, which are its own."""
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


def _leaf(
    x: object, sharding: object, donate: bool, may_alias: bool | None, src: object = None
) -> Any:
    from weft.sharding.placement import device_put_p

    placed = _leaf_now(x, sharding, donate, may_alias, src)
    if state.trace is EVAL or sharding is None or isinstance(placed, Tracer):
        return placed

    return device_put_p.bind(placed, sharding=sharding, src=None)  # the program places it too


def _leaf_now(
    x: Any, sharding: Any, donate: bool, may_alias: bool | None, src: object = None
) -> Any:
    kind = type(x)
    spec = getattr(sharding, "spec", None)
    if spec is not None and spec.unreduced and not isinstance(x, Tracer):
        spec_now = getattr(getattr(x, "sharding", None), "spec", None)
        # Placed whole, then made a sum over devices.
        if spec_now is None or not spec_now.unreduced:
            from weft.sharding.explicit import reshard

            whole = sharding.with_spec(spec.update(unreduced=()))
            return reshard(_leaf(x, whole, donate, may_alias, src), sharding)
    if kind is ArrayImpl:
        if sharding is None:
            if may_alias is False:
                return x.copy()
            return x
        claimed = claim([x]) if donate else frozenset()
        try:
            return put_array(x, sharding, donate=donate, may_alias=may_alias)
        finally:
            unclaim(claimed)
    if kind is np.ndarray:
        return put_host(x, sharding, copy=may_alias is False)
    # The commonest kinds have been tested by now; what follows is asked in order of cost.
    if kind in (bool, int, float, complex):
        aval = typeof(x)
        return put_host(np.asarray(x, aval.dtype), sharding, weak_type=aval.weak_type)
    if isinstance(x, Tracer):
        from weft.sharding.explicit import staged_device_put

        return staged_device_put(x, sharding, src)
    for base in kind.__mro__:
        if base in leaf_handlers:
            return leaf_handlers[base](x, lambda a: _leaf(a, sharding, donate, may_alias, src))
    if isinstance(x, np.generic | np.ndarray):
        check_not_masked(x)
        return put_host(np.asarray(x), sharding, copy=may_alias is False)
    method = array_method(x)
    if method is not None:
        return _leaf(method(), sharding, donate, may_alias, src)
    if hasattr(x, "__array__"):
        return put_host(np.asarray(x), sharding)
    if isinstance(x, int | float | complex):  # of a subclass, such as an enumeration of integers
        return put_host(np.asarray(x, dtypes.scalar_dtype(x)), sharding, weak_type=True)
    raise TypeError(
        f"device_put: a value of type {kind.__module__}.{kind.__qualname__} is not an array or a "
        f"number: {x!r:.200}"
    )


def device_put(
    x: ArrayLike,
    device: object = None,
    *,
    src: object = None,
    donate: object = False,
    may_alias: object = None,
) -> Any:
    """Transfer a pytree of arrays to a device or sharding.

    Args:
      x: a pytree of arrays, NumPy arrays and Python scalars.
      device: a device, a sharding, a `weft.layout.Format`, a `P` over the mesh in context, or a
        pytree of these that is a prefix of ``x``. With None, host values go to the default device
        and arrays stay.
      src: where ``x`` is, given as ``device``; in a traced function, its cotangent goes back
        there. Outside of one, an array knows where it is.
      donate: True (or a prefix of bools) gives up the buffers of ``x``, which is then unusable.
      may_alias: False forces a copy; otherwise the result may share memory with ``x``, so do not
        change a NumPy array after putting it on the CPU.

    Returns:
      The same pytree of arrays; committed to its devices when ``device`` was given.

    Raises:
      ValueError: a dimension is not divisible, the rank does not fit, an axis is unknown.
      TypeError: a leaf is not an array, or ``device`` is not a place.

    Example:
        >>> import weft, numpy as np
        >>> weft.device_put(np.arange(3.0), weft.devices()[0])
        Array([0., 1., 2.], dtype=float32)
    """
    if guards.guarding:
        with guards.explicit("device_put"):
            return _put_tree(x, device, donate, may_alias, src)
    return _put_tree(x, device, donate, may_alias, src)


def _put_tree(x: object, device: Any, donate: Any, may_alias: Any, src: object = None) -> Any:
    kind = type(x)
    plain = type(donate) is bool and (may_alias is None or type(may_alias) is bool)
    if plain and src is None and (kind is np.ndarray or kind is ArrayImpl):
        if device is None:
            if kind is np.ndarray:
                return put_host(x, None, copy=may_alias is False)
            return _leaf(x, None, donate, may_alias)
        if isinstance(device, _DEVICE_TYPES):
            device = SingleDeviceSharding(device)
        if isinstance(device, Sharding):
            return _leaf(x, device, donate, may_alias)
    leaves, tree = pytree.flatten(x)
    places = spread("device", device, tree, is_place)
    donations = spread("donate", donate, tree)
    aliases = spread("may_alias", may_alias, tree, lambda v: v is None)
    _check_flags("donate", donations)
    _check_flags("may_alias", aliases)
    sources = spread("src", src, tree, is_place)
    pairs = zip(leaves, places, strict=True)
    targets = [None if p is None else _target(p, leaf) for leaf, p in pairs]
    as_source = lambda p: None if p is None or isinstance(p, Space) else as_sharding(p, "src")
    sources = list(map(as_source, sources))
    columns = zip(leaves, targets, donations, aliases, sources, strict=True)
    put = _formatted if LAYOUTS.in_use else _leaf
    out = [put(leaf, *rest) for leaf, *rest in columns]
    return tree.unflatten(out)


def _target(target: object, leaf: object) -> Any:
    if isinstance(target, Space):
        return _in_space(target, leaf)
    return target if is_format(target) else as_sharding(target, "device")


def _in_space(space: Space, leaf: object) -> Any:
    """Return where a value is, in another memory there."""
    if space.kind is None:
        return None
    if isinstance(leaf, ArrayImpl):
        return leaf.sharding.with_memory_kind(space.kind)
    if isinstance(leaf, Tracer):
        if space is Space.Device:
            return None
        raise NotImplementedError(
            "device_put: inside a traced function device must be a sharding for the host's memory: "
            "weft.NamedSharding(mesh, spec, memory_kind='pinned_host')"
        )
    return default_sharding().with_memory_kind(space.kind)


def is_format(value: dict | Device | NamedSharding) -> bool:
    if not LAYOUTS.in_use:
        return False
    from weft.sharding.memory_layout import Format

    return isinstance(value, Format)


def _formatted(
    x: Any, target: NamedSharding, donate: bool, may_alias: bool | None, src: object = None
) -> Any:
    """`_leaf` with a format as the target."""
    if not is_format(target):
        return _leaf(x, target, donate, may_alias, src)
    from weft.runtime.memory_layouts import put_formatted

    placed = put_formatted(x, target, lambda s: _leaf(x, s, donate, may_alias, src))
    if donate and placed is not x and type(x) is ArrayImpl:
        x.delete()
    return placed


def _check_flags(name: str, values: Sequence[Any]) -> None:
    for value in values:
        if not isinstance(value, bool | np.bool_ | None):
            raise TypeError(
                f"{name} must be True, False, or a pytree of these that is a prefix of x, got "
                f"{value!r:.100}"
            )


def is_place(value: object) -> bool:
    return (
        value is None
        or isinstance(value, (*_DEVICE_TYPES, PartitionSpec, Sharding, Space))
        or is_format(value)
    )


def spread(name: str, value: object, tree: PyTreeDef, is_leaf: Callable | None = None) -> list:
    """One entry for each leaf of ``tree`` from a value or a prefix pytree of values."""
    if value is None or isinstance(value, bool) or (is_leaf is not None and is_leaf(value)):
        return [value] * tree.num_leaves

    return broadcast_prefix(value, tree, name, is_leaf)


def device_get(x: ArrayLike) -> Any:
    """The pytree with every array as a NumPy array. Transfers run side by side.

    Random keys, which are no numbers, and traced values stay as they are.

    Example:
        >>> import weft
        >>> weft.device_get(weft.device_put({"a": 1.0}))
        {'a': array(1., dtype=float32)}
    """
    if guards.guarding:
        with guards.explicit("device_get"):
            return _get_tree(x)
    return _get_tree(x)


def _get_tree(x: object) -> Any:
    leaves, tree = pytree.flatten(x)
    for leaf in leaves:
        if isinstance(leaf, ArrayImpl) and leaf._sharding.is_fully_addressable:
            leaf.copy_to_host_async()
    return tree.unflatten([_to_host(v) for v in leaves])


def _to_host(x: ArrayLike) -> Any:
    """The value as a NumPy array; what is none, such as a key or a traced value, stays as it is."""
    if isinstance(x, Tracer):
        return x
    is_array = hasattr(x, "__array__") and not dtypes.is_extended(getattr(x, "dtype", None))
    return np.asarray(x) if is_array else x


def block_until_ready(x: ArrayLike) -> Any:
    """Wait until every array of the pytree has been computed, and return the pytree.

    >>> import weft
    >>> weft.block_until_ready({"sum": weft.numpy.arange(4).sum()})
    {'sum': Array(6, dtype=int32)}
    """
    if x.__class__ is ArrayImpl:
        check_alive(x)
        cast(Any, x).block_until_ready()
        return x
    arrays = [leaf for leaf in pytree.flatten(x)[0] if isinstance(leaf, ArrayImpl)]
    for array in arrays:
        check_alive(array)
    if arrays:
        try:
            _xla.batched_block_until_ready(arrays)
        except _xla.XlaRuntimeError as error:
            raise explained(error) from None
    return x


def copy_to_host_async(x: ArrayLike) -> Any:
    """Start copying every array of the pytree to the host, and return the pytree.

    >>> import weft
    >>> int(weft.copy_to_host_async(weft.numpy.arange(4).sum()))
    6
    """
    for leaf in pytree.flatten(x)[0]:
        if isinstance(leaf, ArrayImpl):
            leaf.copy_to_host_async()
    return x


def shard_argument(x: Any, sharding: Any, layout: Any = None) -> Any:
    """Place one argument of an executable for it; jaxlib calls this where a placement differs.

    layout: a `weft._xla.memory_layouts.ArgumentLayout`, or None for the platform's own.
    """
    if layout is not None:
        from weft.runtime.memory_layouts import relaid

        return relaid(shard_argument(x, sharding), layout.layout)
    if type(x) is ArrayImpl:
        if x._sharding is sharding:
            return x
        if x._committed and x._sharding.device_set != sharding.device_set:
            raise ValueError(
                f"an argument of type {describe(x)} is committed to {devices_text(x._sharding)}, "
                f"but the computation runs on {devices_text(sharding)}; move it with "
                "weft.device_put(x, sharding)"
            )
        return put_array(x, sharding)
    if type(x) is np.ndarray and x.dtype == dtypes.float0:
        x = np.zeros(x.shape, np.bool_)  # no device holds values without bits
    return _leaf_now(x, sharding, False, None)


def constant_at(x: Any, sharding: object) -> Any:
    """Place a program's constant where the program reads it, so that no call has to move it.

    Constants follow the program also to devices they are not committed to.
    """
    if type(x) is not ArrayImpl:
        return shard_argument(x, sharding)
    if (
        x.is_deleted()
        or not x.is_fully_addressable
        or (x._sharding is sharding and not LAYOUTS.in_use)
    ):
        return x  # calls say what is wrong with it
    x = put_array(x, sharding)
    if LAYOUTS.in_use:
        from weft.runtime.memory_layouts import relaid

        x = relaid(x)
    return x


def devices_text(sharding: Any) -> str:
    """The devices of a sharding for messages: ``cpu devices 0..7``."""
    devices = sharding._devices_in_order
    ids = [d.id for d in devices]
    shown = f"{ids[0]}" if len(ids) == 1 else ", ".join(map(str, ids))
    if len(ids) > 2 and ids == list(range(ids[0], ids[0] + len(ids))):
        shown = f"{ids[0]}..{ids[-1]}"
    return f"{devices[0].platform} device{'s' * (len(ids) > 1)} {shown}"


aval_of[ArrayImpl] = operator.attrgetter("aval")

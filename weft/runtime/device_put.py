"""device_put, device_get and their kin: trees of values to devices and shardings, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weft._xla import arrays as _xla
from weft._xla import guards, pytree
from weft.core import dtypes
from weft.core.memory_space import Space
from weft.core.state import LAYOUTS, state
from weft.core.trace import EVAL, Tracer, array_method, check_not_masked, typeof
from weft.core.tree import broadcast_prefix
from weft.runtime import backend
from weft.runtime.array import ArrayImpl
from weft.runtime.host_calls import explained
from weft.runtime.shared_buffers import check_alive, claim, describe, unclaim
from weft.runtime.transfers import default_sharding, devices_text, put_array, put_host
from weft.sharding.named import NamedSharding, Sharding, is_format
from weft.sharding.physical import SingleDeviceSharding, as_sharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike

_DEVICE_TYPES: tuple[Any, ...] = (backend.Device,)

leaf_handlers: dict[type, Callable[..., Any]] = {}
"""Other array-like leaves (typed keys): type -> function (value, put); put(array) transfers."""


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
    """Return one entry for each leaf of ``tree`` from a value or a prefix pytree of values."""
    if value is None or isinstance(value, bool) or (is_leaf is not None and is_leaf(value)):
        return [value] * tree.num_leaves

    return broadcast_prefix(value, tree, name, is_leaf)


def device_get(x: ArrayLike) -> Any:
    """Return the pytree with every array as a NumPy array. Transfers run side by side.

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
    """Return the value as a NumPy array; others, such as keys or traced values, as they are."""
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

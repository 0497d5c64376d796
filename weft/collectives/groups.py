# Tests: tests/collectives/test_table.py
"""Axis groups: the devices that a collective communicates among, also under vmap.

A collective has one parameter `over`, an `AxisGroup`: axis names, their sizes and the groups. vmap
of a collective over one of its own axes is one algorithm for all collectives: `split` says which
members of each group live in one device's batch, and which devices have to talk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_to_dim, moveaxis, reshape, transpose
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import interned, on_clear
from weft.core.errors import AxisNameError, names_text
from weft.core.primitive import PRIMITIVES
from weft.core.state import AxisEntry, axis_entry, state
from weft.core.trace import Tracer, typeof
from weft.ops.dynamic_slicing import dynamic_index_in_dim, index_take
from weft.ops.elementwise_api import convert
from weft.ops.slicing import slice_in_dim
from weft.sharding.mesh import context_mesh

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Groups = tuple[tuple[int, ...], ...]


class AxisGroup:
    """Named axes, their sizes, and a partition of their indices into groups. Interned.

    names: the axes, major first. An index of the axis group is the row-major position along them.
    groups: tuples of indices, in rank order, or None for one group of all. tracked: the axes whose
    manual-axis state is part of types (those of a shard_map with check_vma=True).
    """

    __slots__ = ("_memo", "group_size", "groups", "names", "size", "sizes", "tracked")
    _interned: dict[tuple, AxisGroup] = interned({})

    names: tuple
    sizes: tuple[int, ...]
    groups: Groups | None
    tracked: tuple
    size: int
    group_size: int | None
    _memo: dict[Any, Any]

    def __new__(
        cls, names: tuple, sizes: tuple, groups: Groups | None = None, tracked: tuple = ()
    ) -> AxisGroup:
        key = (names, sizes, groups, tracked)
        self = cls._interned.get(key)
        if self is None:
            self = object.__new__(cls)
            self.names, self.sizes, self.groups, self.tracked = key
            self.size = math.prod(sizes)
            lengths = {len(g) for g in groups} if groups is not None else {self.size}
            self.group_size = lengths.pop() if len(lengths) == 1 else None  # None: unequal
            self._memo = {}
            cls._interned[key] = self
        return self

    def __reduce__(self) -> tuple:
        return AxisGroup, (self.names, self.sizes, self.groups, self.tracked)

    @property
    def typed(self) -> tuple:
        """The axes whose state the collective changes: in groups, values stay varying."""
        return self.tracked if self.groups is None else ()

    @property
    def all_groups(self) -> Groups:
        return self.groups if self.groups is not None else (tuple(range(self.size)),)

    def only(self, names: Sequence[Any]) -> AxisGroup:
        """Return the axis group over some of the axes, as one group."""
        kept = tuple(n for n in self.names if n in names)
        sizes = dict(zip(self.names, self.sizes, strict=True))
        return AxisGroup(
            kept,
            tuple(sizes[n] for n in kept),
            None,
            tuple(n for n in self.tracked if n in kept),
        )

    def whole(self) -> AxisGroup:
        """Return the axis group over the same axes, as one group."""
        return AxisGroup(self.names, self.sizes, None, self.tracked)

    def untracked(self) -> AxisGroup:
        """Return the axis group without states of axes: for lowering, where types are checked."""
        return AxisGroup(self.names, self.sizes, self.groups)

    def memo(self, key: str | tuple, make: Callable) -> Any:
        try:
            return self._memo[key]
        except KeyError:
            pass  # what make() raises is no consequence of this
        value = self._memo[key] = make()
        return value

    def __repr__(self) -> str:
        text = ",".join(map(str, self.names))
        if self.groups is not None:
            text += f" in {[list(g) for g in self.groups]}".replace(" ", "").replace(
                "in", " in ", 1
            )
        return text


@on_clear
def _forget_memos() -> None:
    """Drop memos of axis groups: one that refers to its own group would never be freed."""
    for axis_group in AxisGroup._interned.values():
        axis_group._memo.clear()


def named_axes(params: dict[str, Any]) -> tuple:
    """Return the axes a collective communicates over: the `named_axes` rule of all of them."""
    return params["over"].names


# From the user's arguments ------------------------------------------------------------------


def axis_group_of(api: str, axis_name: Any, groups: object = None) -> AxisGroup:
    """Return the axis group that a public function's `axis_name` and `axis_index_groups` name."""
    if groups is None and axis_name.__class__ is str:
        entry = state.axes.get(axis_name)
        if entry is not None:
            axis_group = entry.axis_group
            if axis_group is None:
                names = (axis_name,)
                tracked: tuple = names if entry.tracked else ()
                axis_group = entry.axis_group = AxisGroup(names, (entry.size,), None, tracked)
            return axis_group
    names = axis_names(api, axis_name)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise AxisNameError(f"{api}: axis_name {axis_name!r} names axis {name!r} twice")
    entries = [entry_of(name) for name in names]
    sizes = tuple(e.size for e in entries)
    tracked = tuple(e.name for e in entries if e.tracked)
    if groups is not None:
        groups = check_groups(api, names, math.prod(sizes), groups)
    return AxisGroup(names, sizes, groups, tracked)


def entry_of(name: str) -> AxisEntry:
    """Return the axis in scope; a mesh axis that is not manual is an error that says so."""
    try:
        return axis_entry(name)
    except NameError as error:
        if isinstance(name, int):
            raise AxisNameError(
                f"{error} Array dimensions among the names are for psum, pmean, pmax and pmin."
            ) from None
        mesh = context_mesh()
        if mesh is None or name not in mesh.shape:
            raise
        raise AxisNameError(
            f"{error} {name!r} is a mesh axis, but not manual here: collectives communicate along "
            "it inside a shard_map whose axis_names contain it (or are left out)."
        ) from None


def axis_names(api: str, axis_name: str | tuple) -> tuple:
    """Return one name or a sequence of names, as a tuple."""
    if isinstance(axis_name, set | frozenset):
        raise AxisNameError(
            f"{api}: axis_name must be a name or a tuple of names, not a set: their order gives "
            f"the order of the devices; got {axis_name!r}"
        )
    names = tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)
    for name in names:
        if name is None:
            raise AxisNameError(f"{api}: axis_name must be the name of an axis, got {axis_name!r}")
        try:
            hash(name)
        except TypeError:
            raise AxisNameError(
                f"{api}: axis_name must be a name or a tuple of names, got {axis_name!r:.100}; a "
                "name is hashable, usually a string"
            ) from None
    return names


def check_groups(api: str, names: tuple, size: int, groups: Any) -> Groups | None:
    """axis_index_groups as tuples; they must contain every index of the axis exactly once."""
    axis = names_text(names)
    try:
        result = tuple(tuple(int(i.__index__()) for i in g) for g in listed(groups))
    except (TypeError, AttributeError):
        raise TypeError(
            f"{api}: axis_index_groups must be a list of lists of ints, got {groups!r}"
        ) from None
    flat = [i for g in result for i in g]
    if sorted(flat) != list(range(size)) or not all(result):
        missing = sorted(set(range(size)) - set(flat))
        repeated = sorted({i for i in flat if flat.count(i) > 1})
        outside = sorted({i for i in flat if not 0 <= i < size})
        faults = [
            f"{label} {', '.join(map(str, indices))}"
            for label, indices in (
                ("missing", missing),
                ("repeated", repeated),
                ("out of range", outside),
            )
            if indices
        ]
        if not all(result):
            faults.append("an empty group")
        raise ValueError(
            f"{api}: axis_index_groups {[list(g) for g in result]} must contain every index of "
            f"axis {axis} (size {size}) exactly once; {'; '.join(faults)}"
        )
    return None if result == (tuple(range(size)),) else result


def listed(x: Sequence) -> Any:
    """Return arrays of indices (groups, permutations) as nested lists; anything else as it is."""
    if isinstance(x, Tracer) or not hasattr(x, "__array__"):
        return x
    return np.asarray(x).tolist()


def equal_groups(api: str, axis_group: AxisGroup) -> int:
    """Return the size of the groups, for collectives whose result's shape depends on it."""
    if axis_group.group_size is None:
        sizes = [len(g) for g in axis_group.all_groups]
        raise ValueError(
            f"{api}: axis_index_groups must have equal sizes, because the result's shape "
            "depends on "
            f"them; got groups of sizes {sizes}. Use equal groups (psum, pmax and pmin take "
            "unequal ones)"
        )
    return axis_group.group_size


def index_in_group(axis_group: AxisGroup) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each index's group of the axis group, and its rank in the group."""

    def make() -> tuple:
        number = np.zeros(axis_group.size, np.int64)
        rank = np.zeros(axis_group.size, np.int64)
        for k, group in enumerate(axis_group.all_groups):
            members = list(group)
            number[members], rank[members] = k, np.arange(len(members))
        return number, rank

    return axis_group.memo("index_in_group", make)


# To StableHLO -------------------------------------------------------------------------------


def device_rows(ctx: RuleContext, axis_group: AxisGroup) -> np.ndarray:
    """Return positions of devices in the program: a row for each setting of the other mesh axes.

    A row's entries follow the axis group's index.
    """
    mesh = ctx.module.mesh
    key = ("rows", mesh)

    def make() -> np.ndarray:
        ids = np.arange(mesh.size).reshape(mesh.axis_sizes)
        positions = [mesh.axis_names.index(n) for n in axis_group.names]
        others = [i for i in range(ids.ndim) if i not in positions]
        return ids.transpose(*others, *positions).reshape(-1, axis_group.size)

    return axis_group.memo(key, make)


def replica_groups(ctx: RuleContext, axis_group: AxisGroup) -> np.ndarray:
    """Program-wide groups of device positions; short groups are padded with -1."""

    def make() -> np.ndarray:
        rows = device_rows(ctx, axis_group)
        width = max(len(g) for g in axis_group.all_groups)
        groups = [[int(row[i]) for i in g] for row in rows for g in axis_group.all_groups]
        return np.array([g + [-1] * (width - len(g)) for g in groups], np.int64)

    return axis_group.memo(("groups", ctx.module.mesh), make)


def communicates(axis_group: AxisGroup) -> bool:
    """Return whether any group has more than one member."""
    return axis_group.group_size != 1


def empty(ctx: RuleContext) -> Any:
    """Return the result for an operand without elements, which StableHLO's collectives refuse."""
    aval = getattr(ctx.avals_out[0], "value", ctx.avals_out[0])
    return ctx.splat(0, aval.shape, aval.dtype)


def groups_attr(ctx: Any, axis_group: AxisGroup, *, ranked: bool = True) -> Any:
    """replica_groups of a collective, made once for an axis group and a mesh.

    ranked: whether the order in a group matters. Else groups are sorted, so that sums over the
    same axes in another order are recognized as alike.
    """

    def make() -> Any:
        groups = replica_groups(ctx, axis_group)
        if not ranked:
            rows = [sorted(row, key=lambda i: (i < 0, i)) for row in groups.tolist()]
            groups = np.array(sorted(rows))
        return ctx.int_matrix(groups)

    return axis_group.memo(("groups attribute", ctx.module.mesh, ranked), make)


def collective_attrs(
    ctx: RuleContext, axis_group: AxisGroup, *, ranked: bool = True
) -> dict[str, Any]:
    """replica_groups, channel_handle and use_global_device_ids of a collective."""
    return {
        "replica_groups": groups_attr(ctx, axis_group, ranked=ranked),
        "channel_handle": channel(ctx),
        "use_global_device_ids": ctx.attr("unit"),
    }


def channel(ctx: RuleContext) -> Any:
    return ctx.attr(f"#stablehlo.channel_handle<handle = {ctx.module.next_channel()}, type = 1>")


def as_bytes(ctx: RuleContext, over: AxisGroup) -> bool:
    """Return whether a collective has to send its elements as bytes.

    XLA:CPU writes integers of less than 8 bits past the end of a collective's result, or refuses
    them (quirks.NARROW_COLLECTIVES).
    """
    small = ctx.avals_in[0].dtype.name in dtypes.int4_names
    return small and communicates(over) and "cpu" in ctx.module.platforms


def byte_wise(name: str) -> Callable[[Callable], Callable]:
    """Decorate the lowering of the primitive `name`: `as_bytes` where that is needed."""

    def wrap(lower: Callable) -> Callable:
        def lower_collective(
            ctx: RuleContext, x: object, *, over: AxisGroup, **params: object
        ) -> Any:
            if not as_bytes(ctx, over):
                return lower(ctx, x, over=over, **params)
            aval = ctx.avals_in[0]
            wide = np.dtype(np.int8 if dtypes.is_signed(aval.dtype) else np.uint8)

            def by_bytes(x: object) -> Any:
                sent = PRIMITIVES[name].bind(convert(x, wide), over=over.untracked(), **params)
                return convert(sent, aval.dtype)

            return ctx.lower_fun(by_bytes, x, avals=[ShapedArray(aval.shape, aval.dtype)])[0]

        return lower_collective

    return wrap


def needs_shardy(ctx: RuleContext, api: str) -> None:
    """Refuse what XLA's partitioner cannot do or crashes on (quirks.GSPMD_COLLECTIVES)."""
    module = ctx.module
    if module.use_shardy or module.mesh is None:
        return
    free = [n for n, size in module.mesh.shape.items() if size > 1 and n not in module.manual_axes]
    if free:
        raise ValueError(
            f"{api} inside a shard_map that leaves mesh axes {', '.join(map(repr, free))} to the "
            "partitioner needs Shardy; set weft.config.use_shardy = True, or make all axes manual"
        )


# Under vmap ---------------------------------------------------------------------------------


class Split:
    """An axis group one of whose axes is a batch dimension of size n.

    Every device i (an index over the remaining `names`, of which there are m) holds n members
    (i, j). Devices that share a group form a component; all components have `c` devices and
    communicate by the axis group `rest`. Per device and batch index:

    member[i, j]: the member's index in the whole axis group. slot[i, j]: which of the component's
    groups it belongs to, of at most `slots`. rank[i, j]: its rank in the group.
    place[i]: the device's rank in its component.
    """

    __slots__ = (
        "c",
        "components",
        "device",
        "devices",
        "local",
        "m",
        "member",
        "n",
        "number",
        "place",
        "rank",
        "rest",
        "slot",
        "slots",
    )

    def __init__(self, axis_group: AxisGroup, name: str) -> None:
        p = axis_group.names.index(name)
        names = axis_group.names[:p] + axis_group.names[p + 1 :]
        sizes = axis_group.sizes[:p] + axis_group.sizes[p + 1 :]
        tracked = tuple(t for t in axis_group.tracked if t != name)
        self.n, self.m = axis_group.sizes[p], math.prod(sizes)
        members = np.arange(axis_group.size).reshape(axis_group.sizes)
        self.member = np.moveaxis(members, p, -1).reshape(self.m, self.n)
        # The device and batch index of every member of the whole axis group.
        self.device, self.local = np.empty((2, axis_group.size), np.int64)
        self.device[self.member] = np.arange(self.m)[:, None]
        self.local[self.member] = np.arange(self.n)
        number, rank = index_in_group(axis_group)
        self.rank = rank[self.member]
        self.number = number[self.member]
        self.components = self._components(axis_group)
        self.c = len(self.components[0])
        groups = None if len(self.components) == 1 else tuple(map(tuple, self.components))
        self.rest = AxisGroup(names, sizes, groups, tracked)
        self.devices = AxisGroup(names, sizes, None, tracked)
        self.place = np.zeros(self.m, np.int64)
        self.slot = np.zeros((self.m, self.n), np.int64)
        self.slots = 1
        for component in self.components:
            self.place[component] = np.arange(self.c)
            numbers, slot = np.unique(self.number[component].ravel(), return_inverse=True)
            self.slot[component] = slot.reshape(self.c, self.n)
            self.slots = max(self.slots, len(numbers))

    def _components(self, axis_group: AxisGroup) -> list[list[int]]:
        """Return devices connected by groups; all as one component if those differ in size."""
        root = list(range(self.m))

        def find(i: int) -> int:
            while root[i] != i:
                i = root[i]
            return i

        for group in axis_group.all_groups if axis_group.size else ():
            first, *others = (find(i) for i in np.unique(self.device[list(group)]).tolist())
            for other in map(find, others):
                root[max(first, other)] = first = min(first, other)
        members_by_root: dict[int, list[int]] = {}
        for i in range(self.m):
            members_by_root.setdefault(find(i), []).append(i)
        components = list(members_by_root.values())
        if len({len(c) for c in components}) > 1:
            return [list(range(self.m))]
        return components

    def row(self, table: np.ndarray) -> Any:
        """Return this device's row of a table with one row for each device."""
        if (table == table[0]).all():
            return table[0]
        from weft.collectives.axis import axis_index_p

        index = axis_index_p.bind(over=self.devices)
        return dynamic_index_in_dim(table.astype(np.int32), index, 0, keepdims=False)

    def take(self, x: Any, table: np.ndarray) -> Any:
        """Return those rows of x that this device's row of the table lists."""
        index = self.row(table)
        if isinstance(index, np.ndarray):
            return take_static(x, index)

        return index_take(x, [index], [0])


def split(axis_group: AxisGroup, name: str | None) -> Split:
    """Return the group as seen along one of its axes, which is a mapped one."""
    assert name is not None, "only named axes are part of a group"
    return axis_group.memo(("split", name), lambda: Split(axis_group, name))


def take_static(x: ArrayLike, index: np.ndarray) -> Any:
    """Take rows of x by constant indices: as it is, a slice or a transposition if that does it."""
    shape = typeof(x).shape
    size, count = shape[0], len(index)
    if not count:
        return slice_in_dim(x, 0, 0)
    start = int(index[0])
    if (index == np.arange(start, start + count)).all():
        return x if count == size else slice_in_dim(x, start, start + count)
    if count == size:
        grid = np.arange(size)
        for a in range(2, size):
            if size % a == 0 and (grid.reshape(a, -1).T.ravel() == index).all():
                rest = tuple(range(2, len(shape) + 1))
                x = transpose(reshape(x, (a, size // a, *shape[1:])), (1, 0, *rest))
                return reshape(x, shape)
    return index_take(x, [index.astype(np.int32)], [0])


def batch_in_front(x: ArrayLike, dim: int | None, size: int) -> Any:
    """Return the operand with its batch dimension in front, broadcast if it has none."""
    return broadcast_to_dim(x, 0, size) if dim is None else moveaxis(x, dim, 0)

# Tests: tests/partition/test_localize.py
"""Builds StableHLO operations at one insertion point, for the localization rules.

The local program runs as N *replicas* of one partition: XLA then has nothing left to partition. In
partition mode it would run once more and reject `partition_id` (quirks.PARTITION_ID). So
collectives carry no channel, groups name replicas, and the device's number is `replica_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, DeviceMesh, Numbers
from weft.partition.walk import WHY, combine_by

if TYPE_CHECKING:
    from weft.partition.local_value import LocalValue


class Emitter:
    """Creates operations before `ip` at `loc`; index values live at the function's entry.

    Everything that depends on the device (coordinates along mesh axes, looked-up offsets) is made
    once, before the first operation of the function, so that any region below can use it.
    """

    def __init__(self, mesh: DeviceMesh, entry: ir.Block, before: ir.Operation | None = None):
        self.mesh = mesh
        self.why = ""  # the reason given to collectives made from here on
        self.apart = False  # whether some devices may not come to the operations made from here on
        self._types: dict[Any, ir.Type] = {}
        self._attributes: dict[Any, ir.Attribute] = {}
        # Values that were moved, for each block that is being localized: by the value that they
        # were moved from first, which `roots` gives for each of them.
        self.scopes: list[dict[ir.Value, list[LocalValue]]] = [{}]
        self.roots: dict[ir.Value, LocalValue] = {}
        self.idle: dict[ir.Value, int] = {}  # uses by moves that may be left out
        self._tentative: list[ir.Value] | None = None
        first = entry.owner if before is None else before
        self.context = first.context
        self.loc = first.location
        with self.context, ir.Location.unknown():
            self.i32 = ir.IntegerType.get_signless(32)
            self.i64 = ir.IntegerType.get_signless(64)
            self.i1 = ir.IntegerType.get_signless(1)
            if before is None:
                self.ip = ir.InsertionPoint.at_block_begin(entry)
                before = self.anchor = self.const(0).owner
        self.ip = self.entry_ip = ir.InsertionPoint(before)
        self._entry_values: dict[Any, ir.Value] = {}

    @classmethod
    def before(cls, op: ir.Operation, mesh: DeviceMesh) -> Emitter:
        """Create everything in front of an operation of a local program."""
        return cls(mesh, op.block, op)

    # -- copies --------------------------------------------------------------------------------

    def sources(self, x: LocalValue, paid: bool = False) -> list[LocalValue]:
        """Yield a value, and the same contents in other layouts, where earlier moves left them.

        Args:
          paid: only those that are used for certain, so that making them costs nothing more.
        """
        if not isinstance(x.value, ir.Value):  # a type only
            return [x]
        root = self.roots.get(x.value, x)
        moved = [copy for scope in self.scopes for copy in scope.get(root.value, ())]
        if paid:
            idle = self.idle
            moved = [c for c in moved if len(list(c.value.uses)) > idle.get(c.value, 0)]
        return [x, *(c for c in (root, *moved) if c.value != x.value)]

    def remember(self, x: LocalValue, moved: LocalValue, uses: int) -> None:
        """Note that a value was moved, so that the next user of it finds that.

        Args:
          uses: how many uses of the value the move has added.
        """
        root = self.roots.get(x.value, x)
        self.roots[moved.value] = root
        self.scopes[-1].setdefault(root.value, []).append(moved)
        if self._tentative is not None:
            self.idle[x.value] = self.idle.get(x.value, 0) + uses
            self._tentative.append(moved.value)

    @contextmanager
    def tentatively(self) -> Iterator[None]:
        """Emit moves that may be left out, as who uses the result may prefer another layout."""
        self._tentative = []
        yield
        self.idle |= {value: len(list(value.uses)) for value in self._tentative}
        self._tentative = None

    # -- types and attributes ------------------------------------------------------------------

    def type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        key = (tuple(shape), element)
        cached = self._types.get(key)
        if cached is None:
            cached = self._types[key] = ir.RankedTensorType.get(
                list(shape), element, loc=ir.Location.unknown(self.context)
            )
        return cached

    def attr(self, text: str) -> ir.Attribute:
        cached = self._attributes.get(text)
        if cached is None:
            cached = self._attributes[text] = ir.Attribute.parse(text, context=self.context)
        return cached

    def i64s(self, values: Sequence[int]) -> ir.Attribute:
        return ir.DenseI64ArrayAttr.get([int(v) for v in values], context=self.context)

    def i64_attr(self, value: int) -> ir.Attribute:
        return ir.IntegerAttr.get(self.i64, int(value))

    def table(self, rows: np.ndarray) -> ir.Attribute:
        """Return an integer matrix as a dense attribute (replica groups, paddings, pairs)."""
        rows = np.ascontiguousarray(rows, np.int64)
        return ir.DenseIntElementsAttr.get(rows, type=self.i64, context=self.context)

    # -- operations ----------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        return ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=attributes or {},
            regions=regions,
            loc=self.loc,
            ip=self.ip,
        )

    def make(
        self, name: str, operands: Sequence[ir.Value], result: ir.Type, **attrs: object
    ) -> ir.Value:
        return self.op(name, operands, [result], attrs).results[0]

    def shaped(
        self, name: str, operands: Sequence[ir.Value], shape: Sequence[int], **attrs: object
    ) -> ir.Value:
        """Make an operation whose result has the elements of its first operand in a shape."""
        return self.make(name, operands, self.type(shape, operands[0].type.element_type), **attrs)

    def const(self, value: int, element: ir.Type | None = None) -> ir.Value:
        """Return a rank-0 constant; the element type is i32 unless told."""
        element = element or self.i32
        return self.splat(value, (), element)

    def splat(self, value: int, shape: Sequence[int], element: ir.Type) -> ir.Value:
        return self.constant_text(_literal(value, element), self.type(shape, element))

    def constant_text(self, text: str, type: ir.Type) -> ir.Value:
        """Return a constant from the text of its elements."""
        source = f"%0 = stablehlo.constant dense<{text}> : {type}"
        if isinstance(type.element_type, ir.ComplexType):
            # Through text: quirks.COMPLEX_ELEMENTS.
            constant = ir.Operation.parse(source, context=self.context)
            self.ip.insert(constant)
            return constant.results[0]
        return self.constant(ir.Attribute.parse(f"dense<{text}> : {type}", context=self.context))

    def constant(self, attribute: ir.Attribute) -> ir.Value:
        return self.make("stablehlo.constant", (), attribute.type, value=attribute)

    def array(self, values: np.ndarray) -> ir.Value:
        """Return an i32 array constant."""
        values = np.ascontiguousarray(values, np.int32)
        return self.constant(
            ir.DenseIntElementsAttr.get(values, type=self.i32, context=self.context)
        )

    def binary(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.make(f"stablehlo.{name}", (a, b), a.type)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.binary("add", a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.binary("subtract", a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.binary("multiply", a, b)

    def compare(self, a: ir.Value, b: ir.Value, direction: str) -> ir.Value:
        kind = self.type(a.type.shape, self.i1)
        how = self.attr(f"#stablehlo<comparison_direction {direction}>")
        return self.make("stablehlo.compare", (a, b), kind, comparison_direction=how)

    def within(self, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
        """Return whether low <= value < high, in each element."""
        return self.binary("and", self.compare(value, low, "GE"), self.compare(value, high, "LT"))

    def select(self, predicate: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.make("stablehlo.select", (predicate, a, b), a.type)

    def clamp(self, low: int, value: ir.Value, high: int) -> ir.Value:
        element = value.type.element_type
        bounds = [self.const(x, element) for x in (low, high)]
        return self.make("stablehlo.clamp", (bounds[0], value, bounds[1]), value.type)

    def convert(self, value: ir.Value, element: ir.Type) -> ir.Value:
        if value.type.element_type == element:
            return value
        return self.make("stablehlo.convert", (value,), self.type(value.type.shape, element))

    def iota(self, shape: Sequence[int], dim: int, element: ir.Type | None = None) -> ir.Value:
        kind = self.type(shape, element or self.i32)
        return self.make("stablehlo.iota", (), kind, iota_dimension=self.i64_attr(dim))

    def broadcast(
        self, value: ir.Value, shape: Sequence[int], dims: Sequence[int] = ()
    ) -> ir.Value:
        if list(value.type.shape) == list(shape):
            return value
        to = self.i64s(dims)
        return self.shaped("stablehlo.broadcast_in_dim", (value,), shape, broadcast_dimensions=to)

    def keep_in_memory(self, value: ir.Value) -> ir.Value:
        """Keep a value from being fused with, or folded into, what reads it."""
        return self.make("stablehlo.optimization_barrier", [value], value.type)

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        if list(value.type.shape) == list(shape):
            return value
        return self.shaped("stablehlo.reshape", (value,), shape)

    def transpose(self, value: ir.Value, permutation: Sequence[int]) -> ir.Value:
        shape = [value.type.shape[i] for i in permutation]
        order = self.i64s(permutation)
        return self.shaped("stablehlo.transpose", (value,), shape, permutation=order)

    def slice(self, value: ir.Value, dim: int, start: int, limit: int, stride: int = 1) -> ir.Value:
        """Return a static slice of one dimension."""
        shape = list(value.type.shape)
        if (start, limit, stride) == (0, shape[dim], 1):
            return value
        starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        shape[dim] = -(-(limit - start) // stride)
        return self.shaped(
            "stablehlo.slice",
            (value,),
            shape,
            start_indices=self.i64s(starts),
            limit_indices=self.i64s(limits),
            strides=self.i64s(strides),
        )

    def pad(
        self,
        value: ir.Value,
        dim: int,
        low: int,
        high: int,
        fill: ir.Value | None = None,
        interior: int = 0,
    ) -> ir.Value:
        """Pad one dimension, with zeros unless told; negative amounts cut."""
        if low == 0 and high == 0 and interior == 0:
            return value
        shape = list(value.type.shape)
        rank = len(shape)
        shape[dim] += low + high + interior * max(shape[dim] - 1, 0)
        if fill is None:
            fill = self.const(0, value.type.element_type)

        def one(amount: int) -> ir.Attribute:
            return self.i64s([amount if i == dim else 0 for i in range(rank)])

        return self.shaped(
            "stablehlo.pad",
            (value, fill),
            shape,
            edge_padding_low=one(low),
            edge_padding_high=one(high),
            interior_padding=one(interior),
        )

    def concatenate(self, values: Sequence[ir.Value], dim: int) -> ir.Value:
        if len(values) == 1:
            return values[0]
        shape = list(values[0].type.shape)
        shape[dim] = sum(v.type.shape[dim] for v in values)
        return self.shaped("stablehlo.concatenate", values, shape, dimension=self.i64_attr(dim))

    def reduce(self, value: ir.Value, init: ir.Value, dim: int, combiner: str) -> ir.Value:
        """Reduce one dimension with a StableHLO binary operation."""
        shape = [s for i, s in enumerate(value.type.shape) if i != dim]
        element = value.type.element_type
        kind, attributes = self.type(shape, element), {"dimensions": self.i64s([dim])}
        op = self.op("stablehlo.reduce", (value, init), [kind], attributes, regions=1)
        combine_by(op, combiner, element)
        return op.results[0]

    def dynamic_slice(self, value: ir.Value, dim: int, start: ir.Value, size: int) -> ir.Value:
        """Return a slice of one dimension at a run-time offset (rank 0)."""
        shape = list(value.type.shape)
        if shape[dim] == size:
            return value
        zero = self.const(0, start.type.element_type)
        starts = [start if i == dim else zero for i in range(len(shape))]
        shape[dim] = size
        return self.slice_at(value, starts, shape)

    def slice_at(
        self, value: ir.Value, starts: Sequence[ir.Value], sizes: Sequence[int]
    ) -> ir.Value:
        """Return a slice of all dimensions at run-time offsets."""
        operands, by_dim = (value, *starts), self.i64s(sizes)
        return self.shaped("stablehlo.dynamic_slice", operands, sizes, slice_sizes=by_dim)

    def dynamic_update(
        self, value: ir.Value, update: ir.Value, dim: int, start: ir.Value
    ) -> ir.Value:
        zero = self.const(0, start.type.element_type)
        starts = [start if i == dim else zero for i in range(len(value.type.shape))]
        return self.make("stablehlo.dynamic_update_slice", (value, update, *starts), value.type)

    # -- the device's place ----------------------------------------------------------------------

    def _at_entry(self, key: str | tuple, build: Callable) -> ir.Value:
        cached = self._entry_values.get(key)
        if cached is None:
            outside, self.ip = self.ip, self.entry_ip
            location, self.loc = self.loc, ir.Location.unknown(self.context)
            try:
                cached = self._entry_values[key] = build()
            finally:
                self.ip, self.loc = outside, location
        return cached

    def position(self) -> ir.Value:
        """Return the device's mesh position, i32."""

        def build() -> ir.Value:
            unsigned = ir.IntegerType.get_unsigned(32, context=self.context)
            pid = self.make("stablehlo.replica_id", (), self.type((), unsigned))
            pid = self.convert(pid, self.i32)
            if self.mesh.device_ids is None:
                return pid
            where = self.array(self.mesh.positions(np.arange(self.mesh.size)))
            return self.reshape(self.dynamic_slice(where, 0, pid, 1), ())

        return self._at_entry("position", build)

    def coordinate(self, atoms: Atoms) -> ir.Value:
        """Return the device's linear coordinate along `atoms`, i32."""

        def build() -> ir.Value:
            total = None
            for size, stride in _merged(self.mesh, atoms):
                digit = self.position()
                if stride > 1:
                    digit = self.binary("divide", digit, self.const(stride))
                if stride * size < self.mesh.size:
                    digit = self.binary("remainder", digit, self.const(size))
                total = (
                    digit if total is None else self.add(self.mul(total, self.const(size)), digit)
                )
            return self.const(0) if total is None else total

        return self._at_entry(atoms, build)

    def lookup(self, atoms: Atoms, values: Numbers) -> ir.Value:
        """`values[coordinate along atoms]`, i32: arithmetic where linear, else a table."""
        values = [int(v) for v in values]

        def build() -> ir.Value:
            first = values[0]
            step = values[1] - first if len(values) > 1 else 0
            if all(v == first + step * k for k, v in enumerate(values)):
                if step == 0:
                    return self.const(first)
                scaled = self.coordinate(atoms)
                if step != 1:
                    scaled = self.mul(scaled, self.const(step))
                return self.add(scaled, self.const(first)) if first else scaled
            table = self.array(np.array(values))
            return self.reshape(self.dynamic_slice(table, 0, self.coordinate(atoms), 1), ())

        return self._at_entry((atoms, tuple(values)), build)

    def first_index(self, layout: AxisLayout, dim: int) -> ir.Value:
        """Return the global index of the device's first element of a dimension, i32."""
        size = layout.local[dim]
        return self.lookup(layout.dims[dim], [k * size for k in range(layout.counts[dim])])

    # -- collectives -----------------------------------------------------------------------------

    def _noted(self, attributes: dict[str, ir.Attribute]) -> dict[str, ir.Attribute]:
        """Return the attributes, with the reason for the collective where reasons are kept."""
        if self.why:
            attributes[WHY] = ir.StringAttr.get(self.why, self.context)
        return attributes

    def groups(self, atoms: Atoms) -> ir.Attribute:
        key = ("groups", atoms)
        if key not in self._attributes:
            self._attributes[key] = self.table(self.mesh.groups(atoms))
        return self._attributes[key]

    def all_reduce(self, value: ir.Value, atoms: Atoms, kind: str) -> ir.Value:
        attributes = self._noted({"replica_groups": self.groups(atoms)})
        op = self.op("stablehlo.all_reduce", (value,), [value.type], attributes, regions=1)
        combine_by(op, f"stablehlo.{kind}", value.type.element_type)
        return op.results[0]

    def reduce_scatter(self, value: ir.Value, atoms: Atoms, dim: int, kind: str) -> ir.Value:
        shape = list(value.type.shape)
        shape[dim] //= self.mesh.count(atoms)
        attributes = self._noted(
            {"replica_groups": self.groups(atoms), "scatter_dimension": self.i64_attr(dim)}
        )
        result = self.type(shape, value.type.element_type)
        op = self.op("stablehlo.reduce_scatter", (value,), [result], attributes, regions=1)
        combine_by(op, f"stablehlo.{kind}", value.type.element_type)
        return op.results[0]

    def all_gather(self, value: ir.Value, atoms: Atoms, dim: int) -> ir.Value:
        shape = list(value.type.shape)
        shape[dim] *= self.mesh.count(atoms)
        return self.shaped(
            "stablehlo.all_gather",
            (value,),
            shape,
            all_gather_dim=self.i64_attr(dim),
            **self._noted({"replica_groups": self.groups(atoms)}),
        )

    def all_to_all(
        self, value: ir.Value, atoms: Atoms, split_dim: int, concat_dim: int
    ) -> ir.Value:
        count = self.mesh.count(atoms)
        shape = list(value.type.shape)
        shape[split_dim] //= count
        shape[concat_dim] *= count
        return self.shaped(
            "stablehlo.all_to_all",
            (value,),
            shape,
            split_dimension=self.i64_attr(split_dim),
            concat_dimension=self.i64_attr(concat_dim),
            split_count=self.i64_attr(count),
            **self._noted({"replica_groups": self.groups(atoms)}),
        )

    def permute(self, value: ir.Value, pairs: np.ndarray) -> ir.Value:
        """Send along source-target pairs of partition ids; devices without a source get zeros.

        On XLA:CPU a permute waits for all devices, not only those of its pairs
        (quirks.PERMUTE_WAITS). Where some may not come, groups gather, and each device takes what
        it was to receive.
        """
        if self.apart:
            return self._received(value, pairs)
        return self.make(
            "stablehlo.collective_permute",
            (value,),
            value.type,
            **self._noted({"source_target_pairs": self.table(pairs)}),
        )

    def _received(self, value: ir.Value, pairs: np.ndarray) -> ir.Value:
        """Select the value of a permute from an all_gather in groups of those that exchange."""
        mesh = self.mesh
        everything = tuple(range(len(mesh.atoms)))
        source, target = mesh.positions(pairs.T)
        atoms = mesh.crossed(*pairs.T)
        rows = np.full(mesh.size, -1)
        rows[target] = mesh.coordinates(atoms)[source]
        shape = list(value.type.shape)
        whole = self.all_gather(self.reshape(value, (1, *shape)), atoms, 0)
        row = self.dynamic_slice(whole, 0, self.lookup(everything, np.maximum(rows, 0)), 1)
        got = self.reshape(row, shape)
        if (rows >= 0).all():
            return got
        receives = self.compare(self.lookup(everything, rows >= 0), self.const(1), "EQ")
        zeros = self.splat(0, shape, value.type.element_type)
        return self.select(self.broadcast(receives, shape), got, zeros)


def _merged(mesh: DeviceMesh, atoms: Atoms) -> list[tuple[int, int]]:
    """(size, stride) digits of a linear coordinate, neighbours joined where strides allow."""
    out: list[tuple[int, int]] = []
    for i in atoms:
        a = mesh.atoms[i]
        if out and out[-1][1] == a.stride * a.size:
            out[-1] = (out[-1][0] * a.size, a.stride)
        else:
            out.append((a.size, a.stride))
    return out


def _literal(value: Any, element: ir.Type) -> str:
    """Return the text of a scalar for `dense<…>` of an element type."""
    name = str(element)
    if name.startswith("complex"):
        part = _literal(value, element.element_type)
        return f"({part}, {part if value == 0 else '0.0'})"
    if name == "i1":
        return "true" if value else "false"
    if isinstance(element, ir.IntegerType):
        return str(int(value))
    if value in (float("inf"), float("-inf")):
        raise ValueError("write infinities as bit patterns")
    return repr(float(value))

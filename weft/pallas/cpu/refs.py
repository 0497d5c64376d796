# Tests: tests/pallas/test_cpu.py
"""Reading and writing refs: views of memory, masks, index arrays, atomics, bounds checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.pallas.cpu.scalar as scalar
import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.core.ref import At, Indexer, Pick, Window
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.loops import nest
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array, Buffer, no_indices, same_indices, size_of
from weft.pallas.ir import ref_operands

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn


def checked(
    t: Translator,
    start: int | str,
    high: int,
    label: str,
    size: int | None = None,
) -> Any:
    """Return a position, which fails the call unless it is in [0, high], and is then moved to 0.

    size: of the dimension, where a negative position counts from its end.
    """
    f = t.f
    if isinstance(start, int):
        if t.call.checked and not 0 <= start <= high:
            t.fail("true", label)
            return 0
        return start
    key = ("position", start, high, size)
    if key in f.memo:
        return f.memo[key]
    raw = start

    def from_end() -> str:
        if size is None:
            return raw
        negative = f.op(f"icmp slt i64 {raw}, 0")
        return f.op(f"select i1 {negative}, i64 {f.add(raw, size)}, i64 {raw}")

    def failing() -> str:
        position = from_end()
        bad = f.op(f"icmp ugt i64 {position}, {high}") if high >= 0 else "true"
        t.fail(bad, label)
        return f.op(f"select i1 {bad}, i64 0, i64 {position}")

    if size is None and not t.call.checked:
        start = raw
    elif high < 0:
        start = failing() if t.call.checked else from_end()
    else:
        # As unsigned numbers, negative ones are greater than every size: one comparison, whose
        # branch is seldom taken, and the position is known before it is checked.
        rare = f.op(f"icmp ugt i64 {raw}, {high}")
        f.module.declare("llvm.expect.i1", "i1", "i1, i1")
        rare = f.op(f"call i1 @llvm.expect.i1(i1 {rare}, i1 false)")
        start = f.choose(rare, "i64", failing if t.call.checked else from_end, raw)
    f.memo[key] = start
    return start


def lane(t: Translator, text: str, dtype: Any, size: int, label: str) -> str:
    """Return a position of an index array, as `checked`, in vectorized loops over elements.

    The greatest position is kept, and compared once at the end; what is out of bounds reads the
    last element until then.
    """
    f, high = t.f, size - 1
    narrow = size < 1 << 31 and dtype.itemsize * 8 < 64 and dtype != dtypes.uint32
    position_type = dtypes.int32 if narrow else dtypes.int64
    type_ = types.register(position_type)
    position = scalar.convert(f, text, dtype, position_type)
    if dtypes.is_signed(dtype):
        negative = f.op(f"icmp slt {type_} {position}, 0")
        turned = f.op(f"add {type_} {position}, {size}")
        position = f.op(f"select i1 {negative}, {type_} {turned}, {type_} {position}")
    if t.call.checked:
        if t.core is not None or high < 0:
            bad = f.op(f"icmp ugt {type_} {position}, {high}") if high >= 0 else "true"
            t.fail(bad, label)
            position = f.op(f"select i1 {bad}, {type_} 0, {type_} {position}")
        else:
            greatest = t.greatest(label, type_, high)
            before = f.load(type_, greatest, parallel=False)
            both = (type_, before), (type_, position)
            f.store(
                type_, f.intrinsic(f"llvm.umax.{type_}", type_, *both), greatest, parallel=False
            )
            position = f.intrinsic(
                f"llvm.umin.{type_}", type_, (type_, position), (type_, str(high))
            )
    if type_ == "i64":
        return position
    return f.op(f"zext i32 {position} to i64")


def _what(t: Translator, ref: Buffer, dim: int) -> str:
    eqn = t.eqn
    return (
        f"kernel {t.call.name}: {eqn.primitive.name} ({eqn.source}) is out of bounds in dimension "
        f"{dim} of a ref of shape {ref.shape}"
    )


def window(t: Translator, ref: Buffer, indexer: Indexer, operands: Sequence[Array]) -> Buffer:
    """Return the part of a ref that an indexer without index arrays selects."""
    offset: Index = 0
    shape, strides = [], []
    for d, (dim, position) in enumerate(indexer.attach(operands)):
        start = t.index(position)
        if dim.__class__ is At:
            start = checked(t, start, ref.shape[d] - 1, _what(t, ref, d), ref.shape[d])
        else:
            reach = ref.shape[d] - 1 - (dim.size - 1) * dim.stride
            if dim.size:
                start = checked(t, start, reach, _what(t, ref, d))
            shape.append(dim.size)
            strides.append(t.f.mul(ref.strides[d], dim.stride))
        offset = _plus(t.f, offset, t.f.mul(start, ref.strides[d]))
    return ref.view(t.f, offset, tuple(shape), strides)


def _plus(f: Function, a: Index, b: Index) -> Index:
    """Return a sum whose code is shared by equal views of a ref."""
    if isinstance(a, int) or isinstance(b, int):
        return f.add(a, b)
    key = ("sum", a, b)
    return f.memo.get(key) or f.memo.setdefault(key, f.add(a, b))


class Gathered:
    """The part of a ref that index arrays select: an address for each element."""

    def __init__(
        self, t: Translator, ref: Buffer, indexer: Indexer, operands: Sequence[Array]
    ) -> None:
        self.t, self.ref, self.indexer = t, ref, indexer
        self.eqn = t.eqn
        self.positions: list[tuple[Any, Any]] = []
        self.picks: list[Array] = []
        for d, (dim, position) in enumerate(indexer.attach(operands)):
            if dim.__class__ is Pick:
                self.picks.append(position)
                self.positions.append((dim, position))
                continue
            start = t.index(position)
            reach = ref.shape[d] - 1
            size: int | None = ref.shape[d]
            if dim.__class__ is Window:
                reach, size = reach - (dim.size - 1) * dim.stride, None
                if not dim.size:
                    self.positions.append((dim, 0))
                    continue
            self.positions.append((dim, checked(t, start, reach, _what(t, ref, d), size)))

    def ready(self, *values: Array | None, of: Buffer | None = None) -> None:
        """Before a loop that writes these elements: what it reads is not what it changes.

        of: the ref that changes in the end, if not the one indexed.
        """
        group = (of or self.ref).group
        for x in (*values, *self.picks):
            if x is not None and group in x.reads:
                self.t.snapshot(x)
            elif x is not None and x.waiting():
                self.t.materialize(x)
        self.t.before_write(group)

    def loop(self, body: Callable[[tuple], None], mask: Array | None = None) -> None:
        """Run body(indices) for one element after the other, where the mask holds."""

        def guarded(i: tuple) -> None:
            if mask is None:
                body(i)
                return
            with self.t.f.when(mask.at(self.t.f, i if mask.shape else ())):
                body(i)

        nest(self.t.f, self.indexer.shape, guarded, parallel=False)

    def of_pick(self, indices: tuple) -> tuple:
        first_dim = self.indexer.block_position
        return indices[first_dim : first_dim + len(self.indexer.block)]

    def address(self, f: Function, indices: tuple) -> tuple[Index, ...]:
        where: list[Index] = []
        before, self.t.eqn = self.t.eqn, self.eqn
        for d, ((dim, position), axes) in enumerate(
            zip(self.positions, self.indexer.axes(), strict=True)
        ):
            i = tuple(indices[axis] for axis in axes)
            if dim.__class__ is Pick:
                index, n = position.at(f, i), self.ref.shape[d]
                label = _what(self.t, self.ref, d)
                where.append(lane(self.t, index, position.dtype, n, label))
            elif dim.__class__ is At:
                where.append(position)
            else:
                where.append(f.add(f.mul(i[0], dim.stride), position))
        self.t.eqn = before
        return tuple(where)


def _spread(x: Array) -> Any:
    return same_indices if x.shape else no_indices


@rule("get")
def _get(t: Translator, eqn: Eqn, ref: Buffer, *rest: Array) -> Array:
    """Read a part of a ref now; it is copied only if the ref changes while it lives."""
    indexer = eqn.rule_params["indexer"]
    _, _, positions, mask, other = ref_operands(eqn, (ref, *rest))
    if not indexer.has_picks and mask is None:
        return Array(indexer.shape, ref.dtype, buffer=window(t, ref, indexer, positions))
    inputs: list[tuple[Array, Any]] = []
    if indexer.has_picks:
        gathered = Gathered(t, ref, indexer, positions)
        inputs += [(p, gathered.of_pick) for p in gathered.picks]

        def load(f: Function, i: tuple) -> str:
            return ref.load(f, gathered.address(f, i))
    else:
        part = window(t, ref, indexer, positions)

        def load(f: Function, i: tuple) -> str:
            return part.load(f, i)

    def element(f: Function, i: tuple) -> str:
        if mask is None:
            return load(f, i)
        rest = (
            types.constant(0, ref.dtype) if other is None else other.at(f, i if other.shape else ())
        )
        condition = mask.at(f, i if mask.shape else ())
        return f.choose(condition, types.register(ref.dtype), lambda: load(f, i), rest)

    inputs += [(x, _spread(x)) for x in (mask, other) if x is not None]
    out = Array(indexer.shape, ref.dtype, element, inputs, 1, touched=(ref.group,))
    out.kept = mask is not None and t.call.debug
    return out


@rule("set")
def _set(t: Translator, eqn: Eqn, ref: Buffer, value: Array, *rest: Array) -> None:
    indexer = eqn.rule_params["indexer"]
    _, _, positions, mask, _ = ref_operands(eqn, (ref, value, *rest))
    if indexer.has_picks:
        gathered = Gathered(t, ref, indexer, positions)
        gathered.ready(value, mask)
        gathered.loop(
            lambda i: ref.store(t.f, gathered.address(t.f, i), value.at(t.f, i)),
            mask,
        )
        return
    target = window(t, ref, indexer, positions)
    for x in (value, mask):
        if x is not None and not x.aligned_with(target):
            t.snapshot(x)
    t.before_write(ref.group)
    if mask is not None and not mask.shape and target.shape:
        scalar_mask = mask
        mask = Array(
            target.shape, mask.dtype, lambda f, i: scalar_mask.at(f, ()), [(mask, no_indices)]
        )
    t.store(target, value, mask)


@rule("addupdate")
def _addupdate(t: Translator, eqn: Eqn, ref: Buffer, value: Array, *operands: Array) -> None:
    """At index arrays, where positions may repeat: element after element."""
    gathered = Gathered(t, ref, eqn.rule_params["indexer"], operands)
    gathered.ready(value)

    def body(i: tuple) -> None:
        where = gathered.address(t.f, i)
        total = scalar.add(t.f, ref.dtype, ref.load(t.f, where), value.at(t.f, i))
        ref.store(t.f, where, total)

    gathered.loop(body)


# Atomics ---------------------------------------------------------------------------------------


def _atomic_op(op: str, dtype: np.dtype) -> str:
    if op == "xchg":
        return "xchg"
    if dtypes.is_float(dtype):
        return {"add": "fadd", "max": "fmaximum", "min": "fminimum"}.get(op, "")
    if op in ("max", "min") and not dtypes.is_signed(dtype):
        return f"u{op}"
    if dtype.name == "bool" and op == "add":
        return "or"
    return op


@rule("atomic_rmw")
def _atomic_rmw(t: Translator, eqn: Eqn, ref: Buffer, value: Array, *rest: Array) -> Array:
    f, indexer = t.f, eqn.rule_params["indexer"]
    _, _, index, mask, _ = ref_operands(eqn, (ref, value, *rest))
    op = _atomic_op(eqn.rule_params["op"], ref.dtype)
    if not op or types.is_float8(ref.dtype):
        raise t.unsupported(eqn, f"{eqn.rule_params['op']} of {ref.dtype}")
    shared, zero = ref, types.constant(0, ref.dtype)
    apart = _adds_apart(t, eqn, ref, op)
    if apart:
        ref = t.temporary(ref.shape, ref.dtype)
        t.store(ref, Array(ref.shape, ref.dtype, lambda f, i: zero))
    gathered = Gathered(t, ref, indexer, index)
    gathered.ready(value, mask, of=shared)
    old = t.temporary(indexer.shape, ref.dtype) if t.used[0] else None
    if old is not None and mask is not None:
        t.store(old, Array(indexer.shape, ref.dtype, lambda f, i: zero))
    type_ = types.memory(ref.dtype)

    def body(i: tuple) -> None:
        element = value.at(f, i if value.shape else ())
        if ref.dtype.name == "bool":
            element = f.op(f"zext i1 {element} to i8")
        pointer = ref.address(f, gathered.address(f, i))
        if apart:
            so_far = f.load(type_, pointer, parallel=False)
            f.store(type_, f.op(f"add {type_} {so_far}, {element}"), pointer, parallel=False)
            return
        before = f.op(f"atomicrmw {op} ptr {pointer}, {type_} {element} seq_cst")
        if old is not None:
            f.store(type_, before, old.address(f, i), parallel=False)

    gathered.loop(body, mask)
    if apart:
        _add_all(t, shared, ref)
    if old is None:
        return Array(indexer.shape, ref.dtype, lambda f, i: zero)
    return Array(indexer.shape, ref.dtype, buffer=old)


FEW = 1024
"""Elements of a ref for which sums of their own are worth it."""


def _adds_apart(t: Translator, eqn: Eqn, ref: Buffer, op: str) -> bool:
    """Tell whether an atomic sum of many integers goes to few places: added up here first, since
    cores that add to one cache line wait for each other."""
    many = size_of(eqn.rule_params["indexer"].shape)
    return (
        op == "add"
        and not t.used[0]
        and dtypes.is_integer(ref.dtype)
        and size_of(ref.shape) <= FEW
        and many >= 4 * size_of(ref.shape)
    )


def _add_all(t: Translator, shared: Buffer, sums: Buffer) -> None:
    """Atomically adds what is not zero."""
    f, type_ = t.f, types.memory(sums.dtype)

    def body(i: tuple) -> None:
        value = f.load(type_, sums.address(f, i), parallel=False)
        with f.when(f.op(f"icmp ne {type_} {value}, 0")):
            f.op(f"atomicrmw add ptr {shared.address(f, i)}, {type_} {value} seq_cst")

    nest(f, sums.shape, body, parallel=False)


@rule("atomic_cas")
def _atomic_cas(
    t: Translator, eqn: Eqn, ref: Buffer, compare: Array, value: Array, *operands: Array
) -> Array:
    f = t.f
    target = window(t, ref, eqn.rule_params["indexer"], operands)
    t.before_write(ref.group)
    bits = f"i{max(8, types.bits(ref.dtype))}"
    register = types.register(ref.dtype)

    def raw(x: Array) -> str:
        text = x.at(f, ())
        if register == bits:
            return text
        how = "zext" if register == "i1" else "bitcast"
        return f.op(f"{how} {register} {text} to {bits}")

    old, new = raw(compare), raw(value)
    pair = f.op(f"cmpxchg ptr {target.pointer}, {bits} {old}, {bits} {new} seq_cst seq_cst")
    seen = f.op(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
    if register != bits:
        how = "trunc" if register == "i1" else "bitcast"
        seen = f.op(f"{how} {bits} {seen} to {register}")
    return t.scalar(seen, ref.dtype)

# Tests: tests/pallas/test_cpu.py
"""Arrays inside a kernel: memory, or formulas that give an element when asked for it.

A formula leaves no array behind: whoever needs the elements (a store, a reduction, a product)
writes loops, and the whole chain of formulas is computed in their body. A value that is costly
and used more than once is `kept`: the first loops that pass over it also store it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.pallas.cpu.llvm import Function, Index

Indices = tuple[Index, ...]
COSTLY = 4
"""From this cost on (about additions) a value used twice is stored rather than computed twice."""


@dataclass(slots=True, eq=False)
class Group:
    """One piece of memory that may change; buffers of one group may overlap.

    shared: another core may change it. extent: the elements of an array that nobody changes while
    the kernel runs, else 0. streams: stores go past the caches.
    """

    name: str
    shared: bool = False
    extent: int = 0
    streams: bool = False


@dataclass(slots=True, eq=False)
class Buffer:
    """Elements in memory: an address, and a stride (in elements) for each dimension."""

    pointer: str
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: Sequence[Index]
    group: Group

    def __post_init__(self) -> None:
        self.strides = tuple(self.strides)

    def address(self, f: Function, indices: Sequence[Index]) -> str:
        return f.address(types.memory(self.dtype), self.pointer, f.dot(indices, self.strides))

    def load(self, f: Function, indices: Sequence[Index]) -> str:
        memory, register = types.memory(self.dtype), types.register(self.dtype)
        value = f.load(memory, self.address(f, indices))
        return value if memory == register else f.op(f"trunc {memory} {value} to {register}")

    def store(self, f: Function, indices: Sequence[Index], value: str) -> None:
        memory, register = types.memory(self.dtype), types.register(self.dtype)
        if memory != register:
            how = "sext" if dtypes.is_signed(self.dtype) else "zext"
            value = f.op(f"{how} {register} {value} to {memory}")
        f.store(memory, value, self.address(f, indices))

    def view(
        self, f: Function, offset: Index, shape: tuple[int, ...], strides: Sequence[Index]
    ) -> Buffer:
        """Another shape on the same memory, from `offset` elements on."""
        pointer = self.pointer
        if offset != 0:
            key = ("view", self.pointer, self.dtype, offset)
            pointer = f.memo.get(key) or f.memo.setdefault(
                key, f.address(types.memory(self.dtype), self.pointer, offset)
            )
        return Buffer(pointer, self.dtype, shape, strides, self.group)

    def adjacent_dims(self) -> int:
        """Return how many trailing dimensions' elements lie one after the other."""
        if not self.shape or self.strides[-1] != 1:
            return min(1, len(self.shape))
        count, step = 0, 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != step:
                break
            count, step = count + 1, step * n
        return count

    def same_place(self, other: Buffer) -> bool:
        return (
            self.pointer == other.pointer
            and self.dtype == other.dtype
            and self.shape == other.shape
            and all(
                s == t or n == 1
                for s, t, n in zip(self.strides, other.strides, self.shape, strict=True)
            )
        )


def joined(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the shape with its last `count` dimensions passed as one, the last."""
    if count < 2:
        return tuple(shape)
    head, tail = tuple(shape[: len(shape) - count]), shape[len(shape) - count :]
    return (*head, *(1,) * (count - 1), size_of(tail))


size_of = math.prod
"""How many elements an array of a shape has."""

Mapping = Callable[[tuple], tuple]
"""From indices of an array to those of an operand, by selection only; unknown ones are None."""


def same_indices(indices: tuple) -> tuple:
    return indices


def no_indices(indices: tuple) -> tuple:
    return ()


@dataclass(slots=True, eq=False)
class Array:
    """A value: its elements by formula (`element`), in memory (`buffer`), or still to be made.

    inputs: the arrays the formula reads, with the mapping of indices, or None where the mapping
    computes. touched: groups of memory that the formula itself reads. cost: of one element.
    producer: fills a buffer with the value, for products, which are not computed element by
    element. pointwise: the formula uses the indices only to read its operands.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    element: Callable[[Function, Indices], str] | None = None
    inputs: Sequence[tuple[Array, Mapping | None]] = ()
    cost: int = 0
    buffer: Buffer | None = None
    producer: Callable[..., None] | None = None
    pointwise: bool = False
    touched: tuple[Group, ...] = ()
    kept: bool = field(init=False)

    def __post_init__(self) -> None:
        self.kept = self.producer is not None
        self.cost = min(self.cost + sum(a.cost for a, _ in self.inputs), 1 << 30)

    @property
    def reads(self) -> set[Group]:
        """Groups of memory that the value depends on."""
        groups: set[Group] = set()
        seen: set[Array] = set()
        todo = [self]
        while todo:
            a = todo.pop()
            if a in seen:
                continue
            seen.add(a)
            groups.update(a.touched)
            if a.buffer is not None:
                groups.add(a.buffer.group)
            else:
                todo.extend(operand for operand, _ in a.inputs)
        return groups

    def at(self, f: Function, indices: Indices) -> str:
        """Return the element at the indices, in a register."""
        key = (self, indices)
        value = f.memo.get(key)
        if value is None:
            if self.buffer is not None:
                value = self.buffer.load(f, indices)
            else:
                assert self.element is not None, "a product must be stored before it is read"
                value = self.element(f, indices)
            f.memo[key] = value
        return value

    def hoist(self, f: Function, indices: tuple) -> None:
        """Compute what depends on the known indices alone; the unknown ones are None."""
        if None not in indices:
            if self.cost or self.buffer is not None:
                self.at(f, indices)
            return
        key = ("hoisted", self, indices)
        if self.buffer is None and key not in f.memo:
            f.memo[key] = ""
            for operand, mapping in self.inputs:
                if mapping is not None:
                    operand.hoist(f, mapping(indices))

    def become(self, buffer: Buffer) -> None:
        """From now on the elements are read from memory."""
        self.buffer = buffer
        self.element = None
        self.inputs = ()
        self.kept = False
        self.producer = None
        self.cost = 0
        self.touched = ()

    def waiting(self) -> list[Array]:
        """Kept arrays that this one needs and that are not in memory yet, inner ones first."""
        kept: list[Array] = []
        seen: set[Array] = set()

        def visit(a: Array) -> None:
            if a.buffer is not None or a in seen:
                return
            seen.add(a)
            for operand, _ in a.inputs:
                visit(operand)
            if a.kept:
                kept.append(a)

        visit(self)
        return kept

    def adjacent_dims(self, limit: int) -> int:
        """Count trailing dimensions, `limit` at most, that may be passed as one index: the elements
        of all that the formula reads lie in memory one after the other along them."""
        seen: set[Array] = set()
        todo = [self]
        while todo and limit > 1:
            a = todo.pop()
            if a in seen or not a.shape:
                continue
            seen.add(a)
            if a.buffer is not None:
                limit = min(limit, a.buffer.adjacent_dims())
            elif a.pointwise and all(m is same_indices or not i.shape for i, m in a.inputs):
                todo.extend(operand for operand, _ in a.inputs)
            else:
                return 1
        return limit

    def aligned_with(self, target: Buffer) -> bool:
        """Return whether an element reads target's group only at the place of the same element."""
        seen: set[tuple[Array, bool]] = set()

        def aligned(a: Array, identity: bool) -> bool:
            if (a, identity) in seen:
                return True
            seen.add((a, identity))
            if a.buffer is not None:
                return a.buffer.group is not target.group or (
                    identity and a.buffer.same_place(target)
                )
            if target.group in a.touched:
                return False
            if a.producer is not None:
                return target.group not in a.reads
            return all(
                aligned(i, identity and m is same_indices and i.shape == a.shape)
                for i, m in a.inputs
            )

        return aligned(self, True)


def constant(value: object, dtype: np.dtype) -> Array:
    text = types.constant(value, dtype)
    return Array((), dtype, lambda f, indices: text)


def register(text: str, dtype: np.dtype) -> Array:
    """Return a scalar that is in a register."""
    return Array((), dtype, lambda f, indices: text)

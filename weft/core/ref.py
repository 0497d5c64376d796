# Tests: tests/refs/test_api.py, tests/refs/test_indexing.py
"""References: the type of mutable arrays, and the static form of an index into one.

A ref is an array that may be read and written in place. Ops on refs (`get`, `set`, `swap`,
`addupdate`, atomics) carry an `Indexer`: what is known of the index while tracing. What is not
known, such as a traced start, is an operand of the op.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.aval import Mat, ShapedArray
from weft.core.caches import interned


class AbstractRef:
    """The type of a ref: the type of the array it holds, and the memory it lives in.

    inner: a `ShapedArray`. memory_space: None, or a space of weft.pallas. core: the mesh of the
    cores that each have a copy of their own, or None for one that all share. weak_type: whether
    what is read from it is of weak type; what it holds is not. no_grad: what is written to it has
    no derivative.
    """

    __slots__ = ("__weakref__", "core", "inner", "memory_space", "no_grad", "weak_type")
    _interned: dict[tuple, AbstractRef] = interned({})

    inner: ShapedArray
    memory_space: Any
    core: Any
    weak_type: bool
    no_grad: bool

    def __new__(
        cls,
        inner: ShapedArray,
        memory_space: Any = None,
        core: Any = None,
        weak_type: bool = False,
        no_grad: bool = False,
    ) -> AbstractRef:
        inner = inner.strip_weak_type()
        key = (inner, memory_space, core, weak_type, no_grad)
        self = cls._interned.get(key)
        if self is None:
            self = object.__new__(cls)
            self.inner, self.memory_space, self.core, self.weak_type, self.no_grad = key
            cls._interned[key] = self
        return self

    def __reduce__(self) -> tuple:
        return AbstractRef, (
            self.inner,
            self.memory_space,
            self.core,
            self.weak_type,
            self.no_grad,
        )

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)
    ndim = property(lambda self: self.inner.ndim)
    size = property(lambda self: self.inner.size)
    itemsize = property(lambda self: self.inner.itemsize)
    nbytes = property(lambda self: self.inner.nbytes)
    holds_semaphores = property(lambda self: getattr(self.memory_space, "holds_semaphores", False))
    sharding = None

    @property
    def mat(self) -> Mat:
        return self.inner.mat

    def with_inner(self, inner: ShapedArray) -> AbstractRef:
        return AbstractRef(inner, self.memory_space, self.core, self.weak_type, self.no_grad)

    def update(self, **changes: object) -> AbstractRef:
        """Return the type with fields of the inner type changed."""
        return self.with_inner(self.inner.update(**changes))

    def strip_weak_type(self) -> AbstractRef:
        return self

    def remove_dim(self, dim: int) -> AbstractRef:
        shape = self.shape
        return self.with_inner(self.inner.update(shape=shape[:dim] + shape[dim + 1 :]))

    def add_dim(self, dim: int, size: int) -> AbstractRef:
        shape = self.shape
        return self.with_inner(self.inner.update(shape=(*shape[:dim], size, *shape[dim:])))

    def ir_type(self) -> Any:
        raise TypeError(
            f"a program that takes a {self.str_short()} from outside has no form of its own to "
            "lower or export; call the jitted function, or let it take ref[...] and return the "
            "new value"
        )

    def __len__(self) -> int:
        return len(self.inner)

    def str_short(self) -> str:
        """Write the type, as `Ref<shared>{f32[8,128]}`."""
        space = "" if self.memory_space is None else f"<{self.memory_space}>"
        core = "" if self.core is None else f"@{self.core.name}"
        return f"Ref{space}{core}{{{self.inner.str_short()}}}"

    __str__ = str_short

    def __repr__(self) -> str:
        return f"AbstractRef({self.str_short()})"


# Indices ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class At:
    """One position of a dimension, which the result lacks; None: given by an operand."""

    index: int | None

    operands = property(lambda self: int(self.index is None))
    position = property(lambda self: self.index)

    def __repr__(self) -> str:
        return "?" if self.index is None else str(self.index)


@dataclass(frozen=True, slots=True)
class Window:
    """`size` positions from `start` on, `stride` apart; start None: given by an operand."""

    start: int | None
    size: int
    stride: int = 1

    operands = property(lambda self: int(self.start is None))
    position = property(lambda self: self.start)

    def __repr__(self) -> str:
        start = "?" if self.start is None else str(self.start)
        return f"{start}+{self.size}" + (f":{self.stride}" if self.stride != 1 else "")


@dataclass(frozen=True, slots=True)
class Pick:
    """The positions in an integer array, given by an operand of the indexer's `block` shape."""

    operands = 1
    position = None

    def __repr__(self) -> str:
        return "[]"


@dataclass(frozen=True, slots=True)
class Indexer:
    """An index into a ref of rank len(dims).

    dims: one of At, Window, Pick for each dimension. An op's operands supply, in the order of the
    dimensions, an integer scalar for every At or Window whose position is None and an integer
    array of shape `block` for every Pick. Picks are read together, as NumPy's index arrays. The
    result has the sizes of the windows in order, with `block` put in at position `block_position`.
    """

    dims: tuple[At | Window | Pick, ...]
    block: tuple[int, ...] = ()
    block_position: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = tuple(d.size for d in self.dims if isinstance(d, Window))
        if not self.has_picks:
            return sizes
        return sizes[: self.block_position] + self.block + sizes[self.block_position :]

    @property
    def has_picks(self) -> bool:
        return any(d.__class__ is Pick for d in self.dims)

    @property
    def num_operands(self) -> int:
        return sum(d.operands for d in self.dims)

    def is_whole(self, shape: Sequence[int]) -> bool:
        """Tell whether the index selects all elements of an array of this shape, in order."""
        return all(
            isinstance(d, Window) and d.start == 0 and d.size == n and d.stride == 1
            for d, n in zip(self.dims, shape, strict=True)
        )

    def attach(self, operands: Iterable[Any]) -> list[tuple[Any, Any]]:
        """(dim, position) for each dimension; position is the static or the given one."""
        traced = iter(operands)
        pairs: list[tuple[Any, Any]] = []
        for d in self.dims:
            if d.operands:
                pairs.append((d, next(traced)))
            else:
                pairs.append((d, d.position))
        return pairs

    def axes(self) -> list[tuple[int, ...]]:
        """Return the dimensions of the result along which the positions of each dimension vary."""
        picked = range(
            self.block_position,
            self.block_position + len(self.block) if self.has_picks else self.block_position,
        )
        free = iter(d for d in range(len(self.shape)) if d not in picked)
        return [
            tuple(picked) if d.__class__ is Pick else (next(free),) if isinstance(d, Window) else ()
            for d in self.dims
        ]

    def __repr__(self) -> str:
        return "[" + ", ".join(map(repr, self.dims)) + "]"


def whole(shape: Sequence[int]) -> Indexer:
    """Return the indexer of `ref[...]`."""
    return Indexer(tuple(Window(0, n) for n in shape))

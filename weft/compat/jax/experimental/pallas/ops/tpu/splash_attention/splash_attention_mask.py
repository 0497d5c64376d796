# Tests: tests/compat/test_splash_attention.py
"""Masks of splash attention: which positions of the keys a position of the queries attends to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = [
    "CausalMask",
    "ChunkedCausalMask",
    "FullMask",
    "LocalMask",
    "LogicalAnd",
    "LogicalOr",
    "Mask",
    "MultiHeadMask",
    "NumpyMask",
    "make_causal_mask",
    "make_chunk_attention_mask",
    "make_local_attention_mask",
    "make_random_mask",
]

Shape = tuple[int, int]
Window = tuple[int | None, int | None]


class Mask:
    """A mask of shape (queries, keys); slices of it are NumPy arrays of bool.

    Equal masks have equal `_identity`, which tells how the mask was made.
    """

    _identity: tuple = ()

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no shape")

    def __getitem__(self, index: tuple) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} has no elements")

    def __bool__(self) -> bool:
        raise NotImplementedError("a mask has no truth value: combine masks by & and |")

    def __and__(self, other: Mask) -> Mask:
        return LogicalAnd(self, other)

    def __or__(self, other: Mask) -> Mask:
        return LogicalOr(self, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return NotImplemented
        return type(self) is type(other) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash((type(self), self._identity))


class _Pair(Mask):
    """Two masks, combined element by element."""

    def __init__(self, left: Mask, right: Mask) -> None:
        if left.shape != right.shape:
            raise ValueError(f"masks have different shapes, {left.shape} and {right.shape}")
        self.left, self.right = left, right
        self._identity = (left, right)

    shape = property(lambda self: self.left.shape)


class LogicalAnd(_Pair):
    def __getitem__(self, index: tuple) -> np.ndarray:
        return self.left[index] & self.right[index]


class LogicalOr(_Pair):
    def __getitem__(self, index: tuple) -> np.ndarray:
        return self.left[index] | self.right[index]


class MultiHeadMask(Mask):
    """A mask for each head: its shape is (heads, queries, keys)."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        if not masks:
            raise ValueError("masks is empty: give one mask for each head")
        if not all(isinstance(m, Mask) and not isinstance(m, MultiHeadMask) for m in masks):
            raise ValueError("masks must hold a Mask of two dimensions for each head")
        if len({m.shape for m in masks}) > 1:
            raise ValueError(f"masks have different shapes, {[m.shape for m in masks]}")
        self.masks = masks
        self._identity = tuple(masks)

    shape = property(lambda self: (len(self.masks), *self.masks[0].shape))

    def __getitem__(self, index: tuple) -> np.ndarray:
        heads, *rest = index
        if isinstance(heads, slice):
            return np.stack([mask[tuple(rest)] for mask in self.masks[heads]])
        return self.masks[heads][tuple(rest)]


class _Positions(Mask):
    """A mask that a function computes of the positions of queries and keys."""

    def __init__(self, shape: Shape, mask_function: Callable, shard_count: int = 1) -> None:
        if shape[0] % shard_count**2:
            raise ValueError(
                f"the square of shard_count={shard_count} must divide the {shape[0]} queries"
            )
        self._shape = shape
        self.mask_function = mask_function
        self.q_sequence = np.arange(shape[0], dtype=np.int32)

    shape = property(lambda self: self._shape)

    def __getitem__(self, index: tuple) -> np.ndarray:
        rows, columns = index
        keys = np.arange(self._shape[1], dtype=np.int32)
        return self.mask_function(self.q_sequence[rows][:, None], keys[columns][None, :])


class CausalMask(_Positions):
    """Queries attend to keys up to their own position plus an offset."""

    def __init__(self, shape: Shape, offset: int = 0, shard_count: int = 1) -> None:
        self.offset = offset
        super().__init__(shape, lambda rows, columns: rows + offset >= columns, shard_count)
        self._identity = (shape, offset)


class ChunkedCausalMask(_Positions):
    """Queries attend to earlier keys of their own chunk."""

    def __init__(self, shape: Shape, chunk_size: int, shard_count: int = 1) -> None:
        if chunk_size <= 0:
            raise ValueError(f"chunk_size={chunk_size} must be positive")
        self.chunk_size = chunk_size

        def attends(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return (rows // chunk_size == columns // chunk_size) & (rows >= columns)

        super().__init__(shape, attends, shard_count)
        self._identity = (shape, chunk_size)


class LocalMask(_Positions):
    """Queries attend to a window of keys around their own position plus an offset."""

    def __init__(
        self, shape: Shape, window_size: Window, offset: int, shard_count: int = 1
    ) -> None:
        self.window_size, self.offset = window_size, offset
        left, right = window_size

        def attends(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            distance = columns - (rows + offset)
            mask = distance == distance
            if left is not None:
                mask = mask & (distance >= -left)
            return mask if right is None else mask & (distance <= right)

        super().__init__(shape, attends, shard_count)
        self._identity = (shape, window_size, offset)


class FullMask(_Positions):
    """Queries attend to all keys."""

    def __init__(self, _shape: Shape) -> None:
        if not isinstance(_shape, tuple):
            raise ValueError(f"a shape must be a tuple, got {_shape!r}")
        super().__init__(_shape, lambda rows, columns: (rows >= 0) & (columns >= 0))
        self._identity = (_shape,)


class NumpyMask(Mask):
    """A mask that an array of bool holds."""

    def __init__(self, array: np.ndarray) -> None:
        if array.ndim != 2 or array.dtype != np.bool_:
            raise ValueError(
                f"a mask is an array of bool of two dimensions, got {array.dtype}{array.shape}"
            )
        self.array = array
        self._identity = (array.shape, array.tobytes())

    shape = property(lambda self: self.array.shape)

    def __getitem__(self, index: tuple) -> np.ndarray:
        return self.array[index]


def make_causal_mask(shape: Shape, offset: int = 0) -> np.ndarray:
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(shape: Shape, window_size: Window, *, offset: int = 0) -> np.ndarray:
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: Shape, chunk_size: int) -> np.ndarray:
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: Shape, sparsity: float, seed: int) -> np.ndarray:
    return np.random.RandomState(seed).binomial(1, 1.0 - sparsity, shape).astype(np.bool_)

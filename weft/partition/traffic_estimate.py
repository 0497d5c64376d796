# Tests: tests/partition/test_reshard.py
"""Counts what a piece of the local program would send, without building it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, Numbers
from weft.partition.collect import byte_size, byte_size_of, bytes_sent
from weft.partition.emit import Emitter

# What a collective costs beside the bytes that it sends, in bytes: 64 kB take as long as one on
# virtual CPU devices (100 µs), and less than one on any network (2 µs at 450 GB/s are 900 kB).
LATENCY = 64 * 1024


def latency(layout: AxisLayout, element: ir.Type) -> int:
    """Return the cost of a relayout step beside the bytes that it sends.

    No more than half of what a device holds of the value, so that small programs, whose time is
    latency alone, take the ways that they would take with more elements.
    """
    half = 0.5 * math.prod(layout.shape) * byte_size_of(element) / layout.mesh.size
    return max(1, min(LATENCY, int(half)))


class Tally(Emitter):
    """An emitter whose values have types only; `cost` sums what collectives cost.

    That is the bytes that each sends, and `step` for it: by default, fewer win among equals.
    """

    def __init__(self, e: Emitter, step: int = 1) -> None:
        self.mesh, self.context, self.loc, self.why = e.mesh, e.context, e.loc, ""
        self.i1, self.i32, self.i64 = e.i1, e.i32, e.i64
        self._types, self._attributes = e._types, e._attributes
        self.scopes, self.roots, self.idle = e.scopes, e.roots, e.idle
        self.cost, self.step = 0, step

    def make(
        self, name: str, operands: Sequence[ir.Value], result: ir.Type, **attrs: object
    ) -> ir.Value:
        return SimpleNamespace(type=result)

    def constant_text(self, text: str, type: ir.Type) -> ir.Value:
        return SimpleNamespace(type=type)

    def array(self, values: np.ndarray) -> ir.Value:
        return SimpleNamespace(type=self.type(values.shape, self.i32))

    def coordinate(self, atoms: Atoms) -> ir.Value:
        return SimpleNamespace(type=self.type((), self.i32))

    def lookup(self, atoms: Atoms, values: Numbers) -> ir.Value:
        return SimpleNamespace(type=self.type((), self.i32))

    def _sent(self, kind: str, value: ir.Value, n: int) -> None:
        self.cost += bytes_sent(kind, byte_size(value.type), n) + self.step

    def all_reduce(self, value: ir.Value, atoms: Atoms, kind: str) -> ir.Value:
        self._sent("all_reduce", value, self.mesh.count(atoms))
        return value

    def all_gather(self, value: ir.Value, atoms: Atoms, dim: int) -> ir.Value:
        n = self.mesh.count(atoms)
        self._sent("all_gather", value, n)
        return self._resized(value, {dim: n})

    def reduce_scatter(self, value: ir.Value, atoms: Atoms, dim: int, kind: str) -> ir.Value:
        n = self.mesh.count(atoms)
        self._sent("reduce_scatter", value, n)
        return self._resized(value, {dim: 1 / n})

    def all_to_all(
        self, value: ir.Value, atoms: Atoms, split_dim: int, concat_dim: int
    ) -> ir.Value:
        n = self.mesh.count(atoms)
        self._sent("all_to_all", value, n)
        return self._resized(value, {split_dim: 1 / n, concat_dim: n})

    def permute(self, value: ir.Value, pairs: np.ndarray) -> ir.Value:
        if (pairs[:, 0] != pairs[:, 1]).any():
            self._sent("collective_permute", value, 2)
        return value

    def _resized(self, value: ir.Value, by: dict[int, float]) -> ir.Value:
        shape = [round(n * by.get(d, 1)) for d, n in enumerate(value.type.shape)]
        return SimpleNamespace(type=self.type(shape, value.type.element_type))

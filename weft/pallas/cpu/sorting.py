# Tests: tests/pallas/test_array_functions.py
"""sort by merging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import weft.pallas.cpu.loops as loops
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn
from weft.core.trace import trace_to_jaxpr
from weft.pallas.cpu.translate import LLVM, Translator, rule
from weft.pallas.cpu.values import Array, Buffer, register
from weft.pallas.formulas.sorting import is_before
from weft.pallas.legalize import legalize

if TYPE_CHECKING:
    from weft.pallas.ir import KernelCall


def _comparison(kinds: Sequence[np.dtype], call: KernelCall) -> ClosedJaxpr:
    """Return whether one element's keys come before another's."""
    n, avals = len(kinds), [ShapedArray((), kind) for kind in kinds] * 2
    before = lambda *keys: [is_before(keys[:n], keys[n:])]
    jaxpr: ClosedJaxpr = legalize(ClosedJaxpr(*trace_to_jaxpr(before, avals, "sort")), LLVM, call)
    return jaxpr


@rule("sort")
def _sort(t: Translator, eqn: Eqn, *operands: Array) -> list[Array]:
    """Return the operands, permuted along a dimension by the first of them; a stable merge sort."""
    f, dim, shape = t.f, eqn.rule_params["dimension"], operands[0].shape
    if 0 in shape:
        return list(operands)
    n, count = shape[dim], len(operands)
    sources = [t.materialize(x) for x in operands]
    targets = [t.temporary(shape, x.dtype) for x in operands]
    runs = [t.temporary((n,), x.dtype) for x in operands]
    merged = [t.temporary((n,), x.dtype) for x in operands]
    keys = slice(eqn.rule_params["num_keys"])
    comparison = _comparison([x.dtype for x in operands[keys]], t.call)
    passes = max(0, (n - 1).bit_length())

    def merge(src: list[Buffer], dst: list[Buffer], width: str) -> None:
        """Merge neighbouring runs of `width` sorted elements."""
        double = f.op(f"shl i64 {width}, 1")
        blocks = f.op(f"udiv i64 {f.add(f.add(double, n), -1)}, {double}")
        with f.loop(0, blocks) as block:
            low = f.mul(block.index, double)
            middle = f.minimum(f.add(low, width), n)
            high = f.minimum(f.add(low, double), n)
            with f.loop(low, high, [("i64", str(low)), ("i64", str(middle))]) as loop:
                i, j = loop.carried
                # Both heads are read even where a run is spent: clamped to be in bounds.
                left = f.minimum(i, f.sub(middle, 1))
                right = f.minimum(j, n - 1)
                both = [
                    register(b.load(f, (k,)), b.dtype) for k in (right, left) for b in src[keys]
                ]
                sooner = t.run(comparison, both)[0].at(f, ())
                spent = f.op(f"icmp sge i64 {i}, {middle}")
                open_ = f.op(f"icmp slt i64 {j}, {high}")
                # Only a smaller right head goes first, so that equal elements keep their order.
                take = f.op(f"and i1 {open_}, {f.op(f'or i1 {spent}, {sooner}')}")
                chosen = f.op(f"select i1 {take}, i64 {j}, i64 {i}")
                for b, target in zip(src, dst, strict=True):
                    target.store(f, (loop.index,), b.load(f, (chosen,)))
                step = f.op(f"zext i1 {take} to i64")
                other = f.op(f"xor i64 {step}, 1")
                loop.following = [f.op(f"add i64 {i}, {other}"), f.op(f"add i64 {j}, {step}")]

    def row(indices: tuple) -> None:
        def at(k: str) -> tuple:
            return (*indices[:dim], k, *indices[dim:])

        with f.loop(0, n) as loop:
            for source, buffer in zip(sources, runs, strict=True):
                buffer.store(f, (loop.index,), source.load(f, at(loop.index)))
        carry = [("ptr", b.pointer) for b in (*runs, *merged)] + [("i64", "1")]
        with f.loop(0, passes, carry) as turn:
            src = [_moved(b, p) for b, p in zip(runs, turn.carried, strict=False)]
            dst = [_moved(b, p) for b, p in zip(merged, turn.carried[count:], strict=False)]
            merge(src, dst, turn.carried[-1])
            # The two buffers change places after each pass.
            pointers = turn.carried[count : 2 * count] + turn.carried[:count]
            turn.following = [*pointers, f.op(f"shl i64 {turn.carried[-1]}, 1")]
        done = [_moved(b, p) for b, p in zip(runs, turn.results, strict=False)]
        with f.loop(0, n) as loop:
            for buffer, target in zip(done, targets, strict=True):
                target.store(f, at(loop.index), buffer.load(f, (loop.index,)))

    loops.nest(f, shape[:dim] + shape[dim + 1 :], row, parallel=False)
    return [Array(b.shape, b.dtype, buffer=b) for b in targets]


def _moved(buffer: Buffer, pointer: str) -> Buffer:
    return Buffer(pointer, buffer.dtype, buffer.shape, buffer.strides, buffer.group)

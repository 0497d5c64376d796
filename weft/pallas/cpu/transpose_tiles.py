# Tests: tests/pallas/test_cpu_cache.py
"""Copies that turn rows into columns: square tiles transposed in vector registers.

A tile's rows are loaded whole and exchanged in log2(width) rounds: round k swaps bit k of an
element's row with bit k of its column (J. O. Eklundh, "A fast computer method for matrix
transposing", 1972).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft.pallas.cpu.types as types
from weft.native.engine import host
from weft.pallas.cpu.llvm import Function, Index, Module
from weft.pallas.cpu.values import Buffer


def tile_width(dtype: np.dtype) -> int:
    """Return rows and columns of a tile; 0 where single elements are as good."""
    if dtype.itemsize not in (2, 4, 8):
        return 0
    return min(16, host().vector_bytes // dtype.itemsize)


def emit_tile(module: Module, dtype: np.dtype) -> str:
    """`turn(source, source row, target, target row)`: a tile, row strides in elements."""
    width = tile_width(dtype)
    element = types.memory(dtype)
    name = f"turn_{element}_{width}"
    if name in module.functions:
        return name
    vector = f"<{width} x {element}>"
    arguments = [("ptr", "source"), ("i64", "from"), ("ptr", "target"), ("i64", "to")]
    f = Function(module, name, arguments, attributes="noinline")
    rows = [
        f.load(
            vector,
            f.address(element, "%source", f.mul(k, "%from")),
            parallel=False,
            align=dtype.itemsize,
        )
        for k in range(width)
    ]

    def mixed(a: str, b: str, picks: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in picks)
        return f.op(f"shufflevector {vector} {a}, {vector} {b}, <{width} x i32> <{mask}>")

    bit = 1
    while bit < width:
        for i in range(width):
            if i & bit:
                continue
            a, b = rows[i], rows[i | bit]
            upper = [e if not e & bit else width + (e ^ bit) for e in range(width)]
            lower = [e ^ bit if not e & bit else width + e for e in range(width)]
            rows[i], rows[i | bit] = mixed(a, b, upper), mixed(a, b, lower)
        bit *= 2
    for k, row in enumerate(rows):
        pointer = f.address(element, "%target", f.mul(k, "%to"))
        f.store(vector, row, pointer, parallel=False, align=dtype.itemsize)
    f.do("ret void")
    f.finish()
    return name


def turned_dim(target: Buffer, source: Buffer) -> int | None:
    """Return the dimension in which the source is adjacent while the target is along its last,
    where tiles fit into both."""
    width = tile_width(source.dtype)
    last = len(source.shape) - 1
    if not width or last < 1 or target.dtype != source.dtype or target.strides[last] != 1:
        return None
    if source.strides[last] in (0, 1) or source.shape[last] < width:
        return None
    for d in range(last):
        if source.strides[d] == 1 and source.shape[d] >= width:
            return d
    return None


def copy_turned(
    f: Function, target: Buffer, source: Buffer, d: int, plain: Callable[[Buffer, Buffer], None]
) -> None:
    """target[...] = source[...] by tiles along d and the last dimension; `plain` does the rest."""
    width, last = tile_width(source.dtype), len(source.shape) - 1
    name = emit_tile(f.module, source.dtype)
    full = {k: source.shape[k] // width * width for k in (d, last)}

    def part(buffer: Buffer, starts: dict[int, int], shape: tuple[int, ...]) -> Buffer:
        offset = f.dot(list(starts.values()), [buffer.strides[k] for k in starts])
        return buffer.view(f, offset, shape, buffer.strides)

    def level(k: int, indices: list[Index]) -> None:
        if k <= last:
            step = width if k in full else 1
            with f.loop(0, full.get(k, source.shape[k]), step=step) as loop:
                level(k + 1, [*indices, loop.index])
            return
        f.do(
            f"call void @{name}(ptr {source.address(f, indices)}, i64 {source.strides[last]}, "
            f"ptr {target.address(f, indices)}, i64 {target.strides[d]})"
        )

    level(0, [])
    for k, other in ((d, last), (last, d)):
        rest = source.shape[k] - full[k]
        if not rest:
            continue
        shape = list(source.shape)
        shape[k] = rest
        if k == last:
            shape[other] = full[other]  # the corner belongs to the other strip
        starts = {k: full[k]}
        plain(part(target, starts, tuple(shape)), part(source, starts, tuple(shape)))

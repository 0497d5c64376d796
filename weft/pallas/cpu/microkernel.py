# Tests: tests/pallas/cpu/test_dot.py
"""The register tile of a product: rows × vectors of C, summed over k."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.native.engine import host
from weft.pallas.cpu.int8_dot import Grouping
from weft.pallas.cpu.llvm import Function, Module


@dataclass(frozen=True)
class Tile:
    """Sizes for a dtype on this CPU: `width` elements a vector, `rows` × `vectors` registers."""

    width: int
    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        return self.width * self.vectors


def tile_for(dtype: np.dtype) -> Tile:
    """Enough independent sums to hide the latency of fma, few enough for the registers."""
    processor = host()
    return Tile(
        max(1, processor.vector_bytes // dtype.itemsize), 8 if processor.registers >= 32 else 4, 2
    )


def emit_micro(
    module: Module,
    dtype: np.dtype,
    rows: int,
    vectors: int,
    a_row: int,
    b_row: int,
    c_row: int,
    how: Grouping | None = None,
) -> str:
    """`micro(a, b, c, k, accumulate)`: c[rows, vectors * width] (+)= a[rows, k] @ b[k, …].

    Row strides, in elements, are constants of the code; within rows elements are adjacent.
    how: a and b hold words of several numbers.
    """
    width = tile_for(dtype).width
    sums = types.memory(dtype)
    element = "i32" if how else sums
    vector, total = f"<{width} x {element}>", f"<{width} x {sums}>"
    kind = f"{how.instruction}{'_turned' * how.turned}_" if how else ""
    name = f"micro_{kind}{sums}_{rows}x{vectors}_{a_row}_{b_row}_{c_row}"
    if name in module.functions:
        return name
    f = Function(
        module,
        name,
        [
            ("ptr noalias", "a"),
            ("ptr noalias", "b"),
            ("ptr noalias", "c"),
            ("i64", "k"),
            ("i1", "more"),
        ],
        attributes="noinline",
    )
    size = dtype.itemsize
    cells = [(i, j) for i in range(rows) for j in range(vectors)]
    places = {(i, j): f.address(sums, "%c", i * c_row + j * width) for i, j in cells}
    carry = []
    for cell in cells:
        old = f.load(total, places[cell], parallel=False, align=size)
        # The first block of k finds what nobody wrote in the target.
        start = f.op(f"select i1 %more, {total} {old}, {total} zeroinitializer")
        carry.append((total, start))
    unroll = ', !{!"llvm.loop.unroll.count", i32 4}, !{!"llvm.loop.vectorize.width", i32 1}'
    with f.loop(0, "%k", carry, hints=unroll) as loop:
        at_b = f.address(element, "%b", f.mul(loop.index, b_row))
        rights = [
            f.load(vector, f.address(element, at_b, j * width), parallel=False, align=size)
            for j in range(vectors)
        ]
        at_a = f.address(element, "%a", loop.index)
        for i in range(rows):
            left = f.load(element, f.address(element, at_a, i * a_row), parallel=False)
            # One element of the left for a vector of the right: a broadcast load if there is one.
            one = f.op(f"insertelement {vector} poison, {element} {left}, i64 0")
            spread = f.op(
                f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer"
            )
            for j in range(vectors):
                at = i * vectors + j
                add = how.multiply_add if how else functools.partial(_multiply_add, dtype=dtype)
                loop.following[at] = add(f, width, spread, rights[j], loop.carried[at])
    for cell, result in zip(cells, loop.results, strict=True):
        f.store(total, result, places[cell], parallel=False, align=size)
    f.do("ret void")
    f.finish()
    return name


def _multiply_add(f: Function, width: int, a: str, b: str, c: str, dtype: np.dtype) -> str:
    vector = f"<{width} x {types.memory(dtype)}>"
    if not dtypes.is_float(dtype):
        return f.op(f"add {vector} {f.op(f'mul {vector} {a}, {b}')}, {c}")
    if host().features.get("fma", True):
        suffix = f"v{width}{'f64' if dtype.itemsize == 8 else 'f32'}"
        return f.intrinsic(f"llvm.fma.{suffix}", vector, (vector, a), (vector, b), (vector, c))
    product = f.op(f"fmul {vector} {a}, {b}")
    return f.op(f"fadd {vector} {product}, {c}")

# Tests: tests/pallas/cpu/test_dot.py
"""Products of short numbers by the CPU's dot-product instructions: words of several numbers.

A word of 32 bits holds numbers that follow each other along the summed dimension: four of 8 bits,
two of 16. An instruction multiplies two words number by number and adds all products to the 32-bit
sum of its lane, so the product of short numbers is that of words, with another multiply-add.

* `vpdpbusd` (AVX-512 VNNI, AVX-VNNI) takes unsigned numbers from one side and signed ones from the
  other. Signed ones of the left side get 128 added, and the sums start 128 times the column sums of
  the right side below 0: exact, as sums of int32 wrap around.
* `vpmaddwd` (AVX2, AVX-512 BW) takes pairs of signed numbers of 16 bits: integers of 8 bits fit.
* `vdpbf16ps` (AVX-512 BF16) takes pairs of bfloat16. Denormal numbers count as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import weft.pallas.cpu.arrays as arrays
import weft.pallas.cpu.loops as loops
from weft.core import dtypes
from weft.native.engine import host
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.loops import Memory
from weft.pallas.cpu.values import Array, Buffer

SMALLEST = 16
"""Summed numbers from which on words are worth their making."""


@dataclass(frozen=True)
class Grouping:
    """How many numbers a word has, of how many bits, and the instruction for them.

    turned: the right side is the unsigned one. biased: the left side's numbers get 128 added.
    """

    count: int
    bits: int
    instruction: str
    turned: bool = False
    biased: bool = False

    def multiply_add(self, f: Function, width: int, a: str, b: str, c: str) -> str:
        """c + a·b, lane by lane; a, b: vectors of words (i32). c: of sums."""
        if self.turned:
            a, b = b, a
        words = f"<{width} x i32>"
        if self.instruction == "vpdpbusd":
            part = f"<{width * 4} x i8>" if host().llvm_version[0] >= 22 else words
            a, b = (_cast(f, words, x, part) for x in (a, b))
            name = f"llvm.x86.avx512.vpdpbusd.{width * 32}"
            return f.intrinsic(name, words, (words, c), (part, a), (part, b))
        if self.instruction == "vpmaddwd":
            part = f"<{width * 2} x i16>"
            a, b = (_cast(f, words, x, part) for x in (a, b))
            name = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}[width]
            pairs = f.intrinsic(f"llvm.x86.{name}", words, (part, a), (part, b))
            return f.op(f"add {words} {pairs}, {c}")
        part, sums = f"<{width * 2} x bfloat>", f"<{width} x float>"
        a, b = (_cast(f, words, x, part) for x in (a, b))
        name = f"llvm.x86.avx512bf16.dpbf16ps.{width * 32}"
        return f.intrinsic(name, sums, (sums, c), (part, a), (part, b))


def _cast(f: Function, before: str, x: str, after: str) -> str:
    return x if before == after else f.op(f"bitcast {before} {x} to {after}")


def grouping(left: np.dtype, right: np.dtype, result: np.dtype) -> Grouping | None:
    """Return the grouping for dtypes on this CPU, None where it has no instruction for them."""
    processor = host()
    if not processor.triple.startswith("x86_64"):
        return None
    on = processor.able
    names = left.name, right.name
    if names == ("bfloat16", "bfloat16") and result == dtypes.float32:
        wide = "avx512bf16" in on and "avx512vl" in on
        return Grouping(2, 16, "vdpbf16ps") if wide else None
    if not {*names} <= {"int8", "uint8"} or result != dtypes.int32:
        return None
    vnni = {"avx512vnni", "avx512vl"} <= on or ("avxvnni" in on and processor.vector_bytes == 32)
    if vnni and names != ("uint8", "uint8"):
        turned = names == ("int8", "uint8")
        return Grouping(4, 8, "vpdpbusd", turned, biased=names == ("int8", "int8"))
    needs = {64: "avx512bw", 32: "avx2", 16: "sse2"}[processor.vector_bytes]
    return Grouping(2, 16, "vpmaddwd") if needs in on else None


def words(f: Function, memory: Memory, x: Array, axis: int, how: Grouping, bias: bool) -> Array:
    """Return the words of x[b, m, k] (axis 2) or x[b, k, n] (axis 1), in memory, as int32; the
    last ones along k are filled up with 0. bias: 128 is added to each number of 8 bits."""
    size, count = x.shape[axis], how.count
    whole = size - size % count
    first = _words(f, cut(f, x, axis, 0, whole), axis, how)
    if size == whole:
        return _biased(first) if bias else first
    shape = tuple(-(-n // count) if d == axis else n for d, n in enumerate(x.shape))
    all_ = Array(shape, dtypes.int32, buffer=loops.temporary(f, memory, shape, dtypes.int32))
    last = _words(f, cut(f, x, axis, whole, size), axis, how)
    for part, low in ((first, 0), (last, whole // count)):
        goal = cut(f, all_, axis, low, low + part.shape[axis])
        assert goal.buffer is not None
        loops.store(f, memory, goal.buffer, _biased(part) if bias else part)
    return all_


def _words(f: Function, x: Array, axis: int, how: Grouping) -> Array:
    """Whole words, or one of the few numbers there are."""
    short, buffer = how.bits == x.dtype.itemsize * 8, x.buffer
    count = min(how.count, x.shape[axis])
    shape = tuple(n // count if d == axis else n for d, n in enumerate(x.shape))
    assert buffer is not None
    if short and count == how.count and buffer.strides[axis] == 1:
        rest = [s for d, s in enumerate(buffer.strides) if d != axis]
        if all(isinstance(s, int) and s % count == 0 for s in rest):
            strides = [1 if d == axis else int(s) // count for d, s in enumerate(buffer.strides)]
            whole = Buffer(buffer.pointer, dtypes.int32, shape, strides, buffer.group)
            return Array(shape, dtypes.int32, buffer=whole)

    def element(f: Function, i: tuple[Index, ...]) -> str:
        word = "0"
        for k in range(count):
            where = tuple(f.add(f.mul(p, count), k) if d == axis else p for d, p in enumerate(i))
            value = x.at(f, where)
            if x.dtype.name == "bfloat16":
                value = f.op(f"bitcast bfloat {value} to i16")
            elif how.bits == 16:
                extend = "sext" if dtypes.is_signed(x.dtype) else "zext"
                value = f.op(f"{extend} i8 {value} to i16")
            value = f.op(f"zext i{how.bits} {value} to i32")
            if k:
                value = f.op(f"shl i32 {value}, {how.bits * k}")
            word = value if word == "0" else f.op(f"or disjoint i32 {word}, {value}")
        return word

    return Array(shape, dtypes.int32, element, [(x, None)], 2 * count)


def _biased(x: Array) -> Array:
    def element(f: Function, i: tuple[Index, ...]) -> str:
        return f.op(f"xor i32 {x.at(f, i)}, {0x80808080 - (1 << 32)}")

    return arrays.pointwise(x.shape, x.dtype, element, [x])


def start_sums(f: Function, memory: Memory, right: Array, target: Buffer) -> None:
    """target[b, i, j] = -128 * sum of right[b, :, j], for a left side with 128 added."""
    numbers = arrays.converted(right, dtypes.int32)
    sums = loops.reduce(f, memory, numbers, (1,), "add")

    def element(f: Function, i: tuple[Index, ...]) -> str:
        return f.op(f"mul i32 {sums.at(f, (i[0], i[2]))}, -128")

    start = Array(target.shape, dtypes.int32, element, [(sums, lambda i: (i[0], i[2]))], 2)
    loops.store(f, memory, target, start)


def cut(f: Function, x: Array, axis: int, low: int, high: int) -> Array:
    """x[b, m, low:high] (axis 2) or x[b, low:high, n] (axis 1), of an array in memory."""
    assert x.buffer is not None
    shape = tuple(high - low if d == axis else n for d, n in enumerate(x.shape))
    offset = f.mul(x.buffer.strides[axis], low)
    return Array(shape, x.dtype, buffer=x.buffer.view(f, offset, shape, x.buffer.strides))

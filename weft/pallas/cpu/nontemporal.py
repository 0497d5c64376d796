# Tests: tests/pallas/test_cpu_cache.py
"""Stores past the caches, for outputs of kernels whose arrays no cache can hold.

A plain store first reads the line it writes. A whole line written at once with a hint that nobody
reads it soon is sent to memory as it is: a third less traffic for a kernel that reads and writes
as much. LLVM vectorizes no stores with the hint, so a row is computed a strip at a time into
memory that stays in the first cache, and the strip is copied by vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weft.core.jaxpr import open_jaxpr
from weft.native.engine import host
from weft.pallas.cpu.llvm import Function, Index

if TYPE_CHECKING:
    from weft.pallas.cpu.values import Buffer
    from weft.pallas.ir import KernelCall

STRIP_BYTES = 1024
LINE = 64
AHEAD_BYTES = 8 << 10
"""How far ahead of what is written the next rows are asked for: the first of several passes over
a row would otherwise wait for memory."""


@cache
def last_cache_bytes() -> int:
    """Return the size of the largest cache, 32 MiB where the system does not tell."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = []
    for file in folder.glob("index*/size"):
        text = file.read_text().strip()
        if text[:-1].isdigit() and text[-1] in units:
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=32 << 20)


def streamed_outputs(call: KernelCall, ordered: bool) -> set[int]:
    """Return outputs to be stored past the caches: written once each, too large to stay there.

    ordered: whether programs may come back to a block.
    """
    if ordered or not host().triple.startswith("x86_64"):
        return set()
    arrays = [*call.operand_avals, *call.outputs]
    if sum(a.size * a.dtype.itemsize for a in arrays) < last_cache_bytes() * 3 // 4:
        return set()
    jaxpr = open_jaxpr(call.jaxpr)
    first = call.num_scalars + call.num_inputs
    streamed = set()
    for k in range(len(call.outputs)):
        ref = jaxpr.invars[first + k]
        uses = [e.primitive.name for e in jaxpr.eqns for v in e.invars if v is ref]
        if uses == ["set"] and not any(output == k for _, output in call.aliases):
            streamed.add(k)
    return streamed


def strip_of(target: Buffer, shape: Sequence[int]) -> int:
    """Return the size of the strips in which loops over `shape` write the target; 0: no strips."""
    size = target.dtype.itemsize
    if not target.group.streams or not shape or shape[-1] * size < LINE:
        return 0
    if shape[-1] * size % LINE or target.strides[-1] != 1:
        return 0
    rest = zip(target.shape[:-1], target.strides[:-1], strict=True)
    if any(n != 1 and (not isinstance(s, int) or s * size % LINE) for n, s in rest):
        return 0
    lines = shape[-1] * size // LINE
    wide = next(n for n in range(min(lines, STRIP_BYTES // LINE), 0, -1) if not lines % n)
    return wide * LINE // size


def lines_at_once(size: int) -> int:
    """Cache lines that one turn of a loop over `size` bytes takes; LLVM is not asked to unroll."""
    return next(n for n in (8, 4, 2, 1) if not size % (n * LINE) or n == 1)


def read_soon(f: Function, target: Buffer, indices: Sequence[Index]) -> list[str]:
    """Return the addresses, AHEAD_BYTES on, of sources laid as the target and read by tiles."""
    addresses = []
    for b in f.ahead:
        step = b.strides[0]
        same = (b.shape, b.strides, b.dtype) == (target.shape, target.strides, target.dtype)
        if same and isinstance(step, int):
            tile = b.shape[0] * step * b.dtype.itemsize
            rows = -(-AHEAD_BYTES // tile) * b.shape[0]
            addresses.append(b.address(f, (f.add(indices[0], rows), *indices[1:])))
    return addresses


def emit_copy(f: Function, target: str, strip: str, size: int, ahead: Sequence[str] = ()) -> None:
    """Copy `size` bytes, whole lines, from a strip: past the caches if the target is aligned.

    ahead: addresses of as many bytes that will be read soon, which start on their way meanwhile.
    """
    f.streams = True
    width = host().vector_bytes
    type_ = f"<{width // 4} x float>"
    hint = f.module.once("nontemporal", "!{i32 1}")
    address = f.op(f"ptrtoint ptr {target} to i64")
    whole = f.op(f"icmp eq i64 {f.op(f'and i64 {address}, {LINE - 1}')}, 0")

    step = lines_at_once(size) * LINE

    def copy(align: int, tail: str) -> None:
        with f.loop(0, size, step=step) as loop:
            for k in range(0, step, width):
                index: Index = f.add(loop.index, k)
                value = f.load(type_, f.address("i8", strip, index), parallel=False, align=width)
                where = f.address("i8", target, index)
                f.do(f"store {type_} {value}, ptr {where}, align {align}{tail}")
            for k in range(0, step, LINE):
                for address in ahead:
                    where = f.address("i8", address, f.add(loop.index, k))
                    f.intrinsic(
                        "llvm.prefetch.p0", "void",
                        ("ptr", where), ("i32", "0"), ("i32", "3"), ("i32", "1"),
                    )  # fmt: skip

    with f.when(whole):
        copy(width, f", !nontemporal {hint}")
    with f.when(f.op(f"xor i1 {whole}, true")):
        copy(1, "")


def emit_fence(f: Function) -> None:
    """Make what was stored past the caches visible before what follows."""
    if f.streams:
        f.intrinsic("llvm.x86.sse.sfence", "void")

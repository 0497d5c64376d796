# Tests: tests/pallas/cpu/test_mpmd.py
"""Chunks of a grid over threads, by the loop that weft's own kernels share (native/parallel.py).

No threads are made, and however many virtual devices run, they share XLA's one pool.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.native.engine import host
from weft.native.parallel import PARALLEL
from weft.pallas.cpu.frame import field, set_field
from weft.pallas.cpu.llvm import Function, Module

# What the chunks of a call share: the first message of a failure, and the addresses of its arrays.
STATUS, BUFFERS = 0, 8
ARENA_SLOTS = 16


def emit_arena(module: Module, size: int) -> None:
    """`arena_take` and `arena_give`: temporary memory of one running chunk, kept for the next."""
    module.globals["@arenas"] = f"internal global [{ARENA_SLOTS} x ptr] zeroinitializer"
    f = Function(module, "arena_take", [], "ptr", "noinline")
    with f.loop(0, ARENA_SLOTS) as loop:
        slot = f.address("ptr", "@arenas", loop.index)
        got = f.op(f"atomicrmw xchg ptr {slot}, ptr null acquire")
        with f.when(f.op(f"icmp ne ptr {got}, null")):
            f.do(f"ret ptr {got}")
            f.label(f.name_of("never"))
    new = f.intrinsic("aligned_alloc", "ptr", ("i64", "64"), ("i64", str(-(-size // 64) * 64)))
    f.do(f"ret ptr {new}")
    f.finish()
    f = Function(module, "arena_give", [("ptr", "arena")], "void", "noinline")
    with f.loop(0, ARENA_SLOTS) as loop:
        slot = f.address("ptr", "@arenas", loop.index)
        pair = f.op(f"cmpxchg ptr {slot}, ptr null, ptr %arena release monotonic")
        with f.when(f.op(f"extractvalue {{ ptr, i1 }} {pair}, 1")):
            f.do("ret void")
            f.label(f.name_of("never"))
    f.intrinsic("free", "void", ("ptr", "%arena"))
    f.do("ret void")
    f.finish()


Chunk = Callable[[Function, str, str, str], str]
"""(f, chunk number, buffers, arena) → status"""


def _emit_task(module: Module, arena: int, body: Chunk) -> None:
    """`chunk_task(frame, number, shared)`: one chunk of a job, in an arena of its own."""
    f = Function(module, "chunk_task", [("ptr", "frame"), ("i64", "number"), ("ptr", "shared")])
    slot = f.address("i8", "%shared", STATUS)
    # After an error, chunks are only counted: each might wait as long as the one that failed.
    fine = f.op(f"load atomic i64, ptr {slot} monotonic, align 8")
    with f.when(f.op(f"icmp eq i64 {fine}, 0")):
        status = _in_arena(f, "%number", field(f, "%shared", BUFFERS), arena, body)
        with f.when(f.op(f"icmp ne i64 {status}, 0")):
            f.op(f"cmpxchg ptr {slot}, i64 0, i64 {status} monotonic monotonic")
    f.do("ret void")
    f.finish()


def emit_grid(f: Function, buffers: str, chunks: int, arena: int, body: Chunk, threads: int) -> str:
    """Run all chunks and give their status; the handler's body. 0 chunks do nothing."""
    if not chunks:
        return "0"
    if arena:
        emit_arena(f.module, arena)
    if chunks == 1:
        return _in_arena(f, "0", buffers, arena, body)
    _emit_task(f.module, arena, body)
    lines = PARALLEL.replace("@@THREADS@@", str(threads)).splitlines()
    f.module.functions["parallel_for"] = "\n".join(
        line for line in lines if not line.startswith("declare")
    )
    f.module.declare("aligned_alloc", "ptr", "i64, i64")
    f.module.declare("free", "void", "ptr")
    f.module.declare("sched_yield", "i32", "")
    shared = f.alloca("[2 x i64]")
    set_field(f, shared, STATUS, "i64", 0)
    set_field(f, shared, BUFFERS, "ptr", buffers)
    f.do(f"call void @parallel_for(ptr %frame, ptr @chunk_task, i64 {chunks}, ptr {shared})")
    return field(f, shared, STATUS, "i64")


def _in_arena(f: Function, number: str, buffers: str, arena: int, body: Chunk) -> str:
    if not arena:
        return body(f, number, buffers, "null")
    memory = f.op("call ptr @arena_take()")
    status = body(f, number, buffers, memory)
    f.do(f"call void @arena_give(ptr {memory})")
    return status


def emit_spin(f: Function) -> None:
    """Tell the CPU that a loop only waits."""
    if host().triple.startswith(("x86_64", "i686")):
        f.intrinsic("llvm.x86.sse2.pause", "void")

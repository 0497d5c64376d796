"""Work of a kernel over threads: chunks of a grid, and one thread for each core.

Chunks of a grid run on the thread of the call and on XLA's own pool, which the FFI lends: no
threads are made, and however many virtual devices run, they share one pool. The caller takes
chunks too and waits only for chunks somebody has begun, so a pool without a free thread delays
nothing and cannot deadlock. A helper that comes late finds no chunk left and touches nothing but
the job's counters, which live until the last one has left.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.native.engine import host
from weft.pallas.cpu.frame import ERROR_DESTROY, SCHEDULE, field, set_field
from weft.pallas.cpu.llvm import Function, Module

# A job: counters on cache lines of their own, then what is read only.
NEXT, DONE, USERS, STATUS, BUFFERS, JOB_BYTES = 0, 64, 128, 192, 200, 256
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


def emit_chunks(module: Module, name: str, chunks: int, arena: int, body: Chunk) -> None:
    """`name(job)`: takes chunks until none is left."""
    if arena:
        emit_arena(module, arena)
    f = Function(module, name, [("ptr", "job")])
    head, work, out = f.name_of("head"), f.name_of("work"), f.name_of("out")
    first = f.op(f"atomicrmw add ptr {f.address('i8', '%job', NEXT)}, i64 1 monotonic")
    some, none = f.name_of("some"), f.name_of("none")
    f.do(f"br i1 {f.op(f'icmp slt i64 {first}, {chunks}')}, label {some}, label {none}")
    f.label(none)
    f.do("ret void")
    f.label(some)
    memory = f.op("call ptr @arena_take()") if arena else "null"
    buffers = field(f, "%job", BUFFERS)
    before = f.block
    f.goto(head)
    f.label(head)
    index, after = f.name_of("chunk"), f.name_of("next")
    place = len(f.lines)
    f.lines.append("")
    f.do(f"br i1 {f.op(f'icmp slt i64 {index}, {chunks}')}, label {work}, label {out}")
    f.label(work)
    slot = f.address("i8", "%job", STATUS)
    # After an error, chunks are only counted: each might wait as long as the one that failed.
    fine = f.op(f"load atomic i64, ptr {slot} monotonic, align 8")
    with f.when(f.op(f"icmp eq i64 {fine}, 0")):
        status = body(f, index, buffers, memory)
        with f.when(f.op(f"icmp ne i64 {status}, 0")):
            f.op(f"cmpxchg ptr {slot}, i64 0, i64 {status} monotonic monotonic")
    f.op(f"atomicrmw add ptr {f.address('i8', '%job', DONE)}, i64 1 release")
    f.do(f"{after} = atomicrmw add ptr {f.address('i8', '%job', NEXT)}, i64 1 monotonic")
    f.lines[place] = f"  {index} = phi i64 [ {first}, %{before} ], [ {after}, %{f.block} ]"
    f.goto(head)
    f.label(out)
    if arena:
        f.do(f"call void @arena_give(ptr {memory})")
    f.do("ret void")
    f.finish()


def emit_release(module: Module) -> None:
    """`job_leave(job)`: the last user of a job frees it. `job_help(job)`: a task of the pool."""
    f = Function(module, "job_leave", [("ptr", "job")])
    left = f.op(f"atomicrmw sub ptr {f.address('i8', '%job', USERS)}, i64 1 acq_rel")
    with f.when(f.op(f"icmp eq i64 {left}, 1")):
        f.intrinsic("free", "void", ("ptr", "%job"))
    f.do("ret void")
    f.finish()
    f = Function(module, "job_help", [("ptr", "job")])
    f.do("call void @job_run(ptr %job)")
    f.do("call void @job_leave(ptr %job)")
    f.do("ret void")
    f.finish()


def emit_grid(
    f: Function,
    buffers: str,
    api: str,
    context: str,
    chunks: int,
    arena: int,
    body: Chunk,
    threads: int,
) -> str:
    """Runs all chunks and gives their status; the handler's body. 0 chunks do nothing."""
    if not chunks:
        return "0"
    module = f.module
    if chunks == 1:
        return _emit_one(f, buffers, arena, body)
    emit_chunks(module, "job_run", chunks, arena, body)
    emit_release(module)
    helpers = min(chunks, threads) - 1
    job = f.intrinsic("aligned_alloc", "ptr", ("i64", "64"), ("i64", str(JOB_BYTES)))
    for offset, value in ((NEXT, 0), (DONE, 0), (USERS, helpers + 1), (STATUS, 0)):
        set_field(f, job, offset, "i64", value)
    set_field(f, job, BUFFERS, "ptr", buffers)
    if helpers:
        record = f.alloca("[5 x i64]")
        set_field(f, record, 0, "i64", 40)
        set_field(f, record, 8, "ptr", "null")
        set_field(f, record, 16, "ptr", context)
        set_field(f, record, 24, "ptr", "@job_help")
        set_field(f, record, 32, "ptr", job)
        schedule = field(f, api, SCHEDULE)
        with f.loop(0, helpers):
            error = f.op(f"call ptr {schedule}(ptr {record})")
            with f.when(f.op(f"icmp ne ptr {error}, null")):
                # No pool: the caller does everything.
                slot = f.address("i8", job, USERS)
                f.op(f"atomicrmw sub ptr {slot}, i64 1 monotonic")
                destroy = field(f, api, ERROR_DESTROY)
                gone = f.alloca("[3 x i64]")
                set_field(f, gone, 0, "i64", 24)
                set_field(f, gone, 8, "ptr", "null")
                set_field(f, gone, 16, "ptr", error)
                f.do(f"call void {destroy}(ptr {gone})")
    f.do(f"call void @job_run(ptr {job})")
    emit_wait(f, f.address("i8", job, DONE), chunks)
    status = field(f, job, STATUS, "i64")
    f.do(f"call void @job_leave(ptr {job})")
    return status


def _emit_one(f: Function, buffers: str, arena: int, body: Chunk) -> str:
    if not arena:
        return body(f, "0", buffers, "null")
    emit_arena(f.module, arena)
    memory = f.op("call ptr @arena_take()")
    status = body(f, "0", buffers, memory)
    f.do(f"call void @arena_give(ptr {memory})")
    return status


SPINS = 512


def emit_wait(f: Function, counter: str, goal: int) -> None:
    """Waits until the counter has reached the goal: spins a while, then yields the CPU."""
    done = f.name_of("done")
    with f.loop(0, 1 << 62) as turn:
        now = f.op(f"load atomic i64, ptr {counter} acquire, align 8")
        again = f.name_of("again")
        f.do(f"br i1 {f.op(f'icmp sge i64 {now}, {goal}')}, label {done}, label {again}")
        f.label(again)
        spins = f.op(f"icmp slt i64 {turn.index}, {SPINS}")
        with f.when(spins):
            emit_spin(f)
        with f.when(f.op(f"xor i1 {spins}, true")):
            f.intrinsic("sched_yield", "i32")
    f.goto(done)
    f.label(done)


def emit_spin(f: Function) -> None:
    """Tells the CPU that a loop only waits."""
    if host().triple.startswith(("x86_64", "i686")):
        f.intrinsic("llvm.x86.sse2.pause", "void")

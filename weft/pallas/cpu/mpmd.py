"""Several programs at once: one thread for each core, in one shared memory.

The kernel's memory is one piece: its state, scratch that all cores share, scratch of each core,
and each core's temporaries. The calling thread waits; threads end with the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import weft.pallas.cpu.loops as loops
from weft.core.jaxpr import open_jaxpr
from weft.pallas.cpu.frame import emit_handler, field, set_field
from weft.pallas.cpu.grid import whole_arrays
from weft.pallas.cpu.llvm import Function, Index, Module
from weft.pallas.cpu.loops import Memory
from weft.pallas.cpu.sync import Core, linear_index
from weft.pallas.cpu.threads import emit_arena
from weft.pallas.cpu.translate import Translator
from weft.pallas.cpu.values import Buffer, Group
from weft.pallas.cpu.waits import (
    ABORT,
    FINISHED,
    NO_THREADS,
    RECORDS,
    RUNNING,
    STATE,
    emit_report,
    emit_waits,
    end_waits,
    first_messages,
    state_bytes,
)
from weft.pallas.cpu.waits import RECORD_BYTES as CORE_BYTES
from weft.pallas.ir import row_major

if TYPE_CHECKING:
    from weft.pallas.ir import KernelCall, Program

# The record of a thread: what it works on.
BUFFERS, SHARED, ARENA, NUMBER, THREAD, RECORD_BYTES = 0, 8, 16, 24, 32, 64


def mpmd_text(call: KernelCall, inputs: list[tuple], outputs: list[tuple]) -> str:
    """Return the LLVM IR of a kernel of several programs; shapes of what XLA calls it with."""
    cores = _Cores(call)
    emit_waits(cores.module, call, cores.total)
    peak = first = 0
    for k, program in enumerate(call.programs):
        peak = max(peak, cores.emit_core(k, program, first))
        first += program.mesh.size
    # Cores' temporaries do not share cache lines that are fetched in pairs.
    each = -(-peak // 128) * 128 + 128
    emit_arena(cores.module, cores.size + cores.total * each)
    _emit_thread(cores.module, call)

    def body(f: Function, buffers: str) -> tuple[str, str]:
        return cores.emit_call(f, buffers, each)

    emit_handler(cores.module, "handler", inputs, outputs, body, cores.messages, call.name)
    return cores.module.text()


class _Cores:
    """A kernel of several programs: its module, and its memory.

    size: the bytes of its state and of shared and per-core scratch, which begins at `offsets`.
    zeroed: (offset, bytes) of what starts as zeros.
    """

    def __init__(self, call: KernelCall) -> None:
        self.call, self.module, self.messages = call, Module(), first_messages(call)
        self.total = sum(p.mesh.size for p in call.programs)
        memory = Memory()
        self.zeroed = [(memory.take(state_bytes(self.total)), state_bytes(self.total))]
        self.offsets = []
        for aval in call.scratch:
            size = loops.slot_bytes(aval.shape, aval.dtype)
            size *= 1 if aval.core is None else aval.core.size
            self.offsets.append(memory.take(size))
            if aval.holds_semaphores:
                self.zeroed.append((self.offsets[-1], size))
        self.size = memory.peak

    def emit_core(self, k: int, program: Program, first: int) -> int:
        """`core_k(number, buffers, shared, arena)`: the k-th program on one core of its mesh,
        whose cores are those from number `first` on. Gives the bytes of its temporaries."""
        call, memory = self.call, Memory()
        arguments = [("i64", "number"), ("ptr", "buffers"), ("ptr", "shared"), ("ptr", "arena")]
        f = Function(self.module, f"core_{k}", arguments, "void", "noinline")
        t = Translator(f, call, memory, self.messages)
        coordinates: dict[str, Index] = {}
        number: Index = "%number"
        for axis, size in reversed(program.mesh.shape.items()):
            coordinates[axis] = f.rem(number, size)
            number = f.div(number, size)
        record_offset = f.add(f.mul("%number", CORE_BYTES), RECORDS + first * CORE_BYTES)
        record = f.address("i8", "%shared", record_offset)
        t.core = Core(program.mesh, coordinates, "%shared", record)
        avals = open_jaxpr(program.jaxpr).in_avals
        operands = whole_arrays(t, avals[: len(avals) - len(call.scratch)])
        for output in operands[call.num_scalars + call.num_inputs :]:
            output.group.shared = True
        count = len(operands)
        for i, (aval, offset) in enumerate(zip(call.scratch, self.offsets, strict=True)):
            where: Index = offset
            if aval.core is not None:
                core = linear_index(f, aval.core, coordinates, {})
                size = loops.slot_bytes(aval.shape, aval.dtype)
                where = f.add(f.mul(core, size), offset)
            pointer = f.address("i8", "%shared", where)
            group = Group(call.ref_name(count + i))
            group.shared = True
            operands.append(Buffer(pointer, aval.dtype, aval.shape, row_major(aval.shape), group))
        t.run(program.jaxpr, operands)
        memory.place_lasting(f)
        f.goto("%leave")
        f.label("%leave")
        f.do("ret void")
        f.finish()
        return memory.peak

    def emit_call(self, f: Function, buffers: str, each: int) -> tuple[str, str]:
        """Start a thread for each core but the last, run that one here, and wait for all.

        each: the bytes of temporary memory of a core.
        """
        base = f.op("call ptr @arena_take()")
        f.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        for offset, size in self.zeroed:
            pointer = f.address("i8", base, offset)
            f.do(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)")
        records = f.alloca(f"[{self.total * RECORD_BYTES} x i8]")

        def record(k: Index) -> str:
            return f.address("i8", records, f.mul(k, RECORD_BYTES))

        with f.loop(0, self.total) as loop:
            r = record(loop.index)
            set_field(f, r, BUFFERS, "ptr", buffers)
            set_field(f, r, SHARED, "ptr", base)
            arena = f.address("i8", base, f.add(f.mul(loop.index, each), self.size))
            set_field(f, r, ARENA, "ptr", arena)
            set_field(f, r, NUMBER, "i64", loop.index)
            set_field(f, r, THREAD, "i64", 0)
        with f.loop(0, self.total - 1) as loop:
            r = record(loop.index)
            handle = f.address("i8", r, THREAD)
            operands = [("ptr", x) for x in (handle, "null", "@core_thread", r)]
            error = f.intrinsic("pthread_create", "i32", *operands)
            with f.when(f.op(f"icmp ne i32 {error}, 0")):
                # The cores that run wait for one that never will: end their waits.
                set_field(f, r, THREAD, "i64", 0)
                end_waits(f, base, NO_THREADS)
                _finish(f, base, loop.index)
        f.op(f"call ptr @core_thread(ptr {record(self.total - 1)})")
        with f.loop(0, self.total) as loop:
            r = record(loop.index)
            thread = field(f, r, THREAD, "i64")
            with f.when(f.op(f"icmp ne i64 {thread}, 0")):
                f.intrinsic("pthread_join", "i32", ("i64", thread), ("ptr", "null"))
        status = field(f, base, ABORT, "i64")
        text = emit_report(f, self.call, base, status)
        f.do(f"call void @arena_give(ptr {base})")
        return status, text


def _emit_thread(module: Module, call: KernelCall) -> None:
    """`core_thread(record)`: runs the program that the record's number belongs to."""
    f = Function(module, "core_thread", [("ptr", "record")], "ptr")
    number = field(f, "%record", NUMBER, "i64")
    buffers, shared = field(f, "%record", BUFFERS), field(f, "%record", SHARED)
    arena = field(f, "%record", ARENA)
    first = 0
    for k, program in enumerate(call.programs):
        size = program.mesh.size
        inside = f.op(
            f"and i1 {f.op(f'icmp sge i64 {number}, {first}')}, "
            f"{f.op(f'icmp slt i64 {number}, {first + size}')}"
        )
        with f.when(inside):
            core = f.sub(number, first)
            f.do(f"call void @core_{k}(i64 {core}, ptr {buffers}, ptr {shared}, ptr {arena})")
        first += size
    # One that left a wait because the kernel ended stays as it was, for the report.
    _finish(f, shared, number)
    f.do("ret ptr null")
    f.finish()


def _finish(f: Function, state: str, number: Index) -> None:
    """Note that a core has done what it had to do."""
    record = f.address("i8", state, f.add(f.mul(number, CORE_BYTES), RECORDS))
    pointer = f.address("i8", record, STATE)
    f.op(f"cmpxchg ptr {pointer}, i64 {RUNNING}, i64 {FINISHED} seq_cst seq_cst")

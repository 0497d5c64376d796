"""Waits of cores that end: by what they wait for, by a deadlock found, or by the limit of time.

The state of a running kernel stands at the start of its shared memory: a counter of what happened
(signals, arrivals, copies, waits that ended), how the kernel is to end, and a record of each core.
A core that waits for long says so in its record, with the address that it watches, and takes it
back before it goes on. So if all cores that have not finished are seen waiting for values that
are not there, and nothing happened while somebody looked at all of them, nothing will.

A loop that looks at a semaphore or a lock again and again cannot be told from one that computes:
it ends, as a wait beside a core that computes does, once nothing happened for the limit of time.
From one look to the next no more than a part of the limit counts: a process that is stopped for a
while, and goes on, has not waited.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.native import engine
from weft.pallas.cpu.frame import field, set_field
from weft.pallas.cpu.llvm import Function, Index, Module
from weft.pallas.cpu.threads import emit_spin
from weft.pallas.spin_loops import limit_text, polls

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn
    from weft.pallas.cpu.translate import Translator
    from weft.pallas.ir import KernelCall

# The state of a kernel: its counters on cache lines of their own, then the records of its cores.
PROGRESS, ABORT, RECORDS = 0, 64, 128
# The clock of who looks: when it last did, the counter then, and for how long it saw no change.
LOOKED, COUNTER, IN_VAIN, CLOCK = 0, 8, 16, "[3 x i64]"
LEAST_LOOKS = 16
# The record of a core: what it is at, the address it watches, what it waits for there, the site
# of the wait in the kernel, the position of the semaphore in its array.
STATE, WATCHED, AMOUNT, SITE, POSITION, RECORD_BYTES = 0, 8, 16, 24, 32, 64
RUNNING, WAITING, FINISHED, LOOKING = 0, 1, 2, 3
REPORT = "weft_wait_report"
"""The function of this process that code calls for the text of an error."""

SPINS, YIELD_NANOS = 256, 1_000_000
"""For how many turns a waiting core spins, and for how long it then yields; then it sleeps."""
NAP, LONG_NAP, SHORT_NAPS = 20, 500, 4096
"""Microseconds of a turn's sleep, of later ones, and how many turns the short ones are for."""
LOOK_TURNS = 256
"""Turns of a loop after which it looks whether it may go on."""
LISTED = 16
"""Cores that an error names."""

NO_THREADS, DEADLOCK, LIMIT = 1, 2, 3
"""The first messages of a kernel of several programs, numbered from 1."""


def state_bytes(total: int) -> int:
    return RECORDS + total * RECORD_BYTES


def first_messages(call: KernelCall) -> list[str]:
    return [
        "mpmd_map: no more threads for the cores of a kernel",
        f"kernel {call.name}: deadlock, no core can go on:",
        f"kernel {call.name}: nothing has happened for {limit_text(call.wait_limit)}:",
    ]


# What a core waits for ---------------------------------------------------------------------------


def site(module: Module, text: str, shape: Sequence[int] = (), count: int = 0) -> str:
    """Make a constant that describes a wait: its text, the shape of the array of semaphores, of a
    barrier, the number of cores it is for."""
    return module.string(json.dumps([text, list(shape), count]))


def emit_report(f: Function, call: KernelCall, base: str, status: str) -> str:
    """Return the text of the error that ended a kernel's waits, null where another error did."""
    head = first_messages(call)[DEADLOCK - 1 :]
    names = [p.mesh.core_name(core) for p in call.programs for core in p.mesh.cores()]
    description = f.module.string(json.dumps([head, names]))
    waits = f.op(f"icmp sge i64 {status}, {DEADLOCK}")
    waits = f.op(f"and i1 {waits}, {f.op(f'icmp sle i64 {status}, {LIMIT}')}")
    return f.choose(
        waits,
        "ptr",
        lambda: f.intrinsic(REPORT, "ptr", ("ptr", base), ("ptr", description)),
        "null",
    )


def wait_report(state: int, description: bytes) -> str:
    """Return the error of a kernel that ended: where its cores wait, by its state's records."""
    heads, names = json.loads(description)
    lines = [heads[ctypes.c_int64.from_address(state + ABORT).value - DEADLOCK]]
    for k, name in enumerate(names):
        record = state + RECORDS + k * RECORD_BYTES
        if ctypes.c_int64.from_address(record + STATE).value == FINISHED:
            continue
        if len(lines) > LISTED:
            lines.append("and so on")
            break
        lines.append(f"{name} {_wait_of(record)}")
    return "\n  ".join(lines)


def _wait_of(record: int) -> str:
    """Return what the core of a record waits for, or which loop it is in."""
    state, watched, amount, where, position = (ctypes.c_int64 * 5).from_address(record)
    text, shape, count = json.loads(ctypes.string_at(where))
    if state != WAITING:
        return text
    value = ctypes.c_int32.from_address(watched).value
    index = [int(i) for i in np.unravel_index(position, shape)] if shape else ""
    if count:
        return f"{text}{index} ({value - amount + count} of {count} cores are there)"
    return f"{text}{index} to be at least {amount} (it is {value})"


_texts: deque[Any] = deque(maxlen=64)  # XLA copies a text as it makes its error


@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p)
def _report(state: int, description: bytes) -> int:
    _texts.append(ctypes.create_string_buffer(wait_report(state, description).encode()))
    return ctypes.addressof(_texts[-1])


engine.shared[REPORT] = lambda: ctypes.cast(_report, ctypes.c_void_p).value or 0


# The functions of a kernel -----------------------------------------------------------------------


def emit_waits(module: Module, call: KernelCall, total: int) -> None:
    """`core_await` and `core_look`, of kernels of several programs."""
    limit = round(call.wait_limit * 1e9)
    _emit_stuck(module, total)
    _emit_await(module, limit)
    _emit_look(module, limit)


def _atomic(f: Function, base: str, offset: int, type_: str = "i64") -> str:
    align = 4 if type_ == "i32" else 8
    pointer = f.address("i8", base, offset)
    return f.op(f"load atomic {type_}, ptr {pointer} seq_cst, align {align}")


def _record(f: Function, offset: int, value: str | int) -> None:
    """Set a field of the core's record, which others read."""
    pointer = f.address("i8", "%record", offset)
    f.do(f"store atomic i64 {value}, ptr {pointer} seq_cst, align 8")


def end_waits(f: Function, state: str, number: int) -> None:
    """End all waits; the first error of all cores is the one reported."""
    pointer = f.address("i8", state, ABORT)
    f.op(f"cmpxchg ptr {pointer}, i64 0, i64 {number} seq_cst seq_cst")


def _return_false(f: Function, condition: str) -> None:
    with f.when(condition):
        f.do("ret i1 false")
        f.label(f.name_of("never"))


def _now(f: Function) -> str:
    """Return nanoseconds of a clock that only goes forward."""
    pair = f.alloca("[2 x i64]")
    f.intrinsic("clock_gettime", "i32", ("i32", str(time.CLOCK_MONOTONIC)), ("ptr", pair))
    seconds, nanos = field(f, pair, 0, "i64"), field(f, pair, 8, "i64")
    return str(f.add(f.mul(seconds, 1_000_000_000), nanos))


def _emit_stuck(module: Module, total: int) -> None:
    """`core_stuck(state)`: whether no core can go on."""
    f = Function(module, "core_stuck", [("ptr", "state")], "i1", "noinline")
    before = _atomic(f, "%state", PROGRESS)
    with f.loop(0, total) as loop:
        record = f.address("i8", "%state", f.add(f.mul(loop.index, RECORD_BYTES), RECORDS))
        state = _atomic(f, record, STATE)
        with f.when(f.op(f"icmp ne i64 {state}, {FINISHED}")):
            _return_false(f, f.op(f"icmp ne i64 {state}, {WAITING}"))
            amount = f.op(f"trunc i64 {_atomic(f, record, AMOUNT)} to i32")
            pointer = f.op(
                f"load atomic ptr, ptr {f.address('i8', record, WATCHED)} seq_cst, align 8"
            )
            value = _atomic(f, pointer, 0, "i32")
            _return_false(f, f.op(f"icmp sge i32 {value}, {amount}"))
    after = _atomic(f, "%state", PROGRESS)
    f.do(f"ret i1 {f.op(f'icmp eq i64 {before}, {after}')}")
    f.finish()


def _emit_await(module: Module, limit: int) -> None:
    """`core_await(state, record, place, amount, site, position)`: waits until the semaphore has
    the amount; false where the kernel is to end instead."""
    arguments = [("ptr", "state"), ("ptr", "record"), ("ptr", "place"), ("i32", "amount")]
    arguments += [("ptr", "site"), ("i64", "position")]
    f = Function(module, "core_await", arguments, "i1", "noinline")
    clock, nap = f.alloca(CLOCK), f.alloca("i64")  # the first turn with a sleep
    set_field(f, nap, 0, "i64", 0)
    # Spin first, then give the processor up, then sleep: each for longer than its switch costs.
    with f.loop(0, 1 << 62) as loop:
        turn = loop.index
        first_nap = field(f, nap, 0, "i64")
        naps = f.op(f"icmp ne i64 {first_nap}, 0")
        enough = f.op(f"icmp sge i32 {_atomic(f, '%place', 0, 'i32')}, %amount")
        with f.when(enough):
            with f.when(naps):
                _record(f, STATE, RUNNING)
            f.do("ret i1 true")
            f.label(f.name_of("never"))
        with f.when(f.op(f"icmp ne i64 {_atomic(f, '%state', ABORT)}, 0")):
            _announce(f)
            f.do("ret i1 false")
            f.label(f.name_of("never"))
        spins = f.op(f"icmp slt i64 {turn}, {SPINS}")
        with f.when(spins):
            emit_spin(f)
            with f.when(f.op(f"icmp eq i64 {turn}, {SPINS - 1}")):
                _start_clock(f, clock)
        sixteenth = f.op(f"icmp eq i64 {f.op(f'and i64 {turn}, 15')}, 15")
        # Asleep, look for a deadlock and the time limit only now and then: it reads all records.
        with f.when(naps):
            short = f.op(f"icmp slt i64 {f.sub(turn, first_nap)}, {SHORT_NAPS}")
            f.intrinsic(
                "usleep", "i32", ("i32", f.op(f"select i1 {short}, i32 {NAP}, i32 {LONG_NAP}"))
            )
            with f.when(sixteenth):
                with f.when(f.op("call i1 @core_stuck(ptr %state)")):
                    end_waits(f, "%state", DEADLOCK)
                _watch(f, clock, limit)
        with f.when(f.op(f"xor i1 {f.op(f'or i1 {naps}, {spins}')}, true")):
            f.intrinsic("sched_yield", "i32")
            with f.when(sixteenth):
                waited = f.sub(_now(f), field(f, clock, LOOKED, "i64"))
                with f.when(f.op(f"icmp sgt i64 {waited}, {YIELD_NANOS}")):
                    _announce(f)
                    _start_clock(f, clock)
                    set_field(f, nap, 0, "i64", turn)
    f.do("ret i1 false")
    f.finish()


def _announce(f: Function) -> None:
    """Say in the record of a core what it waits for."""
    set_field(f, "%record", SITE, "ptr", "%site")
    set_field(f, "%record", POSITION, "i64", "%position")
    watched = f.address("i8", "%record", WATCHED)
    f.do(f"store atomic ptr %place, ptr {watched} seq_cst, align 8")
    _record(f, AMOUNT, f.op("sext i32 %amount to i64"))
    _record(f, STATE, WAITING)


def _start_clock(f: Function, clock: str) -> None:
    set_field(f, clock, LOOKED, "i64", _now(f))
    set_field(f, clock, COUNTER, "i64", _atomic(f, "%state", PROGRESS))
    set_field(f, clock, IN_VAIN, "i64", 0)


def _in_vain(f: Function, clock: str, limit: int) -> str:
    """Look, and tell whether nothing has happened for the limit."""
    progress, now = _atomic(f, "%state", PROGRESS), _now(f)
    step = f.minimum(f.sub(now, field(f, clock, LOOKED, "i64")), -(-limit // LEAST_LOOKS))
    spent = f.add(field(f, clock, IN_VAIN, "i64"), step)
    same = f.op(f"icmp eq i64 {progress}, {field(f, clock, COUNTER, 'i64')}")
    spent = f.op(f"select i1 {same}, i64 {spent}, i64 0")
    for field_offset, value in ((LOOKED, now), (COUNTER, progress), (IN_VAIN, spent)):
        set_field(f, clock, field_offset, "i64", value)
    return f.op(f"icmp sgt i64 {spent}, {limit}")


def _watch(f: Function, clock: str, limit: int) -> None:
    """End all waits if nothing happened for the limit."""
    if limit > 0:
        with f.when(_in_vain(f, clock, limit)):
            end_waits(f, "%state", LIMIT)


def _emit_look(module: Module, limit: int) -> None:
    """`core_look(state, record, clock, site)`: whether a loop may go on; with a clock, it is one
    that looks for what others do (and the clock starts from 0)."""
    arguments = [("ptr", "state"), ("ptr", "record"), ("ptr", "clock"), ("ptr", "site")]
    f = Function(module, "core_look", arguments, "i1", "noinline")
    with f.when(f.op("icmp ne ptr %clock, null")):
        f.intrinsic("sched_yield", "i32")
        with f.when(f.op(f"icmp eq i64 {field(f, '%clock', LOOKED, 'i64')}, 0")):
            _start_clock(f, "%clock")
        _watch(f, "%clock", limit)
    ended = f.op(f"icmp ne i64 {_atomic(f, '%state', ABORT)}, 0")
    with f.when(ended):
        set_field(f, "%record", SITE, "ptr", "%site")
        _record(f, STATE, LOOKING)
    f.do(f"ret i1 {f.op(f'xor i1 {ended}, true')}")
    f.finish()


# Loops -------------------------------------------------------------------------------------------


class Watch:
    """The watch over a loop that may not end: what it needs before the loop, and a turn of it."""

    def __init__(self, t: Translator, eqn: Eqn) -> None:
        self.t, self.eqn = t, eqn
        self.looks = t.call.wait_limit > 0 and polls(eqn)
        self.turns = ""
        self.on = self.looks or t.core is not None
        if not self.on:
            return
        f = t.f
        self.turns, self.following = f.name_of("turn"), f.name_of("turn")
        self.clock = f.alloca(CLOCK) if self.looks else "null"
        if self.looks:
            set_field(f, self.clock, LOOKED, "i64", 0)
        if t.core is not None:
            self.state, self.record = t.core.state, t.core.record
            return
        # A program of a grid waits alone: in a state of its own nothing ever happens.
        self.state, self.record = f.alloca(f"[{RECORDS} x i8]"), f.alloca(f"[{RECORD_BYTES} x i8]")
        for counter in (PROGRESS, ABORT):
            set_field(f, self.state, counter, "i64", 0)
        if "core_look" not in f.module.functions:
            _emit_look(f.module, round(t.call.wait_limit * 1e9))

    def phi(self, before: str, latch: str) -> str:
        return f"  {self.turns} = phi i64 [ 0, %{before} ], [ {self.following}, %{latch} ]"

    def turn(self) -> None:
        """At the end of a turn: leaves the program if it is not to go on."""
        t, f = self.t, self.t.f
        f.do(f"{self.following} = add i64 {self.turns}, 1")
        low = f.op(f"and i64 {self.turns}, {LOOK_TURNS - 1}")
        with f.when(f.op(f"icmp eq i64 {low}, {LOOK_TURNS - 1}")):
            activity = "looks again and again" if self.looks else "is in the loop"
            where = site(f.module, f"{activity} at {self.eqn.source}")
            on = f.op(
                f"call i1 @core_look(ptr {self.state}, ptr {self.record}, "
                f"ptr {self.clock}, ptr {where})"
            )
            if t.core is None:
                message = (
                    f"kernel {t.call.name}: a program looks again and again at {self.eqn.source}, "
                    f"and what it looks for has not come for "
                    f"{limit_text(t.call.wait_limit)}"
                )
                t.fail(f.op(f"xor i1 {on}, true"), message)
            t.leave_unless(on)


def wait(
    t: Translator, pointer: str, amount: str, where: str, position: Index, decrement: bool
) -> None:
    """Wait until the i32 at the pointer has the amount, and take it or leave it there."""
    f = t.f
    head, enough, short, out = (f.name_of(n) for n in ("wait", "enough", "short", "done"))
    f.goto(head)
    f.label(head)
    now = f.op(f"load atomic i32, ptr {pointer} seq_cst, align 4")
    arrived = f.op(f"icmp sge i32 {now}, {amount}")
    f.do(f"br i1 {arrived}, label {enough}, label {short}")
    f.label(short)
    on = f.op(
        f"call i1 @core_await(ptr {t.core.state}, ptr {t.core.record}, ptr {pointer}, "
        f"i32 {amount}, ptr {where}, i64 {position})"
    )
    t.leave_unless(on)
    f.goto(head)
    f.label(enough)
    if decrement:
        less = f.op(f"sub i32 {now}, {amount}")
        pair = f.op(f"cmpxchg ptr {pointer}, i32 {now}, i32 {less} seq_cst seq_cst")
        f.do(f"br i1 {f.op(f'extractvalue {{ i32, i1 }} {pair}, 1')}, label {out}, label {head}")
        f.label(out)

"""Ctrl-C while a kernel computes: loops that may take long look at a counter of interrupts.

Python notes a signal and acts on it once it runs again, which it does not while it waits for a
kernel. So the first kernel with such a loop puts a function before Python's handler of SIGINT: it
adds to the counter and calls that handler. The kernel sees it, fails, and Python raises
KeyboardInterrupt. A program that sets a handler of its own later has that one alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
from functools import cache
from typing import TYPE_CHECKING

from weft.native import engine
from weft.pallas.cpu.work import work_of_equation

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn
    from weft.pallas.cpu.translate import Translator

COUNTER = "weft_interrupts"
_IGNORED = 1  # SIG_IGN; SIG_DFL is 0
LONG = 2**26
"""Vector operations from which on a loop counts as long: a part of a second."""


def look_in_loop(t: Translator, eqn: Eqn) -> None:
    """End the kernel, in the body of a loop that may take long, if it was interrupted."""
    if eqn.primitive.name == "while" or work_of_equation(eqn) >= LONG:
        emit_look(t, f"the loop at {eqn.source}" if eqn.source else "a loop")


def emit_look(t: Translator, where: str) -> None:
    """End the kernel if there was an interrupt since it began."""
    f = t.f
    f.module.globals[f"@{COUNTER}"] = "external global i64"
    first = f"  %interrupts = load atomic i64, ptr @{COUNTER} monotonic, align 8"
    if first not in f.entry:
        f.entry.append(first)
    now = f.op(f"load atomic i64, ptr @{COUNTER} monotonic, align 8")
    same = f.op(f"icmp eq i64 {now}, %interrupts")
    t.fail(f.op(f"xor i1 {same}, true"), f"kernel {t.call.name}: interrupted in {where}")
    t.leave_unless(same)


@cache
def counter_address() -> int:
    """Return the address of the counter, which interrupts add to from now on."""
    counter, before = ctypes.c_int64(0), ctypes.c_void_p(0)
    for kept in (counter, before):  # for the life of the process
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    if os.name == "posix":
        _put_before_python(ctypes.addressof(counter), before)
    return ctypes.addressof(counter)


def _put_before_python(counter: int, before: ctypes.c_void_p) -> None:
    handler = engine.link_text(
        f"""define void @interrupted(i32 %signal, ptr %information, ptr %context) #0 {{
          atomicrmw add ptr inttoptr (i64 {counter} to ptr), i64 1 seq_cst
          %before = load ptr, ptr inttoptr (i64 {ctypes.addressof(before)} to ptr)
          call void %before(i32 %signal, ptr %information, ptr %context)
          ret void
        }}
        """,
        "interrupted",
    )
    # In C's struct sigaction the function stands first; the rest stays as Python chose it.
    action = (ctypes.c_uint64 * 32)()
    sigaction = ctypes.CDLL(None).sigaction
    known = sigaction(signal.SIGINT, None, action) == 0
    if known and action[0] > _IGNORED:
        before.value = action[0]
        action[0] = handler
        sigaction(signal.SIGINT, action, None)


engine.shared[COUNTER] = counter_address

"""Machine instructions of weft's own (x86-64): memory for them, and calls of Python that may fail.

A signal's handler runs at the first instruction of Python that the main thread comes to. Where
that is a function called by native code, KeyboardInterrupt goes nowhere and the result is what
happened to lie in memory.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import Any

SLOT = 128
START = b"\xf3\x0f\x1e\xfa"  # endbr64
CALL = b"\xff\xd0"  # call rax
_UNSET = 1  # no address

_free: list[int] = []
_refused = False
_kept: list[Any] = []  # for the life of the process


def executable_slot() -> int | None:
    """The address of SLOT bytes that may be executed; None where the system forbids it."""
    global _refused
    if not _free and not _refused:
        try:
            access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            page = mmap.mmap(-1, mmap.PAGESIZE, prot=access)
        except (OSError, ValueError):
            _refused = True
            return None
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        _kept.append(page)
        _free.extend(range(start, start + mmap.PAGESIZE, SLOT))
    return _free.pop() if _free else None


def movabs(value: int) -> bytes:
    """movabs rax, value"""
    return b"\x48\xb8" + struct.pack("<Q", value)


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_Guarded = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))


def guarded(function: Any, fallback: int, first: int | None = None) -> int:
    """The address of native code for function(a, b), two addresses; it gives an address or None.

    Where the function raises, fallback(a, b), native code too, is called instead, with `first` in
    place of a if that is given; the interrupt that it was is noted again for Python.
    """

    def run(a: int | None, b: int | None, result: Any) -> None:
        result[0] = function(a or 0, b or 0) or 0

    callback = _Guarded(run)
    _kept.append(callback)
    again = address_of(ctypes.pythonapi.PyErr_SetInterrupt)
    place = b"\x48\x89\xdf" if first is None else b"\x48\xbf" + struct.pack("<Q", first)
    # call PyErr_SetInterrupt; mov rdi, rbx or movabs rdi, first; mov rsi, r12; call fallback
    failed = movabs(again) + CALL + place + b"\x4c\x89\xe6" + movabs(fallback) + CALL
    # push rbx; push r12; sub rsp, 24; mov rbx, rdi; mov r12, rsi; mov qword [rsp], _UNSET
    # mov rdx, rsp; call run; mov rax, [rsp]; cmp rax, _UNSET; jne over what a failure calls
    code = START + b"\x53\x41\x54\x48\x83\xec\x18\x48\x89\xfb\x49\x89\xf4\x48\xc7\x04\x24"
    code += struct.pack("<I", _UNSET) + b"\x48\x89\xe2" + movabs(address_of(callback)) + CALL
    code += b"\x48\x8b\x04\x24\x48\x83\xf8" + bytes([_UNSET, 0x75, len(failed)]) + failed
    code += b"\x48\x83\xc4\x18\x41\x5c\x5b\xc3"  # add rsp, 24; pop r12; pop rbx; ret
    slot = executable_slot()
    if slot is None:
        raise MemoryError("the system gives no more executable memory")
    ctypes.memmove(slot, code, len(code))
    return slot


def second() -> int:
    """Native code for a function that gives its second argument."""
    slot = executable_slot()
    if slot is None:
        raise MemoryError("the system gives no more executable memory")
    code = START + b"\x48\x89\xf0\xc3"  # mov rax, rsi; ret
    ctypes.memmove(slot, code, len(code))
    return slot

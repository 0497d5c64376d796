"""C++ exceptions that handlers throw, caught in the machine instructions in front of them.

Instructions that nothing describes end the process when an exception passes them. So they are
described to the unwinder, with a personality that stops there, at the instruction named for it.

Source: System V Application Binary Interface, AMD64 supplement, 6.2; Itanium C++ ABI: Exception
Handling; DWARF 4, 6.4, for call frame information.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any

_SEARCH, _HANDLER_FRAME = 1, 4  # _Unwind_Action
_HANDLER_FOUND, _INSTALL_CONTEXT, _CONTINUE = 6, 7, 8  # _Unwind_Reason_Code
_RAX = 0

_Personality = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p
)


@cache
def _libraries() -> tuple[Any, Any] | None:
    """The unwinder and the C++ runtime; None where the system has others."""
    try:
        return ctypes.CDLL("libgcc_s.so.1"), ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None


def describe(start: int, size: int, pushed: int, landing: int) -> bool:
    """Tells the unwinder of the instructions at [start, start + size), which push rbx first of
    all, up to start + pushed. An exception goes on at `landing`, with its address in rax.

    False where that cannot be.
    """
    libraries = _libraries()
    if libraries is None:
        return False
    unwinder, _ = libraries
    set_register, set_place = unwinder._Unwind_SetGR, unwinder._Unwind_SetIP
    set_register.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
    set_place.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
    set_register.restype = set_place.restype = None

    def personality(_version: int, actions: int, _kind: int, thrown: int, context: int) -> int:
        if actions & _SEARCH:
            return _HANDLER_FOUND
        if not actions & _HANDLER_FRAME:
            return _CONTINUE
        set_register(context, _RAX, thrown)
        set_place(context, landing)
        return _INSTALL_CONTEXT

    function = _Personality(personality)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    # Version 1, a personality; units of 1 and -8 bytes; the return address is column 16. At the
    # start the frame is at rsp + 8, behind the return address.
    common = b"\0\0\0\0\x01zP\0\x01\x78\x10\x09\0" + struct.pack("<Q", address)
    common = _record(common + b"\x0c\x07\x08\x90\x01")
    # From `pushed` on at rsp + 16, with rbx below.
    own = struct.pack("<IQQ", len(common) + 4, start, size) + b"\0"
    own = _record(own + bytes([0x40 + pushed]) + b"\x0e\x10\x83\x02")
    table = ctypes.create_string_buffer(common + own + b"\0\0\0\0")
    for kept in (function, table):  # also while the process ends: the unwinder may still look
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    unwinder.__register_frame(ctypes.c_void_p(ctypes.addressof(table)))
    return True


def _record(data: bytes) -> bytes:
    data += b"\0" * (-(len(data) + 4) % 8)
    return struct.pack("<I", len(data)) + data


def end_of(thrown: int) -> str:
    """Drops an exception that landed; gives its type and, of a std::exception, its words."""
    libraries = _libraries()
    assert libraries is not None
    _, runtime = libraries
    runtime.__cxa_begin_catch(ctypes.c_void_p(thrown))
    try:
        current = runtime.__cxa_current_exception_type
        current.restype = ctypes.c_void_p
        information = current()
        if not information:
            return "an exception that is not of C++"
        demangle, status = runtime.__cxa_demangle, ctypes.c_int()
        demangle.restype = ctypes.c_void_p
        name = ctypes.c_char_p.from_address(information + _WORD).value or b""
        text = demangle(ctypes.c_char_p(name), None, None, ctypes.byref(status))
        words = _words(runtime, thrown, information)
        return (ctypes.string_at(text) if text else name).decode(errors="replace") + words
    finally:
        runtime.__cxa_end_catch()


_WORD = 8
_PRIMARY = int.from_bytes(b"GNUCC++\0", "big")
_HEADER_BYTES = 32  # _Unwind_Exception, behind which the thrown object lies
_DO_CATCH, _WHAT = 4, 2  # places in the virtual tables of std::type_info and std::exception
_Catches = ctypes.CFUNCTYPE(
    ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint
)
_What = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)


def _virtual(thing: int, place: int) -> int:
    table = ctypes.c_uint64.from_address(thing).value
    return ctypes.c_uint64.from_address(table + place * _WORD).value


def _words(runtime: Any, thrown: int, information: int) -> str:
    """`what()` of an exception of this type, if it has one."""
    if ctypes.c_uint64.from_address(thrown).value != _PRIMARY:
        return ""
    base = ctypes.addressof(ctypes.c_char.in_dll(runtime, "_ZTISt9exception"))
    thing = ctypes.c_void_p(thrown + _HEADER_BYTES)
    if not _Catches(_virtual(base, _DO_CATCH))(base, information, ctypes.byref(thing), 1):
        return ""
    what = _What(_virtual(thing.value or 0, _WHAT))(thing)
    return f": {(what or b'').decode(errors='replace')}"

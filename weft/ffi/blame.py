"""Names the target and the user's line in what native handlers report as errors.

An `ffi::Error` holds only the handler's own words and XLA adds none (jaxlib 0.10.2), so nobody
could tell which call of a program failed. A handler makes errors through a table of functions,
the `XLA_FFI_Api` that its call frame points to. So each target is registered behind a few machine
instructions that point the frame to a table of its own, which differs in the function that makes
errors, and jump to the handler. A call that succeeds costs nothing more than this jump.

On other processors than x86-64, and on systems that map no executable memory, handlers are
registered as they are.

Source: xla/ffi/api/c_api.h, API version 0.3.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from typing import Any

from weft._xla import ffi as _xla
from weft.runtime.host_calls import note_invalid

_VERSION = (0, 3)
_WORD = 8
_FRAME_EXTENSION, _FRAME_API = 1, 2  # words of XLA_FFI_CallFrame
_API_VERSION, _API_ERROR_CREATE = 4 * _WORD, 6 * _WORD  # offsets in XLA_FFI_Api
_SLOT = 64
_LISTED = 3
_INVALID_ARGUMENT = 3  # XLA_FFI_Error_Code

_sites: dict[str, dict[str, None]] = {}
"""Target -> the lines of the user's programs that call it, in order."""

_stubs: dict[tuple[str, int], Any] = {}
"""(target, handler's address) -> the capsule registered for it."""

_kept: list[Any] = []  # what registered targets run on: for the life of the process


class _ErrorArgs(ctypes.Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("errc", ctypes.c_int),
    )


_CreateError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ErrorArgs))
_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


def note_call(target: str, source: Any) -> None:
    """Remembers that a program calls the target at this line."""
    _sites.setdefault(target, {})[str(source)] = None


def describe(target: str) -> str:
    """The target and where it is called from, for messages."""
    lines = list(_sites.get(target, ()))
    if not lines:
        return f"ffi_call of {target!r}"
    if len(lines) == 1:
        return f"ffi_call of {target!r} at {lines[0]}"
    more = f", or {len(lines) - _LISTED} other places" if len(lines) > _LISTED else ""
    return f"ffi_call of {target!r} at one of {', '.join(lines[-_LISTED:])}{more}"


def named(target: str, capsule: Any) -> Any:
    """A capsule of the handler whose errors name the target; the given one if none can be."""
    handler = _xla.address(capsule)
    known = _stubs.get((target, handler))
    if known is None:
        known = _stubs[target, handler] = _stub(target, handler) or capsule
        _kept.append(capsule)
    return known


def _stub(target: str, handler: int) -> Any:
    if platform.machine().lower() not in ("x86_64", "amd64") or os.name != "posix":
        return None
    api = _xla_table()
    slot = _executable_slot() if api else None
    if slot is None:
        return None
    # endbr64; movabs rax, table; mov [rdi+16], rax; movabs rax, handler; jmp rax
    code = (
        b"\xf3\x0f\x1e\xfa\x48\xb8"
        + struct.pack("<Q", ctypes.addressof(_table(target, api)))
        + b"\x48\x89\x47"
        + bytes([_FRAME_API * _WORD])
        + b"\x48\xb8"
        + struct.pack("<Q", handler)
        + b"\xff\xe0"
    )
    ctypes.memmove(slot, code, len(code))
    return _xla.capsule(slot)


_free: list[int] = []
_refused = False


def _executable_slot() -> int | None:
    """The address of _SLOT bytes that may be executed; None where the system forbids it."""
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
        _free.extend(range(start, start + mmap.PAGESIZE, _SLOT))
    return _free.pop() if _free else None


def _table(target: str, api: int) -> Any:
    """A copy of XLA's table of functions with one that names the target in errors."""
    size = ctypes.c_size_t.from_address(api).value
    copy = (ctypes.c_char * size).from_buffer_copy(ctypes.string_at(api, size))
    entry = ctypes.c_void_p.from_buffer(copy, _API_ERROR_CREATE)
    original = _CreateError(entry.value or 0)

    def create(args: Any) -> int:
        given = args.contents
        message = describe(target).encode() + b": " + (given.message or b"")
        if given.errc == _INVALID_ARGUMENT:
            note_invalid(message.decode(errors="replace"))
        ours = _ErrorArgs(given.struct_size, given.extension_start, message, given.errc)
        return original(ctypes.pointer(ours))

    function = _CreateError(create)
    entry.value = ctypes.cast(function, ctypes.c_void_p).value
    _kept.append((copy, function))
    return copy


_xla_api: int | None = None


def _xla_table() -> int:
    """The address of XLA's table of functions; 0 if it is not of the version known here."""
    global _xla_api
    if _xla_api is None:
        seen: list[int] = []

        def probe(frame: Any) -> None:
            """Answers the question for metadata that registration asks, and looks at the frame."""
            metadata = ctypes.c_void_p.from_address(frame[_FRAME_EXTENSION] + 3 * _WORD).value or 0
            (ctypes.c_int * 2).from_address(metadata + 3 * _WORD)[:] = list(_VERSION)
            seen.append(frame[_FRAME_API] or 0)

        handler = _Handler(probe)
        _kept.append(handler)
        _xla.register_target("weft_ffi_probe", _xla.capsule(handler))
        _xla_api = seen[0] if seen else 0
        if _xla_api:
            version = tuple((ctypes.c_int * 2).from_address(_xla_api + _API_VERSION))
            _xla_api = _xla_api if version == _VERSION else 0
    return _xla_api

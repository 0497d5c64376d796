"""Names the target and the user's line in what native handlers report as errors.

An `ffi::Error` holds only the handler's own words and XLA adds none (jaxlib 0.10.2), so nobody
could tell which call of a program failed. A handler makes errors through a table of functions,
the `XLA_FFI_Api` that its call frame points to. So each target is registered behind a few machine
instructions that point the frame to a table of its own, which differs in the function that makes
errors, and jump to the handler. A call that succeeds costs nothing more than this jump.

Programs over several CPU devices must fail as a whole (weft/runtime/cpu_joint_failure.py), so they
call the target by a second name. There the instructions look at what the handler returned: an error
is recorded, the results become NaN, and XLA sees success. Exceptions that a handler throws become
errors on the way (weft/ffi/unwinding.py).

On other processors than x86-64, and on systems that map no executable memory, handlers are
registered as they are.

Source: xla/ffi/api/c_api.h, API version 0.3; later minor versions (0.5 in jaxlib 0.12) only add
members behind these.
"""

from __future__ import annotations

import collections
import ctypes
import math
import os
import platform
from typing import Any

from weft._xla import ffi as _xla
from weft._xla.client import XlaRuntimeError
from weft.ffi import machine, unwinding
from weft.runtime import cpu_joint_failure
from weft.runtime.host_calls import note_invalid

_VERSION = (0, 3)
_WORD = 8
_FRAME_EXTENSION, _FRAME_API, _FRAME_STAGE = 1, 2, 4  # words of XLA_FFI_CallFrame
_FRAME_RESULT_COUNT, _FRAME_RESULTS = 12, 14
_EXECUTE = 3  # XLA_FFI_ExecutionStage
_API_VERSION = 4 * _WORD  # offsets in XLA_FFI_Api
_API_ERROR_CREATE, _API_ERROR_DESTROY = 6 * _WORD, 8 * _WORD
_LISTED = 3
_INVALID_ARGUMENT = 3  # XLA_FFI_Error_Code

_sites: dict[str, dict[str, None]] = {}
"""Target -> the lines of the user's programs that call it, in order."""

_stubs: dict[tuple[str, int, bool], Any] = {}
"""(target, handler's address, together) -> the capsule registered for it."""

_kept: list[Any] = []  # what registered targets run on: for the life of the process


class _ErrorArgs(ctypes.Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("errc", ctypes.c_int),
    )


class _Error(ctypes.Structure):
    """XLA_FFI_Error_Destroy_Args."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
    )


class _Buffer(ctypes.Structure):
    """XLA_FFI_Buffer."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


_CreateError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ErrorArgs))
_DestroyError = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Error))
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


def named(target: str, capsule: Any, *, failing_together: bool = False) -> Any:
    """A capsule of the handler whose errors name the target; the given one if none can be.

    failing_together: the errors are recorded, and XLA sees none.
    """
    handler = _xla.address(capsule)
    key = target, handler, failing_together
    known = _stubs.get(key)
    if known is None:
        known = _stubs[key] = _stub(*key) or capsule
        _kept.append(capsule)
    return known


def _stub(target: str, handler: int, failing_together: bool) -> Any:
    if platform.machine().lower() not in ("x86_64", "amd64") or os.name != "posix":
        return None
    api = _xla_table()
    slot = machine.executable_slot() if api else None
    if slot is None:
        return None
    made: collections.OrderedDict[int, tuple[str, int]] | None = None
    if failing_together:
        made = collections.OrderedDict()
    copy, create = _table(target, api, made)
    settle = _settling(target, api, made) if made is not None else None
    caught = _catching(api, create, settle)
    # endbr64; push rbx; mov rbx, rdi; movabs rax, table; mov [rdi+16], rax
    # movabs rax, handler; call rax
    code = machine.START + b"\x53\x48\x89\xfb" + machine.movabs(ctypes.addressof(copy))
    code += b"\x48\x89\x47" + bytes([_FRAME_API * _WORD])
    code += machine.movabs(handler) + machine.CALL
    if settle is not None:
        # test rax, rax; je over what a failure calls
        failed = _call_with_frame(machine.guarded(settle, machine.second()))
        code += b"\x48\x85\xc0\x74" + bytes([len(failed)]) + failed
    code += b"\x5b\xc3"  # pop rbx; ret
    landing = slot + len(code)
    code += _call_with_frame(caught) + b"\x5b\xc3"
    ctypes.memmove(slot, code, len(code))
    unwinding.describe(slot, len(code), _PUSHED, landing)
    return _xla.capsule(slot)


_PUSHED = 5  # bytes up to the end of push rbx


def _call_with_frame(address: int) -> bytes:
    """mov rdi, rbx; mov rsi, rax; movabs rax, address; call rax"""
    return b"\x48\x89\xdf\x48\x89\xc6" + machine.movabs(address) + machine.CALL


def _catching(api: int, create: Any, settle: Any) -> int:
    """What is called with the frame and an exception: returns the error XLA is to see."""

    def said(message: bytes) -> Any:
        return _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, message, 2)

    def caught(frame: int, thrown: int) -> int:
        given = said(f"the handler threw {unwinding.end_of(thrown)}".encode())
        error = create(ctypes.addressof(given), 0)
        return int((error if settle is None else settle(frame, error)) or 0)

    plain = said(b"the handler threw an exception")
    _kept.append(plain)
    original = ctypes.c_void_p.from_address(api + _API_ERROR_CREATE).value or 0
    return machine.guarded(caught, original, ctypes.addressof(plain))


def _table(target: str, api: int, made: collections.OrderedDict | None) -> tuple[Any, Any]:
    """A copy of XLA's table of functions with one that names the target in errors, and that one.

    made: filled with message and code by the error's address.
    """
    size = ctypes.c_size_t.from_address(api).value
    copy = (ctypes.c_char * size).from_buffer_copy(ctypes.string_at(api, size))
    entry = ctypes.c_void_p.from_buffer(copy, _API_ERROR_CREATE)
    original = _CreateError(entry.value or 0)

    def create(args: int, _: int) -> int:
        given = _ErrorArgs.from_address(args)
        message = describe(target).encode() + b": " + (given.message or b"")
        if given.errc == _INVALID_ARGUMENT:
            note_invalid(f"INVALID_ARGUMENT: {message.decode(errors='replace')}")
        ours = _ErrorArgs(given.struct_size, given.extension_start, message, given.errc)
        error = original(ctypes.pointer(ours))
        if made is not None:
            made[error] = message.decode(errors="replace"), given.errc
            while len(made) > _REMEMBERED:
                made.popitem(last=False)
        return error

    entry.value = machine.guarded(create, entry.value or 0)
    _kept.append(copy)
    return copy, create


_REMEMBERED = 256  # errors that a handler made and did not return
_CODES = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]
_BYTES = {
    **dict.fromkeys((4, 8, 11), 4),
    **dict.fromkeys((5, 9, 12, 15), 8),
    **dict.fromkeys((3, 7, 10, 16), 2),
    18: 16,
    17: 0,
}
"""Bytes of an element by XLA_FFI_DataType; of the others 1, as the CPU unpacks small numbers."""
_FLOATS = frozenset((10, 11, 12, 15, 16, 18, 19, 20))


def _settling(target: str, api: int, made: collections.OrderedDict) -> Any:
    """What is called with the frame and error of a failed call: returns the error XLA is to see."""
    destroy = _DestroyError(ctypes.c_void_p.from_address(api + _API_ERROR_DESTROY).value or 0)

    def settle(at: int, error: int) -> int:
        frame = ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p))
        if (frame[_FRAME_STAGE] or 0) & 0xFFFFFFFF != _EXECUTE:
            return error
        message, code = made.pop(error, (f"{describe(target)} failed", 2))
        said = f"{_CODES[code] if code < len(_CODES) else code}: {message}"
        kind = ValueError if code == _INVALID_ARGUMENT else XlaRuntimeError
        if not cpu_joint_failure.record(target, kind(said)):
            return error
        for i in range(frame[_FRAME_RESULT_COUNT] or 0):
            address = ctypes.c_void_p.from_address(frame[_FRAME_RESULTS] + i * _WORD).value or 0
            buffer = _Buffer.from_address(address)
            size = math.prod(buffer.dims[d] for d in range(buffer.rank))
            size *= _BYTES.get(buffer.dtype, 1)
            if buffer.data and size:
                ctypes.memset(buffer.data, 255 if buffer.dtype in _FLOATS else 0, size)
        destroy(ctypes.pointer(_Error(ctypes.sizeof(_Error), None, error)))
        return 0

    return settle


_xla_api: int | None = None


def _xla_table() -> int:
    """The address of XLA's table of functions; 0 if it is not of a version known here."""
    global _xla_api
    if _xla_api is None:
        seen: list[int] = []

        def probe(frame: Any) -> None:
            _version_asked(frame)[:] = list(_VERSION)
            seen.append(frame[_FRAME_API] or 0)

        _have_asked(probe)
        _xla_api = seen[0] if seen else 0
        if _xla_api:
            major, minor = (ctypes.c_int * 2).from_address(_xla_api + _API_VERSION)
            _xla_api = _xla_api if major == _VERSION[0] and minor >= _VERSION[1] else 0
    return _xla_api


PROBE = "weft_ffi_probe_"
"""What the names of targets begin with that were registered to be asked only."""


def _have_asked(look: Any) -> None:
    """Registers a function that XLA asks for its metadata, as it asks every handler."""
    handler = _Handler(look)
    _kept.append(handler)
    _xla.register_target(f"{PROBE}{len(_kept)}", _xla.capsule(handler))


def _version_asked(frame: Any) -> Any:
    """Where a handler answers the question for its metadata, which registration asks."""
    metadata = ctypes.c_void_p.from_address(frame[_FRAME_EXTENSION] + 3 * _WORD).value or 0
    return (ctypes.c_int * 2).from_address(metadata + 3 * _WORD)


def answers(capsule: Any) -> bool:
    """Whether a function behaves as a handler of the typed FFI when it is asked for its metadata.

    The plugins of GPUs take what any other function returns for an error, and end the process.
    """
    handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_xla.address(capsule))
    said: list[tuple[int, int]] = []

    def ask(frame: Any) -> None:
        version = _version_asked(frame)
        version[:] = [-1, -1]
        handler(ctypes.cast(frame, ctypes.c_void_p))
        said.append(tuple(version))
        version[:] = list(_VERSION)

    _have_asked(ask)
    return said != [(-1, -1)]

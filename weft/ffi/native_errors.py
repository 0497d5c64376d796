"""Errors of native handlers: which call failed, and programs that fail on all devices.

An `ffi::Error` holds only the handler's own words (quirks.BARE_FFI_ERROR). A handler
that was compiled with weft/ffi/include/weft/ffi.h, as `weft.ffi.build` does, adds the text that
`note_call` writes into its library: the target and the lines that call it. For other handlers the
error gets a note with the call sites of the program, where it passes through Python.

Programs over several CPU devices must fail as a whole (weft/runtime/cpu_joint_failure.py), so they
call the target by a second name: a function of Python around the handler, which records an error,
makes the results NaN, and tells XLA of success.

Source: xla/ffi/api/c_api.h, API version 0.3; later minor versions (0.5 in jaxlib 0.12) only add
members behind these.
"""

from __future__ import annotations

import collections
import ctypes
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import ffi as _xla
from weft._xla.client import XlaRuntimeError
from weft.runtime import cpu_joint_failure
from weft.runtime.host_calls import CallSite

if TYPE_CHECKING:
    from weft.core.source import Source
    from weft.lowering.module import ModuleContext

_VERSION = (0, 3)
_WORD = 8
_FRAME_EXTENSION, _FRAME_API, _FRAME_STAGE = 1, 2, 4  # words of XLA_FFI_CallFrame
_FRAME_RESULT_COUNT, _FRAME_RESULTS = 12, 14
_EXECUTE = 3  # XLA_FFI_ExecutionStage
_API_ERROR_CREATE, _API_ERROR_DESTROY = 6 * _WORD, 8 * _WORD  # offsets in XLA_FFI_Api
_LISTED = 3
_INVALID_ARGUMENT = 3  # XLA_FFI_Error_Code

_kept: list[Any] = []  # what registered targets run on: for the life of the process

# Call sites ---------------------------------------------------------------------------------------

_sites: dict[str, dict[str, None]] = {}
"""Target -> the lines of the user's programs that call it, in order."""

_named: dict[str, list[Any]] = {}
"""Target -> the pointers in its handlers' libraries to what errors are to say of the call."""


def note_call(
    module: ModuleContext, target: str, source: Source, check: Callable[[Sequence], None]
) -> None:
    """Remember that a program, whose module is under construction, calls a target at a line.

    check: raises for devices that have no such target, before the program is compiled for them.
    """
    _sites.setdefault(target, {})[str(source)] = None
    module.keepalives.append(CallSite(lambda: describe(target), check))
    text = describe(target).encode()
    for pointer in _named.get(target, ()):
        if pointer.value != text:
            _kept.append(text)  # for good: a handler may still read it when the next one is there
            pointer.value = text


def name_errors(target: str, pointer: object) -> None:
    """Make a handler say the target's call sites: pointer is its library's `<symbol>_called`."""
    _named.setdefault(target, []).append(pointer)


def describe(target: str) -> str:
    """Return the target and where it is called from, for messages."""
    lines = list(_sites.get(target, ()))
    if not lines:
        return f"ffi_call of {target!r}"
    if len(lines) == 1:
        return f"ffi_call of {target!r} at {lines[0]}"
    more = f", or {len(lines) - _LISTED} other places" if len(lines) > _LISTED else ""
    return f"ffi_call of {target!r} at one of {', '.join(lines[-_LISTED:])}{more}"


# Failing together ---------------------------------------------------------------------------------


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


def failing_together(target: str, capsule: object) -> Any:
    """Return a capsule of a function that runs the handler, records its error, and succeeds.

    It runs on threads of XLA's own, where no signal reaches Python.
    """
    handler = _Handler(_xla.address(capsule))
    errors: collections.OrderedDict[int, tuple[str, int]] = collections.OrderedDict()
    tables: dict[int, Any] = {}

    def run(frame: Any) -> int:
        api = frame[_FRAME_API] or 0
        if (frame[_FRAME_STAGE] or 0) & 0xFFFFFFFF != _EXECUTE:
            return handler(frame) or 0
        if api not in tables:
            tables[api] = _recording_table(target, api, errors)
        frame[_FRAME_API] = ctypes.addressof(tables[api])
        error = handler(frame) or 0
        frame[_FRAME_API] = api
        if not error:
            return 0
        message, code = errors.pop(error, (f"{describe(target)} failed", 2))
        said = f"{_CODES[code] if code < len(_CODES) else code}: {message}"
        kind = ValueError if code == _INVALID_ARGUMENT else XlaRuntimeError
        if not cpu_joint_failure.record(target, kind(said)):
            return error
        _write_blanks(frame)
        destroy = _DestroyError(ctypes.c_void_p.from_address(api + _API_ERROR_DESTROY).value or 0)
        destroy(ctypes.pointer(_Error(ctypes.sizeof(_Error), None, error)))
        return 0

    function = _Handler(run)
    _kept.extend((capsule, function))
    return _xla.capsule(function)


def _recording_table(target: str, api: int, errors: collections.OrderedDict) -> Any:
    """Copy XLA's table of functions; errors made through the copy are in `errors` by address."""
    size = ctypes.c_size_t.from_address(api).value
    copy = (ctypes.c_char * size).from_buffer_copy(ctypes.string_at(api, size))
    entry = ctypes.c_void_p.from_buffer(copy, _API_ERROR_CREATE)
    original = _CreateError(entry.value or 0)

    def create(args: Sequence[Any]) -> int:
        request = args[0]
        message = (request.message or b"").decode(errors="replace")
        if not message.startswith("ffi_call of "):
            message = f"{describe(target)}: {message}"
        error = original(args)
        errors[error] = message, request.errc
        while len(errors) > _REMEMBERED:
            errors.popitem(last=False)
        return error

    function = _CreateError(create)
    _kept.append(function)
    entry.value = ctypes.cast(function, ctypes.c_void_p).value
    return copy


def _write_blanks(frame: Any) -> None:
    """Make the results of a call NaN, integers 0."""
    for i in range(frame[_FRAME_RESULT_COUNT] or 0):
        address = ctypes.c_void_p.from_address(frame[_FRAME_RESULTS] + i * _WORD).value or 0
        buffer = _Buffer.from_address(address)
        size = math.prod(buffer.dims[d] for d in range(buffer.rank))
        size *= _BYTES.get(buffer.dtype, 1)
        if buffer.data and size:
            ctypes.memset(buffer.data, 255 if buffer.dtype in _FLOATS else 0, size)


# Registration -------------------------------------------------------------------------------------

PROBE = "weft_ffi_probe_"
"""Prefix of targets that are registered only for queries."""


def answers(capsule: object) -> bool | None:
    """Tell whether a function behaves as a handler of the typed FFI when asked for its metadata.

    XLA calls any other function as if it were one (quirks.ANY_FUNCTION_A_HANDLER). So it is asked
    in a child process, whose end says what it did; None if there is no such child.
    """
    said: list[bool | None] = []

    def ask(frame: Any) -> None:
        # The metadata, to be filled in, are in the frame's extension, behind its header.
        metadata = ctypes.c_void_p.from_address(frame[_FRAME_EXTENSION] + 3 * _WORD).value or 0
        version = (ctypes.c_int * 2).from_address(metadata + 3 * _WORD)
        version[:] = [-1, -1]
        said.append(_fills_in_a_child(_xla.address(capsule), frame, metadata))
        version[:] = list(_VERSION)

    probe = _Handler(ask)
    _kept.append(probe)
    _xla.register_target(f"{PROBE}{len(_kept)}", _xla.capsule(probe))
    return said[0] if said else None


def _fills_in_a_child(address: int, frame: Any, metadata: int) -> bool | None:
    """Tell whether a child process that calls a handler with a frame lives, and finds a version in
    metadata, whose words before it are as they were: other functions write over all of them.

    None where there can be no child, or it takes too long: then nothing is known.
    """
    head = ctypes.string_at(metadata, 3 * _WORD)
    # Not os.fork, which runs what modules do at forks, and warns of threads: the child runs none.
    process = ctypes.PyDLL(None)
    try:
        child = process.fork()
    except AttributeError:
        return None
    if child == 0:
        status = 1
        try:
            process.alarm(_SECONDS)
            for number in (*_FATAL, signal.SIGALRM):  # quietly, without a core
                process.signal(int(number), None)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)(
                ctypes.cast(frame, ctypes.c_void_p)
            )
            is_whole = ctypes.string_at(metadata, len(head)) == head
            version = ctypes.string_at(metadata + len(head), _WORD)
            status = 0 if is_whole and version != b"\xff" * _WORD else 1
        finally:
            os._exit(status)
    return None if child < 0 else _ended_well(child)


def _ended_well(child: int) -> bool | None:
    """Tell whether a child process ends with status 0; None if that is unknown, or it must end.

    It can be stuck where its own alarm is not set yet: another thread of the parent that asked for
    the interpreter's lock at the fork does not exist in the child, which waits for it.
    """
    deadline, pause = time.monotonic() + _SECONDS + 1, 1e-4
    try:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
    except ChildProcessError:  # the program ignores its children's ends
        return None
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    return None if late else status == 0


_FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE)
_SECONDS = 10

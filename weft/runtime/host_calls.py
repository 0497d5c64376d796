# Tests: tests/api/test_callback.py, tests/ffi/test_native_errors.py
"""Errors of programs that call back into Python or native code.

What a Python function raises reaches XLA as text. The exception is kept here, and raised again
wherever the program's failure shows: in the call, or later when a result is read.
"""

from __future__ import annotations

import atexit
import collections
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import stands_for_jax
from weft._xla.arrays import XlaRuntimeError
from weft.runtime import calls, cpu_run_limit

if TYPE_CHECKING:
    from weft.runtime.compile import LoadedExecutable

# Errors -----------------------------------------------------------------------------------------

_KEPT = 64  # exceptions, which hold their callbacks' frames
_numbers = itertools.count(1)
_raised: collections.OrderedDict[int, tuple[BaseException, Any]] = collections.OrderedDict()
_late: list[BaseException] = []
_MARK = re.compile(r"\[host error (\d+)\]")
# quirks.MATMUL_ALLOCATION: the library of matrix products says no reason.
_ALLOCATION_FAILURES = ("RESOURCE_EXHAUSTED", "Out of memory", "YNNPACK operation failed")


class CallSite:
    """A native call of a program: `describe()` names its target and lines.

    Among what a program keeps alive, for the notes of the program's errors. `check(devices)` raises
    before a program is compiled whose devices have no such target.
    """

    __slots__ = ("check", "describe")

    def __init__(self, describe: Callable[[], str], check: Callable[[Sequence], None]) -> None:
        self.describe = describe
        self.check = check


def note_sites(error: BaseException, kept: Sequence[Any]) -> None:
    """Add the native call sites of a failed program to an error that names none of them."""
    sites = [k.describe() for k in kept if type(k) is CallSite]
    if sites and "ffi_call of " not in str(error):
        error.add_note("the program calls native code: " + "; ".join(dict.fromkeys(sites)))


class HostCallError(RuntimeError):
    """Describe an exception in a callback for XLA."""

    number = 0


def reporting(function: Callable, host_call: str) -> Callable:
    """Return the function, whose exceptions are raised again where the program's failure shows.

    host_call: the call and the user's line, as in "pure_callback of f at file.py:3 (main)".
    """

    def call(*args: np.ndarray) -> Any:
        try:
            with cpu_run_limit.running_callback():
                return function(*args)
        except BaseException as e:  # SystemExit and KeyboardInterrupt arrive as themselves too
            e.add_note(f"raised in {host_call}")
            number = next(_numbers)
            _raised[number] = e, e.__traceback__
            while len(_raised) > _KEPT:
                _raised.popitem(last=False)
            said = f"{type(e).__name__}: {e}"
            error = HostCallError(f"{host_call} raised {said} [host error {number}]")
            error.number = number
            raise error from None

    return call


def variants(function: Callable, results: Sequence[tuple[tuple[int, ...], Any]]) -> list[Callable]:
    """Return the function as a program of one device calls it, and two for many devices.

    There one device makes the call. If it failed alone, the others would wait for its results until
    XLA ends the process. So the second variant fails nowhere: it has one result more, the number of
    its error or 0, which the program hands to all devices; and with that number the third fails on
    each of them. A function without results has nobody waiting: its error waits for the barrier.

    results: shape and dtype of each.
    """

    def guarded(*args: np.ndarray) -> Any:
        try:
            done = function(*args)
        except HostCallError as e:
            if not results:
                note_late(e)
                return ()
            return (*(np.zeros(s, d) for s, d in results), np.int32(e.number))
        return (*done, np.int32(0)) if results else done

    def fail(number: np.ndarray) -> Any:
        raise HostCallError(f"a callback raised an exception [host error {int(number)}]")

    return [function, guarded, fail]


def note_late(error: BaseException) -> None:
    """Remember the failure of a call that nobody waited for, for the next barrier."""
    _late.append(error)


def late_failure() -> BaseException | None:
    """Return and forget the first exception of a callback that nobody waited for."""
    failure = explained(_late[0]) if _late else None
    _late.clear()
    return failure


def as_raised(original: BaseException) -> BaseException:
    """Return the exception that a program sees where a callback raised one.

    Programs written for JAX catch its error and read the callback's in the text.
    """
    if not (stands_for_jax() and isinstance(original, Exception)):
        return original
    said = f"{type(original).__name__}: {original}"
    return XlaRuntimeError(f"INTERNAL: CpuCallback error calling callback: {said}")


class InvalidArgumentError(XlaRuntimeError, ValueError):
    """Native code calls an argument invalid; programs written for JAX catch the first class."""


def explained(error: BaseException, compiled: LoadedExecutable | None = None) -> BaseException:
    """Return the exception to raise for one that XLA gave: the callback's own, or a ValueError.

    A handler's InvalidArgument is a ValueError in a call that ran at once
    (quirks.REPORTED_CALLBACKS): so it is one in a call that ran in the background, and in programs
    that used the failed result.
    """
    text = str(error)
    mark = _MARK.search(text)
    if mark is not None and int(mark[1]) in _raised:
        original, traceback = _raised[int(mark[1])]
        return as_raised(original).with_traceback(traceback)
    if text.startswith("INVALID_ARGUMENT"):
        return InvalidArgumentError(text).with_traceback(error.__traceback__)
    if any(words in text for words in _ALLOCATION_FAILURES):
        from weft.runtime.allocation_failure import explained as with_memory

        return with_memory(error, compiled)
    return calls.explained(error)


def _finish() -> None:
    """At exit: callbacks still running would meet an interpreter that is gone."""
    from weft.runtime.executable import effects_barrier

    cpu_run_limit.finish_callbacks()
    effects_barrier()


@functools.cache
def finish_before_exit() -> None:
    """Let the process end only when the host calls of its programs have."""
    atexit.register(_finish)

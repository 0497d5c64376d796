"""Programs over several CPU devices fail as a whole when one device's call into other code fails.

A device whose call fails leaves the program; the others wait for it in the next collective, of this
program or of one that reads its results, until XLA ends the process (quirks.FAILED_PART).
So here such a call does not fail: its error is recorded, its results are NaN (integers 0), which
ends most loops that wait for them, and the program runs to its end on every device. The run is
waited for, and the error raised in place of results.

Nothing of this is in the program: no collective, no further result. The price is that the call of
such a program returns when it has finished.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla.compile import XlaRuntimeError
from weft.core import dtypes
from weft.runtime import cpu_run_limit, host_calls
from weft.runtime.backend import process_count
from weft.runtime.executable import Executable

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.lowering.module import ModuleContext

_ENDLESS = 10_000
"""So many failures of one run are a loop that NaN and 0 do not end."""


class FailingCalls:
    """Wrap the calls of a program that can fail on one device alone.

    targets: names of native targets. on_shards: whether there are calls that each device makes for
    itself, whichever partitioner splits the program.
    """

    __slots__ = ("on_shards", "targets")

    def __init__(self) -> None:
        self.targets: set[str] = set()
        self.on_shards = False


def calls_of(module: ModuleContext) -> FailingCalls | None:
    """Return the calls of a module being built (a `ModuleContext`) if it runs with others."""
    if module.num_partitions == 1 or module.platforms != ("cpu",) or process_count() > 1:
        return None
    calls = next((k for k in module.keepalives if isinstance(k, FailingCalls)), None)
    if calls is None:
        calls = FailingCalls()
        module.keepalives.append(calls)
    return calls


class _Run:
    """A run in flight, with the errors of its calls."""

    __slots__ = ("calls", "errors")

    def __init__(self, calls: FailingCalls) -> None:
        self.calls = calls
        self.errors: list[BaseException] = []


_turn = threading.Lock()
"""One run at a time, so that errors are known to be its own. CPU devices run programs over several
of them one after the other anyway. A run that a callback starts may not wait for its turn."""

_lock = threading.Lock()
_runs: list[_Run] = []


def record(source: FailingCalls | str, error: BaseException) -> bool:
    """Note the error of a call, by its program's `FailingCalls` or its native target.

    Errors of runs that nobody waits for, having no results, are raised at the next barrier.

    Returns:
      False if this run has failed so often that the call had better end it.
    """
    with _lock:
        runs = [r for r in _runs if source is r.calls or source in r.calls.targets]
        for run in runs:
            if len(run.errors) < _ENDLESS:
                run.errors.append(error)
    if not runs:
        host_calls.note_late(error)
    return all(len(run.errors) < _ENDLESS for run in runs)


def _failed(calls: FailingCalls) -> BaseException | None:
    return next((r.errors[0] for r in _runs if r.calls is calls and r.errors), None)


def failing_together(
    calls: FailingCalls, function: Callable, nothing: Callable[..., tuple]
) -> Callable:
    """Return a Python function that a program calls, whose exceptions all devices get.

    function: as `host_calls.reporting` gave it. nothing(*args) gives, or writes, what stands in for
    results. Behind a failure, functions are not called any more: their arguments mean nothing.
    """

    def call(*args: np.ndarray) -> Any:
        error = _failed(calls)
        if error is None:
            try:
                return function(*args)
            except host_calls.HostCallError as e:
                error = host_calls.explained(e)
        if not record(calls, error):
            raise error
        return nothing(*args)

    return call


def blank(dtype: np.dtype) -> int:
    """Choose the byte that fills the results of a failed run: 255 makes floats NaN."""
    return 255 if dtypes.is_float(dtype) or dtypes.is_complex(dtype) else 0


def blank_arrays(results: Sequence[tuple[tuple[int, ...], Any]]) -> Callable[..., tuple]:
    """Make a function that returns arrays of these shapes and dtypes filled with `blank`."""

    def arrays(*args: np.ndarray) -> tuple:
        blanks = []
        for shape, dtype in results:
            array = np.empty(shape, dtype)
            array.reshape(-1).view(np.uint8)[...] = blank(dtype)
            blanks.append(array)
        return tuple(blanks)

    return arrays


class TogetherExecutable(Executable):
    """An executable whose runs are waited for, and fail as a whole."""

    __slots__ = ("calls",)

    calls: FailingCalls

    def call(self, args: Sequence[Any], noted: bool = False) -> list:
        """Act as `Executable.call`; return when the program has finished.

        Raises what a call into Python or native code raised on any of the devices.
        """
        run = _Run(self.calls)
        turn = _turn if cpu_run_limit.inside.pending is None else contextlib.nullcontext()
        with turn:
            with _lock:
                _runs.append(run)
            try:
                outs = super().call(args, noted)
                for out in outs:
                    out.block_until_ready()
            except (XlaRuntimeError, RuntimeError, ValueError):
                if not run.errors:
                    raise
            finally:
                with _lock:
                    _runs.remove(run)
        if run.errors:
            raise run.errors[0] from None
        return outs

    def fastpath(self, out_tree: PyTreeDef, num_args: int, const_args: Sequence[Any] = ()) -> None:
        """None: somebody has to wait."""
        return None


def executable_class(keepalives: Sequence[Any], localized: bool) -> Callable[..., Executable]:
    """Return the class of a program's executable.

    localized: weft's partitioner made the program of each device, where one device makes the calls
    that see whole arrays, and tells the others how it went.
    """
    calls = next((k for k in keepalives if isinstance(k, FailingCalls)), None)
    if calls is None or (localized and not calls.on_shards):
        return Executable

    def make(*args: Any, **kwargs: Any) -> Executable:
        executable = TogetherExecutable(*args, **kwargs)
        executable.calls = calls
        return executable

    return make

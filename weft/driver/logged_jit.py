# Tests: tests/runtime/test_watchdog.py
"""Jitted functions of a process that is one of several: they note their calls.

The watchdog tells the other processes what each has called (weft/runtime/calls.py). A call of a
program over several processes is noted before it begins, since it may not end; in this file by the
function that is called, so that a known signature still runs past Python.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from weft.core.state import state
from weft.core.trace import EVAL
from weft.driver.donation_guard import Guarded
from weft.runtime import calls

if TYPE_CHECKING:
    from weft.driver.jit_info import JitInfo


class GuardedJit(Guarded):
    """A jitted function with donated or static arguments."""

    __slots__ = ()
    _call: Any
    _jit_info: JitInfo
    __qualname__: str

    def __repr__(self) -> str:
        return repr(self._call)

    @property
    def __signature__(self) -> Any:
        import inspect  # not loaded until somebody asks

        return inspect.signature(self._jit_info.fun)

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by name, as functions are

    def _clear_cache(self) -> None:
        self._call._clear_cache()

    def _cache_size(self) -> int:
        return self._call._cache_size()


class LoggedJit(GuardedJit):
    """A jitted function that notes its calls of programs over several processes.

    One whose programs are over different sets of processes leaves that to `Executable.call`.
    """

    __slots__ = ("_is_mixed", "_is_plain", "_label", "_log", "_ran")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_plain = not self._donates and self._explain is None
        self._log: calls.CallLog | None = None
        self._label = ""
        self._ran = self._is_mixed = False

    def __call__(self, *args: object, **kwargs: object) -> Any:
        log = self._log
        if log is None or state.trace is not EVAL:
            return Guarded.__call__(self, *args, **kwargs)
        if calls.failure is not None:
            calls.check()
        # `log.note` in line: every call pays for it.
        frame = sys._getframe(1)
        log.ring.append((log.next_number(), self._label, frame.f_code, frame.f_lasti))
        return self._run(args, kwargs)

    def relay(self, args: tuple, kwargs: dict) -> Any:
        """Call for a function that was jitted before the process joined its group.

        What `jit` returned then cannot note its calls; its cache misses pass them on.
        """
        if self._log is None:
            return Guarded.__call__(self, *args, **kwargs)
        calls.check()
        self._log.note(self._label, calls.user_frame(sys._getframe(1)))
        return self._run(args, kwargs)

    def _run(self, args: tuple, kwargs: dict) -> Any:
        try:
            if self._is_plain:
                return self._call(*args, **kwargs)
            return Guarded.__call__(self, *args, **kwargs)
        except (RuntimeError, ValueError) as error:
            explained = calls.explained(error)
            if explained is not error:
                raise explained from None
            raise

    def settle(self, log: calls.CallLog | None, label: str) -> tuple[bool, bool]:
        """Learn in a call's cache miss of the log of the executable that it found.

        Returns whether the call is noted already, and whether later ones will be.
        """
        noted = self._log is not None
        if not self._is_mixed and self._log is not log:
            if noted or self._ran:
                if self._log is not None:
                    self._log.retract()
                self._log, self._is_mixed, noted = None, True, False
                self._clear_cache()
            else:
                self._log, self._label = log, label
        self._ran = True
        return noted, not self._is_mixed

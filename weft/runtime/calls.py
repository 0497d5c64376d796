# Tests: tests/runtime/test_watchdog.py
"""The calls of programs over several processes that this process makes, in order.

What is noted of a call is its name and its line. The watchdog (`weft/runtime/watchdog.py`) tells
the other processes, and sets `failure` where the group has failed.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import deque
from types import CodeType, FrameType

from weft.core.errors import DistributedError
from weft.runtime.verdicts import ENTRIES, Calls

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class CallLog:
    """A ring of the newest calls over one set of processes.

    Every call pays for its entry, so that it holds an instruction of the caller's code, and the
    line is looked up when somebody asks.
    """

    __slots__ = ("next_number", "ring")

    def __init__(self) -> None:
        self.next_number = itertools.count(1).__next__
        self.ring: deque[tuple[int, str, CodeType, int]] = deque(maxlen=ENTRIES)

    @property
    def count(self) -> int:
        """How many calls there were."""
        try:
            return self.ring[-1][0]
        except IndexError:
            return 0

    def note(self, name: str, frame: FrameType) -> None:
        """Append a call made by this frame."""
        self.ring.append((self.next_number(), name, frame.f_code, frame.f_lasti))

    def retract(self) -> None:
        """Take back the newest call: it was no call over these processes."""
        number = self.ring.pop()[0]
        self.next_number = itertools.count(number).__next__

    def state(self) -> Calls:
        """Return the calls as other processes are told."""
        for _ in range(3):  # another thread may append meanwhile
            try:
                entries = list(self.ring)
                break
            except RuntimeError:
                entries = []
        count = entries[-1][0] if entries else 0
        recent = [(number, name, where(code, at)) for number, name, code, at in entries]
        return Calls(count, recent)


logs: dict[tuple[int, ...], CallLog] = {}
failure: str | None = None
"""Why the group has failed, once it has."""
raised = False
"""Whether an error has told the program so."""
watched = False
"""Whether a watchdog runs, which will say why a collective failed."""


def log_of(processes: tuple[int, ...]) -> CallLog:
    """Return the log of a set of processes."""
    return logs.setdefault(processes, CallLog())


def user_frame(frame: FrameType | None) -> FrameType:
    """Return the innermost frame outside weft."""
    user = frame
    while user is not None and user.f_code.co_filename.startswith(ROOT):
        user = user.f_back
    return user or frame or sys._getframe()


def where(code: CodeType, instruction: int) -> str:
    """Return "file:line" of an instruction, by its offset in bytes."""
    lines = (line for start, end, line in code.co_lines() if start <= instruction < end and line)
    return f"{short(code.co_filename)}:{next(lines, code.co_firstlineno)}"


def short(filename: str) -> str:
    """Return a file's name without the folders that say little."""
    return os.sep.join(filename.split(os.sep)[-2:])


def check() -> None:
    """Raise DistributedError if the group has failed."""
    if failure is not None:
        raise _told(failure)


def _told(text: str) -> BaseException:
    """Return the error to raise for a failure of the group."""
    global raised
    raised = True
    return DistributedError(text)


def explained(error: BaseException, seconds: float = 60.0) -> BaseException:
    """Return the DistributedError for a collective that failed, or the error that it was.

    A connection breaks at once when a process dies; the watchdog says soon after which it was.
    """
    text = str(error)
    if not watched or not ("Gloo" in text or "gloo" in text or "NCCL" in text):
        return error
    end = time.monotonic() + seconds
    while failure is None and time.monotonic() < end:
        time.sleep(0.02)
    if failure is None:
        return error
    return _told(failure).with_traceback(error.__traceback__)

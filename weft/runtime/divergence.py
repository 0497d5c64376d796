"""Programs over several processes: every process must compile the same ones, in the same order.

Processes that trace different programs would communicate past each other: XLA computes garbage, or
waits for ever. So each process publishes a digest of a program, and compares those of all before
the program runs. A thread does both while XLA compiles, so that a new program pays for handing it
over, and a call nothing.
"""

from __future__ import annotations

import hashlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import chain, repeat, zip_longest
from typing import Any

from weft.core.errors import DistributedError
from weft.runtime import backend, calls
from weft.runtime.own_threads import OwnThread
from weft.runtime.verdicts import COMPILATION

WAIT_SECONDS = 300
"""How long a process waits for the others to come to the same program."""

_BLOCK = 4
"""Entries of so many programs are deleted from the key-value store together."""

# How many programs there were over one set of processes: counted alike on all of them, so that
# `clear_caches` must not empty it.
_count: dict[tuple[int, ...], int] = {}


def publish_program(
    name: str, print_lines: Callable[[bool], list[str]], devices: Sequence[Any]
) -> Callable[[], str]:
    """Tell the other processes of a program that this one is about to compile.

    Returns a function that waits for the others, and gives the name by which processes speak of the
    program. It raises DistributedError on all processes where one compiles another program.

    print_lines: prints the program with what it is compiled for, a line for each equation; with
    True, each ends in its source line behind `  # `. devices: those it runs on, of several
    processes.
    """
    client = backend.distributed_state["client"]
    processes = tuple(sorted({d.process_index for d in devices}))
    me = backend.process_index()
    if client is None or len(processes) < 2 or me not in processes:
        return lambda: name
    number = _count[processes] = _count.get(processes, 0) + 1
    frame = calls.user_frame(sys._getframe(1))
    code, at = frame.f_code, frame.f_lasti
    calls.log_of(processes).note(COMPILATION + name, frame)
    group = "-".join(map(str, processes)) if len(processes) < 64 else f"all-{len(processes)}"
    meeting = _Meeting(client, f"weft/program/{group}", number, processes, me)
    comparison = _Comparison(meeting, print_lines)
    _Helper.give(comparison)

    def check() -> str:
        digest = comparison.wait()
        label = f"{name} (program {digest[:8]})"
        if comparison.agreed:
            return label  # also when it is asked again
        lines = print_lines(True)
        head = f"{digest} {name} at {calls.where(code, at)}"
        client.key_value_set(f"{meeting.texts}{me:06}", "\n".join([head, *lines]))
        texts = meeting.all_texts(name)
        digests = {rank: text.split("\n", 1)[0] for rank, text in texts.items()}
        other = next(r for r, value in digests.items() if value.split(" ", 1)[0] != digest)
        raise DistributedError(_describe(me, lines, other, texts[other].split("\n")[1:], digests))

    return check


class _Comparison:
    """The digest of one program, and whether all processes have the same."""

    def __init__(self, meeting: _Meeting, print_lines: Callable[[bool], list[str]]) -> None:
        self.meeting, self.print_lines = meeting, print_lines
        self.digest = ""
        self.agreed = False
        self.error: BaseException | None = None
        # Held until the end. Who waits for it is in this file, as the watchdog has to see.
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        """Publish the digest and wait for the others', on a helper's thread."""
        try:
            # Where a line of the program came from may differ; what it computes may not.
            text = "\n".join(self.print_lines(False))
            self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
            self.meeting.come(self.digest)
            self.agreed = self.meeting.agree()
        except BaseException as error:
            self.error = error
        self._running.release()

    def wait(self) -> str:
        """Return the digest once all processes have published theirs, or one that differs."""
        while not self._running.acquire(timeout=0.5):
            calls.check()
        self._running.release()
        if not self.agreed:
            calls.check()  # the group's failure, where that is why
        if self.error is not None:
            raise self.error
        return self.digest


class _Helper:
    """A thread that compares, while the one that gave it a program compiles it.

    It is handed its work by a queue: starting a thread for each program takes 0.1 ms, since the new
    one runs first. Who finds all helpers waiting for other processes starts one more.
    """

    idle: list[_Helper] = []

    def __init__(self) -> None:
        self.work: queue.SimpleQueue[_Comparison] = queue.SimpleQueue()
        OwnThread(self._serve, "weft comparisons").start()

    @classmethod
    def give(cls, comparison: _Comparison) -> None:
        """Have a helper run a comparison."""
        try:
            helper = cls.idle.pop()
        except IndexError:
            helper = cls()
        helper.work.put(comparison)

    def _serve(self) -> None:
        while True:
            self.work.get().run()
            self.idle.append(self)


class _Meeting:
    """All processes at one new program.

    Where they agree, it takes each two requests to the key-value store: a counter of those with the
    same digest, which the last one of all finds complete, and a key that this one sets.
    """

    def __init__(
        self, client: Any, folder: str, number: int, processes: tuple[int, ...], me: int
    ) -> None:
        self.client, self.number, self.processes = client, number, processes
        self.deadline = 0.0
        self.is_last = False
        block, within = divmod(number, _BLOCK)
        self.folder = f"{folder}/{block}/{number}/"
        self.texts = f"{folder}/{block}/{number}-texts/"
        if within == 0 and me == processes[0] and block > 1:
            client.key_value_delete(f"{folder}/{block - 2}/")

    def come(self, digest: str) -> None:
        """Tell the others this process's digest."""
        count = self.client.key_value_increment(self.folder + digest, 1)
        self.is_last = count == len(self.processes)
        if self.is_last:
            self.client.key_value_set(f"{self.folder}done", digest)

    def agree(self) -> bool:
        """Wait for all processes; return whether all have the same digest."""
        self.deadline = time.monotonic() + WAIT_SECONDS
        done = f"{self.folder}done"
        if self.is_last:
            return True
        for milliseconds in chain([50], repeat(500)):
            if calls.failure is not None:
                return False  # who waits for this one raises the error
            try:
                self.client.blocking_key_value_get(done, milliseconds)
                return True
            except (RuntimeError, ValueError):
                pass
            counts = [int(count) for key, count in self._entries(self.folder) if key != "done"]
            if sum(counts) == len(self.processes):
                return len(counts) == 1
            if any(True for _ in self._entries(self.texts)) or self._is_late():
                return False
        raise AssertionError("the loop does not end")

    def _is_late(self) -> bool:
        return time.monotonic() > self.deadline

    def all_texts(self, name: str) -> dict[int, str]:
        """Return the programs of all processes, by rank; name those that do not come in time."""
        end = time.monotonic() + (10 if self._is_late() else WAIT_SECONDS)
        while True:
            texts = {int(rank): text for rank, text in self._entries(self.texts)}
            if len(texts) == len(self.processes):
                return texts
            calls.check()
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        absent = ", ".join(str(r) for r in self.processes if r not in texts)
        raise DistributedError(
            f"{name}, program {self.number} over processes {', '.join(map(str, self.processes))}: "
            f"process {absent} has not come to it in {WAIT_SECONDS} s. Every process must call the "
            "same functions in the same order; look for a branch on weft.process_index(), or for a "
            "process that ended or hangs"
        )

    def _entries(self, folder: str) -> list[tuple[str, str]]:
        entries = self.client.key_value_dir_get(folder)
        return [(key.rsplit("/", 1)[1], value) for key, value in entries]


def _describe(
    me: int, lines: Sequence[str], other: int, theirs: Sequence[str], digests: dict[int, str]
) -> str:
    """Return the ranks that differ, where they call, and the first line that does."""
    groups: dict[str, list[int]] = {}
    for rank, value in digests.items():
        groups.setdefault(value.split(" ", 1)[0], []).append(rank)
    ranks = "; ".join(
        f"{digests[g[0]].split(' ', 1)[1]} on process {', '.join(map(str, g))}"
        for g in groups.values()
    )
    pairs = enumerate(zip_longest(lines, theirs, fillvalue=""))
    at = next(i for i, (a, b) in pairs if a.split("  # ")[0].strip() != b.split("  # ")[0].strip())
    return (
        f"processes compile different programs over all their devices ({ranks}). The first "
        f"difference is\n  process {me}: {_with_source(lines, at)}\n  process {other}: "
        f"{_with_source(theirs, at)}\n"
        "Every process must trace the same program: a value that differs between processes, such "
        "as weft.process_index(), os.environ or a random number, must not decide what is computed"
    )


def _with_source(lines: Sequence[str], at: int) -> str:
    """Return a line; if it is a parameter of an equation, with that equation's source line."""
    if at >= len(lines):
        return "(no more equations)"
    line, depth = lines[at], len(lines[at]) - len(lines[at].lstrip())
    for above in reversed(lines[:at] if "  # " not in line else []):
        indent = len(above) - len(above.lstrip())
        if indent < depth and "  # " in above:
            equation, _, source = above.strip().partition("  # ")
            return f"{line.strip()} of {equation.rstrip('[')}  # {source}"
        depth = min(depth, indent)
    return line.strip()

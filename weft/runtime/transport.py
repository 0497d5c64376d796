# Tests: tests/runtime/test_watchdog.py
"""The TCP connections of XLA's collectives on CPUs (Gloo): found, and broken to end a wait.

A thread that waits in a collective returns only when its connection ends. Gloo listens at one port
of its own in each process (jaxlib 0.10.2): connections from or to such ports are its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

T = TypeVar("T")

ports: set[int] = set()
"""Where this process's Gloo listens."""
announce: list[Callable[[], None]] = []
"""The watchdog's, which tells the others of new ports at once: a process may be stopped soon."""


def _sockets() -> Iterator[socket.socket]:
    """Duplicate the TCP sockets of this process."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError, ValueError):
                if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    inet = connection.family in (socket.AF_INET, socket.AF_INET6)
                    if inet and connection.type == socket.SOCK_STREAM:
                        yield connection


def _listening() -> set[int]:
    return {
        s.getsockname()[1]
        for s in _sockets()
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    }


def note_ports(make: Callable[[], T]) -> T:
    """Call `make`, and note the ports at which the process listens since."""
    before = _listening()
    made = make()
    ports.update(_listening() - before)
    for tell in announce:
        tell()
    return made


def break_connections(others: Collection[int]) -> None:
    """End Gloo's connections with the processes that listen at the ports `others`.

    Gloo's thread then reads an end and fails everything that waits. Writing stays possible: a write
    that fails in the thread that sends leaves that thread waiting for ever (jaxlib 0.10.2).
    """
    for connection in _sockets():
        with contextlib.suppress(OSError):
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                continue
            if connection.getsockname()[1] in ports or connection.getpeername()[1] in others:
                connection.shutdown(socket.SHUT_RD)

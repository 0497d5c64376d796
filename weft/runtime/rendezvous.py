"""All processes of a group meet before they connect, so that it can be said who is missing.

jaxlib (0.10.2) ends every process where not all register with its service in time. So before there
is a service, process 0 listens at its address itself. The others tell it their numbers, and wait
for one line: `go`, or why not. All sides have their own deadline, and raise when it is over.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time

_LINE = 4096
_HELLO = 2.0
"""Seconds in which who connects has to say its number."""

_GRACE = 1.0
"""Seconds that others wait longer for process 0's answer, which says more than theirs would."""

_WHO = "weft.distributed.initialize"


def listen(address: str) -> socket.socket:
    """A socket that listens where the service will. Raises RuntimeError where that cannot be."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.socket(family)
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:
                raise
            host, listener = "", socket.socket(socket.AF_INET)  # no IPv6 here, as for gRPC
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, int(port)))
            listener.listen(1024)
        except BaseException:
            listener.close()
            raise
    except (OSError, ValueError, OverflowError) as error:
        raise RuntimeError(
            f"{_WHO}: process 0 cannot listen at {address!r} ({error}); choose a free port, or "
            "another coordinator_bind_address, such as '[::]:1234'"
        ) from None
    return listener


def gather(listener: socket.socket, count: int, seconds: float) -> None:
    """Waits in process 0 for all others, then lets them go. RuntimeError names who is missing."""
    end = time.monotonic() + seconds
    here: dict[int, socket.socket] = {}
    try:
        while not _all_here(here, count):
            listener.settimeout(max(end - time.monotonic(), 0.001))
            try:
                new, _ = listener.accept()
            except TimeoutError:
                missing = [i for i in range(1, count) if i not in here]
                raise RuntimeError(_missing(missing, count, seconds)) from None
            _admit(new, here, count)
        for member in here.values():
            _tell(member, "go")
        for member in here.values():  # they close first, so that the port is free at once
            _line(member)
    except RuntimeError as error:
        for member in here.values():
            _tell(member, str(error))
        raise
    finally:
        for member in here.values():
            member.close()


def join(address: str, number: int, count: int, seconds: float) -> None:
    """Waits in another process until all have come. Raises RuntimeError if they do not in time."""
    end = time.monotonic() + seconds
    while True:
        connection = _connect(address, end, seconds)
        with connection:
            _tell(connection, f"weft {number} {count}")
            connection.settimeout(max(end - time.monotonic(), 0) + _GRACE)
            answer = _line(connection)
        if answer == "go":
            return
        if answer.startswith(_WHO):
            raise RuntimeError(answer)
        if answer:
            raise RuntimeError(
                f"{_WHO}: what answers at {address} is not waiting for process {number}: the group "
                "has started, or another program has the port. Start all processes together"
            )
        if time.monotonic() >= end:
            raise RuntimeError(
                f"{_WHO}: process 0 answers at {address}, but did not say within {seconds} s that "
                f"all {count} processes have come; start all of them"
            )
        time.sleep(0.1)  # process 0 has ended: it may come again


def wait_until_open(address: str, seconds: float) -> None:
    """Waits until something listens there. Raises RuntimeError if nothing does."""
    _connect(address, time.monotonic() + seconds, seconds).close()


def _admit(new: socket.socket, here: dict[int, socket.socket], count: int) -> None:
    """Notes who has connected; who is no process of this group is told so, or left out."""
    new.settimeout(_HELLO)
    words = _line(new).split()
    if len(words) != 3 or words[0] != "weft" or not (words[1].isdigit() and words[2].isdigit()):
        new.close()
        return
    number, of = int(words[1]), int(words[2])
    if of != count or not 0 < number < count:
        _tell(
            new,
            f"{_WHO}: process {number} was started as one of {of} processes, but process 0 as one "
            f"of {count}; give all of them the same num_processes",
        )
        new.close()
        return
    before = here.get(number)
    if before is not None and _is_open(before):
        _tell(
            new,
            f"{_WHO}: there is a process {number} already; give each process its own process_id",
        )
        new.close()
        return
    here[number] = new


def _all_here(here: dict[int, socket.socket], count: int) -> bool:
    """Whether all have come; those that have ended since are forgotten, for they may come again."""
    if len(here) < count - 1:
        return False
    for number in [i for i, member in here.items() if not _is_open(member)]:
        here.pop(number).close()
    return len(here) == count - 1


def _missing(numbers: list[int], count: int, seconds: float) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return (
        f"{_WHO}: of {count} processes, {len(numbers)} did not come within {seconds} s: those with "
        f"process_id {shown}. Start all of them, check that they reach the coordinator_address, or "
        "give a larger initialization_timeout"
    )


def _connect(address: str, end: float, seconds: float) -> socket.socket:
    host, port = address.rsplit(":", 1)
    while True:
        left = max(end - time.monotonic(), 0.1)
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=left)
            if connection.getsockname() != connection.getpeername():
                return connection
            connection.close()  # to itself: its own port, chosen at random, is the one asked for
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
        except OSError as error:
            if time.monotonic() >= end:
                raise RuntimeError(
                    f"{_WHO}: nothing answers at {address} after {seconds} s ({error}). Start "
                    "process 0, and check that this host can reach its address"
                ) from None
        time.sleep(min(0.1, left))


def _tell(connection: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):  # who has gone need not know
        connection.sendall(text.encode() + b"\n")


def _line(connection: socket.socket) -> str:
    """What the other side says; "" if it says nothing."""
    received = b""
    with contextlib.suppress(OSError):
        while not received.endswith(b"\n") and len(received) < _LINE:
            part = connection.recv(_LINE)
            if not part:
                return ""
            received += part
    return received.decode(errors="replace").strip()


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        connection.settimeout(_HELLO)

"""All processes of a group meet before they connect, so that it can be said who is missing.

jaxlib ends every process where not all register in time (quirks.REGISTRATION_TIMEOUT). So before
there is a service, process 0 listens at its address itself. The others tell it their numbers, prove
that they are of the group, and wait for one line: `go`, or why not. All sides have their own
deadline, and raise when it is over. Their connections stay open while jaxlib connects them, so that
it can be said who ended meanwhile.

Whoever else connects, and whatever it sends, delays nobody: process 0 waits for all connections at
once, and a number is taken only by who answers a challenge with the group's secret as the key:
WEFT_COORDINATOR_TOKEN, or without one a secret that all processes of this user's home share.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import selectors
import socket
import time
from collections.abc import Sequence

from weft.runtime.store import user_secret

_LINE = 4096
_INTRODUCTION = 128
"""Bytes that each line of an introduction may have."""
_HELLO = 10.0
"""Seconds in which who connects has to introduce itself."""
_GUESTS = 256
"""How many may be doing so at once; the one that takes longest makes room."""

_GRACE = 1.0
"""Seconds that others wait longer for process 0's answer, which says more than theirs would."""

_READY = "connecting"
"""What a process says before it connects to the service, which it cannot say while it does."""

_WHO = "weft.distributed.initialize"


def listen(address: str) -> socket.socket:
    """Return a socket that listens for the service; RuntimeError where that cannot be."""
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
            "another coordinator_bind_address, such as '[::]:1234', and start one process with "
            "process_id 0 only"
        ) from None
    return listener


class _Guest:
    """A connection that has not shown yet that it is a process of the group."""

    __slots__ = ("connection", "introduced", "nonce", "received", "until")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until = time.monotonic() + _HELLO
        self.received = b""
        self.nonce = ""
        self.introduced = (0, 0)

    def listen(self) -> bool:
        """Take what has come; True once all is said. Raises OSError for who is a stranger."""
        part = self.connection.recv(_INTRODUCTION)
        self.received += part
        line, newline, rest = self.received.partition(b"\n")
        if not part or len(line) > _INTRODUCTION or (newline and rest):
            raise ConnectionError("no process of weft")
        if not newline:
            return False
        self.received = b""
        text = line.decode(errors="replace")
        if self.nonce:
            if not hmac.compare_digest(
                text.encode(), _proof(self.nonce, *self.introduced).encode()
            ):
                _tell(
                    self.connection,
                    f"{_WHO}: process {self.introduced[0]} does not know the secret of process 0; "
                    "give all processes the same WEFT_COORDINATOR_TOKEN, or a home that they share",
                )
                raise ConnectionError("another secret")
            return True
        words = text.split()
        if len(words) != 3 or words[0] != "weft" or not all(w.isdecimal() for w in words[1:]):
            raise ConnectionError("no process of weft")
        self.introduced = int(words[1]), int(words[2])
        self.nonce = os.urandom(16).hex()
        _tell(self.connection, f"prove {self.nonce}")
        return False


def _proof(nonce: str, number: int, count: int) -> str:
    """Answer a challenge as only a process that knows the group's secret can."""
    key = os.environ.get("WEFT_COORDINATOR_TOKEN")
    secret = _user_secret() if key is None else key.encode()
    return hmac.new(secret, f"{nonce} {number} {count}".encode(), "sha256").hexdigest()


def _user_secret() -> bytes:
    """Return the secret of this user's groups. Raises RuntimeError where none can be kept."""
    try:
        return user_secret("group-secret")
    except OSError as error:
        raise RuntimeError(
            f"{_WHO}: no secret can be kept for the group ({error}); give all processes the same "
            "WEFT_COORDINATOR_TOKEN"
        ) from None


def gather(listener: socket.socket, count: int, seconds: float) -> dict[int, socket.socket]:
    """Wait in process 0 for all others; return their connections, by number.

    RuntimeError names who is missing. Those that came are told so.
    """
    end = time.monotonic() + seconds
    connected: dict[int, socket.socket] = {}
    twice: set[int] = set()
    guests: dict[socket.socket, _Guest] = {}
    selector = selectors.DefaultSelector()
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)

    def leave(connection: socket.socket) -> _Guest:
        selector.unregister(connection)
        return guests.pop(connection)

    try:
        while not _all_here(connected, count):
            now = time.monotonic()
            if now >= end:
                missing = [i for i in range(1, count) if i not in connected]
                raise RuntimeError(_missing(missing, twice, count, seconds))
            late = [g.connection for g in guests.values() if g.until <= now]
            # Who says nothing in time, or comes in a crowd, is shut out, so that members get in.
            for connection in late or list(guests)[: len(guests) - _GUESTS]:
                leave(connection).connection.close()
            # Wake for the next deadline, and once a second for those that have closed.
            wake = min([end, now + 1.0, *(g.until for g in guests.values())])
            for key, _ in selector.select(max(wake - now, 0.001)):
                if key.fileobj is listener:
                    with contextlib.suppress(OSError):
                        connection, _address = listener.accept()
                        connection.setblocking(False)
                        guests[connection] = _Guest(connection)
                        selector.register(connection, selectors.EVENT_READ, guests[connection])
                    continue
                guest: _Guest = key.data
                try:
                    if guest.listen():
                        leave(guest.connection)
                        if not _admit(guest.connection, *guest.introduced, connected, count):
                            twice.add(guest.introduced[0])
                except OSError:
                    leave(guest.connection).connection.close()
    # Whoever waits here for the rest learns why nothing will come.
    except BaseException as error:
        send_away(connected, str(error))
        raise
    finally:
        selector.close()
        for connection in guests:
            connection.close()
    return connected


def let_go(members: dict[int, socket.socket]) -> None:
    """Tell all that came to connect to the service."""
    for member in members.values():
        _tell(member, "go")


def send_away(members: dict[int, socket.socket], text: str) -> None:
    """Tell all that came why there is no group."""
    for member in members.values():
        _tell(member, text or f"{_WHO}: process 0 was interrupted")
        member.close()


def tell_ready(connection: socket.socket) -> None:
    """Tell process 0 that this process connects to the service now."""
    _tell(connection, _READY)


def explain_disconnected(members: dict[int, socket.socket], count: int, seconds: float) -> str:
    """Name those that did not connect, to process 0 and to those that wait."""
    absent = []
    for number, member in sorted(members.items()):
        line = _line(member, time.monotonic() + 0.1)
        if line != _READY or not _is_open(member):
            absent.append(number)
    api = _numbers(absent) if absent else "unknown, for all of them tried"
    text = (
        f"{_WHO}: all {count} processes came, but not all connected within {seconds:g} s: process "
        f"{api} ended or hangs since. Start all of them again"
    )
    send_away(members, text)
    return text


def await_explanation(connection: socket.socket, seconds: float) -> str:
    """Return what process 0 says of a group that did not connect."""
    return _line(connection, time.monotonic() + _HELLO) or (
        f"{_WHO}: process 0 ended or hangs after all had come, and this process could not connect "
        f"within {seconds:g} s. Start all of them again"
    )


def join(address: str, number: int, count: int, seconds: float) -> socket.socket:
    """Wait in another process until all have come; return the connection to process 0.

    Raises RuntimeError if they do not come in time.
    """
    end = time.monotonic() + seconds
    while True:
        connection = _connect(address, end, seconds)
        challenged, answer = introduce(connection, number, count, end + _GRACE)
        if answer == "go":
            return connection
        connection.close()
        if answer.startswith(_WHO):
            raise RuntimeError(answer)
        if answer or (not challenged and time.monotonic() >= end):
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


def introduce(connection: socket.socket, number: int, count: int, until: float) -> tuple[bool, str]:
    """Say which process this is, and prove it.

    Returns whether process 0 asked for the proof, and what it answered, "" if nothing by then.
    """
    _tell(connection, f"weft {number} {count}")
    answer = _line(connection, until)
    challenged = answer.startswith("prove ")
    if challenged:
        _tell(connection, _proof(answer.removeprefix("prove "), number, count))
        answer = _line(connection, until)
    return challenged, answer


def _admit(
    new: socket.socket, number: int, of: int, connected: dict[int, socket.socket], count: int
) -> bool:
    """Note a process that has come; one that is not of this group is told so.

    Returns False where another process has its number.
    """
    new.settimeout(_HELLO)
    if of != count or not 0 < number < count:
        _tell(
            new,
            f"{_WHO}: process {number} was started as one of {of} processes, but process 0 as one "
            f"of {count}; give all of them the same num_processes",
        )
        new.close()
        return True
    before = connected.get(number)
    if before is not None and _is_open(before):
        _tell(
            new,
            f"{_WHO}: there is a process {number} already; give each process its own process_id",
        )
        new.close()
        return False
    connected[number] = new
    return True


def _all_here(connected: dict[int, socket.socket], count: int) -> bool:
    """Tell whether all have come; forget those that have ended since, for they may come again."""
    if len(connected) < count - 1:
        return False
    for number in [i for i, member in connected.items() if not _is_open(member)]:
        connected.pop(number).close()
    return len(connected) == count - 1


def _missing(numbers: list[int], twice: set[int], count: int, seconds: float) -> str:
    doubled = f", while several came with process_id {_numbers(sorted(twice))}" if twice else ""
    return (
        f"{_WHO}: of {count} processes, {len(numbers)} did not come within {seconds} s: those with "
        f"process_id {_numbers(numbers)}{doubled}. Start all of them, check that they reach the "
        "coordinator_address, or give a larger initialization_timeout"
    )


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")


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


def _line(connection: socket.socket, until: float) -> str:
    """Read one message of the peer; "" if it sends none, or not a whole line by then."""
    received = b""
    with contextlib.suppress(OSError):
        while not received.endswith(b"\n") and len(received) < _LINE:
            connection.settimeout(max(until - time.monotonic(), 0.001))
            part = connection.recv(_LINE)
            if not part or time.monotonic() > until:
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

# Tests: tests/runtime/test_rendezvous.py, tests/runtime/test_watchdog.py
"""The coordination service, in a process of its own, which outlives process 0.

jaxlib ends every process whose connection to the service breaks (quirks.PEERS_END). So process 0
forks the service before it starts a thread of XLA. It ends when all processes have left.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
import warnings
from collections.abc import Mapping

from weft._xla import distributed

_CONNECTED = b"+"
"""What process 0 tells the service once all have connected: from then on it sees who leaves."""

_ENDED = (
    b"weft.distributed.initialize: process 0 ended before all processes had connected. Start all "
    b"of them again\n"
)

_GRACE = 5.0
"""Seconds that the service stays after the last process has left."""


def start(
    address: str,
    members: Mapping[int, socket.socket],
    *,
    heartbeat_timeout: int,
    shutdown_timeout: int,
) -> socket.socket:
    """Start the service at ``address``, for process 0 and those whose connections these are.

    Returns the connection by which it sees that this process lives. Each other process lives as
    long as its connection does.

    Raises:
      RuntimeError: it cannot listen there.
    """
    kept, link = socket.socketpair()
    ready, tell = os.pipe()
    with warnings.catch_warnings():
        # Python warns where other threads run: the child touches nothing that they may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            _become_daemon({link.fileno(), tell, *(m.fileno() for m in members.values())})
            kept.detach()  # closed already
            service = _make_service(
                tell, address, len(members) + 1, heartbeat_timeout, shutdown_timeout
            )
            _serve(service, link, list(members.values()))
            status = 0
        os._exit(status)
    os.close(tell)
    link.close()
    with open(ready, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if text != "ready":
        kept.close()
        raise RuntimeError(
            f"weft.distributed.initialize: the coordination service cannot listen at {address!r} "
            f"({text or 'it ended'}); choose a free port"
        )
    return kept


def tell_connected(link: socket.socket) -> None:
    """Tell the service that all processes have connected."""
    with contextlib.suppress(OSError):
        link.sendall(_CONNECTED)


def _become_daemon(keep: set[int]) -> None:
    """Leave the parent's session, signals and files; the parent waits for a process in between."""
    os.setsid()
    if os.fork():
        os._exit(0)
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    start = 3
    for number in (*sorted(keep), 1 << 16):
        os.closerange(start, number)
        start = number + 1


def _make_service(
    tell: int, address: str, count: int, heartbeat: int, shutdown: int
) -> distributed.DistributedRuntimeService:
    try:
        service = distributed.make_service(
            address, count, heartbeat_timeout=heartbeat, shutdown_timeout=shutdown
        )
    except RuntimeError as error:
        os.write(tell, str(error)[:4000].encode())
        raise
    os.write(tell, b"ready")
    os.close(tell)
    return service


def _serve(
    service: distributed.DistributedRuntimeService,
    starter: socket.socket,
    members: list[socket.socket],
) -> None:
    """Serve until every process has left."""
    # Until all have connected, or process 0 has ended, it is that one that reads what others say.
    if not starter.recv(len(_CONNECTED)):
        for member in members:
            with contextlib.suppress(OSError):
                member.sendall(_ENDED)
    selector = selectors.DefaultSelector()
    for link in (starter, *members):
        selector.register(link, selectors.EVENT_READ, link)
    while selector.get_map():
        for key, _ in selector.select():
            link = key.data
            with contextlib.suppress(OSError):
                if link.recv(64):
                    continue
            selector.unregister(link)
            link.close()
    time.sleep(_GRACE)
    service.shutdown()

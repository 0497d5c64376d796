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

from weft._xla import distributed

_GRACE = 5.0
"""Seconds that the service stays after the last process has left."""


def start(address: str, count: int, *, heartbeat_timeout: int, shutdown_timeout: int) -> int:
    """Start the service at ``address``; return the port at which processes show that they live.

    Raises:
      RuntimeError: it cannot listen there.
    """
    listener = socket.create_server(("", 0), backlog=min(count, 4096))
    ready, tell = os.pipe()
    with warnings.catch_warnings():
        # Python warns where other threads run: the child touches nothing that they may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            _become_daemon({listener.fileno(), tell})
            status = _serve(listener, tell, address, count, heartbeat_timeout, shutdown_timeout)
        os._exit(status)
    os.close(tell)
    port = int(listener.getsockname()[1])
    listener.close()
    with open(ready, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if text != "ready":
        raise RuntimeError(
            f"weft.distributed.initialize: the coordination service cannot listen at {address!r} "
            f"({text or 'it ended'}); choose a free port"
        )
    return port


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


def _serve(
    listener: socket.socket, tell: int, address: str, count: int, heartbeat: int, shutdown: int
) -> int:
    """Serve until every process that came has left."""
    try:
        service = distributed.make_service(
            address, count, heartbeat_timeout=heartbeat, shutdown_timeout=shutdown
        )
    except RuntimeError as error:
        os.write(tell, str(error)[:4000].encode())
        return 1
    os.write(tell, b"ready")
    os.close(tell)
    links: set[socket.socket] = set()
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    end = time.monotonic() + 600.0
    while links or time.monotonic() < end:
        for key, _ in selector.select(1.0):
            if key.fileobj is listener:
                link, _address = listener.accept()
                links.add(link)
                selector.register(link, selectors.EVENT_READ, link)
                continue
            with contextlib.suppress(OSError):
                if key.data.recv(64):
                    continue
            selector.unregister(key.data)
            links.discard(key.data)
            key.data.close()
            end = time.monotonic() + _GRACE
    service.shutdown()
    return 0

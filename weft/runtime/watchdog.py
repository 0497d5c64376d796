"""A thread of each process that tells the others how far it is, and finds who holds them up.

Every half second it sends its state (calls, the main thread's line) to other processes by UDP, with
no process between them: the coordinator's death is a death like any other. Up to 64 processes
send to all; of more, each sends to those at distances of powers of two, and verdicts are passed on.

A process is dead when its port refuses packets, stopped or cut off when it is silent longer than
the heartbeat, and stuck when others have waited for a call of it longer than the timeout. Then
every process records the same verdict, writes what it knows to a file (`weft replay` reads it),
and breaks its collectives' connections, so that waiting calls end with an error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import hmac
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from weft._xla.distributed import DistributedRuntimeClient
from weft.runtime import calls, transport, verdicts
from weft.runtime.own_threads import OwnThread
from weft.runtime.verdicts import State, Verdict

BEAT = 0.5
"""Seconds between messages."""
_ALL = 64
"""Up to so many processes send to all others."""
_SETTLE = 1.5
"""Seconds that a difference must last before it is judged without those that are not there yet."""


def neighbours(rank: int, count: int) -> list[int]:
    """Return the processes with which process `rank` of `count` exchanges states."""
    if count <= _ALL:
        return [r for r in range(count) if r != rank]
    steps = [1 << i for i in range(count.bit_length()) if 1 << i < count]
    return sorted({(rank + sign * s) % count for s in steps for sign in (1, -1)} - {rank})


class Watchdog:
    """The heartbeat and the judgement of one process.

    Args:
      client: the key-value store, for the exchange of addresses only.
      rank, count: this process and the number of all.
      host: by which others reach this process.
      heartbeat: seconds of silence after which a process counts as gone.
      timeout: seconds that processes wait for one before it counts as stuck.
      patience: seconds in which the others have to tell their addresses.

    Raises:
      RuntimeError: one of them did not.
    """

    def __init__(
        self,
        client: DistributedRuntimeClient,
        rank: int,
        count: int,
        host: str,
        heartbeat: float,
        timeout: float,
        patience: float,
    ) -> None:
        self.client, self.rank, self.count = client, rank, count
        self.heartbeat, self.timeout = heartbeat, timeout
        self.main = threading.main_thread().ident
        self.ended = False
        self.verdict: Verdict | None = None
        self.states: dict[int, State] = {}
        self._seen: dict[int, float] = {}
        self._refused: set[int] = set()
        self._ports: dict[int, list[int]] = {}
        self._links: dict[int, socket.socket] = {}
        self._progress = (0, time.monotonic())
        self._difference_since: float | None = None
        self._decided = 0.0
        self._stop = threading.Event()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._inbox = socket.socket(family, socket.SOCK_DGRAM)
        self._inbox.bind((host if host in ("127.0.0.1", "::1") else "", 0))
        self._key = b""
        if rank == 0:
            client.key_value_set("weft/watchdog/key", os.urandom(16).hex())
        address = f"{host} {self._inbox.getsockname()[1]}"
        client.key_value_set(f"weft/watchdog/{rank}", address)
        self._connect(time.monotonic() + patience)
        self._thread = OwnThread(self._run, "weft watchdog")
        self._thread.start()

    def _connect(self, end: float) -> None:
        """Learn the others' addresses. Who ends from now on is missed, by those that know them."""
        self._key = self._told_by(0, "weft/watchdog/key", end).encode()
        for rank in neighbours(self.rank, self.count):
            address = self._told_by(rank, f"weft/watchdog/{rank}", end)
            host, port = address.split(" ")
            link = socket.socket(self._inbox.family, socket.SOCK_DGRAM)
            # Connected, a socket is told when nobody listens at the other end any more.
            link.connect((host, int(port)))
            link.setblocking(False)
            self._links[rank] = link
            self._seen[rank] = time.monotonic()
        transport.announce[:] = [self._send]

    def _told_by(self, rank: int, key: str, end: float) -> str:
        """Wait for what a process tells all others at the start."""
        wait = max(int(1000 * (end - time.monotonic())), 100)
        try:
            return self.client.blocking_key_value_get(key, wait)
        except (RuntimeError, ValueError):
            raise RuntimeError(
                f"weft.distributed.initialize: all {self.count} processes connected, but process "
                f"{rank} ended or hangs since. Start all of them again"
            ) from None

    def _run(self) -> None:
        try:
            last = time.monotonic()
            next_beat = last
            while not self._stop.is_set():
                now = time.monotonic()
                if now - last > self.heartbeat / 2:
                    # This process was itself stopped: the others' silence means nothing.
                    self._seen = dict.fromkeys(self._seen, now)
                last = now
                if now >= next_beat:
                    if self.verdict is not None:
                        self._end_if_stuck(now)
                    self._send()
                    if self.verdict is None:
                        self._judge(now)
                    next_beat = now + BEAT
                self._receive(max(0.001, next_beat - time.monotonic()))
        except Exception as error:  # a daemon at the interpreter's end, or a lost coordinator
            if not self._stop.is_set() and not sys.is_finalizing():
                calls.watched = False
                print(f"weft: the watchdog ended: {error!r:.300}", file=sys.stderr)

    def state(self) -> State:
        """Describe this process."""
        now = time.monotonic()
        progress = sum(log.count for log in list(calls.logs.values()))
        if progress != self._progress[0]:
            self._progress = (progress, now)
        frame = sys._current_frames().get(self.main or 0)
        while frame is not None and frame.f_code.co_filename == threading.__file__:
            frame = frame.f_back  # who waits for a thread is whoever asked for it
        waits, line = False, "unknown"
        if frame is not None:
            waits = frame.f_code.co_filename.startswith(calls.ROOT)
            user = calls.user_frame(frame)
            line = f"{calls.short(user.f_code.co_filename)}:{user.f_lineno}"
        made = {",".join(map(str, g)): log.state() for g, log in list(calls.logs.items())}
        still = now - self._progress[1]
        return State(self.rank, line, waits, still, self.ended, made)

    def _send(self) -> None:
        state = self.state()
        self.states[self.rank] = state
        content: dict[str, Any] = {"state": state.to_json(), "ports": sorted(transport.ports)}
        if self.verdict is not None:
            v = self.verdict
            content["verdict"] = [v.kind, v.ranks, v.text]
        body = json.dumps(content, separators=(",", ":")).encode()
        message = self._sign(body) + body
        for rank, link in self._links.items():
            try:
                link.send(message)
            except ConnectionRefusedError:
                # The error is that of an older packet: this one was not sent.
                self._refused.add(rank)
            except OSError:  # a network that is away: silence says the rest
                pass

    def _sign(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=16).digest()

    def _receive(self, seconds: float) -> None:
        self._inbox.settimeout(seconds)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            while True:
                message = self._inbox.recv(65536)
                self._inbox.settimeout(0)
                body = message[16:]
                if not hmac.compare_digest(message[:16], self._sign(body)):
                    continue
                content = json.loads(body)
                state = State.from_json(content["state"])
                self.states[state.rank] = state
                self._seen[state.rank] = time.monotonic()
                self._refused.discard(state.rank)
                self._ports[state.rank] = content["ports"]
                if "verdict" in content and self.verdict is None:
                    kind, ranks, text = content["verdict"]
                    self._decide(Verdict(kind, tuple(ranks), text))

    def _judge(self, now: float) -> None:
        gone = {}
        for rank in self._links:
            if rank in self.states and self.states[rank].ended:
                continue
            silent = now - self._seen[rank]
            if rank in self._refused:
                gone[rank] = "has ended"
            elif silent > self.heartbeat:
                gone[rank] = (
                    f"has been silent for {silent:.0f} s: it is stopped, or its host is cut off"
                )
        verdict = verdicts.find_gone(self.states, gone)
        if verdict is None and len(self.states) == len(self._links) + 1:
            verdict = self._difference(now) or verdicts.find_late(self.states, self.timeout)
        if verdict is not None:
            self._decide(verdict)

    def _difference(self, now: float) -> Verdict | None:
        """Find calls that differ; wait a little for the processes that are not there yet."""
        difference = verdicts.find_difference(self.states, complete=True)
        if difference is not None:
            return difference
        difference = verdicts.find_difference(self.states, complete=False)
        if difference is None:
            self._difference_since = None
            return None
        if self._difference_since is None:
            self._difference_since = now
        return difference if now - self._difference_since > _SETTLE else None

    def _decide(self, verdict: Verdict) -> None:
        """Record why the group has failed, tell all, and end what waits."""
        self.verdict, self._decided = verdict, time.monotonic()
        path = self._dump(verdict)
        calls.failure = (
            f"{verdict.text}. This is process {self.rank} of {self.count}; what it knew of the "
            f"others' calls: `weft replay {path}`"
        )
        self._send()
        others = {port for ports in self._ports.values() for port in ports}
        transport.break_connections(others)

    def _end_if_stuck(self, now: float) -> None:
        """End the process where its main thread never returned from a collective.

        Gloo may miss the end of a connection (`transport.break_connections`); it then waits for
        half an hour, and nothing can wake it.
        """
        if calls.raised or now - self._decided < self.timeout or not self.state().waits:
            return
        print(f"weft.errors.DistributedError: {calls.failure}", file=sys.stderr)
        print("weft: a collective does not end; this process is at", file=sys.stderr)
        faulthandler.dump_traceback(sys.stderr)
        sys.stderr.flush()
        os._exit(1)

    def _dump(self, verdict: Verdict) -> Path:
        import tempfile  # with much behind it, for groups that fail only

        folder = Path(os.environ.get("WEFT_DUMP_DIR") or tempfile.gettempdir())
        path = folder / f"weft-hang-{os.getpid()}-{self.rank}.json"
        content = {
            "format": "weft-hang",
            "version": 1,
            "rank": self.rank,
            "count": self.count,
            "timeout": self.timeout,
            "verdict": {"kind": verdict.kind, "ranks": verdict.ranks, "text": verdict.text},
            "states": [s.to_json() for _, s in sorted(self.states.items())],
        }
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=1))
        return path

    def publish_end(self) -> None:
        """Store what this process has called, to be compared at the end."""
        if self.count <= _ALL:
            text = json.dumps(self.state().to_json())
            self.client.key_value_set(f"weft/watchdog-end/{self.rank}", text)

    def compare_ends(self) -> None:
        """Compare what all have called: programs that differ may have run without a hang."""
        if self.count > _ALL:
            return
        ends = self.client.key_value_dir_get("weft/watchdog-end/")
        states = [State.from_json(json.loads(text)) for _, text in ends]
        verdict = verdicts.find_difference({s.rank: s for s in states}, complete=True)
        if verdict is not None and self.verdict is None:
            self.states = {s.rank: s for s in states}
            self._decide(verdict)

    def fail(self, text: str) -> None:
        """Tell the others that this process fails, and why."""
        if self.verdict is None:
            self._decide(Verdict("failed", (self.rank,), text))
            self._send()

    def stop(self) -> None:
        """Send a last message and end the thread."""
        self._stop.set()
        transport.announce.clear()
        self._thread.join(timeout=2 * BEAT)
        with contextlib.suppress(OSError):
            self._send()
        for link in (self._inbox, *self._links.values()):
            link.close()

"""Processes that meet before they connect: who comes, who is missing, who is turned away."""

import contextlib
import hmac
import re
import socket
import threading
import time

import pytest

from tests import processes
from weft.runtime import distributed, rendezvous

LONG = 300
"""Seconds that nothing here takes: what comes in time does so on the slowest machine."""


def start(work, *args):
    """Runs it in a thread; the result is a list of what it raised, when joined."""
    raised = []

    def run():
        try:
            work(*args)
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end():
        thread.join(LONG)
        assert not thread.is_alive()
        return raised

    return end


@pytest.fixture
def meeting():
    with rendezvous.listen("localhost:0") as listener:
        yield listener, f"localhost:{listener.getsockname()[1]}"


def gather(listener, count, seconds):
    """What process 0 does until the others connect to the service."""
    members = rendezvous.gather(listener, count, seconds)
    rendezvous.let_go(members)
    for member in members.values():
        member.close()


def join(*args):
    """What another process does until then."""
    rendezvous.join(*args).close()


def come(address, number, count, gathering=False):
    """A connection that says its number, and proves it when it is asked to, which is awaited where
    process 0 gathers already."""
    connection = socket.create_connection(address.split(":"))
    connection.sendall(f"weft {number} {count}\n".encode())

    def prove():
        with contextlib.suppress(OSError):
            word, nonce = connection.makefile().readline().split()
            assert word == "prove"
            connection.sendall(f"{rendezvous._proof(nonce, number, count)}\n".encode())

    thread = threading.Thread(target=prove, daemon=True)
    thread.start()
    if gathering:
        thread.join(LONG)
    return connection


def test_all_go_when_the_last_has_come_and_the_port_is_free_again(meeting):
    listener, address = meeting
    waits = [start(join, address, i, 4, LONG) for i in (2, 1)]
    with socket.create_connection(address.split(":")) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        first = start(gather, listener, 4, LONG)
        waits.append(start(join, address, 3, 4, LONG))
        assert [end() for end in (first, *waits)] == [[], [], [], []]
    listener.close()
    rendezvous.listen(address).close()


def test_a_process_alone_waits_for_nobody(meeting):
    """Passes where nothing raises, also with no time to wait."""
    gather(meeting[0], 1, 0)


def test_all_that_came_are_told_who_is_missing(meeting):
    listener, address = meeting
    with come(address, 2, 4) as other:
        with pytest.raises(
            RuntimeError, match="of 4 processes, 2 did not come .*process_id 1, 3."
        ) as e:
            rendezvous.gather(listener, 4, 1)
        assert other.makefile().readline() == f"{e.value}\n"


def test_who_waits_for_longer_than_its_own_deadline_says_so(meeting):
    listener, address = meeting
    first = start(gather, listener, 3, LONG)
    with pytest.raises(RuntimeError, match="process 0 answers .*all 3 processes"):
        join(address, 1, 3, 2)
    with come(address, 1, 3, gathering=True), come(address, 2, 3, gathering=True):
        assert first() == []


def test_who_listens_and_says_nothing_is_not_taken_for_process_0(meeting):
    _, address = meeting
    with pytest.raises(RuntimeError, match="not waiting for process 1.* another program has the"):
        join(address, 1, 2, 0.1)


def test_process_0_tells_of_numbers_that_came_twice(meeting):
    listener, address = meeting
    first = start(gather, listener, 3, 5)
    with come(address, 1, 3, gathering=True):
        with pytest.raises(RuntimeError, match="a process 1 already"):
            join(address, 1, 3, LONG)
        (text,) = first()
    assert "process_id 2, while several came with process_id 1" in text


def test_a_process_of_another_group_is_told_so(meeting):
    listener, address = meeting
    first = start(gather, listener, 2, LONG)
    with pytest.raises(RuntimeError, match="process 1 .* one of 3 .* 0 as one of 2.*num_processes"):
        join(address, 1, 3, LONG)
    join(address, 1, 2, LONG)
    assert first() == []


def test_a_second_process_of_the_same_number_is_told_so(meeting):
    listener, address = meeting
    first = start(gather, listener, 3, LONG)
    with come(address, 1, 3, gathering=True):
        with pytest.raises(RuntimeError, match="a process 1 already; .* its own process_id"):
            join(address, 1, 3, LONG)
        join(address, 2, 3, LONG)
    assert first() == []


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_process_that_ended_may_come_again(meeting, order):
    listener, address = meeting
    first = start(gather, listener, 3, LONG)
    come(address, 1, 3, gathering=True).close()
    again = [come(address, number, 3, gathering=True) for number in order]
    for connection in again:
        with connection:
            assert connection.makefile().readline() == "go\n"
    assert first() == []


def test_a_group_that_has_started_is_told_from_one_that_gathers(meeting):
    listener, address = meeting

    def serve():
        with listener.accept()[0] as connection:
            connection.recv(64)
            connection.sendall(b"\0\0\6\4\0\n")

    server = start(serve)
    with pytest.raises(RuntimeError, match="not waiting for process 1: the group has started"):
        join(address, 1, 2, LONG)
    assert server() == []


def test_initialize_names_the_processes_that_do_not_come(monkeypatch):
    monkeypatch.setattr(distributed.backend, "_clients", {})
    with pytest.raises(RuntimeError, match="2 did not come within 0.2 s: .*process_id 1, 2"):
        distributed.initialize(
            "localhost:1", 3, 0, coordinator_bind_address="localhost:0", initialization_timeout=0.2
        )


def test_those_that_end_before_all_have_connected_are_named():
    """Two of five say that they connect now, one hangs, and one ends."""
    pairs = {number: socket.socketpair() for number in range(1, 5)}
    for number in (1, 4):
        rendezvous.tell_ready(pairs[number][1])
    pairs[2][1].close()
    text = rendezvous.explain_disconnected({n: pair[0] for n, pair in pairs.items()}, 5, 7)
    assert "not all connected within 7 s: process 2, 3 ended or hangs since" in text
    assert rendezvous.await_explanation(pairs[1][1], 7) == text
    assert "process 0 ended" in rendezvous.await_explanation(pairs[1][1], 7)
    for number in (1, 3, 4):
        pairs[number][1].close()


def test_a_connection_to_itself_is_nobodys_answer(monkeypatch):
    """Linux connects a socket to itself where its own port, chosen at random, is the one asked."""
    itself = socket.socket()
    itself.bind(("localhost", 0))
    itself.connect(itself.getsockname())
    address = f"localhost:{itself.getsockname()[1]}"
    assert itself.getsockname() == itself.getpeername()
    monkeypatch.setattr(socket, "create_connection", lambda *args, **_: itself)
    with pytest.raises(RuntimeError, match="nothing answers at .*nobody listens"):
        join(address, 1, 2, 0)


STRANGERS = {
    "silence": b"",
    "half a line": b"weft 1",
    "a member's number": b"weft 1 2\n",
    "a number and a guess": b"weft 1 2\n" + 64 * b"0" + b"\n",
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bytes": bytes(range(256)) * 40,
    "large numbers": b"weft " + 40 * b"9" + b" 2\n",
    "other digits": "weft \N{SUPERSCRIPT TWO} 2\n".encode(),
}


@pytest.mark.parametrize("sent", STRANGERS.values(), ids=STRANGERS)
def test_no_number_of_strangers_keeps_a_complete_group_waiting(meeting, sent):
    listener, address = meeting
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stranger = stack.enter_context(socket.create_connection(address.split(":")))
            with contextlib.suppress(OSError):
                stranger.sendall(sent)
        first = start(gather, listener, 2, LONG)
        began = time.monotonic()
        join(address, 1, 2, LONG)
        assert first() == []
        assert time.monotonic() - began < LONG / 2


def test_bytes_that_trickle_in_hold_nobody_past_the_deadline(meeting):
    listener, address = meeting
    over = threading.Event()

    def trickle():
        with (
            contextlib.suppress(OSError),
            socket.create_connection(address.split(":")) as stranger,
        ):
            while not over.wait(0.05):
                stranger.sendall(b"w")

    threading.Thread(target=trickle, daemon=True).start()
    first = start(gather, listener, 2, 1)
    try:
        assert "1 did not come within 1 s" in first()[0]
    finally:
        over.set()


def test_more_connections_than_are_waited_for_at_once_do_no_harm(meeting, monkeypatch):
    monkeypatch.setattr(rendezvous, "_GUESTS", 5)
    listener, address = meeting
    first = start(gather, listener, 2, LONG)
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(socket.create_connection(address.split(":")))
        join(address, 1, 2, LONG)
        assert first() == []


def test_a_process_with_another_secret_is_told_so(meeting, monkeypatch):
    listener, address = meeting
    monkeypatch.setenv("WEFT_COORDINATOR_TOKEN", "ours")
    first = start(gather, listener, 2, LONG)
    plain = rendezvous._proof
    with monkeypatch.context() as patch:
        patch.setattr(rendezvous, "introduce", lambda c, n, of, until: foreign(c, n, of, until))

        def foreign(connection, number, count, until):
            connection.sendall(f"weft {number} {count}\n".encode())
            connection.makefile().readline()
            connection.sendall(b"0" * 64 + b"\n")
            return True, rendezvous._line(connection, until)

        with pytest.raises(RuntimeError, match="process 1 does not know .*WEFT_COORDINATOR_TOKEN"):
            join(address, 1, 2, LONG)
    assert plain("a", 1, 2) != hmac.new(b"", b"a 1 2", "sha256").hexdigest()
    join(address, 1, 2, LONG)
    assert first() == []


def answer(address, key):
    """What process 0 says to a stranger who speaks the protocol and proves to know `key`."""
    with socket.create_connection(address.split(":")) as stranger:
        lines = stranger.makefile("rw")
        print("weft 1 2", file=lines, flush=True)
        nonce = lines.readline().split()[1]
        print(hmac.new(key, f"{nonce} 1 2".encode(), "sha256").hexdigest(), file=lines, flush=True)
        stranger.settimeout(LONG)
        return lines.readline()


def test_without_a_token_only_this_users_processes_take_a_number(meeting, monkeypatch, tmp_path):
    listener, address = meeting
    monkeypatch.delenv("WEFT_COORDINATOR_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = start(gather, listener, 2, LONG)
    assert "does not know the secret" in answer(address, b"")
    join(address, 1, 2, LONG)
    assert first() == []
    secret = tmp_path / "weft" / "group-secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert len(secret.read_bytes()) == 32


def test_an_empty_token_is_the_wish_to_let_everyone_join(meeting, monkeypatch):
    listener, address = meeting
    monkeypatch.setenv("WEFT_COORDINATOR_TOKEN", "")
    first = start(gather, listener, 2, LONG)
    assert answer(address, b"") == "go\n"
    assert first() == []


@pytest.mark.parametrize("damage", ["read by others", "cut", "a folder"])
def test_a_secret_that_is_none_is_named_with_the_remedy(monkeypatch, tmp_path, damage):
    monkeypatch.delenv("WEFT_COORDINATOR_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rendezvous._proof("a", 1, 2)
    secret = tmp_path / "weft" / "group-secret"
    if damage == "read by others":
        secret.chmod(0o644)
    elif damage == "cut":
        secret.write_bytes(b"short")
    else:
        secret.unlink()
        secret.mkdir()
    with pytest.raises(RuntimeError, match="same WEFT_COORDINATOR_TOKEN"):
        rendezvous._proof("a", 1, 2)


@pytest.mark.parametrize(
    "address, loopback",
    [
        ("localhost:1234", "127.0.0.1"),
        ("127.0.0.1:5", "127.0.0.1"),
        ("127.0.1.1:5", "127.0.0.1"),
        ("[::1]:7", "::1"),
        ("10.0.0.3:9", None),
        ("node0.cluster:80", None),
    ],
)
def test_processes_listen_for_their_own_host_alone_where_that_is_enough(address, loopback):
    assert distributed._loopback(address) == loopback


LISTENS = """
import os, sys
import numpy as np
import weft
from weft import P
from pathlib import Path

weft.distributed.initialize(sys.argv[2], 2, int(sys.argv[1]))
mesh = weft.make_mesh((2,), ("x",))
x = weft.make_array_from_callback((2,), weft.NamedSharding(mesh, P("x")), lambda i: np.ones(2)[i])
assert float(weft.jit(lambda a: a.sum())(x)) == 2
inodes = set()
for fd in Path("/proc/self/fd").iterdir():
    try:
        inodes.add(os.readlink(fd).removeprefix("socket:[").removesuffix("]"))
    except OSError:
        pass
for table, state in (("tcp", "0A"), ("udp", "07")):
    for name in (table, f"{table}6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] in inodes and words[3] == state:
                print("LISTENS", name, words[1].split(":")[0])
weft.distributed.shutdown()
"""


def test_a_group_on_this_host_listens_at_no_other_address():
    """Who sends zeros to Gloo's port first takes the place of a process (jaxlib 0.10.2)."""
    for status, words in processes.run_pair(LISTENS, devices=1):
        assert status == 0, words
        places = re.findall("LISTENS (\\w+) (\\w+)", words)
        assert ("tcp", "0100007F") in places and ("udp", "0100007F") in places
        assert {place for _, place in places} == {"0100007F"}, places

"""Processes that meet before they connect: who comes, who is missing, who is turned away."""

import socket
import threading

import pytest

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


def come(address, number, count):
    """A connection that has said its number: the next that is admitted."""
    connection = socket.create_connection(address.split(":"))
    connection.sendall(f"weft {number} {count}\n".encode())
    return connection


def test_all_go_when_the_last_has_come_and_the_port_is_free_again(meeting):
    listener, address = meeting
    waits = [start(rendezvous.join, address, i, 4, LONG) for i in (2, 1)]
    with socket.create_connection(address.split(":")) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        first = start(rendezvous.gather, listener, 4, LONG)
        waits.append(start(rendezvous.join, address, 3, 4, LONG))
        assert [end() for end in (first, *waits)] == [[], [], [], []]
    listener.close()
    rendezvous.listen(address).close()


def test_a_process_alone_waits_for_nobody(meeting):
    rendezvous.gather(meeting[0], 1, 0)


def test_all_that_came_are_told_who_is_missing(meeting):
    listener, address = meeting
    with come(address, 2, 4) as other:
        with pytest.raises(
            RuntimeError, match="of 4 processes, 2 did not come .*process_id 1, 3."
        ) as e:
            rendezvous.gather(listener, 4, 0.1)
        assert other.makefile().readline() == f"{e.value}\n"


def test_who_waits_for_longer_than_its_own_deadline_says_so(meeting):
    _, address = meeting
    with pytest.raises(RuntimeError, match="process 0 answers .*all 2 processes"):
        rendezvous.join(address, 1, 2, 0.1)


def test_a_process_of_another_group_is_told_so(meeting):
    listener, address = meeting
    first = start(rendezvous.gather, listener, 2, LONG)
    with pytest.raises(RuntimeError, match="process 1 .* one of 3 .* 0 as one of 2.*num_processes"):
        rendezvous.join(address, 1, 3, LONG)
    rendezvous.join(address, 1, 2, LONG)
    assert first() == []


def test_a_second_process_of_the_same_number_is_told_so(meeting):
    listener, address = meeting
    with come(address, 1, 3):
        first = start(rendezvous.gather, listener, 3, LONG)
        with pytest.raises(RuntimeError, match="a process 1 already; .* its own process_id"):
            rendezvous.join(address, 1, 3, LONG)
        rendezvous.join(address, 2, 3, LONG)
    assert first() == []


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_process_that_ended_may_come_again(meeting, order):
    listener, address = meeting
    come(address, 1, 3).close()
    again = [come(address, number, 3) for number in order]
    first = start(rendezvous.gather, listener, 3, LONG)
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
        rendezvous.join(address, 1, 2, LONG)
    assert server() == []


def test_initialize_names_the_processes_that_do_not_come(monkeypatch):
    monkeypatch.setattr(distributed.backend, "_clients", {})
    with pytest.raises(RuntimeError, match="2 did not come within 0.2 s: .*process_id 1, 2"):
        distributed.initialize(
            "localhost:1", 3, 0, coordinator_bind_address="localhost:0", initialization_timeout=0.2
        )


def test_a_connection_to_itself_is_nobodys_answer(monkeypatch):
    """Linux connects a socket to itself where its own port, chosen at random, is the one asked."""
    itself = socket.socket()
    itself.bind(("localhost", 0))
    itself.connect(itself.getsockname())
    address = f"localhost:{itself.getsockname()[1]}"
    assert itself.getsockname() == itself.getpeername()
    monkeypatch.setattr(socket, "create_connection", lambda *args, **_: itself)
    with pytest.raises(RuntimeError, match="nothing answers at .*nobody listens"):
        rendezvous.wait_until_open(address, 0)

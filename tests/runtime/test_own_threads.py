"""Weft's own threads do not count among those that may read an array."""

from __future__ import annotations

import threading

from weft.runtime.own_threads import OwnThread, alone


def blocked(make) -> tuple[threading.Thread, threading.Event]:
    begun, end = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        end.wait(60)

    thread = make(run)
    thread.start()
    assert begun.wait(60)
    return thread, end


def test_only_threads_of_others_count():
    before = alone()
    own, end_own = blocked(lambda run: OwnThread(run, "own"))
    assert alone() == before
    other, end_other = blocked(lambda run: threading.Thread(target=run))
    assert not alone()
    end_own.set()
    own.join()
    assert not alone()
    end_other.set()
    other.join()


def test_a_thread_that_raises_is_no_longer_counted(monkeypatch):
    before = alone()
    monkeypatch.setattr(threading, "excepthook", lambda args: None)

    def fail() -> None:
        raise ValueError

    thread = OwnThread(fail, "fails")
    thread.start()
    thread.join()
    assert alone() == before

"""A compilation that takes long says that it goes on; others start no thread."""

import logging
import re
import threading

import weft
from weft.runtime import compile as compiling
from weft.runtime import long_compilations


def test_a_long_compilation_says_that_it_goes_on(monkeypatch, caplog):
    monkeypatch.setattr(long_compilations, "LONG", 0.05)
    monkeypatch.setattr(long_compilations, "_watcher", None)  # one may sleep for longer
    kept, real = threading.Event(), compiling._xla_compile.compile_and_load

    def slow(*args):
        with caplog.at_level(logging.WARNING, logger="weft"):
            kept.wait(0.3)
        return real(*args)

    monkeypatch.setattr(compiling._xla_compile, "compile_and_load", slow)

    def patient(x):
        return x * 3 + 1

    assert float(weft.jit(patient)(2.0)) == 7
    told = [r.getMessage() for r in caplog.records if "is compiling" in r.getMessage()]
    assert told and all(re.fullmatch(r"XLA is compiling \w*patient, \d+ s so far", t) for t in told)
    count = len(caplog.records)
    kept.wait(0.15)
    assert len(caplog.records) == count  # and says no more once it is done


def test_compilations_that_follow_each_other_share_a_thread(monkeypatch):
    monkeypatch.setattr(long_compilations, "_watcher", None)
    started = []
    real = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda t: (started.append(t.name), real(t))[1])
    for i in range(5):
        weft.jit(lambda x, i=i: x * 3 + i)(2.0)
    assert started.count("weft compilations") == 1


def test_the_thread_ends_when_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(long_compilations, "LONG", 0.01)
    monkeypatch.setattr(long_compilations, "_watcher", None)
    number = long_compilations.begin("f")
    watcher = long_compilations._watcher
    long_compilations.end(number)
    watcher.join(timeout=100)
    assert not watcher.is_alive()

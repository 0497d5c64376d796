"""Transformations in several threads at once do not see each other's traces."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax

X = np.array([0.5, -1.0, 2.0], np.float32)


def test_each_thread_traces_its_own_functions():
    barrier = threading.Barrier(4)

    def work(k):
        def f(x):
            barrier.wait(timeout=30)  # all four threads are inside their traces here
            return jnp.sum(jnp.sin(k * x))

        results = []
        for run in (weft.grad(f), weft.jit(weft.grad(f)), weft.vmap(weft.grad(f))):
            x = np.stack([X, X]) if len(results) == 2 else X
            results.append(np.asarray(run(x)))
        return results

    with ThreadPoolExecutor(4) as pool:
        for k, (eager, jitted, batched) in enumerate(pool.map(work, range(1, 5)), 1):
            want = k * np.cos(k * X)
            for got in (eager, jitted):
                close(got, want, 1e-4)
            close(batched, np.stack([want, want]), 1e-4)


def test_axis_names_of_one_thread_are_not_bound_in_another():
    entered, done = threading.Event(), threading.Event()
    seen = []

    def mapped(x):
        entered.set()
        assert done.wait(timeout=30)
        return lax.psum(x, "i")

    def elsewhere():
        assert entered.wait(timeout=30)
        try:
            lax.psum(1.0, "i")
        except NameError as e:
            seen.append(str(e))
        done.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    close(weft.vmap(mapped, axis_name="i")(X), np.full(3, X.sum()))
    thread.join()
    assert len(seen) == 1 and "no named axis is in scope" in seen[0]


def test_one_jitted_function_called_first_by_many_threads_gives_one_answer():
    calls = []

    @weft.jit
    def f(x):
        calls.append(threading.get_ident())
        return lax.scan(lambda c, a: (c * 0.5 + a, c), 0.0, x)[0]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: float(f(X)), range(32)))
    assert set(results) == {float(np.float32(((0.5 * 0.5) - 1.0) * 0.5 + 2.0))}
    assert len(calls) <= 8


FIRST = """
import threading
from weft.core.state import state
before, after = threading.Event(), threading.Event()
seen = []
def look():
    seen.append(state.axes)
    before.set()
    after.wait(60)
    import weft.numpy
    seen.append(float(weft.numpy.sin(weft.numpy.zeros(3) + 1)[0]))
thread = threading.Thread(target=look)
thread.start()
before.wait(60)
import weft.core.trace
after.set()
thread.join()
assert len(seen) == 2 and 0.84 < seen[1] < 0.85, seen
"""


def test_a_thread_that_looks_while_another_imports_the_tracer_can_run_ops():
    subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=300)


FIRST_IMPORTS = """
import threading, weft
barrier, failed = threading.Barrier(8), []
acts = [
    lambda: weft.numpy.zeros(3), lambda: weft.jit(lambda x: x + 1)(1.0), lambda: weft.P("x"),
    lambda: weft.random.key(0), lambda: weft.device_put(1.0), lambda: weft.AxisType.Auto,
    lambda: weft.dtypes.bfloat16, lambda: weft.pallas.pallas_call,
]
def begin(act):
    barrier.wait(60)
    try:
        act()
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=begin, args=(act,)) for act in acts]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""


def test_threads_may_begin_with_different_names():
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST_IMPORTS], check=True, timeout=300)

"""Runs in flight over virtual CPU devices: they never wait for each other's threads."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.processes import python
from weft import NamedSharding, P
from weft.runtime import cpu_run_limit

MESH = weft.make_mesh((8,), ("d",))
SPLIT = NamedSharding(MESH, P("d"))

STRESS = """
import sys, threading
import numpy as np
import weft
import weft.numpy as wnp
from weft import NamedSharding, P

mesh = weft.make_mesh((8,), ("d",))
half = weft.make_mesh((4,), ("e",), devices=weft.devices()[4:])
split = NamedSharding(mesh, P("d"))
RING = [(i, (i + 1) % 8) for i in range(8)]

def exchange(x):
    for _ in range(3):
        x = weft.lax.psum(x, "d") * 0.1 + weft.lax.ppermute(x, "d", RING)
    return x

def uneven(x):  # long on one device, on which such runs pile up
    trips = (weft.lax.axis_index("d") == 7) * 500
    return weft.lax.fori_loop(0, trips, lambda i, v: wnp.sin(v) * 1.0001, x)

unequal = weft.jit(weft.shard_map(uneven, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
collective = weft.jit(weft.shard_map(exchange, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
elementwise = weft.jit(lambda x: wnp.sin(x) * 0.5 + 1)
donating = weft.jit(lambda x: x * 0.5 + 1, donate_argnums=0)

def run(kinds, times):
    rng = np.random.default_rng(0)
    x = weft.device_put(np.ones((64, 1024), np.float32), split)
    small = weft.device_put(np.ones((64, 64), np.float32), split)
    other = weft.device_put(np.ones((64, 1024), np.float32), NamedSharding(half, P("e")))
    parts = [weft.device_put(np.ones(3000, np.float32), d) for d in weft.devices()]
    for kind in rng.choice(list(kinds), times):
        if kind == "c":
            x = collective(x * 0.1)
        elif kind == "e":
            elementwise(x)
        elif kind == "d":
            small = donating(small)
        elif kind == "s":
            parts = [elementwise(part) for part in parts]
            for shard in x.addressable_shards:
                elementwise(shard.data)
        elif kind == "u":
            for _ in range(8):
                unequal(small)
        elif kind == "f":  # as many as XLA lets wait on one device
            first = x.addressable_shards[0].data
            for _ in range(40):
                elementwise(first)
        elif kind == "h":
            other = elementwise(other)
    weft.block_until_ready((x, small, other, parts))
    for array in (x, small, other):
        assert np.isfinite(np.asarray(array)).all()

kinds, times, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
workers = [threading.Thread(target=run, args=(kinds, times)) for _ in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print("done")
"""


@pytest.mark.parametrize(
    "kinds, times, threads",
    [
        ("c", 500, 1),
        ("d", 500, 1),
        ("s", 60, 1),
        ("cedsh", 400, 1),
        ("cedh", 200, 3),
        ("cf", 200, 3),
    ],
)
def test_hundreds_of_programs_in_flight_do_not_hang(kinds, times, threads):
    assert python(STRESS, kinds, times, threads) == "done\n"


def in_flight_after_each_run(x, times=40):
    """For each of these runs of a slow program: how many were not finished when it had begun."""
    square = wnp.ones((512, 512))
    slow = weft.jit(lambda x: wnp.sin(x @ square) @ square * 1e-9)
    weft.block_until_ready(slow(x))
    results, waiting = [], []
    for _ in range(times):
        x = slow(x)
        results.append(x)
        waiting.append(sum(not r.is_ready() for r in results))
    x.block_until_ready()
    return waiting


@pytest.mark.parametrize("sharding", [SPLIT, weft.devices()[3]], ids=["8 devices", "one"])
def test_no_more_runs_than_the_limit_are_in_flight(sharding):
    limit = max(2 * cpu_run_limit.EVERY, cpu_run_limit.LIMIT)
    waiting = []
    for rows in (16, 512):
        x = weft.device_put(np.ones((rows, 512), np.float32), sharding)
        waiting += in_flight_after_each_run(x)
    assert 1 < max(waiting) <= limit


def test_programs_that_python_starts_are_limited_too():
    x = weft.device_put(np.ones((512, 512), np.float32), SPLIT)
    square = wnp.ones((512, 512))
    slow = weft.jit(lambda x: wnp.sin(x @ square) @ square * 1e-9).lower(x).compile()
    most = 0
    for _ in range(40):
        x = slow(x)
        most = max(most, len(cpu_run_limit._runs))
    x.block_until_ready()
    assert 1 < most <= cpu_run_limit.LIMIT


def test_every_jitted_form_of_a_function_is_counted():
    x = weft.device_put(np.ones((8, 4), np.float32), SPLIT)

    def plus_one(x):
        return x + 1

    first = weft.jit(plus_one)
    first(x), first(x)
    forms = (weft.jit(plus_one), weft.jit(first), weft.jit(plus_one, donate_argnums=()))
    for form in forms:
        form(x)
        cpu_run_limit.wait_for_all()
        for _ in range(2 * cpu_run_limit.EVERY):
            form(x)
        assert cpu_run_limit._groups


@pytest.mark.parametrize("device", [0, 3])
def test_every_run_on_one_device_is_counted(device):
    f = weft.jit(lambda x: x + 1)
    weft.block_until_ready(f(weft.device_put(np.ones(8, np.float32), SPLIT)))
    x = weft.device_put(np.ones(3, np.float32), weft.devices()[device])
    f(x), f(x)
    cpu_run_limit.wait_for_all()
    for _ in range(5):
        f(x)
    assert len(cpu_run_limit._runs) == 5


def test_programs_without_results_run():
    f = weft.jit(lambda x: None)
    for x in (np.ones(8, np.float32), weft.device_put(np.ones(8, np.float32), SPLIT)):
        for _ in range(3):
            assert f(x) is None


def test_large_results_do_not_stay_alive_for_their_run():
    x = weft.device_put(np.ones((64, 1024), np.float32), SPLIT)
    f = weft.jit(lambda x: x * 2)
    for _ in range(2 * cpu_run_limit.LIMIT):
        f(x)
    assert all(h.nbytes <= cpu_run_limit.SMALL for h in cpu_run_limit._groups)
    alone = weft.device_put(np.ones((64, 1024), np.float32))
    for _ in range(2 * cpu_run_limit.LIMIT):
        f(alone)
    assert len(cpu_run_limit._large) <= cpu_run_limit.LARGE
    assert all(
        h.nbytes <= cpu_run_limit.SMALL for h in cpu_run_limit._runs if isinstance(h, weft.Array)
    )


def test_the_pool_has_a_thread_for_each_cpu_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3, 5}, raising=False)
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    threads = cpu_run_limit._threads.__wrapped__
    assert (threads(1), threads(8)) == (2, 8)


def test_deleted_results_do_not_stop_the_count():
    x = weft.device_put(np.ones((8, 4), np.float32), SPLIT)
    f = weft.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(5 * cpu_run_limit.LIMIT):
        x = f(x)
    np.testing.assert_array_equal(x, np.full((8, 4), 1.0 + 5 * cpu_run_limit.LIMIT))
    for _ in range(3 * cpu_run_limit.LIMIT):
        y = x + 1
        y.delete()
    assert len(cpu_run_limit._groups) <= 2


def test_clear_cache_traces_programs_over_many_devices_anew():
    traces = []

    @weft.jit
    def f(x):
        traces.append(None)
        return x + 1

    x = weft.device_put(np.arange(8, dtype=np.float32), SPLIT)
    for _ in range(3):
        f(x)
    assert len(traces) == 1
    f.clear_cache()
    np.testing.assert_array_equal(f(x), np.arange(1, 9))
    assert len(traces) == 2


def test_one_function_over_one_device_and_over_many():
    f = weft.jit(lambda x, y: {"sum": x + y, "max": (x.max(), y.max())})
    whole = np.arange(8, dtype=np.float32)
    for _ in range(4):
        for x in (weft.device_put(whole, SPLIT), weft.device_put(whole), whole):
            got = f(x, x)
            np.testing.assert_array_equal(got["sum"], 2 * whole)
            assert [float(v) for v in got["max"]] == [7, 7]


NESTED = """
import numpy as np
import weft
from weft import NamedSharding, P

mesh = weft.make_mesh((8,), ("d",))
split = NamedSharding(mesh, P("d"))
x = weft.device_put(np.ones((8, 4), np.float32), split)
total = weft.jit(weft.shard_map(lambda x: weft.lax.psum(x, "d"), mesh=mesh, in_specs=P("d"),
                                out_specs=P()))

def callback(v):
    return np.asarray(total(x))[:1] + v

@weft.jit
@weft.shard_map(mesh=mesh, in_specs=P("d"), out_specs=P("d"))
def f(v):
    return weft.pure_callback(callback, weft.ShapeDtypeStruct(v.shape, v.dtype), v)

if KNOWN:
    total(x), total(x)
try:
    print(np.asarray(f(x)).sum())
except RuntimeError as e:
    print(e)
"""


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_programs_over_many_devices_cannot_run_in_callbacks_of_such_and_say_so(known):
    said = python(f"KNOWN = {known}" + NESTED)
    assert "a callback of a program over several CPU devices started" in said, said
    assert "Compute on one device" in said


def test_programs_over_many_devices_run_in_callbacks_of_one():
    program = NESTED.replace('@weft.shard_map(mesh=mesh, in_specs=P("d"), out_specs=P("d"))', "")
    program = program.replace("f(x)", "f(np.ones((1, 4), np.float32))")
    assert python("KNOWN = True" + program) == "36.0\n"

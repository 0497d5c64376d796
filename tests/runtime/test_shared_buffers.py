"""Arrays that hold the same buffers: what donating one of them does to the others; threads."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import weft
from weft import P

MESH = weft.make_mesh((8,), ("x",))
SPLIT, WHOLE = weft.NamedSharding(MESH, P("x")), weft.NamedSharding(MESH, P())
OTHER = weft.NamedSharding(weft.make_mesh((4, 2), ("a", "b")), P(("a", "b")))
V = np.arange(16, dtype=np.float32)

take = weft.jit(lambda v: v + 1, donate_argnums=0)


def split():
    return weft.device_put(V, SPLIT)


def parts():
    return [weft.device_put(V[2 * i : 2 * i + 2], d) for i, d in enumerate(weft.devices())]


def joined(pieces):
    return weft.make_array_from_single_device_arrays((16,), SPLIT, pieces)


def with_(make, *others):
    x = make()
    return (*[f(x) for f in others], x)


# name: () -> the array to donate, one that shares its buffer (and what keeps them alive)
SHARING = {
    "a part of an array": lambda: with_(split, lambda x: x.addressable_data(3)),
    "the data of a shard": lambda: with_(split, lambda x: x.addressable_shards[0].data),
    "an array and its part": lambda: with_(split, lambda x: x, lambda x: x.addressable_data(1)),
    "a part of an array over another mesh": lambda: with_(
        split, lambda x: weft.device_put(x, OTHER).addressable_data(1)
    ),
    "what an array was joined of": lambda: with_(parts, lambda p: p[2], joined),
    "what parts were joined again of": lambda: with_(
        lambda: [s.data for s in split().addressable_shards], lambda p: p[2], joined
    ),
    "an array that was replicated": lambda: with_(
        lambda: weft.numpy.arange(8.0), lambda x: x, lambda x: weft.device_put(x, WHOLE)
    ),
    "one device's part of a replicated array": lambda: with_(
        lambda: weft.device_put(V, WHOLE), lambda x: weft.device_put(x, weft.devices()[0])
    ),
}


@pytest.mark.parametrize("name", SHARING)
def test_donating_one_makes_use_of_the_other_an_error(name):
    given, other, *_ = SHARING[name]()
    take(given).block_until_ready()
    with pytest.raises(RuntimeError, match="has been deleted"):
        other + 1
    with pytest.raises(RuntimeError, match="has been deleted"):
        np.asarray(other)


@pytest.mark.parametrize("name", SHARING)
def test_deleting_one_makes_use_of_the_other_an_error(name):
    given, other, *_ = SHARING[name]()
    given.delete()
    for use in (lambda: other + 1, lambda: np.asarray(other), other.block_until_ready):
        with pytest.raises(RuntimeError, match="has been deleted"):
            use()


@pytest.mark.parametrize("sharding", [WHOLE, SPLIT], ids=["replicated", "split"])
def test_a_donated_array_is_gone_also_where_somebody_looks_at_a_part(sharding):
    x = weft.device_put(V, sharding) + 0
    views = np.asarray(x), np.asarray(x.addressable_data(3))
    take(x).block_until_ready()
    for use in (lambda: take(x), lambda: x + 1, lambda: np.asarray(x.addressable_data(0))):
        with pytest.raises(RuntimeError, match="has been deleted"):
            use()
    np.testing.assert_array_equal(views[0], V)


def test_donating_a_part_spares_other_parts_that_stand_alone():
    first, second = [s.data for s in split().addressable_shards][:2]
    np.testing.assert_array_equal(take(first), [1, 2])
    np.testing.assert_array_equal(second + 0, [2, 3])


def test_results_that_hold_their_own_buffers_are_untouched():
    x = split()
    y = weft.jit(lambda v: v * 1)(x)
    take(y.addressable_data(0))
    np.testing.assert_array_equal(x + 0, V)


def test_threads_may_ask_for_the_shards_of_an_array_at_the_same_time():
    failures = []
    for _ in range(20):
        x = weft.jit(lambda v: v * 2)(split())
        together = threading.Barrier(4)

        def ask(x=x, together=together):
            together.wait()
            try:
                assert [s.data.shape for s in x.addressable_shards] == [(2,)] * 8
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert failures == []


def test_arrays_are_read_while_another_thread_donates_them():
    program = """
import subprocess
import sys
import threading
import numpy as np, weft

def check(sharding, read):
    step = weft.jit(lambda x: x + 1, donate_argnums=0)
    held, done, seen = [weft.device_put(np.zeros(4096, np.float32), sharding)], [], []

    def look():
        while not done:
            try:
                seen.append(len(np.unique(read(held[0]))) == 1)
            except (RuntimeError, ValueError):
                pass  # it is gone, perhaps between two steps of reading

    readers = [threading.Thread(target=look) for _ in range(2)]
    [r.start() for r in readers]
    for _ in range(400):
        held[0] = step(held[0]).block_until_ready()
    done.append(True)
    [r.join() for r in readers]
    assert all(seen)
    assert set(np.asarray(held[0])) == {400.0}

line = weft.make_mesh((4,), ("x",))
check(weft.devices()[0], np.asarray)
check(weft.NamedSharding(line, weft.P("x")), lambda x: np.asarray(x.addressable_shards[1].data))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

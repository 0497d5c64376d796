"""What callbacks of a program over all CPU devices may do while they hold all threads."""

from tests.processes import python

PROGRAM = """
import sys, threading
import numpy as np
import weft
import weft.numpy as wnp
from weft import NamedSharding, P
from weft.sharding import SingleDeviceSharding

mesh = weft.make_mesh((8,), ("d",))
split = NamedSharding(mesh, P("d"))
devices = weft.devices()
host = np.arange(2.0**20, dtype=np.float32).reshape(1024, 1024)  # too large to be copied at once
array = weft.device_put(host)
parts = weft.device_put(host, split)
elsewhere = weft.make_mesh((8,), ("d",), devices=devices[::-1])
product = weft.jit(lambda a: wnp.sin(a * 1e-6) @ wnp.ones((1024, 4)))
product(array)

OPERATIONS = {
    "put": lambda: weft.device_put(host),
    "put, transposed": lambda: weft.device_put(host.T).T,
    "put on another device": lambda: weft.device_put(host, devices[3]),
    "put on all": lambda: weft.device_put(host, split),
    "array": lambda: wnp.array(host),
    "copy": lambda: array.copy(),
    "copy of parts": lambda: parts.copy(),
    "move": lambda: weft.device_put(array, devices[3]),
    "move and give up": lambda: weft.device_put(wnp.array(host), devices[3], donate=True),
    "move to the host's memory": lambda: weft.device_put(
        array, SingleDeviceSharding(devices[3], memory_kind="unpinned_host")
    ),
    "read": lambda: parts,
    "share": lambda: weft.dlpack.from_dlpack(host, copy=True),
    "from a callback": lambda: weft.make_array_from_callback(host.shape, split, lambda i: host[i]),
    "known program": lambda: product(array),
    "program with a host argument": lambda: product(host),
    "new program": lambda: weft.jit(lambda a: wnp.cos(a * 1e-6) @ wnp.ones((1024, 4)))(array),
    "loop": lambda: weft.lax.fori_loop(0, 9, lambda i, a: a + 1, array),
    "nested callback": lambda: weft.jit(
        lambda a: weft.pure_callback(
            lambda b: weft.device_put(np.asarray(b) + 1), weft.ShapeDtypeStruct(a.shape, a.dtype), a
        )
    )(array),
}
EXPECTED = {
    "known program": np.sin(host * np.float32(1e-6)).sum(1, keepdims=True) + np.zeros((1, 4)),
    "new program": np.cos(host * np.float32(1e-6)).sum(1, keepdims=True) + np.zeros((1, 4)),
    "loop": host + 9,
    "nested callback": host + 1,
}
EXPECTED["program with a host argument"] = EXPECTED["known program"]
barrier = threading.Barrier(8)
operation = None
results = {}

def callback(x):
    barrier.wait()  # all threads of the pool are in callbacks now
    results[int(x[0])] = np.asarray(operation())
    return x

@weft.jit
@weft.shard_map(mesh=mesh, in_specs=P("d"), out_specs=P("d"))
def everywhere(x):
    return weft.pure_callback(callback, weft.ShapeDtypeStruct(x.shape, x.dtype), x)

numbers = weft.device_put(np.arange(8), split)
for name in sys.argv[1:] or OPERATIONS:
    operation = OPERATIONS[name]
    results.clear()
    everywhere(numbers).block_until_ready()
    for number in range(8):
        np.testing.assert_allclose(results[number], EXPECTED.get(name, host), rtol=1e-5)
    print(name, "done", flush=True)
"""

NEEDED = """
import numpy as np
import weft
import weft.numpy as wnp
from weft import NamedSharding, P

mesh = weft.make_mesh((8,), ("d",))
split = NamedSharding(mesh, P("d"))
slow = weft.jit(lambda a: wnp.sin(a @ a) @ a)
square = [weft.device_put(np.eye(512, dtype=np.float32), d) for d in weft.devices()]
weft.block_until_ready([slow(s) for s in square])

for _ in range(20):
    wanted = [slow(s) for s in square * 2]

    @weft.jit
    @weft.shard_map(mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    def read(x):
        function = lambda x: x + sum(np.asarray(w)[0, 0] for w in wanted)
        return weft.pure_callback(function, weft.ShapeDtypeStruct(x.shape, x.dtype), x)

    read(weft.device_put(np.zeros(8, np.float32), split)).block_until_ready()
print("done")
"""

ALONE = """
import numpy as np
import weft
import weft.numpy as wnp

slow = weft.jit(lambda a: wnp.sin(a @ a) @ a)
x = wnp.eye(512)
square = weft.jit(lambda a: a @ a)
square(x), slow(x).block_until_ready()
host = np.ones((1024, 1024), np.float32)

def callback(v):
    arrays = weft.device_put(host), wnp.array(host).copy(), weft.dlpack.from_dlpack(host, copy=True)
    return np.asarray(square(v)) * sum(np.asarray(a)[0, 0] for a in arrays)

f = weft.jit(lambda v: weft.pure_callback(callback, weft.ShapeDtypeStruct(v.shape, v.dtype), v))
for _ in range(10):
    got = np.asarray(f(slow(x)))  # slow's result is not there yet: XLA calls from its pool
np.testing.assert_allclose(got, 3 * np.sin(1) ** 2 * np.eye(512), rtol=1e-5)
print("done")
"""


def test_callbacks_that_hold_all_threads_copy_and_compute():
    assert python(PROGRAM).count("done") == 18


def test_callbacks_read_arrays_that_other_programs_are_computing():
    assert python(NEEDED) == "done\n"


def test_callbacks_need_no_second_thread():
    assert python(ALONE, WEFT_NUM_CPU_DEVICES="1", PJRT_NPROC="1") == "done\n"

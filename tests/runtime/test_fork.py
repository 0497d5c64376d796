"""A process that is forked from one with devices gets errors, and no call of it waits for ever."""

import subprocess
import sys

PROGRAM = """
import os, signal, warnings
import numpy as np
import weft, weft.numpy as wnp
from weft import pallas as pl

warnings.simplefilter("ignore")  # of NumPy's threads, in newer Pythons

if os.fork() == 0:  # no device has been used
    print("before", wnp.ones(2).sum(), flush=True)
    os._exit(0)
os.wait()

f = weft.jit(lambda x: x * 2 + 1)
x = f(np.ones(4, "f4"))
compiled = f.lower(x).compile()
kernel = pl.pallas_call(lambda x, out: out.__setitem__(..., x[...]), x)
split = weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P("i"))
calls = {
    "cached": lambda: f(x),
    "numpy": lambda: f(np.ones(4, "f4")),
    "new": lambda: weft.jit(lambda x: x - 3)(x),
    "compiled": lambda: compiled(x),
    "eager": lambda: x + x,
    "grad": lambda: weft.grad(lambda v: (v * v).sum())(x),
    "put": lambda: weft.device_put(np.ones(3)),
    "split": lambda: weft.device_put(np.ones(2 ** 20), split),
    "zeros": lambda: wnp.zeros(5),
    "index": lambda: x[1],
    "kernel": lambda: kernel(x),
    "random": lambda: weft.random.key(0),
}
for name in ("cached", "numpy", "compiled", "eager", "put", "zeros", "index", "kernel", "random"):
    calls[name]()
weft.block_until_ready(x)
for name, call in calls.items():
    if os.fork() == 0:
        signal.alarm(60)
        try:
            call()
            print(name, "ran", flush=True)
        except RuntimeError as error:
            print(name, "forked from" in str(error) and "'spawn'" in str(error), flush=True)
        os._exit(0)
    os.wait()
if os.fork() == 0:
    print("read", np.asarray(x), flush=True)
    os._exit(0)
os.wait()
print("parent", f(x))
"""


def test_what_a_forked_child_cannot_do_is_an_error():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=True
    )
    first, *calls, read, parent = done.stdout.splitlines()
    assert (first, read, parent) == ("before 2.0", "read [3. 3. 3. 3.]", "parent [7. 7. 7. 7.]")
    assert len(calls) == 12 and all(line.endswith(" True") for line in calls), calls

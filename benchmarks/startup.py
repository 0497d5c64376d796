"""What a fresh process pays: import time and memory, and the first call of a small function."""

from benchmarks.case import script

script(
    "startup",
    "import",
    """
import time
start = time.process_time()
import {lib}
print(time.process_time() - start)
""",
    budget=0.35,
)

# weft's namespaces load when they are first used, NumPy and jaxlib with them; so here all are.
script(
    "startup",
    "import, with numpy, lax, nn, random",
    """
import time
start = time.process_time()
import {lib}, {lib}.numpy, {lib}.lax, {lib}.nn, {lib}.random
print(time.process_time() - start)
""",
    budget=0.6,
)

# VmHWM, not ru_maxrss: the latter starts from the parent's size at the time of the fork.
script(
    "startup",
    "peak memory after import",
    """
import {lib}, {lib}.numpy, {lib}.lax, {lib}.nn, {lib}.random
with open("/proc/self/status") as status:
    print(next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM")))
""",
    budget=0.8,
    unit="B",
)

script(
    "startup",
    "first call of a small function",
    """
import time
start = time.process_time()
import {lib} as xx
import numpy as np

@xx.jit
def layer(weight, bias, x):
    return xx.numpy.tanh(x @ weight + bias).sum()

x = np.ones((4, 4), np.float32)
layer(x, x[0], x).block_until_ready()
print(time.process_time() - start)
""",
    budget=0.6,
)

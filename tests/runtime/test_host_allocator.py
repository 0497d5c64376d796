"""Memory of large arrays that were freed serves the next ones."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import weft
function = weft.jit(lambda x: 2 * x)
x = weft.device_put(np.ones(12_000_000, np.float32))
for _ in range(50):
    weft.block_until_ready(function(x))
faults = []
for _ in range(4):  # a thread that has not run yet uses new memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        y = weft.block_until_ready(function(x))
    faults.append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 8)
assert np.array_equal(np.asarray(y), np.full(12_000_000, 2, np.float32))
print(min(faults))
"""
PAGES = 12_000_000 * 4 / os.sysconf("SC_PAGE_SIZE")


def pages(program=PROGRAM, **variables):
    """Run a program that prints pages: those mapped for each call that fills blocks of 48 MB."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment | variables, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout)


@pytest.mark.parametrize(
    ("variables", "keeps"),
    [
        ({"WEFT_HOST_MEMORY_KEPT": "256"}, platform.libc_ver()[0] == "glibc"),
        ({"WEFT_HOST_MEMORY_KEPT": "0"}, False),
        ({"WEFT_HOST_MEMORY_KEPT": "256", "MALLOC_MMAP_MAX_": "65536"}, False),
    ],
)
def test_results_use_freed_memory_where_it_is_kept(variables, keeps):
    faults = pages(**variables)
    if keeps:
        assert faults < PAGES / 2
    elif platform.libc_ver()[0] == "glibc":
        assert faults > PAGES / 2
    else:
        assert faults >= 0


IN_A_THREAD = """
import ctypes
import resource
import threading
import weft
weft.devices()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def use():
    blocks = [libc.malloc(48_000_000) for _ in range(2)]
    for block in blocks:
        libc.memset(block, 1, 48_000_000)
    for block in blocks:
        libc.free(block)
def run():
    use()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(8):
        use()
    print((resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before) / 8)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_blocks_of_threads_use_freed_memory():
    keeps = platform.libc_ver()[0] == "glibc"
    assert pages(IN_A_THREAD, WEFT_HOST_MEMORY_KEPT="256") < PAGES / 2 or not keeps


AFTER_COMPILATION = """
import ctypes
import resource
import weft
from weft.runtime.host_allocator import return_freed_memory
weft.devices()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
blocks = [libc.malloc(48_000) for _ in range(1001)]
for block in blocks:
    libc.memset(block, 1, 48_000)
for block in blocks[:-1]:  # the last one keeps the heap from shrinking
    libc.free(block)
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
before = resident()
return_freed_memory()
print(before - resident())
"""


def test_what_a_long_compilation_freed_can_be_returned():
    returned = pages(AFTER_COMPILATION, WEFT_HOST_MEMORY_KEPT="256")
    assert returned > PAGES / 2 or platform.libc_ver()[0] != "glibc"
    assert pages(AFTER_COMPILATION, WEFT_HOST_MEMORY_KEPT="0") < PAGES / 2

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


def faults_per_call(program=PROGRAM, **variables):
    """Pages that the kernel maps for each call of a program that fills blocks of 48 MB."""
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
    faults = faults_per_call(**variables)
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
    assert faults_per_call(IN_A_THREAD, WEFT_HOST_MEMORY_KEPT="256") < PAGES / 2 or not keeps

"""What every test and doctest finds, set before weft is first imported: eight virtual CPU devices,
and folders for what is compiled that are not the user's."""

import os
import random
import tempfile

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
compiled = os.path.join(tempfile.gettempdir(), f"weft-tests-{os.getuid()}")
os.environ.setdefault("WEFT_KERNEL_CACHE_DIR", os.path.join(compiled, "kernels"))
os.environ.setdefault("WEFT_BUILD_CACHE_DIR", os.path.join(compiled, "ffi"))

# What tests/elsewhere.py varies; set before XLA counts the cores.
if cores := os.environ.get("WEFT_TEST_CORES"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])

# Functions that these list are doctested where they are defined.
collect_ignore_glob = ["weft/__init__.py", "weft/*/__init__.py", "tests/types/*.py"]


def pytest_collection_modifyitems(items):
    if seed := os.environ.get("WEFT_TEST_ORDER"):
        random.Random(int(seed)).shuffle(items)

"""Runs tests as other machines would: other instruction sets, cores, hash seeds and orders.

    python -m tests.elsewhere                      # every machine with the tests that fit it
    python -m tests.elsewhere avx2 -k cholesky weft/numpy tests/numpy

The first words name machines of the table; the rest goes to pytest. Results that change from one to
another are last bits, signs of zeros, orders of sets: nothing that a test may print or compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__


class Machine(NamedTuple):
    """A machine that this one can play: what XLA, weft's kernels, OpenBLAS and NumPy are told to
    leave unused."""

    isa: str | None
    openblas: str
    without: tuple[str, ...]
    """Parts of the names of what NumPy does not use."""
    cores: int
    seed: int
    tests: tuple[str, ...] = ("tests", "weft")
    but: str = ""
    """What its tests are not named by."""


_AVX512 = ("512", "X86_V4")
_KERNELS = ("tests/native", "tests/pallas/cpu", "tests/pallas/test_cpu_engine.py")
"""Tests of what LLVM compiles, by weft/native/engine.py under the same limit."""
MACHINES = {
    # Without AVX2, XLA:CPU has no float16 (jaxlib 0.10 to 0.12), which tests of dtypes need.
    "sse": Machine(
        "SSE4_2", "Prescott", ("",), 1, seed=1, tests=("weft", *_KERNELS), but="float16"
    ),
    "avx2": Machine("AVX2", "Haswell", _AVX512, cores=1, seed=2),
    # Without the AVX512-BF16, -FP16 and AMX of later processors.
    "avx512": Machine("AVX512", "SkylakeX", (), cores=2, seed=3),
}


def environment(machine: Machine) -> dict[str, str]:
    """The variables that make this machine behave as another."""
    there = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    off = [name for name in there if any(part in name for part in machine.without)]
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        **os.environ,
        "XLA_FLAGS": f"{flags} --xla_cpu_max_isa={machine.isa}" if machine.isa else flags,
        "OPENBLAS_CORETYPE": machine.openblas,
        "NPY_DISABLE_CPU_FEATURES": " ".join(off),
        "PYTHONHASHSEED": str(machine.seed),
        "WEFT_TEST_ORDER": str(machine.seed),
        "WEFT_TEST_CORES": str(machine.cores),
    }


def main(words: list[str]) -> int:
    """Runs pytest once for each machine; 1 if a run failed."""
    count = next((i for i, word in enumerate(words) if word not in MACHINES), len(words))
    names, arguments = words[:count] or list(MACHINES), words[count:]
    failed = []
    for name in names:
        machine = MACHINES[name]
        if name == "avx512" and not any(__cpu_features__.get(n) for n in ("AVX512F", "X86_V4")):
            print(f"{name}: this processor cannot", flush=True)
            continue
        print(f"{name}: {machine}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not accelerators"]
        command += ["-n", str(machine.cores)]
        command += ["-k", f"not {machine.but}"] if machine.but and "-k" not in arguments else []
        paths = [] if any(os.path.exists(a.split("::")[0]) for a in arguments) else machine.tests
        if subprocess.run([*command, *arguments, *paths], env=environment(machine)).returncode:
            failed.append(name)
    if failed:
        print(f"tests failed on {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

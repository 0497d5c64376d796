"""Ctrl-C ends kernels that would compute for ever, and the process goes on."""

import os
import subprocess
import sys

PROGRAM = """
import os, signal, threading
import numpy as np
import weft, weft.pallas as pl
from weft import lax

S = weft.ShapeDtypeStruct
X = np.zeros(4, "f4")

def endless(x, out):
    out[...] = lax.while_loop(lambda c: c[0] > -1, lambda c: weft.numpy.sin(c) + 1, x[...])

def one_core(x, out):
    @pl.when(lax.axis_index("core") == 1)
    def _():
        endless(x, out)

def grid(x):
    spec = pl.BlockSpec((None, 4), lambda i: (i, 0))
    return pl.pallas_call(endless, S((8, 4), "f4"), grid=8, out_specs=spec)(x)

calls = {
    "one": pl.pallas_call(endless, S((4,), "f4")),
    "grid": grid,
    "cores": pl.mpmd_map([(pl.Mesh({"core": 3}), one_core)], S((4,), "f4")),
}
for name, call in calls.items():
    compiled = weft.jit(call).lower(X).compile()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        compiled(X)[0].block_until_ready()
        print(name, "ended")
    except KeyboardInterrupt as e:
        print(name, "interrupted:", e.__context__)
    timer.join()

def halved(x, out):
    out[...] = lax.while_loop(lambda c: c > 1, lambda c: c // 2, x[...])

print(pl.pallas_call(halved, S((), "int32"))(np.int32(1000)))
"""


def test_an_interrupt_ends_a_kernel_that_computes_for_ever(tmp_path):
    environment = {**os.environ, "WEFT_KERNEL_CACHE_DIR": str(tmp_path)}
    for _ in ("compiled", "from disk"):
        check(environment)


def check(environment):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        [name, "interrupted:"] for name in ("one", "grid", "cores")
    ], run.stdout
    assert "interrupted in the loop at" in lines[0]
    assert lines[3] == "1"

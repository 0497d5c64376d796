"""Ctrl-C ends kernels that would compute for ever, and the process goes on."""

import signal

from tests.processes import end, start

PROGRAM = """
import signal
import numpy as np
import weft, weft.pallas as pl
from weft import lax

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it

S = weft.ShapeDtypeStruct
X = np.zeros(4, "f4")

def endless(x, out):
    pl.debug_print("begun")
    out[...] = lax.while_loop(lambda c: c[0] > -1, lambda c: weft.numpy.sin(c) + 1, x[...])

def counted(x, out):
    pl.debug_print("begun")
    def turn(i, c):
        return weft.numpy.sin(c) + 1
    out[...] = lax.fori_loop(0, 2**30, lambda i, c: lax.fori_loop(0, 1000, turn, c), x[...])

def counted_to_an_argument(n, x, out):
    pl.debug_print("begun")
    out[...] = lax.fori_loop(0, n[...] * 2**30, lambda i, c: weft.numpy.sin(c) + 1, x[...])

def one_core(x, out):
    @pl.when(lax.axis_index("core") == 1)
    def _():
        endless(x, out)

def grid(x):
    spec = pl.BlockSpec((None, 4), lambda i: (i, 0))
    def first(x, out):
        pl.when(pl.program_id(0) == 0)(lambda: endless(x, out))
    return pl.pallas_call(first, S((8, 4), "f4"), grid=8, out_specs=spec)(x)

def long_grid(dims):
    def body(x, out):
        at_start = pl.program_id(0) == 0
        for d in range(1, len(dims)):
            at_start &= pl.program_id(d) == 0
        pl.when(at_start)(lambda: pl.debug_print("begun"))
        out[...] = weft.numpy.sin(x[...]) + pl.program_id(0)
    return pl.pallas_call(body, S((4,), "f4"), grid=dims)

calls = {
    "grid of one dimension": long_grid((2**31 - 1,)),
    "grid of two dimensions": long_grid((2**20, 2**20)),
    "one": pl.pallas_call(endless, S((4,), "f4")),
    "grid": grid,
    "counted": pl.pallas_call(counted, S((4,), "f4")),
    "to": lambda x: pl.pallas_call(counted_to_an_argument, S((4,), "f4"))(np.int32(1), x),
    "cores": pl.mpmd_map([(pl.Mesh({"core": 3}), one_core)], S((4,), "f4")),
}
for name, call in calls.items():
    compiled = weft.jit(call).lower(X).compile()
    try:
        compiled(X)[0].block_until_ready()
        print(name, "ended", flush=True)
    except KeyboardInterrupt as e:
        print(name, "interrupted:", e.__context__, flush=True)

def halved(x, out):
    out[...] = lax.while_loop(lambda c: c > 1, lambda c: c // 2, x[...])

print(pl.pallas_call(halved, S((), "int32"))(np.int32(1000)))
"""


def test_an_interrupt_ends_a_kernel_that_computes_for_ever(tmp_path):
    for _ in ("compiled", "from disk"):
        check(start(PROGRAM, WEFT_KERNEL_CACHE_DIR=str(tmp_path)))


def check(run):
    said = []
    for line in run.stdout:
        if line == "begun\n":
            run.send_signal(signal.SIGINT)
        else:
            said.append(line)
    [(_, errors)] = end(run)
    assert run.returncode == 0, errors
    grids = ["grid of one dimension", "grid of two dimensions"]
    assert [line.split(" interrupted:")[0] for line in said[:-1]] == [
        *grids,
        "one",
        "grid",
        "counted",
        "to",
        "cores",
    ], said
    assert "interrupted in its grid" in said[0] and "interrupted in the loop at" in said[2]
    assert said[-1] == "1\n"

"""Kernels that would wait for ever, run one after the other; prints what became of each as JSON.

A program of its own: `cpu/test_waits.py` gives it a limit of time.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax

REGULAR, BARRIER, DMA = pl.SemaphoreType.REGULAR, pl.SemaphoreType.BARRIER, pl.SemaphoreType.DMA
LIMIT = 0.25
LEFT, RIGHT = pl.Mesh({"c": 1}, name="left"), pl.Mesh({"c": 1}, name="right")


def struct(*shape: int) -> Any:
    return weft.ShapeDtypeStruct(shape, "int32")


def cores(kernel: Any, scratch: Any, n: int = 2, limit: float = 3600.0, **options: Any) -> Any:
    """The kernel on n cores."""
    mesh = pl.Mesh({"i": n}, name="m")
    params = pl.CompilerParams(wait_limit=limit)
    return pl.mpmd_map(
        [(mesh, kernel)], struct(1), scratch, compiler_params=params, name="k", **options
    )


def grid(kernel: Any, scratch: Any, n: int = 1, **options: Any) -> Any:
    """The kernel for n grid points."""
    params = {"wait_limit": LIMIT, "dimension_semantics": ("parallel",)}
    return pl.pallas_call(
        kernel,
        struct(1),
        grid=n,
        scratch_shapes=scratch,
        compiler_params=params,
        name="k",
        **options,
    )


def on_core(i: int) -> Any:
    return pl.when(lax.axis_index("i") == i)


def forever(looks: Any) -> None:
    lax.while_loop(looks, lambda c: c, jnp.int32(0))


def nobody_signals(out, sem):
    pl.semaphore_wait(sem)


def one_of_an_array(out, sems):
    pl.semaphore_wait(sems.at[1, lax.axis_index("i")], 3)


def crossed(first):
    def kernel(out, a, b):
        pl.semaphore_wait(a if first else b)
        pl.semaphore_signal(b if first else a)

    return kernel


def not_all_arrive(out, barrier):
    @on_core(1)
    def _():
        pl.core_barrier(barrier)


def no_copy(x, out, sem):
    pl.async_copy(x, out, sem).wait()


def scoped(out):
    pl.run_scoped(lambda sem: pl.semaphore_wait(sem, 2), REGULAR)


def waits_later(out, sem):
    """A thousand signals arrive, one too few."""

    @on_core(0)
    def _():
        lax.fori_loop(0, 1001, lambda k, c: pl.semaphore_wait(sem) or c, 0)

    @on_core(1)
    def _():
        def step(k, c):
            pl.semaphore_signal(sem, 1, core_index=0)
            return c

        lax.fori_loop(0, 1000, step, 0)


def polls(out, sem):
    forever(lambda _: pl.semaphore_read(sem) < 1)


def polls_and_counts(out, sem):
    """Its own work is no progress of the kernel."""

    def step(c):
        out[0] += 1
        return c

    lax.while_loop(lambda _: pl.semaphore_read(sem) < 1, step, jnp.int32(0))


def one_polls_one_waits(out, sem):
    @on_core(0)
    def _():
        forever(lambda _: pl.semaphore_read(sem) < 1)

    @on_core(1)
    def _():
        pl.semaphore_wait(sem)


def one_computes_one_waits(out, sem):
    @on_core(0)
    def _():
        lax.while_loop(lambda c: c < 1, lambda c: c * 3, jnp.int32(0))

    @on_core(1)
    def _():
        pl.semaphore_wait(sem)


def locked(out, lock):
    lock[...] = 0
    forever(lambda _: pl.atomic_cas(lock, 5, 1) != 5)


def exchanged(out, lock):
    lock[...] = 1
    forever(lambda _: pl.atomic_xchg(lock, ..., 1) == 1)


def flag_in_memory(x, out):
    forever(lambda _: x[0] == 0)


def whole_grid(out, lock):
    lock[...] = 0
    forever(lambda _: pl.atomic_cas(lock, 5, 1) != 5)


def wait_alone(out, sem):
    pl.semaphore_wait(sem)


def barrier_in_a_loop(out, barrier):
    def step(k, c):
        pl.core_barrier(barrier)
        return c

    lax.fori_loop(0, 3 + lax.axis_index("i"), step, 0)


def counts_from_zero(out, sem):
    """Its own writes are no progress, interpreted too."""
    out[0] = 0
    polls_and_counts(out, sem)


ZERO = np.zeros(1, np.int32)
CASES = {
    "nobody signals": (cores(nobody_signals, [REGULAR]),),
    "one of an array": (cores(one_of_an_array, [REGULAR((2, 2)) @ pl.SHARED]),),
    "crossed": (
        pl.mpmd_map(
            [(LEFT, crossed(True)), (RIGHT, crossed(False))],
            struct(1),
            [REGULAR @ LEFT, REGULAR @ RIGHT],
            name="k",
        ),
    ),
    "not all arrive": (cores(not_all_arrive, [BARRIER]),),
    "barrier in a loop": (cores(barrier_in_a_loop, [BARRIER]),),
    "no copy": (cores(no_copy, [DMA]), ZERO),
    "scoped": (cores(scoped, []),),
    "waits later": (cores(waits_later, [REGULAR]),),
    "a hundred cores": (cores(nobody_signals, [REGULAR], n=100),),
    "under vmap": (weft.vmap(cores(no_copy, [DMA])), np.zeros((2, 1), np.int32)),
    "under scan": (
        weft.jit(lambda x: lax.scan(lambda c, y: (c, cores(no_copy, [DMA])(y)), 0, x)[1]),
        np.zeros((2, 1), np.int32),
    ),
    "polls": (cores(polls, [REGULAR], limit=LIMIT),),
    "polls and counts": (cores(polls_and_counts, [REGULAR], limit=LIMIT),),
    "one polls, one waits": (cores(one_polls_one_waits, [REGULAR], limit=LIMIT),),
    "one computes, one waits": (cores(one_computes_one_waits, [REGULAR], limit=LIMIT),),
    "locked": (cores(locked, [pl.SHARED((), "int32")], limit=LIMIT),),
    "exchanged": (cores(exchanged, [pl.SHARED((), "int32")], limit=LIMIT),),
    "flag in memory": (grid(flag_in_memory, []), ZERO),
    "whole grid": (grid(whole_grid, [pl.LOCAL((), "int32")], n=64),),
    "wait alone": (grid(wait_alone, [REGULAR]),),
    "interpreted flag": (grid(flag_in_memory, [], interpret=True), ZERO),
    "interpreted count": (cores(counts_from_zero, [REGULAR], 1, LIMIT, interpret=True),),
}


def on_devices(body: Any) -> Any:
    mesh = weft.make_mesh((4,), ("d",), axis_types=(weft.AxisType.Auto,))
    spec = weft.P("d")
    return weft.jit(weft.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def sometimes(x, out, sem):
    @pl.when(x[0] == 2)
    def _():
        pl.semaphore_wait(sem)

    out[...] = x[...]


def main() -> None:
    weft.config.update("num_cpu_devices", 4)
    cases = dict(CASES)
    one = cores(sometimes, [REGULAR])
    cases["under shard_map"] = (on_devices(one), np.arange(4, dtype=np.int32))
    cases["before a collective"] = (
        on_devices(lambda x: lax.psum(one(x), "d") + x),
        np.arange(4, dtype=np.int32),
    )
    for name, (fun, *args) in cases.items():
        try:
            what = f"returned {np.asarray(fun(*args))}"
        except Exception as e:
            what = str(e)
        print(json.dumps([name, what]), flush=True)


if __name__ == "__main__":
    main()

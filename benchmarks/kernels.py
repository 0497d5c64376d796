"""Kernels on the CPU: against JAX's only route there, its interpreter, and against XLA's own ops.

In rows named "against the interpreter" both sides run the same kernel. Rows that name a quotient
are measured by weft alone: a kernel's time over that of the same computation under jit without
kernels, which is XLA's.
"""

import importlib
import time

import numpy as np

from benchmarks.case import case
from benchmarks.dispatch import mesh_of
from benchmarks.ffi import copy, register


def pallas_of(xx):
    return importlib.import_module(
        "jax.experimental.pallas" if xx.__name__ == "jax" else "weft.pallas"
    )


def call(xx, *args, **kwargs):
    """`pallas_call`, interpreted by JAX, which compiles no kernels for the CPU."""
    if xx.__name__ == "jax":
        kwargs["interpret"] = True
    return pallas_of(xx).pallas_call(*args, **kwargs)


def matmul(xx, size: int, block: int = 128):
    """A tiled product: one program for each tile of the result, which reads a row and a column."""
    pl = pallas_of(xx)

    def kernel(a, b, out):
        out[...] = xx.numpy.dot(a[...], b[...])

    return xx.jit(
        call(
            xx,
            kernel,
            out_shape=xx.ShapeDtypeStruct((size, size), np.float32),
            grid=(size // block, size // block),
            in_specs=[
                pl.BlockSpec((block, size), lambda i, j: (i, 0)),
                pl.BlockSpec((size, block), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)),
        )
    )


def rowwise(xx, body, shape: tuple[int, int], block: int = 8):
    """A kernel that maps `body` over blocks of full rows."""
    pl = pallas_of(xx)
    rows, columns = shape
    spec = pl.BlockSpec((block, columns), lambda i: (i, 0))

    def kernel(x, out):
        out[...] = body(xx, x[...])

    out_shape = xx.ShapeDtypeStruct(shape, np.float32)
    grid = (rows // block,)
    return xx.jit(call(xx, kernel, out_shape=out_shape, grid=grid, in_specs=[spec], out_specs=spec))


def softmax(xx, x):
    weights = xx.numpy.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def layer_norm(xx, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / xx.numpy.sqrt(variance + 1e-5)


def normal(xx, *shape: int):
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return xx.device_put(data, xx.devices()[0])


def waiting(function, *arguments):
    return lambda: function(*arguments).block_until_ready()


@case("matmul 512, against the interpreter", budget=0.25, clock="wall")
def matmul_interpreted(xx):
    return waiting(matmul(xx, 512), normal(xx, 512, 512), normal(xx, 512, 512))


@case("softmax 4096×1024, against the interpreter", budget=0.025, clock="wall")
def softmax_interpreted(xx):
    return waiting(rowwise(xx, softmax, (4096, 1024)), normal(xx, 4096, 1024))


# Against XLA -----------------------------------------------------------------------------------


def interleaved(kernel, other, seconds: float = 4.0) -> float:
    """The time of a kernel over that of another function, both in this process by turns: what
    else the machine does falls on both."""
    kernel(), other()
    best = [float("inf"), float("inf")]
    end, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or rounds < 15:
        rounds += 1
        for k, function in enumerate((kernel, other)):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best[0] / best[1]


def against(name: str, budget: float | None, setup) -> None:
    """Declare a row of one ratio: `setup(weft)` gives the kernel and what it is compared with."""

    @case(name, budget=budget, clock="value", unit="×")
    def run(xx):
        return 1.0 if xx.__name__ == "jax" else interleaved(*setup(xx))


def declare_matmul(size: int) -> None:
    def setup(xx):
        a, b = normal(xx, size, size), normal(xx, size, size)
        return waiting(matmul(xx, size), a, b), waiting(xx.jit(xx.numpy.dot), a, b)

    against(f"matmul {size}, kernel / XLA", 1.25, setup)


for _size in (512, 1024, 2048):
    declare_matmul(_size)


def declare_rowwise(name: str, body) -> None:
    def setup(xx):
        x = normal(xx, 4096, 1024)
        whole = xx.jit(lambda x: body(xx, x))
        return waiting(rowwise(xx, body, (4096, 1024)), x), waiting(whole, x)

    against(f"{name} 4096×1024, kernel / XLA", 1.0, setup)


declare_rowwise("softmax", softmax)
declare_rowwise("layer norm", layer_norm)


def declare_bandwidth(name: str, body) -> None:
    """Against a program of XLA's that only copies: it reads and writes as many bytes."""

    def setup(xx):
        x = normal(xx, 4096, 1024)
        copy = xx.jit(lambda x: xx.lax.optimization_barrier(x) + 0)
        return waiting(rowwise(xx, body, (4096, 1024)), x), waiting(copy, x)

    against(f"{name} 4096×1024, kernel / copy of as many bytes", 1 / 0.9, setup)


declare_bandwidth("softmax", softmax)
declare_bandwidth("layer norm", layer_norm)


def flash(xx):
    from examples.kernels.flash_attention import flash_attention

    q, k, v = (normal(xx, 1, 4096, 64) for _ in range(3))

    def unfused(q, k, v):
        weights = softmax(xx, xx.numpy.matmul(q, k.swapaxes(1, 2)) / 8)
        return xx.numpy.matmul(weights, v)

    return waiting(xx.jit(flash_attention), q, k, v), waiting(xx.jit(unfused), q, k, v)


def backward_norm(xx):
    from examples.kernels.layer_norm import layer_norm as kernel

    def pulled(function):
        def run(x, scale, bias, ct):
            return xx.vjp(function, x, scale, bias)[1](ct)[0]

        return xx.jit(run)

    def plain(x, scale, bias):
        return layer_norm(xx, x) * scale + bias

    args = normal(xx, 4096, 1024), normal(xx, 1024), normal(xx, 1024), normal(xx, 4096, 1024)
    return waiting(pulled(kernel), *args), waiting(pulled(plain), *args)


def pipeline(xx):
    from examples.kernels.pipeline import one_after_the_other, two_layers

    args = normal(xx, 4096, 256), normal(xx, 256, 256), normal(xx, 256, 256)
    return waiting(xx.jit(two_layers), *args), waiting(xx.jit(one_after_the_other), *args)


def stencil(xx):
    from examples.kernels.stencil import diffuse

    def plain(field):
        p = xx.numpy.pad(field, 1)
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return field + 0.1 * (around - 4 * field)

    field = normal(xx, 2048, 2048)
    return waiting(xx.jit(diffuse), field), waiting(xx.jit(plain), field)


def counts(xx):
    from examples.kernels.histogram import histogram

    data = np.random.default_rng(0).integers(0, 256, 1 << 20).astype(np.int32)
    values = xx.device_put(data, xx.devices()[0])

    def plain(values):
        return xx.numpy.zeros(256, "int32").at[values].add(1)

    return waiting(xx.jit(lambda v: histogram(v, 256)), values), waiting(xx.jit(plain), values)


against("flash attention 4096, kernel / unfused XLA", 1.0, flash)
against("layer norm backward 4096×1024, kernel / XLA", 1.0, backward_norm)
against("stencil 2048×2048, kernel / XLA", 1.0, stencil)
against("histogram of 2²⁰, kernel / XLA", 1.0, counts)
against("two programs / one program, two layers", 1 / 1.6, pipeline)


def copy_of_one(xx):
    """A jitted kernel that copies one element."""

    def kernel(x, out):
        out[...] = x[...]

    return xx.jit(call(xx, kernel, out_shape=xx.ShapeDtypeStruct((1,), np.float32)))


@case("call of a kernel, over a handler's in C++, to 5 µs", budget=1.0, clock="value")
def call_overhead(xx):
    if xx.__name__ == "jax":
        return 5e-6
    register(xx)
    x = normal(xx, 1)
    ours, theirs = waiting(copy_of_one(xx), x), waiting(xx.jit(lambda x: copy(xx, x)), x)
    thousand = range(1000)

    def seconds(function):
        start = time.perf_counter()
        for _ in thousand:
            function()
        return (time.perf_counter() - start) / len(thousand)

    extra = sorted(seconds(ours) - seconds(theirs) for _ in range(21))
    return max(extra[len(extra) // 2], 0.0)


@case("compile softmax 4096×1024, to 150 ms", budget=1.0, clock="value")
def compile_softmax(xx):
    """CPU time of trace, lowering and compiling; a new factor each time keeps caches out."""
    if xx.__name__ == "jax":
        return 0.150
    x = normal(xx, 4096, 1024)
    samples = []
    for trial in range(9):
        factor = 2 + trial + time.time() % 1
        function = rowwise(xx, lambda xx, x, k=factor: softmax(xx, x) * k, (4096, 1024))
        start = time.process_time()
        function.lower(x).compile()
        samples.append(time.process_time() - start)
    return sorted(samples)[len(samples) // 2]


def gathered_product(xx):
    """Over 8 devices: the ring of kernels against an all_gather and XLA's product."""
    from examples.kernels.all_gather_matmul import sharded_product

    mesh = mesh_of(xx, (8,), ("x",))
    rows, columns = xx.P("x"), xx.P(None, "x")

    def plain(x, w):
        return xx.lax.all_gather(x, "x", tiled=True) @ w

    whole = xx.shard_map(plain, mesh=mesh, in_specs=(rows, columns), out_specs=columns)
    x = xx.device_put(normal(xx, 1024, 1024), xx.NamedSharding(mesh, rows))
    w = xx.device_put(normal(xx, 1024, 1024), xx.NamedSharding(mesh, columns))
    return waiting(xx.jit(sharded_product(mesh, "x")), x, w), waiting(xx.jit(whole), x, w)


against("all-gather matmul 1024, 8 devices, kernels / XLA", None, gathered_product)

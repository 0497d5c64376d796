"""Kernels on the CPU: against JAX's only route there, its interpreter, and against XLA's own ops.

In rows named "against the interpreter" both sides run the same kernel; in those "against XLA" the
JAX side runs the `jax.numpy` version under jit.
"""

import importlib

import numpy as np

from benchmarks.case import Timed, case


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


def declare_matmul(size: int) -> None:
    @case(f"matmul {size}, against XLA", budget=1.25, clock="wall")
    def run(xx):
        function = xx.jit(xx.numpy.dot) if xx.__name__ == "jax" else matmul(xx, size)
        return waiting(function, normal(xx, size, size), normal(xx, size, size))


for _size in (512, 1024, 2048):
    declare_matmul(_size)


def declare_rowwise(name: str, body) -> None:
    @case(f"{name} 4096×1024, against XLA", budget=1.0, clock="wall")
    def run(xx):
        whole = xx.jit(lambda x: body(xx, x))
        function = whole if xx.__name__ == "jax" else rowwise(xx, body, (4096, 1024))
        return waiting(function, normal(xx, 4096, 1024))


declare_rowwise("softmax", softmax)
declare_rowwise("layer norm", layer_norm)


@case("compile softmax 4096×1024, against XLA", budget=None)
def compile_softmax(xx):
    x = normal(xx, 4096, 1024)

    def prepare():
        whole = xx.jit(lambda x: softmax(xx, x))
        function = whole if xx.__name__ == "jax" else rowwise(xx, softmax, (4096, 1024))
        return function.lower(x)

    return Timed(lambda lowered: lowered.compile(), prepare=prepare)

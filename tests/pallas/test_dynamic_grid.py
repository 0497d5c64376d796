"""Grids whose extents are known when the kernel runs, interpreted and compiled for the CPU."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


@pytest.fixture(params=[True, False], ids=["interpreted", "native"])
def interpret(request):
    return request.param


def test_a_traced_extent_decides_how_many_blocks_are_visited(rng, interpret):
    x = rng.standard_normal((64, 128)).astype("f4")
    spec = pl.BlockSpec((4, 128), lambda i: (i, 0))

    def kernel(x, start, out):
        out[...] = x[...] * 2

    @weft.jit
    def partly(n, x):
        return pl.pallas_call(
            kernel,
            shape(64, 128),
            grid=(n,),
            in_specs=[spec, spec],
            out_specs=spec,
            input_output_aliases={1: 0},
            interpret=interpret,
        )(x, wnp.zeros_like(x))

    for n in (0, 1, 7, 16):
        want = np.where(np.arange(64)[:, None] < 4 * n, 2 * x, 0)
        np.testing.assert_array_equal(partly(n, x), want)


def test_sums_over_a_traced_number_of_blocks(rng, interpret):
    x = rng.standard_normal((3, 64, 16)).astype("f4")

    def kernel(x, out):
        @pl.when(pl.program_id(1) == 0)
        def _():
            out[...] = wnp.zeros(out.shape)

        out[...] += x[0].sum(axis=0, keepdims=True)

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            out[...] = out[...] / pl.num_programs(1)

    @weft.jit
    def mean(blocks, x):
        return pl.pallas_call(
            kernel,
            shape(3, 16),
            grid=(3, blocks),
            in_specs=[pl.BlockSpec((1, 8, 16), lambda i, k: (i, k, 0))],
            out_specs=pl.BlockSpec((1, 16), lambda i, k: (i, 0)),
            interpret=interpret,
        )(x)

    for n in (1, 3, 8):
        want = x[:, : 8 * n].sum(1) / n
        np.testing.assert_allclose(mean(n, x), want, rtol=1e-5, atol=1e-5)


def test_a_traced_grid_with_prefetched_scalars_constants_and_vmap(rng, interpret):
    x = rng.standard_normal((2, 6, 8)).astype("f4")
    order = np.array([5, 0, 3, 2, 1, 4], np.int32)
    shift = np.arange(8, dtype=np.float32)

    def kernel(order, x, out):
        out[...] = x[...] + shift + pl.num_programs(0)

    def gathered(n, x):
        return pl.pallas_call(
            kernel,
            shape(6, 8),
            grid_spec=pl.GridSpec(
                (n,),
                [pl.BlockSpec((1, 8), lambda i, order: (order[i], 0))],
                pl.BlockSpec((1, 8), lambda i, order: (i, 0)),
                num_scalar_prefetch=1,
            ),
            interpret=interpret,
        )(order, x)

    got = weft.jit(weft.vmap(gathered, in_axes=(None, 0)))(4, x)
    np.testing.assert_allclose(got[:, :4], x[:, order[:4]] + shift + 4, rtol=1e-6)


def test_the_extent_may_be_the_index_of_a_loop(interpret):
    def kernel(start, out):
        out[pl.program_id(0)] = start[pl.program_id(0)] + 1

    @weft.jit
    def staircase():
        def step(i, x):
            call = pl.pallas_call(
                kernel, shape(5), grid=i + 1, input_output_aliases={0: 0}, interpret=interpret
            )
            return call(x)

        return lax.fori_loop(0, 5, step, wnp.zeros(5))

    np.testing.assert_array_equal(staircase(), [5, 4, 3, 2, 1])


def test_traced_extents_are_integer_scalars_and_calls_with_them_are_not_split():
    def kernel(x, out):
        out[...] = x[...]

    def call(n, **options):
        return pl.pallas_call(kernel, shape(4), grid=n, **options)(wnp.zeros(4))

    with pytest.raises(TypeError, match=r"grid\[0\].*integer scalar"):
        weft.jit(call)(1.5)
    with pytest.raises(ValueError, match="sharding_rule"):
        weft.jit(lambda n: call(n, sharding_rule="i -> i"))(2)

"""Kernels written for TPUs with JAX's names, on the CPU."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import pallas as pl
from weft.compat.jax.experimental.pallas import tpu as pltpu
from weft.compat.jax.experimental.pallas import triton

X = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)


def run(body, out, *args, interpret=False, **options):
    return np.asarray(pl.pallas_call(body, out, interpret=interpret, **options)(*args))


@pytest.mark.parametrize("interpreted", [False, True])
def test_copies_between_memories(interpreted):
    out = weft.ShapeDtypeStruct((4, 128), np.float32)
    anywhere = pl.BlockSpec(memory_space=pltpu.MemorySpace.ANY)

    def kernel(factor, x, o, block, sems):
        pltpu.async_copy(x.at[pl.ds(4, 4)], block, sems.at[1]).wait()  # has been started
        again = pl.make_async_copy(x.at[pl.ds(4, 4)], block, sems.at[0])
        again.start()
        again.wait()
        pltpu.sync_copy(block, o, add=False)
        o[...] = o[...] * factor[0]

    params = pltpu.InterpretParams(dma_execution_mode="eager", num_cores_or_threads=1)
    result = run(
        kernel,
        out,
        np.float32([2]),
        X,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), anywhere],
        scratch_shapes=[pltpu.VMEM((4, 128), np.float32), pl.SemaphoreType.DMA((2,))],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=2**20, has_side_effects=True),
        interpret=params if interpreted else False,
    )
    np.testing.assert_array_equal(result, 2 * X[4:])


def test_a_product_that_accumulates_in_scratch():
    a = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)

    def kernel(a, b, o, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = weft.numpy.zeros_like(total)

        total[...] += a[...] @ b[...]

        @pl.when(pl.program_id(2) == 1)
        def _():
            o[...] = total[...]

    spec = pl.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((32, 32), lambda i, j, k: (i, k)),
            pl.BlockSpec((32, 32), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 32), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 32), np.float32)],
    )
    semantics = (pltpu.PARALLEL, pltpu.CORE_PARALLEL, pltpu.ARBITRARY)
    result = run(
        kernel,
        weft.ShapeDtypeStruct((64, 64), np.float32),
        a,
        a,
        grid_spec=spec,
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )
    np.testing.assert_allclose(result, a @ a, rtol=1e-4, atol=1e-4)


def test_rows_that_are_rolled():
    like = weft.ShapeDtypeStruct(X.shape, X.dtype)

    def by(**options):
        def kernel(x, o):
            o[...] = pltpu.roll(x[...], **options)

        return run(kernel, like, X)

    np.testing.assert_array_equal(by(shift=3, axis=1), np.roll(X, 3, 1))
    rolled = by(shift=1, axis=1, stride=2, stride_axis=0)
    np.testing.assert_array_equal(rolled, [np.roll(row, 1 + 2 * i) for i, row in enumerate(X)])
    with pytest.raises(ValueError, match="stride_axis"):
        pltpu.roll(X, 1, 1, stride=2)


def test_bits():
    words = np.arange(12, dtype=np.uint32).reshape(3, 4) * 70_000
    halves = np.asarray(pltpu.bitcast(weft.numpy.asarray(words), np.uint16))
    np.testing.assert_array_equal(halves[0::2], words % 2**16)  # the low bits come first
    np.testing.assert_array_equal(halves[1::2], words // 2**16)
    np.testing.assert_array_equal(pltpu.bitcast(weft.numpy.asarray(halves), np.uint32), words)
    with pytest.raises(ValueError, match="3 rows"):
        pltpu.bitcast(weft.numpy.zeros((3, 4), np.uint16), np.uint32)

    low, high = weft.numpy.float32([1, 2]), weft.numpy.float32([-3, 0.5])
    packed = pltpu.pack_elementwise([low, high], packed_dtype=weft.numpy.bfloat16)
    for i, x in enumerate((low, high)):
        back = pltpu.unpack_elementwise(
            packed, index=i, packed_dtype=weft.numpy.bfloat16, unpacked_dtype=np.float32
        )
        np.testing.assert_array_equal(back, x)
    with pytest.raises(ValueError, match="32 bits"):
        pltpu.pack_elementwise([low], packed_dtype=weft.numpy.bfloat16)


def test_rounding_by_random_bits():
    x = weft.numpy.full(4096, 1 + 2.0**-9)  # a quarter of the way to the next bfloat16
    bits = weft.random.bits(weft.random.key(0), (4096,))
    rounded = np.asarray(pltpu.stochastic_round(x, bits, target_dtype=weft.numpy.bfloat16))
    up = rounded.astype(np.float32) > 1
    assert set(rounded.astype(np.float32).tolist()) == {1.0, 1 + 2.0**-7}
    assert abs(up.mean() - 0.25) < 0.05
    assert np.isinf(
        pltpu.stochastic_round(
            weft.numpy.float32([np.inf]), bits[:1], target_dtype=weft.numpy.bfloat16
        )
    )


def test_dimensions_that_are_split_and_exchanged():
    x = np.arange(24).reshape(2, 12)
    split = x.reshape(2, 3, 4)
    xs = weft.numpy.asarray(x)
    np.testing.assert_array_equal(pltpu.einshape("a(bc)->bac", xs, b=3), split.transpose(1, 0, 2))
    np.testing.assert_array_equal(pltpu.einshape("a(bc)->(ab)c", xs, c=4), split.reshape(6, 4))
    with pytest.raises(ValueError, match="divided"):
        pltpu.einshape("a(bc)->abc", xs)


def test_cores_and_names():
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)

    @pl.kernel(mesh=mesh, out_type=weft.ShapeDtypeStruct((2,), np.int32))
    def kernel(o):
        i = weft.lax.axis_index("core")
        o[i] = i + 1

        @pltpu.run_on_first_core("core")
        def _():
            o[0] = 7

    np.testing.assert_array_equal(kernel(), [7, 2])
    with pltpu.force_tpu_interpret_mode():
        assert not pltpu.is_tpu_device()
    np.testing.assert_allclose(triton.approx_tanh(0.5), np.tanh(0.5), rtol=1e-6)


def test_masked_loads_and_stores_of_parts():
    def kernel(x, o):
        places = jnp.arange(16)
        inside = places < 10
        value = triton.load(x.at[places], mask=inside, other=0.0)
        triton.store(o.at[pl.ds(0, 16)], value * 2, mask=inside)

    x = np.arange(10, dtype=np.float32)
    result = run(kernel, weft.ShapeDtypeStruct((10,), np.float32), x, interpret=True)
    np.testing.assert_array_equal(result, 2 * x)

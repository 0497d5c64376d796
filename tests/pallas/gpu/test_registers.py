"""What programs on the GPU hold in registers, and read part by part."""

import numpy as np
import pytest

import weft
from tests.pallas.test_gpu import call_of, normal, on_gpu, shape
from tests.pallas.triton_machine import run
from weft.pallas.gpu.program import build

pl = weft.pallas
np_ = weft.numpy


@pytest.mark.parametrize(("m", "k", "n"), [(64, 320, 48), (40, 137, 33)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("out", [None, "float32"])
def test_products_of_whole_blocks_are_summed_part_by_part(m, k, n, dtype, out):
    def kernel(x, y, z):
        z[...] = np_.dot(x[...], y[:, 1:].T, preferred_element_type=out)

    f = pl.pallas_call(
        kernel,
        shape(m, n, dtype=out or dtype),
        grid=(pl.cdiv(m, 32),),
        in_specs=[pl.BlockSpec((32, k), lambda i: (i, 0)), pl.BlockSpec()],
        out_specs=pl.BlockSpec((32, n), lambda i: (i, 0)),
    )
    x, y = normal(m, k, dtype=dtype), normal(n, k + 1, dtype=dtype)
    call = call_of(f, x, y)
    sizes, text = 64 // np.dtype(dtype).itemsize * 2, str(build(call).module)
    assert f"tensor<32x{sizes}x" in text
    assert f"tensor<32x{1 << (k - 1).bit_length()}x" not in text
    want = x.astype(np.float64) @ y[:, 1:].astype(np.float64).T
    np.testing.assert_allclose(run(call, x, y)[0], want, rtol=1e-2, atol=2e-2)


def test_accumulators_stay_in_registers_where_programs_follow_each_other():
    def kernel(x, y, total, out, most, acc):
        step = pl.program_id(1)

        @pl.when(step == 0)
        def _():
            acc[...] = np_.zeros(acc.shape)
            most[...] = np_.full(most.shape, -np_.inf)

        acc[...] += x[...] * y[...]
        most[...] = np_.maximum(most[...], x[...])
        total[...] += x[...].sum()

        @pl.when(step == pl.num_programs(1) - 1)
        def _():
            out[...] = acc[...]

    block = pl.BlockSpec((4, 8), lambda i, j: (i, j))
    f = pl.pallas_call(
        lambda x, y, start, *rest: kernel(x, y, *rest),
        [shape(2, 1), shape(8, 8), shape(8, 8)],
        grid=(2, 3),
        in_specs=[block, block, pl.BlockSpec((1, 1), lambda i, j: (i, 0))],
        out_specs=[
            pl.BlockSpec((1, 1), lambda i, j: (i, 0)),
            pl.BlockSpec((4, 8), lambda i, j: (i, 0)),
            pl.BlockSpec((4, 8), lambda i, j: (i, 0)),
        ],
        scratch_shapes=[pl.LOCAL((4, 8), "float32")],
        input_output_aliases={2: 0},
    )
    x, y, start = normal(8, 24), normal(8, 24), normal(2, 1)
    call = call_of(f, x, y, start)
    built = build(call)
    assert not built.extras
    assert str(built.module).count("gpu.barrier") == 1  # before total takes the place of start
    total, out, most = run(call, x, y, start)
    np.testing.assert_allclose(
        total, start + x.reshape(2, -1).sum(1)[:, None], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(out, (x * y).reshape(8, 3, 8).sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(most, x.reshape(8, 3, 8).max(1))


def test_programs_that_leave_a_block_to_another_do_not_write_it():
    def kernel(x, out):
        @pl.when(pl.program_id(0) == 2)
        def _():
            out[...] = x[...]
            out[...] += 1

    f = pl.pallas_call(
        kernel,
        shape(8),
        grid=4,
        in_specs=[pl.BlockSpec((8,), lambda i: (i,))],
        out_specs=pl.BlockSpec((8,), lambda i: (0,)),
        compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
    )
    x = normal(32)
    np.testing.assert_array_equal(on_gpu(f, x), x[16:24] + 1)

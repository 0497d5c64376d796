"""Programs of the kind that Pallas's documentation shows, on every executor."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax


def struct(*shape, dtype="float32"):
    return weft.ShapeDtypeStruct(shape, dtype)


def test_only_the_wanted_blocks_of_a_product_are_computed(call, rng):
    """The index map skips what the mask leaves out, so that no block is fetched for it."""
    size, block = 64, 16
    x, y = rng.standard_normal((2, size, size)).astype("f4")
    wanted = rng.random((size // block, size // block)) < 0.5

    def kernel(mask, x, y, out, total):
        i, j, k = (pl.program_id(axis) for axis in range(3))
        here = mask[i, j] != 0

        @pl.when(k == 0)
        def _():
            out[...] = jnp.zeros(out.shape)
            total[...] = jnp.zeros(total.shape)

        @pl.when(here)
        def _():
            total[...] += jnp.dot(x[...], y[...], precision="highest")

        @pl.when(here & (k == pl.num_programs(2) - 1))
        def _():
            out[...] = total[...]

    f = call(
        kernel,
        struct(size, size),
        grid_spec=pl.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4, 4, 4),
            in_specs=[
                pl.BlockSpec(
                    (block, block), lambda i, j, k, m: (i, lax.select(m[i, j] != 0, k, 0))
                ),
                pl.BlockSpec((block, block), lambda i, j, k, m: (k, j)),
            ],
            out_specs=pl.BlockSpec((block, block), lambda i, j, k, m: (i, j)),
            scratch_shapes=[pl.LOCAL((block, block), "float32")],
        ),
    )
    want = (x @ y) * np.kron(wanted, np.ones((block, block)))
    np.testing.assert_allclose(f(wanted.astype("i4"), x, y), want, rtol=1e-4, atol=1e-4)


def test_blocks_are_fetched_and_sent_ahead_by_copies(call, rng):
    """Two slots: while one is computed, the next block comes and the one before it leaves."""
    x = rng.standard_normal((32, 16)).astype("f4")
    steps, rows = 4, 8

    def kernel(x, out, came, leaves, came_sem, left_sem):
        def fetch(i, slot):
            return pl.make_async_copy(x.at[pl.ds(i * rows, rows)], came.at[slot], came_sem.at[slot])

        def send(i, slot):
            return pl.make_async_copy(
                leaves.at[slot], out.at[pl.ds(i * rows, rows)], left_sem.at[slot]
            )

        fetch(0, 0).start()

        def step(i, carry):
            slot = lax.rem(i, 2)

            @pl.when(i + 1 < steps)
            def _():
                fetch(i + 1, 1 - slot).start()

            fetch(i, slot).wait()

            @pl.when(i >= 2)
            def _():
                send(i - 2, slot).wait()

            leaves[slot] = jnp.exp(came[slot])
            send(i, slot).start()
            return carry

        lax.fori_loop(0, steps, step, None)
        send(steps - 2, 0).wait()
        send(steps - 1, 1).wait()

    whole = pl.BlockSpec(memory_space=pl.ANY)
    f = call(
        kernel,
        struct(32, 16),
        in_specs=[whole],
        out_specs=whole,
        scratch_shapes=[
            pl.LOCAL((2, rows, 16), "float32"),
            pl.LOCAL((2, rows, 16), "float32"),
            pl.SemaphoreType.DMA((2,)),
            pl.SemaphoreType.DMA((2,)),
        ],
    )
    np.testing.assert_allclose(f(x), np.exp(x), rtol=1e-5)


def test_windows_overlap_and_reach_over_both_ends(call, rng):
    x = rng.standard_normal(32).astype("f4")

    def kernel(x, out):
        at = 8 * pl.program_id(0) - 1 + jnp.arange(10)
        near = jnp.where((at >= 0) & (at < 32), x[...], 0)
        out[...] = near[:-2] + 2 * near[1:-1] + near[2:]

    f = call(
        kernel,
        struct(32),
        grid=4,
        in_specs=[pl.BlockSpec((pl.Element(10, (1, 1)),), lambda i: (8 * i,))],
        out_specs=pl.BlockSpec((8,), lambda i: (i,)),
    )
    padded = np.pad(x, 1)
    np.testing.assert_allclose(f(x), padded[:-2] + 2 * padded[1:-1] + padded[2:], rtol=1e-5)


@pytest.mark.parametrize("gone", [None, pl.squeezed, pl.Squeezed()], ids=str)
def test_squeezed_dimensions_are_gone_from_the_ref(call, rng, gone):
    x = rng.standard_normal((4, 2, 8)).astype("f4")

    def kernel(x, out):
        assert x.shape == out.shape == (2, 8)
        out[...] = x[...] * 2 + pl.program_id(0)

    spec = pl.BlockSpec((gone, 2, 8), lambda i: (i, 0, 0))
    f = call(kernel, struct(4, 2, 8), grid=4, in_specs=[spec], out_specs=spec)
    np.testing.assert_allclose(f(x), x * 2 + np.arange(4)[:, None, None], rtol=1e-6)


def test_blocks_that_are_buffered_several_times_are_the_same_blocks(call, rng):
    x = rng.standard_normal((16, 8)).astype("f4")

    def kernel(x, out):
        out[...] = x[...] + 1

    f = call(
        kernel,
        struct(16, 8),
        grid=4,
        in_specs=[pl.BlockSpec((pl.Blocked(4), 8), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))],
        out_specs=pl.BlockSpec((4, 8), lambda i: (i, 0), pipeline_mode=pl.Buffered(1)),
    )
    np.testing.assert_allclose(f(x), x + 1, rtol=1e-6)


def test_sums_over_the_last_grid_axis_stay_in_the_output_block(call, rng):
    x = rng.standard_normal((6, 32, 32)).astype("f4")

    def kernel(x, out):
        @pl.when(pl.program_id(2) == 0)
        def _():
            out[...] = jnp.zeros(out.shape)

        out[...] += x[...]

    f = call(
        kernel,
        struct(32, 32),
        grid=(2, 2, 6),
        in_specs=[pl.BlockSpec((None, 16, 16), lambda i, j, k: (k, i, j))],
        out_specs=pl.BlockSpec((16, 16), lambda i, j, k: (i, j)),
    )
    np.testing.assert_allclose(f(x), x.sum(0), rtol=1e-4, atol=1e-5)


def test_points_of_the_mandelbrot_set_are_iterated_until_none_is_left(call):
    def kernel(out):
        across, down = pl.program_id(1), pl.program_id(0)
        re = (lax.broadcasted_iota("int32", (8, 8), 1) + across * 8) / 8 - 1.5
        im = (lax.broadcasted_iota("int32", (8, 8), 0) + down * 8) / 8 - 1.0

        def more(state):
            turn, _, _, alive, _ = state
            return (turn < 12) & alive.any()

        def turn(state):
            k, x, y, alive, count = state
            x, y = x * x - y * y + re, 2 * x * y + im
            alive = alive & (x * x + y * y < 4)
            x, y = jnp.where(alive, x, 0), jnp.where(alive, y, 0)
            return k + 1, x, y, alive, count + alive.astype("int32")

        zero = jnp.zeros((8, 8))
        start = (0, zero, zero, jnp.ones((8, 8), bool), jnp.zeros((8, 8), "int32"))
        out[...] = lax.while_loop(more, turn, start)[4]

    f = call(
        kernel,
        struct(16, 16, dtype="int32"),
        grid=(2, 2),
        out_specs=pl.BlockSpec((8, 8), lambda i, j: (i, j)),
    )
    c = (np.arange(16)[None] / 8 - 1.5 + 1j * (np.arange(16)[:, None] / 8 - 1.0)).astype("c8")
    z, alive, count = np.zeros_like(c), np.ones(c.shape, bool), np.zeros(c.shape, int)
    for _ in range(12):
        z = np.where(alive, z * z + c, 0)
        alive &= np.abs(z) ** 2 < 4
        count += alive
    assert np.mean(np.asarray(f()) == count) > 0.97  # points of the border may round either way

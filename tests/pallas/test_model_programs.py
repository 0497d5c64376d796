"""Kernels of models as users write them, on all executors: ragged, paged, carried."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.pallas import triton_machine
from weft import lax
from weft import pallas as pl

F32 = np.float32


@pytest.fixture(params=["interpreted", "native", "triton"])
def call(request):
    def make(kernel, out, **options):
        if request.param == "triton":
            return triton_machine.pallas_call(kernel, out, **options)
        return pl.pallas_call(kernel, out, interpret=request.param == "interpreted", **options)

    return make


def struct(*shape, dtype="float32"):
    return weft.ShapeDtypeStruct(shape, dtype)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(F32)


def close(got, want, tolerance=1e-4):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_blocks_of_a_far_array_are_copied_while_the_last_one_is_summed(call, rng):
    """Two buffers and a semaphore for each; the copy of the next block runs beside the sum."""
    x = normal(rng, 8, 4, 16)

    def kernel(x, out, buffers, done):
        def copy(i):
            return pl.async_copy(x.at[i], buffers.at[i % 2], done.at[i % 2])

        copy(0).start()

        def step(i, total):
            @pl.when(i + 1 < x.shape[0])
            def _():
                copy(i + 1).start()

            copy(i).wait()
            return total + buffers[i % 2]

        out[...] = lax.fori_loop(0, x.shape[0], step, jnp.zeros(out.shape))

    got = call(
        kernel,
        struct(4, 16),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pl.LOCAL((2, 4, 16), "float32"), pl.SemaphoreType.DMA((2,))],
    )(x)
    close(got, x.sum(0))


def test_buffers_named_for_a_pipeline_are_accepted_and_change_nothing(call, rng):
    x = normal(rng, 8, 128)
    spec = pl.BlockSpec((2, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))

    def kernel(x, out):
        out[...] = x[...] * 2

    close(call(kernel, struct(8, 128), grid=4, in_specs=[spec], out_specs=spec)(x), x * 2)


def test_rows_of_ragged_groups_meet_the_matrix_of_their_group(call, rng):
    """The offsets of groups are prefetched; a tile of rows loops over the groups it cuts."""
    sizes = np.array([5, 0, 9, 2], np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    rows, block = int(sizes.sum()), 4
    x, w = normal(rng, rows, 8), normal(rng, 4, 8, 16)

    def kernel(offsets, x, w, out):
        first = pl.program_id(0) * block
        row = first + lax.broadcasted_iota(jnp.int32, (block, 1), 0)

        def group(g, total):
            inside = (row >= offsets[g]) & (row < offsets[g + 1])
            return total + jnp.where(inside, x[...] @ w[g], 0)

        def count(limit):
            return sum((offsets[g] <= limit).astype(jnp.int32) for g in range(1, 4))

        out[...] = lax.fori_loop(
            count(first), count(first + block - 1) + 1, group, jnp.zeros(out.shape)
        )

    got = call(
        kernel,
        struct(rows, 16),
        grid_spec=pl.GridSpec(
            num_scalar_prefetch=1,
            grid=rows // block,
            in_specs=[pl.BlockSpec((block, 8), lambda i, _: (i, 0)), pl.BlockSpec()],
            out_specs=pl.BlockSpec((block, 16), lambda i, _: (i, 0)),
        ),
    )(offsets, x, w)
    groups = np.repeat(np.arange(4), sizes)
    close(got, np.einsum("rk,rkn->rn", x, w[groups]))


def test_attention_over_pages_that_a_table_names(call, rng):
    """Each sequence has its own length; a loop with a traced bound walks its pages."""
    pages, page, width = 10, 4, 8
    lengths = np.array([3, 14, 8], np.int32)
    table = rng.permutation(pages)[:9].reshape(3, 3).astype(np.int32)
    table = np.concatenate([table, np.zeros((3, 1), np.int32)], 1)
    table[1, 3] = 9 if 9 not in table else table[1, 2]
    q, keys, values = normal(rng, 3, width), *(normal(rng, pages, page, width) for _ in range(2))

    def kernel(lengths, table, q, keys, values, out):
        b = pl.program_id(0)
        length = lengths[b]

        def step(p, carry):
            top, total, mean = carry
            where = table[b, p]
            place = p * page + lax.iota(jnp.int32, page)
            scores = jnp.where(place < length, keys[where] @ q[0], -jnp.inf)
            new = jnp.maximum(top, scores.max())
            weights, old = jnp.exp(scores - new), jnp.exp(top - new)
            return new, total * old + weights.sum(), mean * old + weights @ values[where]

        start = (jnp.float32(-jnp.inf), jnp.float32(0), jnp.zeros(width))
        _, total, mean = lax.fori_loop(0, pl.cdiv(length, page), step, start)
        out[0] = mean / total

    row = pl.BlockSpec((1, width), lambda b, *_: (b, 0))
    got = call(
        kernel,
        struct(3, width),
        grid_spec=pl.GridSpec(
            num_scalar_prefetch=2,
            grid=3,
            in_specs=[row, pl.BlockSpec(), pl.BlockSpec()],
            out_specs=row,
        ),
    )(lengths, table, q, keys, values)
    for b, length in enumerate(lengths):
        k, v = (a[table[b]].reshape(-1, width)[:length] for a in (keys, values))
        weights = np.exp(k @ q[b] - (k @ q[b]).max())
        close(got[b], weights @ v / weights.sum())


def test_causal_attention_loops_over_the_blocks_at_or_before_its_own(call, rng):
    length, block, width = 32, 8, 16
    q, k, v = (normal(rng, length, width) for _ in range(3))

    def kernel(q, k, v, out):
        i = pl.program_id(0)
        row = i * block + lax.broadcasted_iota(jnp.int32, (block, block), 0)
        column = lax.broadcasted_iota(jnp.int32, (block, block), 1)

        def step(j, carry):
            top, total, mean = carry
            part = pl.ds(j * block, block)
            scores = jnp.where(row >= column + j * block, q[...] @ k[part].T, -jnp.inf)
            new = jnp.maximum(top, scores.max(axis=1))
            weights, old = jnp.exp(scores - new[:, None]), jnp.exp(top - new)
            total = total * old + weights.sum(axis=1)
            return new, total, mean * old[:, None] + weights @ v[part]

        start = (jnp.full(block, -jnp.inf), jnp.zeros(block), jnp.zeros((block, width)))
        _, total, mean = lax.fori_loop(0, i + 1, step, start)
        out[...] = mean / total[:, None]

    spec = pl.BlockSpec((block, width), lambda i: (i, 0))
    got = call(
        kernel,
        struct(length, width),
        grid=length // block,
        in_specs=[spec, pl.BlockSpec(), pl.BlockSpec()],
        out_specs=spec,
    )(q, k, v)
    scores = np.where(np.tri(length, dtype=bool), q @ k.T, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    close(got, weights / weights.sum(1, keepdims=True) @ v)


def test_a_linear_recurrence_carries_a_tile_through_time(call, rng):
    """h ← a h + b, with the state kept in scratch from one chunk of time to the next."""
    time, width, chunk = 24, 12, 8
    a, b = rng.uniform(0.5, 1, (time, width)).astype(F32), normal(rng, time, width)

    def kernel(a, b, out, state):
        @pl.when(pl.program_id(0) == 0)
        def _():
            state[...] = jnp.zeros(width)

        def step(t, h):
            h = a[t] * h + b[t]
            out[t] = h
            return h

        state[...] = lax.fori_loop(0, chunk, step, state[...])

    spec = pl.BlockSpec((chunk, width), lambda i: (i, 0))
    got = call(
        kernel,
        struct(time, width),
        grid=time // chunk,
        in_specs=[spec, spec],
        out_specs=spec,
        scratch_shapes=[pl.LOCAL((width,), "float32")],
        compiler_params=pl.CompilerParams(dimension_semantics=("arbitrary",)),
    )(a, b)
    h, want = np.zeros(width), []
    for t in range(time):
        h = a[t] * h + b[t]
        want.append(h)
    close(got, np.stack(want))


def test_sums_of_segments_land_where_prefetched_numbers_say(call, rng):
    """Rows of one segment follow each other, so their output block stays between programs."""
    segments = np.array([0, 0, 1, 3, 3, 3], np.int32)
    x = normal(rng, 6, 8)

    def kernel(segments, x, out):
        i = pl.program_id(0)
        first = (i == 0) | (segments[i] != segments[jnp.maximum(i - 1, 0)])

        @pl.when(first)
        def _():
            out[...] = x[...]

        @pl.when(jnp.logical_not(first))
        def _():
            out[...] += x[...]

    got = call(
        kernel,
        struct(4, 8),
        grid_spec=pl.GridSpec(
            num_scalar_prefetch=1,
            grid=6,
            in_specs=[pl.BlockSpec((1, 8), lambda i, _: (i, 0))],
            out_specs=pl.BlockSpec((1, 8), lambda i, s: (s[i], 0)),
        ),
    )(segments, x)
    for s in (0, 1, 3):
        close(got[s], x[segments == s].sum(0))


def test_a_root_mean_square_norm_and_rotated_pairs(call, rng):
    x, scale = normal(rng, 6, 3, 16), normal(rng, 16)
    angle = np.arange(6)[:, None] / 100.0 ** (np.arange(8) / 8)

    def kernel(x, scale, cos, sin, out):
        mean = (x[...] ** 2).mean(axis=-1, keepdims=True)
        y = x[...] * lax.rsqrt(mean + 1e-6) * scale[...]
        first, second = y[..., :8], y[..., 8:]
        c, s = cos[:, None], sin[:, None]
        out[...] = jnp.concatenate([first * c - second * s, second * c + first * s], axis=-1)

    rows = pl.BlockSpec((2, 3, 16), lambda i: (i, 0, 0))
    angles = pl.BlockSpec((2, 8), lambda i: (i, 0))
    got = call(
        kernel,
        struct(6, 3, 16),
        grid=3,
        in_specs=[rows, pl.BlockSpec(), angles, angles],
        out_specs=rows,
    )(x, scale, np.cos(angle).astype(F32), np.sin(angle).astype(F32))
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale
    turned = (y[..., :8] + 1j * y[..., 8:]) * np.exp(1j * angle)[:, None]
    close(got, np.concatenate([turned.real, turned.imag], -1))


def test_points_find_their_nearest_centre_and_centres_their_mean(call, rng):
    points, centres = normal(rng, 40, 3), normal(rng, 5, 3)

    def kernel(points, centres, nearest, sums, counts):
        @pl.when(pl.program_id(0) == 0)
        def _():
            sums[...] = jnp.zeros(sums.shape)
            counts[...] = jnp.zeros(counts.shape, "int32")

        distance = ((points[...][:, None] - centres[...]) ** 2).sum(-1)
        nearest[...] = jnp.argmin(distance, axis=1).astype("int32")
        chosen = nearest[...][:, None] == lax.broadcasted_iota(jnp.int32, (8, 5), 1)
        sums[...] += chosen.astype("float32").T @ points[...]
        counts[...] += chosen.sum(axis=0, dtype="int32")

    nearest, sums, counts = call(
        kernel,
        [struct(40, dtype="int32"), struct(5, 3), struct(5, dtype="int32")],
        grid=5,
        in_specs=[pl.BlockSpec((8, 3), lambda i: (i, 0)), pl.BlockSpec()],
        out_specs=[pl.BlockSpec((8,), lambda i: (i,)), pl.BlockSpec(), pl.BlockSpec()],
    )(points, centres)
    want = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(nearest, want)
    np.testing.assert_array_equal(counts, np.bincount(want, minlength=5))
    close(sums, np.stack([points[want == c].sum(0) for c in range(5)]))


def test_the_best_experts_of_each_token_and_their_weights(call, rng):
    logits = normal(rng, 6, 8)

    def kernel(logits, weights, experts):
        best, place = lax.top_k(logits[...], 2)
        weights[...] = weft.nn.softmax(best)
        experts[...] = place

    weights, experts = call(kernel, [struct(6, 2), struct(6, 2, dtype="int32")])(logits)
    order = np.argsort(-logits, 1)[:, :2]
    best = np.exp(np.take_along_axis(logits, order, 1))
    np.testing.assert_array_equal(experts, order)
    close(weights, best / best.sum(1, keepdims=True))


def test_shards_are_reduced_by_a_kernel_and_exchanged_around_a_ring(call, rng):
    """In shard_map: each device adds what comes from its neighbour to its own, by a kernel."""
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    x = normal(rng, 4, 8)

    def add(a, b, out):
        out[...] = a[...] + b[...]

    def ring(x):
        total, moving = x, x
        for _ in range(3):
            moving = lax.ppermute(moving, "x", [(i, (i + 1) % 4) for i in range(4)])
            total = call(add, struct(1, 8))(total, moving)
        return total

    f = weft.jit(weft.shard_map(ring, mesh=mesh, in_specs=weft.P("x"), out_specs=weft.P("x")))
    close(f(x), np.broadcast_to(x.sum(0), (4, 8)))

"""Kernels as users write them, on all executors, against NumPy."""

import functools

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.pallas import triton_machine
from weft import lax
from weft import pallas as pl

f32, i32 = np.float32, np.int32


def shape(*dims, dtype=f32):
    return weft.ShapeDtypeStruct(dims, dtype)


def close(got, want, tolerance=1e-4):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


EXECUTORS = {
    "interpreted": functools.partial(pl.pallas_call, interpret=True),
    "native": pl.pallas_call,
    "triton": triton_machine.pallas_call,
}


@pytest.fixture(params=EXECUTORS)
def call(request):
    """pallas_call on one of the executors; the GPU's code runs on the host."""
    return EXECUTORS[request.param]


@pytest.fixture
def x(rng):
    return rng.standard_normal((16, 32)).astype(f32)


def test_vectors_are_added_and_scaled_by_a_closed_over_array(call, rng):
    x, y, scale = rng.standard_normal((3, 40)).astype(f32)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = (x_ref[...] + y_ref[...]) * scale

    close(weft.jit(call(kernel, shape(40)))(x, y), (x + y) * scale)


def test_programs_number_their_outputs(call):
    def kernel(o_ref):
        i = pl.program_id(0)
        o_ref[i] = i * pl.num_programs(0)

    close(call(kernel, shape(6, dtype=i32), grid=(6,))(), np.arange(6) * 6)


def test_a_product_with_an_activation_and_a_bias_behind_it(call, rng):
    a = rng.standard_normal((32, 48)).astype(f32)
    b = rng.standard_normal((48, 64)).astype(f32)
    bias = rng.standard_normal((64,)).astype(f32)

    def kernel(a, b, bias, o, acc, *, steps):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = wnp.zeros_like(acc)

        acc[...] += wnp.dot(a[...], b[...], preferred_element_type=wnp.float32)

        @pl.when(pl.program_id(2) == steps - 1)
        def _():
            o[...] = weft.nn.relu(acc[...] + bias[...][None, :]).astype(o.dtype)

    run = call(
        functools.partial(kernel, steps=3),
        shape(32, 64),
        grid=(2, 2, 3),
        in_specs=[
            pl.BlockSpec((16, 16), lambda i, j, k: (i, k)),
            pl.BlockSpec((16, 32), lambda i, j, k: (k, j)),
            pl.BlockSpec((32,), lambda i, j, k: (j,)),
        ],
        out_specs=pl.BlockSpec((16, 32), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.LOCAL((16, 32), f32)],
    )
    close(run(a, b, bias), np.maximum(a @ b + bias, 0))


def test_a_product_of_rounded_operands_accumulates_in_float32(call, rng):
    import ml_dtypes

    a, b = (rng.standard_normal((16, 16)).astype(ml_dtypes.bfloat16) for _ in range(2))

    def kernel(a, b, o):
        o[...] = lax.dot(a[...], b[...], preferred_element_type=f32)

    close(call(kernel, shape(16, 16))(a, b), a.astype(f32) @ b.astype(f32))


def test_a_product_with_a_transposed_operand_and_a_batch(call, rng):
    a = rng.standard_normal((3, 8, 16)).astype(f32)
    b = rng.standard_normal((3, 12, 16)).astype(f32)

    def kernel(a, b, o):
        o[...] = a[...] @ b[...].T

    run = call(
        kernel,
        shape(3, 8, 12),
        grid=3,
        in_specs=[
            pl.BlockSpec((None, 8, 16), lambda i: (i, 0, 0)),
            pl.BlockSpec((None, 12, 16), lambda i: (i, 0, 0)),
        ],
        out_specs=pl.BlockSpec((None, 8, 12), lambda i: (i, 0, 0)),
    )
    close(run(a, b), np.einsum("bik,bjk->bij", a, b))


def test_blocks_chosen_by_prefetched_scalars(call, rng):
    x = rng.standard_normal((8, 4, 16)).astype(f32)
    which = np.array([7, 0, 3, 3], i32)

    def kernel(which, x, o):
        o[...] = x[...] * which[pl.program_id(0)].astype(f32)

    spec = pl.GridSpec(
        grid=(4,),
        in_specs=[pl.BlockSpec((1, 4, 16), lambda i, which: (which[i], 0, 0))],
        out_specs=pl.BlockSpec((1, 4, 16), lambda i, which: (i, 0, 0)),
        num_scalar_prefetch=1,
    )
    got = call(kernel, shape(4, 4, 16), grid_spec=spec)(which, x)
    close(got, x[which] * which[:, None, None])


def test_a_block_sparse_matrix_times_a_dense_one(call, rng):
    blocks = rng.standard_normal((5, 8, 8)).astype(f32)
    rows = np.array([0, 0, 1, 2, 2], i32)
    columns = np.array([0, 2, 1, 0, 1], i32)
    y = rng.standard_normal((24, 16)).astype(f32)

    def kernel(rows, columns, a, y, o):
        i = pl.program_id(1)
        first = lax.select(i == 0, True, rows[i] != rows[wnp.maximum(i - 1, 0)])

        @pl.when(first)
        def _():
            o[...] = wnp.zeros_like(o)

        o[...] += a[0] @ y[...]

    spec = pl.GridSpec(
        grid=(2, 5),
        in_specs=[
            pl.BlockSpec((1, 8, 8), lambda j, i, rows, columns: (i, 0, 0)),
            pl.BlockSpec((8, 8), lambda j, i, rows, columns: (columns[i], j)),
        ],
        out_specs=pl.BlockSpec((8, 8), lambda j, i, rows, columns: (rows[i], j)),
        num_scalar_prefetch=2,
    )
    dense = np.zeros((24, 24), f32)
    for block, r, c in zip(blocks, rows, columns, strict=True):
        dense[8 * r : 8 * r + 8, 8 * c : 8 * c + 8] = block
    close(call(kernel, shape(24, 16), grid_spec=spec)(rows, columns, blocks, y), dense @ y)


def test_sums_over_a_grid_axis_revisit_their_output(call, rng):
    x = rng.standard_normal((4, 6, 8, 16)).astype(f32)

    def kernel(x, total, largest):
        @pl.when(pl.program_id(1) == 0)
        def _():
            total[...] = wnp.zeros_like(total)
            largest[...] = wnp.full_like(largest, -wnp.inf)

        total[...] += x[...].sum(axis=0)
        largest[...] = wnp.maximum(largest[...], x[...].max(axis=0))

    out = pl.BlockSpec((None, 16), lambda i, j: (i, 0))
    total, largest = call(
        lambda x, t, m: kernel(x, t, m),
        [shape(4, 16), shape(4, 16)],
        grid=(4, 6),
        in_specs=[pl.BlockSpec((None, None, 8, 16), lambda i, j: (i, j, 0, 0))],
        out_specs=[out, out],
    )(x)
    close(total, x.sum((1, 2)))
    close(largest, x.max((1, 2)))


def test_a_running_sum_along_the_grid_is_carried_in_scratch(call, rng):
    x = rng.standard_normal((8, 4)).astype(f32)

    def kernel(x, o, carry):
        @pl.when(pl.program_id(0) == 0)
        def _():
            carry[...] = wnp.zeros_like(carry)

        carry[...] += x[...]
        o[...] = carry[...]

    row = pl.BlockSpec((1, 4), lambda i: (i, 0))
    got = call(
        kernel,
        shape(8, 4),
        grid=8,
        in_specs=[row],
        out_specs=row,
        scratch_shapes=[pl.LOCAL((1, 4), f32)],
    )(x)
    close(got, np.cumsum(x, 0))


@pytest.mark.parametrize(("rows", "columns"), [(13, 10), (16, 33), (5, 3)])
def test_edges_of_blocks_are_masked(call, rng, rows, columns):
    x = rng.standard_normal((rows, columns)).astype(f32)
    spec = pl.BlockSpec((8, 8), lambda i, j: (i, j))

    def kernel(x, o):
        o[...] = wnp.exp(x[...]) - 1

    grid = (pl.cdiv(rows, 8), pl.cdiv(columns, 8))
    got = call(kernel, shape(rows, columns), grid=grid, in_specs=[spec], out_specs=spec)(x)
    close(got, np.exp(x) - 1)


def test_a_masked_load_and_store_at_the_end_of_a_vector(call, rng):
    x = rng.standard_normal(21).astype(f32)

    def kernel(x, o):
        place = pl.program_id(0) * 8 + wnp.arange(8)
        inside = place < 21
        v = pl.load(x, (place,), mask=inside, other=0.0)
        pl.store(o, (place,), v * 2, mask=inside)

    close(call(kernel, shape(21), grid=3)(x), x * 2)


def test_a_softmax_of_rows_longer_than_the_data(call, rng):
    x = rng.standard_normal((6, 20)).astype(f32)

    def kernel(x, o):
        column = wnp.arange(32)
        inside = column < 20
        row = pl.load(x, (pl.program_id(0), column), mask=inside, other=-wnp.inf)
        weights = wnp.exp(row - row.max())
        pl.store(o, (pl.program_id(0), column), weights / weights.sum(), mask=inside)

    e = np.exp(x - x.max(1, keepdims=True))
    close(call(kernel, shape(6, 20), grid=6)(x), e / e.sum(1, keepdims=True))


def test_positions_of_extrema_and_sorted_rows(call, x):
    x = np.round(x)

    def kernel(x, high, low, rows):
        high[...] = wnp.argmax(x[...], axis=1).astype(i32)
        low[...] = wnp.argmin(x[...], axis=0).astype(i32)
        rows[...] = wnp.sort(x[...], axis=1)

    outs = (shape(16, dtype=i32), shape(32, dtype=i32), shape(16, 32))
    high, low, rows = call(kernel, outs)(x)
    close(high, x.argmax(1))
    close(low, x.argmin(0))
    close(rows, np.sort(x, 1))


def test_running_sums_and_maxima_inside_a_kernel(call, x):
    def kernel(x, sums, tops, back):
        sums[...] = wnp.cumsum(x[...], axis=1)
        tops[...] = lax.cummax(x[...], axis=0)
        back[...] = lax.cumsum(x[...], axis=0, reverse=True)

    sums, tops, back = call(kernel, [shape(16, 32)] * 3)(x)
    close(sums, np.cumsum(x, 1))
    close(tops, np.maximum.accumulate(x, 0))
    close(back, np.cumsum(x[::-1], 0)[::-1])


def test_scoped_scratch_in_a_loop(call, x):
    def kernel(x, o):
        def with_memory(acc, count):
            acc[...] = wnp.zeros_like(acc)
            count[0] = 0

            @pl.loop(0, 16)
            def _(i):
                acc[...] += x[i] * (i + 1)
                count[0] += 1

            o[...] = acc[...] / count[0].astype(f32)

        pl.run_scoped(with_memory, pl.LOCAL((32,), f32), pl.LOCAL((1,), i32))

    close(call(kernel, shape(32))(x), (x * np.arange(1, 17)[:, None]).sum(0) / 16)


def test_scoped_scratch_returns_values(call, x):
    def kernel(x, o):
        def inner(memory):
            memory[...] = x[...] * 2
            return memory[0] + memory[15]

        o[...] = pl.run_scoped(inner, pl.LOCAL((16, 32), f32))

    close(call(kernel, shape(32))(x), 2 * (x[0] + x[15]))


def test_an_online_softmax_carries_three_values_through_a_loop(call, rng):
    q = rng.standard_normal((8, 16)).astype(f32)
    k, v = rng.standard_normal((2, 64, 16)).astype(f32)

    def kernel(q, k, v, o):
        def body(i, carry):
            top, total, acc = carry
            block = pl.ds(i * 16, 16)
            s = q[...] @ k[block].T
            new = wnp.maximum(top, s.max(axis=1))
            p = wnp.exp(s - new[:, None])
            shrink = wnp.exp(top - new)
            return new, total * shrink + p.sum(axis=1), acc * shrink[:, None] + p @ v[block]

        start = wnp.full((8,), -wnp.inf), wnp.zeros((8,)), wnp.zeros((8, 16))
        _, total, acc = lax.fori_loop(0, 4, body, start)
        o[...] = acc / total[:, None]

    s = q @ k.T
    p = np.exp(s - s.max(1, keepdims=True))
    close(call(kernel, shape(8, 16))(q, k, v), p @ v / p.sum(1, keepdims=True))


def test_a_while_loop_iterates_until_it_converges(call, rng):
    x = rng.random((8,)).astype(f32) * 9 + 1

    def kernel(x, root, steps):
        def goes_on(state):
            y, n = state
            return (wnp.abs(y * y - x[...]) > 1e-4 * x[...]).any() & (n < 50)

        def step(state):
            y, n = state
            return 0.5 * (y + x[...] / y), n + 1

        root[...], steps[0] = lax.while_loop(goes_on, step, (x[...], 0))

    root, steps = call(kernel, (shape(8), shape(1, dtype=i32)))(x)
    close(root, np.sqrt(x), 1e-3)
    assert 0 < int(steps[0]) < 50


def test_a_while_loop_finds_a_place_in_a_sorted_ref(call, rng):
    table = np.sort(rng.standard_normal(50)).astype(f32)
    wanted = rng.standard_normal(12).astype(f32)

    def kernel(table, wanted, o):
        @pl.loop(0, 12)
        def _(i):
            def halve(bounds):
                low, high = bounds
                middle = (low + high) // 2
                right = table[middle] < wanted[i]
                return wnp.where(right, middle + 1, low), wnp.where(right, high, middle)

            low, _ = lax.while_loop(lambda b: b[0] < b[1], halve, (wnp.int32(0), wnp.int32(50)))
            o[i] = low

    close(call(kernel, shape(12, dtype=i32))(table, wanted), np.searchsorted(table, wanted))


def test_outputs_update_aliased_inputs_in_part(call, x):
    def kernel(rows, x, o):
        o[rows[pl.program_id(0)]] += 10

    rows = np.array([3, 8], i32)
    got = call(kernel, shape(16, 32), grid=2, input_output_aliases={1: 0})(rows, x)
    want = x.copy()
    want[[3, 8]] += 10
    close(got, want)


def test_dynamic_slices_of_refs_and_values(call, x):
    def kernel(start, x, a, b, c):
        s = start[0]
        a[...] = x[pl.ds(s, 4), pl.ds(8, 8)]
        b[...] = lax.dynamic_slice(x[...], (s, 2 * s), (4, 8))
        c[...] = lax.dynamic_update_slice(x[...], wnp.zeros((2, 3)), (s, s))

    s = 5
    outs = [shape(4, 8), shape(4, 8), shape(16, 32)]
    a, b, c = call(kernel, outs)(np.array([s], i32), x)
    close(a, x[s : s + 4, 8:16])
    close(b, x[s : s + 4, 2 * s : 2 * s + 8])
    want = x.copy()
    want[s : s + 2, s : s + 3] = 0
    close(c, want)


def test_strided_and_reversed_reads(call, x):
    def kernel(x, o, r):
        o[...] = x[pl.ds(0, 8, 2), ::4]
        r[...] = x[...][::-1, :16]

    o, r = call(kernel, (shape(8, 8), shape(16, 16)))(x)
    close(o, x[::2, ::4])
    close(r, x[::-1, :16])


def test_outputs_in_a_dict_of_different_shapes_and_dtypes(call, x):
    def kernel(x, out):
        out["sum"][...] = x[...].sum()
        out["positive"][...] = x[...] > 0
        out["rows"][...] = x[...].mean(axis=1)

    outs = {"sum": shape(), "positive": shape(16, 32, dtype=np.bool_), "rows": shape(16)}
    got = call(kernel, outs)(x)
    close(got["sum"], x.sum())
    close(got["positive"], x > 0)
    close(got["rows"], x.mean(1))


def test_vmap_of_a_kernel_with_one_mapped_argument(call, rng):
    x = rng.standard_normal((3, 16, 8)).astype(f32)
    w = rng.standard_normal((8,)).astype(f32)
    block = pl.BlockSpec((4, 8), lambda i: (i, 0))

    def kernel(x, w, o):
        o[...] = x[...] * w[...] + pl.program_id(0)

    run = call(
        kernel,
        shape(16, 8),
        grid=4,
        in_specs=[block, pl.BlockSpec((8,), lambda i: (0,))],
        out_specs=block,
    )
    want = x * w + np.repeat(np.arange(4), 4)[:, None]
    close(weft.vmap(run, in_axes=(0, None))(x, w), want)
    twice = weft.vmap(weft.vmap(run, in_axes=(0, None)), in_axes=(None, 0))
    ws = np.stack([w, -w])
    close(twice(x, ws)[1], x * -w + np.repeat(np.arange(4), 4)[:, None])


def test_a_kernel_with_a_derivative_of_its_own(call, x):
    def forward_kernel(x, y, s):
        s[...] = weft.nn.sigmoid(x[...])
        y[...] = x[...] * s[...]

    def backward_kernel(x, s, ct, o):
        o[...] = ct[...] * s[...] * (1 + x[...] * (1 - s[...]))

    like = shape(16, 32)

    @weft.custom_vjp
    def silu(x):
        return call(forward_kernel, (like, like))(x)[0]

    def forward(x):
        y, s = call(forward_kernel, (like, like))(x)
        return y, (x, s)

    silu.defvjp(forward, lambda kept, ct: (call(backward_kernel, like)(*kept, ct),))
    s = 1 / (1 + np.exp(-x))
    value, gradient = weft.jit(weft.value_and_grad(lambda x: silu(x).sum()))(x)
    close(value, (x * s).sum(), 1e-3)
    close(gradient, s * (1 + x * (1 - s)))


@pytest.mark.parametrize("executor", ["interpreted", "native"])
def test_forward_mode_through_a_kernel(executor, x):
    def kernel(x, o):
        @pl.loop(0, 16)
        def _(i):
            o[i] = wnp.sin(x[i]) * x[i].sum()

    run = EXECUTORS[executor](kernel, shape(16, 32))
    value, tangent = weft.jvp(run, (x,), (np.ones_like(x),))
    total = x.sum(1, keepdims=True)
    close(value, np.sin(x) * total, 1e-3)
    close(tangent, np.cos(x) * total + np.sin(x) * 32, 1e-3)


def test_a_histogram_by_atomics(call, rng):
    values = rng.integers(0, 8, (4, 32)).astype(i32)

    def kernel(values, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = wnp.zeros_like(o)

        pl.atomic_add(o, (values[...],), wnp.ones((1, 32), i32))

    row = pl.BlockSpec((1, 32), lambda i: (i, 0))
    whole = pl.BlockSpec((8,), lambda i: (0,))
    got = call(kernel, shape(8, dtype=i32), grid=4, in_specs=[row], out_specs=whole)(values)
    close(got, np.bincount(values.ravel(), minlength=8))


def test_embedding_rows_are_gathered_and_their_gradients_scattered(call, rng):
    table = rng.standard_normal((10, 8)).astype(f32)
    ids = rng.integers(0, 10, 12).astype(i32)

    def look_up(ids, table, o):
        o[...] = table[ids[...]]

    def spread(ids, ct, o):
        o[...] = wnp.zeros_like(o)
        pl.addupdate(o, (ids[...],), ct[...])

    rows = call(look_up, shape(12, 8))(ids, table)
    close(rows, table[ids])
    want = np.zeros_like(table)
    np.add.at(want, ids, table[ids])
    close(call(spread, shape(10, 8))(ids, rows), want)


def test_overlapping_windows_by_element_indices(call, rng):
    x = rng.standard_normal(34).astype(f32)

    def kernel(x, o):
        o[...] = x[0:8] + x[1:9] + x[2:10]

    got = call(
        kernel,
        shape(32),
        grid=4,
        in_specs=[pl.BlockSpec((pl.Element(10),), lambda i: (8 * i,))],
        out_specs=pl.BlockSpec((8,), lambda i: (i,)),
    )(x)
    close(got, x[:-2] + x[1:-1] + x[2:])


def test_branches_and_switches_choose_what_is_stored(call, x):
    def kernel(x, o):
        i = pl.program_id(0)
        row = x[...]
        o[...] = lax.switch(
            i % 3, [lambda r: r + 1, lambda r: r * r, lambda r: wnp.flip(r, axis=1)], row
        )

        @pl.when(i == 5)
        def _():
            o[0, 0] = 100.0

    row = pl.BlockSpec((1, 32), lambda i: (i, 0))
    got = call(kernel, shape(16, 32), grid=16, in_specs=[row], out_specs=row)(x)
    want = np.stack([(x[i] + 1, x[i] ** 2, x[i][::-1])[i % 3] for i in range(16)])
    want[5, 0] = 100
    close(got, want)


def test_random_bits_by_a_counter_and_a_dropout_mask(call, x):
    def kernel(seed, x, o):
        place = lax.broadcasted_iota(np.uint32, (16, 32), 0) * 32
        place += lax.broadcasted_iota(np.uint32, (16, 32), 1)
        h = (place + seed[0]) * np.uint32(2654435761)
        h = (h ^ (h >> 15)) * np.uint32(2246822519)
        keep = (h >> 31) == 0
        o[...] = wnp.where(keep, x[...] * 2, 0)

    got = call(kernel, shape(16, 32))(np.array([7], np.uint32), x)
    h = ((np.arange(512, dtype=np.uint32) + np.uint32(7)) * np.uint32(2654435761)).reshape(16, 32)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    close(got, np.where(h >> np.uint32(31) == 0, x * 2, 0))


def test_a_kernel_called_in_a_scan_and_under_jit(call, x):
    def kernel(h, x, o):
        o[...] = wnp.tanh(h[...] + x[...])

    step = call(kernel, shape(32))

    @weft.jit
    def unrolled(x):
        return lax.scan(lambda h, row: (step(h, row),) * 2, wnp.zeros(32), x)

    last, every = unrolled(x)
    h, want = np.zeros(32, f32), []
    for row in x:
        h = np.tanh(h + row)
        want.append(h)
    close(every, np.stack(want))
    close(last, h)

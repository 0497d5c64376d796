"""Kernels compiled for the CPU, against NumPy: values, refs, loops, blocks, the grid's order."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl

BF16 = np.dtype(ml_dtypes.bfloat16)


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


def run(kernel, outs, *args, **kwargs):
    single = not isinstance(outs, list)
    results = pl.pallas_call(kernel, outs, **kwargs)(*args)
    return np.asarray(results) if single else [np.asarray(r) for r in results]


def close(got, want, rtol=1e-5, atol=1e-5):
    gots, wants = (got, want) if isinstance(got, list) else ([got], [want])
    for g, w in zip(gots, wants, strict=True):
        w = np.asarray(w)
        assert g.shape == w.shape
        if g.dtype.kind in "fV":
            np.testing.assert_allclose(g.astype("f8"), w.astype("f8"), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(g, w)


@pytest.fixture
def x(rng):
    return rng.standard_normal((8, 16)).astype("f4")


def test_elementwise_ops_follow_numpy(x):
    def kernel(x, out):
        v = x[...]
        y = wnp.clip(v, 0, 1) + v**3 + wnp.abs(v) + wnp.sign(v) + wnp.floor(v) + wnp.ceil(v)
        out[...] = y + wnp.round(v) + wnp.sqrt(wnp.abs(v)) - wnp.minimum(v, 0.5) / 3

    want = np.clip(x, 0, 1) + x**3 + abs(x) + np.sign(x) + np.floor(x) + np.ceil(x)
    want = want + np.round(x) + np.sqrt(abs(x)) - np.minimum(x, 0.5) / 3
    close(run(kernel, shape(8, 16), x), want)


def test_ops_defined_by_formulas_are_compiled_from_them(x):
    def kernel(x, out):
        v = x[...]
        out[...] = weft.nn.softmax(v) + weft.nn.relu(v) + wnp.logaddexp(v, 2 * v) + weft.nn.gelu(v)

    e = np.exp(x - x.max(1, keepdims=True))
    gelu = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    want = e / e.sum(1, keepdims=True) + np.maximum(x, 0) + np.logaddexp(x, 2 * x) + gelu
    close(run(kernel, shape(8, 16), x), want)


def test_reductions_over_any_axes(x):
    def kernel(x, *outs):
        v = x[...]
        outs[0][...] = v.sum(0)
        outs[1][...] = v.max(1)
        outs[2][...] = v.min()
        outs[3][...] = wnp.argmax(v, axis=1)
        outs[4][...] = v.mean()
        outs[5][...] = wnp.cumsum(v, axis=1)
        outs[6][...] = (v > 0).any(0)
        outs[7][...] = wnp.prod(v, axis=0)
        outs[8][...] = v.reshape(2, 4, 16).sum((0, 2))

    outs = [shape(16), shape(8), shape(), shape(8, dtype="i4"), shape(), shape(8, 16)]
    outs += [shape(16, dtype="bool"), shape(16), shape(4)]
    want = [x.sum(0), x.max(1), x.min(), x.argmax(1), x.mean(), x.cumsum(1), (x > 0).any(0)]
    want += [x.prod(0), x.reshape(2, 4, 16).sum((0, 2))]
    close(run(kernel, outs, x), want)


def test_maximum_propagates_nan(x):
    x[2, 3] = np.nan

    def kernel(x, out, index):
        out[...] = x[...].max(1)
        index[...] = wnp.argmax(x[...], axis=1)

    got, index = run(kernel, [shape(8), shape(8, dtype="i4")], x)
    np.testing.assert_array_equal(got, x.max(1))
    np.testing.assert_array_equal(index, x.argmax(1))


def test_ops_that_move_elements(x):
    def kernel(x, *outs):
        v = x[...]
        outs[0][...] = v.T
        outs[1][...] = v.reshape(4, 32) + 1
        outs[2][...] = (v * 2).reshape(2, 4, 16)
        outs[3][...] = wnp.concatenate([v, v * 2], axis=1)
        outs[4][...] = wnp.pad(v, ((1, 2), (0, 3)), constant_values=7.0)
        outs[5][...] = v[::-1, 2:10:2]
        outs[6][...] = wnp.tril(v) + wnp.arange(16.0)
        outs[7][...] = lax.dynamic_slice(v, (wnp.int32(7), wnp.int32(2)), (3, 4))
        outs[8][...] = lax.pad(v, np.float32(0), ((-1, -2, 1), (2, 0, 0)))
        outs[9][...] = v.at[2:4, 1].set(5.0)
        outs[10][...] = v.T.reshape(4, 32)

    outs = [shape(16, 8), shape(4, 32), shape(2, 4, 16), shape(8, 32), shape(11, 19), shape(8, 4)]
    outs += [shape(8, 16), shape(3, 4), shape(12, 18), shape(8, 16), shape(4, 32)]
    spread = np.zeros((12, 18), "f4")
    spread[1::2, 2:] = x[1:7]
    updated = x.copy()
    updated[2:4, 1] = 5
    want = [x.T, x.reshape(4, 32) + 1, (x * 2).reshape(2, 4, 16), np.concatenate([x, x * 2], 1)]
    want += [np.pad(x, ((1, 2), (0, 3)), constant_values=7.0), x[::-1, 2:10:2]]
    want += [np.tril(x) + np.arange(16.0), x[5:8, 2:6], spread, updated, x.T.reshape(4, 32)]
    close(run(kernel, outs, x), want)


@pytest.mark.parametrize("dtype", ["f4", "f2", BF16, "i4", "u4", "i1", "u1", "i2"], ids=str)
def test_arithmetic_and_products_of_every_dtype(x, dtype):
    dtype = np.dtype(dtype)
    v = (np.abs(x * 20) if dtype.kind == "u" else x * 20).astype(dtype)

    def kernel(v, out, product):
        v = v[...]
        out[...] = v * v + v - wnp.maximum(v, 1).astype(v.dtype)
        product[...] = wnp.dot(v, v.T)

    got, product = run(kernel, [shape(8, 16, dtype=dtype), shape(8, 8, dtype=dtype)], v)
    small = dtype.itemsize == 2 and dtype.kind in "fV"
    close(got, v * v + v - np.maximum(v, 1).astype(dtype), 2e-2 if small else 1e-5, 0.1)
    want = v.astype("f8") @ v.astype("f8").T if dtype.kind in "fV" else v @ v.T
    close(product, want, 2e-2 if small else 1e-5, 1.0)


def test_conversions_saturate_and_round():
    v = np.array([-1e20, -1.7, 0.0, 2.5, 3e9, np.nan], "f4")

    def kernel(v, ints, small, flags):
        ints[...] = v[...].astype("int32")
        small[...] = v[...].astype("bfloat16")
        flags[...] = v[...].astype("bool")

    outs = [shape(6, dtype="i4"), shape(6, dtype=BF16), shape(6, dtype="bool")]
    ints, small, flags = run(kernel, outs, v)
    low, high = np.iinfo("i4").min, np.iinfo("i4").max
    np.testing.assert_array_equal(ints, [low, -1, 0, 2, high, 0])
    np.testing.assert_array_equal(small.astype("f4"), v.astype(BF16).astype("f4"))
    np.testing.assert_array_equal(flags, v.astype(bool))


def test_integer_division_and_shifts_have_no_undefined_cases():
    a = np.array([7, -7, 5, -(2**31)], "i4")
    b = np.array([2, 2, 0, -1], "i4")

    def kernel(a, b, *outs):
        outs[0][...] = lax.div(a[...], b[...])
        outs[1][...] = lax.rem(a[...], b[...])
        outs[2][...] = lax.shift_left(a[...], wnp.full((4,), 40, "int32"))
        outs[3][...] = lax.shift_right_arithmetic(a[...], wnp.full((4,), 40, "int32"))

    quotient, rest, left, right = run(kernel, [shape(4, dtype="i4")] * 4, a, b)
    np.testing.assert_array_equal(quotient, [3, -3, -1, -(2**31)])
    np.testing.assert_array_equal(rest, [1, -1, 5, 0])
    np.testing.assert_array_equal(left, [0, 0, 0, 0])
    np.testing.assert_array_equal(right, [0, -1, 0, -1])


# Loops and branches --------------------------------------------------------------------------


def test_loops_carry_arrays_that_depend_on_each_other(x):
    def kernel(x, first, second):
        def body(i, carry):
            a, b = carry
            return b + 1, a * 2 + a.sum(0)

        a, b = lax.fori_loop(0, 3, body, (x[...], x[...] * 3))
        first[...] = a
        second[...] = b

    a, b = x, x * 3
    for _ in range(3):
        a, b = b + 1, a * 2 + a.sum(0)
    close(run(kernel, [shape(8, 16)] * 2, x), [a, b], 1e-4, 1e-4)


def test_while_loops_with_scalars_and_arrays(x):
    def kernel(x, out):
        def body(c):
            i, v, s = c
            return i + 1, v * v.max(), s + v.sum()

        _, v, s = lax.while_loop(lambda c: c[0] < 4, body, (0, x[...] * 0.1, 0.0))
        out[...] = v + s

    v, s = x * np.float32(0.1), 0
    for _ in range(4):
        v, s = v * v.max(), s + v.sum()
    close(run(kernel, shape(8, 16), x), v + s)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_stack_their_results(x, reverse):
    def kernel(x, out, last):
        c, ys = lax.scan(lambda c, row: (c + row.sum(), row * c), 0.0, x[...] * 2, reverse=reverse)
        out[...] = ys
        last[...] = c

    rows = (x * 2)[::-1] if reverse else x * 2
    c, ys = 0, []
    for row in rows:
        ys.append(row * c)
        c = c + row.sum()
    ys = ys[::-1] if reverse else ys
    close(run(kernel, [shape(8, 16), shape()], x), [np.array(ys), c])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_branches_return_arrays_and_scalars(x, which):
    index = np.array([which], "i4")

    def kernel(x, index, out, total):
        shared = wnp.exp(x[...])
        branches = [
            lambda v: (v, v.sum()),
            lambda v: (v * 2, v.max()),
            lambda v: (v.T.reshape(8, 16), wnp.float32(3)),
        ]
        value, number = lax.switch(index[0], branches, shared)
        out[...] = value + shared
        total[...] = number

    e = np.exp(x)
    want = [(e, e.sum()), (e * 2, e.max()), (e.T.reshape(8, 16), 3.0)][which]
    close(run(kernel, [shape(8, 16), shape()], x, index), [want[0] + e, np.float32(want[1])], 1e-4)


def test_refs_are_written_inside_loops_and_branches(x):
    def kernel(x, out):
        out[...] = wnp.zeros((8, 16), "float32")

        def body(i, _):
            out[i, :] = x[7 - i, :]

            @pl.when(i % 2 == 0)
            def _():
                out[i, :] += 1.0

            return _

        before = out[0, 0]
        lax.fori_loop(0, 8, lambda i, c: (body(i, None), c)[1], 0)
        out[0, 0] = before

    want = x[::-1].copy()
    want[::2] += 1
    want[0, 0] = 0
    close(run(kernel, shape(8, 16), x), want)


# Refs ------------------------------------------------------------------------------------------


def test_values_keep_what_they_were_when_the_ref_changes(x):
    def kernel(x, out):
        out[...] = x[...]
        old = out[...]
        row = out[1, :] * 2
        out[0, :] = row
        out[2:4, :] = out[0:2, :] + x[4:6, :]
        out[6, :] = old[7]
        out[7, :] = old[6] + old[0]

    want = x.copy()
    want[0] = x[1] * 2
    want[2:4] = want[0:2] + x[4:6]
    want[6], want[7] = x[7], x[6] + x[0]
    close(run(kernel, shape(8, 16), x), want)


def test_overlapping_parts_of_a_ref(x):
    def kernel(x, out):
        out[...] = x[...]
        out[1:, :] = out[:-1, :] + 1
        out[...] = out[...] - out[...].mean(0)
        out[...] = out[...][::-1]

    want = x.copy()
    want[1:] = x[:-1] + 1
    close(run(kernel, shape(8, 16), x), (want - want.mean(0))[::-1])


def test_index_arrays_masks_and_windows(x):
    index = np.array([3, 1, 7, 0], "i4")

    def kernel(x, index, *outs):
        rows = index[...]
        outs[0][...] = x[rows, :]
        outs[1][...] = x[...]
        outs[1][rows, 0] = wnp.arange(4, dtype="float32")
        outs[2][...] = pl.load(x, (pl.ds(2, 4), slice(None)), mask=x[2:6, :] > 0, other=-1.0)
        outs[3][...] = x[...]
        pl.store(outs[3], (slice(None), slice(None)), x[...] * 2, mask=x[...] > 0)
        start = index[1]
        outs[4][...] = x[pl.ds(start, 3), pl.ds(4, 8)]

    outs = [shape(4, 16), shape(8, 16), shape(4, 16), shape(8, 16), shape(3, 8)]
    placed = x.copy()
    placed[index, 0] = np.arange(4)
    part = x[2:6]
    want = [x[index], placed, np.where(part > 0, part, -1), np.where(x > 0, 2 * x, x), x[1:4, 4:12]]
    close(run(kernel, outs, x, index), want)


def test_swap_addupdate_and_atomics(x):
    index = np.array([1, 1, 2, 1], "i4")

    def kernel(x, index, out, old, counts):
        out[...] = x[...]
        old[...] = pl.swap(out, (slice(None), slice(None)), x[...] * 3)
        pl.addupdate(out, (0, slice(None)), x[1, :])
        counts[...] = wnp.zeros((4,), "int32")
        pl.atomic_add(counts, (index[...],), wnp.full((4,), 2, "int32"))

    got = run(kernel, [shape(8, 16), shape(8, 16), shape(4, dtype="i4")], x, index)
    want = x * 3
    want[0] += x[1]
    close(got, [want, x, np.array([0, 6, 2, 0])])


def test_scoped_scratch_and_while_inside(x):
    def kernel(x, out):
        def body(tmp):
            tmp[...] = x[...] * 2

            def step(i, c):
                tmp[...] = tmp[...] + 1
                return c

            lax.fori_loop(0, 3, step, 0)
            out[...] = tmp[...]

        pl.run_scoped(body, pl.LOCAL((8, 16), "float32"))

    close(run(kernel, shape(8, 16), x), x * 2 + 3)


# Grids -----------------------------------------------------------------------------------------


def test_blocks_that_do_not_divide_the_array(rng):
    x = rng.standard_normal((61, 250)).astype("f4")
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))

    def kernel(x, out):
        out[...] = x[...] * 2 + 1

    got = run(kernel, shape(61, 250), x, grid=(8, 2), in_specs=[spec], out_specs=spec)
    close(got, x * 2 + 1)


def test_squeezed_blocks_by_element_and_scalar_prefetch(rng):
    x = rng.standard_normal((6, 40)).astype("f4")
    order = np.array([4, 0, 5, 2], "i4")
    spec = pl.GridSpec(
        grid=(4,),
        num_scalar_prefetch=1,
        in_specs=[pl.BlockSpec((None, pl.Element(8)), lambda i, order: (order[i], 3 * i))],
        out_specs=pl.BlockSpec((None, 8), lambda i, order: (i, 0)),
    )

    def kernel(order, x, out):
        out[...] = x[...] + order[pl.program_id(0)].astype("float32")

    got = np.asarray(pl.pallas_call(kernel, shape(4, 8), grid_spec=spec)(order, x))
    want = np.stack([x[r, 3 * i : 3 * i + 8] + r for i, r in enumerate(order)])
    close(got, want)


def test_revisited_outputs_accumulate_in_order(rng):
    a = rng.standard_normal((64, 96)).astype("f4")
    b = rng.standard_normal((96, 80)).astype("f4")

    def kernel(a, b, out):
        @pl.when(pl.program_id(2) == 0)
        def _():
            out[...] = wnp.zeros((32, 16), "float32")

        out[...] += wnp.dot(a[...], b[...])

    got = run(
        kernel,
        shape(64, 80),
        a,
        b,
        grid=(2, 5, 3),
        in_specs=[
            pl.BlockSpec((32, 32), lambda i, j, k: (i, k)),
            pl.BlockSpec((32, 16), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 16), lambda i, j, k: (i, j)),
    )
    close(got, a @ b, 1e-4, 1e-4)


def test_scratch_carried_through_the_grid_keeps_the_order(rng):
    x = rng.standard_normal((256, 16)).astype("f4")

    def kernel(x, out, total):
        @pl.when(pl.program_id(0) == 0)
        def _():
            total[...] = wnp.zeros((16,), "float32")

        total[...] += x[...].sum(0)
        out[...] = total[...]

    got = run(
        kernel,
        shape(128, 16),
        x,
        grid=128,
        in_specs=[pl.BlockSpec((2, 16), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((None, 16), lambda i: (i, 0)),
        scratch_shapes=[pl.LOCAL((16,), "float32")],
    )
    close(got, np.cumsum(x.reshape(128, 2, 16).sum(1), 0), 1e-4, 1e-3)


def test_large_grids_are_shared_by_threads_and_every_program_runs_once(rng):
    x = rng.standard_normal((512, 512)).astype("f4")
    spec = pl.BlockSpec((8, 512), lambda i: (i, 0))

    def fresh(x, out):
        out[...] = wnp.exp(x[...])

    call = pl.pallas_call(fresh, shape(512, 512), grid=64, in_specs=[spec], out_specs=spec)
    for _ in range(3):
        close(np.asarray(call(x)), np.exp(x))


def test_an_empty_grid_and_empty_arrays_do_nothing():
    def kernel(x, out):
        out[...] = x[...] + 1

    got = run(kernel, shape(0, 4), np.zeros((0, 4), "f4"))
    assert got.shape == (0, 4)


def test_an_aliased_output_starts_with_the_operand(x):
    def kernel(x, out):
        out[0, :] = out[0, :] + 10

    got = run(kernel, shape(8, 16), x, input_output_aliases={0: 0})
    want = x.copy()
    want[0] += 10
    close(got, want)


# Transformations -------------------------------------------------------------------------------


def test_vmap_jvp_scan_and_shard_map_of_a_native_kernel(rng):
    x = rng.standard_normal((8, 4, 16)).astype("f4")

    def kernel(x, out):
        out[...] = wnp.tanh(x[...]) * 2

    call = pl.pallas_call(kernel, shape(4, 16))
    close(np.asarray(weft.vmap(call)(x)), np.tanh(x) * 2)
    out, tangent = weft.jvp(call, (x[0],), (x[1],))
    close(np.asarray(tangent), (1 - np.tanh(x[0]) ** 2) * 2 * x[1])
    ys = lax.scan(lambda c, row: (c + 1, call(row)), 0, x)[1]
    close(np.asarray(ys), np.tanh(x) * 2)
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    local = pl.pallas_call(kernel, shape(1, 4, 16))
    sharded = weft.shard_map(
        local, mesh=mesh, in_specs=weft.P("d"), out_specs=weft.P("d"), check_vma=False
    )
    close(np.asarray(weft.jit(sharded)(x)), np.tanh(x) * 2)


def test_values_are_gathered_and_scattered_by_index_arrays(x):
    index = np.array([3, -1, 7, 40], "i4")

    def kernel(x, index, *outs):
        v, rows = x[...] * 2, index[...]
        outs[0][...] = wnp.take(v, wnp.abs(rows), axis=0, mode="clip")
        outs[1][...] = wnp.take(v, rows, axis=1, mode="fill", fill_value=-5.0)
        outs[2][...] = v.at[rows].add(1.0, mode="drop")
        outs[3][...] = v[rows[:3], wnp.arange(3)]
        outs[4][...] = v.at[wnp.array([1, 1, 2]), 0].max(100.0)
        outs[5][...] = wnp.take_along_axis(v[:4], rows[:, None] * 0, 1)

    outs = [shape(4, 16), shape(8, 4), shape(8, 16), shape(3), shape(8, 16), shape(4, 1)]
    v = x * 2
    filled = np.stack([v[:, 3], v[:, -1], v[:, 7], np.full(8, -5.0)], 1)
    added, largest = v.copy(), v.copy()
    np.add.at(added, [3, 7, 7], 1)
    largest[[1, 2], 0] = 100
    want = [v[[3, 1, 7, 7]], filled, added, v[[3, -1, 7], [0, 1, 2]], largest, v[:4, :1]]
    close(run(kernel, outs, x, index), want)


def test_sorting_orders_rows_with_nan_last_and_keeps_equal_elements_in_order(rng):
    x = rng.integers(0, 9, (5, 37)).astype("f4")
    x[1, 3] = np.nan
    tags = np.arange(5 * 37, dtype="i4").reshape(5, 37)

    def kernel(x, tags, *outs):
        outs[0][...] = wnp.sort(x[...], axis=1)
        outs[1][...] = wnp.sort(x[...], axis=0)
        outs[2][...] = lax.sort((x[...], tags[...]), dimension=1, num_keys=1)[1]
        outs[3][...] = lax.sort((tags[...] % 3, x[...]), dimension=1, num_keys=2)[1]
        outs[4][...], outs[5][...] = lax.top_k(tags[...] % 7, 4)

    outs = [shape(5, 37), shape(5, 37), shape(5, 37, dtype="i4"), shape(5, 37)]
    outs += [shape(5, 4, dtype="i4")] * 2
    got = run(kernel, outs, x, tags)
    order = np.argsort(x, axis=1, kind="stable")
    pairs = np.stack([row[np.lexsort((row, t))] for row, t in zip(x, tags % 3, strict=True)])
    best = np.argsort(-(tags % 7), axis=1, kind="stable")[:, :4]
    want = [np.sort(x, 1), np.sort(x, 0), np.take_along_axis(tags, order, 1), pairs]
    want += [np.take_along_axis(tags % 7, best, 1), best]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_reductions_by_any_function(x):
    def kernel(x, out):
        out[...] = lax.reduce(x[...], np.float32(1), lambda a, b: a * 0.5 + b, (1,))

    total = np.ones(8)
    for column in x.T:
        total = total * 0.5 + column
    close(run(kernel, shape(8), x), total)


def threefry(key, counts):
    """Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": 20 rounds, in NumPy."""
    with np.errstate(over="ignore"):
        k = [np.uint32(key[0]), np.uint32(key[1])]
        k.append(k[0] ^ k[1] ^ np.uint32(0x1BD11BDA))
        a, b = np.zeros_like(counts) + k[0], counts + k[1]
        for i in range(5):
            for r in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
                a = a + b
                b = a ^ (b << np.uint32(r) | b >> np.uint32(32 - r))
            a, b = a + k[(i + 1) % 3], b + k[(i + 2) % 3] + np.uint32(i + 1)
    return a, b


def test_random_bits_inside_a_kernel_are_those_of_the_generator():
    def kernel(out):
        key = weft.random.key(42, impl="threefry2x32")
        out[...] = weft.random.bits(weft.random.fold_in(key, 7), (3, 8))

    got = run(kernel, shape(3, 8, dtype="u4"))
    folded = [int(w[0]) for w in threefry((0, 42), np.array([7], "u4"))]
    a, b = threefry(folded, np.arange(24, dtype="u4"))
    np.testing.assert_array_equal(got.ravel(), a ^ b)


@pytest.mark.parametrize("seed", range(8))
def test_blocks_of_any_size_in_any_order_of_the_grid_cover_the_array(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    dims = [int(n) for n in rng.integers(1, 20, rank)]
    gone = rng.random(rank) < 0.2
    block = [1 if g else int(rng.integers(1, n + 3)) for n, g in zip(dims, gone, strict=True)]
    order = [int(d) for d in rng.permutation(rank)]
    grid = tuple(-(-dims[d] // block[d]) for d in order)
    place = [order.index(d) for d in range(rank)]
    spec = pl.BlockSpec(
        tuple(None if g else b for g, b in zip(gone, block, strict=True)),
        lambda *indices: tuple(indices[k] for k in place),
    )
    x = rng.standard_normal(dims).astype("f4")

    def kernel(x, out):
        out[...] = x[...] * 2 + 1

    got = run(kernel, shape(*dims), x, grid=grid, in_specs=[spec], out_specs=spec)
    close(got, x * 2 + 1)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "i4"])
def test_transposes_of_any_size_and_order(rng, dtype):
    x = (rng.standard_normal((3, 37, 50)) * 50).astype(dtype)
    orders = [(0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)]

    def kernel(x, *outs):
        for order, out in zip(orders, outs, strict=True):
            out[...] = wnp.transpose(x[...], order)

    want = [x.transpose(order) for order in orders]
    got = run(kernel, [shape(*w.shape, dtype=dtype) for w in want], x)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)

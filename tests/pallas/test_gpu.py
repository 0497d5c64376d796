"""Kernels for the GPU: the Triton IR of each, verified and executed on the host."""

import numpy as np
import pytest

import weft
from tests.pallas.triton_machine import run
from weft.core.jaxpr import walk_eqns
from weft.pallas.gpu import PROCESSORS, check_resident
from weft.pallas.gpu.program import build, sequential_dims

pl = weft.pallas
np_ = weft.numpy
rng = np.random.default_rng(7)


def shape(*sizes, dtype="float32"):
    return weft.ShapeDtypeStruct(sizes, dtype)


def call_of(function, *args):
    """The kernel call that a function makes."""
    jaxpr = weft.make_jaxpr(function)(*args)
    (call,) = [e.params["call"] for e in walk_eqns(jaxpr) if e.primitive.name == "pallas_call"]
    return call


def on_gpu(function, *args):
    outs = run(call_of(function, *args), *map(np.asarray, args))
    return outs[0] if len(outs) == 1 else outs


def normal(*sizes, dtype=np.float32):
    return rng.standard_normal(sizes).astype(dtype)


def elementwise(f, *args, out=None, block=None):
    """f of whole arrays, in one block."""
    like = np.asarray(f(*args)) if out is None else out

    def kernel(*refs):
        refs[-1][...] = f(*(r[...] for r in refs[:-1]))

    return on_gpu(pl.pallas_call(kernel, shape(*like.shape, dtype=like.dtype)), *args)


UNARY = [
    ("exp", np.exp), ("log", np.log), ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh),
    ("sqrt", np.sqrt), ("log1p", np.log1p), ("expm1", np.expm1), ("floor", np.floor),
    ("ceil", np.ceil), ("abs", np.abs), ("negative", np.negative), ("sign", np.sign),
    ("isfinite", np.isfinite), ("rint", np.rint), ("exp2", np.exp2), ("arctan", np.arctan),
    ("sinh", np.sinh), ("square", np.square), ("reciprocal", np.reciprocal),
]  # fmt: skip


@pytest.mark.parametrize(("name", "reference"), UNARY, ids=[n for n, _ in UNARY])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_functions_of_one_number(name, reference, dtype):
    x = (np.abs(normal(5, 12)) + 0.5).astype(dtype)
    got = elementwise(getattr(np_, name), x)
    want = reference(x.astype(np.float64))
    np.testing.assert_allclose(
        got.astype(np.float64), want, rtol=2e-6 if dtype == "float32" else 3e-3
    )


BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "less", "equal", "not_equal"]


@pytest.mark.parametrize("name", [*BINARY, "remainder", "floor_divide"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int16"])
def test_functions_of_two_numbers(name, dtype):
    x = rng.integers(1, 100, (3, 9)).astype(dtype)
    y = rng.integers(1, 100, (3, 9)).astype(dtype)
    np.testing.assert_allclose(elementwise(getattr(np_, name), x, y), getattr(np, name)(x, y))


def test_bits_and_shifts_are_of_unsigned_and_signed_numbers():
    x = rng.integers(-(2**31), 2**31, 16).astype(np.int32)
    u = x.view(np.uint32)
    s = np.arange(16, dtype=np.int32)
    f = lambda x, s: (x & 0xFF) | (x << s) ^ (x >> s)
    np.testing.assert_array_equal(elementwise(f, x, s), f(x, s))
    logical = lambda u, s: (u >> s) // np.uint32(3)
    np.testing.assert_array_equal(
        elementwise(logical, u, s.view(np.uint32)), logical(u, s.view(np.uint32))
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("float32", "bfloat16"), ("bfloat16", "float16"), ("int8", "float32"), ("uint8", "float16"),
     ("float32", "int32"), ("bool", "float32"), ("int32", "bool"), ("int64", "int32"),
     ("float32", "float8_e4m3fn"), ("float8_e5m2", "float32")],
)  # fmt: skip
def test_conversions_between_dtypes(old, new):
    with weft.enable_x64(True):
        old, new = (np.dtype(getattr(np_, d).dtype) for d in (old, new))
        x = rng.integers(0, 5, 10).astype(old)
        got = elementwise(lambda x: x.astype(new), x, out=x.astype(new))
    np.testing.assert_array_equal(got.astype(np.float64), x.astype(new).astype(np.float64))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64"])
def test_bits_are_counted(dtype):
    with weft.enable_x64(True):
        info = np.iinfo(dtype)
        x = np.array([info.min, info.max, 0, 1, 5, 100, info.max // 3, info.min // 7], dtype)
        u = x.view(f"u{x.dtype.itemsize}")
        ones = elementwise(weft.lax.population_count, x, out=x)
        zeros = elementwise(weft.lax.clz, x, out=x)
    np.testing.assert_array_equal(ones, [int(v).bit_count() for v in u])
    np.testing.assert_array_equal(zeros, [info.bits - int(v).bit_length() for v in u])


def test_blocks_that_do_not_divide_the_array_are_masked():
    def kernel(x, y, out):
        out[...] = np_.exp(x[...]) + y[...] * 2.0

    block = pl.BlockSpec((24, 40), lambda i, j: (i, j))
    add = pl.pallas_call(
        kernel, shape(50, 100), grid=(3, 3), in_specs=[block, block], out_specs=block
    )
    x, y = normal(50, 100), normal(50, 100)
    np.testing.assert_allclose(on_gpu(add, x, y), np.exp(x) + 2 * y, rtol=1e-5)


def test_softmax_and_layer_norm_ignore_what_is_past_the_end():
    def softmax(x, out):
        e = np_.exp(x[...] - np_.max(x[...], axis=1, keepdims=True))
        out[...] = e / np_.sum(e, axis=1, keepdims=True)

    def layer_norm(x, out):
        v = x[...]
        mean = np_.mean(v, axis=1, keepdims=True)
        out[...] = (v - mean) / np_.sqrt(np_.mean((v - mean) ** 2, axis=1, keepdims=True) + 1e-5)

    x = normal(6, 1000)
    row = pl.BlockSpec((1, 1000), lambda i: (i, 0))
    e = np.exp(x - x.max(1, keepdims=True))
    for kernel, want in [
        (softmax, e / e.sum(1, keepdims=True)),
        (layer_norm, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)),
    ]:
        f = pl.pallas_call(kernel, shape(6, 1000), grid=6, in_specs=[row], out_specs=row)
        np.testing.assert_allclose(on_gpu(f, x), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_matrix_product_accumulates_over_the_last_grid_dimension(dtype):
    def kernel(x, y, out):
        @pl.when(pl.program_id(2) == 0)
        def _():
            out[...] = np_.zeros(out.shape, out.dtype)

        out[...] += np_.dot(x[...], y[...], preferred_element_type="float32")

    product = pl.pallas_call(
        kernel,
        shape(96, 64),
        grid=(3, 2, 3),
        in_specs=[
            pl.BlockSpec((32, 32), lambda i, j, k: (i, k)),
            pl.BlockSpec((32, 32), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 32), lambda i, j, k: (i, j)),
    )
    x, y = normal(96, 80, dtype=dtype), normal(80, 64, dtype=dtype)
    x = np.pad(x, ((0, 0), (0, 16)))
    y = np.pad(y, ((0, 16), (0, 0)))
    call = call_of(product, x, y)
    assert sequential_dims(call) == {2}
    assert "tt.dot" in str(build(call).module)
    np.testing.assert_allclose(
        run(call, x, y)[0], x.astype(np.float64) @ y.astype(np.float64), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(
    ("left", "right", "numbers"),
    [
        ((4, 6), (6, 3), (((1,), (0,)), ((), ()))),
        ((20, 17), (20, 33), (((0,), (0,)), ((), ()))),
        ((20, 17), (33, 17), (((1,), (1,)), ((), ()))),
        ((2, 5, 4), (2, 4, 3), (((2,), (1,)), ((0,), (0,)))),
        ((3, 20, 17), (3, 17, 33), (((2,), (1,)), ((0,), (0,)))),
        ((5, 70), (70, 40), (((1,), (0,)), ((), ()))),
        ((40, 5), (5, 70), (((1,), (0,)), ((), ()))),
        ((70, 40), (3, 70), (((0,), (1,)), ((), ()))),
    ],
)
def test_products_of_any_form_mask_the_contracted_dimension(left, right, numbers):
    x, y = normal(*left), normal(*right)
    f = lambda x, y: weft.lax.dot_general(x, y, numbers)
    (lc, rc), (lb, _) = numbers
    want = np.einsum(x, [0, 1, 2], y, [0, 2, 3], [0, 1, 3]) if lb else np.tensordot(x, y, (lc, rc))
    np.testing.assert_allclose(elementwise(f, x, y, out=want), want, rtol=1e-4, atol=1e-5)


ROWS = np.array([2, 2, 4, 9])


def rows():
    """ROWS, made in the kernel."""
    k = np_.arange(4)
    return np_.where(k < 2, 2, 5 * k - 6)


def _at(x, op):
    """x combined with its first rows at ROWS, the last of which it lacks."""
    out = x.copy()
    op.at(out, ROWS[:3], x[:3])
    return out


def _largest_sizes(a, b):
    here = abs(a[0]) > abs(b[0])
    return np_.where(here, a[0], b[0]), np_.where(here, a[1], b[1])


SHAPES = {
    "transpose": (lambda x: x.T, lambda x: x.T),
    "reverse": (lambda x: x[::-1, ::-1], lambda x: x[::-1, ::-1]),
    "slice": (lambda x: x[1:4, 2::3], lambda x: x[1:4, 2::3]),
    "concatenate": (
        lambda x: np_.concatenate([x, x[:2], x * 2]),
        lambda x: np.concatenate([x, x[:2], x * 2]),
    ),
    "pad": (
        lambda x: weft.lax.pad(x, np.float32(7), ((1, 2, 0), (0, 1, 1))),
        lambda x: _padded(x),
    ),
    "cumsum": (lambda x: np_.cumsum(x, 1), lambda x: np.cumsum(x, 1)),
    "reverse cumsum": (
        lambda x: weft.lax.cumsum(x, 1, reverse=True),
        lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1],
    ),
    "sum of a dimension": (lambda x: np_.sum(x, 0), lambda x: np.sum(x, 0)),
    "sum of all": (lambda x: np_.sum(x), lambda x: np.sum(x)),
    "argmax": (lambda x: np_.argmax(x, 1), lambda x: np.argmax(x, 1).astype(np.int32)),
    "argmin": (lambda x: np_.argmin(x, 0), lambda x: np.argmin(x, 0).astype(np.int32)),
    "cumlogsumexp": (
        lambda x: weft.lax.cumlogsumexp(x, 1, reverse=True),
        lambda x: np.logaddexp.accumulate(x[:, ::-1], 1)[:, ::-1],
    ),
    "sums at repeated rows": (lambda x: x.at[rows()].add(x[:4]), lambda x: _at(x, np.add)),
    "maxima at repeated rows": (lambda x: x.at[rows()].max(x[:4]), lambda x: _at(x, np.maximum)),
    "rows written": (
        lambda x: x.at[rows()[1:]].set(x[:3], mode="drop"),
        lambda x: np.concatenate([x[:2], x[:1], x[3:4], x[1:2]]),
    ),
    "taken along rows": (
        lambda x: np_.take_along_axis(x, np_.argsort(x, axis=1), 1),
        lambda x: np.sort(x, 1),
    ),
    "any reduction": (
        lambda x: weft.lax.reduce((x, -x), (np.float32(0),) * 2, _largest_sizes, (1,))[1],
        lambda x: -x[range(5), np.abs(x).argmax(1)],
    ),
    "where": (lambda x: np_.where(x > 0, x, -1), lambda x: np.where(x > 0, x, -1)),
    "broadcast": (
        lambda x: x[:, None, :] + x[None, :, :],
        lambda x: x[:, None, :] + x[None, :, :],
    ),
}


def _padded(x):
    wide = np.full((x.shape[0] + 3, 2 * x.shape[1]), 7, np.float32)
    wide[1:-2, 0:-1:2] = x
    return wide


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_are_no_powers_of_two(name):
    f, reference = SHAPES[name]
    x = normal(5, 11)
    want = reference(x)
    np.testing.assert_allclose(elementwise(f, x, out=want), want, rtol=1e-5, atol=1e-5)


COMPLEX = {
    "arithmetic": lambda xp, x, y: x * y + x / y - y.conj(),
    "functions": lambda xp, x, y: xp.exp(x) + xp.log(y) * abs(x),
    "product": lambda xp, x, y: x @ y.T,
    "sum": lambda xp, x, y: (x * y.real).sum(1),
    "choice": lambda xp, x, y: xp.where(abs(x) > abs(y), x, y)[:, ::-1],
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_are_pairs_of_floats(name):
    x, y = (normal(5, 11) + 1j * normal(5, 11) for _ in range(2))
    x, y = x.astype(np.complex64), y.astype(np.complex64)
    want = COMPLEX[name](np, x, y)
    got = elementwise(lambda x, y: COMPLEX[name](np_, x, y), x, y, out=want)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["softmax", "gelu", "silu", "log_softmax"])
def test_functions_that_stand_for_formulas(name):
    x = normal(3, 10)
    e = np.exp(x - x.max(-1, keepdims=True))
    want = {
        "softmax": e / e.sum(-1, keepdims=True),
        "log_softmax": np.log(e / e.sum(-1, keepdims=True)),
        "silu": x / (1 + np.exp(-x)),
        "gelu": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    }[name]
    got = elementwise(getattr(weft.nn, name), x, out=want)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_loops_carry_values_and_branches_choose():
    def kernel(x, out):
        def step(i, total):
            row = x[i, :]
            return weft.lax.cond(i % 2 == 0, lambda: total + row, lambda: total - 2 * row)

        out[...] = weft.lax.fori_loop(0, x.shape[0], step, np_.zeros(x.shape[1]))

    x = normal(7, 12)
    want = x[0::2].sum(0) - 2 * x[1::2].sum(0)
    got = on_gpu(pl.pallas_call(kernel, shape(12)), x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_while_loop_runs_until_its_condition_fails():
    def kernel(x, out):
        out[0] = weft.lax.while_loop(lambda v: v < 100.0, lambda v: v * x[0], x[0])

    assert on_gpu(pl.pallas_call(kernel, shape(1)), np.float32([3.0]))[0] == 243.0


def test_a_scan_reads_slices_and_stacks_results():
    def kernel(x, out):
        total, sums = weft.lax.scan(lambda c, row: (c + row, c + row), np_.zeros(8), x[...])
        out[...] = sums + 0 * total

    x = normal(6, 8)
    got = on_gpu(pl.pallas_call(kernel, shape(6, 8)), x)
    np.testing.assert_allclose(got, np.cumsum(x, 0), rtol=1e-5, atol=1e-5)


def test_index_arrays_masks_and_strides_address_single_elements():
    def kernel(table, which, out):
        picked = table[which[...], :]
        out[...] = pl.load(table, (pl.ds(0, 4), slice(None)), mask=which[...][:, None] > 1) + picked

    table, which = normal(9, 5), np.int32([3, 1, 8, 0])
    want = np.where(which[:, None] > 1, table[:4], 0) + table[which]
    np.testing.assert_allclose(on_gpu(pl.pallas_call(kernel, shape(4, 5)), table, which), want)


def test_atomics_count_repeated_positions():
    def kernel(x, zeros, out):
        pl.atomic_add(out, (x[...],), np_.ones(x.shape, "int32"))

    x = rng.integers(0, 10, 64).astype(np.int32)
    histogram = pl.pallas_call(
        kernel,
        shape(10, dtype="int32"),
        grid=4,
        in_specs=[pl.BlockSpec((16,), lambda i: (i,)), pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        input_output_aliases={1: 0},
    )
    got = on_gpu(histogram, x, np.zeros(10, np.int32))
    np.testing.assert_array_equal(got, np.bincount(x, minlength=10))


def test_scratch_and_scoped_scratch_are_a_programs_own():
    def kernel(x, out, tmp):
        tmp[...] = x[...] * 2

        def scoped(more):
            more[...] = tmp[...] + 1
            out[...] = more[...]

        pl.run_scoped(scoped, pl.LOCAL((8,), "float32"))

    block = pl.BlockSpec((8,), lambda i: (i,))
    f = pl.pallas_call(
        kernel,
        shape(32),
        grid=4,
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pl.LOCAL((8,), "float32")],
    )
    x = normal(32)
    np.testing.assert_allclose(on_gpu(f, x), 2 * x + 1)


def test_scalars_choose_blocks():
    def kernel(order, x, out):
        out[...] = x[...] * 10

    spec = pl.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((2, 8), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((2, 8), lambda i, order: (i, 0)),
    )
    order, x = np.int32([2, 0, 3, 1]), normal(8, 8)
    got = on_gpu(pl.pallas_call(kernel, shape(8, 8), grid_spec=spec), order, x)
    np.testing.assert_allclose(got, 10 * x.reshape(4, 2, 8)[order].reshape(8, 8))


def test_vmap_adds_a_grid_dimension():
    def kernel(x, out):
        out[...] = x[...] + pl.program_id(0)

    block = pl.BlockSpec((4,), lambda i: (i,))
    f = pl.pallas_call(kernel, shape(8), grid=2, in_specs=[block], out_specs=block)
    x = normal(3, 8)
    np.testing.assert_allclose(on_gpu(weft.vmap(f), x), x + np.repeat([0, 1], 4))


# Several programs at once --------------------------------------------------------------------


def pipeline(n=6):
    """A producer hands blocks to a consumer through two shared buffers."""
    first = pl.Mesh({"a": 1}, name="producer")
    second = pl.Mesh({"b": 1}, name="consumer")

    def produce(x, out, buffers, full, empty):
        for i in range(n):
            if i >= 2:
                pl.semaphore_wait(empty, 1)
            buffers[i % 2, :] = x[i, :] * 2
            pl.semaphore_signal(full, 1)

    def consume(x, out, buffers, full, empty):
        for i in range(n):
            pl.semaphore_wait(full, 1)
            out[i, :] = buffers[i % 2, :] + 1
            pl.semaphore_signal(empty, 1)

    return pl.mpmd_map(
        [(first, produce), (second, consume)],
        shape(n, 16),
        scratch_shapes=[
            pl.SHARED((2, 16), "float32"),
            pl.SemaphoreType.REGULAR @ pl.SHARED,
            pl.SemaphoreType.REGULAR @ pl.SHARED,
        ],
    )


def test_a_producer_and_a_consumer_run_at_the_same_time():
    x = normal(6, 16)
    call = call_of(pipeline(), x)
    assert build(call).programs == 2
    np.testing.assert_allclose(run(call, x)[0], 2 * x + 1)


def test_cores_that_wait_without_taking_leave_the_count_to_the_others():
    mesh = pl.Mesh({"core": 3}, name="worker")

    def body(out, go, done):
        i = weft.lax.axis_index("core")

        @pl.when(i == 0)
        def _():
            pl.semaphore_signal(go, 2)

        pl.semaphore_wait(go, 2, decrement=False)
        out[i] = pl.semaphore_read(go)
        pl.semaphore_signal(done, 1)

        @pl.when(i == 0)
        def _():
            pl.semaphore_wait(done, 3)
            pl.semaphore_wait(go, 2)

    semaphore = pl.SemaphoreType.REGULAR @ pl.SHARED
    f = pl.mpmd_map([(mesh, body)], shape(3, dtype="int32"), scratch_shapes=[semaphore, semaphore])
    call = call_of(f)
    build(call)
    np.testing.assert_array_equal(run(call)[0], [2, 2, 2])


def test_cores_exchange_parts_and_meet_at_a_barrier():
    mesh = pl.Mesh({"core": 4}, name="worker")

    def body(x, out, tmp, meet, arrived):
        i = weft.lax.axis_index("core")
        tmp[i, :] = x[i, :] + 1
        pl.core_barrier(meet)
        copy = pl.async_copy(tmp.at[(i + 1) % 4], out.at[i], arrived)
        copy.start()
        copy.wait()

    f = pl.mpmd_map(
        [(mesh, body)],
        shape(4, 8),
        scratch_shapes=[
            pl.SHARED((4, 8), "float32"),
            pl.SemaphoreType.BARRIER @ pl.SHARED,
            pl.SemaphoreType.DMA @ mesh,
        ],
    )
    x = normal(4, 8)
    np.testing.assert_allclose(on_gpu(f, x), np.roll(x + 1, -1, axis=0))


# Lowering and errors -------------------------------------------------------------------------


def test_the_call_that_xla_gets_holds_the_kernels_ir_and_launch():
    def kernel(x, out):
        out[...] = x[...] + 1

    block = pl.BlockSpec((8,), lambda i: (i,))
    f = pl.pallas_call(kernel, shape(32), grid=4, in_specs=[block], out_specs=block)
    text = weft.jit(f).trace(shape(32)).lower(lowering_platforms=("cuda",)).as_text()
    assert "__gpu$xla.gpu.triton" in text
    assert "grid_x = 4 : i32" in text
    assert "tt.func public" in text


@pytest.mark.parametrize("split", [True, False])
def test_calls_with_scratch_and_semaphores_are_split_and_so_is_their_scratch(split):
    def kernel(x, out, twice, done):
        twice[...] = x[...] * 2
        pl.async_copy(twice, out, done).start().wait()

    block = pl.BlockSpec((2, 16), lambda i: (i, 0))
    f = pl.pallas_call(
        kernel,
        shape(32, 16),
        grid=16,
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pl.LOCAL((2, 16), "float32"), pl.SemaphoreType.DMA],
        sharding_rule="r c -> r c",
    )
    mesh = weft.make_mesh((4, 2), ("x", "y"))
    spec = weft.P("x") if split else weft.P(None, "y")  # columns are one block: gathered
    x = weft.device_put(normal(32, 16), weft.NamedSharding(mesh, spec))
    lowered = weft.jit(f, partitioner="weft").trace(x).lower(lowering_platforms=("cuda",))
    text = str(lowered.stages.local)
    (line,) = (line for line in text.splitlines() if "stablehlo.custom_call" in line)
    programs, rows = (4, 8) if split else (16, 32)
    assert f"grid_x = {programs} : i32" in line
    signature = line[line.rindex(" : (") :]
    assert signature == (
        f" : (tensor<{rows}x16xf32>, tensor<{programs}xi32>) -> "
        f"(tensor<{rows}x16xf32>, tensor<{programs}x2x16xf32>, tensor<{programs}xi32>)"
    )
    assert ("all_gather" in text) is not split


def test_more_cores_than_processors_are_refused():
    mesh = pl.Mesh({"core": PROCESSORS + 1}, name="worker")

    def body(x, out):
        out[weft.lax.axis_index("core")] = x[0]

    call = call_of(pl.mpmd_map([(mesh, body)], shape(PROCESSORS + 1)), normal(1))
    with pytest.raises(ValueError, match=f"needs as many processors at once.*{PROCESSORS}"):
        check_resident(call, build(call), PROCESSORS)


def test_an_op_that_triton_lacks_is_named_with_its_line():
    def kernel(x, out):
        out[...] = weft.lax.linalg.schur(x[...])[0]

    call = call_of(pl.pallas_call(kernel, shape(4, 4)), normal(4, 4))
    with pytest.raises(TypeError, match=r"schur \(.*test_gpu.py:\d+.*\).*GPU.*interpret=True"):
        build(call)


def test_arrays_of_4_bits_are_refused_with_the_remedy_and_values_wrap_around():
    def kernel(x, out):
        out[...] = x[...].astype("float32")

    call = call_of(pl.pallas_call(kernel, shape(8)), np_.ones(8, "int4"))
    with pytest.raises(pl.UnsupportedKernelError, match=r"int4.*GPU.*int8 outside"):
        build(call)

    def inside(x, out):
        out[...] = (x[...].astype("int4") + np_.int4(7)).astype("int8")

    x = np.arange(8, dtype=np.int8)
    got = on_gpu(pl.pallas_call(inside, shape(8, dtype="int8")), x)
    np.testing.assert_array_equal(got, (x + 15) % 16 - 8)


# Ops made of others --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 5, 8, 13])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_rows_and_columns_are_sorted_stably(size, dtype):
    x = rng.integers(0, 6, (3, size)).astype(dtype)
    if dtype == "float32":
        x[0, -1] = np.nan
    y = np.arange(3 * size, dtype=np.int32).reshape(3, size)
    np.testing.assert_array_equal(
        elementwise(lambda x: np_.sort(x, axis=1), x, out=x), np.sort(x, 1)
    )
    np.testing.assert_array_equal(
        elementwise(lambda x: np_.sort(x, axis=0), x, out=x), np.sort(x, 0)
    )
    order = np.argsort(x, axis=1, kind="stable")
    moved = elementwise(lambda x, y: weft.lax.sort((x, y), num_keys=1)[1], x, y, out=y)
    np.testing.assert_array_equal(moved, np.take_along_axis(y, order, 1))


def test_rows_are_sorted_by_two_keys():
    a, b, c = rng.integers(0, 3, (3, 2, 11)).astype(np.int32)
    got = elementwise(lambda a, b, c: weft.lax.sort((a, b, c), num_keys=2)[2], a, b, c, out=c)
    for g, keys in zip(got, zip(a, b, c, strict=True), strict=True):
        np.testing.assert_array_equal(g, keys[2][np.lexsort((keys[1], keys[0]))])


def test_the_greatest_elements_come_first_and_of_equals_the_first():
    x = rng.integers(0, 5, (4, 10)).astype(np.float32)

    def kernel(x, values, places):
        values[...], places[...] = weft.lax.top_k(x[...], 3)

    f = pl.pallas_call(kernel, [shape(4, 3), shape(4, 3, dtype="int32")])
    values, places = on_gpu(f, x)
    order = np.argsort(-x, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("start", [(0, 0), (2, 5), (9, -3)])
def test_a_part_is_written_at_a_traced_place(start):
    x, y = normal(6, 9), normal(3, 4)
    f = lambda x, y, at: weft.lax.dynamic_update_slice(x, y, (at[0], at[1]))
    want = x.copy()
    i, j = (
        min(max(s + n if s < 0 else s, 0), n - m)
        for s, n, m in zip(start, x.shape, y.shape, strict=True)
    )
    want[i : i + 3, j : j + 4] = y

    def kernel(x, y, at, out):
        out[...] = f(x[...], y[...], (at[0], at[1]))

    at = np.array(start, np.int32)
    np.testing.assert_array_equal(on_gpu(pl.pallas_call(kernel, shape(6, 9)), x, y, at), want)

"""Kernels for the GPU, compiled by XLA's own Triton for GPUs that are not there."""

import numpy as np
import pytest

import weft
from examples.kernels.flash_attention import flash_attention
from examples.kernels.histogram import histogram
from examples.kernels.layer_norm import layer_norm
from examples.kernels.matmul import matmul
from examples.kernels.pipeline import two_layers
from examples.kernels.softmax import softmax
from examples.kernels.stencil import diffuse
from tests.gpu_machine import compiled, mesh_of, placed
from weft import lax

pytestmark = pytest.mark.accelerators

pl = weft.pallas
np_ = weft.numpy
GPUS = ["a100", "h100"]


def struct(*sizes, dtype="float32"):
    return weft.ShapeDtypeStruct(sizes, dtype)


def check(function, *types, gpu="h100"):
    """Compiles a function of arrays for a GPU; a kernel that Triton refuses is an error."""
    mesh = mesh_of(f"{gpu}:1")
    executable = compiled(function, *(placed((t.shape, t.dtype), mesh) for t in types))
    assert "__gpu$xla.gpu.triton" in executable.as_text()
    return executable


def kernel_of(function, *types, **options):
    """A kernel of whole arrays: one output for each of the function's results."""
    outs = weft.eval_shape(function, *types)
    outs = outs if isinstance(outs, list | tuple) else [outs]

    def kernel(*refs):
        results = function(*(r[...] for r in refs[: len(types)]))
        results = results if isinstance(results, list | tuple) else [results]
        for ref, x in zip(refs[len(types) :], results, strict=True):
            ref[...] = x

    return pl.pallas_call(kernel, [struct(*o.shape, dtype=o.dtype) for o in outs], **options)


EXAMPLES = {
    "matmul": (matmul, struct(512, 4096, dtype="float16"), struct(4096, 256, dtype="float16")),
    "softmax": (softmax, struct(1024, 1000)),
    "layer norm": (layer_norm, struct(256, 1024), struct(1024), struct(1024)),
    "its gradient": (
        weft.grad(lambda *args: layer_norm(*args).sum(), (0, 1, 2)),
        *(struct(256, 512), struct(512), struct(512)),
    ),
    "attention": (
        lambda q, k, v: flash_attention(q, k, v, True, 64, 32),
        *[struct(2, 512, 32)] * 3,
    ),
    "stencil": (lambda x: diffuse(x, rows=8), struct(64, 254)),
    "pipeline": (two_layers, struct(256, 64), struct(64, 64), struct(64, 64)),
    "histogram": (lambda x: histogram(x, 256), struct(4096, dtype="int32")),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_compile(name):
    function, *types = EXAMPLES[name]
    for gpu in GPUS if name in ("matmul", "attention", "pipeline") else ["h100"]:
        check(function, *types, gpu=gpu)


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"]


def arithmetic(x, y):
    """Results of every operation on numbers, in the dtype of x or as booleans."""
    one = np_.ones_like(x)
    yield from (x + y, x - y, x * y, lax.div(x, y + one), lax.rem(x, y + one), -x)
    yield from (np_.maximum(x, y), np_.minimum(x, y), abs(x), np_.sign(x), lax.clamp(one, x, y))
    yield from (x < y, x <= y, x > y, x >= y, x == y, x != y, np_.where(x > y, x, y), x**3)
    if np_.issubdtype(x.dtype, np.floating):
        yield from (np_.isfinite(x), lax.integer_pow(x, -2))
    else:
        yield from (x & y, x | y, x ^ y, ~x, x << y, x >> y, lax.shift_right_logical(x, y))
        yield from (lax.population_count(x), lax.clz(x))


def functions(x):
    yield from (np_.exp(x), np_.exp2(x), np_.expm1(x), np_.log(x), np_.log2(x), np_.log1p(x))
    yield from (np_.sin(x), np_.cos(x), np_.tan(x), np_.arcsin(x), np_.arccos(x), np_.arctan(x))
    yield from (np_.sinh(x), np_.cosh(x), np_.tanh(x), np_.arcsinh(x), np_.arccosh(x))
    yield from (np_.arctanh(x), np_.sqrt(x), lax.rsqrt(x), np_.cbrt(x), lax.logistic(x))
    yield from (np_.floor(x), np_.ceil(x), np_.rint(x), lax.round(x), lax.erf(x), lax.erfc(x))
    yield from (lax.erf_inv(x), lax.lgamma(x), np_.power(x, x), np_.arctan2(x, x))


def reductions(x):
    yield from (x.sum(0), x.sum(), x.prod(1), x.max(0), x.min(1), np_.argmax(x, 0))
    yield from (np_.argmin(x, 1), np_.cumsum(x, 1, dtype=x.dtype), lax.cumprod(x, 0))
    yield from (lax.cummax(x, 1, reverse=True), lax.cummin(x, 0))


def movements(x):
    yield from (x.T, x.reshape(32, 8), x[::-1], x[1:9:2, 3:], np_.pad(x, ((1, 2), (0, 3))))
    yield from (np_.concatenate([x, x[:3]]), np_.broadcast_to(x[None], (2, 16, 16)))
    yield from (lax.dynamic_slice(x, (x[0, 0].astype("int32"), 2), (4, 4)), np_.roll(x, 3, 1))
    yield lax.dynamic_update_slice(x, x[:4, :4], (x[0, 0].astype("int32"), 2))


@pytest.mark.parametrize(
    ("dtype", "gpu"),
    [(d, "a100") for d in ["int8", "uint16", "int32", "uint64", *FLOATS]]
    + [(d, "h100") for d in FLOATS[:2]],
)
def test_operations_on_numbers_of_every_dtype_compile(dtype, gpu):
    with weft.enable_x64(True):
        x = struct(16, 16, dtype=dtype)
        families = [lambda x: arithmetic(x, x[::-1]), reductions, movements]
        if dtype in FLOATS:
            families.append(functions)
        for family in families:
            check(kernel_of(lambda x, family=family: list(family(x)), x), x, gpu=gpu)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_functions_by_formulas_compile(dtype):
    def made(x):
        yield from (lax.digamma(x), lax.zeta(x, x), lax.polygamma(x, x), lax.bessel_i1e(x))
        yield from (lax.nextafter(x, x.T), lax.reduce_precision(x, 3, 1), lax.cumlogsumexp(x, 1))

    x = struct(16, 16, dtype=dtype)
    check(kernel_of(lambda x: list(made(x)), x), x)


def test_picked_elements_windows_and_random_numbers_compile():
    def made(x, i):
        yield from (x[i], x[i, i], np_.take(x > 0, i, axis=1), x.reshape(8, 18))
        yield lax.reduce_window(x, -np.inf, lax.max, (2, 3), (1, 2), "SAME")
        yield lax.conv_general_dilated(x[None, None], x[None, None, :3, :3], (1, 1), "SAME")
        yield weft.random.normal(weft.random.fold_in(weft.random.key(3), i[0]), (24,))

    types = struct(12, 12), struct(5, dtype="int32")
    check(kernel_of(lambda x, i: list(made(x, i)), *types), *types)


@pytest.mark.parametrize("gpu", GPUS)
def test_conversions_between_all_dtypes_compile(gpu):
    every = ["bool", *INTEGERS, *FLOATS]
    with weft.enable_x64(True):
        for old in every if gpu == "a100" else FLOATS[:2]:
            x = struct(16, 16, dtype=old)
            check(kernel_of(lambda x: [x.astype(new) for new in every], x), x, gpu=gpu)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("sizes", [(32, 64, 32), (4, 64, 24)])
def test_products_of_floats_and_bytes_compile(sizes, gpu):
    m, k, n = sizes
    with weft.enable_x64(True):
        for dtype in [*FLOATS, "int8"]:
            types = struct(m, k, dtype=dtype), struct(k, n, dtype=dtype)
            out = {"int8": "int32", "float64": "float64"}.get(dtype, "float32")
            product = lambda x, y, out=out: lax.dot(x, y, preferred_element_type=out)
            check(kernel_of(product, *types), *types, gpu=gpu)


def test_products_of_other_integers_compile():
    with weft.enable_x64(True):
        for dtype in ("uint8", "int16", "uint32", "int64"):
            x = struct(32, 32, dtype=dtype)
            check(kernel_of(lambda x: [lax.dot(x, x), lax.dot(x[:4], x)], x), x)


def test_dot_precisions_and_forms_compile():
    x, batch = struct(32, 32), struct(4, 32, 32)
    products = [
        lambda x, b, p=p: lax.dot(x, x, precision=p) for p in ("default", "high", "highest")
    ]
    products += [
        lambda x, b: np_.einsum("bij,bjk->bik", b, b),
        lambda x, b: lax.dot_general(x, x, (((0,), (1,)), ((), ()))),
        lambda x, b: x @ x[0],
        lambda x, b: (b.astype("bfloat16")[0] @ x.astype("bfloat16")).astype("float32"),
    ]
    check(kernel_of(lambda x, b: [f(x, b) for f in products], x, batch), x, batch)


def test_sorted_rows_compile_in_time():
    x = struct(8, 32, dtype="bfloat16")
    check(kernel_of(lambda x: [np_.sort(x, 1), lax.top_k(x, 4)[0]], x), x)


@pytest.mark.parametrize("gpu", ["a100"])
def test_atomics_masks_and_gathers_compile(gpu):
    def kernel(x, rows, *outs):
        for out in outs:
            value = x[...].astype(out.dtype)
            pl.atomic_add(out, (rows[...],), value)
            if out.dtype.itemsize >= 4:
                pl.atomic_xchg(out, (rows[...],), value, mask=rows[...] > 2)
            if not np_.issubdtype(out.dtype, np.floating):
                pl.atomic_max(out, (rows[...],), value)
                pl.atomic_and(out, (rows[...],), value)
            out[...] = pl.load(out, (rows[...],), mask=rows[...] < 9, other=value)

    with weft.enable_x64(True):
        dtypes = ["int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
        outs = [struct(16, dtype=d) for d in dtypes]
        check(pl.pallas_call(kernel, outs), struct(16), struct(16, dtype="int32"), gpu=gpu)


@pytest.mark.parametrize("gpu", ["h100"])
def test_control_flow_with_carried_values_and_refs_compiles(gpu):
    def kernel(x, out, log, tmp):
        def step(i, carry):
            tmp[...] += carry[1]

            @pl.when(i % 2 == 0)
            def _():
                log[i % 4, :] = tmp[0, :]

            total = lax.switch(i % 3, [lambda c: c + 1, lambda c: c * 2, lambda c: c], carry[1])
            return carry[0] + 1, total + log[0, :]

        tmp[...] = x[...]
        _, total = lax.fori_loop(0, 9, step, (0, x[0]))
        more, _ = lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * 2, c[1] + 1), (x[...], 0))
        rows = lax.scan(lambda c, r: (c + r, c * r), x[0], x[...])[1]
        out[...] = tmp[...] + more + total + rows

    f = pl.pallas_call(
        kernel, [struct(16, 32), struct(4, 32)], scratch_shapes=[pl.LOCAL((16, 32), "float32")]
    )
    check(f, struct(16, 32), gpu=gpu)


@pytest.mark.parametrize("gpu", GPUS)
def test_programs_that_wait_for_each_other_compile(gpu):
    first, second = pl.Mesh({"a": 2}, name="first"), pl.Mesh({"b": 1}, name="second")

    def send(x, out, box, full, meet, done):
        i = lax.axis_index("a")
        pl.async_copy(x.at[i], box.at[i], done).start().wait()
        pl.core_barrier(meet)
        pl.semaphore_signal(full, 1)

    def receive(x, out, box, full, meet, done):
        pl.semaphore_wait(full, 2)
        out[...] = box[...] * pl.semaphore_read(full).astype("float32")

    f = pl.mpmd_map(
        [(first, send), (second, receive)],
        struct(2, 64),
        scratch_shapes=[
            pl.SHARED((2, 64), "float32"),
            pl.SemaphoreType.REGULAR @ pl.SHARED,
            pl.SemaphoreType.BARRIER @ first,
            pl.SemaphoreType.DMA @ first,
        ],
    )
    check(f, struct(2, 64), gpu=gpu)


def test_what_is_printed_and_checked_compiles():
    def kernel(x, out):
        pl.debug_print("first {} of all", x[0])
        pl.debug_check(x[0] > 0, "must be positive")
        out[...] = x[...]

    check(pl.pallas_call(kernel, struct(64), debug=True), struct(64))


def test_offsets_beyond_int32_compile():
    block = pl.BlockSpec((None, 1024), lambda i: (i, 0))

    def kernel(x, out):
        out[...] = x[...] + 1

    f = pl.pallas_call(
        kernel, struct(1 << 22, 1024, dtype="int8"), grid=1 << 22, in_specs=[block], out_specs=block
    )
    check(f, struct(1 << 22, 1024, dtype="int8"))


def test_loops_that_load_ahead_and_write_print_and_check_compile():
    def kernel(a, b, out, log):
        def step(k, total):
            part = pl.ds(k * 64, 64)
            total += np_.dot(a[:, part], b[part, :], preferred_element_type="float32")
            log[k] = log[0] + total.sum(0)
            pl.atomic_add(log, (k, np_.arange(64)), total[0])
            pl.debug_print("step {}", k)
            pl.debug_check(total[0, 0] > 0, "must be positive")
            return lax.cond(k > 3, lambda: total, lambda: total * 2)

        out[...] = lax.fori_loop(0, 8, step, np_.zeros((64, 64)))

    f = pl.pallas_call(kernel, [struct(64, 64), struct(8, 64)], debug=True)
    check(f, struct(64, 512, dtype="float16"), struct(512, 64, dtype="float16"))


def test_too_much_shared_memory_is_an_error_that_names_the_kernel():
    def kernel(a, b, out):
        out[...] = (a[...] * 2) @ b[...]

    f = pl.pallas_call(kernel, struct(64, 64), name="wide")
    with pytest.raises(RuntimeError, match=r"kernel \(wide\).*shared memory.*smaller blocks"):
        check(f, struct(64, 2048), struct(2048, 64))

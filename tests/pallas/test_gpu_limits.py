"""What Triton and a launch do not take: refused with the remedy, or written in another way."""

import numpy as np
import pytest

import weft
from tests.pallas.test_gpu import call_of, on_gpu, shape
from weft.pallas.gpu.program import build

pl = weft.pallas
np_ = weft.numpy
rng = np.random.default_rng(11)


def built(function, *args, platform="cuda"):
    return build(call_of(function, *args), platform)


@pytest.mark.parametrize(
    ("how", "dtype"), [("add", "int16"), ("max", "int8"), ("xchg", "float16"), ("add", "uint8")]
)
def test_atomics_of_short_numbers_are_refused(how, dtype):
    def kernel(x, out):
        getattr(pl, f"atomic_{how}")(out, (0,), x[0])

    x = np.ones(4, dtype)
    f = pl.pallas_call(kernel, shape(4, dtype=dtype), input_output_aliases={0: 0})
    with pytest.raises(pl.UnsupportedKernelError, match=rf"atomic {how} of {dtype}.*32 and 64"):
        built(f, x)


def test_float16_is_added_atomically_and_repeated_positions_of_bytes_are_refused():
    def kernel(x, rows, out):
        pl.addupdate(out, (rows[...],), x[...])

    rows = np.array([1, 1, 3, 0], np.int32)
    for dtype, fine in (("float16", True), ("int8", False)):
        f = pl.pallas_call(kernel, shape(4, dtype=dtype), input_output_aliases={0: 0})
        x = np.ones(4, dtype)
        if fine:
            np.testing.assert_array_equal(on_gpu(f, x, rows), [2, 3, 1, 2])
        else:
            with pytest.raises(pl.UnsupportedKernelError, match="atomic add of int8"):
                built(f, x, rows)


@pytest.mark.parametrize(("k", "units"), [(16, False), (32, True)])
def test_matrix_units_take_32_numbers_of_a_byte(k, units):
    a = rng.integers(-128, 128, (16, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, 16)).astype(np.int8)

    def kernel(a, b, out):
        out[...] = weft.lax.dot(a[...], b[...], preferred_element_type=np.int32)

    f = pl.pallas_call(kernel, shape(16, 16, dtype="int32"))
    assert ("tt.dot" in str(built(f, a, b).module)) == units
    np.testing.assert_array_equal(on_gpu(f, a, b), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("dtype", ["int16", "uint8", "int32"])
def test_long_products_of_integers_are_summed_part_by_part(dtype):
    a, b = (rng.integers(0, 100, s).astype(dtype) for s in ((24, 200), (200, 17)))

    def kernel(a, b, out):
        out[...] = weft.lax.dot(a[...], b[...], preferred_element_type=np.int32)

    f = pl.pallas_call(kernel, shape(24, 17, dtype="int32"))
    assert "scf.for" in str(built(f, a, b).module)
    np.testing.assert_array_equal(on_gpu(f, a, b), a.astype(np.int32) @ b.astype(np.int32))


def test_scratch_of_all_programs_beyond_2_to_the_31_has_offsets_of_64_bits():
    def kernel(x, out, tmp):
        tmp[...] = x[...]
        out[...] = tmp[...] + 1

    def make(n):
        block = pl.BlockSpec((64,), lambda i: (i,))
        return pl.pallas_call(
            kernel,
            shape(64 * n),
            grid=n,
            in_specs=[block],
            out_specs=block,
            scratch_shapes=[pl.LOCAL((64,), "float32")],
            compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
        )

    text = str(built(make(1 << 24), shape(1 << 30)).module)
    assert "tt.addptr" in text and "i64" not in text
    pointers = [
        line
        for line in str(built_wide(kernel).module).splitlines()
        if "tt.addptr" in line and "i64" in line
    ]
    assert pointers


def built_wide(kernel):
    """Programs of 2**16 × 2**11, each with scratch of 64: 2**33 elements."""
    call = pl.pallas_call(
        kernel,
        shape(1 << 16, 1 << 11, 64, dtype="int8"),
        grid=(1 << 16, 1 << 11),
        in_specs=[pl.BlockSpec((None, None, 64), lambda i, j: (0, 0, 0))],
        out_specs=pl.BlockSpec((None, None, 64), lambda i, j: (i, j, 0)),
        scratch_shapes=[pl.LOCAL((64,), "int8")],
        compiler_params=pl.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )
    return built(call, shape(1, 1, 64, dtype="int8"))


def test_dimensions_and_grids_beyond_int32_are_refused():
    def kernel(x, out):
        out[...] = x[...]

    block = pl.BlockSpec((1024,), lambda i: (i,))
    long = pl.pallas_call(
        kernel,
        shape(1 << 32, dtype="int8"),
        grid=1 << 22,
        in_specs=[block],
        out_specs=block,
    )
    with pytest.raises(pl.UnsupportedKernelError, match=r"dimension of 2\*\*31 or more"):
        built(long, shape(1 << 32, dtype="int8"))
    one = pl.BlockSpec((None, None, 1), lambda i, j: (i, j, 0))
    many = pl.pallas_call(
        kernel,
        shape(1 << 16, 1 << 16, 1, dtype="int8"),
        grid=(1 << 16, 1 << 16),
        in_specs=[one],
        out_specs=one,
    )
    with pytest.raises(pl.UnsupportedKernelError, match="larger than a launch can be"):
        built(many, shape(1 << 16, 1 << 16, 1, dtype="int8"))


@pytest.mark.parametrize(
    ("platform", "single", "double"),
    [("cuda", "__nv_tanhf", "__nv_tanh"), ("rocm", "__ocml_tanh_f32", "__ocml_tanh_f64")],
)
def test_functions_come_from_the_gpus_own_library(platform, single, double):
    def kernel(x, y, a, b):
        a[...], b[...] = np_.tanh(x[...]), np_.tanh(y[...])

    with weft.enable_x64(True):
        f = pl.pallas_call(kernel, [shape(8), shape(8, dtype="float64")])
        text = str(built(f, np.ones(8, "f4"), np.ones(8, "f8"), platform=platform).module)
    assert f'"{single}"' in text and f'"{double}"' in text


def test_a_kernel_that_prints_runs_even_if_nobody_reads_its_results():
    def kernel(x, out):
        pl.debug_print("x {}", x[0])
        out[...] = x[...]

    f = pl.pallas_call(kernel, shape(8))
    text = weft.jit(f).trace(shape(8)).lower(lowering_platforms=("cuda",)).as_text()
    assert "has_side_effect = true" in text


def test_functions_of_a_platform_are_chosen_by_it():
    def kernel(x, out):
        out[...] = weft.lax.platform_dependent(
            x[...], cpu=lambda x: x + 1, cuda=lambda x: x + 2, gpu=lambda x: x + 3
        )

    f = pl.pallas_call(kernel, shape(8))
    x = np.zeros(8, np.float32)
    np.testing.assert_array_equal(f(x), x + 1)
    np.testing.assert_array_equal(on_gpu(f, x), x + 2)
    assert str(built(f, x).module) != str(built(f, x, platform="rocm").module)


def test_a_function_for_no_platform_of_the_kernel_is_refused():
    def kernel(x, out):
        out[...] = weft.lax.platform_dependent(x[...], tpu=lambda x: x + 1)

    f = pl.pallas_call(kernel, shape(8))
    x = np.zeros(8, np.float32)
    with pytest.raises(pl.UnsupportedKernelError, match="no function for cuda, and no default"):
        built(f, x)
    with pytest.raises(pl.UnsupportedKernelError, match="no function for cpu, and no default"):
        f(x)


LEFT, RIGHT = pl.Mesh({"a": 1}, name="left"), pl.Mesh({"b": 1}, name="right")


def waiting(wait, limit):
    """A kernel whose second program waits for what the first never does."""

    def first(x, out, flag):
        out[0] = x[0]

    def second(x, out, flag):
        wait(flag)

    return pl.mpmd_map(
        [(LEFT, first), (RIGHT, second)],
        shape(1),
        [pl.SemaphoreType.REGULAR @ pl.SHARED],
        compiler_params=pl.CompilerParams(wait_limit=limit),
        name="patient",
    )


WAITS = {
    "semaphore_wait": lambda flag: pl.semaphore_wait(flag),
    "semaphore_read": lambda flag: weft.lax.while_loop(
        lambda seen: seen == 0, lambda seen: pl.semaphore_read(flag), 0
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_that_nobody_ends_ends_by_the_clock(name):
    x = np.ones(1, np.float32)
    line = r"patient: a wait lasted longer than 0.05 s.*test_gpu_limits.py"
    with pytest.raises(AssertionError, match=line):
        on_gpu(waiting(WAITS[name], 0.05), x)
    for limit, platform, timed in ((0, "cuda", False), (1, "rocm", False), (1, "cuda", True)):
        text = str(built(waiting(WAITS[name], limit), x, platform=platform).module)
        assert ("%globaltimer" in text) == timed

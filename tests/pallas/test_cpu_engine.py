"""The CPU backend's own behaviour: its caches, its errors, debug mode, parallel grids."""

import resource
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl
from weft.native import engine
from weft.pallas.cpu.lower import kernel_text
from weft.pallas.order import parallel_dims


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


def call_of(kernel, outs, *args, **kwargs):
    """The kernel call that a pallas_call makes."""
    jaxpr = weft.make_jaxpr(pl.pallas_call(kernel, outs, **kwargs))(*args)
    return jaxpr.eqns[-1].params["call"]


def test_equal_kernels_are_compiled_once_a_process(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_KERNEL_CACHE_DIR", str(tmp_path))

    def make():
        def kernel(x, out):
            out[...] = x[...] * 2.625

        return pl.pallas_call(kernel, shape(5))

    before = dict(engine.statistics)
    x = np.ones(5, "f4")
    make()(x), make()(x)
    assert engine.statistics["compiled"] == before["compiled"] + 1
    assert engine.statistics["from_memory"] >= before["from_memory"] + 1
    assert len(list(tmp_path.glob("*.o"))) == 1


def test_another_process_takes_the_code_from_disk(tmp_path):
    program = textwrap.dedent("""
        import numpy as np, weft
        from weft import pallas as pl
        from weft.native import engine
        def kernel(x, out):
            out[...] = x[...] * 3
        out = pl.pallas_call(kernel, weft.ShapeDtypeStruct((4,), "float32"))(np.ones(4, "f4"))
        print(np.asarray(out).sum(), engine.statistics["compiled"], engine.statistics["from_disk"])
    """)
    import os

    environment = {**os.environ, "WEFT_KERNEL_CACHE_DIR": str(tmp_path)}
    lines = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert lines == [["12.0", "1", "0"], ["12.0", "0", "1"]]


def test_a_damaged_cache_file_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_KERNEL_CACHE_DIR", str(tmp_path))

    def kernel(x, out):
        out[...] = x[...] * 7.125

    x = np.ones(3, "f4")
    call = call_of(kernel, shape(3), x)
    (tmp_path / f"{engine.key_of(kernel_text(call))}.o").write_bytes(b"not an object file")
    np.testing.assert_allclose(np.asarray(pl.pallas_call(kernel, shape(3))(x)), 7.125)


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch):
    monkeypatch.setenv("WEFT_KERNEL_CACHE_DIR", "/proc/nowhere")

    def kernel(x, out):
        out[...] = x[...] * 9.375

    np.testing.assert_allclose(
        np.asarray(pl.pallas_call(kernel, shape(3))(np.ones(3, "f4"))), 9.375
    )


def test_the_code_of_a_kernel_stays_short():
    """`python -m benchmarks` measures how long it takes to compile this one."""

    def softmax(x, out):
        e = wnp.exp(x[...] - x[...].max(axis=1, keepdims=True))
        out[...] = e / e.sum(axis=1, keepdims=True)

    spec = pl.BlockSpec((8, 1024), lambda i: (i, 0))
    grid = {"grid": 512, "in_specs": [spec], "out_specs": spec}
    call = call_of(softmax, shape(4096, 1024), np.zeros((4096, 1024), "f4"), **grid)
    text = kernel_text(call)
    assert len(text.splitlines()) < 800
    assert len(str(engine.optimized(text)).splitlines()) < 1300


def test_compiling_a_kernel_leaves_no_memory_behind():
    def kernel(x, out):
        out[...] = wnp.tanh(x[...]) * 2

    text = kernel_text(call_of(kernel, shape(64), np.ones(64, np.float32)))

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()

    sizes = []
    for _ in range(5):
        for _ in range(10):
            engine.optimized(text)
        sizes.append(resident())
    # What is left behind is left each time; others in this process take memory now and then.
    assert min(np.diff(sizes)) < 10 * 30_000


def test_without_llvmlite_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(ImportError, match=r"weft\[kernels\].*interpret=True"):
        engine.Host()


def test_unsupported_ops_name_themselves_their_line_and_the_remedy():
    def kernel(x, out):
        out[...] = lax.rng_uniform(x[0], x[1], (4,))

    with pytest.raises(
        pl.UnsupportedKernelError, match=r"rng_uniform \(.*test_cpu_engine.py.*interpret=True"
    ):
        pl.pallas_call(kernel, shape(4))(np.ones(4, "f4"))


def test_an_unsupported_part_of_a_function_is_named_with_the_functions_line():
    def kernel(x, out):
        out[...] = lax.linalg.schur(x[...])[0]

    with pytest.raises(
        pl.UnsupportedKernelError, match=r"schur \(.*test_cpu_engine.py.*kernel\).*library calls"
    ):
        pl.pallas_call(kernel, shape(4, 4))(np.eye(4, dtype="f4"))


def test_debug_mode_reports_writes_out_of_bounds_and_keeps_memory_whole():
    index = np.array([100_000_000], "i4")

    def kernel(x, index, out):
        out[...] = x[...]
        out[index[0]] = 1.0

    call = pl.pallas_call(kernel, shape(8), debug=True, name="careless")
    with pytest.raises(Exception, match=r"kernel careless: set .*out of bounds in dimension 0"):
        np.asarray(call(np.zeros(8, "f4"), index))
    np.testing.assert_array_equal(
        np.asarray(call(np.zeros(8, "f4"), np.array([2], "i4"))), [0, 0, 1, 0, 0, 0, 0, 0]
    )


def test_debug_mode_checks_windows_and_index_arrays():
    def window(x, index, out):
        out[...] = x[pl.ds(index[0], 4)]

    with pytest.raises(Exception, match="get .*out of bounds"):
        np.asarray(
            pl.pallas_call(window, shape(4), debug=True)(np.zeros(8, "f4"), np.array([5], "i4"))
        )

    def scattered(x, index, out):
        out[...] = x[...]
        out[index[...]] = wnp.ones((2,), "float32")

    bad = np.array([1, -9_999_999], "i4")
    with pytest.raises(Exception, match="set .*out of bounds"):
        np.asarray(pl.pallas_call(scattered, shape(8), debug=True)(np.zeros(8, "f4"), bad))


def test_debug_mode_checks_the_blocks_that_index_maps_give():
    spec = pl.GridSpec(
        grid=(2,),
        num_scalar_prefetch=1,
        in_specs=[pl.BlockSpec((4,), lambda i, where: (i,))],
        out_specs=pl.BlockSpec((4,), lambda i, where: (where[i],)),
    )

    def kernel(where, x, out):
        out[...] = x[...]

    call = pl.pallas_call(kernel, shape(8), grid_spec=spec, debug=True)
    x = np.arange(8, dtype="f4")
    np.testing.assert_array_equal(np.asarray(call(np.array([1, 0], "i4"), x)), np.roll(x, 4))
    with pytest.raises(Exception, match="index map of .* gives a block out of bounds"):
        np.asarray(call(np.array([1, 77_777_777], "i4"), x))


def test_a_grid_without_points_runs_nothing():
    call = pl.pallas_call(copy, shape(4), grid=(3, 0))
    assert np.asarray(call(np.ones(4, "f4"))).shape == (4,)


def test_debug_checks_and_prints(capfd):
    def kernel(x, out):
        pl.debug_check(x[0] > 0, "x must be positive")
        pl.debug_print("x is {} of {}", x[0], wnp.int32(3))
        out[...] = x[...]

    call = pl.pallas_call(kernel, shape(2), debug=True)
    np.asarray(call(np.full(2, 1.5, "f4")))
    assert "x is 1.5 of 3" in capfd.readouterr().out
    with pytest.raises(Exception, match="x must be positive"):
        np.asarray(call(np.full(2, -1.0, "f4")))


# The order of programs -------------------------------------------------------------------------


def copy(x, out):
    out[...] = x[...]


def test_dimensions_that_outputs_follow_are_parallel():
    spec = pl.BlockSpec((8, 8), lambda i, j: (i, j))
    call = call_of(
        copy, shape(32, 32), np.zeros((32, 32), "f4"), grid=(4, 4), in_specs=[spec], out_specs=spec
    )
    assert parallel_dims(call) == [0, 1]


def test_revisited_blocks_and_carried_scratch_keep_the_order():
    rows = pl.BlockSpec((8, 32), lambda i, k: (i, 0))
    x = np.zeros((32, 32), "f4")
    call = call_of(copy, shape(32, 32), x, grid=(4, 3), in_specs=[rows], out_specs=rows)
    assert parallel_dims(call) == [0]

    def carrying(x, out, total):
        total[...] = total[...] + x[...]
        out[...] = total[...]

    def fresh(x, out, total):
        @pl.when(pl.program_id(1) == 0)
        def _():
            total[...] = x[...]

        total[...] = total[...] + x[...]
        out[...] = total[...]

    kwargs = {"grid": (4, 3), "in_specs": [rows], "out_specs": rows}
    kwargs["scratch_shapes"] = [pl.LOCAL((8, 32), "float32")]
    assert parallel_dims(call_of(carrying, shape(32, 32), x, **kwargs)) == []
    assert parallel_dims(call_of(fresh, shape(32, 32), x, **kwargs)) == [0]
    kwargs["compiler_params"] = pl.CompilerParams(dimension_semantics=("parallel", "arbitrary"))
    assert parallel_dims(call_of(carrying, shape(32, 32), x, **kwargs)) == [0]


def test_computed_block_numbers_are_not_taken_for_distinct():
    halves = pl.BlockSpec((8,), lambda i: (i // 2,))
    x = np.zeros((16,), "f4")
    call = call_of(copy, shape(16), x, grid=4, in_specs=[halves], out_specs=halves)
    assert parallel_dims(call) == []


def test_a_loop_of_calls_reuses_temporary_memory(rng):
    a = rng.standard_normal((64, 64)).astype("f4") / 8

    def kernel(a, out):
        out[...] = wnp.tanh(wnp.dot(a[...], a[...].T) * 0.5)

    call = pl.pallas_call(kernel, shape(64, 64))
    got = lax.fori_loop(0, 50, lambda i, c: call(c), a)
    want = a
    for _ in range(50):
        want = np.tanh(want @ want.T * 0.5)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-3, atol=1e-4)


FAR_APART = """
import mmap
import numpy as np
import weft
from weft.native import engine

def compile_one(n):
    values = ", ".join(f"i64 {i}" for i in range(n, n + 6000))
    return engine.link_text(
        f'''@g{n} = private constant [6000 x i64] [{values}]
        define ptr @first{n}(ptr %x) {{
          %p = getelementptr [6000 x i64], ptr @g{n}, i64 0, i64 5
          ret ptr %p
        }}''', f"first{n}")

compile_one(0)
blocks = [mmap.mmap(-1, 4 * mmap.PAGESIZE) for _ in range(400)]
large = [mmap.mmap(-1, 1 << 30) for _ in range(3)]  # untouched: they take no memory
for block in blocks[::2]:
    block.close()  # room for a program's small sections, far from that for its large ones
for n in range(1, 60):
    compile_one(n)
print("linked")
"""


def test_programs_are_linked_where_free_memory_is_far_apart():
    """quirks.SECTIONS_APART: sections of a program 2 GiB apart ended the process."""
    done = subprocess.run([sys.executable, "-c", FAR_APART], capture_output=True, text=True)
    assert done.stdout == "linked\n", done.stderr[-500:]


PROCESSOR = """
import numpy as np
import weft
from tests.pallas.test_cpu_engine import call_of
from weft import pallas as pl
from weft.native import engine
from weft.pallas.cpu.lower import kernel_text

def kernel(x, out):
    out[...] = weft.numpy.exp(x[...]) * 3

x, wide = np.ones(512, "f4"), weft.ShapeDtypeStruct((512,), "float32")
text = engine.assembly(kernel_text(call_of(kernel, wide, x)))
result = pl.pallas_call(kernel, wide)(x)
print("ymm" in text, "zmm" in text, float(result[0]), sorted(engine.host().able))
"""


@pytest.mark.parametrize("limit", ["SSE4_2", "AVX2", "AVX512"])
def test_kernels_use_no_instructions_beyond_the_limit_given_to_xla(limit):
    import os

    flags = {"XLA_FLAGS": f"--xla_cpu_max_isa={limit}"}
    command = [sys.executable, "-c", PROCESSOR]
    run = subprocess.run(command, env={**os.environ, **flags}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    ymm, zmm, result, able = run.stdout.split(maxsplit=3)
    beyond = {"SSE4_2": ("avx", "fma"), "AVX2": ("avx512",), "AVX512": ("bf16", "fp16", "amx")}
    assert not [part for part in beyond[limit] if part in able], able
    assert (limit, ymm) != ("SSE4_2", "True") and (limit == "AVX512" or zmm == "False")
    assert abs(float(result) - 3 * np.e) < 1e-5

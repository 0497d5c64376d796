"""Compilation: checks before XLA, statistics, the persistent cache."""

import os
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft._xla import compile as xla
from weft._xla.compile import multiplies_splat
from weft.core.aval import ShapedArray
from weft.runtime import backend
from weft.runtime.compile import CompileError, compile_module
from weft.runtime.executable import Executable
from weft.sharding.physical import SingleDeviceSharding

DEVICE = backend.devices()[0]


def module(body="return %x : tensor<4xf32>", header="", signature="%x: tensor<4xf32>", name="f"):
    return (
        f"module @{name} {header} {{ func.func public @main({signature}) -> tensor<4xf32> "
        f"{{ {body} }} }}"
    )


DOUBLE = module("%0 = stablehlo.add %x, %x : tensor<4xf32>\n return %0 : tensor<4xf32>", name="d")


def run(loaded, *args):
    aval, place = ShapedArray((4,), np.float32), SingleDeviceSharding(DEVICE)
    n = len(args)
    return Executable(loaded, [aval] * n, [place] * n, [aval], [place]).call(args)[0]


def test_a_compiled_module_reports_cost_memory_and_text():
    loaded = compile_module(DOUBLE, [DEVICE])
    assert loaded.name == "d" and loaded.seconds > 0 and not loaded.from_cache
    assert loaded.cost_analysis()["flops"] == 4.0
    stats = loaded.memory_analysis()
    assert (stats.argument_size_in_bytes, stats.output_size_in_bytes) == (16, 16)
    assert loaded.as_text().startswith("HloModule d")


@pytest.mark.parametrize(
    "text, devices, words",
    [
        (module(header="attributes {mhlo.num_partitions = 4 : i32}"), 1, "num_partitions = 4.*1"),
        (module(header="attributes {mhlo.num_replicas = 2 : i32}"), 1, "num_replicas = 2.*1"),
        (module().replace("@main", "@other"), 1, "no function @main"),
        (
            "module { func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> "
            "{ return %x : tensor<?xf32> } }",
            1,
            "dynamic shapes",
        ),
        (
            module(
                "%0 = stablehlo.custom_call @f(%x) {mhlo.frontend_attributes = "
                '{num_batch_dims = "1"}} '
                ": (tensor<4xf32>) -> tensor<4xf32>\n return %0 : tensor<4xf32>"
            ),
            1,
            "operand_layouts and result_layouts",
        ),
        (module(), 0, "devices is empty"),
        ("module { func.func private @main() -> tensor<4xf32> }", 1, "@main has no body"),
        (
            "module { func.func public @main() { call @f() : () -> () return } "
            "func.func private @f() }",
            1,
            "@f has no body",
        ),
        (
            "module { func.func public @main() { call @f() : () -> () return } "
            "func.func private @f() { call @g() : () -> () return } "
            "func.func private @g() { call @f() : () -> () return } }",
            1,
            "@f calls itself",
        ),
    ],
)
def test_what_would_kill_the_process_is_refused_first(text, devices, words):
    with pytest.raises(ValueError, match=words):
        compile_module(text, backend.devices()[:devices])


@pytest.mark.parametrize("replicas", [0, -1, 3])
def test_devices_that_form_no_such_number_of_replicas_are_refused(replicas):
    with pytest.raises(ValueError, match=f"cannot form {replicas} replicas"):
        compile_module(module(), backend.devices()[:2], num_replicas=replicas)


def test_a_device_may_appear_once():
    with pytest.raises(ValueError, match="appears twice"):
        compile_module(module(), [DEVICE, DEVICE])


def test_what_xla_rejects_is_a_compile_error_with_its_words():
    call = "%0 = stablehlo.custom_call @nowhere(%x) {api_version = 4 : i32} "
    text = module(call + ": (tensor<4xf32>) -> tensor<4xf32>\n return %0 : tensor<4xf32>")
    with pytest.raises(CompileError, match="cannot compile f: .*nowhere"):
        compile_module(text, [DEVICE])


def test_compiler_options_reach_xla():
    with pytest.raises(CompileError, match="xla_no_such_flag"):
        compile_module(DOUBLE, [DEVICE], compiler_options={"xla_no_such_flag": True})
    with pytest.raises(TypeError, match="xla_flag.*None"):
        compile_module(DOUBLE, [DEVICE], compiler_options={"xla_flag": None})
    with pytest.raises(TypeError, match="must be a dict of XLA's options"):
        compile_module(DOUBLE, [DEVICE], compiler_options=["xla_cpu_enable_fast_math"])
    for count in (-1, "0", 2**31 - 1):
        with pytest.raises(ValueError, match="split_count must be from 1 to"):
            flags = {"xla_cpu_parallel_codegen_split_count": count}
            compile_module(DOUBLE, [DEVICE], compiler_options=flags)
    fast = compile_module(DOUBLE, [DEVICE], compiler_options={"xla_cpu_enable_fast_math": True})
    np.testing.assert_array_equal(run(fast, np.ones(4, np.float32)), np.full(4, 2))


def test_effort_levels_are_options():
    levels = weft.CompilerEffortLevel
    for level in (levels.O1, "O3"):
        options = {"optimization_level": level, "memory_fitting_level": levels.O0}
        double = compile_module(DOUBLE, [DEVICE], compiler_options=options)
        np.testing.assert_array_equal(run(double, np.ones(4, np.float32)), np.full(4, 2))
    with pytest.raises(ValueError, match="optimization_level must be a weft.CompilerEffortLevel"):
        compile_module(DOUBLE, [DEVICE], compiler_options={"optimization_level": "O4"})


SPREAD = {
    "ones": lambda a, s: a @ wnp.ones((256, 256)),
    "an argument": lambda a, s: a @ wnp.broadcast_to(s, (256, 256)),
    "turned": lambda a, s: a @ wnp.broadcast_to(s, (4, 8, 256)).reshape(32, 256).T,
    "on the left": lambda a, s: wnp.ones((256, 256)) @ a,
    "through exp": lambda a, s: wnp.exp(0.01 * (a @ wnp.ones((256, 256)))),
}


@pytest.mark.parametrize("spread", SPREAD)
def test_products_with_a_spread_scalar_and_their_sums_are_right_on_the_cpu(spread):
    # XLA:CPU's library fusion of jaxlib 0.10 returns garbage here.
    a = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    rows = a.sum(1, dtype=np.float64)
    want = {
        "turned": 32 * rows.sum(),
        "on the left": 256 * rows.sum(),
        "through exp": 256 * np.exp(0.01 * rows).sum(),
    }.get(spread, 256 * rows.sum())
    total = weft.jit(lambda a, s: wnp.sum(SPREAD[spread](a, s)))(a, np.float32(1))
    np.testing.assert_allclose(total, want, rtol=2e-4)


def test_only_products_with_a_spread_scalar_are_compiled_again():
    def program(f):
        a = np.ones((256, 256), np.float32)
        executable = weft.jit(f).lower(a).compile()._executable.compiled
        return executable.as_text(), multiplies_splat(executable.xla)

    assert program(lambda a: wnp.sum(a @ wnp.ones((256, 256))))[1] is False
    text, wrong = program(lambda a: wnp.sum(wnp.tanh(a @ a) * 2))
    assert not wrong and "__ynn_fusion" in text


def wide(x):
    """Return 80 × 80 elements."""
    return wnp.tile(x, (5, 5))


ROWS = {
    "sums": (lambda x: wide(x) + 1, "loops"),
    "other rows": (lambda x: wide(x).reshape(4, 4, 400).swapaxes(0, 1) + 0, "loops"),
    "a kernel": (lambda x: wnp.sort(wide(x)), "loops"),
    "a product": (lambda x: wide(x) @ wide(x), "loops"),
    "a transpose": (lambda x: wide(x).T + 0, "tiled"),
    "one in a loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: y.T + 1, x), "tiled"),
    "LAPACK": (lambda x: wnp.linalg.cholesky(wide(x)), "tiled"),
    "exponentials": (lambda x: wnp.exp(wide(x)), "loops"),
    "those of float64": (lambda x: wnp.exp(x.astype("float64")), "small"),
    "more of float64": (lambda x: wnp.exp(wnp.tile(x, (3, 1)).astype("float64")), "tiled"),
    "those that may be written over": (lambda x: wnp.exp(x @ x), "small"),
    "many of them": (lambda x: wnp.exp(wnp.tile(x, (3, 1)) @ x), "loops"),
    "elementwise": (lambda x: wnp.exp(x) * 2 + wnp.arange(16), "small"),
    "a loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: wnp.tanh(y), x), "loops"),
    "float8": (lambda x: x.astype("float8_e4m3fn"), "loops"),
    "layers": (lambda x: wnp.tanh(wnp.tanh(x @ x) @ x.T).sum(0), "small"),
    "repeated": (lambda x: [x * i for i in range(99)], "loops"),
}


@pytest.mark.parametrize("name", ROWS)
def test_xla_writes_kernels_as_is_best_for_the_program(name, monkeypatch):
    f, emitter = ROWS[name]
    seen = []
    options = xla.options
    monkeypatch.setattr(xla, "options", lambda *a, **k: seen.append(options(*a, **k)) or seen[-1])
    with weft.enable_x64(True):
        weft.jit(lambda x: f(x)).lower(np.eye(16, dtype=np.float32)).compile()
    text = seen[-1].SerializeAsString()
    for switch in {s for switches in xla.EMITTERS.values() for s in switches}:
        assert (switch.encode() in text) is (switch in xla.EMITTERS[emitter])


def test_donated_arrays_are_written_over_by_loops_that_are_vectorized(monkeypatch):
    seen = []
    emitter_for = xla.emitter_for
    monkeypatch.setattr(xla, "emitter_for", lambda m: seen.append(emitter_for(m)) or seen[-1])
    x = wnp.ones((16, 16))
    weft.jit(lambda x: wnp.exp(x), donate_argnums=0).lower(x).compile()
    weft.jit(lambda x: wnp.exp(x)).lower(x).compile()
    assert seen[-2:] == ["loops", "small"]


def test_options_without_tiles_keep_xlas_flags():
    code = (
        "import numpy as np; from weft._xla import compile as xla\n"
        "ids = np.zeros((1, 1), np.int32)\n"
        "options = xla.options(ids, emitter='loops', use_spmd=True, use_shardy=True)\n"
        "print(options.executable_build_options.debug_options.xla_cpu_enable_fast_math)"
    )
    env = {**os.environ, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"

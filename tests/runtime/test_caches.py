"""What a compiled program is found by: in this process, and in a directory by another one."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import weft
from weft import P
from weft.core.aval import ShapedArray
from weft.core.config import options
from weft.core.primitive import PRIMITIVES
from weft.sharding import AxisType, NamedSharding

PROGRAM = """
import numpy as np
import weft
from weft import P
from weft.sharding import NamedSharding

mesh = weft.make_mesh((4, 2), ("x", "y"))
split = NamedSharding(mesh, P("x", "y"))
double = weft.jit(lambda a: weft.numpy.tanh(a) * 2)
print(float(np.asarray(double(weft.device_put(np.ones((8, 4), np.float32), split))).sum()))
print(float(weft.jit(lambda x: weft.lax.fori_loop(0, 3, lambda i, c: weft.numpy.sin(c), x))(1.0)))
"""


def test_a_second_process_reads_what_the_first_compiled(tmp_path):
    env = {
        **os.environ,
        "WEFT_NUM_CPU_DEVICES": "8",
        "WEFT_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "WEFT_LOG_COMPILES": "1",
    }
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env)
        for _ in range(2)
    ]
    expected = [float(np.tanh(1) * 64), float(np.sin(np.sin(np.sin(1))))]
    for run in runs:
        assert run.returncode == 0, run.stderr
        np.testing.assert_allclose([float(v) for v in run.stdout.split()], expected, rtol=1e-6)
    first, second = (
        [line for line in run.stderr.splitlines() if "<lambda>" in line] for run in runs
    )
    assert len(first) == 2 and all("compiled in" in line for line in first)
    assert len(second) == 2 and all("read from the cache in" in line for line in second)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def counted():
    """A jitted function and the list of the types it was traced for."""
    traces = []

    def f(x):
        traces.append(weft.typeof(x).str_short())
        return x @ x.T

    return weft.jit(f), traces


def test_types_are_the_key_of_a_trace():
    f, traces = counted()
    x = np.ones((4, 4), np.float32)
    for y in (x, weft.device_put(x), x.astype(np.int32), x[:2], x):
        f(y)
    assert traces == ["f32[4,4]", "i32[4,4]", "f32[2,4]"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("enable_x64", True),
        ("default_matmul_precision", "highest"),
        ("use_shardy", False),
        ("partitioner", "xla"),
        ("debug_nans", True),
        ("numpy_rank_promotion", "raise"),
        ("varying_promotion", "error"),
    ],
)
def test_options_that_change_the_program_are_part_of_the_key(option, value):
    f, traces = counted()
    x = np.ones((2, 2), np.float32)
    f(x)
    with options[option](value):
        f(x)
        f(x)
    f(x)
    assert len(traces) == 2


def test_options_that_do_not_change_it_are_no_part():
    f, traces = counted()
    f(np.ones((2, 2), np.float32))
    with options["log_compiles"](True), options["traceback_filtering"]("off"):
        f(np.ones((2, 2), np.float32))
    assert len(traces) == 1


def test_placements_are_compiled_apart_and_traced_once_over_auto_axes():
    f, traces = counted()
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    for spec in (P("x"), P(None, "y"), P("x"), P()):
        out = f(weft.device_put(value, NamedSharding(mesh, spec)))
        assert out.sharding.device_set == set(weft.devices())
        np.testing.assert_allclose(np.asarray(out), value @ value.T)
    assert len(traces) == 1
    assert f._cache_size() == 3


def test_explicit_placements_are_types():
    f, traces = counted()
    mesh = weft.make_mesh((4, 2), ("x", "y"))
    for spec in (P("x"), P(None, "x"), P("x")):
        x = weft.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, spec))
        if spec == P("x"):
            with pytest.raises(weft.errors.ShardingTypeError):
                f(x)  # both dimensions of the result would be split by x
        else:
            with pytest.raises(weft.errors.ShardingTypeError, match="out_sharding"):
                f(x)
    assert set(traces) == {"f32[8@x,4]", "f32[8,4@x]"}


def test_the_mesh_in_context_is_part_of_the_key():
    f, traces = counted()
    x = np.ones((8, 8), np.float32)
    f(x)
    with weft.set_mesh(weft.make_mesh((8,), ("z",))):
        f(x)
    f(x)
    assert len(traces) == 2


def test_clear_caches_forgets_programs_and_traces():
    f, traces = counted()
    x = np.ones((2, 2), np.float32)
    f(x)
    weft.clear_caches()
    f(x)
    assert len(traces) == 2


def test_clear_caches_forgets_programs_of_jitted_functions_that_are_gone():
    added = 0

    def add(x):
        return x + added

    for added in range(1, 6):
        assert weft.jit(add)(np.float32(1)) == 1 + added
        gc.collect()
        weft.clear_caches()


@pytest.mark.parametrize(
    "use",
    [
        lambda x: weft.eval_shape(weft.numpy.sin, x),
        lambda x: weft.jit(lambda v: v).trace(x),
        lambda x: weft.lax.neg(np.ones(x.shape, np.float32)),
        lambda x: weft.numpy.ones(x.shape)[1:],
        lambda x: weft.numpy.ones(x.shape).at[1:].set(0),
        lambda x: weft.numpy.ones(x.shape).sum(),
        lambda x: weft.grad(lambda v: (v * v).sum())(np.ones(x.shape, np.float32)),
        lambda x: weft.lax.while_loop(
            lambda v: v.sum() < 1, lambda v: v + 1, weft.numpy.zeros(x.shape)
        ),
    ],
    ids=["shape", "trace", "op", "window", "update", "method", "gradient", "loop"],
)
def test_clear_caches_lets_types_and_programs_go(use):
    shape = (123, 3, 1)
    use(weft.ShapeDtypeStruct(shape, np.float32))
    ref = weakref.ref(ShapedArray(shape, np.float32))
    weft.clear_caches()
    assert ref() is None


def test_signatures_beyond_those_kept_are_forgotten(monkeypatch):
    monkeypatch.setattr("weft.driver.jit_info.KEPT", 2)
    f, traces = counted()
    for n in (1, 2, 3, 3, 1):
        f.trace(np.ones((n, 2), np.float32))
    assert traces == ["f32[1,2]", "f32[2,2]", "f32[3,2]", "f32[1,2]"]


def test_programs_of_ops_beyond_those_kept_are_forgotten(monkeypatch):
    monkeypatch.setattr("weft.driver.execute.KEPT", 2)
    weft.clear_caches()
    for n in range(1, 6):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(weft.lax.neg(x), -x)
        np.testing.assert_array_equal(weft.lax.broadcast(np.float32(n), (n,)), np.full(n, n))
    assert len(PRIMITIVES["broadcast_in_dim"].eager_cache) == 2

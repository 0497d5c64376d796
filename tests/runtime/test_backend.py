"""Platforms and devices."""

import subprocess
import sys

import pytest

from tests.processes import python
from weft.core.config import config, options
from weft.runtime import backend


def test_devices_are_counted_and_belong_to_this_process():
    assert backend.device_count() == backend.local_device_count() == 8
    assert [d.id for d in backend.devices()] == list(range(8))
    assert backend.devices("cpu") == backend.local_devices() == backend.local_devices(0)
    assert (backend.process_index(), backend.process_count()) == (0, 1)
    assert backend.process_indices() == [0]
    assert backend.default_backend() == "cpu" and backend.started()


def test_an_unknown_platform_is_refused_with_those_there_are():
    with pytest.raises(RuntimeError, match="Unknown backend.*'abacus'.*cpu"):
        backend.devices("abacus")
    with pytest.raises(ValueError, match="no process 7"):
        backend.local_devices(7)


def test_the_number_of_devices_is_fixed_once_used():
    backend.devices()
    with pytest.raises(RuntimeError, match="WEFT_NUM_CPU_DEVICES"):
        config.update("num_cpu_devices", 3)


@pytest.fixture
def platforms():
    before = config.platforms
    yield
    options["platforms"].state.set_global(before)


@pytest.mark.parametrize("name", ["platforms", "jax_platforms", "jax_platform_name"])
def test_the_platform_in_use_may_be_asked_for_again(name, platforms):
    assert backend.default_backend() == "cpu"
    config.update(name, "cpu")
    assert backend.default_backend() == config.platforms == "cpu"
    config.update("num_cpu_devices", config.num_cpu_devices)
    with pytest.raises(RuntimeError, match="fixed once a device has been used"):
        config.update(name, "cuda")


@pytest.mark.parametrize(
    "environment, code, count",
    [
        ({}, "", 1),
        ({"WEFT_NUM_CPU_DEVICES": "3"}, "", 3),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=5"}, "", 5),
        ({}, "config.update('num_cpu_devices', 2);", 2),
    ],
)
def test_the_number_of_virtual_devices_is_configured(environment, code, count):
    program = (
        f"from weft.core.config import config; {code}"
        "from weft.runtime import backend; print(backend.device_count())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert result.stdout.strip() == str(count), result.stderr


SYNCHRONOUS = """
import numpy as np, weft
mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
spin = weft.jit(lambda x: weft.lax.fori_loop(0, 30, lambda i, c: weft.numpy.sin(c @ c.T), x))
x = weft.numpy.ones((300, 300))
assert all(spin(x).is_ready() for _ in range(3))
total = weft.shard_map(
    lambda x: weft.lax.psum(x, "x"), mesh=mesh, in_specs=weft.P("x"), out_specs=weft.P()
)
assert np.array_equal(weft.jit(total)(np.arange(8.0, dtype=np.float32)), [12, 16])
on_host = lambda v: np.float32(weft.numpy.sum(v) * 2)
double = weft.jit(lambda x: weft.pure_callback(on_host, weft.ShapeDtypeStruct((), "float32"), x))
assert double(x) == 180_000
"""


def test_programs_on_the_cpu_run_in_the_call_where_that_is_asked_for():
    """Results are ready when a call returns, of programs with collectives and callbacks, too."""
    python(SYNCHRONOUS, WEFT_NUM_CPU_DEVICES="4", WEFT_CPU_ENABLE_ASYNC_DISPATCH="0")
    set_by_jaxs_name = "import weft; weft.config.update('jax_cpu_enable_async_dispatch', False)"
    python(set_by_jaxs_name + SYNCHRONOUS, WEFT_NUM_CPU_DEVICES="4")


def test_the_environment_says_how_much_of_a_gpus_memory_is_taken(monkeypatch):
    from weft._xla import cuda

    given = {}
    monkeypatch.setattr(cuda, "load_plugin", lambda: None)
    monkeypatch.setattr(
        cuda._jax, "get_c_api_client", lambda name, options, *_: given.update(options)
    )
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", ".25")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    cuda.make_client(visible_devices="01")
    wanted = {"memory_fraction": 0.25, "preallocate": False, "allocator": "platform"}
    assert given.items() >= {**wanted, "platform_name": "cuda"}.items()
    assert given["visible_devices"] == [0, 1]

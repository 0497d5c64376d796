"""Programs for GPUs that are not there: described, compiled, read, and not run."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.gpu_machine import CUDA, ROOT, TPU, compiled, mesh_of, placed, topology
from weft import NamedSharding, P, topologies

pytestmark = pytest.mark.accelerators


def perceptron(mesh):
    def loss(up, down, x):
        return weft.numpy.mean((weft.numpy.tanh(x @ up) @ down) ** 2)

    types = (
        placed(((256, 512), np.float32), mesh, None, "model"),
        placed(((512, 256), np.float32), mesh, "model"),
        placed(((1024, 256), np.float32), mesh, "data"),
    )
    return weft.jit(weft.grad(loss, argnums=(0, 1))), types


@pytest.mark.parametrize(
    "name, count, hosts",
    [("h100:8", 8, 1), ("a100", 8, 1), ("h200:2x8", 16, 2), ("B200:2x3x4", 24, 6)],
)
def test_a_name_says_the_gpu_and_counts_of_groups_hosts_and_devices(name, count, hosts):
    devices = topology(name).devices
    assert [d.id for d in devices] == list(range(count))
    assert len({d.process_index for d in devices}) == hosts
    assert {d.platform for d in devices} == {"gpu"}
    assert name.partition(":")[0].upper() in devices[0].device_kind
    assert f"{count} × NVIDIA" in repr(topology(name))


def test_every_known_gpu_compiles_a_product_of_half_precision():
    from weft.runtime.gpus import GPUS

    for name in GPUS:
        mesh = mesh_of(f"{name}:1")
        x = placed(((64, 64), weft.dtypes.bfloat16), mesh)
        text = compiled(lambda x: weft.numpy.sin(x @ x), x).as_text()
        assert "bf16[64,64]" in text and "sine" in text


def test_a_step_over_gpus_is_compiled_with_its_text_memory_and_cost():
    function, types = perceptron(mesh_of(data=4, model=2))
    step = function.lower(*types).compile()
    collectives = re.findall(r" (all-[a-z-]+?|reduce-scatter)(?:-start|-done)?\(", step.as_text())
    assert set(collectives) == {"all-reduce"}
    memory = step.memory_analysis()
    local = (256 * 256 + 256 * 256 + 256 * 256) * 4  # each device's part of the three arguments
    assert memory.argument_size_in_bytes == local
    assert memory.output_size_in_bytes == 2 * 256 * 256 * 4 + 2 * 8  # and their addresses
    products = 5 * 2 * 256 * 256 * 256  # two forward, three backward, on each device
    assert step.cost_analysis()["flops"] == pytest.approx(products, rel=0.05)
    assert step.output_shardings[0].spec == P(None, "model")


def test_the_report_of_described_gpus_uses_their_own_links():
    function, types = perceptron(mesh_of(data=4, model=2))
    report = weft.comm(function, *types, compile=True)
    assert report.hardware.name == "h100" and report.memory.exact
    assert {c.axes for c in report.collectives} == {("data",), ("model",)}
    assert all("test_topologies.py" in c.source for c in report.collectives)


def test_hosts_are_joined_by_the_network_and_gpus_by_nvlink():
    mesh = mesh_of("h100:2x8", host=2, gpu=8)
    rows = placed(((1 << 20, 16), np.float32), mesh, ("host", "gpu"))
    both = weft.shard_map(
        lambda x: (weft.lax.psum(x, "host"), weft.lax.psum(x, "gpu")),
        mesh=mesh,
        in_specs=P(("host", "gpu")),
        out_specs=(P("gpu"), P("host")),
    )
    slow, fast = (c for c in weft.comm(both, rows).collectives)
    hardware = weft.comm(both, rows).hardware
    size = (1 << 20) // 16 * 16 * 4
    assert (slow.axes, fast.axes) == (("host",), ("gpu",))
    assert hardware.estimate(slow) == pytest.approx(2 * 6e-6 + size / 50e9)
    assert hardware.estimate(fast) == pytest.approx(14 * 2e-6 + size * 14 / 8 / 450e9)


def test_stages_end_with_the_optimized_program_of_the_gpu():
    function, types = perceptron(mesh_of(data=4, model=2))
    stages = function.lower(*types).stages
    assert "stablehlo.all_reduce" in str(stages.local)
    optimized = str(stages.optimized)
    assert " all-reduce" in optimized and "is_scheduled=true" in optimized


def test_the_partitioner_of_xla_compiles_for_described_gpus_too():
    mesh = mesh_of(data=4, model=2)
    x = placed(((64, 64), np.float32), mesh, "data", "model")
    total = weft.jit(lambda x: x.sum(), partitioner="xla").lower(x).compile()
    assert " all-reduce" in total.as_text() and "num_partitions=8" in total.as_text()


def test_a_program_for_described_gpus_cannot_be_called():
    mesh = mesh_of()
    x = np.ones((8, 4), np.float32)
    program = compiled(lambda x: x + 1, placed(x, mesh, "x"))
    with pytest.raises(RuntimeError, match="compiled for 8 × NVIDIA H100.*not called"):
        program(x)
    with pytest.raises(RuntimeError, match=r"weft\.devices\(\) to run it here"):
        weft.jit(lambda x: x + 1, out_shardings=NamedSharding(mesh, P("x")))(x)


def test_arrays_cannot_be_put_on_described_gpus():
    x = np.ones((8, 4), np.float32)
    for place in (NamedSharding(mesh_of(), P("x")), topology().devices[3]):
        for value in (x, weft.numpy.asarray(x)):
            with pytest.raises(ValueError, match="which this process does not have|does not have"):
                weft.device_put(value, place)


def test_large_constants_of_a_program_need_no_place():
    table = weft.numpy.arange(4096.0)
    program = compiled(lambda x: x + table, np.ones(4096, np.float32))
    assert program.memory_analysis().argument_size_in_bytes == 2 * 4096 * 4


def test_a_description_of_ones_own_is_text_or_a_file(tmp_path):
    from weft.runtime.gpus import GPUS

    text = GPUS["a100"].target_config().replace("A100-SXM4-80GB", "A100 of mine")
    file = tmp_path / "gpu.txtpb"
    file.write_text(text)
    for given in (text, str(file)):
        found = topologies.get_topology_desc("1x1x4", "cuda", target_config=given)
        assert [d.device_kind for d in found.devices] == ["NVIDIA A100 of mine"] * 4
    assert len(topologies.get_topology_desc("h100", topology="1x2x2").devices) == 4


@pytest.mark.parametrize(
    "name, platform, options, error",
    [
        ("abacus:8", None, {}, "no GPU 'abacus'.*a100, h100"),
        ("8", None, {}, "no GPU ''.*target_config="),
        ("h100:0", None, {}, "'0'.*counts of devices"),
        ("h100:1x2x3x4", None, {}, "counts of devices"),
        ("h100:4096x4096", None, {}, "more devices than can be described"),
        ("mi300:8", "rocm", {}, "platform 'rocm' cannot be described.*AbstractMesh"),
        ("v5e:3x3", None, {}, "XLA's plugin for tpu refuses.*not divisible"),
        ("v5e:9999x9999", "tpu", {}, "more devices than can be described"),
        ("v5e:2x2", "tpu", {"no_such_option": 1}, "no_such_option=1.*[Uu]nexpected"),
        ("h100:8", "cuda", {"target_config": "no_such_field { }"}, "refuses the description"),
    ],
)
def test_names_that_describe_nothing_are_refused_with_the_remedy(name, platform, options, error):
    topology(), topology("v5e:2x2")  # the plugins are loaded
    with pytest.raises(ValueError, match=error):
        topologies.get_topology_desc(name, platform, **options)


def test_attached_devices_are_a_topology_too():
    attached = topologies.get_attached_topology()
    assert attached.devices == weft.devices() and repr(attached) == "<topology: 8 × cpu on 1 host>"
    mesh = topologies.make_mesh(attached, (4, 2), ("a", "b"), contiguous_submeshes=True)
    assert weft.jit(weft.numpy.sum)(weft.device_put(np.ones(8), NamedSharding(mesh, P("a")))) == 8
    with pytest.raises(ValueError, match="6 devices"):
        topologies.make_mesh(attached, (3, 2), ("a", "b"))


def run(code, **environment):
    """What a fresh process prints and warns."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


def test_several_processes_compile_for_tpus_at_once():
    topology("v5e:2x2")  # from here on this process has libtpu loaded
    code = "import weft; print(len(weft.topologies.get_topology_desc('v5e:2x2').devices))"
    result = run(code, TPU_LIBRARY_PATH=str(TPU))
    assert result.stdout == "4\n", result.stderr


def test_without_the_plugin_the_error_says_what_to_install():
    result = run("import weft; weft.topologies.get_topology_desc('h100:8')")
    assert "RuntimeError: XLA's CUDA plugin is not installed" in result.stderr
    assert "pip install --no-deps jax-cuda12-pjrt==" in result.stderr


def test_a_plugin_that_cannot_be_loaded_is_named():
    result = run(
        "import weft; weft.topologies.get_topology_desc('h100:8')",
        WEFT_CUDA_PLUGIN="/no/plugin.so",
        WEFT_PLATFORMS="cpu",
    )
    assert "CUDA plugin /no/plugin.so cannot be loaded" in result.stderr


def test_where_the_plugin_is_installed_without_a_gpu_the_cpu_is_used_with_one_warning():
    path = f"{ROOT}{os.pathsep}{CUDA}"
    code = "import weft; print(weft.devices()[0].platform, weft.numpy.ones(2).sum())"
    result = run(code, PYTHONPATH=path)
    assert result.stdout.split() == ["cpu", "2.0"], result.stderr
    assert result.stderr.count("UserWarning: platform 'cuda' failed to initialize") == 1
    quiet = run(code, PYTHONPATH=path, WEFT_PLATFORMS="cpu")
    assert quiet.stdout.split() == ["cpu", "2.0"] and "UserWarning" not in quiet.stderr


def test_a_platform_that_is_asked_for_is_not_replaced():
    asked = run("import weft; weft.devices()", WEFT_PLATFORMS="cuda,cpu", WEFT_CUDA_PLUGIN="/no.so")
    assert "RuntimeError: platform 'cuda' failed to initialize" in asked.stderr
    assert "asked for by config.platforms or WEFT_PLATFORMS = 'cuda,cpu'" in asked.stderr
    left = run("import weft; print(weft.devices()[0].platform)", WEFT_PLATFORMS="")
    assert left.stdout.split() == ["cpu"], left.stderr


def test_nothing_of_the_plugin_is_loaded_before_a_topology_is_described():
    code = (
        "import weft, sys; weft.topologies; weft.devices(); "
        "print('xla_cuda_plugin' in open('/proc/self/maps').read())"
    )
    path = f"{ROOT}{os.pathsep}{CUDA}"
    assert run(code, PYTHONPATH=path, WEFT_PLATFORMS="cpu").stdout.split() == ["False"]

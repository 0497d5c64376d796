"""weft.comm: whole programs, abstract meshes, hardware models, and what the report says."""

from pathlib import Path

import numpy as np
import pytest

import weft
from weft import NamedSharding, P


def mesh_of(**sizes):
    auto = (weft.AxisType.Auto,) * len(sizes)
    return weft.make_mesh(tuple(sizes.values()), tuple(sizes), auto)


def perceptron(mesh):
    """A gradient over data × model, with its arguments as types."""

    def loss(params, x):
        return ((weft.numpy.tanh(x @ params["up"]) @ params["down"]) ** 2).mean()

    place = lambda *spec: NamedSharding(mesh, P(*spec))
    layout = {"up": place(None, "model"), "down": place("model", None)}
    function = weft.jit(weft.grad(loss), in_shardings=(layout, place("data")), out_shardings=layout)
    shape = lambda *s: weft.ShapeDtypeStruct(s, np.float32)
    return function, ({"up": shape(64, 128), "down": shape(128, 64)}, shape(512, 64))


def test_a_gradient_sums_over_data_and_activations_over_model():
    function, args = perceptron(mesh_of(data=4, model=2))
    report = weft.comm(function, *args)
    by_axis = {c.axes: c for c in report.collectives}
    assert set(by_axis) == {("data",), ("model",)} and report.counts() == {"all_reduce": 2}
    assert by_axis["data",].bytes == 2 * 2 * 64 * 64 * 4 * 3 // 4  # both gradients, ring of 4
    assert by_axis["model",].bytes == 128 * 64 * 4  # 512 / 4 rows, ring of 2
    assert report.total_bytes == sum(c.bytes for c in report.collectives)


def test_reasons_name_the_users_arguments_and_lines():
    function, args = perceptron(mesh_of(data=4, model=2))
    [over_model] = [c for c in weft.comm(function, *args).collectives if c.axes == ("model",)]
    assert "model from argument params['" in over_model.why
    assert over_model.source.rpartition(":")[0].endswith("test_communication.py")
    line = int(over_model.source.rpartition(":")[2])
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert 'params["down"]' in text[line - 1]


def test_a_mesh_of_4096_devices_needs_none():
    mesh = weft.sharding.AbstractMesh((512, 8), ("data", "model"))
    place = lambda *spec: NamedSharding(mesh, P(*spec))
    shape = lambda s, *spec: weft.ShapeDtypeStruct(s, np.float32, sharding=place(*spec))
    x = shape((8192, 1024), "data", None)
    up, down = shape((1024, 4096), None, "model"), shape((4096, 1024), "model", None)
    layer = lambda x, up, down: weft.numpy.maximum(x @ up, 0) @ down
    report = weft.comm(layer, x, up, down, hardware="tpu_v5p")
    [sum_] = report.collectives
    assert sum_.kind == "all_reduce" and sum_.axes == ("model",)
    assert sum_.bytes == 2 * (8192 // 512) * 1024 * 4 * 7 // 8
    assert report.memory.arguments == 4 * (16 * 1024 + 2 * 1024 * 512)
    assert "on tpu_v5p" in report.summary()


def test_loops_multiply():
    mesh = mesh_of(x=8)
    w = weft.ShapeDtypeStruct((5, 16, 16), np.float32, sharding=NamedSharding(mesh, P(None, "x")))
    x = weft.ShapeDtypeStruct((4, 16), np.float32, sharding=NamedSharding(mesh, P(None, "x")))
    layers = lambda x, w: weft.lax.scan(lambda h, m: (h @ m, None), x, w)[0]
    report = weft.comm(layers, x, w)
    assert {c.trips for c in report.collectives} == {5}
    assert report.total_bytes == 5 * sum(c.bytes for c in report.collectives)


def test_started_collectives_count_as_those_that_are_not():
    lax = weft.lax
    started = {
        True: lambda v: lax.all_gather_start(v, "x", tiled=True).done().sum(),
        False: lambda v: lax.all_gather(v, "x", tiled=True).sum(),
    }

    def report(start):
        def body(v):
            gathered = lambda c, s: (c + started[start](v * s), None)
            total = lax.pcast(np.float32(0), "x", to="varying")
            return lax.psum(lax.scan(gathered, total, np.ones(5, np.float32))[0], "x")

        mapped = weft.shard_map(body, mesh=mesh_of(x=8), in_specs=P("x"), out_specs=P())
        return weft.comm(mapped, np.ones((16, 4), np.float32))

    table = lambda start: [
        (c.kind, c.axes, c.bytes, c.trips, c.shape, c.exact_trips)
        for c in report(start).collectives
    ]
    assert table(True) == table(False)
    assert table(True)[0] == ("all_gather", ("x",), 2 * 4 * 4 * 7, 5, "2x4xf32", True)


def test_own_hardware_models_give_the_times():
    function, args = perceptron(mesh_of(data=4, model=2))
    link = weft.partition.cost.Link(latency=0.0, bandwidth=1e6)
    slow = weft.HardwareModel("slow", levels=((None, link),))
    report = weft.comm(function, *args, hardware=slow)
    assert report.seconds == pytest.approx(report.total_bytes / 1e6)


def test_compiled_memory_comes_from_xla():
    function, args = perceptron(mesh_of(data=4, model=2))
    report = weft.comm(function, *args, compile=True)
    assert report.memory.exact and report.memory.arguments == 4 * (2 * 64 * 64 + 128 * 64)
    assert "(estimated)" not in report.summary()


def test_the_largest_value_is_named():
    function, args = perceptron(mesh_of(data=4, model=2))
    memory = weft.comm(function, *args).memory
    assert memory.largest_bytes == 128 * 64 * 4
    assert "test_communication.py" in memory.largest or "argument" in memory.largest


def test_the_page_shows_all_stages(tmp_path):
    function, args = perceptron(mesh_of(data=4, model=2))
    weft.comm(function, *args).to_html(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    for stage in ("jaxpr", "stablehlo", "propagated", "collectives", "local"):
        assert f"<h3>{stage}</h3>" in text
    assert "params[&#x27;up&#x27;]" in text


def test_a_program_of_one_device_sends_nothing():
    report = weft.comm(lambda x: x + 1, np.ones(4, np.float32))
    assert report.collectives == [] and report.total_bytes == 0
    assert "one device" in report.summary()


def test_unknown_hardware_lists_the_presets():
    with pytest.raises(ValueError, match="'b100' is unknown; presets are cpu, a100, h100"):
        weft.comm(lambda x: x, np.ones(2, np.float32), hardware="b100")


def test_the_largest_argument_is_called_by_its_name():
    mesh = mesh_of(x=8)
    big = weft.ShapeDtypeStruct((64, 64), np.float32, sharding=NamedSharding(mesh, P("x")))
    memory = weft.comm(lambda table: table[:1, :1] * 2, big).memory
    assert memory.largest == "8x64xf32, argument table"

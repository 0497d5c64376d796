"""weft.profiler: traces with the user's names in them, and who holds memory."""

import gzip
import json
import os

import numpy as np
import pytest

import weft
from tests.processes import free_address
from tests.web_page import parsed
from weft import profiler
from weft.partition.report.communication import format_seconds


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The files of one traced run."""
    folder = tmp_path_factory.mktemp("trace")
    f = weft.jit(lambda x: x @ x)
    x = np.ones((64, 64), np.float32)
    f(x).block_until_ready()

    @profiler.annotate_function(name="all of it", size=64)
    def work():
        for i in range(2):
            with profiler.StepTraceAnnotation("one step", step_num=i):
                f(x).block_until_ready()
        with profiler.TraceAnnotation("the end"):
            return 3

    with profiler.trace(folder, create_perfetto_trace=True):
        assert work() == 3
        with pytest.raises(RuntimeError, match=r"being recorded.*stop_trace"):
            profiler.start_trace(folder)
    [made] = (folder / "plugins" / "profile").iterdir()
    return {path.name: path for path in made.iterdir()}


def test_a_trace_is_written_for_xprof_and_perfetto_with_the_names_given(run):
    names = {"all of it", "one step", "the end"}
    with gzip.open(run["perfetto_trace.json.gz"], "rt") as file:
        events = json.load(file)
    assert "metadata" not in events
    assert names <= {e.get("name") for e in events["traceEvents"]}
    [path] = (p for n, p in run.items() if n.endswith(".xplane.pb"))
    data = profiler.ProfileData.from_file(str(path))
    host = data.find_plane_with_name("/host:CPU")
    assert names <= {event.name for line in host.lines for event in line.events}


def test_a_trace_ends_once():
    with pytest.raises(RuntimeError, match="no trace is being recorded"):
        profiler.stop_trace()


def test_a_trace_that_fails_can_be_followed_by_another(tmp_path):
    with pytest.raises(KeyError), profiler.trace(tmp_path):
        raise KeyError
    with profiler.trace(tmp_path, profiler_options=profiler.ProfileOptions()):
        pass
    with pytest.raises(ValueError, match=r"create_perfetto_trace=True"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)


def test_annotated_functions_keep_their_names_and_results():
    @profiler.annotate_function
    def load(x, *, y):
        """Loads."""
        return x + y

    assert (load.__name__, load.__doc__, load(1, y=2)) == ("load", "Loads.", 3)


def test_memory_of_devices_is_profiled_for_pprof(tmp_path):
    kept = weft.device_put(np.ones((256, 256), np.float32))
    path = tmp_path / "memory.prof"
    profiler.save_device_memory_profile(path, "cpu")
    assert b"buffer" in gzip.decompress(path.read_bytes()) and kept.size


@pytest.mark.parametrize("port", [-1, 65536])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(ValueError, match=f"start_server: port must be .* got {port}"):
        profiler.start_server(port)
    with pytest.raises(ValueError, match=f"register_subprocess: port must be .* got {port}"):
        profiler.register_subprocess(1, port)


def test_a_server_starts_once_and_stops():
    with free_address() as address:
        port = int(address.rsplit(":")[-1])
        profiler.start_server(port)
    profiler.register_subprocess(os.getppid(), port)()
    with pytest.raises(RuntimeError, match="stop_server"):
        profiler.start_server(port)
    profiler.stop_server()
    with pytest.raises(RuntimeError, match="start_server"):
        profiler.stop_server()


def test_operations_of_a_trace_are_measured_beside_their_estimates(tmp_path):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    x, w = (
        weft.device_put(np.ones((256, 256), np.float32), weft.NamedSharding(mesh, spec))
        for spec in (weft.P(None, "x"), weft.P("x"))
    )
    f = weft.jit(lambda x, w: weft.numpy.tanh(x @ w))
    f(x, w).block_until_ready()
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        f(x, w).block_until_ready()
    rows = profiler.measured(tmp_path, f.lower(x, w))
    [moved] = [row for row in rows if row.kind == "all_reduce"]
    [expected] = weft.comm(f, x, w).collectives
    assert moved.calls == 4 and moved.seconds > 0  # a call on each device
    assert moved.estimate == weft.comm(f, x, w).hardware.estimate(expected)
    assert moved.source.rpartition("/")[2].startswith("test_profiler.py:")
    assert all(row.estimate is None for row in rows if row is not moved)
    [path] = tmp_path.glob("plugins/profile/*/perfetto_trace.json.gz")
    names = {e.get("name") for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]}
    assert f"all_reduce {moved.source}" in names


def test_a_folder_without_a_trace_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="measured: there is no trace in"):
        profiler.measured(tmp_path, weft.jit(abs).lower(1.0))
    with pytest.raises(FileNotFoundError, match=r"comm: there is no trace .* weft.profiler.trace"):
        weft.comm(abs, 1.0, profile=tmp_path)


def test_the_report_has_what_each_collective_took_beside_its_estimate(tmp_path):
    mesh = weft.make_mesh((4, 2), ("data", "model"), (weft.AxisType.Auto,) * 2)

    def put(shape, *spec):
        return weft.device_put(np.ones(shape, np.float32), weft.NamedSharding(mesh, weft.P(*spec)))

    def loss(w, v, x):
        return (weft.numpy.tanh(x @ w) @ v).sum()

    def other(x):
        return weft.numpy.sum(x, axis=0)  # not in the report, though in the trace

    args = put((64, 128), None, "model"), put((128, 64), "model"), put((32, 64), "data")
    step, sums = weft.jit(weft.grad(loss, (0, 1))), weft.jit(other)
    weft.block_until_ready((step(*args), sums(args[2])))
    with profiler.trace(tmp_path):
        for _ in range(3):
            weft.block_until_ready((step(*args), sums(args[2])))
    report = weft.comm(step, *args, profile=tmp_path)
    assert {row.runs for row in report.measured} == {3 * 8}
    moved = [row for row in report.measured if row.communicates]
    assert len(moved) == len(report.collectives) > 0
    assert [c.measured > 0 for c in report.collectives] == [True] * len(moved)
    total = sum(c.measured for c in report.collectives)
    assert total == pytest.approx(sum(row.seconds * row.calls for row in moved) / 24)
    assert sum(row.estimate for row in moved) == pytest.approx(report.seconds)
    lines = str(report).splitlines()
    assert lines[0].split()[-3:] == ["time", "measured", "source"]
    assert "measured in 24 runs of a device" in lines[-1]
    report.to_html(tmp_path / "page.html")
    page = parsed((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert format_seconds(report.collectives[0].measured) in page.text
    assert all(row.name in page.text for row in report.measured)
    unmeasured = weft.comm(sums, args[2])
    assert "measured" not in str(unmeasured) and unmeasured.measured == ()


def test_a_trace_of_another_program_measures_nothing_and_says_so(tmp_path):
    def never(x):
        return x * 5

    with profiler.trace(tmp_path):
        weft.jit(abs)(np.ones(3)).block_until_ready()
    report = weft.comm(never, np.ones(3), profile=tmp_path)
    assert report.measured == () and "no operation of this program" in str(report)

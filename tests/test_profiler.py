"""weft.profiler: traces with the user's names in them, and who holds memory."""

import gzip
import json
import os

import numpy as np
import pytest

import weft
from tests.processes import free_address
from weft import profiler


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

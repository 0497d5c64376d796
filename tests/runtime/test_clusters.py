"""What launchers tell of the processes they start."""

import os

import pytest

from weft.runtime import clusters

SLURM = {
    "SLURM_STEP_NODELIST": "gpu[003-007,12],login1",
    "SLURM_JOB_ID": "4099",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
}
OMPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
}


@pytest.fixture
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(
            ("SLURM_", "OMPI_", "RANK", "WORLD", "MASTER_", "JOB_", "KUBERN", "PMIX_")
        ):
            monkeypatch.delenv(name)

    def put(*variables):
        for name, value in {k: v for d in variables for k, v in d.items()}.items():
            monkeypatch.setenv(name, value)

    return put


def test_slurm_tells_host_count_and_number(environment):
    environment(SLURM)
    assert clusters.detect(None) == clusters.detect("slurm")
    assert clusters.detect("slurm") == {
        "coordinator_address": "gpu003:61443",
        "num_processes": "8",
        "process_id": "5",
    }


OMPI_5 = {  # of Open MPI 5.0.11, two of the four processes on each of two hosts
    "PMIX_NAMESPACE": "prterun-login-1-8738@1",
    "PMIX_HOSTNAME": "node2",
    "PMIX_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def test_open_mpi_5_tells_where_mpirun_runs(environment):
    environment(OMPI_5)
    known = clusters.detect(None)
    host, _, port = known.pop("coordinator_address").rpartition(":")
    assert host == "login-1" and 61440 <= int(port) < 65536
    assert known == {"num_processes": "4", "process_id": "3"}
    assert clusters.detect("ompi")["coordinator_address"] == f"{host}:{port}"
    environment({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"})
    assert clusters.detect(None)["coordinator_address"] == f"127.0.0.1:{port}"


def test_process_0_of_open_mpi_5_elsewhere_than_mpirun_asks_for_the_address(environment):
    first = {"PMIX_RANK": "0", "OMPI_COMM_WORLD_RANK": "0"}
    environment(OMPI_5, first)
    assert "coordinator_address" not in clusters.detect(None)
    environment({"PMIX_HOSTNAME": "login-1"})
    assert clusters.detect(None)["coordinator_address"].startswith("login-1:")


def test_prterun_tells_the_number_and_the_host_but_not_how_many(environment):
    environment({k: v for k, v in OMPI_5.items() if k.startswith("PMIX")})
    known = clusters.detect(None)
    assert known.pop("coordinator_address").startswith("login-1:")
    assert known == {"process_id": "3"}


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        (OMPI["OMPI_MCA_orte_hnp_uri"], "10.96.0.1"),
        ("1531576320.0;tcp6://[fe80::b9b,2620:10d]:43370", "[fe80::b9b]"),
    ],
)
def test_open_mpi_tells_where_its_launcher_runs(environment, uri, address):
    environment(OMPI, {"OMPI_MCA_orte_hnp_uri": uri})
    port = 61440 + (1531576320 >> 12) % 4096
    assert clusters.detect(None) == {
        "coordinator_address": f"{address}:{port}",
        "num_processes": "4",
        "process_id": "3",
    }


def test_the_launcher_asked_for_is_the_one_read(environment):
    environment(SLURM, OMPI)
    assert clusters.detect("ompi")["process_id"] == "3"
    assert clusters.detect("deactivate") == {}


def test_a_launcher_that_did_not_start_the_process_is_an_error(environment):
    assert clusters.detect(None) == {}
    with pytest.raises(RuntimeError, match="'slurm', but this process shows no sign"):
        clusters.detect("slurm")
    with pytest.raises(ValueError, match="'slurm', 'ompi', .*'mpi4py' or 'deactivate', got 'k8s'"):
        clusters.detect("k8s")


@pytest.mark.parametrize(
    ("nodes", "host"),
    [("a", "a"), ("a,b", "a"), ("a[1-2]", "a1"), ("a-b[07]", "a-b07"), ("n[2,4-5],m", "n2")],
)
def test_the_first_host_of_a_node_list(nodes, host):
    assert clusters.first_host(nodes) == host


def test_torchrun_tells_address_count_and_number(environment):
    environment({"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "host3", "MASTER_PORT": "29500"})
    assert clusters.detect(None) == {
        "coordinator_address": "host3:29500",
        "num_processes": "4",
        "process_id": "2",
    }
    environment({"TORCHELASTIC_RUN_ID": "none"})
    assert clusters.detect("torchrun")["coordinator_address"] == "host3:29501"


def test_a_pod_of_an_indexed_job_finds_the_first(environment, monkeypatch):
    environment({"JOB_COMPLETION_INDEX": "3", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    monkeypatch.setattr(clusters.socket, "getfqdn", lambda: "train-3.workers.default.svc")
    assert clusters.detect(None) == {
        "coordinator_address": "train-0.workers.default.svc:61440",
        "process_id": "3",
    }

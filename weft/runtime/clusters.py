"""Launchers' environments: the coordinator's address, number of processes, this one's number."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from importlib.util import find_spec
from typing import Any

_FIRST_PORT, _PORTS = 61440, 4096
"""Any free port will do, if all processes choose the same: one that the job's number gives."""


def detect(method: str | None) -> dict[str, Any]:
    """coordinator_address, num_processes and process_id as far as they are known.

    method: one of `METHODS`; None: the first launcher whose variables are set (mpi4py, which
    communicates to find out, only if it is asked for); "deactivate": none.

    Raises:
      ValueError: an unknown method.
      RuntimeError: the process was not started by the launcher that is named.
    """
    if method == "deactivate":
        return {}
    if method is None:
        return next((options for m in AUTOMATIC if (options := METHODS[m]())), {})
    if method not in METHODS:
        raise ValueError(
            f"weft.distributed.initialize: cluster_detection_method must be one of "
            f"{', '.join(map(repr, METHODS))} or 'deactivate', got {method!r}"
        )
    options = METHODS[method]()
    if not options:
        raise RuntimeError(
            f"weft.distributed.initialize: cluster_detection_method is {method!r}, but this "
            "process shows no sign of it; start it with that launcher, or give the addresses"
        )
    return options


def _slurm() -> dict[str, Any]:
    if "SLURM_PROCID" not in os.environ or "SLURM_STEP_NODELIST" not in os.environ:
        return {}
    host = first_host(os.environ["SLURM_STEP_NODELIST"])
    return {
        "coordinator_address": f"{host}:{_port(int(os.environ.get('SLURM_JOB_ID', '0')))}",
        "num_processes": os.environ.get("SLURM_NTASKS"),
        "process_id": os.environ["SLURM_PROCID"],
    }


def _ompi() -> dict[str, Any]:
    """Open MPI: `1531576320.0;tcp://10.96.0.1,10.148.0.1:34911` is where mpirun runs."""
    uri = os.environ.get("OMPI_MCA_orte_hnp_uri")  # noqa: SIM112  (its name)
    if uri is None:
        return _pmix()
    match = re.match(r"(\d+)\..*?(?:tcp://([^,:]+)|tcp6://\[([^,\]]+))", uri)
    if match is None:
        raise ValueError(f"OMPI_MCA_orte_hnp_uri {uri!r} names no address")
    job, v4, v6 = match.groups()
    return {
        # A job's number is a multiple of 2**12.
        "coordinator_address": f"{v4 or f'[{v6}]'}:{_port(int(job) >> 12)}",
        "num_processes": os.environ["OMPI_COMM_WORLD_SIZE"],
        "process_id": os.environ["OMPI_COMM_WORLD_RANK"],
    }


def _pmix() -> dict[str, Any]:
    """Open MPI 5 and prterun of PRRTE; `prterun-login1-7342@1` is a job's name.

    Process 0 is on this host where all processes are, and otherwise taken to be where mpirun runs,
    which the job's name tells; process 0 knows if that is wrong. prterun does not tell how many
    processes there are.
    """
    job, number = os.environ.get("PMIX_NAMESPACE"), os.environ.get("PMIX_RANK")
    if job is None or number is None:
        return {}
    options = {"process_id": number}
    size = os.environ.get("OMPI_COMM_WORLD_SIZE")
    if size is not None:
        options["num_processes"] = size
    match = re.fullmatch(r"\w+?-(.+)-\d+@\d+", job)
    host = match and match[1]
    if size is not None and os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == size:
        host = "127.0.0.1"
    elif number == "0" and os.environ.get("PMIX_HOSTNAME") not in (None, host):
        host = None
    if host is not None:
        key = int(hashlib.blake2b(job.encode(), digest_size=4).hexdigest(), 16)
        options["coordinator_address"] = f"{host}:{_port(key)}"
    return options


def _mpi4py() -> dict[str, Any]:
    if find_spec("mpi4py") is None:
        return {}
    from mpi4py import MPI  # type: ignore[import-not-found]

    world = MPI.COMM_WORLD
    host = world.bcast(MPI.Get_processor_name(), root=0)
    return {
        "coordinator_address": f"{host}:{_port(world.bcast(os.getpid(), root=0))}",
        "num_processes": world.Get_size(),
        "process_id": world.Get_rank(),
    }


def _torchrun() -> dict[str, Any]:
    """torchrun and launchers that set its variables."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        return {}
    # torchrun's own store listens at MASTER_PORT of process 0's host: the next port is taken.
    port = int(os.environ["MASTER_PORT"]) + ("TORCHELASTIC_RUN_ID" in os.environ)
    return {
        "coordinator_address": f"{os.environ['MASTER_ADDR']}:{port}",
        "num_processes": os.environ["WORLD_SIZE"],
        "process_id": os.environ["RANK"],
    }


def _kubernetes() -> dict[str, Any]:
    """Return an indexed Job with a headless Service: pod i is the host `<job>-<i>.<service>`.

    The manifest gives WEFT_NUM_PROCESSES, as Kubernetes tells a pod its index only.
    """
    index = os.environ.get("JOB_COMPLETION_INDEX")
    if index is None or "KUBERNETES_SERVICE_HOST" not in os.environ:
        return {}
    host, _, domain = socket.getfqdn().partition(".")
    job = host.removesuffix(f"-{index}")
    address = f"{job}-0.{domain}" if domain else f"{job}-0"
    return {"coordinator_address": f"{address}:{_FIRST_PORT}", "process_id": index}


METHODS = {
    "slurm": _slurm,
    "ompi": _ompi,
    "torchrun": _torchrun,
    "kubernetes": _kubernetes,
    "mpi4py": _mpi4py,
}
AUTOMATIC = ("slurm", "ompi", "torchrun", "kubernetes")
"""Those that variables tell; mpi4py communicates to find out."""


def _port(job: int) -> int:
    return _FIRST_PORT + job % _PORTS


def first_host(nodes: str) -> str:
    """Return the first host of a Slurm node list, such as `gpu[003-007,12],login1`."""
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+))?", nodes)
    if match is None:
        raise ValueError(f"SLURM_STEP_NODELIST {nodes!r} names no host")
    return match.group(1) + (match.group(2) or "")

# Tests: tests/runtime/test_backend.py
"""The PJRT client of the CPU, with virtual devices; names of jaxlib's classes of devices."""

from __future__ import annotations

import functools

from jaxlib import _jax

from weft._xla import ffi

Client = _jax.Client
Device = _jax.Device
DeviceList = _jax.DeviceList
Memory = _jax.Memory
ifrt_programs = _jax.ifrt_programs
XlaRuntimeError = _jax.JaxRuntimeError


def is_compile_only(client: Client) -> bool:
    """Tell whether a client only compiles, for devices described by a topology."""
    return isinstance(client, _jax.CompileOnlyPyClient)


@functools.cache
def platform_of(device: Device) -> str:
    """Return the platform that programs for a device are lowered for: "cpu", "cuda", "rocm", "tpu".

    jaxlib's ``device.platform`` is "gpu" for all GPUs.
    """
    return device.client._raw_platform


def make_cpu_client(
    *,
    num_devices: int | None = None,
    asynchronous: bool = True,
    distributed_client=None,
    node_id: int = 0,
    num_nodes: int = 1,
    collectives: str | None = "gloo",
    hostname: str | None = None,
) -> Client:
    """Return the CPU client. ``num_devices`` virtual devices share the host's memory.

    With a ``distributed_client`` the processes form one platform of ``num_nodes`` and exchange
    data through ``collectives`` ("gloo", "mpi" or None). Gloo listens at the address of
    ``hostname``, that of this host unless given.
    """
    backend = None
    if distributed_client is not None and collectives == "gloo":
        backend = _jax.make_gloo_tcp_collectives(
            distributed_client=distributed_client, hostname=hostname
        )
    elif distributed_client is not None and collectives == "mpi":
        backend = _jax.make_mpi_collectives()
        backend.Init()
    elif collectives not in (None, "gloo", "mpi"):
        raise ValueError(f"collectives must be 'gloo', 'mpi' or None, got {collectives!r}")
    ffi.attach("cpu", _jax.register_custom_call_target)
    return _jax.get_tfrt_cpu_client(
        asynchronous=asynchronous,
        distributed_client=distributed_client,
        node_id=node_id,
        num_nodes=num_nodes,
        collectives=backend,
        num_devices=num_devices,
    )

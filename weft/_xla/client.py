"""PJRT clients: the CPU client with virtual devices, GPU and TPU clients from installed plugins."""

from __future__ import annotations

import os
import sys

from jaxlib import _jax

from weft._xla import ffi

Client = _jax.Client
Device = _jax.Device
DeviceList = _jax.DeviceList
Memory = _jax.Memory
XlaRuntimeError = _jax.JaxRuntimeError

# Plugin packages, newest CUDA first.
_CUDA_PACKAGES = ("xla_cuda13", "xla_cuda12")


def make_cpu_client(
    *,
    num_devices: int | None = None,
    asynchronous: bool = True,
    distributed_client=None,
    node_id: int = 0,
    num_nodes: int = 1,
    collectives: str | None = "gloo",
) -> Client:
    """The CPU client. ``num_devices`` virtual devices share the host's memory.

    With a ``distributed_client`` the processes form one platform of ``num_nodes`` and exchange
    data through ``collectives`` ("gloo", "mpi" or None).
    """
    backend = None
    if distributed_client is not None and collectives == "gloo":
        backend = _jax.make_gloo_tcp_collectives(distributed_client=distributed_client)
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


def find_cuda_plugin() -> str | None:
    """The path of the installed CUDA PJRT plugin, or None. Imports nothing."""
    explicit = os.environ.get("WEFT_CUDA_PLUGIN")
    if explicit:
        return explicit
    for root in sys.path:
        for package in _CUDA_PACKAGES:
            found = os.path.join(root, "jax_plugins", package, "xla_cuda_plugin.so")
            if os.path.isfile(found):
                return found
    return None


def make_cuda_client(
    *,
    distributed_client=None,
    node_id: int = 0,
    num_nodes: int = 1,
    visible_devices=None,
    partition_index: int | None = None,
) -> Client:
    """The CUDA client from the installed plugin (package ``jax-cuda13-plugin`` or ``-cuda12-``)."""
    path = find_cuda_plugin()
    if path is None:
        raise RuntimeError(
            "no CUDA plugin is installed; run `pip install 'jax-cuda13-plugin[with-cuda]'`"
        )
    if not _jax.pjrt_plugin_loaded("cuda"):
        c_api = _jax.load_pjrt_plugin("cuda", path, None)
        extension = _cuda_extension()
        if extension is not None:

            def register(name, fn, platform, api_version, traits):
                extension.register_custom_call_target(
                    c_api, name, fn, api_version=api_version, traits=traits
                )

            ffi.attach("cuda", register)
        if not _jax.pjrt_plugin_initialized("cuda"):
            _jax.initialize_pjrt_plugin("cuda")
    options: dict[str, str | int | float | bool | list[int]] = {
        "platform_name": "cuda",
        "allocator": os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default").lower(),
    }
    if fraction := os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION"):
        options["memory_fraction"] = float(fraction)
    if preallocate := os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE"):
        options["preallocate"] = preallocate.lower() not in ("0", "false")
    if distributed_client is not None:
        options.update(node_id=node_id, num_nodes=num_nodes)
    if partition_index is not None:
        options["partition_index"] = partition_index
    if visible_devices is not None:
        options["visible_devices"] = [int(d) for d in visible_devices]
    return _jax.get_c_api_client("cuda", options, distributed_client, None)


def _cuda_extension():
    for version in ("13", "12"):
        try:
            return __import__(
                f"jax_cuda{version}_plugin.cuda_plugin_extension", fromlist=["registrations"]
            )
        except ImportError:
            continue
    return None

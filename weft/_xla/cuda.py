# Tests: tests/runtime/test_backend.py, tests/test_topologies.py
"""XLA's CUDA plugin: found, loaded once, its kernels registered; GPUs, and GPUs that are not there.

The plugin (package jax-cuda12-pjrt or jax-cuda13-pjrt) loads where there is no GPU and no driver,
and compiles there for GPUs of which it is given a description. Kernels of jaxlib (cuSOLVER's and
others) stand in the package jax-cuda12-plugin, one library a family, loaded when first called.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from typing import Any

from jaxlib import _jax

from weft._xla import ffi, release

XlaRuntimeError = _jax.JaxRuntimeError

# Folders of the plugin, newest CUDA first.
_FOLDERS = ("xla_cuda13", "xla_cuda12")
_PLUGIN = "xla_cuda_plugin.so"
_loaded: str | None = None


def find_plugin() -> str | None:
    """Return the path of the CUDA PJRT plugin in use or installed, or None. Imports nothing."""
    explicit = _loaded or os.environ.get("WEFT_CUDA_PLUGIN")
    if explicit:
        return explicit
    for root in sys.path:
        for folder in _FOLDERS:
            plugin = os.path.join(root, "jax_plugins", folder, _PLUGIN)
            if os.path.isfile(plugin):
                return plugin
    return None


@functools.cache
def load_plugin() -> tuple[Any, str]:
    """Return the plugin's C API and its path, loaded once; no device is touched.

    Raises:
      RuntimeError: no plugin is installed, or it cannot be loaded (says what to install).
    """
    path = find_plugin()
    remedy = (
        f"run `pip install --no-deps jax-cuda12-pjrt=={release} jax-cuda12-plugin=={release} "
        "nvidia-cuda-nvcc-cu12` (no GPU and no driver is needed to compile), or set "
        f"WEFT_CUDA_PLUGIN to the path of an {_PLUGIN} for jaxlib {release}"
    )
    if path is None:
        raise RuntimeError(f"XLA's CUDA plugin is not installed; {remedy}")
    try:
        api = _jax.load_pjrt_plugin("cuda", path, None)
        if not _jax.pjrt_plugin_initialized("cuda"):
            _jax.initialize_pjrt_plugin("cuda")
    except (RuntimeError, ValueError, OSError) as error:
        raise RuntimeError(
            f"XLA's CUDA plugin {path} cannot be loaded: {error}; {remedy}"
        ) from error
    global _loaded
    _loaded = path
    _attach(api, path)
    return api, path


def _attach(api: Any, path: str) -> None:
    """Register the waiting targets, and jaxlib's own, with the plugin."""
    extension = _library(path, "cuda_plugin_extension")
    if extension is None:
        return

    def register(name: str, fn: Any, platform: str, api_version: int, traits: int) -> None:
        extension.register_custom_call_target(api, name, fn, platform, api_version, traits)

    ffi.attach(
        "cuda",
        register,
        types=functools.partial(extension.register_custom_type, api),
        partitioner=lambda name: _jax.register_custom_call_as_batch_partitionable(name, api),
    )
    for name, registration in extension.ffi_types().items():
        ffi.register_type(name, registration, "cuda")
    for name, handler in extension.ffi_handlers().items():
        ffi.register_target(name, handler, "cuda")


@functools.cache
def register_kernels(family: str) -> None:
    """Register jaxlib's kernels of a family for GPUs: "_solver", "_linalg", "_prng", ….

    Raises:
      RuntimeError: the plugin is not there, or comes without its kernels.
    """
    _, path = load_plugin()
    library = _library(path, family)
    if library is None:
        raise RuntimeError(
            f"XLA's CUDA plugin {path} has no kernels {family!r} beside it: install the package "
            "jax-cuda12-plugin or jax-cuda13-plugin of the same version"
        )
    if family == "_hybrid":  # kernels that call the host's LAPACK
        library.initialize()
    for name, handler in library.registrations().items():
        typed = name.endswith("_ffi") or family in ("_linalg", "_hybrid", "_triton")
        ffi.register_target(name, handler, "cuda", 1 if typed else 0)
        if family in ("_solver", "_hybrid") or "lu_pivots" in name or "gtsv2" in name:
            ffi.register_batch_partitionable(name)


def _library(path: str, name: str) -> Any:
    """Return a library of the package jax_cuda1x_plugin, from the plugin's place or the path."""
    version = "13" if "xla_cuda13" in path else "12"
    package = f"jax_cuda{version}_plugin"
    beside = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    for root in (beside, *sys.path):
        file = os.path.join(root, package, f"{name}.so")
        if os.path.isfile(file):
            spec = importlib.util.spec_from_file_location(f"{package}.{name}", file)
            module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
            spec.loader.exec_module(module)  # type: ignore[union-attr]
            return module
    return None


def make_client(
    *,
    distributed_client: Any = None,
    node_id: int = 0,
    num_nodes: int = 1,
    visible_devices: str | None = None,
    partition_index: int | None = None,
) -> _jax.Client:
    """Return the client of this machine's GPUs; XLA_CLIENT_MEM_FRACTION etc. shape its memory."""
    from jaxlib.xla_client import generate_pjrt_gpu_plugin_options

    load_plugin()
    options: dict[str, Any] = {**generate_pjrt_gpu_plugin_options()}
    if distributed_client is not None:
        options.update(node_id=node_id, num_nodes=num_nodes)
    if partition_index is not None:
        options["partition_index"] = partition_index
    if visible_devices is not None:
        options["visible_devices"] = [int(d) for d in visible_devices]
    return _jax.get_c_api_client("cuda", options, distributed_client, None)


def described_devices(name: str, options: dict[str, Any]) -> list[_jax.Device]:
    """Describe GPUs by the plugin's options: programs compile for them and cannot run.

    options: "target_config", a GpuTargetConfigProto as text, and "topology", such as "1x1x8".
    """
    api, _ = load_plugin()
    return _jax.get_c_api_topology(api, name, options)._make_compile_only_devices()

"""Devices that are not there: programs compiled for eight H100s or TPUs by XLA's plugins, as text.

The plugins stand in the environment's folders `cuda` and `tpu`, where `make test` puts them.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft import NamedSharding, P, ShapeDtypeStruct, topologies

ROOT = Path(__file__).parent.parent
CUDA = Path(sys.prefix) / "cuda"
TPU = Path(sys.prefix) / "tpu" / "libtpu" / "libtpu.so"


def use_plugin() -> None:
    """Lets weft find the plugin; the CPU's devices stay the default ones."""
    found = sorted((CUDA / "jax_plugins").glob("xla_cuda*/xla_cuda_plugin.so"))
    assert found, "tests that compile for GPUs need XLA's CUDA plugin: run `make cuda` once"
    weft.devices()
    os.environ["WEFT_CUDA_PLUGIN"] = str(found[-1])
    try:
        topologies.get_topology_desc("h100:1")
    finally:
        del os.environ["WEFT_CUDA_PLUGIN"]


def use_libtpu() -> None:
    """Lets weft find XLA's compiler for TPUs."""
    assert TPU.exists(), "tests that compile for TPUs need libtpu: run `make tpu` once"
    os.environ["TPU_LIBRARY_PATH"] = str(TPU)
    try:
        topologies.get_topology_desc("v5e:2x2")
    finally:
        del os.environ["TPU_LIBRARY_PATH"]


@cache
def topology(name: str = "h100:8") -> topologies.TopologyDescription:
    (use_libtpu if name.startswith("v") else use_plugin)()
    return topologies.get_topology_desc(name)


@cache
def mesh_of(name: str = "h100:8", **sizes: int) -> weft.sharding.Mesh:
    """A mesh over described GPUs, by default of one axis "x"."""
    sizes = sizes or {"x": len(topology(name).devices)}
    return topologies.make_mesh(topology(name), tuple(sizes.values()), tuple(sizes))


def placed(x: Any, mesh: weft.sharding.Mesh, *spec: Any) -> ShapeDtypeStruct:
    """The type of a host array, or of a (shape, dtype), placed on a mesh."""
    if not isinstance(x, tuple):
        x = np.shape(x), np.asarray(x).dtype
    return ShapeDtypeStruct(*x, sharding=NamedSharding(mesh, P(*spec)))


def compiled(function: Any, *args: Any, mesh: Any = None) -> Any:
    """The function compiled for one H100, or for whole arguments on a mesh; structs stay."""
    mesh = mesh or mesh_of("h100:1")
    args = tuple(a if isinstance(a, ShapeDtypeStruct) else placed(a, mesh) for a in args)
    return weft.jit(function).lower(*args).compile()

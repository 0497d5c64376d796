"""weft.topologies: descriptions of devices that are not there, to compile programs for them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from weft._xla import cuda, tpu
from weft._xla.client import XlaRuntimeError
from weft.core.namespace import seal
from weft.mesh_utils import create_device_mesh
from weft.runtime import backend
from weft.runtime.gpus import GPUS
from weft.sharding.mesh import Mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]

_NODE = 8  # GPUs of a host where the name does not say
_MOST = 2**20  # devices that are described


class TopologyDescription:
    """Devices to compile for: `.devices`, in their order.

    >>> import weft
    >>> weft.topologies.TopologyDescription(weft.devices()[:1]).devices[0].platform
    'cpu'
    """

    devices: list

    def __init__(self, devices: Sequence[Any]) -> None:
        self.devices = list(devices)

    def __repr__(self) -> str:
        kinds = sorted({d.device_kind for d in self.devices})
        hosts = len({d.process_index for d in self.devices})
        return (
            f"<topology: {len(self.devices)} × {', '.join(kinds)}"
            f" on {hosts} host{'s' * (hosts != 1)}>"
        )


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """Return the devices of this machine, of one platform or of the default one.

    >>> import weft
    >>> weft.topologies.get_attached_topology().devices == weft.devices()
    True
    """
    return TopologyDescription(backend.devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: object
) -> TopologyDescription:
    """Return a description of GPUs or TPUs that need not be there, by XLA's plugin for them.

    Programs whose shardings are over a mesh of its devices can be traced, lowered and compiled, and
    everything but run: `.as_text()`, `.memory_analysis()`, `.cost_analysis()`, `weft.comm`.

    Args:
      topology_name: for GPUs a kind (a100, h100, h200, b200) and how many there are: "h100:8" for
        one host, "h100:2x8" for two hosts of eight, "h100:4x2x8" for four groups of two such
        hosts, between which the network is slower. "h100" is "h100:8". With target_config, the
        counts suffice. For TPUs a kind and its torus: "v5e:2x4", "v4:2x2x2".
      platform: "cuda" or "gpu", or "tpu". None is what the name says.
      kwargs: options of the plugin. For GPUs, target_config: the text of a GpuTargetConfigProto, or
        the path of a file with it, for any other GPU; topology: the counts, "1x1x8". For TPUs,
        such as chips_per_host_bounds=(1, 1, 1), with which "v5e:1x1" is one chip.

    Raises:
      ValueError: no such devices, counts or platform.
      RuntimeError: the plugin is not installed (says how to; no device and no driver is needed).

    Example:
        >>> import weft
        >>> weft.topologies.get_topology_desc("h100:two")
        Traceback (most recent call last):
            ...
        ValueError: get_topology_desc: 'two' in topology_name='h100:two' must be counts...

    Source: PJRT's plugins for GPUs and TPUs, `PJRT_TopologyDescription_Create`.
    """
    if not isinstance(topology_name, str):
        raise TypeError(f"get_topology_desc: topology_name must be a string, got {topology_name!r}")
    if platform is None:
        platform = "tpu" if _TPU.match(topology_name) else "cuda"
    if platform not in ("cuda", "gpu", "tpu"):
        raise ValueError(
            f"get_topology_desc: platform {platform!r} cannot be described, only 'cuda' and 'tpu' "
            f"can; for the {platform} devices of this machine there is "
            f"get_attached_topology({platform!r}), and programs are partitioned and costed for a "
            "weft.sharding.AbstractMesh of any size"
        )
    name, describe = topology_name, _tpus if platform == "tpu" else _gpus
    try:
        return TopologyDescription(describe(name, kwargs))
    except XlaRuntimeError as error:
        raise ValueError(
            f"get_topology_desc: XLA's plugin for {platform} refuses the description of {name!r} "
            f"({', '.join(f'{k}={v!r:.60}' for k, v in kwargs.items()) or 'no options'}): {error}"
        ) from error


_TPU = re.compile(r"(tpu|v)\d", re.IGNORECASE)


def _tpus(name: str, options: dict[str, Any]) -> list:
    if math.prod(map(int, re.findall(r"\d+", name.partition(":")[2]))) > _MOST:
        raise ValueError(f"get_topology_desc: {name!r} is more devices than can be described")
    return tpu.described_devices(
        name, {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}
    )


def _gpus(name: str, options: dict[str, Any]) -> list:
    target, shape = _parsed(name, **options)

    return cuda.described_devices(shape, {**options, "target_config": target, "topology": shape})


def _parsed(
    topology_name: str, target_config: str | None = None, topology: str | None = None, **_: object
) -> tuple[str, str]:
    """Return the description of a device as text, and the counts of groups, hosts and devices."""
    gpu, colon, counts = topology_name.lower().partition(":")
    if not colon and re.fullmatch(r"\d+(x\d+)*", gpu):
        gpu, counts = "", gpu
    if target_config is None:
        if gpu not in GPUS:
            raise ValueError(
                f"get_topology_desc: there is no GPU {gpu!r} in topology_name={topology_name!r}; "
                f"the GPUs known are {', '.join(GPUS)}, as in 'h100:8'. Others take target_config="
            )
        target_config = GPUS[gpu].target_config()
    elif "{" not in target_config:
        with open(target_config, encoding="utf-8") as file:
            target_config = file.read()
    counts = topology or counts or str(_NODE)
    parts = counts.split("x")
    if not all(re.fullmatch("[1-9][0-9]*", n) for n in parts) or len(parts) > 3:
        raise ValueError(
            f"get_topology_desc: {counts!r} in topology_name={topology_name!r} must be counts of "
            "devices, 8, of hosts and devices, 2x8, or of groups, hosts and devices, 1x2x8"
        )
    if math.prod(map(int, parts)) > _MOST:
        raise ValueError(f"get_topology_desc: {counts!r} is more devices than can be described")
    return target_config, "x".join(["1"] * (3 - len(parts)) + parts)


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """Return a mesh over the devices of a topology.

    Args:
      topo: from `get_topology_desc` or `get_attached_topology`.
      mesh_shape: the sizes of the axes; their product is the number of devices.
      axis_names: the names of the axes.
      contiguous_submeshes: about the tori of TPUs: GPUs and CPUs have no such form.

    Raises ValueError if the number of devices is another.

    >>> import weft
    >>> topology = weft.topologies.TopologyDescription(weft.devices()[:1])
    >>> weft.topologies.make_mesh(topology, (1, 1), ("data", "model")).shape
    {'data': 1, 'model': 1}
    """
    devices = create_device_mesh(
        mesh_shape, topo.devices, contiguous_submeshes=contiguous_submeshes
    )
    return Mesh(devices, axis_names)


seal(globals())

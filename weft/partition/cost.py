"""Time estimates of collectives: an α-β model for each level of a machine, with presets.

A collective over n devices that each send b bytes in s steps takes s·α + b/β on links of latency α
and bandwidth β (Hockney 1994; step counts as in Thakur, Rabenseifner, Gropp, "Optimization of
collective communication operations in MPICH", 2005). A group uses the links of the innermost level
that holds all its devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.partition.collect import Collective


@dataclass(frozen=True, slots=True)
class Link:
    """A network as one device sees it: latency of a step in s, bandwidth it can send in bytes/s."""

    latency: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class HardwareModel:
    """A machine for `weft.comm`'s estimates.

    Attributes:
      name: shown in reports.
      levels: (devices, link) from the inside out; `devices` with consecutive numbers are joined
        by `link`. The last level's count may be None: any number.
      axes: links of mesh axes by name, which take precedence over `levels` (a torus dimension).
      peak_flops: of a device, FLOP/s, for the tensor precision of the preset.
      memory_bandwidth: bytes/s of a device's memory.
      memory_bytes: size of a device's memory.
      source: where the numbers come from.

    Example:
        >>> from weft.partition.cost import HardwareModel, Link
        >>> levels = ((16, Link(2e-6, 100e9)), (None, Link(8e-6, 12e9)))
        >>> model = HardwareModel("two racks", levels)
        >>> round(model.seconds("all_reduce", 16, 16, 1e6) * 1e6)
        70
    """

    name: str
    levels: tuple[tuple[int | None, Link], ...]
    axes: Mapping[str, Link] = field(default_factory=dict)
    peak_flops: float = 0.0
    memory_bandwidth: float = 0.0
    memory_bytes: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"HardwareModel: name must be a string, got {self.name!r}")
        if not self.levels:
            raise ValueError("HardwareModel: levels is empty; give at least one (None, Link(...))")
        for level in self.levels:
            if not (isinstance(level, tuple) and len(level) == 2 and isinstance(level[1], Link)):
                raise TypeError(
                    "HardwareModel: levels must be a tuple of pairs (number of devices or None, "
                    f"Link(latency, bandwidth)), got {level!r:.100}"
                )
        for axis, link in dict(self.axes).items():
            if not isinstance(link, Link):
                raise TypeError(
                    "HardwareModel: axes must give a Link(latency, bandwidth) for each name, got "
                    f"{link!r:.100} for {axis!r}"
                )
        for field_name in ("peak_flops", "memory_bandwidth", "memory_bytes"):
            value = getattr(self, field_name)
            if not isinstance(value, int | float) or value < 0:
                raise ValueError(
                    f"HardwareModel: {field_name} must be a number of at least 0, got {value!r}"
                )
        for count, link in self.levels:
            if link.bandwidth <= 0 or link.latency < 0 or (count is not None and count < 1):
                raise ValueError(
                    f"HardwareModel: level {(count, link)} needs bandwidth > 0, latency >= 0"
                    " and a positive device count (None for the outermost)"
                )

    def link(self, span: int, axes: Iterable[str] = ()) -> Link:
        """Return a group's link: its axis's own, or the innermost level with `span` devices."""
        axis_links = [self.axes[a] for a in (name.split(":")[0] for name in axes) if a in self.axes]
        if axis_links:
            return Link(max(k.latency for k in axis_links), min(k.bandwidth for k in axis_links))
        for count, link in self.levels:
            if count is None or span <= count:
                return link
        return self.levels[-1][1]

    def seconds(
        self, kind: str, group_size: int, span: int, bytes_sent: float, axes: Iterable[str] = ()
    ) -> float:
        """Time of one execution, in seconds.

        Args:
          kind: a collective's name, as in `Collective.kind`.
          group_size: devices that take part.
          span: reach of a group in device numbers.
          bytes_sent: by each device.
          axes: mesh axes crossed.
        """
        link = self.link(span, axes)
        steps = _STEPS[kind](group_size)
        return steps * link.latency + bytes_sent / link.bandwidth

    def estimate(self, collective: Collective) -> float:
        """Time of all executions of a collective in one call, in seconds."""
        c = collective
        return c.trips * self.seconds(c.kind, c.group_size, c.span, c.bytes, c.axes)


_STEPS = {
    "all_reduce": lambda n: 2 * (n - 1),
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "all_to_all": lambda n: n - 1,
    "collective_permute": lambda n: 1,
    "collective_broadcast": lambda n: math.ceil(math.log2(max(n, 2))),
}

# Bandwidths are one way per device. Latencies are typical of measured small-message collectives
# (a step of NCCL's ring inside a node and across InfiniBand, a hop of ICI), not data-sheet values.
CPU = HardwareModel(
    "cpu",
    levels=((None, Link(5e-6, 10e9)),),
    peak_flops=1e11,
    memory_bandwidth=20e9,
    memory_bytes=16 * 2**30,
    source="virtual devices of one host: copies through memory at about half of one DDR4 channel",
)
A100 = HardwareModel(
    "a100",
    levels=((8, Link(2.5e-6, 300e9)), (None, Link(6e-6, 25e9))),
    peak_flops=312e12,
    memory_bandwidth=2.039e12,
    memory_bytes=80e9,
    source="NVIDIA A100 SXM4 and DGX A100 data sheets: NVLink 3 600 GB/s both ways for each GPU,"
    " 8 GPUs a node, one 200 Gb/s HDR InfiniBand adapter for each GPU; BF16 dense FLOP/s",
)
H100 = HardwareModel(
    "h100",
    levels=((8, Link(2e-6, 450e9)), (None, Link(6e-6, 50e9))),
    peak_flops=989e12,
    memory_bandwidth=3.35e12,
    memory_bytes=80e9,
    source="NVIDIA H100 SXM5 and DGX H100 data sheets: NVLink 4 900 GB/s both ways for each GPU,"
    " 8 GPUs a node, one 400 Gb/s NDR InfiniBand adapter for each GPU; BF16 dense FLOP/s",
)
H200 = HardwareModel(
    "h200",
    levels=H100.levels,
    peak_flops=989e12,
    memory_bandwidth=4.8e12,
    memory_bytes=141e9,
    source="NVIDIA H200 SXM data sheet: 141 GB HBM3e at 4.8 TB/s, NVLink and network as H100",
)
B200 = HardwareModel(
    "b200",
    levels=((8, Link(2e-6, 900e9)), (None, Link(6e-6, 50e9))),
    peak_flops=2250e12,
    memory_bandwidth=8e12,
    memory_bytes=180e9,
    source="NVIDIA DGX B200 data sheet: 1440 GB at 64 TB/s in 8 GPUs, NVLink 5 1.8 TB/s both ways"
    " for each GPU, one 400 Gb/s InfiniBand adapter for each GPU; BF16 dense FLOP/s",
)
TPU_V5P = HardwareModel(
    "tpu_v5p",
    # 1200 GB/s both ways over the six links of a 3D torus: 100 GB/s one way for each link. A ring
    # along one mesh axis uses both directions of one torus dimension.
    levels=((8960, Link(1e-6, 200e9)), (None, Link(10e-6, 50e9 / 8))),
    peak_flops=459e12,
    memory_bandwidth=2765e9,
    memory_bytes=95 * 2**30,
    source="Google Cloud documentation, TPU v5p (cloud.google.com/tpu/docs/v5p): 1200 GB/s"
    " bidirectional ICI for each chip, 3D torus, 8960 chips a pod, 50 Gb/s data-center network",
)
TPU_V5E = HardwareModel(
    "tpu_v5e",
    # Four links of a 2D torus, 400 GB/s both ways; a ring along one mesh axis uses two of them.
    levels=((256, Link(1e-6, 100e9)), (None, Link(10e-6, 25e9 / 8))),
    peak_flops=197e12,
    memory_bandwidth=819e9,
    memory_bytes=16e9,
    source="Google Cloud documentation, TPU v5e (cloud.google.com/tpu/docs/v5e): 1600 Gb/s ICI one"
    " way for each chip, 2D torus, 256 chips a pod, 6.4 Tb/s data-center network for each pod",
)
TPU_V6E = HardwareModel(
    "tpu_v6e",
    levels=((256, Link(1e-6, 200e9)), (None, Link(10e-6, 100e9 / 8))),
    peak_flops=918e12,
    memory_bandwidth=1600e9,
    memory_bytes=32e9,
    source="Google Cloud documentation, TPU v6e (cloud.google.com/tpu/docs/v6e): 3200 Gb/s ICI one"
    " way for each chip, 2D torus, 256 chips a pod, 25.6 Tb/s data-center network for each pod",
)

_ALL = (CPU, A100, H100, H200, B200, TPU_V5P, TPU_V5E, TPU_V6E)
PRESETS: dict[str, HardwareModel] = {m.name: m for m in _ALL}


def hardware(model: str | HardwareModel | None) -> HardwareModel:
    """Return a preset by name, or the model itself; None is the CPU preset.

    Raises:
      ValueError: no such preset; lists those there are.
    """
    if isinstance(model, HardwareModel):
        return model
    if model is None:
        return CPU
    if model not in PRESETS:
        raise ValueError(
            f"hardware model {model!r} is unknown; presets are {', '.join(PRESETS)},"
            " or give a weft.HardwareModel"
        )
    return PRESETS[model]

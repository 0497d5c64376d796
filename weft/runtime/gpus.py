# Tests: tests/test_topologies.py
"""GPUs as XLA's compiler must know them, for compiling where there are none.

Sources: NVIDIA's data sheets (cores, memory, bandwidth, links), the table "technical specifications
per compute capability" of the CUDA C++ Programming Guide (sizes in a multiprocessor), and what the
devices themselves report (memory left to programs, clock), which XLA keeps for its own tests in
xla/backends/gpu/target_config/specs.
"""

from __future__ import annotations

from dataclasses import dataclass

_KIB = 2**10
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU.

    Attributes:
      kind: the name that the device itself has, as `device.device_kind`.
      capability: the compute capability, such as (9, 0).
      cores: multiprocessors. lanes: float32 units of each.
      shared_memory: of a multiprocessor, in bytes. block_shared_memory: what one block may use.
      memory, bandwidth: bytes, and bytes a second, of the device's memory.
      cache: bytes of the L2 cache. clock: GHz, the highest.
      links: NVLink connections.
    """

    kind: str
    capability: tuple[int, int]
    cores: int
    lanes: int
    shared_memory: int
    block_shared_memory: int
    memory: int
    bandwidth: int
    cache: int
    clock: float
    links: int

    def target_config(self) -> str:
        """Return the text of XLA's GpuTargetConfigProto."""
        major, minor = self.capability
        # From 9.0 on, instructions for matrices are those of one architecture only ("sm_90a").
        accelerated = " feature_extension: ACCELERATED_FEATURES" if major >= 9 else ""
        return f"""gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: {48 * _KIB}
  shared_memory_per_block_optin: {self.block_shared_memory}
  shared_memory_per_core: {self.shared_memory}
  core_count: {self.cores} fpus_per_core: {self.lanes} clock_rate_ghz: {self.clock}
  memory_bandwidth: {self.bandwidth} device_memory_size: {self.memory}
  l2_cache_size: {self.cache}
  cuda_compute_capability {{ major: {major} minor: {minor}{accelerated} }}
  device_interconnect_info {{ active_links: {self.links} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
runtime_version {{ major: 12 minor: 8 }}
device_description_str: "{self.kind}"
"""


_HOPPER = {
    "capability": (9, 0),
    "cores": 132,
    "lanes": 128,
    "shared_memory": 228 * _KIB,
    "block_shared_memory": 227 * _KIB,
    "cache": 50 * _MIB,
    "clock": 1.98,
    "links": 18,
}

GPUS = {
    "a100": Gpu(
        kind="NVIDIA A100-SXM4-80GB",
        capability=(8, 0),
        cores=108,
        lanes=64,
        shared_memory=164 * _KIB,
        block_shared_memory=163 * _KIB,
        memory=85_100_068_864,
        bandwidth=2039 * 10**9,
        cache=40 * _MIB,
        clock=1.41,
        links=12,
    ),
    "h100": Gpu(
        kind="NVIDIA H100 80GB HBM3",
        memory=84_942_979_072,
        bandwidth=3350 * 10**9,
        **_HOPPER,  # type: ignore[arg-type]
    ),
    "h200": Gpu(
        kind="NVIDIA H200",
        memory=151_397_597_184,
        bandwidth=4800 * 10**9,
        **_HOPPER,  # type: ignore[arg-type]
    ),
    "b200": Gpu(
        kind="NVIDIA B200",
        capability=(10, 0),
        cores=148,
        lanes=128,
        shared_memory=228 * _KIB,
        block_shared_memory=227 * _KIB,
        memory=191_514_411_008,
        bandwidth=7700 * 10**9,
        cache=126 * _MIB,
        clock=1.965,
        links=18,
    ),
}
"""GPUs by the names that `weft.topologies.get_topology_desc` takes."""


_TPUS = {"TPU v5 lite": "tpu_v5e", "TPU v5": "tpu_v5p", "TPU v6 lite": "tpu_v6e"}


def hardware_of(device_kind: str) -> str | None:
    """Return the name of the hardware model for a kind of device; None where there is none."""
    gpu = next((name for name in GPUS if name.upper() in device_kind.upper()), None)
    return gpu or _TPUS.get(device_kind)

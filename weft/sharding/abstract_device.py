# Tests: tests/sharding/test_mesh.py
"""Kinds of devices, which meshes without devices can be for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AbstractDevice:
    """A kind of device: what `Device.device_kind` says, its cores if known, and its platform.

    >>> import weft
    >>> kind = weft.sharding.AbstractDevice("TPU v5e", 1, "tpu")
    >>> weft.sharding.AbstractMesh((4,), ("x",), abstract_device=kind).abstract_device.platform
    'tpu'
    """

    device_kind: str
    num_cores: int | None = None
    platform: str = ""

# Tests: tests/compat/test_other_modules.py
"""jax.extend.sharding: shardings in XLA's notation, and their bytes."""

from __future__ import annotations

from weft._xla import sharding as _xla
from weft.sharding.physical import GSPMDSharding as GSPMDSharding


def get_op_sharding_from_serialized_proto(sharding: bytes) -> _xla.OpSharding:
    message = _xla.OpSharding()
    message.ParseFromString(sharding)
    return message


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> _xla.HloSharding:
    return _xla.from_proto(get_op_sharding_from_serialized_proto(sharding))


def get_serialized_proto_from_hlo_sharding(sharding: _xla.HloSharding) -> bytes:
    return sharding.to_proto().SerializeToString()

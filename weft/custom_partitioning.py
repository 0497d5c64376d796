# Tests: tests/api/test_custom_partitioning.py
"""weft.custom_partitioning: functions with rules of their own for running on shards."""

from weft.api.custom_partitioning import custom_partitioning as custom_partitioning
from weft.api.custom_partitioning import custom_partitioning_p as custom_partitioning_p
from weft.core.namespace import seal
from weft.sharding.mapping import BATCHING as BATCHING
from weft.sharding.mapping import ArrayMapping as ArrayMapping
from weft.sharding.mapping import CompoundFactor as CompoundFactor
from weft.sharding.mapping import SdyShardingRule as SdyShardingRule

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "CompoundFactor",
    "SdyShardingRule",
    "custom_partitioning",
    "custom_partitioning_p",
]
seal(globals())

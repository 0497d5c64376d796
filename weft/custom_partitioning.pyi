"""Types of weft.custom_partitioning, written by `make stubs` from the definitions."""

from weft.api.custom_partitioning import custom_partitioning as custom_partitioning
from weft.api.custom_partitioning import custom_partitioning_p as custom_partitioning_p
from weft.sharding.mapping import BATCHING as BATCHING
from weft.sharding.mapping import ArrayMapping as ArrayMapping
from weft.sharding.mapping import CompoundFactor as CompoundFactor
from weft.sharding.mapping import SdyShardingRule as SdyShardingRule
from weft.typing import Array as Array

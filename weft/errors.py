"""The exceptions users may want to catch."""

from weft.core.dtypes import TypePromotionError
from weft.core.errors import (
    ConcretizationTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

__all__ = [
    "ConcretizationTypeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]

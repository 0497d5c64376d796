"""The exceptions users may want to catch."""

from weft._xla.compile import XlaRuntimeError as JaxRuntimeError
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
from weft.runtime.compile import CompileError
from weft.sharding.named import IndivisibleError

__all__ = [
    "CompileError",
    "ConcretizationTypeError",
    "IndivisibleError",
    "JaxRuntimeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]

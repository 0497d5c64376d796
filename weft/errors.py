"""The exceptions users may want to catch."""

from weft._xla.compile import XlaRuntimeError as JaxRuntimeError
from weft.core.check import JaxprTypeError
from weft.core.dtypes import TypePromotionError
from weft.core.errors import (
    ConcretizationTypeError,
    DistributedError,
    JAXIndexError,
    JAXTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    ShapeError,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from weft.core.namespace import seal
from weft.runtime.compile import CompileError
from weft.sharding.named import IndivisibleError

__all__ = [
    "CompileError",
    "ConcretizationTypeError",
    "DistributedError",
    "IndivisibleError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "ShapeError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]
seal(globals())

# Tests: tests/core/test_errors.py
"""The exceptions users may want to catch."""

from weft._xla.compile import XlaRuntimeError as JaxRuntimeError
from weft.core.check import JaxprTypeError
from weft.core.dtypes import TypePromotionError
from weft.core.errors import (
    ArgumentError,
    AxisError,
    AxisKindError,
    AxisNameError,
    BadIndexError,
    BucketError,
    ConcretizationTypeError,
    DistributedError,
    InconclusiveDimensionOperation,
    JAXIndexError,
    JAXTypeError,
    KeyReuseError,
    MissingRuleError,
    NoMeshError,
    NonConcreteBooleanIndexError,
    PartialSumError,
    ShapeError,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    UnsupportedArgumentError,
)
from weft.core.namespace import seal
from weft.runtime.compile import CompileError
from weft.sharding.named import IndivisibleError

__all__ = [
    "ArgumentError",
    "AxisError",
    "AxisKindError",
    "AxisNameError",
    "BadIndexError",
    "BucketError",
    "CompileError",
    "ConcretizationTypeError",
    "DistributedError",
    "InconclusiveDimensionOperation",
    "IndivisibleError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "MissingRuleError",
    "NoMeshError",
    "NonConcreteBooleanIndexError",
    "PartialSumError",
    "ShapeError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
    "UnsupportedArgumentError",
]
seal(globals())

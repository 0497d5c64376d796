"""Native code as an operation of the language: shardable, batchable, differentiable by rule."""

from weft.core.namespace import seal
from weft.ffi.buffer import Buffer, ExecutionContext, ExecutionStage, buffer_callback
from weft.ffi.call import ffi_call, ffi_lowering
from weft.ffi.derivatives import differentiable
from weft.ffi.library import BuildError, build
from weft.ffi.registry import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
    registered_targets,
)
from weft.ffi.rule import ShardingRule

__all__ = [
    "Buffer",
    "BuildError",
    "ExecutionContext",
    "ExecutionStage",
    "ShardingRule",
    "buffer_callback",
    "build",
    "differentiable",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
    "registered_targets",
]
seal(globals())

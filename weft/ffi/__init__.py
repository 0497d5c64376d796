"""Native code as an operation of the language: shardable, batchable, differentiable by rule."""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "buffer": "Buffer ExecutionContext ExecutionStage buffer_callback",
        "call": "ffi_call ffi_lowering",
        "derivatives": "differentiable",
        "library": "BuildError build",
        "registry": """include_dir pycapsule register_ffi_target
            register_ffi_target_as_batch_partitionable register_ffi_type register_ffi_type_id
            registered_targets""",
        "rule": "ShardingRule",
    },
)

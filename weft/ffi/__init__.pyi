"""Types of weft.ffi, written by `make stubs` from the definitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.ffi.library import BuildError as BuildError
from weft.ffi.rule import ShardingRule as ShardingRule
from weft.typing import Array as Array

class Buffer:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    dtype: Any
    ndim: Any
    shape: Any
    writeable: Any

class ExecutionContext:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    stage: Any
    stream: Any

class ExecutionStage:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    EXECUTE: Any
    INITIALIZE: Any
    INSTANTIATE: Any
    PREPARE: Any

def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = ...,
    vmap_method: str | None = ...,
    input_output_aliases: Mapping[int, int] | None = ...,
    command_buffer_compatible: bool = ...,
    sharding_rule: Any = ...,
) -> Callable[..., Any]:
    """Return a function of arrays computed by Python code that works on the program's …"""

def build(
    sources: Any,
    *,
    targets: Mapping[str, str | Mapping[str, str]] | Sequence[str] | None = ...,
    types: Mapping[str, str | Sequence[str]] | None = ...,
    name: str | None = ...,
    platform: str = ...,
    flags: Sequence[str] = ...,
    include_dirs: Any = ...,
    libraries: Sequence[str] = ...,
    compiler: str | None = ...,
    cache_dir: Any = ...,
    native: bool = ...,
    verbose: bool = ...,
) -> Any:
    """Compile C++ (or CUDA) handlers and register them as FFI targets."""

def differentiable(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    nondiff_argnums: tuple[int, ...] = ...,
) -> Callable[..., Any]:
    """Return a function computed by `forward` whose derivative is computed by `backward`."""

def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = ...,
    vmap_method: str | None = ...,
    input_layouts: Sequence[Any] | None = ...,
    output_layouts: Any = ...,
    input_output_aliases: Mapping[int, int] | None = ...,
    custom_call_api_version: int = ...,
    legacy_backend_config: str | None = ...,
    sharding_rule: Any = ...,
    num_batch_dims: int = ...,
) -> Callable[..., Any]:
    """Return a function that calls the native target `target_name` with operands and …"""

def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = ...,
    result_layouts: Sequence[Any] | None = ...,
    backend_config: str | Mapping[str, Any] | None = ...,
    has_side_effect: bool = ...,
    operand_output_aliases: Mapping[int, int] | None = ...,
    api_version: int = ...,
    sharding_rule: Any = ...,
    num_batch_dims: int = ...,
) -> Callable[..., list[Any]]:
    """Make a lowering rule `(ctx, *operands, **attributes)` for a `Primitive` of native …"""

def include_dir() -> str:
    """Return the folder of XLA's FFI headers: `#include 'xla/ffi/api/ffi.h'`."""

def pycapsule(funcptr: Any) -> Any:
    """Return a capsule around a native function: a ctypes function pointer or an address."""

def register_ffi_target(
    name: str, fn: Any, platform: str = ..., api_version: int = ..., **kwargs: Any
) -> None:
    """Make native code callable as `ffi_call(name, …)` on one platform."""

def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Declare that a target treats its leading batch dimensions independently."""

def register_ffi_type(name: str, type_registration: dict[str, Any], platform: str = ...) -> None:
    """Register a C++ type for handler state: capsules 'type_id' and optionally …"""

def register_ffi_type_id(name: str, obj: Any, platform: str = ...) -> None:
    """Register the id of a C++ type that handlers keep as state or user data."""

def registered_targets(platform: str = ...) -> list[str]:
    """Return the names of the targets that calls on the platform can use."""

"""Types of weft.export, written by `make stubs` from the definitions."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.export.checks import DisabledSafetyCheck as DisabledSafetyCheck
from weft.export.exported import Exported as Exported
from weft.export.exported import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
)
from weft.export.exported import (
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from weft.export.symbolic import SymbolicScope as SymbolicScope
from weft.typing import Array as Array
from weft.typing import ArrayLike

def default_export_platform() -> str:
    """Return the platform that `export` takes where none is named."""

def deserialize(blob: Any) -> Any:
    """Return the function that `Exported.serialize` wrote, or JAX's."""

def export(
    fun_jit: Any, *, platforms: Sequence[str] | None = ..., disabled_checks: Any = ...
) -> Any:
    """Make a jitted function exportable: the result takes its arguments, or their types."""

def is_symbolic_dim(p: ArrayLike) -> bool:
    """Return whether p is a dimension of unknown size."""

def register_namedtuple_serialization(nodetype: Any, *, serialized_name: str) -> Any:
    """Let exported functions with a class of named tuples be serialized."""

def register_pytree_node_serialization(
    nodetype: Any,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = ...,
) -> Any:
    """Let exported functions with a registered class of pytree nodes be serialized."""

def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = ..., scope: Any = ...
) -> Any:
    """Return the arguments as types, with the shapes that texts describe."""

def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = ...,
    scope: Any = ...,
    like: Sequence[int | None] | None = ...,
) -> tuple[Any, ...]:
    """Return the shape that a text describes, with dimensions of unknown size."""

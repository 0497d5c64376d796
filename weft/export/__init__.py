"""weft.export: jitted functions as portable programs that outlive the process."""

from weft.core.namespace import seal
from weft.export.checks import DisabledSafetyCheck
from weft.export.exported import OLDEST_VERSION, VERSION, Exported, default_export_platform, export
from weft.export.file import deserialize
from weft.export.symbolic import (
    SymbolicScope,
    is_symbolic_dim,
    symbolic_args_specs,
    symbolic_shape,
)
from weft.export.trees import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)

minimum_supported_calling_convention_version = OLDEST_VERSION
maximum_supported_calling_convention_version = VERSION

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]
seal(globals())

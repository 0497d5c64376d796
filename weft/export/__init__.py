"""weft.export: jitted functions as portable programs that outlive the process."""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "checks": "DisabledSafetyCheck",
        "exported": """Exported default_export_platform export
            maximum_supported_calling_convention_version
            minimum_supported_calling_convention_version""",
        "file": "deserialize",
        "symbolic": "SymbolicScope is_symbolic_dim symbolic_args_specs symbolic_shape",
        "trees": "register_namedtuple_serialization register_pytree_node_serialization",
    },
)

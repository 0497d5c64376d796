# Tests: tests/compat/test_other_modules.py
"""jax._src.sharding_impls, for jaxns: a sharding over the mesh in context."""

from weft.sharding import NamedSharding, PartitionSpec
from weft.sharding.explicit import named


def canonicalize_sharding(
    sharding: NamedSharding | PartitionSpec | None,
    api_name: str,
    check_mesh_consistency: bool = True,
) -> object:
    return None if sharding is None else named(api_name, sharding)

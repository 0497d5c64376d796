# Tests: tests/compat/test_other_modules.py
"""jax._src.sharding_impls, for jaxns and brainstate: shardings left open, or over the mesh."""

from weft.driver.jit_info import UNSPECIFIED as UNSPECIFIED
from weft.sharding import NamedSharding, PartitionSpec
from weft.sharding.explicit import named


def canonicalize_sharding(
    sharding: NamedSharding | PartitionSpec | None,
    api_name: str,
    check_mesh_consistency: bool = True,
) -> object:
    if sharding is None or (isinstance(sharding, NamedSharding) and sharding.mesh.empty):
        return None
    return named(api_name, sharding)

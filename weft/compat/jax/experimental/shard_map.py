# Tests: tests/compat/test_other_modules.py
"""jax.experimental.shard_map"""

from collections.abc import Callable

import weft
from weft.sharding import Mesh


def shard_map(
    f: Callable, mesh: Mesh, in_specs: object, out_specs: object, check_rep: bool = True
) -> Callable:
    """Map f over the shards of its arguments, by the arguments that JAX took before 0.8."""
    return weft.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)

# Tests: tests/compat/test_other_modules.py
"""jax.experimental.shard_map"""

from collections.abc import Callable
from typing import Any

import weft


def shard_map(f: Callable, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Any:
    """Map f over the shards of its arguments, by the arguments that JAX took before 0.8."""
    specs = {"in_specs": in_specs, "out_specs": out_specs}
    return weft.shard_map(f, mesh=mesh, **specs, check_vma=check_rep)

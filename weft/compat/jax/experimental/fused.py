# Tests: tests/compat/test_other_modules.py
"""jax.experimental.fused: functions that are compiled as one program."""

from __future__ import annotations

from collections.abc import Callable

import weft

__all__ = ["fused"]


def fused(*, out_spaces: object) -> Callable[[Callable], Callable]:
    """Decorate functions to be compiled as one; results stay in the device's memory.

    Raises NotImplementedError for results in the host's memory.
    """
    from weft import tree
    from weft.memory import Space

    if any(s is Space.Host for s in tree.leaves(out_spaces)):
        raise NotImplementedError(
            "fused: results are put into device memory; move them with "
            "weft.device_put(x, sharding.with_memory_kind('pinned_host'))"
        )
    return weft.jit

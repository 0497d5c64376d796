# Tests: tests/compat/test_private_names.py
"""jax._src.lax.control_flow.loops, for adv-jax-math and DESC, which map over batches."""

from __future__ import annotations

from weft.tree_util import tree_leaves, tree_map


def _batch_and_remainder(x: object, batch_size: int) -> tuple:
    """Return the leaves (batches, batch_size, ...) and the (fewer, ...) left; None where empty."""
    if not tree_leaves(x):
        return x, None
    length = tree_leaves(x)[0].shape[0]
    count = length // batch_size if batch_size else 0
    end = count * batch_size
    batches = tree_map(lambda a: a[:end].reshape(count, batch_size, *a.shape[1:]), x)
    rest = tree_map(lambda a: a[end:], x)
    return batches if count else None, rest if end < length or not count else None

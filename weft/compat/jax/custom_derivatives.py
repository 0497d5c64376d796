# Tests: tests/compat/test_as_jax.py
"""jax.custom_derivatives: the primitives of functions with rules."""

from __future__ import annotations

from typing import Any

from weft.api.custom_jvp import custom_jvp_p as custom_jvp_call_p
from weft.api.custom_vjp import custom_vjp_p as custom_vjp_call_p
from weft.custom_derivatives import CustomVJPPrimal

__all__ = ["custom_jvp_call_p", "custom_vjp_call_p", "custom_vjp_primal_tree_values"]


def custom_vjp_primal_tree_values(tree: object) -> Any:
    """Return the tree with the values in the place of their `CustomVJPPrimal`."""
    from weft.tree_util import tree_map

    return tree_map(lambda x: x.value if isinstance(x, CustomVJPPrimal) else x, tree)

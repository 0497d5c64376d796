# Tests: tests/runtime/test_dispatch.py
"""The C++ call path of jitted functions: ``pjit`` functions, their caches, their fast-path data."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxlib import _jax

PjitFunction = _jax.PjitFunction
PjitFunctionCache = _jax.PjitFunctionCache
pjit = _jax.pjit
parse_arguments = _jax.jax_jit.parse_arguments


class FastpathData(NamedTuple):
    """The data by which the C++ path runs a signature again (it reads the field names).

    ``kept_var_bitvec`` has one bool for each constant and flattened argument; the sharding and
    layout lists have one entry for each kept one.
    """

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: list
    out_shardings: list
    out_avals: list
    out_committed: list
    kept_var_bitvec: list
    in_device_local_layouts: list
    const_args: list

# Tests: tests/core/test_namespace.py
"""Functions of upper rooms that lower rooms call: each is named here, and loads when first called.

A mesh asks for the devices there are, an eager placement for a transfer, the transpose of a
broadcast for a sum: what answers stands above the rooms that ask.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def _provided(module: str, name: str) -> Callable:
    def call(*args: object, **kwargs: object) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call


devices = _provided("weft.runtime.backend", "devices")
device_put = _provided("weft.runtime.device_put", "device_put")
put_array = _provided("weft.runtime.transfers", "put_array")
with_layout = _provided("weft.ops.layout_constraint", "with_layout_constraint")  # of a Format
reshard = _provided("weft.sharding.explicit", "reshard")  # what is written to a split ref

reduce_sum = _provided("weft.ops.reduce", "reduce_sum")  # the transpose of a broadcast
psum_over_axes = _provided("weft.collectives.reduce", "psum_over_axes")  # of a cast to varying
ref_slice = _provided("weft.refs.indexing", "ds")  # where the transpose of a slice adds to a ref
search_shard_map = _provided("weft.api.shard_map_nans", "search")  # debug_nans inside of one
op_function = _provided("weft.driver.execute", "op_function")  # a compiled op, for eager loops
element_formula = _provided("weft.formulas.elements", "element_formula")
run_checked_branch = _provided("weft.checkify.inner_programs", "run_mapped_branch")  # of a cond
bucketed = _provided("weft.bucketing.call", "bucketed")  # jit(bucket=)
used_variables = _provided("weft.random.key_reuse", "used_variables")  # debug_key_reuse in jit
use_arguments = _provided("weft.random.key_reuse", "use_arguments")
key_uses = _provided("weft.random.key_reuse", "KeyUses")  # and in loops and branches
use_operands = _provided("weft.random.key_reuse", "use_operands")
use_in_condition = _provided("weft.random.key_reuse", "use_in_condition")
params_seen = _provided("weft.compat.equations", "params_seen")  # of an equation, as JAX has them
shown = _provided("weft.compat.equations", "shown")  # a jaxpr that a program gets
params_taken = _provided("weft.compat.equations", "params_taken")  # and back

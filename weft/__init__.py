"""weft: an array language and SPMD compiler front end for Python on XLA."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

# Before any thread can load an extension that asks for NumPy's insides: jaxlib's aborts the process
# where its first import fails in a circle of NumPy's modules, and is tried again.
import numpy as _numpy  # noqa: F401

import weft._xla as _xla  # noqa: F401  (first: refuses to share a process with jax)

__version__ = "0.1.0"
__version_info__ = tuple(map(int, __version__.split(".")))

# Public name -> module that defines it. Modules, also jaxlib's, load when a name is first used, so
# that importing weft costs little.
_HOMES = {
    "weft.core.config": "config",
    "weft.driver.jit": "jit",
    "weft.driver.jit_info": "UNSPECIFIED",
    "weft.bucketing.sizes": "powers_of_two",
    "weft.api.grad": """grad value_and_grad vjp jvp linearize linear_transpose
        fwd_and_bwd closure_convert""",
    "weft.api.jacobians": "jacfwd jacrev jacobian hessian",
    "weft.api.vmap_api": "vmap",
    "weft.api.pmap": "pmap",
    "weft.driver.staging": """make_jaxpr eval_shape typeof ShapeDtypeStruct
        ensure_compile_time_eval""",
    "weft.api.remat": "checkpoint remat checkpoint_policies",
    "weft.api.custom": "custom_jvp custom_vjp custom_gradient",
    "weft.api.shard_map": "shard_map smap",
    "weft.api.callback": "pure_callback io_callback",
    "weft.driver.context": """disable_jit enable_x64 default_device debug_nans debug_infs
        debug_key_reuse default_matmul_precision numpy_dtype_promotion
        numpy_rank_promotion varying_promotion
        default_prng_impl check_tracer_leaks checking_leaks enable_checks
        threefry_partitionable clear_caches
        log_compiles explain_cache_misses effects_barrier no_tracing no_execution
        legacy_prng_key enable_custom_prng
        transfer_guard transfer_guard_host_to_device transfer_guard_device_to_device
        transfer_guard_device_to_host array_garbage_collection_guard thread_guard
        make_user_context""",
    "weft.core.dtypes": "float0",
    "weft.core.source": "named_scope named_call",
    "weft.sharding.mesh": "make_mesh Mesh set_mesh use_mesh get_mesh get_abstract_mesh AxisType",
    "weft.sharding.spec": "P",
    "weft.sharding.named": "NamedSharding",
    "weft.sharding.explicit": "reshard",
    "weft.runtime.backend": """devices local_devices device_count local_device_count
        process_index process_count process_indices default_backend Device""",
    "weft.runtime.device_put": "device_put device_get block_until_ready copy_to_host_async",
    "weft.runtime.make_array": """make_array_from_callback make_array_from_process_local_data
        make_array_from_single_device_arrays""",
    "weft.runtime.array": "Array Shard live_arrays",
    "weft.refs.api": "new_ref freeze Ref",
    "weft.ref": "empty_ref free_ref",
    "weft.refs.indexing": "ds",
    "weft.runtime.compile": "CompilerEffortLevel",
    "weft.communication": "comm HardwareModel",
    "weft.as_jax": "as_jax",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}
_PACKAGES = frozenset(
    (
        *("numpy", "lax", "nn", "random", "ops", "ffi", "pallas", "scipy"),
        *("ad", "tree", "tree_util", "sharding", "collectives", "partition", "distributed"),
        *("debug", "testing", "dtypes", "errors", "custom_batching", "custom_derivatives"),
        *("dlpack", "communication", "ad_checkpoint", "flatten_util", "ref", "stages", "typing"),
        *("mesh_utils", "monitoring", "multihost_utils", "profiler", "test_util", "topologies"),
        *("layout", "image", "checkpoints", "ode", "example_libraries", "checkify", "export"),
        *("custom_partitioning", "shard_alike", "sparse", "jet", "rnn", "memory"),
    )
)


def __getattr__(name: str) -> _Any:
    home = _NAMES.get(name)
    if home is not None:
        from weft.core.namespace import public  # not above: importing weft loads little

        value = public(getattr(_importlib.import_module(home), name), "weft")
        if name != "config":
            # A jitted function needs the arrays' methods, whatever was imported first.
            _importlib.import_module("weft.numpy.methods")
    elif name in _PACKAGES:
        value = _importlib.import_module(f"weft.{name}")
    else:
        raise AttributeError(f"module 'weft' has no attribute {name!r}" + _similar(name))
    globals()[name] = value
    return value


# Names of JAX's that weft has not: what to write.
_ELSEWHERE = {
    "experimental": "weft.pallas, weft.shard_map, weft.io_callback, weft.multihost_utils, "
    "weft.layout, weft.mesh_utils, weft.topologies, weft.checkify",
    "print_environment_info": "python -m weft.debug.env",
}


def _similar(name: str) -> str:
    import difflib

    if name in _ELSEWHERE:
        return f"; use {_ELSEWHERE[name]}"
    close = difflib.get_close_matches(name, [*_NAMES, *_PACKAGES], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def __dir__() -> list[str]:
    return sorted([*_NAMES, *_PACKAGES, "__version__", "__version_info__"])

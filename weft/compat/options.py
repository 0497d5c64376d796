"""Options of JAX's that nothing in weft looks at, so that programs can set and read them.

Those of `_FIXED` would change results: they keep their value, and another is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compat.finder import REFERENCE
from weft.core.config import Option, boolean, options

_OFF = """
    bcoo_cusparse_lowering compilation_cache_check_contents compilation_cache_expect_pgle
    compilation_cache_include_metadata_in_key custom_vjp3 debug_leaked_clients_on_clear_backends
    disable_bwd_checks disable_most_optimizations disable_vmap_shmap_error
    disallow_mesh_context_manager distributed_debug enable_pgle enable_recoverability
    experimental_unsafe_xla_runtime_errors export_ignore_forward_compatibility
    jax2tf_associative_scan_reductions log_checkpoint_residuals mosaic_allow_hlo
    pallas_verbose_errors ragged_dot_use_gpu_pallas_triton_lowering raise_persistent_cache_errors
    refs_to_pins remat3 scan3
    remove_custom_partitioning_ptr_from_cache_key share_binary_between_hosts softmax_custom_jvp
    threefry_gpu_kernel_lowering use_emit_pipeline_primitive use_simplified_jaxpr_constants
"""
_ON = """
    allow_f16_reductions check_proxy_envs compiler_enable_remat_pass
    enable_preemption_service include_debug_info_in_dumps include_full_tracebacks_in_locations
    mutable_array_checks pallas_use_mosaic_gpu ragged_dot_use_ragged_dot_instruction
    sort_devices_by_process_index use_direct_linearize
"""
_TAKEN: dict[str, Any] = {
    **dict.fromkeys(_OFF.split(), False),
    **dict.fromkeys(_ON.split(), True),
    **dict.fromkeys("cuda_visible_devices rocm_visible_devices".split(), "all"),  # noqa: SIM905
    "captured_constants_report_frames": 0,
    "captured_constants_warn_bytes": 2_000_000_000,
    "compilation_cache_max_size": -1,
    "cpu_get_global_topology_timeout_minutes": 5,
    "cpu_get_local_topology_timeout_minutes": 2,
    "debug_log_modules": "",
    "embedded_constants_max_bytes": 32,
    "export_calling_convention_version": 10,
    "exec_time_optimization_effort": 0.0,
    "hlo_source_file_canonicalization_regex": None,
    "logging_level": "NOTSET",
    "memory_fitting_effort": 0.0,
    "memory_fitting_level": "O2",
    "optimization_level": "UNKNOWN",
    "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "pgle_aggregation_percentile": 90,
    "pgle_profiling_runs": 3,
    "pjrt_client_create_options": None,
    "send_traceback_to_runtime": "off",
    "serialization_version": 0,
    "share_binary_between_hosts_timeout_ms": 1_200_000,
    "source_url_schema": None,
    "traceback_in_locations_limit": 100,
    "tracer_error_num_traceback_frames": 5,
    "use_magma": "auto",
    "xla_profile_version": 0,
}
# Option -> its value here, and what to write where a program wants another.
_FIXED: dict[str, tuple[Any, str]] = {
    "auto_pcast": (True, "varying_promotion='error' refuses what lax.pcast has not cast"),
    "error_checking_behavior_divide": ("ignore", "checkify.float_checks finds divisions by zero"),
    "error_checking_behavior_nan": ("ignore", "debug_nans and checkify.nan_checks find NaN"),
    "error_checking_behavior_oob": ("ignore", "checkify.index_checks finds indices out of bounds"),
    "high_dynamic_range_gumbel": (False, "jax.random.gumbel(..., mode='high') draws such numbers"),
    "remove_size_one_mesh_axis_from_type": (False, "make the mesh without axes of size 1"),
}


def _as(value: Any) -> Callable[[Any], Any]:
    """Read an option of the kind of its first value, which the environment gives as text."""
    if isinstance(value, bool):
        return boolean
    if isinstance(value, int | float):
        return type(value)
    return lambda new: new


def _only(name: str, value: Any, remedy: str) -> Callable[[Any], Any]:
    def check(new: Any) -> Any:
        if _as(value)(new) != value:
            raise ValueError(f"weft has {value!r} alone for {name}: {remedy}")
        return value

    return check


def install() -> None:
    """Add the options to those of weft."""
    doc = f"an option of JAX {REFERENCE}, which nothing here looks at"
    for name, value in _TAKEN.items():
        options.setdefault(name, Option(name, value, _as(value), doc, traced=False))
    for name, (value, remedy) in _FIXED.items():
        check = _only(name, value, remedy)
        options.setdefault(name, Option(name, value, check, doc, traced=False))

"""What weft does not have of JAX's public names, parameters and members, and why."""

MADE_FOR_YOU = "objects of this kind are given to programs, not made by them"
INTERNAL = "how JAX is made, not what programs are written with"
HIJAX = "JAX's experimental types of types (hijax)"
NUMBERS = "keys have no numbers to compute with; JAX has the method to raise an error"
TYPES_ONLY = "a type has the members of values in JAX, where they raise an error"

# Module -> name -> reason.
NAMES: dict[str, dict[str, str]] = {
    "": {
        "allow_f16_reductions": "nothing refuses sums of 16-bit floats",
        "auto_pcast": "values are always made to vary where they meet varying ones",
        "host_count": "process_count",
        "host_id": "process_index",
        "host_ids": "process_indices",
        "jax2tf_associative_scan_reductions": "there is no jax2tf",
        "print_environment_info": "python -m weft.debug.env",
        "remove_size_one_mesh_axis_from_type": "an option of JAX's way to write types",
        "softmax_custom_jvp": "weft.nn.softmax always has a derivative of its own",
    },
    "custom_derivatives": {
        "custom_jvp_call_p": INTERNAL,
        "custom_vjp_call_p": INTERNAL,
        "custom_vjp_primal_tree_values": INTERNAL,
        "remat_opt_p": INTERNAL,
    },
    "debug": {
        "DebugEffect": INTERNAL,
        "OrderedDebugEffect": INTERNAL,
    },
    "ffi": {"build_ffi_lowering_function": "an older name: ffi_lowering"},
    "lax": {
        "approx_top_k_p": "approx_max_k is top_k, which is exact",
        "device_put_p": "device_put inside a program is a sharding constraint",
        "linear_solve_p": "custom_linear_solve is made of calls",
        "scatter_sub_p": "scatter_sub adds the negative",
        "select_and_scatter_p": "max pooling uses select_and_scatter_add alone",
        "sharding_constraint_p": "stands in weft.sharding",
        "square_p": "square is integer_pow",
        "squeeze_p": "squeeze is reshape",
        **dict.fromkeys(["stack_p", "unstack_p"], "made of reshape, concatenate and slice"),
        "stage_p": "stage is copy",
        "tile_p": "tile is made of broadcast and reshape",
    },
    "lax.linalg": {
        "cholesky_update_p": "made of a scan over columns",
        "symmetric_product_p": "made of dot_general",
    },
}

# Parameters that no function takes.
OMITTED = {"out": "arrays are immutable: functions write into none"}

UFUNC_WHERE = {"where": "ufuncs compute everywhere; select with numpy.where"}

# Function, or object and method -> parameter -> reason.
PARAMETERS: dict[str, dict[str, str]] = {
    **{
        f"numpy.{name}": UFUNC_WHERE
        for name in (
            *("add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2"),
            *("logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply"),
            *("negative", "subtract"),
        )
    },
    "Ref": dict.fromkeys(["aval", "refs"], MADE_FOR_YOU),
    "ref.Ref": dict.fromkeys(["aval", "refs"], MADE_FOR_YOU),
    "ref.AbstractRef": {"inner_aval": "its first parameter, inner", "kind": "there is one kind"},
    "Shard": dict.fromkeys(["sharding", "global_shape", "data"], MADE_FOR_YOU),
    "ShapeDtypeStruct": {
        "is_ref": "a function of refs is traced with refs that weft.new_ref makes"
    },
    "numpy.ufunc": dict.fromkeys(
        ["nargs", "call", "at", "reduceat"], "made of the function: weft.numpy.frompyfunc"
    ),
    "sharding.AbstractMesh": {},
    **{
        f"stages.{stage}": dict.fromkeys(parameters.split(), MADE_FOR_YOU)
        for stage, parameters in {
            "Compiled": "const_args args_info out_tree no_kwargs in_types out_types executable",
            "Lowered": "lowering args_info out_tree no_kwargs in_types out_types",
            "Traced": "meta_tys_flat params in_tree out_tree consts",
        }.items()
    },
    "distributed.initialize": {
        "heartbeat_timeout_seconds": "20 s, which the variable of weft launch may change"
    },
    "ffi.ffi_lowering": {"skip_ffi_layout_processing": INTERNAL},
    "ClosedJaxpr.pretty_print": dict.fromkeys(
        ["print_shapes", "custom_pp_eqn_rules", "print_effects"], "types and effects always show"
    ),
    "JaxprEqn.replace": {"ctx": INTERNAL, "source_info": "source"},
    "Lowered.compile": {"device_assignment": "devices come from the shardings of arguments"},
    "ShapedArray.str_short": {
        "short_dtypes": "dtypes are always short",
        "mesh_axis_types": "axes of types are Explicit",
    },
}
PARAMETERS["Tracer.addressable_data"] = {"index": "it raises an error, as JAX's"}
PARAMETERS["Tracer.tobytes"] = {"order": "it raises an error, as JAX's"}
PARAMETERS["Jaxpr.pretty_print"] = PARAMETERS["ClosedJaxpr.pretty_print"]

# Type aliases and constants have no signature of their own.
NO_SIGNATURE = {
    *("PrecisionLike", "ConvGeneralDilatedDimensionNumbers", "ArrayLike", "DTypeLike"),
    "CompilerOptions",
}

_METHODS = """
    all any argmax argmin argpartition argsort byteswap choose clip compress conj conjugate cumprod
    cumsum diagonal dot flat imag item mT max mean min nonzero prod ptp real repeat round
    searchsorted sort std sum to_device trace var view
""".split()  # noqa: SIM905

# Options that have no counterpart.
_OPTIONS = """
    allow_f16_reductions auto_pcast bcoo_cusparse_lowering captured_constants_report_frames
    captured_constants_warn_bytes compilation_cache_check_contents
    compilation_cache_expect_pgle compilation_cache_include_metadata_in_key
    compilation_cache_max_size compiler_enable_remat_pass
    cpu_get_global_topology_timeout_minutes cpu_get_local_topology_timeout_minutes custom_vjp3
    debug_leaked_clients_on_clear_backends debug_log_modules disable_bwd_checks
    disable_vmap_shmap_error disallow_mesh_context_manager distributed_debug
    embedded_constants_max_bytes enable_pgle enable_preemption_service enable_recoverability
    error_checking_behavior_divide error_checking_behavior_nan error_checking_behavior_oob
    exec_time_optimization_effort experimental_unsafe_xla_runtime_errors
    export_calling_convention_version export_ignore_forward_compatibility
    high_dynamic_range_gumbel hlo_source_file_canonicalization_regex
    include_full_tracebacks_in_locations log_checkpoint_residuals logging_level
    memory_fitting_effort memory_fitting_level mosaic_allow_hlo mutable_array_checks
    optimization_level pallas_use_mosaic_gpu persistent_cache_enable_xla_caches
    pgle_aggregation_percentile pgle_profiling_runs pjrt_client_create_options
    ragged_dot_use_gpu_pallas_triton_lowering ragged_dot_use_ragged_dot_instruction
    raise_persistent_cache_errors refs_to_pins remat3
    remove_custom_partitioning_ptr_from_cache_key remove_size_one_mesh_axis_from_type scan3
    send_traceback_to_runtime serialization_version share_binary_between_hosts
    share_binary_between_hosts_timeout_ms softmax_custom_jvp source_url_schema
    threefry_gpu_kernel_lowering traceback_in_locations_limit use_direct_linearize
    use_emit_pipeline_primitive use_magma use_simplified_jaxpr_constants xla_profile_version
""".split()  # noqa: SIM905

# Object -> member -> reason.
MEMBERS: dict[str, dict[str, str]] = {
    "AbstractMesh": {
        **dict.fromkeys(
            ["device_ids", "devices", "is_multi_process", "local_devices", "local_mesh"],
            "it has no devices; JAX has the members to raise an error",
        ),
    },
    "Array": {
        **dict.fromkeys(
            ["flat", "device_buffer", "device_buffers"], "JAX has them to raise an error"
        ),
    },
    "ClosedJaxpr": {
        "debug_info": "jaxpr.debug is the name of the traced function",
        **dict.fromkeys(["final_aval_qdds", "in_aval_qdds", "is_high"], HIJAX),
    },
    "Compiled": {
        "call": INTERNAL,
    },
    "Jaxpr": {
        "debug_info": "jaxpr.debug is the name of the traced function",
        **dict.fromkeys(["final_aval_qdds", "in_aval_qdds", "is_high"], HIJAX),
    },
    "JaxprEqn": {"ctx": INTERNAL},
    "P": {"to_lo": HIJAX},
    "PRNGKeyArray": {**dict.fromkeys(_METHODS, NUMBERS), "pprint": "print(keys)"},
    "Ref": {"format": "of arrays: ref[...].format"},
    "ShapeDtypeStruct": {
        "is_ref": "a function of refs is traced with refs that weft.new_ref makes",
    },
    "ShapedArray": {
        **dict.fromkeys(_METHODS, TYPES_ONLY),
        **dict.fromkeys(
            ["T", "at", "astype", "broadcast", "copy", "flatten", "ravel", "reshape", "squeeze"],
            TYPES_ONLY,
        ),
        **dict.fromkeys(["swapaxes", "take", "transpose"], TYPES_ONLY),
        **dict.fromkeys(
            [
                *["array_abstraction_level", "at_least_vspace", "dec_rank", "has_qdd", "inc_rank"],
                *["is_high", "leading_axis_spec", "lo_ty", "lo_ty_qdd", "lower_val", "lower_val2"],
                *["normalize", "nospec", "raise_val", "raise_val2", "shard", "to_ct_aval"],
                *["to_tangent_aval", "unshard", "update_manual_axis_type", "update_weak_type"],
                *["vspace_add", "memory_space"],
            ],
            INTERNAL,
        ),
    },
    "Traced": {"lojax": HIJAX},
    "Tracer": {
        "flat": "JAX has it to raise an error",
        "device": "JAX has it to raise an error",
        **dict.fromkeys(
            [
                *["aval_mutable_qdd", "cur_qdd", "dimension_as_value", "full_lower", "get_const"],
                *["get_referent", "mutable_qdd", "parent", "to_concrete_value", "traceback", "val"],
            ],
            INTERNAL,
        ),
    },
    "Var": dict.fromkeys(["final_qdd", "initial_qdd", "pretty_print"], HIJAX),
    "config": {
        **dict.fromkeys(
            [
                *["add_option", "complete_absl_config", "config_with_absl", "meta", "use_absl"],
                *["parse_flags_with_absl", "eager_constant_folding"],
            ],
            "JAX's way to define options and to read them with absl",
        ),
        **{f"jax_{name}": "of JAX's or its compiler's own machinery" for name in _OPTIONS},
        "check_vma": "an argument of weft.shard_map",
        "jax2tf_associative_scan_reductions": "there is no jax2tf",
        "jax2tf_default_native_serialization": "there is no jax2tf",
    },
    "vjp": dict.fromkeys(["fun", "jaxpr", "in_tree", "out_tree"], INTERNAL),
}

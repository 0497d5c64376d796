"""Names of JAX's modules that programs do not find in weft, and why."""

# Reason -> module, without `jax.` -> names; "(module)" stands for all of it.
NAMES: dict[str, dict[str, str]] = {
    "how JAX is made, not what programs are written with": {
        "core": """
            CallPrimitive InconclusiveDimensionOperation JaxprPpContext
            JaxprPpSettings aval_mapping_handlers call concretization_function_error
            custom_typechecks literalable_types no_axis_name pytype_aval_mappings
            trace_ctx
        """,
        "custom_derivatives": "remat_opt_p",
        "debug": "DebugEffect OrderedDebugEffect",
        "example_libraries.optimizers": """
            Array InitFn Params ParamsFn State Step UpdateFn Updates map zip
        """,
        "experimental.colocated_python.api": "(module)",
        "experimental.colocated_python.func": """
            FunctionInfo ShapeDtypeStructTree Specialization is_prng_key_dtype make_callable
        """,
        "experimental.colocated_python.func_backend": "(module)",
        "experimental.colocated_python.obj": "(module)",
        "experimental.colocated_python.obj_backend": "(module)",
        "experimental.fused": "fused_p",
        "experimental.jet": """
            JetTrace JetTracer ZeroSeries ZeroTerm call_param_updaters def_comp
            def_deriv deflinear defzero deriv_prop fact jet2 jet_fun jet_rules
            jet_subtrace linear_prop traceable zero_prop zero_series zero_term
        """,
        "experimental.mesh_utils": "device_kind_handler_dict",
        "experimental.multihost_utils": """
            global_array_to_host_local_array_impl global_array_to_host_local_array_p
            gtl_abstract_eval host_local_array_to_global_array_impl
            host_local_array_to_global_array_p ltg_abstract_eval ltg_batcher
        """,
        "experimental.ode": """
            abs2 fit_4th_order_polynomial initial_step_size interp_fit_dopri map
            mean_error_ratio optimal_step_size ravel_first_arg ravel_first_arg_
            runge_kutta_step zip
        """,
        "experimental.rnn": """
            PRNGKeyArray lstm_bwd lstm_fwd rnn_abstract_eval rnn_bwd_abstract_eval
            rnn_bwd_p rnn_fwd_p sigmoid tanh
        """,
        "experimental.scheduling_groups": "dce_jaxpr_xla_metadata_rule xla_metadata_call_p",
        "experimental.sparse": """
            SparseTracer bcoo_dot_general_p bcoo_dot_general_sampled_p
            bcoo_extract_p bcoo_fromdense_p bcoo_sort_indices_p bcoo_spdot_general_p
            bcoo_sum_duplicates_p bcoo_todense_p bcoo_transpose_p bcsr_dot_general_p
            bcsr_extract_p bcsr_fromdense_p bcsr_todense_p todense_p
        """,
        "experimental.sparse.ad": "flatten_fun_for_sparse_ad is_sparse",
        "experimental.sparse.api": "todense_p",
        "experimental.sparse.bcoo": """
            BCOOProperties Buffer CUSPARSE_DATA_DTYPES CUSPARSE_INDEX_DTYPES
            bcoo_dot_general_p bcoo_dot_general_sampled_p bcoo_extract_p
            bcoo_fromdense_p bcoo_sort_indices_p bcoo_spdot_general_p
            bcoo_sum_duplicates_p bcoo_todense_p bcoo_transpose_p
        """,
        "experimental.sparse.bcsr": """
            BCSRProperties bcsr_dot_general_p bcsr_eliminate_zeros bcsr_extract_p
            bcsr_fromdense_p bcsr_todense_p
        """,
        "experimental.sparse.coo": """
            COOInfo Dtype Shape
        """,
        "experimental.sparse.csr": """
            Shape
        """,
        "experimental.sparse.linalg": "spsolve_p",
        "experimental.sparse.transform": """
            Array ArrayOrSparse SparseTrace SparseTracer SparsifyEnv SparsifyValue
            arrays_to_spvalues eval_sparse sparse_rules_bcoo sparse_rules_bcsr
            sparsify_fun sparsify_raw sparsify_subtrace spvalues_to_arrays
            spvalues_to_avals
        """,
        "experimental.sparse.util": "Shape SparseInfo broadcasting_vmap nfold_vmap",
        "extend.backend": """
            backend_xla_version get_compile_options register_backend_cache
            register_backend_factory
        """,
        "extend.core.primitives": """
            approx_top_k_p custom_lin_p empty2_p linear_solve_p select_and_scatter_p
            square_p squeeze_p
        """,
        "extend.lowering": "(module)",
        "extend.source_info_util": """
            NameStack new_name_stack reset_name_stack transform_name_stack
            user_context
        """,
        "extend.xla": "(module)",
        "interpreters.ad": "jvp linearize",
        "interpreters.partial_eval": """
            Val custom_partial_eval_rules dce_jaxpr_call_rule
            dce_jaxpr_closed_call_rule dce_jaxpr_consts dce_rules
            partial_eval_jaxpr_custom_rules
        """,
        "interpreters.pxla": """
            ArrayMapping Index MeshAxisName MeshComputation MeshExecutable
            are_hlo_shardings_equal array_mapping_to_axis_resources
            create_compile_options global_aval_to_result_handler
            global_avals_to_results_handler global_result_handlers
            is_hlo_sharding_replicated op_sharding_to_indices thread_resources
        """,
        "interpreters.xla": "canonicalize_dtype_handlers",
        "lax": """
            approx_top_k_p device_put_p linear_solve_p scatter_sub_p
            select_and_scatter_p sharding_constraint_p square_p squeeze_p stack_p
            stage_p tile_p unstack_p
        """,
        "lax.linalg": "cholesky_update_p symmetric_product_p",
        "lib": "(module)",
    },
    "of TPUs and of other kinds of kernels than weft.pallas has": {
        "cloud_tpu_init": "(module)",
        "experimental.pallas": """
            BoundedSlice Indirect debug_checks_enabled get_global lower_as_mlir
            pallas_export_experimental select_ref semaphore
        """,
        "experimental.pallas.fuser": "(module)",
        "experimental.pallas.tpu": """
            BufferType BufferedRef BufferedRefBase ChipVersion LoweringException
            Tiling TpuInfo async_remote_copy dma_semaphore
            emit_pipeline_with_allocations get_barrier_semaphore get_tpu_info
            get_tpu_info_for_chip make_async_remote_copy matmul_acc_lhs matmul_pop
            matmul_push_rhs prng_random_bits prng_seed sample_block semaphore
            stateful_bernoulli stateful_bits stateful_normal stateful_uniform
        """,
        "experimental.pallas.tpu_sc": "(module)",
        "experimental.pallas.triton": """
            elementwise_inline_asm
        """,
        "extend.pallas": "(module)",
    },
    "JAX's experimental types of types (hijax)": {
        "experimental": "EArray cur_qdd",
        "experimental.hijax": "HiPspec TransformedRef",
        "extend.core": "TraceTag",
    },
    "weft.checkpoints writes and reads arrays on TensorStore": {
        "experimental.array_serialization.tensorstore_impl": "(module)",
    },
    "deprecated, an option without effect, or an experiment of JAX's": {
        "": """
            ad allow_f16_reductions auto_pcast
            jax2tf_associative_scan_reductions remove_size_one_mesh_axis_from_type
            softmax_custom_jvp
        """,
        "experimental.array_serialization.serialization": "logger",
        "experimental.profiler": "get_profiled_instructions_proto",
        "ffi": "build_ffi_lowering_function",
        "scipy.special": "lpmn lpmn_values",
        "sharding": "AbstractDevice",
    },
}

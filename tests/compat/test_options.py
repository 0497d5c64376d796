"""Options of JAX's that weft has no use for are set and read; those that change results are not."""

import textwrap

from tests.compat.test_as_jax import on_weft, run


def test_options_that_change_no_result_are_set_and_read():
    program = """
        import jax
        jax.config.update("jax_include_full_tracebacks_in_locations", False)
        jax.config.update("jax_compilation_cache_max_size", 1 << 20)
        jax.config.update("jax_optimization_level", "O1")
        print(jax.config.jax_include_full_tracebacks_in_locations,
              jax.config.jax_compilation_cache_max_size, jax.config.read("jax_optimization_level"),
              jax.config.jax_enable_pgle, jax.config.jax_pgle_profiling_runs)
        with jax.softmax_custom_jvp(True):
            print(jax.config.jax_softmax_custom_jvp, jax.softmax_custom_jvp.__name__)
        print(jax.config.jax_softmax_custom_jvp)
    """
    assert on_weft(program).splitlines() == [
        "False 1048576 O1 False 3",
        "True softmax_custom_jvp",
        "False",
    ]


def test_options_come_from_the_environment_and_the_command_line():
    program = """
        import jax, sys
        jax.config.parse_flags_with_absl()
        print(jax.config.jax_enable_pgle, jax.config.jax_pgle_profiling_runs,
              jax.config.jax_debug_log_modules, jax.config.jax_enable_checks, sys.argv[1:])
    """
    given = ("--jax_debug_log_modules=jax", "--nojax_enable_checks", "jax_md/a_test.py")
    words = ("-m", "weft.as_jax", "-c", textwrap.dedent(program), *given)
    env = {"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": "7"}
    assert run(*words, env=env) == "True 7 jax False ['jax_md/a_test.py']"


def test_options_that_would_change_results_keep_their_value_and_say_what_to_do():
    program = """
        import jax
        jax.config.update("jax_remove_size_one_mesh_axis_from_type", False)
        for name, value in (
            ("jax_remove_size_one_mesh_axis_from_type", True),
            ("jax_high_dynamic_range_gumbel", "true"),
            ("jax_error_checking_behavior_oob", "raise"),
        ):
            try:
                jax.config.update(name, value)
            except ValueError as e:
                print(str(e).partition("(")[2].partition(")")[0])
        print(jax.config.jax_error_checking_behavior_oob)
    """
    assert on_weft(program).splitlines() == [
        "weft has False alone for remove_size_one_mesh_axis_from_type: make the mesh without axes "
        "of size 1",
        "weft has False alone for high_dynamic_range_gumbel: jax.random.gumbel(..., mode='high'",
        "weft has 'ignore' alone for error_checking_behavior_oob: checkify.index_checks finds "
        "indices out of bounds",
    ] + ["ignore"]


def test_a_process_without_jax_names_has_no_options_of_jax():
    program = """
        import sys
        import weft
        assert "weft.compat.options" not in sys.modules
        try:
            weft.config.update("jax_enable_pgle", True)
        except AttributeError as e:
            print(str(e).partition(";")[0])
    """
    assert run("-c", textwrap.dedent(program)) == (
        "WeftConfig.update: no config option 'jax_enable_pgle'"
    )

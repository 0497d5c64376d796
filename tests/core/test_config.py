"""Configuration: reads, writes, thread-local overrides, the environment, errors."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import weft
from weft.core.config import config, enable_x64, options


def test_an_option_is_an_attribute_and_a_block_overrides_it():
    assert config.enable_x64 is False
    with enable_x64(True):
        assert config.enable_x64 is True
        with enable_x64(False):
            assert config.enable_x64 is False
        assert config.enable_x64 is True
    assert config.enable_x64 is False


def test_an_override_ends_when_the_block_raises():
    with pytest.raises(KeyError), enable_x64(True):
        raise KeyError
    assert config.enable_x64 is False


def test_an_override_is_seen_by_its_own_thread_only():
    seen = []
    with enable_x64(True):
        thread = threading.Thread(target=lambda: seen.append(config.enable_x64))
        thread.start()
        thread.join()
    assert seen == [False]


def test_traced_options_change_the_trace_key_and_others_do_not():
    before = config.trace_key()
    for option in options.values():
        other = {
            "default_device": "cpu",
            "explicit_x64_dtypes": "error",
            "partitioner": "xla",
            "default_matmul_precision": "highest",
            "default_prng_impl": "rbg",
            "numpy_dtype_promotion": "strict",
            "numpy_rank_promotion": "raise",
            "varying_promotion": "error",
            "indivisible_constraints": "error",
            "repeated_blocks": "inline",
            "traceback_filtering": "off",
            "platforms": "cpu",
            "num_cpu_devices": 3,
            "cpu_collectives": "none",
            "host_memory_kept": 0,
            "compilation_cache_dir": "somewhere",
            "dump_ir_to": "somewhere",
            "dump_ir_modes": "jaxpr,local",
            "persistent_cache_min_compile_time_secs": 2.0,
            "legacy_prng_key": "warn",
            "transfer_guard": "log",
            "transfer_guard_host_to_device": "log",
            "transfer_guard_device_to_device": "log",
            "transfer_guard_device_to_host": "log",
            "array_garbage_collection_guard": "log",
        }.get(option.name, not option.value)
        untraced = {
            "log_compiles",
            "pprint_use_color",
            "traceback_filtering",
            "platforms",
            "num_cpu_devices",
        }
        untraced |= {"cpu_collectives", "host_memory_kept", "compilation_cache_dir"}
        untraced |= {"cpu_enable_async_dispatch"}
        untraced |= {"persistent_cache_min_compile_time_secs", "enable_compilation_cache"}
        untraced |= {"persistent_cache_min_entry_size_bytes", "no_tracing", "thread_guard"}
        untraced |= {"explain_cache_misses", "dump_ir_to", "dump_ir_modes"}
        untraced |= {name for name in options if name.endswith("_guard") or "_guard_" in name}
        with option(other):
            assert (config.trace_key() != before) == (option.name not in untraced), option.name
    assert config.trace_key() == before


def test_update_sets_the_process_value_and_accepts_prefixed_names():
    config.update("weft_debug_nans", True)
    try:
        assert config.debug_nans is True
        assert config.jax_debug_nans is True
    finally:
        config.update("debug_nans", False)


def test_64_bit_dtypes_asked_for_can_be_an_error():
    with (
        options["explicit_x64_dtypes"]("error"),
        pytest.raises(ValueError, match=r"dtype float64 is not available .* gives 64-bit types"),
    ):
        weft.numpy.zeros(2, np.float64)
    with pytest.warns(UserWarning, match="float64 is not available"):
        assert weft.numpy.zeros(2, np.float64).dtype == np.float32
    with pytest.raises(ValueError, match="expected one of 'warn', 'error'"):
        config.update("explicit_x64_dtypes", "allow")


def test_an_unknown_option_lists_the_valid_names():
    with pytest.raises(AttributeError, match=r"'frobnicate'; valid names: .*enable_x64"):
        config.update("frobnicate", 1)
    with pytest.raises(AttributeError, match="valid names"):
        _ = config.frobnicate


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("partitioner", "magic", "'auto', 'weft', 'xla'"),
        ("enable_x64", "perhaps", "True or False"),
        ("num_cpu_devices", 0, "positive"),
    ],
)
def test_a_wrong_value_names_option_and_choices(name, value, words):
    with pytest.raises(ValueError, match=f"{name}.*{words}"):
        config.update(name, value)


def test_assignment_says_to_use_update():
    with pytest.raises(AttributeError, match="config.update"):
        config.enable_x64 = True


def test_the_environment_sets_options():
    code = "from weft.core.config import config; print(config.enable_x64, config.num_cpu_devices)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"WEFT_ENABLE_X64": "1", "WEFT_NUM_CPU_DEVICES": "5"},
        capture_output=True,
        text=True,
    )
    assert result.stdout.split() == ["True", "5"]


def test_an_option_is_read_for_the_process_where_a_thread_hides_it():
    with options["debug_infs"](new_val=True):
        assert config.debug_infs is True
        assert config.read("jax_debug_infs") is False

"""Registration: capsules, platforms, stages, types of state."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import weft
from weft.ffi import build, ffi_call, native_errors, pycapsule, register_ffi_target

F4 = weft.ShapeDtypeStruct((4,), "float32")
X = np.arange(4, dtype=np.float32)


def test_a_ctypes_function_and_an_address_make_capsules(handlers):
    address = ctypes.cast(handlers.Scale, ctypes.c_void_p).value
    for i, function in enumerate([handlers.Scale, address]):
        register_ffi_target(f"ScaleAgain{i}", pycapsule(function))
        result = ffi_call(f"ScaleAgain{i}", F4)(X, scale=np.float32(2))
        np.testing.assert_array_equal(result, 2 * X)


@pytest.mark.parametrize("value", ["Scale", 1.5, None, lambda: None])
def test_only_native_functions_make_capsules(value):
    with pytest.raises(TypeError, match="expected a ctypes function pointer or an address"):
        pycapsule(value)


def test_a_null_pointer_makes_no_capsule():
    with pytest.raises(ValueError, match="null address"):
        pycapsule(0)


@pytest.mark.parametrize(
    "args, error, words",
    [
        (("", None), TypeError, "non-empty string"),
        (("f", None, 3), TypeError, "platform must be a string, got 3"),
        (("f", lambda x: x), TypeError, "must be a capsule, got function; wrap a ctypes function"),
        (("f", {"run": None}), ValueError, "'run' is not a stage.* instantiate, prepare"),
        (("f", {"prepare": None}), ValueError, "'f' has no 'execute' stage"),
        (("f", {"execute": 3}), TypeError, "the 'execute' stage of fn for 'f' must be a capsule"),
    ],
)
def test_what_is_no_handler_is_refused(args, error, words):
    with pytest.raises(error, match=words):
        register_ffi_target(*args)


def test_unknown_arguments_and_types_are_refused(handlers):
    with pytest.raises(TypeError, match="no argument 'bogus'"):
        register_ffi_target("f", pycapsule(handlers.Scale), bogus=1)
    with pytest.raises(TypeError, match="must be a dict of capsules"):
        weft.ffi.register_ffi_type("f", pycapsule(handlers.Scale))


def test_an_unknown_api_version_is_refused(handlers):
    with pytest.raises(ValueError, match="api_version must be 1 .* or 0"):
        register_ffi_target("f", pycapsule(handlers.Scale), api_version=4)


def test_a_name_keeps_its_handler(handlers):
    register_ffi_target("Scale", pycapsule(handlers.Scale))  # the same one again
    with pytest.raises(ValueError, match="refuses 'Scale'.*choose another name"):
        register_ffi_target("Scale", pycapsule(handlers.Fail))


def test_an_unregistered_target_says_what_is_registered():
    with pytest.raises(ValueError, match=r"'Skale' is not registered.*Did you mean 'Scale'\?") as e:
        ffi_call("Skale", F4)(X)
    assert "CheckedSqrt" in str(e.value) and "test_registry.py" in str(e.value)


def test_a_target_of_another_platform_says_so(handlers):
    register_ffi_target("OnForeignDevice", pycapsule(handlers.Scale), platform="cuda")
    with pytest.raises(ValueError, match="for platform 'cpu'; it is registered for CUDA only"):
        weft.jit(ffi_call("OnForeignDevice", F4))(X)


def test_programs_are_lowered_for_platforms_whose_targets_are_registered_elsewhere():
    def program(x):
        cpu, cuda = ffi_call("Scale", F4), ffi_call("RegisteredWhereThereAreGpus", F4)
        return weft.lax.platform_dependent(x, cpu=lambda v: cpu(v, scale=np.float32(2)), cuda=cuda)

    traced = weft.jit(program).trace(X)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "@RegisteredWhereThereAreGpus" in text and "@Scale" not in text
    assert "@Scale" in traced.lower().as_text()


def test_a_function_that_is_no_handler_is_refused_for_gpus():
    """Their plugins would end the process."""
    no_handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda frame: 12345)
    with pytest.raises(ValueError, match="'NoHandler' does not answer as handlers .* do"):
        register_ffi_target("NoHandler", pycapsule(no_handler), platform="cuda")


def test_registered_targets_are_listed():
    names = weft.ffi.registered_targets("cpu")
    assert "Scale" in names and not [n for n in names if n.startswith("weft_ffi")]


def test_the_headers_are_where_include_dir_says():
    import pathlib

    assert (pathlib.Path(weft.ffi.include_dir()) / "xla/ffi/api/ffi.h").is_file()


def test_a_batch_partitionable_target_needs_a_name():
    with pytest.raises(TypeError, match="non-empty string"):
        weft.ffi.register_ffi_target_as_batch_partitionable(None)


# Stages and state -------------------------------------------------------------------------------


def counts(library):
    library.StageCalls.restype = ctypes.c_int64
    return [library.StageCalls(ctypes.c_int32(i)) for i in range(4)]


def test_state_is_made_once_for_a_compiled_call_and_read_by_each_run(stateful):
    call = ffi_call("Factor", F4)
    program = weft.jit(lambda x: call(x, factor=np.float32(3)))
    before = counts(stateful)
    for _ in range(3):
        np.testing.assert_array_equal(program(X), 3 * X)
    made, _, _, executed = np.subtract(counts(stateful), before)
    # XLA:CPU has no prepare and initialize stages (jaxlib 0.10.2).
    assert (made, executed) == (1, 3)


def test_state_is_dropped_with_the_program(stateful):
    import gc

    stateful.FactorsAlive.restype = ctypes.c_int64
    gc.collect()  # what earlier programs left
    before = stateful.FactorsAlive()
    compiled = (
        weft.jit(lambda x: ffi_call("Factor", F4)(x, factor=np.float32(7))).lower(X).compile()
    )
    assert stateful.FactorsAlive() == before + 1
    del compiled
    gc.collect()
    assert stateful.FactorsAlive() == before


def test_an_error_while_state_is_made_names_the_target(stateful):
    with pytest.raises(RuntimeError, match="'Factor' at .*test_registry.py.*factor is zero"):
        ffi_call("Factor", F4)(X, factor=np.float32(0))


@pytest.mark.parametrize(
    "registration, error, words",
    [
        ({"id": None}, ValueError, "'id' is not a part of a type's registration"),
        ({"type_id": 3}, TypeError, "'type_id' of 'T' must be a capsule, got int"),
    ],
)
def test_what_is_no_type_is_refused(registration, error, words):
    with pytest.raises(error, match=words):
        weft.ffi.register_ffi_type("T", registration)


def test_a_type_is_registered_by_its_id_alone(handlers):
    ids = (ctypes.c_int64 * 1)()
    capsule = pycapsule(ctypes.addressof(ids))
    weft.ffi.register_ffi_type_id("TestOnlyId", capsule)
    assert ids[0] > 0


UNTYPED = """
extern "C" void CopiesTwo(void* out, const void** in) {
  static_cast<float*>(out)[0] = static_cast<const float*>(in[0])[0];
}
extern "C" void WritesFar(void* out, const void** in) { *reinterpret_cast<int*>(8) = 1; }
extern "C" void DoesNothing(void* out, const void** in) {}
extern "C" void Clears(void* out, const void** in) {
  volatile long* words = static_cast<volatile long*>(out);
  for (int i = 0; i < 400; i++) words[i] = 0;
}
"""


@pytest.mark.parametrize("symbol", ["CopiesTwo", "WritesFar", "DoesNothing", "Clears"])
def test_an_untyped_handler_is_refused_before_it_is_called(symbol):
    library = build(UNTYPED, targets=[])
    with pytest.raises(ValueError, match=f"'{symbol}' does not answer.*api_version=0"):
        register_ffi_target(symbol, pycapsule(library.function(symbol)))
    stages = {"execute": pycapsule(library.function(symbol))}
    with pytest.raises(ValueError, match="does not answer"):
        register_ffi_target(symbol, stages)
    register_ffi_target(symbol, pycapsule(library.function(symbol)), api_version=0)


@pytest.mark.parametrize("as_stages", [False, True])
def test_a_typed_handler_is_refused_as_an_untyped_one(handlers, as_stages):
    capsule = pycapsule(handlers.Scale)
    with pytest.raises(ValueError, match="'Untyped' answers as .* typed FFI .*leave api_version"):
        register_ffi_target("Untyped", {"execute": capsule} if as_stages else capsule, "cpu", 0)


def test_a_process_that_asks_a_handler_for_ever_is_ended(monkeypatch):
    monkeypatch.setattr(native_errors, "_SECONDS", 0)
    asking = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    assert native_errors._ended_well(asking.pid) is None
    with pytest.raises(ProcessLookupError):
        os.kill(asking.pid, 0)


@pytest.mark.parametrize("status", [0, 3])
def test_the_end_of_a_process_that_asks_a_handler_says_what_it_found(status):
    asking = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"])
    assert native_errors._ended_well(asking.pid) == (status == 0)


def test_a_program_is_lowered_without_its_target_and_says_so_when_it_is_compiled():
    lowered = weft.jit(ffi_call("NowhereRegistered", F4)).lower(X)
    assert "NowhereRegistered" in lowered.as_text()
    with pytest.raises(ValueError, match="'NowhereRegistered' is not registered"):
        lowered.compile()
    with pytest.raises(RuntimeError, match="'NowhereRegistered' is not registered"):
        weft.jit(ffi_call("NowhereRegistered", F4))(X)

"""Errors of native handlers: the exception, the target, the user's line."""

from pathlib import Path

import numpy as np
import pytest

import weft
from tests.processes import python
from weft.ffi import ffi_call, native_errors

BAD, GOOD = -np.ones(4, np.float32), np.ones(4, np.float32)


@pytest.fixture(autouse=True)
def no_calls_of_other_tests(monkeypatch):
    monkeypatch.setattr(native_errors, "_sites", {})
    weft.clear_caches()


def checked_sqrt(x, **options):
    return ffi_call("CheckedSqrt", weft.ShapeDtypeStruct(x.shape, "float32"), **options)(x)


WORDS = r"ffi_call of 'CheckedSqrt' at .*native_errors\.py:\d+ \(.*\): x has a negative element"


def test_an_eager_error_names_target_and_line():
    with pytest.raises(ValueError, match=WORDS):
        checked_sqrt(BAD)


def test_an_error_of_a_cached_program_names_target_and_line():
    f = weft.jit(checked_sqrt)
    np.testing.assert_array_equal(f(GOOD), GOOD)
    np.testing.assert_array_equal(f(GOOD), GOOD)
    with pytest.raises(ValueError, match=WORDS):
        f(BAD)
    np.testing.assert_array_equal(f(GOOD), GOOD)


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.block_until_ready(),
        np.asarray,
        lambda y: float(y[0, 0]),
        lambda y: weft.block_until_ready([y, y]),
        weft.device_get,
        repr,
        lambda y: np.asarray(y + 1),
    ],
    ids=["block", "asarray", "float", "block_all", "device_get", "repr", "used again"],
)
def test_an_error_in_the_background_shows_where_the_result_is_read(read):
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    x = weft.device_put(np.tile(BAD, (8, 1)), weft.NamedSharding(mesh, weft.P("x")))
    f = weft.jit(weft.vmap(lambda x: checked_sqrt(x, vmap_method="sequential")))
    with pytest.raises(ValueError, match=WORDS):
        read(f(x))


def test_several_lines_are_listed():
    f = weft.jit(lambda x: ffi_call("Fail", x)(x, code=np.int32(3)))
    g = weft.jit(lambda x: ffi_call("Fail", x)(x, code=np.int32(3)))
    with pytest.raises(ValueError, match=r"'Fail' at .*native_errors\.py:\d+ \(.*\): as asked"):
        f(GOOD)
    with pytest.raises(
        ValueError, match=r"'Fail' at one of .*test_native_errors.*, .*test_native_errors.*as asked"
    ):
        g(GOOD)


@pytest.mark.parametrize("code, name", [(5, "NOT_FOUND"), (13, "INTERNAL"), (12, "UNIMPLEMENTED")])
def test_other_codes_are_runtime_errors_that_name_them(code, name):
    with pytest.raises(RuntimeError, match=f"(?s){name}: ffi_call of 'Fail'.*as asked"):
        np.asarray(ffi_call("Fail", GOOD)(GOOD, code=np.int32(code)))


def test_equal_words_with_other_codes_are_told_apart():
    """Both at one line, so that the messages differ in the code alone."""
    for code, kind in ((3, ValueError), (5, RuntimeError)):
        with pytest.raises(kind, match="'Fail' at .*as asked"):
            np.asarray(ffi_call("Fail", GOOD)(GOOD, code=np.int32(code)))


def test_an_operand_of_the_wrong_dtype_names_the_target():
    with pytest.raises(ValueError, match="(?s)'CheckedSqrt' at .*Wrong buffer dtype"):
        ffi_call("CheckedSqrt", GOOD)(np.ones(4, np.int32))


def test_a_wrong_number_of_operands_names_the_target():
    with pytest.raises(ValueError, match="'CheckedSqrt' at .*Wrong number of arguments"):
        ffi_call("CheckedSqrt", GOOD)(GOOD, GOOD)
    with pytest.raises(ValueError, match="'CheckedSqrt' at .*Wrong number of results"):
        ffi_call("CheckedSqrt", (GOOD, GOOD))(GOOD)


def test_the_traceback_ends_in_the_users_code():
    import traceback

    with pytest.raises(ValueError) as e:
        checked_sqrt(BAD)
    assert "test_native_errors.py" in traceback.extract_tb(e.value.__traceback__)[0].filename


def test_a_handler_compiled_without_the_header_gets_a_note_of_the_programs_calls():
    source, flags = Path(__file__).parent / "handlers.cc", ["-O1", "-DWEFT_FFI_H_"]
    weft.ffi.build(source, targets={"Bare": "CheckedSqrt"}, flags=flags)
    f = weft.jit(lambda x: ffi_call("Bare", x)(x))
    with pytest.raises(ValueError, match="INVALID_ARGUMENT: x has a negative element") as e:
        f(BAD)
    assert "'Bare' at " in e.value.__notes__[0] and "test_native_errors.py" in e.value.__notes__[0]
    assert isinstance(e.value, weft.errors.JaxRuntimeError)  # which programs for JAX catch


def test_what_a_handler_throws_is_an_error_of_the_call():
    call = weft.jit(lambda x: ffi_call("Throw", x)(x))
    for x, words in ((-GOOD, "std::out_of_range: a negative number"), (1000 * GOOD, "int")):
        with pytest.raises(RuntimeError, match=rf"'Throw' at .*: the handler threw {words}$"):
            np.asarray(call(x))
        np.testing.assert_array_equal(call(GOOD), GOOD)


def test_what_is_thrown_on_one_device_ends_the_program_on_all():
    mesh = weft.make_mesh((8,), ("d",))

    def on_shard(x):
        return weft.lax.psum(ffi_call("Throw", x)(x), "d")

    f = weft.jit(
        weft.shard_map(
            on_shard, mesh=mesh, in_specs=weft.P("d"), out_specs=weft.P(), check_vma=False
        )
    )
    spread = weft.NamedSharding(mesh, weft.P("d"))
    x = np.ones(8, "f4")
    np.testing.assert_array_equal(f(weft.device_put(x, spread)), [8])
    x[5] = -1
    with pytest.raises(RuntimeError, match="'Throw' at .*: the handler threw std::out_of_range"):
        np.asarray(f(weft.device_put(x, spread)))


PROGRAM = """
import signal, sys
import numpy as np
import weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
weft.ffi.build(sys.argv[1], flags=["-O1"])
good = np.ones(4, "f4")
call = weft.jit(lambda x: weft.ffi.ffi_call("Interrupted", x)(x)).lower(good).compile()
for x in (-good, good):
    try:
        call(x).block_until_ready()
    except KeyboardInterrupt as e:
        print("interrupted:", e.__context__)
print(call(2 * good))
"""


def test_an_interrupt_while_a_handler_runs_is_raised_behind_it():
    """Also where the handler fails: no Python may run before XLA has its error."""
    said = python(PROGRAM, Path(__file__).parent / "handlers.cc")
    failed, succeeded, again = said.splitlines()
    assert failed.startswith("interrupted:") and "interrupted and wrong" in failed
    assert succeeded == "interrupted: None" and again == "[2. 2. 2. 2.]"

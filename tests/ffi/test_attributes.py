"""Attributes: what Python values become in a native handler."""

import enum

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.ffi import ffi_call

SCALARS = {
    "b": True,
    "i8": np.int8(-1),
    "i16": np.int16(-2),
    "i32": np.int32(-3),
    "i64": -4,
    "u8": np.uint8(255),
    "u16": np.uint16(65535),
    "u32": np.uint32(7),
    "u64": np.uint64(2**63),
    "f32": np.float32(1.5),
    "f64": 0.25,
    "mode": np.int32(2),
}


class Mode(enum.Enum):
    SECOND = np.int32(2)


def scalars(**changed):
    result = weft.ShapeDtypeStruct((12,), "float32")
    return np.asarray(ffi_call("Scalars", result)(**{**SCALARS, **changed}))


def test_scalars_keep_their_width():
    expected = [1, -1, -2, -3, -4, 255, 65535, 7, 2.0**63, 1.5, 0.25, 2]
    np.testing.assert_array_equal(scalars(), np.array(expected, np.float32))


def test_an_enum_is_its_value():
    assert scalars(mode=Mode.SECOND)[-1] == 2


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e-30, np.finfo(np.float32).max])
def test_floats_arrive_exactly(value):
    np.testing.assert_array_equal(scalars(f32=np.float32(value))[9], np.float32(value))


def test_a_width_that_the_handler_does_not_take_is_an_error_that_names_the_target():
    with pytest.raises(ValueError, match=r"(?s)'Scalars' at .*Wrong scalar data type"):
        scalars(i64=np.int32(4))


def test_a_missing_attribute_is_an_error_that_names_the_target():
    result = weft.ShapeDtypeStruct((4,), "float32")
    with pytest.raises(ValueError, match="'Scale'.*[Ww]rong number of attributes"):
        ffi_call("Scale", result)(np.ones(4, np.float32))


COMPOUND = {
    "text": 'hé"x',
    "ints": np.array([1, 2, 3]),
    "floats": np.array([0.5, 1], np.float32),
    "bytes": np.array([], np.int8),
    "dict": {"inner": {"rate": 0.25}, "depth": 3},
}


def compound(**changed):
    result = weft.ShapeDtypeStruct((8,), "float32")
    return np.asarray(ffi_call("Compound", result)(**{**COMPOUND, **changed}))


def test_strings_arrays_and_dicts_arrive():
    expected = [5, ord("h"), ord("x"), 6, 1.5, 0, 3, 0.25]
    np.testing.assert_array_equal(compound(), np.array(expected, np.float32))


def test_a_list_is_an_array():
    assert compound(ints=[4, -5, 2**40])[3] == np.float32(2**40 - 1)


@pytest.mark.parametrize("text", ["a\nb", "\x01\\", "𝛼β", "tab\t'quotes'"])
def test_any_string_arrives(text):
    raw = text.encode()
    np.testing.assert_array_equal(compound(text=text)[:3], [len(raw), raw[0], raw[-1]])


@pytest.mark.parametrize(
    "value, error, words",
    [
        (object(), TypeError, "'text' of type object cannot be passed"),
        (None, TypeError, "of type NoneType"),
        (1j, TypeError, "of type complex"),
        (np.complex64(1), TypeError, "of type complex64"),
        (2**63, ValueError, "does not fit in 64 bits"),
        (["a"], TypeError, "must have a dtype among .* got <U1"),
        (np.array([None]), TypeError, "must have a dtype among .* got object"),
        ({1: 2}, TypeError, "keys of a dict must be strings, got 1"),
        ({"a": {"b": object()}}, TypeError, r"'text\.a\.b' of type object"),
    ],
)
def test_a_value_without_a_native_form_is_refused(value, error, words):
    with pytest.raises(error, match=words):
        compound(text=value)


def test_a_traced_attribute_is_refused_by_name():
    result = weft.ShapeDtypeStruct((4,), "float32")
    with pytest.raises(TypeError, match="attribute 'scale' is a traced array"):
        weft.jit(lambda x, s: ffi_call("Scale", result)(x, scale=s))(np.ones(4, np.float32), 2.0)


def test_calls_with_different_attributes_are_different_programs():
    result = weft.ShapeDtypeStruct((2,), "float32")
    x = np.array([1, 2], np.float32)
    got = [ffi_call("Scale", result)(x, scale=np.float32(s)) for s in (2, 3)]
    np.testing.assert_array_equal(got, [2 * x, 3 * x])


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float16(1.5), "1.500000e+00 : f16"),
        (np.bool_(True), "true"),
        (ml_dtypes.bfloat16(2), "2.000000e+00 : bf16"),
        (np.float16(np.inf), "0x7C00 : f16"),
        (np.arange(4, dtype=np.int8).reshape(2, 2), "dense<[[0, 1], [2, 3]]> : tensor<2x2xi8>"),
        (np.array(3.0), "dense<3.000000e+00> : tensor<f64>"),
        (np.array([True, False]), "dense<[true, false]> : tensor<2xi1>"),
        (np.ones(2, np.complex64), "dense<(1.000000e+00,0.000000e+00)> : tensor<2xcomplex<f32>>"),
        (np.arange(2, dtype=np.uint8), "dense<[0, 1]> : tensor<2xui8>"),
        (np.ones((0, 2), np.float16), "dense<> : tensor<0x2xf16>"),
    ],
)
def test_scalars_and_arrays_of_every_width_and_rank_are_lowered(value, text):
    call = weft.ffi.ffi_call("lowered_only", weft.ShapeDtypeStruct((2,), "float32"))
    lowered = weft.jit(lambda x: call(x, value=value)).lower(np.ones(2, np.float32))
    assert f"value = {text}" in lowered.as_text()


@pytest.mark.parametrize(
    "value, words",
    [
        (ml_dtypes.int4(3), r"scalar cannot be of type int4; widen it: value.astype\('int8'\)"),
        (np.array([1, 2], ml_dtypes.uint4), r"got uint4\[2\]; widen it: value.astype\('uint8'\)"),
        (ml_dtypes.float8_e4m3fn(1), r"widen it: value.astype\('float32'\)"),
        (np.complex64(1), r"pass an array of one"),
        (b"ab", "numpy.frombuffer"),
    ],
)
def test_what_is_no_attribute_is_refused_with_what_to_pass(value, words):
    with pytest.raises(TypeError, match=f"attribute 'size'.*{words}"):
        weft.ffi.ffi_call("Any", weft.ShapeDtypeStruct((), "float32"))(1.0, size=value)

"""Promotion against JAX's table (recorded in tests/oracle), names and predicates."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.core import dtypes

TABLE = json.loads((Path(__file__).parent.parent / "oracle" / "promotion.json").read_text())
WEAK = {"int": dtypes.int64, "float": dtypes.float64, "complex": dtypes.complex128}
NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def operand(name: str, x64: bool):
    if name in WEAK:
        return dtypes.canonicalize_dtype(WEAK[name]), True
    return dtypes.canonicalize_dtype(getattr(dtypes, name, name)), False


@pytest.mark.parametrize("mode", ["x32", "x64"])
def test_every_pair_promotes_as_jax_documents(mode):
    wrong = []
    with weft.enable_x64(mode == "x64"):
        for pair, expected in TABLE[mode].items():
            a, b = pair.split()
            try:
                dtype, weak = dtypes.promote_types([operand(a, mode), operand(b, mode)])
                got = dtype.name + ("*" if weak else "")
            except dtypes.TypePromotionError as e:
                got = type(e).__name__
            if got != expected:
                wrong.append(f"{pair}: {got}, expected {expected}")
    assert not wrong, wrong[:20]


def test_promotion_error_names_both_types_and_the_fix():
    with pytest.raises(weft.errors.TypePromotionError, match=r"bf16|f8_e5m2.*astype"):
        dtypes.promote_types([(dtypes.float8_e5m2, False), (dtypes.bfloat16, False)])


def test_promote_types_keeps_64_bits_only_where_they_are_asked_for():
    promote = weft.numpy.promote_types
    assert promote("int32", "uint32") == promote("int8", "uint32") == np.int32
    assert promote("int64", "uint32") == promote("int64", "int32") == np.int64
    with weft.enable_x64(True):
        assert promote("int32", "uint32") == np.int64


def test_strict_mode_refuses_to_mix_dtypes():
    with weft.numpy_dtype_promotion("strict"):
        assert dtypes.promote_types([(dtypes.float32, False), (dtypes.float32, True)])
        with pytest.raises(weft.errors.TypePromotionError, match="strict"):
            dtypes.promote_types([(dtypes.float32, False), (dtypes.float16, False)])


def test_strict_mode_lets_python_scalars_take_dtypes_but_not_change_them():
    integers = weft.numpy.arange(3)
    with weft.numpy_dtype_promotion("strict"):
        assert (integers + 1).dtype == np.int32
        assert (weft.numpy.ones(3, "bfloat16") * 0.5).dtype.name == "bfloat16"
        for x, scalar in ((integers, 0.5), (integers > 1, 1), (weft.numpy.ones(3), 1j)):
            with pytest.raises(weft.errors.TypePromotionError, match="does not become"):
                weft.numpy.add(x, scalar)


@pytest.mark.parametrize(("wide", "narrow"), NARROW.items())
def test_64_bit_types_narrow_unless_enabled(wide, narrow):
    assert dtypes.canonicalize_dtype(wide) == np.dtype(narrow)
    with weft.enable_x64(True):
        assert dtypes.canonicalize_dtype(wide) == np.dtype(wide)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float32", "f32"), ("int8", "i8"), ("uint16", "u16"), ("bool", "bool"), ("complex64", "c64")],
)
def test_short_names_are_those_of_jaxprs(dtype, name):
    assert dtypes.short_name(np.dtype(dtype)) == name


def test_short_names_of_ml_dtypes():
    assert dtypes.short_name(dtypes.bfloat16) == "bf16"
    assert dtypes.short_name(dtypes.float8_e4m3fn) == "f8_e4m3fn"
    assert dtypes.short_name(dtypes.uint4) == "u4"


def test_ml_dtypes_floats_are_floating():
    for d in (dtypes.bfloat16, dtypes.float8_e5m2):
        assert weft.dtypes.issubdtype(d, np.floating)
        assert weft.dtypes.issubdtype(d, np.inexact)
        assert not weft.dtypes.issubdtype(d, np.integer)
    assert weft.dtypes.issubdtype(dtypes.int4, np.signedinteger)


def test_a_dtype_weft_cannot_compute_with_is_refused_by_name():
    with pytest.raises(TypeError, match="datetime64"):
        dtypes.canonicalize_dtype("datetime64[s]")


def test_bits_of_elements_count_those_of_small_types():
    bits = {"int4": 4, "uint2": 2, "bool": 8, "float8_e5m2": 8, "bfloat16": 16, "complex64": 64}
    assert {name: weft.dtypes.itemsize_bits(name) for name in bits} == bits
    assert weft.dtypes.itemsize_bits(weft.random.key(0).dtype) == 64


@pytest.mark.parametrize(
    ("value", "kind"),
    [(True, bool), (np.int8(1), int), (np.ones(2, dtypes.bfloat16), float), (1j, complex)],
)
def test_the_scalar_type_of_a_value_is_pythons(value, kind):
    assert weft.dtypes.scalar_type_of(value) is kind


def test_a_joint_dtype_tells_whether_it_is_weak():
    both = weft.dtypes.result_type
    assert both(1, 2.0, return_weak_type_flag=True) == (np.float32, True)
    assert both(np.float32(1), 2.0, return_weak_type_flag=True) == (np.float32, False)


def test_dtypes_of_keys_are_canonical_only_where_allowed():
    dtype = weft.random.key(0).dtype
    assert weft.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True) is dtype
    with pytest.raises(TypeError, match="allow_extended_dtype"):
        weft.dtypes.canonicalize_dtype(dtype)
    assert weft.dtypes.bfloat16(1.5).dtype == dtypes.bfloat16


@pytest.mark.parametrize("name", ["int1", "uint1", "float6_e2m3fn", "float6_e3m2fn"])
def test_types_that_nothing_computes_in_have_names_and_limits(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    assert getattr(weft.numpy, name) == dtype
    limits = (weft.numpy.finfo if "float" in name else weft.numpy.iinfo)(name)
    expected = (ml_dtypes.finfo if "float" in name else ml_dtypes.iinfo)(dtype)
    assert (limits.min, limits.max, limits.bits) == (expected.min, expected.max, expected.bits)
    with pytest.raises(TypeError, match=f"dtype {name} is not a type weft computes with"):
        weft.numpy.zeros(3, name)

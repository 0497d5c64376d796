"""The shared MLIR context: types, parsing, printing, passes."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from weft._xla import mlir, passes

BUILTIN = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES = [np.dtype(t) for t in BUILTIN] + [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn")
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_has_an_mlir_type_that_maps_back(dtype):
    tensor = mlir.tensor_type((2, 3), dtype)
    assert mlir.dtype_of(tensor) == dtype
    assert mlir.dtype_of(mlir.element_type(dtype)) == dtype


def test_a_dtype_without_an_mlir_type_is_refused_by_name():
    with pytest.raises(TypeError, match="datetime64"):
        mlir.element_type(np.dtype("datetime64[s]"))


def test_modules_survive_printing_and_bytecode():
    text = (
        "module { func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> } }"
    )
    module = mlir.parse(text)
    mlir.verify(module)
    again = mlir.parse(mlir.bytecode(module))
    assert mlir.text(again) == mlir.text(module)


def test_a_pass_changes_the_module_in_place():
    module = mlir.parse("module { func.func private @f() { return } }")
    assert passes.run(module, "symbol-dce") is module
    assert "@f" not in mlir.text(module)


def test_an_unknown_pass_is_refused_with_its_name():
    module = mlir.parse("module {}")
    with pytest.raises(ValueError, match="no-such-pass"):
        passes.run(module, "no-such-pass")


def test_all_dialects_of_the_pipeline_are_loaded():
    context = mlir.context()
    for op in ("stablehlo.add", "chlo.erf", "sdy.mesh", "func.func"):
        assert context.is_registered_operation(op)
    assert mlir.context() is context


def test_locations_carry_file_line_and_name():
    location = str(mlir.file_location("a.py", 3, 4, "add"))
    assert '"a.py":3:4' in location and '"add"' in location


@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**31, 2**31), (0, 2**62, 8)])
def test_arrays_too_large_for_xla_are_refused_and_the_process_lives(shape):
    with pytest.raises(ValueError, match=r"shape \(.*\) and dtype float32 is too large"):
        mlir.tensor_type(shape, np.dtype(np.float32))


def test_the_context_has_all_that_xla_loads_into_it_before_threads_share_it():
    program = """
from weft._xla import mlir
for name in ("mhlo", "tt", "sdy", "stablehlo"):
    mlir.context().get_dialect_descriptor(name)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)

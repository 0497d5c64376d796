"""Custom-call targets: capsules, registration, LAPACK."""

import ctypes

import numpy as np
import pytest

from weft._xla import ffi
from weft.core.aval import ShapedArray
from weft.runtime import backend
from weft.runtime.compile import compile_module
from weft.runtime.executable import Executable
from weft.sharding.physical import SingleDeviceSharding


def test_a_null_function_is_refused():
    with pytest.raises(ValueError, match="null address"):
        ffi.capsule(0)


def test_a_capsule_wraps_an_address_and_a_ctypes_function():
    function = ctypes.CDLL(None).abs
    for given in (function, ctypes.cast(function, ctypes.c_void_p).value):
        assert "xla._CUSTOM_CALL_TARGET" in repr(ffi.capsule(given))


def test_a_target_for_a_platform_not_started_waits_for_it():
    seen = []
    ffi.register_target("waits", object(), platform="never", api_version=1)
    ffi.attach("never", lambda *args: seen.append(args))
    assert seen[0][0] == "waits" and seen[0][3] == 1


def test_lapack_targets_solve_a_cholesky_factorization():
    ffi.register_lapack_targets()
    device = backend.devices()[0]
    text = """module @cholesky {
      func.func public @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
        %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {
          api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
          operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
          result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
        } : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
        return %0#0 : tensor<3x3xf32>
      }
    }"""
    a = np.array([[4, 2, 1], [2, 5, 3], [1, 3, 6]], np.float32)
    aval, place = ShapedArray((3, 3), np.float32), SingleDeviceSharding(device)
    program = Executable(compile_module(text, [device]), [aval], [place], [aval], [place])
    [out] = program.call([a])
    np.testing.assert_allclose(np.tril(out), np.linalg.cholesky(a), rtol=1e-5)

"""Python callbacks inside a compiled program."""

import time

import numpy as np
import pytest

from weft._xla import callback
from weft._xla.compile import XlaRuntimeError
from weft.core.aval import ShapedArray
from weft.runtime import backend
from weft.runtime.compile import compile_module
from weft.runtime.executable import Executable, effects_barrier
from weft.sharding.physical import SingleDeviceSharding

AVAL = ShapedArray((4,), np.float32)
TEXT = """module @calls {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {
      api_version = 4 : i32, backend_config = {index = 0 : ui64}, has_side_effect = true
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"""


def program(function):
    device = backend.devices()[0]
    place = SingleDeviceSharding(device)
    loaded = compile_module(TEXT, [device], host_callbacks=[callback.checked(function, [AVAL])])
    return Executable(loaded, [AVAL], [place], [AVAL], [place], has_side_effects=True)


def test_a_callback_computes_a_result_on_the_host():
    seen = []

    def triple(x):
        seen.append(np.array(x))
        return 3 * x

    [out] = program(triple).call([np.arange(4, dtype=np.float32)])
    effects_barrier()
    np.testing.assert_array_equal(out, 3 * np.arange(4))
    np.testing.assert_array_equal(seen[0], np.arange(4))


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: x[:2], "float32\\[2\\].*declared result is float32\\[4\\]"),
        (lambda x: x.astype(np.float64), "float64\\[4\\].*declared result is float32\\[4\\]"),
        (lambda x: (x, x), "returned 2 values"),
    ],
)
def test_a_wrong_result_raises_with_both_types(function, words):
    with pytest.raises((XlaRuntimeError, RuntimeError), match=words):
        np.asarray(program(function).call([np.zeros(4, np.float32)])[0])


def test_an_unknown_platform_has_no_callbacks():
    with pytest.raises(ValueError, match="supported: cpu"):
        callback.target_name("abacus")
    assert "partitioned" in callback.target_name("cpu", partitioned=True)


def test_the_barrier_waits_for_every_run_with_side_effects():
    seen = []

    def record(x):
        time.sleep(0.001)
        seen.append(float(x[0]))
        return x

    run = program(record)
    for i in range(150):
        run.call([np.full(4, i, np.float32)])
    effects_barrier()
    assert sorted(seen) == [float(i) for i in range(150)]

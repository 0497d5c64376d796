"""The examples of native code: a C++ package, a C library, a function made by LLVM."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft

EXAMPLES = Path(__file__).parents[2] / "examples" / "ffi"
COLLECTIVE = re.compile(r"all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter")
X = np.random.default_rng(0).standard_normal((8, 6, 16)).astype(np.float32)
CT = np.random.default_rng(1).standard_normal((8, 6, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def rms_norm():
    sys.path.insert(0, str(EXAMPLES / "rms_norm"))
    try:
        import weft_rms_norm
    finally:
        sys.path.pop(0)
    return weft_rms_norm.rms_norm


def reference(x, ct):
    """Values and gradient in float64."""
    x, ct = x.astype(np.float64), ct.astype(np.float64)
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return x * r, r * ct - x * r**3 * (x * ct).mean(-1, keepdims=True)


def test_rms_norm_and_its_gradient(rms_norm):
    value, gradient = reference(X, CT)
    np.testing.assert_allclose(rms_norm(X), value, rtol=1e-5, atol=1e-6)
    got = weft.jit(weft.grad(lambda x: (rms_norm(x) * CT).sum()))(X)
    np.testing.assert_allclose(got, gradient, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_rms_norms_scale(rms_norm):
    scale = np.linspace(1, 2, 16, dtype=np.float32)
    got = weft.grad(lambda s: (rms_norm(X, s) * CT).sum())(scale)
    np.testing.assert_allclose(got, (reference(X, CT)[0] * CT).sum((0, 1)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_rms_norm_split_eight_ways_does_not_communicate(rms_norm, partitioner):
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    sharding = weft.NamedSharding(mesh, weft.P("x"))
    x, ct = weft.device_put(X, sharding), weft.device_put(CT, sharding)

    def layers(x, ct):
        def loss(x):
            step = lambda c, _: (weft.vmap(rms_norm)(c), None)
            y = weft.lax.scan(step, x, None, length=2)[0]
            return (y * ct).sum((1, 2))

        y, pull = weft.vjp(loss, x)
        return pull(weft.numpy.ones_like(y))[0]

    f = weft.jit(layers, partitioner=partitioner)
    text = f.lower(x, ct).compile().as_text()
    assert "RmsNormGrad" in text and not COLLECTIVE.findall(text)
    first = reference(X, CT)[0].astype(np.float32)
    expected = reference(X, reference(first, CT)[1])[1]
    np.testing.assert_allclose(f(x, ct), expected, rtol=1e-3, atol=1e-5)


def test_rms_norm_refuses_other_dtypes(rms_norm):
    with pytest.raises(TypeError, match="x must be float32 with a last dimension"):
        rms_norm(weft.numpy.arange(3))


def test_the_package_compiles_with_cmake(tmp_path):
    configure = ["cmake", "-S", EXAMPLES / "rms_norm", "-B", tmp_path]
    configure.append(f"-DPython_EXECUTABLE={sys.executable}")
    for command in (configure, ["cmake", "--build", tmp_path]):
        subprocess.run(command, check=True, capture_output=True)
    weft.ffi.register_ffi_target(
        "RmsNormByCmake", weft.ffi.pycapsule(load(tmp_path / "librms_norm.so").RmsNorm)
    )
    call = weft.ffi.ffi_call("RmsNormByCmake", (X, X[..., 0]))
    got = call(X, eps=np.float32(1e-6))[0]
    np.testing.assert_allclose(got, reference(X, CT)[0], rtol=1e-5, atol=1e-6)


def load(path):
    import ctypes

    return ctypes.CDLL(str(path))


def test_a_c_library_loaded_with_ctypes():
    from examples.ffi.c_library import saxpy

    x, y = X, CT
    np.testing.assert_allclose(weft.jit(saxpy)(x, y), 2 * x + y, rtol=1e-6)
    np.testing.assert_array_equal(weft.vmap(saxpy)(x, y), saxpy(x, y))
    got = weft.grad(lambda x, y: saxpy(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(got[0], np.full_like(x, 2))
    np.testing.assert_array_equal(got[1], np.ones_like(y))


def test_errors_of_a_handler_in_c_name_it():
    from examples.ffi import c_library

    assert c_library.library
    call = weft.ffi.ffi_call("Saxpy", weft.ShapeDtypeStruct((2,), "float32"))
    with pytest.raises(ValueError, match="(?s)one attribute, a number named a.*'Saxpy' at"):
        call(np.ones(2, np.float32), np.ones(2, np.float32), b=1)


def test_a_function_compiled_by_llvm():
    from examples.ffi.llvm_handler import cube

    x = X.ravel()
    np.testing.assert_allclose(weft.jit(cube)(x), x**3, rtol=1e-6)
    np.testing.assert_allclose(weft.grad(lambda x: cube(x).sum())(x), 3 * x**2, rtol=1e-6)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    f = weft.jit(cube)
    split = weft.device_put(x, weft.NamedSharding(mesh, weft.P("x")))
    assert not COLLECTIVE.findall(f.lower(split).compile().as_text())
    np.testing.assert_allclose(f(split), x**3, rtol=1e-6)


@pytest.mark.parametrize("module", ["c_library", "llvm_handler"])
def test_the_scripts_run(module, capsys):
    import importlib

    importlib.import_module(f"examples.ffi.{module}").main()
    assert "gradient" in capsys.readouterr().out

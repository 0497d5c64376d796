"""weft.export: what is exported computes the same, wherever it is read; what is damaged is told."""

import collections
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as wnp
from weft import NamedSharding, P, ShapeDtypeStruct
from weft.export import DisabledSafetyCheck, deserialize, export
from weft.sharding import AxisType

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def reread(exported, vjp_order=0):
    return deserialize(exported.serialize(vjp_order))


def tree_function(d, *, scale):
    return {"sum": d["a"] + scale * d["b"][0], "erf": (weft.scipy.special.erf(d["a"]), None)}


def test_a_function_of_pytrees_computes_the_same_after_reading():
    args = {"a": X, "b": [X + 1], "c": collections.OrderedDict(z=None, y=()), "d": {2: ()}}
    exported = export(weft.jit(tree_function))(args, scale=2.0)
    again = reread(exported)
    for each in (exported, again):
        out = each.call(args, scale=2.0)
        np.testing.assert_allclose(out["sum"], 3 * X + 2, rtol=1e-6)
        np.testing.assert_allclose(out["erf"][0], scipy.special.erf(X), rtol=1e-5, atol=1e-6)
        assert out["erf"][1] is None
    for name in [
        "fun_name",
        "in_tree",
        "out_tree",
        "in_avals",
        "out_avals",
        "platforms",
        "nr_devices",
    ]:
        assert getattr(again, name) == getattr(exported, name)
    assert again.mlir_module() == exported.mlir_module()
    assert "stablehlo" in again.mlir_module() and again.platforms == ("cpu",)
    assert [a.shape for a in again.in_avals] == [(3, 4), (3, 4), ()]


def test_types_suffice_and_arguments_that_are_not_read_are_dropped():
    struct = ShapeDtypeStruct((3, 4), "bfloat16")
    exported = reread(export(weft.jit(lambda x, y: y * 2))(struct, struct))
    assert exported.module_kept_var_idx == (1,)
    y = wnp.asarray(X, "bfloat16")
    np.testing.assert_array_equal(np.float32(exported.call(y, y)), 2 * np.float32(y))


def test_large_constants_are_part_of_the_program():
    big = np.arange(1000.0, dtype=np.float32)
    exported = reread(export(weft.jit(lambda x: x + wnp.asarray(big)))(0.0))
    np.testing.assert_array_equal(exported.call(1.0), big + 1)


def test_a_call_inside_jit_is_part_of_the_program():
    def helper(x):
        return x * 3

    f = weft.jit(lambda x: weft.jit(helper)(x) + 1)
    exported = reread(export(f)(X))

    @weft.jit
    def twice(x):
        return weft.jit(helper)(exported.call(exported.call(x)))

    np.testing.assert_allclose(twice(X), 3 * (3 * (3 * X + 1) + 1), rtol=1e-5)
    text = twice.lower(X).as_text()
    assert text.count("func.func private @main") == 1  # one copy, called twice
    np.testing.assert_allclose(reread(export(twice)(X)).call(X), twice(X), rtol=1e-6)

    def body(carry, _):
        return exported.call(carry), None

    np.testing.assert_allclose(weft.lax.scan(body, X, None, length=2)[0], 9 * X + 4, rtol=1e-5)


def test_random_keys_and_linear_algebra():
    def f(key, a):
        return weft.random.uniform(key, (3,)), wnp.linalg.cholesky(a), wnp.linalg.eigh(a)

    key, a = weft.random.key(1), np.array([[4, 2], [2, 5]], np.float32)
    draws, factor, eigen = reread(export(weft.jit(f))(key, a)).call(key, a)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-5)
    np.testing.assert_allclose(eigen.eigenvalues, np.linalg.eigvalsh(a), rtol=1e-5)
    np.testing.assert_array_equal(draws, weft.random.uniform(key, (3,)))


def test_programs_are_read_in_another_process(tmp_path):
    f = weft.jit(lambda a: wnp.linalg.eigh(a)[0])
    (tmp_path / "f").write_bytes(export(f)(np.eye(2, dtype=np.float32)).serialize())
    code = (
        "import sys, weft; f = weft.export.deserialize(open(sys.argv[1], 'rb').read());"
        "print(f.call(weft.numpy.array([[2., 1.], [1., 2.]])).tolist())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "f")]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    np.testing.assert_allclose(json.loads(out), [1, 3], rtol=1e-5)


def test_platforms_have_programs_of_their_own():
    f = weft.jit(lambda x: weft.lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=lambda x: x))
    both = reread(export(f, platforms=("cpu", "cuda"))(1.0))
    assert both.platforms == ("cpu", "cuda")
    assert both.mlir_module("cuda") != both.mlir_module("cpu") == both.mlir_module()
    assert float(both.call(1.0)) == 2
    only = export(f, platforms=["cuda"])(1.0)
    with pytest.raises(ValueError, match="is for cuda, called on cpu"):
        only.call(1.0)
    check = DisabledSafetyCheck.platform()
    anywhere = reread(export(f, platforms=["cuda"], disabled_checks=[check])(1.0))
    assert float(anywhere.call(1.0)) == 1 and anywhere.disabled_safety_checks == (check,)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_programs_for_several_devices(kind):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(kind,))
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    f = weft.jit(lambda a, b: (wnp.tanh(a) @ b, weft.scipy.special.erf(b)))
    a = weft.device_put(np.ones((8, 4), np.float32), rows)
    b = weft.device_put(X.T.copy(), whole)
    exported = reread(export(f)(a, b))
    assert exported.nr_devices == 4
    assert exported.in_shardings_jax(mesh) == (NamedSharding(mesh, P("x")), whole)
    assert exported.in_shardings_hlo[0] == rows._to_xla_hlo_sharding(2)
    out, erf = exported.call(a, b)
    np.testing.assert_allclose(out, np.tanh(np.ones((8, 4))) @ X.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(erf, scipy.special.erf(X.T), rtol=1e-5, atol=1e-6)
    assert out.sharding.is_equivalent_to(rows, 2)
    np.testing.assert_allclose(weft.jit(lambda a, b: exported.call(a, b)[0] + 1)(a, b), out + 1)
    with pytest.raises(ValueError, match="is for 4 devices|was exported for"):
        exported.call(np.asarray(a), np.asarray(b))
    wrong = weft.make_mesh((2, 2), ("x", "y"), axis_types=(kind,) * 2)
    args = [weft.device_put(np.asarray(v), NamedSharding(wrong, P())) for v in (a, b)]
    with pytest.raises(ValueError, match="same axes, of the same sizes|was exported for"):
        weft.jit(exported.call)(*args)
    moved, _ = exported.call(*args)  # outside, arrays move to a mesh with the exported axes
    np.testing.assert_allclose(moved, out)
    assert moved.sharding.is_equivalent_to(rows, 2)
    with pytest.raises(ValueError, match="same axes"):
        exported.in_shardings_jax(wrong)


def test_derivatives_are_serialized_up_to_the_order_asked_for():
    def f(x, i, y):
        return wnp.sin(x) * y**3, i + 1

    args = (X, np.int32(2), X + 2)
    exported = export(weft.jit(f))(*args)

    def first(f, x):
        return weft.grad(lambda x: f(x, *args[1:])[0].sum())(x)

    np.testing.assert_allclose(first(exported.call, X), np.cos(X) * (X + 2) ** 3, rtol=1e-5)
    once, twice, never = (reread(exported, order) for order in (1, 2, 0))
    assert [e.has_vjp() for e in (once, twice, never)] == [True, True, False]
    assert not once.vjp().has_vjp() and twice.vjp().has_vjp()
    for each in (once, twice):
        np.testing.assert_allclose(first(each.call, X), np.cos(X) * (X + 2) ** 3, rtol=1e-5)
    second = weft.grad(lambda x: first(twice.call, x).sum())(X)
    np.testing.assert_allclose(second, -np.sin(X) * (X + 2) ** 3, rtol=1e-4, atol=1e-5)
    for action in (never.vjp, lambda: first(never.call, X), lambda: never.serialize(1)):
        with pytest.raises(ValueError, match="has no VJP"):
            action()
    with pytest.raises(NotImplementedError, match="vmap"):
        weft.vmap(never.call)(*(np.stack([a, a]) for a in args))


DATA = bytes(export(weft.jit(wnp.sin))(X).serialize(1))


@pytest.mark.parametrize("place", [*range(0, 50, 3), 60, len(DATA) // 2, len(DATA) - 1])
def test_a_flipped_bit_and_a_cut_are_told(place):
    flipped = bytearray(DATA)
    flipped[place] ^= 4
    for wrong in (flipped, DATA[:place]):
        with pytest.raises(ValueError, match="deserialize: "):
            deserialize(wrong)


@pytest.mark.parametrize("wrong", [b"PK\3\4" + bytes(100), DATA + b"0", b"\x93NUMPY"])
def test_foreign_files_are_told(wrong):
    with pytest.raises(ValueError, match="written neither by|more appended"):
        deserialize(wrong)
    with pytest.raises(TypeError, match="must be bytes"):
        deserialize("text")


def test_native_code_is_refused_unless_allowed():
    def f(x):
        return weft.pure_callback(np.sin, x, x)

    with pytest.raises(NotImplementedError, match="calls Python functions"):
        export(weft.jit(f))(X)

    weft.ffi.register_ffi_target("test_export_target", _no_handler(), "cpu", 0)
    struct = ShapeDtypeStruct((3, 4), "float32")
    g = weft.jit(weft.ffi.ffi_call("test_export_target", struct, custom_call_api_version=1))
    with pytest.raises(ValueError, match=r"custom_call\('test_export_target'\)"):
        export(g)(X)
    check = DisabledSafetyCheck.custom_call("test_export_target")
    assert "@test_export_target" in reread(export(g, disabled_checks=[check])(X)).mlir_module()


def _no_handler():
    import ctypes

    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda frame: None)
    _no_handler.keep = function
    return weft.ffi.pycapsule(function)


Point = collections.namedtuple("Point", "x y")
Other = collections.namedtuple("Other", "x y")


def test_named_tuples_are_serialized_once_registered():
    f = export(weft.jit(lambda p: p._replace(x=p.y)))
    with pytest.raises(ValueError, match="register"):
        f(Other(1.0, 2.0)).serialize()
    weft.export.register_namedtuple_serialization(Point, serialized_name="test_export.Point")
    out = reread(f(Point(1.0, 2.0))).call(Point(3.0, 4.0))
    assert type(out) is Point and [float(v) for v in out] == [4, 4]
    with pytest.raises(ValueError, match="already"):
        weft.export.register_namedtuple_serialization(Other, serialized_name="test_export.Point")


@pytest.mark.parametrize(
    ("action", "error", "match"),
    [
        (lambda: export(np.sin), ValueError, "weft.jit"),
        (lambda: export(weft.jit(wnp.sin), platforms=["abacus"]), ValueError, "platforms"),
        (lambda: export(weft.jit(wnp.sin), platforms="cpu"), ValueError, "platforms"),
        (lambda: export(weft.jit(wnp.sin), disabled_checks=["x"]), TypeError, "disabled_checks"),
        (lambda: deserialize(DATA).call(X, X), ValueError, "structure"),
        (lambda: deserialize(DATA).call(X[0]), ValueError, "f32"),
        (lambda: deserialize(DATA).mlir_module("tpu"), ValueError, "platform"),
        (lambda: deserialize(DATA).serialize(-1), ValueError, "vjp_order"),
    ],
)
def test_wrong_arguments_are_told(action, error, match):
    with pytest.raises(error, match=match):
        action()

# ruff: noqa: E501 - a row reads better whole
"""Mistakes that JAX's users report most, as issues or in its FAQ: what weft says, and the way out.

A row: where it was asked (an issue of jax-ml/jax, or a topic of JAX's documentation), the program, the exception, and words that the message must have: what is wrong, by name, and what to write.
"""

import re
import sys
import traceback
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.core.source import is_internal_file

X = np.arange(8, dtype=np.float32).reshape(4, 2)
V = np.arange(4, dtype=np.float32)
KEY = weft.random.key(0)
MESH = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)


def _assign():
    wnp.zeros(3)[0] = 1


def _stateful():
    kept: list[Any] = []
    weft.jit(lambda x: kept.append(x))(1.0)
    return kept[0] + 1


def _donated():
    x = wnp.ones(3)
    weft.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x + 1


def _while_traced(x):
    while x < 3:
        x = x + 1
    return x


MISTAKES = [
    # Traced values where Python wants to know.
    (
        "faq: abstract tracer",
        lambda: weft.jit(lambda x: x if x > 0 else -x)(1.0),
        TypeError,
        ("where", "cond"),
    ),
    ("sharp bits: control flow", lambda: weft.jit(_while_traced)(0), TypeError, ("while_loop",)),
    (
        "sharp bits: control flow",
        lambda: weft.jit(lambda x: 1 if x and True else 2)(True),
        TypeError,
        (r"&.*\|",),
    ),
    (
        "sharp bits: dynamic shapes",
        lambda: weft.jit(lambda n: wnp.zeros(n))(3),
        TypeError,
        ("static",),
    ),
    (
        "sharp bits: dynamic shapes",
        lambda: weft.jit(lambda n: wnp.arange(n))(3),
        TypeError,
        ("static",),
    ),
    ("sharp bits: dynamic shapes", lambda: weft.jit(lambda x: x[x > 0])(V), IndexError, ("where",)),
    ("sharp bits: dynamic shapes", lambda: weft.jit(wnp.nonzero)(V), TypeError, ("size",)),
    ("sharp bits: dynamic shapes", lambda: weft.jit(wnp.unique)(V), TypeError, ("size",)),
    (
        "sharp bits: dynamic shapes",
        lambda: weft.jit(lambda x, n: x.reshape(n, -1))(V, 2),
        TypeError,
        ("static",),
    ),
    (
        "sharp bits: dynamic shapes",
        lambda: weft.jit(lambda x, n: x[:n])(V, 2),
        (TypeError, IndexError),
        ("dynamic_slice",),
    ),
    ("#3656", lambda: weft.jit(lambda i, n: weft.nn.one_hot(i, n))(1, 3), TypeError, ("static",)),
    ("#5853", lambda: weft.jit(lambda i: [1, 2, 3][i])(0), TypeError, ("array",)),
    ("errors: non-hashable", lambda: weft.jit(lambda i: {0: 1}[i])(0), TypeError, ("hash",)),
    (
        "#3133",
        lambda: weft.jit(lambda i: X[i])(V.astype(int)),
        (TypeError, IndexError),
        ("weft.numpy",),
    ),
    (
        "errors: TracerArrayConversion",
        lambda: weft.jit(lambda x: np.sin(x))(1.0),
        TypeError,
        ("weft.numpy",),
    ),
    (
        "errors: ConcretizationTypeError",
        lambda: weft.jit(lambda x: float(x))(1.0),
        TypeError,
        ("astype|Keep it an array",),
    ),
    (
        "errors: ConcretizationTypeError",
        lambda: weft.jit(lambda x: int(x.sum()))(V),
        TypeError,
        ("astype",),
    ),
    (
        "errors: ConcretizationTypeError",
        lambda: weft.jit(lambda x: x.sum().item())(V),
        TypeError,
        ("weft.numpy|array",),
    ),
    (
        "errors: ConcretizationTypeError",
        lambda: weft.jit(lambda x, a: x.sum(axis=a))(X, 0),
        TypeError,
        ("axes", "static"),
    ),
    (
        "errors: ConcretizationTypeError",
        lambda: weft.jit(lambda n: [i for i in range(n)])(3),
        TypeError,
        ("static",),
    ),
    ("errors: UnexpectedTracer", _stateful, weft.errors.UnexpectedTracerError, ("Return it",)),
    (
        "jit: functions",
        lambda: weft.jit(lambda x, f: f(x))(1.0, abs),
        TypeError,
        ("f", "static_arg"),
    ),
    (
        "jit: strings",
        lambda: weft.jit(lambda x, mode: x)(1.0, "train"),
        TypeError,
        ("mode", "static_arg"),
    ),
    (
        "errors: non-hashable static",
        lambda: weft.jit(lambda x, n: x, static_argnums=1)(1.0, [2]),
        (TypeError, ValueError),
        ("hash", "tuple"),
    ),
    # Arrays do not change.
    ("sharp bits: in-place updates", _assign, TypeError, (r"\.at\[",)),
    ("faq: donation", _donated, RuntimeError, ("donat",)),
    # Derivatives.
    ("grad", lambda: weft.grad(lambda x: x)(V), TypeError, ("scalar",)),
    ("grad", lambda: weft.grad(lambda x: x * 2.0)(3), TypeError, ("float",)),
    ("grad: has_aux", lambda: weft.grad(lambda x: (x, x))(1.0), TypeError, ("has_aux",)),
    ("autodiff cookbook", lambda: weft.grad(lambda z: z * z)(1 + 1j), TypeError, ("holomorphic",)),
    (
        "autodiff: loops",
        lambda: weft.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * x, x))(2.0),
        ValueError,
        ("scan|fori_loop",),
    ),
    (
        "custom rules",
        lambda: weft.grad(weft.custom_vjp(lambda x: x))(1.0),
        (AttributeError, TypeError, ValueError),
        ("defvjp",),
    ),
    (
        "vjp",
        lambda: weft.vjp(wnp.sin, V)[1](np.ones(3, np.float32)),
        (TypeError, ValueError),
        ("4", "3"),
    ),
    ("jvp", lambda: weft.jvp(wnp.sin, (V,), (1.0,)), (TypeError, ValueError), ("tangent",)),
    # vmap.
    (
        "#705",
        lambda: weft.vmap(lambda a, b: a.sum() + b.sum(), (0, 1))(X, X),
        ValueError,
        ("4", "2"),
    ),
    ("#10193", lambda: weft.vmap(lambda x, y: x + y)(V, y=V[:2]), ValueError, ("y", "4", "2")),
    ("#24406", lambda: weft.vmap(lambda x, a, b: x)(V, b=V[:1], a=V), ValueError, ("'b'|b ", "1")),
    (
        "#3179",
        lambda: weft.vmap(lambda x: x, in_axes="0")(V),
        (TypeError, ValueError),
        ("in_axes",),
    ),
    ("#183", lambda: weft.vmap(lambda x: x, in_axes=None)(V), ValueError, ("in_axes", "axis_size")),
    ("vmap of a number", lambda: weft.vmap(lambda x, y: x)(V, 1.0), ValueError, ("y", "None")),
    # Loops.
    (
        "scan",
        lambda: lax.scan(lambda c, x: (c + 1.5, x), np.int32(0), V),
        TypeError,
        ("carry", "int32", "float32|f32"),
    ),
    ("scan", lambda: lax.scan(lambda c, x: (c[None], x), V, V), TypeError, ("carry",)),
    ("scan", lambda: lax.scan(lambda c, x: c, 0.0, V), (TypeError, ValueError), ("pair|tuple",)),
    ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0, (V, V[:2])), ValueError, ("4", "2")),
    ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0), ValueError, ("length",)),
    (
        "cond",
        lambda: lax.cond(True, lambda: 1.0, lambda: (1.0, 2.0)),
        TypeError,
        ("branch|true_fun|structure",),
    ),
    ("cond", lambda: lax.cond(V, lambda: 1.0, lambda: 2.0), TypeError, ("scalar",)),
    (
        "while_loop",
        lambda: lax.while_loop(lambda c: V > 0, lambda c: c, 0),
        TypeError,
        ("cond_fun", "scalar|bool"),
    ),
    ("fori_loop", lambda: lax.fori_loop(0, 3, lambda i, c: c + V, 0.0), TypeError, ("carry|init",)),
    # Shapes and dtypes.
    ("numpy", lambda: wnp.ones((2, 3)) @ wnp.ones((2, 3)), (TypeError, ValueError), ("3", "2")),
    ("broadcasting", lambda: wnp.ones(3) + wnp.ones(4), (TypeError, ValueError), ("3", "4")),
    (
        "numpy",
        lambda: wnp.concatenate([1.0, 2.0]),
        (TypeError, ValueError),
        ("stack|reshape|scalar",),
    ),
    ("sharp bits: non-array inputs", lambda: wnp.sum([1, 2, 3]), TypeError, ("list", "array")),
    ("numpy", lambda: wnp.array(["a"]), (TypeError, ValueError), ("'a'",)),
    ("numpy", lambda: wnp.zeros(3).reshape(2, 2), (TypeError, ValueError), ("3", "4|2")),
    ("numpy", lambda: wnp.zeros(3)["a"], (TypeError, IndexError), ("a",)),
    ("numpy", lambda: wnp.zeros(3)[0, 0], IndexError, ("1|one", "2|two")),
    ("numpy", lambda: wnp.zeros(3, dtype="float31"), TypeError, ("float31",)),
    (
        "dtypes",
        lambda: lax.dot(
            wnp.ones(2),
            wnp.ones(2, int).astype(bool).astype("int8"),
            preferred_element_type="float99",
        ),
        TypeError,
        ("float99",),
    ),
    (
        "lax is strict",
        lambda: lax.add(1.0, wnp.ones(2, "int32")),
        TypeError,
        ("float32|f32", "int32|i32|s32"),
    ),
    # Random numbers.
    ("random", lambda: weft.random.normal(3, (3,)), TypeError, ("key",)),
    (
        "random",
        lambda: weft.random.normal(weft.random.split(KEY), (3,)),
        (TypeError, ValueError),
        ("vmap|single|one key",),
    ),
    ("random", lambda: weft.random.choice(KEY, 3, (5,), replace=False), ValueError, ("replace",)),
    ("random", lambda: weft.random.key("0"), TypeError, ("seed|integer",)),
    # Devices and shardings.
    (
        "#26946",
        lambda: weft.device_put(np.ones(6), weft.NamedSharding(MESH, P("x"))),
        ValueError,
        ("6", "4"),
    ),
    ("sharding", lambda: weft.NamedSharding(MESH, P("z")), ValueError, ("z", "x")),
    ("sharding", lambda: P("x", "x"), ValueError, ("x",)),
    (
        "sharding",
        lambda: weft.device_put(V, weft.NamedSharding(MESH, P("x", "y"))),
        ValueError,
        ("1|one", "2|two"),
    ),
    ("sharding", lambda: weft.make_mesh((16,), ("x",)), ValueError, ("16", "8")),
    ("shard_map", lambda: lax.psum(1.0, "nowhere"), NameError, ("nowhere",)),
    (
        "shard_map",
        lambda: weft.shard_map(lambda x: x.sum(), mesh=MESH, in_specs=P("x"), out_specs=P())(V),
        ValueError,
        ("psum|x",),
    ),
    (
        "shard_map",
        lambda: weft.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(
            np.ones(6)
        ),
        ValueError,
        ("6", "4"),
    ),
    ("pmap", lambda: weft.pmap(lambda x: x)(np.ones(100)), ValueError, ("100", "8")),
    # The rest.
    ("jit", lambda: weft.jit(3), TypeError, ("callable|function",)),
    (
        "jit",
        lambda: weft.jit(lambda x: x, static_argnames="y")(1.0),
        (TypeError, ValueError),
        ("y",),
    ),
    ("jit", lambda: weft.jit(lambda x: x)(1.0, 2.0), TypeError, ("argument",)),
    ("jit", lambda: weft.jit(lambda x: "text")(1.0), TypeError, ("str", "return|result")),
    ("tree", lambda: weft.tree.map(lambda a, b: a, {"a": 1}, {"b": 2}), ValueError, ("a", "b")),
    ("tree", lambda: weft.tree.map(lambda a, b: a, (1, 2), (1,)), ValueError, ("2", "1")),
    (
        "callback",
        lambda: weft.jit(lambda x: weft.pure_callback(lambda x: np.zeros(3), x, x))(
            1.0
        ).block_until_ready(),
        Exception,
        ("3",),
    ),
    # NumPy's habits.
    ("numpy: out", lambda: wnp.add(V, V, out=V), (TypeError, NotImplementedError), ("out",)),
    ("numpy: in place", lambda: wnp.fill_diagonal(X, 0), ValueError, ("inplace",)),
    ("numpy: in place", lambda: wnp.put(V, 0, 1), ValueError, ("inplace",)),
    ("numpy: in place", lambda: wnp.ones(3).sort(out=1), TypeError, ("out",)),
    ("numpy: lists", lambda: wnp.mean([1.0, 2.0]), TypeError, ("list", "array")),
    ("numpy: lists", lambda: wnp.ones((3, 3))[[0, 1]], TypeError, ("array|asarray|tuple",)),
    ("numpy: ragged", lambda: wnp.array([[1], [2, 3]]), (TypeError, ValueError), ("1", "2")),
    ("numpy: objects", lambda: wnp.array([None]), (TypeError, ValueError), ("None",)),
    ("numpy: truth", lambda: bool(wnp.ones(3) > 0), ValueError, ("any|all",)),
    ("numpy: truth", lambda: wnp.ones(3) and 1, ValueError, ("any|all",)),
    ("numpy: float", lambda: float(wnp.ones(3)), TypeError, ("without dimensions",)),
    ("numpy: index", lambda: [1, 2, 3][wnp.ones(())], TypeError, ("integer|index",)),
    ("numpy: hash", lambda: {wnp.ones(3): 1}, TypeError, ("hash",)),
    ("numpy: axis", lambda: wnp.sum(X, axis=2), ValueError, ("axis", "2")),
    ("numpy: axis", lambda: wnp.stack([V, V], axis=5), ValueError, ("axis", "5")),
    ("numpy: axis", lambda: wnp.transpose(X, (0, 0)), ValueError, ("axes|repeated|permutation",)),
    ("numpy: shapes", lambda: wnp.stack([V, V[:2]]), ValueError, ("4", "2")),
    ("numpy: shapes", lambda: wnp.concatenate([V, X]), (TypeError, ValueError), ("1", "2")),
    ("numpy: shapes", lambda: wnp.dot(X, V), (TypeError, ValueError), ("2", "4")),
    ("numpy: shapes", lambda: wnp.einsum("ij,jk->ik", X, X), ValueError, ("j", "4", "2")),
    ("numpy: shapes", lambda: wnp.einsum("ij->ik", X), ValueError, ("k",)),
    ("numpy: shapes", lambda: wnp.split(V, 3), ValueError, ("3", "4")),
    ("numpy: shapes", lambda: wnp.linalg.inv(X), ValueError, ("square|4",)),
    ("numpy: integers", lambda: wnp.ones(2, int) << 1.0, TypeError, ("float",)),
    ("numpy: names", lambda: wnp.sum(V, axes=0), TypeError, ("axes", "axis")),
    ("numpy: names", lambda: wnp.linspac(0, 1), AttributeError, ("linspace",)),
    ("names", lambda: weft.vmapp, AttributeError, ("vmap",)),
    ("names", lambda: weft.nn.rellu, AttributeError, ("relu",)),
    # Updates at indices.
    ("x.at", lambda: wnp.zeros(3).at[0].set(np.ones(2)), (TypeError, ValueError), ("2",)),
    # Kernels, callbacks, checkpoints, processes.
    (
        "callback",
        lambda: weft.pure_callback(lambda x: x, None, V, vmap_method="often"),
        (TypeError, ValueError),
        ("often|vmap_method",),
    ),
    (
        "ffi",
        lambda: weft.jit(weft.ffi.ffi_call("NotThere", V))(V),
        Exception,
        ("NotThere", "register_ffi_target"),
    ),
    (
        "checkpoints",
        lambda: weft.checkpoints.restore("/not/there"),
        (FileNotFoundError, weft.checkpoints.CheckpointError),
        ("/not/there",),
    ),
    (
        "config",
        lambda: weft.config.update("jax_enable_x65", True),
        (AttributeError, ValueError),
        ("enable_x64",),
    ),
    (
        "x64",
        lambda: weft.config.update("enable_x64", "maybe"),
        (TypeError, ValueError),
        ("enable_x64", "True|bool"),
    ),
    ("devices", lambda: weft.devices("toaster"), (RuntimeError, ValueError), ("toaster", "cpu")),
    ("devices", lambda: weft.device_put(V, "cpu:0"), (TypeError, ValueError), ("device|sharding",)),
    ("mesh", lambda: weft.make_mesh((4, 2), ("x",)), ValueError, ("x", "2")),
    (
        "mesh",
        lambda: weft.jit(lambda x: lax.with_sharding_constraint(x, P("x")))(V),
        (RuntimeError, ValueError),
        ("set_mesh|mesh",),
    ),
    (
        "in_shardings",
        lambda: weft.jit(lambda x: x, in_shardings=(P("x"), P("y")))(V),
        (TypeError, ValueError, RuntimeError),
        ("in_shardings|mesh",),
    ),
    (
        "optimizers",
        lambda: weft.tree.map(lambda p, g: p - g, {"w": V}, {"w": V, "b": V}),
        ValueError,
        ("b",),
    ),
    ("tree", lambda: weft.tree.unflatten(weft.tree.structure((1, 2)), [1]), ValueError, ("2", "1")),
    (
        "scan",
        lambda: lax.scan(lambda c, x: (c, x), 0.0, 3),
        (TypeError, ValueError),
        ("xs|axis|array",),
    ),
    (
        "custom_jvp",
        lambda: weft.jvp(weft.custom_jvp(lambda x: x), (1.0,), (1.0,)),
        (AttributeError, TypeError, ValueError),
        ("defjvp",),
    ),
    ("jacobian", lambda: weft.jacfwd(lambda x: x)(3), TypeError, ("float",)),
    (
        "checkify",
        lambda: weft.jit(lambda x: weft.checkify.check(x > 0, "x"))(1.0),
        ValueError,
        ("checkify",),
    ),
]


@pytest.mark.parametrize(
    ("asked", "run", "error", "words"),
    MISTAKES,
    ids=[f"{i} {m[0]}" for i, m in enumerate(MISTAKES)],
)
def test_the_message_names_what_is_wrong_and_the_way_out(asked, run, error, words, capsys):
    with pytest.raises(error) as caught:
        run()
    text = str(caught.value)
    if error is AttributeError:  # Python adds a name that is alike when it prints the error
        sys.__excepthook__(error, caught.value, None)
        text = capsys.readouterr().err
    for word in words:
        assert re.search(word, text), text
    # The last frame is the user's, or of what the user's line called outside of weft.
    frames = [f.filename for f in traceback.extract_tb(caught.value.__traceback__)]
    assert not is_internal_file(frames[-1]) or error is AttributeError, frames[-1]

# ruff: noqa: E501, B018 - a row reads better whole
"""Mistakes that JAX's users report most, as issues or in its FAQ: what weft says, and the way out.

A row: where it was asked (an issue of jax-ml/jax, or a topic of JAX's documentation), the program, the exception, and words that the message must have: what is wrong, by name, and what to write.
tests/test_common_mistakes.py runs every row; `python -m tests.mistakes` writes docs/mistakes.md of them.
"""

import ast
import dataclasses
import enum
import inspect
import math
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import P, lax

PAGE = Path(__file__).parent.parent / "docs" / "mistakes.md"
X = np.arange(8, dtype=np.float32).reshape(4, 2)
V = np.arange(4, dtype=np.float32)
if __name__ == "__main__":
    weft.config.update("num_cpu_devices", 8)
KEY = weft.random.key(0)
MESH = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)
HALF = weft.make_mesh((4,), ("x",))
EXPLICIT = weft.make_mesh((4, 2), ("x", "y"))
SPLIT = weft.NamedSharding(MESH, P("x"))
kept: list[Any] = []


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


def _asserts(x):
    assert x > 0
    return x


def _unpacks(x):
    a, b = x
    return a + b


def _yields(x):
    yield x


@dataclasses.dataclass
class Config:
    n: int = 3


class Color(enum.Enum):
    RED = 1


class Model:
    @weft.jit
    def step(self, x):
        return x

    def keep(self, x):
        self.last = x * 2
        return x


def _kept_attribute():
    model = Model()
    weft.jit(model.keep)(1.0)
    return model.last + 1


def _adds_in_place():
    x = wnp.zeros(3)
    x[0] += 1


def _assigns(x):
    x[0] = 1
    return x


def _assigns_traced():
    return weft.jit(_assigns)(V)


def _deletes():
    x = wnp.zeros(3)
    del x[0]


def _assigns_at():
    x = wnp.zeros(3)
    x.at[0] = 1


def with_vjp(fwd, bwd, f=lambda x: x):
    f = weft.custom_vjp(f)
    f.defvjp(fwd, bwd)
    return f


def with_jvp(rule, f=lambda x: x):
    f = weft.custom_jvp(f)
    f.defjvp(rule)
    return f


def _scans_nan():
    with weft.debug_nans(True):
        return lax.scan(lambda c, x: (c + x, x), 0.0, wnp.array([1.0, wnp.nan]))


def _asks_for_64_bits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return wnp.ones(3, "float64")


def on_x(f):
    return weft.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))


def along(*spec):
    return weft.NamedSharding(EXPLICIT, P(*spec))


def _adds_across_devices():
    a, b = weft.devices()[:2]
    return weft.device_put(V, a) + weft.device_put(V, b)


class Node:
    def __init__(self, a):
        self.a = a


def _flattens_badly():
    if not kept:
        weft.tree_util.register_pytree_node(Node, lambda n: (n.a,), lambda aux, c: Node(*c))
        kept.append(Node)
    return weft.tree.leaves(Node(1))


def pallas_call(kernel):
    out = weft.ShapeDtypeStruct((4,), np.float32)
    return weft.pallas.pallas_call(kernel, out_shape=out, interpret=True)


def _copies_ref(x, out):
    out[...] = x + 1


def _constrains_elsewhere():
    own = weft.make_mesh((4, 2), ("x", "y"))
    other = weft.make_mesh((2,), ("x",), devices=weft.devices()[:2])
    x = weft.device_put(np.ones((8, 8)), weft.NamedSharding(own, P("x")))
    return weft.jit(lambda x: lax.with_sharding_constraint(x, weft.NamedSharding(other, P("x"))))(x)


# fmt: off
MISTAKES: dict[str, list[tuple]] = {
    "Traced values where Python wants to know": [
        ("faq: abstract tracer", lambda: weft.jit(lambda x: x if x > 0 else -x)(1.0), TypeError, ("where", "cond")),
        ("sharp bits: control flow", lambda: weft.jit(_while_traced)(0), TypeError, ("while_loop",)),
        ("sharp bits: control flow", lambda: weft.jit(lambda x: 1 if x and True else 2)(True), TypeError, (r"&.*\|",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(lambda n: wnp.zeros(n))(3), TypeError, ("static",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(lambda n: wnp.arange(n))(3), TypeError, ("static",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(lambda x: x[x > 0])(V), IndexError, ("where",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(wnp.nonzero)(V), TypeError, ("size",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(wnp.unique)(V), TypeError, ("size",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(lambda x, n: x.reshape(n, -1))(V, 2), TypeError, ("static",)),
        ("sharp bits: dynamic shapes", lambda: weft.jit(lambda x, n: x[:n])(V, 2), (TypeError, IndexError), ("dynamic_slice",)),
        ("#3656", lambda: weft.jit(lambda i, n: weft.nn.one_hot(i, n))(1, 3), TypeError, ("static",)),
        ("#5853", lambda: weft.jit(lambda i: [1, 2, 3][i])(0), TypeError, ("array",)),
        ("errors: non-hashable", lambda: weft.jit(lambda i: {0: 1}[i])(0), TypeError, ("hash",)),
        ("#3133", lambda: weft.jit(lambda i: X[i])(V.astype(int)), (TypeError, IndexError), ("weft.numpy",)),
        ("errors: TracerArrayConversion", lambda: weft.jit(lambda x: np.sin(x))(1.0), TypeError, ("weft.numpy",)),
        ("errors: ConcretizationTypeError", lambda: weft.jit(lambda x: float(x))(1.0), TypeError, ("astype|Keep it an array",)),
        ("errors: ConcretizationTypeError", lambda: weft.jit(lambda x: int(x.sum()))(V), TypeError, ("astype",)),
        ("errors: ConcretizationTypeError", lambda: weft.jit(lambda x: x.sum().item())(V), TypeError, ("weft.numpy|array",)),
        ("errors: ConcretizationTypeError", lambda: weft.jit(lambda x, a: x.sum(axis=a))(X, 0), TypeError, ("axes", "static")),
        ("errors: ConcretizationTypeError", lambda: weft.jit(lambda n: [i for i in range(n)])(3), TypeError, ("static",)),
        ("errors: UnexpectedTracer", _stateful, weft.errors.UnexpectedTracerError, ("Return it",)),
        ("jit: functions", lambda: weft.jit(lambda x, f: f(x))(1.0, abs), TypeError, ("f", "static_arg")),
        ("jit: strings", lambda: weft.jit(lambda x, mode: x)(1.0, "train"), TypeError, ("mode", "static_arg")),
        ("errors: non-hashable static", lambda: weft.jit(lambda x, n: x, static_argnums=1)(1.0, [2]), (TypeError, ValueError), ("hash", "tuple")),
        ("#14279", lambda: weft.jit(lambda n: wnp.zeros((8, n)))(3), TypeError, ("shape", "static")),
        ("#7952", lambda: weft.jit(lambda x, a: x.sum(axis=(0, a)))(X, 1), TypeError, ("axes", "static")),
        ("#8910", lambda: weft.jit(_asserts)(1.0), TypeError, (r"made at .*_asserts", "where")),
        ("formatting", lambda: weft.jit(lambda x: print(f"{x:.2f}"))(1.0), TypeError, (r"debug\.print",)),
        ("math", lambda: weft.jit(lambda x: math.sin(x))(1.0), TypeError, ("traced", "Keep it an array")),
        ("#8605", lambda: weft.jit(_unpacks)(1.0), TypeError, ("without dimensions", "give a tuple")),
        ("dict keys", lambda: weft.jit(lambda x: {x: 1})(1.0), TypeError, ("hash", "switch")),
        ("membership", lambda: weft.jit(lambda x: x in [1, 2])(1), TypeError, ("truth value", "where")),
        ("numpy.asarray", lambda: weft.jit(lambda x: np.asarray(x))(1.0), TypeError, ("weft.numpy", "pure_callback")),
        ("#15057", lambda: weft.jit(lambda x: x.tolist())(V), TypeError, ("f32\\[4\\]", "Keep it an array")),
        ("lists", lambda: weft.jit(lambda n: [0] * n)(3), TypeError, ("integer", "static")),
        ("max", lambda: weft.jit(lambda x: max(x, 0))(1.0), TypeError, ("truth value", "where")),
        ("comparisons", lambda: weft.jit(lambda x: 0 < x < 1)(1.0), TypeError, ("truth value", "&")),
        ("sizes", lambda: weft.jit(lambda n: wnp.linspace(0, 1, n))(3), TypeError, ("num must be known", "static")),
        ("sizes", lambda: weft.jit(lambda x, r: wnp.repeat(x, r))(V, 2), TypeError, ("total_repeat_length",)),
        ("sizes", lambda: weft.jit(wnp.bincount)(V.astype(int)), TypeError, ("length", "size")),
        ("sizes", lambda: weft.jit(lambda x: wnp.where(x > 0))(V), TypeError, ("size=",)),
        ("sizes", lambda: weft.jit(wnp.setdiff1d)(V, V), TypeError, ("size=",)),
        ("sizes", lambda: weft.jit(wnp.eye)(3), TypeError, ("N must be known", "static")),
        ("sizes", lambda: weft.jit(lambda x, n: lax.dynamic_slice(x, (0,), (n,)))(V, 2), TypeError, ("slice_sizes", "static")),
        ("sizes", lambda: weft.jit(lambda x, i: wnp.split(x, i))(V, 2), TypeError, ("sections", "static")),
        ("#648", lambda: weft.jit(lambda n: weft.random.normal(KEY, (n,)))(3), TypeError, ("shape", "static")),
        ("static arguments", lambda: weft.jit(lambda n: weft.jit(lambda m: wnp.zeros(m), static_argnums=0)(n))(3), ValueError, ("'m'", "outer")),
        ("#883", lambda: weft.jit(lambda x, n: x, static_argnums=1)(1.0, wnp.ones(2)), ValueError, ("'n'", "hashable", "number or a tuple")),
        ("#3701", lambda: weft.jit(lambda x, n: x, static_argnums=1)(1.0, Config()), ValueError, ("Config", "frozen=True")),
        ("#5351", lambda: weft.jit(lambda x: x, static_argnums=3)(1.0), ValueError, ("static_argnums 3", "1 positional")),
        ("#5595", lambda: Model().step(1.0), TypeError, ("self", "Model", "static")),
        ("#15727", lambda: weft.jit(classmethod(lambda cls, x: x)), TypeError, ("classmethod", "above")),
        ("generators", lambda: weft.jit(_yields)(1.0), TypeError, ("_yields must return arrays", "generator")),
        ("#2152", lambda: weft.jit(lambda x: lambda y: x + y)(1.0), TypeError, ("must return arrays", "function")),
        ("leaks: attributes", _kept_attribute, weft.errors.UnexpectedTracerError, (r"made at .*keep", "attribute")),
        ("dataclasses", lambda: weft.jit(lambda s: s.n)(Config()), TypeError, ("argument s", "register_dataclass")),
        ("sets", lambda: weft.jit(lambda s: 1)({1, 2}), TypeError, ("argument s", "set", "static")),
        ("#5228", lambda: weft.jit(lambda x: x)(np.array(["hi"])), TypeError, ("argument x", "<U2")),
        ("types as values", lambda: weft.jit(lambda x: x)(weft.ShapeDtypeStruct((4,), "float32")), TypeError, ("argument x", r"\.lower", "eval_shape")),
        ("#14740", lambda: weft.jit(lambda a, b: a)(1.0, {"p": [1.0, Config()]}), TypeError, (r"b\['p'\]\[1\]", "Config", "static")),
        ("#29047", lambda: weft.jit(lambda x: (x, Color.RED))(1.0), TypeError, ("leaf 1 of what it returns", "Color")),
        ("#21824", lambda: weft.jit(hash)(1), TypeError, ("not hashable", "switch")),
    ],
    "Arrays do not change": [
        ("sharp bits: in-place updates", _assign, TypeError, (r"\.at\[",)),
        ("faq: donation", _donated, RuntimeError, ("donat",)),
        ("x.at", lambda: wnp.zeros(3).at[0].set(np.ones(2)), (TypeError, ValueError), ("2",)),
        ("sharp bits: in-place updates", _adds_in_place, TypeError, (r"\.at\[", "add")),
        ("sharp bits: in-place updates", _assigns_traced, TypeError, (r"\.at\[",)),
        ("sharp bits: in-place updates", _deletes, TypeError, ("immutable", "delete")),
        ("x.at", _assigns_at, TypeError, (r"x\.at\[index\]\.set",)),
        ("x.at", lambda: wnp.zeros(3).at(0).set(1), TypeError, (r"x\.at\[index\]",)),
        ("x.at", lambda: wnp.zeros(3).at[0, 0].set(1), IndexError, ("1 dimension", "2")),
        ("x.at", lambda: wnp.zeros(3).at[0].get(mode="wrap"), ValueError, ("mode", "'clip'")),
        ("donation", lambda: weft.jit(lambda x: x, donate_argnums=3)(1.0), ValueError, ("donate_argnums 3", "1 positional")),
    ],
    "Derivatives": [
        ("grad", lambda: weft.grad(lambda x: x)(V), TypeError, ("scalar",)),
        ("grad", lambda: weft.grad(lambda x: x * 2.0)(3), TypeError, ("float",)),
        ("grad: has_aux", lambda: weft.grad(lambda x: (x, x))(1.0), TypeError, ("has_aux",)),
        ("autodiff cookbook", lambda: weft.grad(lambda z: z * z)(1 + 1j), TypeError, ("holomorphic",)),
        ("autodiff: loops", lambda: weft.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * x, x))(2.0), ValueError, ("scan|fori_loop",)),
        ("custom rules", lambda: weft.grad(weft.custom_vjp(lambda x: x))(1.0), (AttributeError, TypeError, ValueError), ("defvjp",)),
        ("vjp", lambda: weft.vjp(wnp.sin, V)[1](np.ones(3, np.float32)), (TypeError, ValueError), ("4", "3")),
        ("jvp", lambda: weft.jvp(wnp.sin, (V,), (1.0,)), (TypeError, ValueError), ("tangent",)),
        ("#39557", lambda: weft.grad(lambda x: x * 2)(np.ones(1, np.float32)), TypeError, ("scalar", r"f32\[1\]", "sum")),
        ("#1105", lambda: weft.value_and_grad(lambda x: (x, x, x), has_aux=True)(1.0), TypeError, ("has_aux", "pair", "tuple of 3")),
        ("argnums", lambda: weft.grad(lambda x, y: x, argnums=2)(1.0, 2.0), TypeError, ("argnums 2", "2 positional")),
        ("argnums", lambda: weft.grad(lambda x: x)(x=1.0), TypeError, ("argnums 0", "keyword")),
        ("grad", lambda: weft.grad(lambda x: (x, x))(1.0), TypeError, ("one scalar", "has_aux")),
        ("grad", lambda: weft.grad(lambda x: None)(1.0), TypeError, ("one scalar", "None")),
        ("#424", lambda: weft.grad(lambda p: p["w"] * 1.0)({"w": 1, "b": 1.0}), TypeError, (r"\['w'\]", "float", "allow_int")),
        ("grad", lambda: weft.grad(wnp.argmax)(V), TypeError, ("real output", "i32")),
        ("grad", lambda: weft.grad(wnp.sum(V)), TypeError, ("expected a function", "result of calling")),
        ("jvp", lambda: weft.jvp(wnp.sin, V, V), TypeError, ("primals", "tuple")),
        ("jvp", lambda: weft.jvp(wnp.sin, (V,), (V, V)), TypeError, ("primals and tangents", "structure")),
        ("vjp", lambda: weft.vjp(wnp.sin, V)[1](V, V), TypeError, ("one cotangent", "2")),
        ("vjp", lambda: weft.vjp(lambda x: (x, x), V)[1](V), ValueError, ("structure", "cotangent")),
        ("#5571", lambda: weft.grad(with_vjp(lambda x: (x, None), lambda r, g: g))(1.0), TypeError, ("backward rule", "tuple", r"\(ct,\)")),
        ("#8356", lambda: weft.grad(with_vjp(lambda x, y: (x, None), lambda r, g: (g,), lambda x, y: x))(1.0, 2.0), TypeError, ("backward rule", "2 arguments", "got 1")),
        ("#28757", lambda: weft.grad(with_vjp(lambda x: (x, None), lambda r, g: (wnp.ones(10),)))(3.0), ValueError, ("backward rule", r"args\[0\]", r"f32\[10\]")),
        ("#12611", lambda: weft.grad(with_vjp(lambda x: x, lambda r, g: (g,)))(3.0), TypeError, ("forward rule", "pair", "residuals")),
        ("#26912", lambda: with_vjp(lambda x: (x, None), lambda r, g: (g,))(1.0, 2.0), TypeError, (r"custom_vjp of <lambda>\(x\)", "too many")),
        ("custom rules", lambda: weft.jvp(with_vjp(lambda x: (x, None), lambda r, g: (g,)), (1.0,), (1.0,)), TypeError, ("reverse rule only", "custom_jvp")),
        ("#2516", lambda: weft.jvp(with_jvp(lambda p, t: p[0]), (1.0,), (1.0,)), TypeError, ("jvp rule", "pair")),
        ("#2502", lambda: weft.grad(with_jvp(lambda p, t: (p[0][0], t[0]), lambda x: x[0]))(V), TypeError, ("jvp rule", "tangent", r"f32\[4\]")),
        ("linear_transpose", lambda: weft.linear_transpose(wnp.sin, V)(V), TypeError, ("sin", "not linear")),
        ("checkpoint", lambda: weft.grad(weft.checkpoint(lambda x: x if x > 0 else 0.0))(1.0), TypeError, ("checkpoint", "where")),
        ("callback", lambda: weft.grad(lambda x: weft.pure_callback(np.sin, x, x))(1.0), ValueError, ("pure_callback", "custom_jvp")),
        ("linearize", lambda: weft.linearize(wnp.sin, V)[1](V[:3]), ValueError, (r"tangents\[0\]", r"f32\[4\]", r"f32\[3\]")),
        ("holomorphic", lambda: weft.grad(lambda x: x, holomorphic=True)(1.0), TypeError, ("holomorphic", "complex")),
        ("#18859", lambda: weft.grad(with_vjp(lambda d, x: (x, (d, x)), lambda r, g: (0.0, g), lambda d, x: x), 1)({"a": V}, 1.0), ValueError, (r"args\[0\]\['a'\]", r"f32\[4\]", "None")),
    ],
    "vmap": [
        ("#39450", lambda: weft.vmap(lambda x, y: x + y, in_axes=(0, 0))(V, y=V), ValueError, ("2 entries", "keyword arguments")),
        ("#17747", lambda: weft.vmap(lambda k, x: x)(tuple(range(2000)), V), ValueError, (r"k\[0\]", "asarray")),
        ("#705", lambda: weft.vmap(lambda a, b: a.sum() + b.sum(), (0, 1))(X, X), ValueError, ("4", "2")),
        ("#10193", lambda: weft.vmap(lambda x, y: x + y)(V, y=V[:2]), ValueError, ("y", "4", "2")),
        ("#24406", lambda: weft.vmap(lambda x, a, b: x)(V, b=V[:1], a=V), ValueError, ("'b'|b ", "1")),
        ("#3179", lambda: weft.vmap(lambda x: x, in_axes="0")(V), (TypeError, ValueError), ("in_axes",)),
        ("#183", lambda: weft.vmap(lambda x: x, in_axes=None)(V), ValueError, ("in_axes", "axis_size")),
        ("vmap of a number", lambda: weft.vmap(lambda x, y: x)(V, 1.0), ValueError, ("y", "None")),
        ("out_axes", lambda: weft.vmap(lambda x: x, out_axes=None)(V), ValueError, ("out_axes is None", "varies")),
        ("#3613", lambda: weft.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(V), ValueError, ("out_axes", "3 entries", "2")),
        ("#5201", lambda: weft.vmap(lambda x: x, in_axes=2)(V), ValueError, ("in_axes 2", "x")),
        ("in_axes", lambda: weft.vmap(lambda x, y: x, in_axes=(0,))(V, V), ValueError, ("1 entries", "2 positional")),
        ("in_axes", lambda: weft.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": V}), ValueError, (r"in_axes\[0\]", "'b'", "'a'")),
        ("#10493", lambda: weft.vmap(lambda x, y: wnp.sum(x, y))(X, V.astype(int)), TypeError, ("axis", "static")),
        ("#1347", lambda: weft.jit(lambda x: lax.psum(x, "i"))(V), NameError, ("'i'", "axis_name")),
        ("#5732", lambda: weft.vmap(lambda x: "a")(V), TypeError, ("must return arrays", "str")),
        ("vmap", lambda: weft.vmap(wnp.dot(V, V)), TypeError, ("expected a function", "result of calling")),
        ("#3877", lambda: weft.vmap(lambda n, k, a, b: a, in_axes=(None, None, 0, 0))(0, KEY, V, V[:2]), ValueError, ("a has size 4", "b has size 2")),
    ],
    "Loops and branches": [
        ("#25140", lambda: lax.switch(0, [lambda x: {"a": x}, lambda x: {"a": (x, x)}], 42), TypeError, (r"branches\[0\]", r"branches\[1\]")),
        ("#15178", lambda: lax.scan(lambda x, _: (({"a": 1, "b": 1},) * 2, None), ({"a": 1},) * 2, None, length=1), TypeError, ("carry", "'b'", "same containers and keys")),
        ("#12385", lambda: weft.jit(lambda i: lax.switch(i, [lambda: weft.checkify.check(False, "Failed!")] * 2))(0), ValueError, ("not functionalized", r"checkify\.checkify")),
        ("scan", lambda: lax.scan(lambda c, x: (c + 1.5, x), np.int32(0), V), TypeError, ("carry", "int32", "float32|f32")),
        ("scan", lambda: lax.scan(lambda c, x: (c[None], x), V, V), TypeError, ("carry",)),
        ("scan", lambda: lax.scan(lambda c, x: c, 0.0, V), (TypeError, ValueError), ("pair|tuple",)),
        ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0, (V, V[:2])), ValueError, ("4", "2")),
        ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0), ValueError, ("length",)),
        ("cond", lambda: lax.cond(True, lambda: 1.0, lambda: (1.0, 2.0)), TypeError, ("branch|true_fun|structure",)),
        ("cond", lambda: lax.cond(V, lambda: 1.0, lambda: 2.0), TypeError, ("scalar",)),
        ("while_loop", lambda: lax.while_loop(lambda c: V > 0, lambda c: c, 0), TypeError, ("cond_fun", "scalar|bool")),
        ("fori_loop", lambda: lax.fori_loop(0, 3, lambda i, c: c + V, 0.0), TypeError, ("carry|init",)),
        ("#15178", lambda: lax.scan(lambda c, x: ({"a": c["a"], "b": x}, x), {"a": 0.0}, V), TypeError, ("scan: the body", "'a'.*\n.*'b'")),
        ("#22857", lambda: lax.while_loop(lambda c: False, lambda c: {"b": c["a"]}, {"a": 0.0}), TypeError, ("while_loop: the body", "'a'.*\n.*'b'")),
        ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0, V, length=3), ValueError, ("xs has 4", "length is 3")),
        ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0, [1, 2, 3]), ValueError, (r"xs\[0\]", "scalar", "leading axis")),
        ("scan", lambda: lax.scan(0.0, lambda c, x: (c, x), V), TypeError, ("f must be a function",)),
        ("scan", lambda: lax.scan(lambda c, x: None, 0.0, V), TypeError, ("pair", r"\(carry, None\)")),
        ("cond", lambda: lax.cond(True, lambda: 1, lambda: 1.0), TypeError, ("true_fun", "false_fun", "astype")),
        ("cond", lambda: lax.cond(True, lambda: V, lambda: V[:2]), TypeError, (r"f32\[2\]", r"f32\[4\]", "shape")),
        ("cond", lambda: lax.cond(True, 1.0, 2.0), TypeError, ("true_fun must be a function",)),
        ("cond", lambda: lax.cond("a", lambda: 1.0, lambda: 2.0), TypeError, ("pred must be a scalar", "order")),
        ("cond", lambda: lax.cond(True, lambda: 1.0, lambda: None), TypeError, ("structure", "false_fun")),
        ("switch", lambda: lax.switch(1.0, [lambda: 1, lambda: 2]), TypeError, ("index must be an integer",)),
        ("switch", lambda: lax.switch(0, []), ValueError, ("branches is empty",)),
        ("switch", lambda: lax.switch(0, [lambda: 1, lambda: 2, lambda: 2.5]), TypeError, (r"branches\[2\]", "astype")),
        ("fori_loop", lambda: lax.fori_loop(0, 3.5, lambda i, c: c, 0), TypeError, ("lower and upper", r"int\(upper\)")),
        ("fori_loop", lambda: lax.fori_loop(0, 3, lambda i, c: None, 0.0), TypeError, ("carry", "None")),
        ("while_loop", lambda: lax.while_loop(lambda c: c, lambda c: c + 1, 0), TypeError, ("cond_fun", "boolean", "compare")),
        ("map", lambda: lax.map(lambda x: x, 1.0), ValueError, ("xs", "leading axis")),
        ("associative_scan", lambda: lax.associative_scan(lambda a, b: a.sum(), V), ValueError, ("fn must work element by element", r"\(\)")),
        ("#5696", _scans_nan, FloatingPointError, ("NaN", "iteration 1 of scan")),
        ("#1534", lambda: lax.scan(lambda c, x: (0, x), None, V), TypeError, ("the carry has .*None", "the body gives", "Return the same")),
        ("#833", lambda: lax.fori_loop(0, 3, lambda i, c: c.astype("int32"), np.float32(1)), TypeError, ("body returns another", "astype")),
        ("#1686", lambda: lax.fori_loop(0, 3, lambda i, c: (c[0] - c[1][i], c[1]), (0, X)), TypeError, (r"carry\[0\]", "shape", "initial value")),
        ("#1681", lambda: lax.while_loop(lambda c: c > 5, lambda c: c.astype("float16"), np.float32(1)), TypeError, ("body returns another", "astype")),
        ("#25332", lambda: lax.scan(lambda c, x: (c, x), Config(), V), TypeError, ("carry", "Config")),
    ],
    "Shapes, dtypes and names": [
        ("numpy", lambda: wnp.ones((2, 3)) @ wnp.ones((2, 3)), (TypeError, ValueError), ("3", "2")),
        ("broadcasting", lambda: wnp.ones(3) + wnp.ones(4), (TypeError, ValueError), ("3", "4")),
        ("numpy", lambda: wnp.concatenate([1.0, 2.0]), (TypeError, ValueError), ("stack|reshape|scalar",)),
        ("sharp bits: non-array inputs", lambda: wnp.sum([1, 2, 3]), TypeError, ("list", "array")),
        ("numpy", lambda: wnp.array(["a"]), (TypeError, ValueError), ("'a'",)),
        ("numpy", lambda: wnp.zeros(3).reshape(2, 2), (TypeError, ValueError), ("3", "4|2")),
        ("numpy", lambda: wnp.zeros(3)["a"], (TypeError, IndexError), ("a",)),
        ("numpy", lambda: wnp.zeros(3)[0, 0], IndexError, ("1|one", "2|two")),
        ("numpy", lambda: wnp.zeros(3, dtype="float31"), TypeError, ("float31",)),
        ("dtypes", lambda: lax.dot(wnp.ones(2), wnp.ones(2, int).astype(bool).astype("int8"), preferred_element_type="float99"), TypeError, ("float99",)),
        ("lax is strict", lambda: lax.add(1.0, wnp.ones(2, "int32")), TypeError, ("float32|f32", "int32|i32|s32")),
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
        ("numpy: integers", lambda: wnp.ones(2, int) << 1.0, TypeError, ("f32",)),
        ("numpy: names", lambda: wnp.sum(V, axes=0), TypeError, ("axes", "axis")),
        ("numpy: names", lambda: wnp.linspac(0, 1), AttributeError, ("linspace",)),
        ("names", lambda: weft.vmapp, AttributeError, ("vmap",)),
        ("names", lambda: weft.nn.rellu, AttributeError, ("relu",)),
        ("#9349", lambda: wnp.where(True, {"a": 1}, {"b": 2}), TypeError, ("where", "dict")),
        ("#2495", lambda: wnp.zeros(2)[0.0], TypeError, ("integer", "astype")),
        ("#967", lambda: wnp.zeros(1.5), TypeError, ("shape", "integers", "1.5")),
        ("#14920", lambda: wnp.arange([1, 3]), (TypeError, ValueError), ("arange", "numbers")),
        ("#1013", lambda: wnp.concatenate([[], [1]]), TypeError, ("argument 0", "list", "asarray")),
        ("#1363", lambda: wnp.exp([[1.0], [2.0]]), TypeError, ("list", "asarray")),
        ("numpy: sequences", lambda: wnp.concatenate(V, V), TypeError, ("axis", r"concatenate\(\[a, b\]\)")),
        ("numpy: sequences", lambda: wnp.stack(V, V), TypeError, ("axis", r"stack\(\[a, b\]\)")),
        ("#18553", lambda: wnp.ones(2, 3), TypeError, ("dtype", "number 3", "tuple")),
        ("random", lambda: weft.random.normal(KEY, 2, 3), TypeError, ("dtype", "number 3", "tuple")),
        ("numpy: names", lambda: wnp.float, AttributeError, ("float32",)),
        ("numpy: names", lambda: wnp.random.normal(), AttributeError, (r"weft\.random", "key")),
        ("numpy: names", lambda: wnp.trapz, AttributeError, ("trapezoid",)),
        ("numpy: names", lambda: wnp.row_stack, AttributeError, ("vstack",)),
        ("numpy: lists", lambda: wnp.ones(3) + [1, 2, 3], TypeError, ("list", "asarray")),
        ("None", lambda: wnp.ones(3) + None, TypeError, (r"\+", "NoneType")),
        ("numpy: dates", lambda: wnp.asarray(np.array(["2020-01-01"], "datetime64[D]")), TypeError, ("datetime64", "numbers")),
        ("numpy: shapes", lambda: X @ wnp.float32(2.0), ValueError, ("matmul", r"\*")),
        ("numpy: shapes", lambda: wnp.einsum("ij,jk->ik", X), ValueError, ("2 terms", "1 operands")),
        ("numpy: shapes", lambda: wnp.tensordot(X, X, axes=1), (TypeError, ValueError), ("2", "4", "transpose")),
        ("numpy: shapes", lambda: wnp.reshape(X, (-1, -1)), TypeError, ("at most one",)),
        ("numpy: shapes", lambda: wnp.reshape(X, (3, -1)), TypeError, ("do not divide",)),
        ("numpy: shapes", lambda: wnp.squeeze(X, 0), ValueError, ("dimension 0", "size 4")),
        ("numpy: shapes", lambda: wnp.broadcast_to(V, (3,)), ValueError, (r"\(4,\)", r"\(3,\)", "equal or 1")),
        ("numpy: shapes", lambda: wnp.take_along_axis(X, np.array([0]), 0), ValueError, ("same number of dimensions",)),
        ("numpy: shapes", lambda: wnp.linalg.solve(np.eye(3), V), ValueError, ("b f32", "3")),
        ("numpy: shapes", lambda: wnp.ones(3)[np.array([True, False])], IndexError, ("boolean", r"\(3,\)")),
        ("numpy: logic", lambda: (V > 1) & wnp.ones(4), TypeError, ("integer or boolean", r"\(x > 0\)")),
        ("numpy: logic", lambda: -wnp.array([True]), TypeError, ("bool", "astype")),
        ("lax is strict", lambda: lax.sin(1), TypeError, ("float or complex", "astype")),
        ("numpy: numbers", lambda: wnp.int32(2**40), OverflowError, ("int32", "enable_x64")),
        ("numpy: numbers", lambda: wnp.array([300], dtype="uint8"), OverflowError, ("uint8", "255")),
        ("x64", _asks_for_64_bits, UserWarning, ("float64", "enable_x64")),
        ("lax: convolution", lambda: lax.conv(wnp.ones((1, 3, 8, 8)), wnp.ones((4, 2, 3, 3)), (1, 1), "SAME"), ValueError, ("3 features", "2")),
        ("#3724", lambda: lax.scatter_add(V, wnp.arange(3), V[:3], lax.ScatterDimensionNumbers((), (0,), (0,))), (TypeError, ValueError), ("indices", "component")),
        ("#1403", lambda: wnp.zeros(2).at[0].set(np.zeros(2)), (TypeError, ValueError), (r"\(2,\)", "broadcast")),
    ],
    "Random numbers": [
        ("#17904", lambda: weft.random.key(0, impl="rbg") == KEY, TypeError, ("fry", "rbg", "impl=")),
        ("#21343", lambda: weft.random.normal(KEY, 1000.0), TypeError, ("shape must be an integer or a tuple", "1000.0")),
        ("random", lambda: weft.random.normal(3, (3,)), TypeError, ("key",)),
        ("random", lambda: weft.random.normal(weft.random.split(KEY), (3,)), (TypeError, ValueError), ("vmap|single|one key",)),
        ("random", lambda: weft.random.choice(KEY, 3, (5,), replace=False), ValueError, ("replace",)),
        ("random", lambda: weft.random.key("0"), TypeError, ("seed|integer",)),
        ("random", lambda: KEY + 1, TypeError, ("split", "fold_in")),
        ("random", lambda: weft.random.key(1.5), TypeError, ("seed must be an integer",)),
        ("#16028", lambda: weft.random.key(weft.random.key(0)), TypeError, ("seed must be an integer", "random key")),
        ("random", lambda: weft.random.normal(np.zeros(3, np.uint32)), TypeError, ("uint32", "u32\\[3\\]")),
        ("random", lambda: weft.random.normal((3,)), TypeError, (r"weft\.random\.key",)),
        ("random", lambda: weft.random.normal(KEY, (2,), dtype=int), ValueError, ("float or complex", "i32")),
    ],
    "Devices and shardings": [
        ("#15728", lambda: weft.shard_map(lambda x, y: x + y, mesh=MESH, in_specs=(P("x"), P("x")), out_specs=P("x"))(np.arange(8)), ValueError, ("in_specs has 2 entries", "1 arguments")),
        ("#25541", _constrains_elsewhere, TypeError, ("'x': 2", "'x': 4", "device_put")),
        ("#6221", lambda: weft.device_put_sharded([V] * 8, weft.devices()), AttributeError, ("device_put",)),
        ("#26946", lambda: weft.device_put(np.ones(6), weft.NamedSharding(MESH, P("x"))), ValueError, ("6", "4")),
        ("sharding", lambda: weft.NamedSharding(MESH, P("z")), ValueError, ("z", "x")),
        ("sharding", lambda: P("x", "x"), ValueError, ("x",)),
        ("sharding", lambda: weft.device_put(V, weft.NamedSharding(MESH, P("x", "y"))), ValueError, ("1|one", "2|two")),
        ("sharding", lambda: weft.make_mesh((16,), ("x",)), ValueError, ("16", "8")),
        ("shard_map", lambda: lax.psum(1.0, "nowhere"), NameError, ("nowhere",)),
        ("shard_map", lambda: weft.shard_map(lambda x: x.sum(), mesh=MESH, in_specs=P("x"), out_specs=P())(V), ValueError, ("psum|x",)),
        ("shard_map", lambda: weft.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(np.ones(6)), ValueError, ("6", "4")),
        ("pmap", lambda: weft.pmap(lambda x: x)(np.ones(100)), ValueError, ("100", "8")),
        ("#18856", lambda: weft.sharding.Mesh(np.array(weft.devices()), ("a", "b")), ValueError, ("1 dimensions", "2 axis names")),
        ("mesh", lambda: weft.make_mesh((4, 2), ("x", "x")), ValueError, ("'x'", "twice")),
        ("mesh", lambda: weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,)), ValueError, ("1 entries", "2 axes")),
        ("#8839", lambda: weft.jit(lambda x: lax.with_sharding_constraint(x, weft.NamedSharding(MESH, P("x", "y"))))(V), ValueError, ("2 entries", "1 dimension")),
        ("#25541", lambda: weft.jit(lambda x: lax.with_sharding_constraint(x.sum(1), weft.NamedSharding(HALF, P("x"))))(weft.device_put(X, weft.NamedSharding(MESH, P("x")))), ValueError, ("argument x", "device_put")),
        ("in_shardings", lambda: weft.jit(lambda x: x, in_shardings=(SPLIT, SPLIT))(V), ValueError, ("in_shardings", "2 entries", "1")),
        ("#18951", lambda: weft.shard_map(lambda *xs: None, mesh=MESH, in_specs=(P(), P(None)), out_specs=None)(1.0, 1.0), ValueError, (r"xs\[1\]", "rank 0", "in_specs")),
        ("shard_map", lambda: weft.shard_map(lambda x, y: x, mesh=MESH, in_specs=(P("x"),), out_specs=P("x"))(V, V), ValueError, ("1 entries", "2 arguments")),
        ("shard_map", lambda: weft.shard_map(lambda x: (x, x, x), mesh=MESH, in_specs=P("x"), out_specs=(P("x"), P("x")))(V), ValueError, ("out_specs", "2 entries", "3")),
        ("shard_map", lambda: weft.shard_map(lambda x: x, mesh=MESH, in_specs=P("z"), out_specs=P("x"))(V), ValueError, ("'z'", "'x': 4")),
        ("shard_map", lambda: weft.shard_map(lambda x: x, mesh=MESH, in_specs="x", out_specs=P("x"))(V), TypeError, ("in_specs for x", r"P\('x'\)")),
        ("shard_map", lambda: weft.shard_map(lambda x: x, in_specs=P("x"), out_specs=P("x"))(V), ValueError, ("no mesh", "set_mesh")),
        ("#15602", lambda: weft.shard_map(lambda x: x.sum(), mesh=MESH, in_specs=P("x"), out_specs=P("x"))(V), ValueError, ("rank 0", "out_specs", r"x\[None\]")),
        ("collectives", lambda: on_x(lambda x: lax.ppermute(x, "x", [(0, 1), (0, 2)]))(V), ValueError, ("perm", "0 is a source twice")),
        ("collectives", lambda: on_x(lambda x: lax.psum_scatter(x, "x", tiled=True))(np.ones(24)), ValueError, ("size 6", "4 devices", "Pad")),
        ("collectives", lambda: on_x(lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True))(V), ValueError, ("split_axis", "4 devices")),
        ("collectives", lambda: on_x(lambda x: lax.psum(x, "z"))(V), NameError, ("'z'", "'x'")),
        ("collectives", lambda: weft.pmap(lambda x: lax.psum(x, "i"))(np.ones(8)), NameError, ("'i'", "axis_name")),
        ("devices", _adds_across_devices, ValueError, ("cpu:0", "cpu:1", "device_put")),
        ("devices", lambda: weft.device_put(V, MESH), (TypeError, ValueError), ("Mesh", r"NamedSharding\(mesh")),
        ("devices", lambda: weft.device_put(V, P("x")), ValueError, ("no mesh", "set_mesh")),
        ("devices", lambda: weft.device_put(V, 0), (TypeError, ValueError), ("device", "int: 0")),
        ("sharding", lambda: weft.NamedSharding(P("x"), MESH), TypeError, ("mesh must be a Mesh", "PartitionSpec")),
        ("sharding", lambda: weft.NamedSharding(MESH, "x"), TypeError, ("spec", r"P\('x'\)")),
        ("in_shardings", lambda: weft.jit(lambda x: x, in_shardings=SPLIT)(weft.device_put(V, weft.NamedSharding(MESH, P("y")))), ValueError, ("argument x", "device_put")),
        ("explicit", lambda: weft.device_put(np.ones((4, 4)), along("x")) + weft.device_put(np.ones((4, 4)), along("y")), TypeError, ("'x'", "'y'", "reshard")),
        ("explicit", lambda: weft.device_put(np.ones((4, 4)), along(None, "x")) @ weft.device_put(np.ones((4, 4)), along("x")), TypeError, ("summed over", "out_sharding")),
        ("callbacks", lambda: weft.make_array_from_callback((4,), SPLIT, lambda i: np.ones(3)), ValueError, (r"\(3,\)", r"\(1,\)")),
        ("#27808", lambda: weft.jit(lambda x: {"r": x}, out_shardings=SPLIT)(np.arange(5)), ValueError, (r"result \['r'\]", "5", "Pad")),
        ("#7703", lambda: weft.pmap(lambda c, x: x, static_broadcasted_argnums=0)(Config(), np.ones((8, 1))), ValueError, ("static_broadcasted_argnums", "hashable", "Config", "frozen")),
    ],
    "Trees": [
        ("tree", lambda: weft.tree.map(lambda a, b: a, {"a": 1}, {"b": 2}), ValueError, ("a", "b")),
        ("tree", lambda: weft.tree.map(lambda a, b: a, (1, 2), (1,)), ValueError, ("2", "1")),
        ("tree", lambda: weft.tree.unflatten(weft.tree.structure((1, 2)), [1]), ValueError, ("2", "1")),
        ("#23771", lambda: weft.tree.map(lambda a, b: a, {"a": {"b": [1, 2, 3]}}, {"a": {"b": [1, 2, 3, 4]}}), ValueError, (r"\['a'\]\['b'\]", "3", "4")),
        ("#17798", lambda: weft.tree.map(lambda a, b: a, [1, 2], (1, 2)), ValueError, ("list", "tuple")),
        ("tree", lambda: weft.tree.map(lambda a, b: a + b, {"a": 1, "b": None}, {"a": 1, "b": 2}), ValueError, (r"\['b'\]", "NoneType", "int")),
        ("#16119", _flattens_badly, (TypeError, ValueError), (r"\(children, aux_data\)",)),
        ("dict keys", lambda: weft.tree.leaves({1: 1.0, "a": 2.0}), (TypeError, ValueError), ("keys of a dict", "one type")),
    ],
    "The rest": [
        ("jit", lambda: weft.jit(3), TypeError, ("callable|function",)),
        ("jit", lambda: weft.jit(lambda x: x, static_argnames="y")(1.0), (TypeError, ValueError), ("y",)),
        ("jit", lambda: weft.jit(lambda x: x)(1.0, 2.0), TypeError, ("argument",)),
        ("jit", lambda: weft.jit(lambda x: "text")(1.0), TypeError, ("str", "return|result")),
        ("callback", lambda: weft.jit(lambda x: weft.pure_callback(lambda x: np.zeros(3), x, x))(1.0).block_until_ready(), Exception, ("3",)),
        ("callback", lambda: weft.pure_callback(lambda x: x, None, V, vmap_method="often"), (TypeError, ValueError), ("often|vmap_method",)),
        ("ffi", lambda: weft.jit(weft.ffi.ffi_call("NotThere", V))(V), Exception, ("NotThere", "register_ffi_target")),
        ("checkpoints", lambda: weft.checkpoints.restore("/not/there"), (FileNotFoundError, weft.checkpoints.CheckpointError), ("/not/there",)),
        ("config", lambda: weft.config.update("jax_enable_x65", True), (AttributeError, ValueError), ("enable_x64",)),
        ("x64", lambda: weft.config.update("enable_x64", "maybe"), (TypeError, ValueError), ("enable_x64", "True|bool")),
        ("devices", lambda: weft.devices("toaster"), (RuntimeError, ValueError), ("toaster", "cpu")),
        ("devices", lambda: weft.device_put(V, "cpu:0"), (TypeError, ValueError), ("device|sharding",)),
        ("mesh", lambda: weft.make_mesh((4, 2), ("x",)), ValueError, ("x", "2")),
        ("mesh", lambda: weft.jit(lambda x: lax.with_sharding_constraint(x, P("x")))(V), (RuntimeError, ValueError), ("set_mesh|mesh",)),
        ("in_shardings", lambda: weft.jit(lambda x: x, in_shardings=(P("x"), P("y")))(V), (TypeError, ValueError, RuntimeError), ("in_shardings|mesh",)),
        ("optimizers", lambda: weft.tree.map(lambda p, g: p - g, {"w": V}, {"w": V, "b": V}), ValueError, ("b",)),
        ("scan", lambda: lax.scan(lambda c, x: (c, x), 0.0, 3), (TypeError, ValueError), ("xs|axis|array",)),
        ("custom_jvp", lambda: weft.jvp(weft.custom_jvp(lambda x: x), (1.0,), (1.0,)), (AttributeError, TypeError, ValueError), ("defjvp",)),
        ("jacobian", lambda: weft.jacfwd(lambda x: x)(3), TypeError, ("float",)),
        ("checkify", lambda: weft.jit(lambda x: weft.checkify.check(x > 0, "x"))(1.0), ValueError, ("checkify",)),
        ("compiled", lambda: weft.jit(lambda x: x).lower(V).compile()(V[:2]), TypeError, ("argument x", r"f32\[4\]", r"f32\[2\]")),
        ("debug.print", lambda: weft.jit(lambda x: weft.debug.print("{} {}", x))(1.0), ValueError, ("placeholders", "1")),
        ("callback", lambda: weft.jit(lambda x: weft.pure_callback(lambda x: 1 / 0, x, x))(1.0).block_until_ready(), ZeroDivisionError, ("zero",)),
        ("lax", lambda: lax.select(True, V, V[:2]), TypeError, (r"f32\[4\]", r"f32\[2\]")),
        ("lax", lambda: lax.dynamic_slice(X, (0,), (1, 1)), (TypeError, ValueError), ("1 start_indices", "rank 2")),
        ("kernels", lambda: pallas_call(_copies_ref)(V), TypeError, ("Ref", r"ref\[\.\.\.\]")),
        ("kernels", lambda: pallas_call(lambda x, out: x[...])(V), ValueError, ("returns a value", r"out_ref\[\.\.\.\]")),
        ("kernels", lambda: pallas_call(lambda x: None)(V), TypeError, ("2 refs", "too many")),
        ("config", lambda: setattr(weft.config, "enable_x65", True), AttributeError, ("enable_x64",)),
        ("eval_shape", lambda: weft.eval_shape(lambda x: x, "a"), TypeError, ("eval_shape", "'a'")),
        ("attention", lambda: weft.nn.dot_product_attention(wnp.ones((1, 2, 3, 4)), wnp.ones((1, 2, 3, 5)), wnp.ones((1, 2, 3, 4))), ValueError, ("key", "value")),
        ("export", lambda: weft.export.export(lambda x: x)(V), ValueError, (r"weft\.jit\(f\)",)),
    ],
}
# fmt: on


def program_text(row: tuple) -> str:
    """The source of a row's program: what its lambda computes, or the body of its function."""
    run = row[1]
    if run.__name__ != "<lambda>":
        return f"{run.__name__}()"
    line = inspect.getsource(run).strip().removesuffix(",")
    return ast.unparse(ast.parse(line, mode="eval").body.elts[1].body)


def message_text(error: BaseException) -> str:
    """The type and text of an error as the page shows it, the same on every machine."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    text = str(error).split("\n[docs/errors.md#")[0]  # the site's link to the class
    text = re.sub(r"[^ (]*mistakes\.py:\d+", "program.py:1", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", re.sub(r"\s+", " ", text))
    return f"{name}: {text if len(text) < 900 else text[:900] + ' …'}"


def cell(text: str) -> str:
    """Text as code in a cell of a Markdown table."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text.replace('|', chr(92) + '|')}{ticks}"


def row_start(row: tuple) -> str:
    """The cells of a row in front of the message."""
    asked = re.sub(r"^#(\d+)$", r"[#\1](https://github.com/jax-ml/jax/issues/\1)", row[0])
    return f"| {asked} | {cell(program_text(row))} | "


def page() -> str:
    """The page of all rows; runs every program."""
    count = sum(map(len, MISTAKES.values()))
    lines = [
        "# Mistakes and messages",
        "",
        f"{count} programs of the kinds that JAX's users ask about most (the numbers are threads of",
        "jax-ml/jax), and what weft says: what is wrong, by name, and what to write instead. The",
        "traceback of each ends at the program's own line. [Errors by name](errors.md) tells more of the",
        "classes. Written by `python -m tests.mistakes`; tests run every program.",
    ]
    for section, rows in MISTAKES.items():
        lines += ["", f"## {section}", "", "| asked | program | message |", "|--|--|--|"]
        for row in rows:
            try:
                row[1]()
            except BaseException as error:
                lines.append(f"{row_start(row)}{cell(message_text(error))} |")
    helpers = "\n".join(
        inspect.getsource(sys.modules[__name__]).split("# fmt: off")[0].split("\n\n\ndef ")[1:]
    )
    lines += ["", "## The functions used above", "", "```python"]
    lines += [f"def {helpers.strip()}".replace("\n\n\n\n", "\n\n\n"), "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    from tests import mistakes  # whose classes are named as in the tests

    PAGE.write_text(mistakes.page(), "utf-8")

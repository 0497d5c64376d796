"""Symbolic dimensions: expressions, comparisons, programs for all sizes."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import export, lax
from weft.errors import InconclusiveDimensionOperation
from weft.export import symbolic_shape


def struct(text, dtype=np.float32, **options):
    return weft.ShapeDtypeStruct(symbolic_shape(text, **options), dtype)


def test_expressions_are_kept_in_normal_form():
    a, b = symbolic_shape("a, b")
    for got, want in [
        (a + a, "2*a"),
        (2 * (a + 1) - a, "a + 2"),
        ((a + b) * (a - b), "a*a - b*b"),
        ((4 * a + 6) // 2, "2*a + 3"),
        ((4 * a + 3) % 4, "3"),
        ((a * b) // b, "a"),
        (a // 2, "floordiv(a, 2)"),
        ((8 * a + b) % 4, "mod(b, 4)"),
        (a**2, "a*a"),
        (5 - a, "-a + 5"),
    ]:
        assert str(got) == want
    assert a - a == 0 and (a - a).__class__ is int
    assert a + b == b + a and a != b and hash(a + b) == hash(b + a)
    assert str(symbolic_shape("(max(a, 2), _, ...)", like=(1, 5, 6))) == "(max(a, 2), 5, 6)"


def test_equalities_replace_their_left_side():
    a, b, c, d = export.symbolic_shape("a, b, c, d,", constraints=("a * b == c + d",))
    assert str(2 * b * a) == "2*c + 2*d" and str(a * b * b) == "b*c + b*d"
    assert 2 * a * b == 2 * c + 2 * d and a * b - c == d
    rules = ("a == 2*b", "floordiv(b, 3) == c")
    a, b, c = export.symbolic_shape("a, b, c", constraints=rules)
    assert str(a) == "2*b" and a // 2 == b and a % 2 == 0 and b // 3 == c
    x, y = export.symbolic_shape("x, y", constraints=("x == y", "y == x"))  # goes in a circle
    assert x >= 1 and y >= 1
    even = export.export(weft.jit(lambda x: x.reshape(2, -1)))(
        weft.ShapeDtypeStruct(export.symbolic_shape("n", constraints=("n == 2*m",)), np.float32)
    )
    assert even.call(np.ones(6, np.float32)).shape == (2, 3)
    with pytest.raises(ValueError, match="5"):
        even.call(np.ones(5, np.float32))


def test_comparisons_are_decided_where_all_sizes_agree():
    a, b = symbolic_shape("a, b")
    assert a >= 1 and a > 0 and a + b >= 2 and a * b > 0 and a + 1 > a and not a < 1
    assert a % 3 <= 2 and a % 3 >= 0 and a // 2 >= 0
    for compare in (lambda: a >= 2, lambda: a < b, lambda: max(a, b), lambda: a - b >= 0):
        with pytest.raises(InconclusiveDimensionOperation, match="is inconclusive.*constraint"):
            compare()
    a, b = symbolic_shape("a, b", constraints=["a >= 8", "a <= 2*b", "b <= 100"])
    assert a >= 5 and 2 * b + 1 > a and b <= 200 and b >= 1
    a, b = symbolic_shape("a, b", constraints=["a == 2*b"])
    assert a >= b and a - b > 0 and a - 2 * b >= 0


PROGRAMS = {
    "elementwise": ("a, b", lambda x: wnp.sin(x) * 2, lambda x: np.sin(x) * 2),
    "mean": ("a, b", lambda x: x.mean(0) + x.var(), lambda x: x.mean(0) + x.var()),
    "reshape": (
        "a, b, 4",
        lambda x: x.reshape(x.shape[0] * 2, -1),
        lambda x: x.reshape(2 * len(x), -1),
    ),
    "joined": (
        "a, b",
        lambda x: wnp.concatenate([x, wnp.ones((x.shape[0], 3))], 1),
        lambda x: np.concatenate([x, np.ones((len(x), 3))], 1),
    ),
    "product": (
        "a, b",
        lambda x: x @ x.T / x.shape[1] ** 0.5,
        lambda x: x @ x.T / x.shape[1] ** 0.5,
    ),
    "iota": ("a, 2*b", lambda x: x + wnp.arange(x.shape[1]), lambda x: x + np.arange(x.shape[1])),
    "slices": (
        "a + 2, b",
        lambda x: x[1:-1, ::2] + x[-1, 0],
        lambda x: x[1:-1, ::2] + x[-1, 0],
    ),
    "scan": (
        "a, b",
        lambda x: lax.scan(lambda c, r: (c + r, c), wnp.zeros(x.shape[1]), x)[0],
        lambda x: x.sum(0),
    ),
    "padded": (
        "a, b",
        lambda x: wnp.pad(x, ((0, (-x.shape[0]) % 4), (0, 0))).reshape(-1, 4, x.shape[1]).sum(1),
        lambda x: np.pad(x, ((0, (-len(x)) % 4), (0, 0))).reshape(-1, 4, x.shape[1]).sum(1),
    ),
    "softmax": (
        "a, b",
        lambda x: weft.nn.softmax(x),
        lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_export_serves_all_sizes(rng, name):
    text, f, reference = PROGRAMS[name]
    exported = export.export(weft.jit(f))(struct(text))
    again = export.deserialize(exported.serialize())
    for a, b in ((2, 4), (5, 6), (3, 8)):
        shape = [eval(d, {"a": a, "b": b}) for d in text.split(",")]
        x = rng.normal(size=shape).astype(np.float32)
        for e in (exported, again):
            np.testing.assert_allclose(e.call(x), reference(x), rtol=1e-4, atol=1e-5)
    assert (
        str(exported.in_avals[0].shape) == str(symbolic_shape(text)) == str(again.in_avals[0].shape)
    )


def test_derivatives_are_for_all_sizes(rng):
    f = lambda x, w: wnp.tanh(x @ w).mean()
    scope = export.SymbolicScope()
    exported = export.export(weft.jit(f))(struct("b, d", scope=scope), struct("d, 3", scope=scope))
    again = export.deserialize(exported.serialize(vjp_order=1))
    x, w = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)
    for e in (exported, again):
        dx, dw = weft.grad(e.call, (0, 1))(x, w)
        slope = (1 - np.tanh(x @ w) ** 2) / 12
        np.testing.assert_allclose(dx, slope @ w.T, rtol=1e-4)
        np.testing.assert_allclose(dw, x.T @ slope, rtol=1e-4)


def test_results_have_symbolic_shapes():
    scope = export.SymbolicScope(["a >= 3"])
    exported = export.export(weft.jit(lambda x, y: (x[:-2], x.ravel(), wnp.outer(x[:, 0], y))))(
        *export.symbolic_args_specs(
            (np.zeros((4, 2), np.float32), np.zeros(3, np.float32)), ("a, _", "b"), scope=scope
        )
    )
    assert [str(o.shape) for o in exported.out_avals] == ["(a - 2, 2)", "(2*a,)", "(a, b)"]
    assert "tensor<{a}x2xf32>" in exported.mlir_module()
    inner = weft.jit(lambda x, y: exported.call(x, y)[1] * 2)
    np.testing.assert_array_equal(
        inner(np.ones((5, 2), np.float32), np.ones(3, np.float32)), np.full(10, 2)
    )


def wrong_scope():
    return export.export(weft.jit(lambda x, y: (x, y)))(struct("a"), struct("a"))


def sized(**options):
    return export.export(weft.jit(lambda x: x * 2))(struct("a, 2*a", **options))


def exported(f, **options):
    return export.export(weft.jit(f))(struct("a", **options))


def branch(x):
    return x if x.shape[0] > 10 else 2 * x


WRONG = {
    "an undecided branch": (
        lambda: exported(branch),
        InconclusiveDimensionOperation,
        "'a' > '10' is inconclusive",
    ),
    "a loop over a size": (
        lambda: export.export(weft.jit(lambda x: sum(x[i] for i in range(x.shape[0]))))(
            struct("a", constraints=["a <= 9"])
        ),
        NotImplementedError,
        "not one for all sizes",
    ),
    "a constant of NumPy": (
        lambda: export.export(
            weft.jit(lambda x: x + np.random.default_rng(0).normal(size=x.shape[0]))
        )(struct("a", constraints=["a <= 99"])),
        NotImplementedError,
        "not one for all sizes",
    ),
    "two scopes": (wrong_scope, ValueError, "same scope="),
    "sizes that disagree": (
        lambda: sized().call(np.ones((3, 5), np.float32)),
        ValueError,
        "size 5 where it was exported for 2\\*a",
    ),
    "a broken constraint": (
        lambda: sized(constraints=["a >= 4"]).call(np.ones((3, 6), np.float32)),
        ValueError,
        "a >= 4 does not hold",
    ),
    "another rank": (
        lambda: sized().call(np.ones(3, np.float32)),
        ValueError,
        "exported for f32\\[a, 2\\*a\\]",
    ),
    "a text that is none": (lambda: symbolic_shape("a, +"), ValueError, "cannot be read"),
    "an unknown function": (lambda: symbolic_shape("log(a, 2)"), ValueError, "cannot be read at"),
    "no like": (lambda: symbolic_shape("a, ..."), ValueError, "there is no like"),
    "another number of dimensions": (
        lambda: symbolic_shape("a, b", like=(1,)),
        ValueError,
        "2 dimensions, like has 1",
    ),
    "constraints beside a scope": (
        lambda: symbolic_shape("a", constraints=["a > 1"], scope=export.SymbolicScope()),
        ValueError,
        "leave scope out",
    ),
    "constraints that contradict": (
        lambda: symbolic_shape("a", constraints=["a >= 9", "a <= 3"]),
        ValueError,
        "no sizes were found",
    ),
    "a constraint that is none": (
        lambda: symbolic_shape("a", constraints=["a"]),
        ValueError,
        "of the form",
    ),
    "sizes too small for the program": (
        lambda: export.export(weft.jit(lambda x: x[:16]))(struct("b")).call(wnp.ones(3)),
        ValueError,
        r"does not exist for b = 3.*constraints=\['b >= 4'\]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case):
    call, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        call()

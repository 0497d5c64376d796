"""Ops that move elements about, against NumPy."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax
from weft.layout import Layout, with_layout_constraint

R = np.random.default_rng(1)
X = R.standard_normal((2, 3, 4))
Y = R.standard_normal((2, 1, 4))


def padded(x, value, config):
    for axis, (lo, hi, inner) in enumerate(config):
        if inner:
            x = np.insert(x, np.repeat(np.arange(1, x.shape[axis]), inner), value, axis)
        width = [(0, 0)] * x.ndim
        width[axis] = (max(lo, 0), max(hi, 0))
        x = np.pad(x, width, constant_values=value)
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(max(-lo, 0), x.shape[axis] - max(-hi, 0))
        x = x[tuple(cut)]
    return x


CONFIG = ((1, 0, 0), (0, 2, 1), (-1, 1, 2))
CASES = [
    Case(
        "broadcast_in_dim",
        lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (0, 1, 3)),
        lambda x: np.broadcast_to(x[:, :, None], (2, 3, 5, 4)),
        (Y,),
        (0,),
    ),
    Case("reshape", lambda x: lax.reshape(x, (4, -1)), lambda x: x.reshape(4, -1), (X,), (0,)),
    Case(
        "reshape",
        lambda x: lax.reshape(x, (8, 3), dimensions=(2, 0, 1)),
        lambda x: x.transpose(2, 0, 1).reshape(8, 3),
        (X,),
        (0,),
        "in an order",
    ),
    Case(
        "transpose",
        lambda x: lax.transpose(x, (2, 0, 1)),
        lambda x: x.transpose(2, 0, 1),
        (X,),
        (0,),
    ),
    Case(
        "concatenate",
        lambda x, y: lax.concatenate([x, y, x], 1),
        lambda x, y: np.concatenate([x, y, x], 1),
        (X, Y),
        (0, 1),
    ),
    Case(
        "pad",
        lambda x, v: lax.pad(x, v, CONFIG),
        lambda x, v: padded(x, v, CONFIG),
        (X, np.array(0.5)),
        (0, 1),
    ),
    Case("rev", lambda x: lax.rev(x, (0, 2)), lambda x: x[::-1, :, ::-1], (X,), (0,)),
    Case(
        "split",
        lambda x: lax.split(x, (1, 0, 2), 1),
        lambda x: [x[:, :1], x[:, 1:1], x[:, 1:]],
        (X,),
        (0,),
    ),
    Case("squeeze", lambda x: lax.squeeze(x, (1,)), lambda x: x[:, 0], (Y,), (0,)),
    Case(
        "expand_dims",
        lambda x: lax.expand_dims(x, (0, 4)),
        lambda x: x[None, ..., None],
        (X,),
        (0,),
    ),
    Case("tile", lambda x: lax.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), (X,), (0,)),
    Case("stack", lambda x: lax.stack([x, x], 1), lambda x: np.stack([x, x], 1), (X,), (0,)),
    Case("unstack", lambda x: lax.unstack(x, 1), lambda x: list(x.swapaxes(0, 1)), (X,), (0,)),
    Case("collapse", lambda x: lax.collapse(x, 1), lambda x: x.reshape(2, 12), (X,), (0,)),
    Case(
        "broadcast_like",
        lambda y: lax.broadcast_like(y, X),
        lambda y: np.broadcast_to(y, X.shape),
        (Y,),
        (0,),
    ),
    Case(
        "layout_constraint",
        lambda x: with_layout_constraint(x, Layout((2, 0, 1))),
        lambda x: x,
        (X,),
        (0,),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_broadcast_dimensions_that_decrease_transpose():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lax.broadcast_in_dim(x, (3, 2), (1, 0)), x.T)
    y = np.broadcast_to(x.T[:, None, :1], (3, 4, 2))
    np.testing.assert_array_equal(lax.broadcast_in_dim(x[:1], (3, 4, 2), (2, 0)), y)
    weights = np.arange(24.0, dtype=np.float32).reshape(3, 4, 2)
    grad = weft.grad(lambda x: (lax.broadcast_in_dim(x, (3, 4, 2), (2, 0)) * weights).sum())(x)
    np.testing.assert_array_equal(grad, weights.sum(1).T)


def test_iota_and_full_have_the_dtype_asked_for():
    np.testing.assert_array_equal(lax.broadcasted_iota("uint8", (2, 3), 1), [[0, 1, 2]] * 2)
    assert lax.iota(np.float32, 3).dtype == np.float32
    assert lax.full((2,), 1, "bfloat16").dtype == "bfloat16"
    out = lax.full((2,), 1)
    assert weft.typeof(out).weak_type and out.dtype == np.int32
    like = lax.full_like(np.ones((2, 2), np.float16), 3)
    assert like.dtype == np.float16 and like.shape == (2, 2)
    assert lax.empty((2,), np.int8).dtype == np.int8


def test_a_composite_computes_its_decomposition_under_a_name():
    twice = lax.composite(lambda x, factor=2.0: lax.mul(x, factor), "test.scale")
    assert twice(3.0) == 6.0
    assert weft.grad(lambda x: twice(x, factor=5.0))(1.0) == 5.0
    np.testing.assert_array_equal(weft.vmap(twice)(np.arange(3.0, dtype=np.float32)), [0, 2, 4])
    text = weft.jit(lambda x: twice(x, factor=3.0)).lower(1.0).as_text()
    assert 'stablehlo.composite "test.scale"' in text and "factor = 3.0" in text


def test_a_sink_keeps_what_feeds_it_in_the_jaxpr():
    def f(x):
        lax.dce_sink(lax.sin(x))
        return x

    assert "sin" in str(weft.make_jaxpr(f)(1.0))
    assert weft.jit(f)(2.0) == 2.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lax.reshape(X, (5, 5)), TypeError, "has 25"),
        (lambda: lax.reshape(X, (-1, 5)), TypeError, "cannot infer"),
        (lambda: lax.transpose(X, (0, 0, 1)), TypeError, "permutation"),
        (lambda: lax.concatenate([X, Y[:1]], 1), TypeError, "operands 0 and 1 differ"),
        (lambda: lax.squeeze(X, (1,)), ValueError, "size 3"),
        (lambda: lax.pad(X, 0.0, [(0, 0, -1)] * 3), ValueError, "nonnegative"),
        (lambda: lax.broadcast_in_dim(X, (2, 3), (0, 1)), TypeError, "broadcast_dimensions"),
        (lambda: lax.broadcast_in_dim(X, X.shape, (0, 1)), TypeError, "broadcast_dimensions"),
        (lambda: lax.broadcast_in_dim(np.ones((3, 4)), (3, 4), (1, 0)), TypeError, "size 3"),
        (lambda: lax.broadcast_in_dim(np.ones((2, 2)), (2, 2), (0, 0)), TypeError, "twice"),
        (lambda: lax.pad(np.arange(3), 0.5, [(1, 1, 0)]), TypeError, "does not fit"),
        (lambda: lax.split(X, (1, 1), 1), ValueError, "add up"),
        (lambda: lax.full((2,), np.ones(2)), TypeError, "scalar"),
    ],
)
def test_errors_show_the_shapes(call, error, words):
    with pytest.raises(error, match=words):
        call()

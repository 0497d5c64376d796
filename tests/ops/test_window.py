"""Windows against NumPy's sliding windows, with pooling's gradients."""

import functools
import itertools

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(9)
X = R.permutation(24).reshape(4, 6) / 7.0


def reference(ufunc, init):
    def run(x, dims, strides, pads, base=(1, 1), dilation=(1, 1)):
        spread = np.full([(d - 1) * b + 1 for d, b in zip(x.shape, base, strict=True)], init)
        spread[:: base[0], :: base[1]] = x
        x = np.pad(spread, pads, constant_values=init)
        extents = [(w - 1) * d + 1 for w, d in zip(dims, dilation, strict=True)]
        shape = [(n - e) // s + 1 for n, e, s in zip(x.shape, extents, strides, strict=True)]
        out = np.full(shape, init)
        for i, j in itertools.product(*map(range, shape)):
            a, b = i * strides[0], j * strides[1]
            window = x[a : a + extents[0] : dilation[0], b : b + extents[1] : dilation[1]]
            out[i, j] = ufunc.reduce(window, axis=None)
        return out

    return run


WINDOWS = {
    "plain": ((2, 2), (1, 1), ((0, 0), (0, 0))),
    "padded": ((2, 3), (2, 1), ((1, 0), (2, 1))),
    "overlapping": ((3, 3), (1, 2), ((1, 1), (1, 1))),
    "dilated": ((2, 2), (1, 2), ((1, 1), (0, 1)), (2, 1), (1, 2)),
}
OPS = {
    "reduce_window_sum": (lax.add, np.add, 0.0),
    "reduce_window_max": (lax.max, np.maximum, -np.inf),
    "reduce_window_min": (lax.min, np.minimum, np.inf),
    "reduce_window": (lax.mul, np.multiply, 1.0),
}


def case(op, name):
    fun, ufunc, init = OPS[op]
    window = WINDOWS[name]
    return Case(
        op,
        lambda x: lax.reduce_window(x, init, fun, *window),
        lambda x: reference(ufunc, init)(x, *window),
        (X,),
        (0,),
        name,
        order2=op != "reduce_window" or name == "plain",
    )


CASES = [case(op, name) for op in OPS for name in WINDOWS]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


STARTED = {
    "add": (lax.add, np.add, 1.5),
    "mul": (lax.mul, np.multiply, 2.0),
    "max": (lax.max, np.maximum, 1.0),
    "a function": (lambda a, b: a + b - 0.5 * a * b, lambda a, b: a + b - 0.5 * a * b, 0.25),
}


def windows_of_elements(x, dims, strides, pads, base=(1, 1), dilation=(1, 1)):
    """The elements of the operand in each window, without those of the padding."""
    inside = np.zeros([(d - 1) * b + 1 for d, b in zip(x.shape, base, strict=True)], int)
    inside[:: base[0], :: base[1]] = np.arange(1, x.size + 1).reshape(x.shape)
    inside = np.pad(inside, pads)
    extents = [(w - 1) * d + 1 for w, d in zip(dims, dilation, strict=True)]
    shape = [(n - e) // s + 1 for n, e, s in zip(inside.shape, extents, strides, strict=True)]
    for i, j in itertools.product(*map(range, shape)):
        a, b = i * strides[0], j * strides[1]
        picked = inside[a : a + extents[0] : dilation[0], b : b + extents[1] : dilation[1]]
        yield x.reshape(-1)[picked[picked > 0] - 1]


def started_case(op, name):
    fun, ufunc, init = STARTED[op]
    window = WINDOWS[name]

    def ref(x, start):
        shape = lax.reduce_window_shape_tuple(x.shape, *window)
        folds = [functools.reduce(ufunc, w, start) for w in windows_of_elements(x, *window)]
        return np.array(folds).reshape(shape)

    return Case(
        f"reduce_window from {init} by {op}",
        lambda x, start: lax.reduce_window(x, start, fun, *window),
        ref,
        (X, np.array(init)),
        (0, 1),
        name,
        order2=False,
    )


@pytest.mark.parametrize(
    "case", [started_case(op, name) for op in STARTED for name in WINDOWS], ids=lambda c: c.id
)
def test_windows_start_with_the_initial_value_and_padding_adds_nothing(case, rng):
    check(case, rng)


SPLIT_WINDOWS = [
    ((2, 1), (1, 1), ((1, 0), (0, 0))),
    ((3, 2), (2, 1), ((1, 1), (0, 1))),
    ((3, 1), (1, 1), ((2, 2), (0, 0)), (1, 1), (2, 1)),
    ((8, 1), (1, 1), ((7, 0), (0, 0))),
]
STARTED_MONOIDS = {
    "add": (lax.add, np.add, 1.5, np.float64),
    "mul": (lax.mul, np.multiply, 2.0, np.float64),
    "max": (lax.max, np.maximum, 0.5, np.float64),
    "min": (lax.min, np.minimum, 0.5, np.float64),
    "and": (lax.bitwise_and, np.bitwise_and, 6, np.int32),
    "or": (lax.bitwise_or, np.bitwise_or, 8, np.int32),
    "xor": (lax.bitwise_xor, np.bitwise_xor, 5, np.int32),
}


@pytest.mark.parametrize("name", STARTED_MONOIDS)
def test_initial_values_count_once_however_the_operand_is_split(name):
    fun, ufunc, init, dtype = STARTED_MONOIDS[name]
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.sharding.AxisType.Auto,))
    x = (R.permutation(24).reshape(8, 3) / (7 if dtype is np.float64 else 1)).astype(dtype)

    def all_of_them(x, start):
        return [
            lax.reduce(x, start, fun, (0,)),
            lax.reduce(x, start, fun, (0, 1)),
            lax.reduce(x, start, fun, ()),
            *(lax.reduce_window(x, start, fun, *window) for window in SPLIT_WINDOWS),
        ]

    wants = [ufunc.reduce(x, axis=a, initial=init) for a in (0, (0, 1))] + [ufunc(init, x)]
    for window in SPLIT_WINDOWS:
        shape = lax.reduce_window_shape_tuple(x.shape, *window)
        folds = [ufunc.reduce(w, initial=init) for w in windows_of_elements(x, *window)]
        wants.append(np.reshape(folds, shape))
    with weft.enable_x64(True):
        split = weft.device_put(x, weft.NamedSharding(mesh, weft.P("x")))
        static = weft.jit(lambda x: all_of_them(x, dtype(init)))(split)
        traced = weft.jit(all_of_them)(split, dtype(init))
    for got in (static, traced):
        for g, w in zip(got, wants, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)


def test_several_operands_reduce_together():
    """The greatest element with its index, and the index's initial value differentiates too."""

    def later(a, b):
        keep = lax.ge(a[0], b[0])
        return lax.select(keep, a[0], b[0]), lax.select(keep, a[1], b[1])

    index = np.broadcast_to(np.arange(6.0), (4, 6)).copy()
    with weft.enable_x64(True):
        best, at = lax.reduce_window((X, index), (-np.inf, -1.0), later, (1, 3), (1, 3))
    blocks = X.reshape(4, 2, 3)
    np.testing.assert_array_equal(best, blocks.max(-1))
    np.testing.assert_array_equal(at, blocks.argmax(-1) + [[0, 3]])


def test_initial_values_enter_each_window():
    with weft.enable_x64(True):
        out = weft.vmap(lambda i: lax.reduce_window(X, i, lax.add, (2, 2)))(np.array([0.0, 5.0]))
    want = reference(np.add, 0.0)(X, (2, 2), (1, 1), ((0, 0), (0, 0)))
    np.testing.assert_allclose(out, [want, want + 5])


def test_padding_by_name():
    x = np.ones((5,), np.float32)
    np.testing.assert_array_equal(lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "SAME"), [2, 2, 1])
    assert lax.reduce_window(x, 0.0, lax.add, (2,), (2,)).shape == (2,)


def test_equal_elements_of_a_window_give_the_gradient_to_the_first():
    grad = weft.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (3,))[0])(np.ones(3))
    np.testing.assert_array_equal(grad, [1, 0, 0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), "window_dimensions"),
        (lambda: lax.reduce_window(X, np.zeros(2), lax.add, (2, 2)), "must be a scalar"),
        (lambda: lax.reduce_window(X, 0.0, lambda a, b: (a, b), (2, 2)), "structure"),
        (
            lambda: lax.reduce_window(X, 0.0, lambda a, b: lax.gt(a, b), (2, 2)),
            "must return scalars",
        ),
    ],
)
def test_errors_say_what_the_window_needs(call, words):
    with pytest.raises(TypeError, match=words):
        call()

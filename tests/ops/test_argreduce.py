"""Reductions by named ops, by any function, and of indices."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(6)
X = R.permutation(24).reshape(2, 3, 4) / 7.0 - 1
BOOLS = X > 0
BITS = R.integers(0, 255, (2, 3, 4)).astype(np.uint8)


def named(op, ufunc, x=X, diff=(0,)):
    return Case(
        f"reduce_{op}",
        lambda x: getattr(lax, f"reduce_{op}")(x, (0, 2)),
        lambda x: ufunc.reduce(x, (0, 2)),
        (x,),
        diff,
    )


def general(name, computation, init, ref, diff=(0,)):
    return Case(
        "reduce",
        lambda x: lax.reduce(x, init, computation, (0, 2)),
        ref,
        (X,),
        diff,
        name,
    )


CASES = [
    named("sum", np.add),
    named("max", np.maximum),
    named("min", np.minimum),
    named("prod", np.multiply),
    named("and", np.logical_and, BOOLS, None),
    named("or", np.bitwise_or, BITS, None),
    named("xor", np.bitwise_xor, BITS, None),
    general("initial value", lax.add, 2.0, lambda x: x.sum((0, 2)) + 2),
    general("product", lax.mul, 3.0, lambda x: x.prod((0, 2)) * 3),
    general(
        "norm",
        lambda a, b: lax.sqrt(lax.add(lax.mul(a, a), lax.mul(b, b))),
        0.5,
        lambda x: np.sqrt((x**2).sum((0, 2)) + 0.25),
    ),
    *(
        Case(
            f"arg{op}",
            lambda x, op=op: getattr(lax, f"arg{op}")(x, 1, np.int32),
            lambda x, op=op: getattr(np, f"arg{op}")(x, 1).astype(np.int32),
            (X,),
            None,
        )
        for op in ("max", "min")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_known_combiners_become_reductions():
    def text(computation, init):
        return str(weft.make_jaxpr(lambda x: lax.reduce(x, init, computation, (0,)))(X))

    assert "reduce_sum" in text(lambda a, b: b + a, 0.0)
    assert "reduce_max" in text(lax.max, -np.inf)
    assert "= add " in text(lax.add, 1.0) and "reduce_sum" in text(lax.add, 1.0)
    assert "reduce[" in text(lambda a, b: a + a, 0.0)


def test_several_operands_and_mapped_initial_values():
    pair = lax.reduce(
        (X, -X), (0.0, 0.0), lambda a, b: (lax.add(a[0], b[0]), lax.min(a[1], b[1])), (0, 1, 2)
    )
    np.testing.assert_allclose(pair, (X.sum(), -X.max()), rtol=1e-5)
    out = weft.vmap(lambda i: lax.reduce(X, i, lax.add, (0, 1, 2)))(np.float32([0, 10]))
    np.testing.assert_allclose(out, [X.sum(), X.sum() + 10], rtol=1e-5)


def test_the_first_nan_has_the_index():
    x = np.float32([1, np.nan, 3, np.nan])
    assert lax.argmax(x, 0, np.int32) == 1 and lax.argmin(x, 0, np.int32) == 1
    assert lax.argmax(np.array([False, True, True]), 0, np.int32) == 1


def test_ties_share_the_gradient_of_an_extremum():
    grad = weft.grad(lambda x: lax.reduce_max(x, (0,)))(np.float32([2, 2, 1]))
    np.testing.assert_array_equal(grad, [0.5, 0.5, 0])


def test_a_products_gradient_at_zeros_is_the_product_of_the_others():
    for x in ([0.0, 2.0, 3.0], [0.0, 0.0, 3.0]):
        grad = weft.grad(lambda x: lax.reduce_prod(x, (0,)))(np.float32(x))
        want = [np.prod(np.delete(x, i)) for i in range(3)]
        np.testing.assert_array_equal(grad, want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int8", "uint16"])
def test_extrema_of_narrow_types_start_at_their_limits(dtype):
    x = np.array([-3 if dtype != "uint16" else 3, 5]).astype(dtype)
    assert lax.reduce_max(x, (0,)).dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(lax.reduce_max(x, (0,))).astype(float), 5)
    np.testing.assert_array_equal(np.asarray(lax.reduce_min(x, (0,))).astype(float), float(x[0]))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lax.reduce_sum(X, (3,)), ValueError, "out of bounds"),
        (lambda: lax.reduce_sum(X, (0, 0)), ValueError, "twice"),
        (lambda: lax.argmax(np.zeros((0, 2)), 0, np.int32), ValueError, "empty"),
        (lambda: lax.argmax(X, 0, np.float32), TypeError, "index_dtype"),
        (lambda: lax.reduce(X, (0.0, 0.0), lax.add, (0,)), TypeError, "one structure"),
        (lambda: lax.reduce_and(X, (0,)), TypeError, "takes integer or boolean"),
    ],
)
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()

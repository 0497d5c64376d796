"""Rules of custom derivatives over a batch, for results that do not depend on the example."""

import numpy as np
import pytest

import weft

WEIGHTS = np.array([0.0, 1.0, 2.0], np.float32)
X = np.ones(3, np.float32)
SCALE = 5.0


def constant_vjp():
    f = weft.custom_vjp(lambda x: 1.0)
    f.defvjp(lambda x: (1.0, None), lambda _, ct: (SCALE * ct,))
    return f


def constant_jvp():
    f = weft.custom_jvp(lambda x: np.float32(1.0))
    f.defjvp(lambda primals, tangents: (f(*primals), SCALE * tangents[0]))
    return f


def doubled_vjp():
    """2 w, with a rule whose cotangent is computed from the example, or is not."""
    f = weft.custom_vjp(lambda w, x: 2 * w)
    f.defvjp(lambda w, x: (2 * w, x), lambda x, ct: (2 * ct, np.zeros_like(X[0])))
    return f


def doubled_by_example_vjp():
    f = weft.custom_vjp(lambda w, x: 2 * w)
    f.defvjp(lambda w, x: (2 * w, x), lambda x, ct: (2 * ct + 0 * x, 0 * x))
    return f


def doubled_jvp():
    f = weft.custom_jvp(lambda w, x: 2 * w)
    f.defjvp(lambda p, t: (f(*p), 2 * t[0] + 0 * p[1] * t[1]))
    return f


ORDERS = {
    "grad": lambda f: weft.grad(f),
    "grad of jit": lambda f: weft.grad(weft.jit(f)),
    "jit of grad": lambda f: weft.jit(weft.grad(f)),
    "checkpoint": lambda f: weft.grad(weft.checkpoint(f)),
}
every_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


@every_order
@pytest.mark.parametrize("make", [constant_vjp, constant_jvp])
def test_a_surrogate_derivative_takes_each_example_s_own_cotangent(order, make):
    f = make()
    gradient = order(lambda x: (WEIGHTS * weft.vmap(f)(x)).sum())(X)
    np.testing.assert_array_equal(gradient, SCALE * WEIGHTS)
    pairs = order(lambda x: (WEIGHTS * weft.vmap(weft.vmap(f))(weft.numpy.stack([x, x]))).sum())(X)
    np.testing.assert_array_equal(pairs, 2 * SCALE * WEIGHTS)


@every_order
@pytest.mark.parametrize("make", [doubled_vjp, doubled_by_example_vjp, doubled_jvp])
def test_a_value_that_all_examples_share_is_counted_once_for_each_use(order, make):
    f = make()
    assert order(lambda w: weft.vmap(lambda x: f(w, x))(X).sum())(1.0) == 6.0
    assert order(lambda w: weft.vmap(weft.jit(lambda x: f(w, x)))(X).sum())(1.0) == 6.0
    assert order(lambda w: weft.vmap(lambda x: f(w, x), out_axes=None)(X))(1.0) == 2.0


@pytest.mark.parametrize("make", [constant_vjp, constant_jvp])
@pytest.mark.parametrize("by", [lambda f: f, weft.jit])
def test_a_result_that_all_examples_share_needs_no_axis(make, by):
    assert by(weft.vmap(make(), out_axes=None))(X) == 1.0
    assert by(weft.vmap(make(), out_axes=None, sum_match=True))(X) == 1.0


def separate_vjp():
    """2 x and 3 y, the second of which no example changes where y is not mapped."""
    f = weft.custom_vjp(lambda x, y: (2 * x, 3 * y))
    f.defvjp(lambda x, y: ((2 * x, 3 * y), None), lambda _, cts: (2 * cts[0], 3 * cts[1]))
    return f


def separate_jvp():
    f = weft.custom_jvp(lambda x, y: (2 * x, 3 * y))
    f.defjvp(lambda p, t: ((2 * p[0], 3 * p[1]), (2 * t[0], 3 * t[1])))
    return f


INSIDE = {
    "itself": lambda f: f,
    "jit": weft.jit,
    "jit in jit": lambda f: weft.jit(lambda *args: weft.jit(f)(*args)),
    "checkpoint": weft.checkpoint,
    "cond": lambda f: lambda x, y: weft.lax.cond(y > 1, f, lambda x, y: (x, y), x, y),
}


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("make", [separate_vjp, separate_jvp])
def test_one_shared_result_of_several_needs_no_axis_inside_programs(make, inside):
    f = INSIDE[inside](make())
    over = weft.vmap(f, in_axes=(0, None), out_axes=(0, None))
    for call in (over, weft.jit(over)):
        doubled, tripled = call(WEIGHTS, 2.0)
        np.testing.assert_array_equal(doubled, 2 * WEIGHTS)
        assert tripled.shape == () and tripled == 6.0


@pytest.mark.parametrize("make", [separate_vjp, separate_jvp])
def test_what_is_computed_of_a_shared_result_is_shared_and_of_an_example_is_not(make):
    f = make()
    shared = weft.vmap(lambda x, y: f(x, y)[1] * 2 + 1, in_axes=(0, None), out_axes=None)
    assert shared(X, 2.0) == 13.0
    for mixed in (lambda x, y: f(x, y)[1] + x, lambda x, y: x * f(x, y)[1]):
        with pytest.raises(ValueError, match="it varies over the mapped axis"):
            weft.vmap(mixed, in_axes=(0, None), out_axes=None)(X, 2.0)


def test_numbers_reach_functions_and_rules_as_arrays():
    asked = []

    def ask(x):
        asked.append((x.shape, x.dtype, x.weak_type))
        return x

    twice = weft.custom_jvp(lambda x: 2 * ask(x))
    twice.defjvp(lambda primals, tangents: (twice(ask(primals[0])), 2 * tangents[0]))
    thrice = weft.custom_vjp(lambda x: 3 * ask(x))
    thrice.defvjp(lambda x: (thrice(ask(x)), None), lambda _, ct: (3 * ct,))
    for f, n in ((twice, 2.0), (thrice, 3.0)):
        assert float(f(1.0)) == n
        assert float(weft.grad(f)(1.0)) == n
        assert float(weft.jit(weft.grad(f))(1.0)) == n
    assert set(asked) == {((), np.dtype("float32"), True)}


@pytest.mark.parametrize(
    "make", [weft.custom_jvp, weft.custom_vjp, weft.custom_batching.custom_vmap]
)
def test_a_function_with_rules_does_not_pass_for_a_plain_function(make):
    f = make(lambda x: x)
    for name in ("__globals__", "__code__", "__defaults__", "no_such"):
        assert not hasattr(f, name)
    assert not hasattr(object.__new__(type(f)), "fun")  # as copying and pickling ask


@pytest.mark.parametrize("make", [weft.custom_jvp, weft.custom_vjp])
def test_keyword_only_arguments_keep_their_defaults(make):
    f = make(lambda x, n=2, *, scale=3.0: scale * x**n)
    if make is weft.custom_jvp:
        f.defjvp(lambda primals, tangents: (f(*primals), 10 * tangents[0]), symbolic_zeros=False)
    else:
        f.defvjp(lambda x, n: (f(x, n), None), lambda _, ct: (10 * ct, None))
    assert f(2.0) == 12 and f(2.0, n=3) == 24
    grad = weft.grad(lambda x: f(x, 2))(2.0)
    assert grad == 10
    with pytest.raises(TypeError, match=r"keyword-only arguments \['scale'\] of <lambda>"):
        f(2.0, scale=1.0)

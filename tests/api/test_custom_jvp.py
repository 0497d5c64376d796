"""custom_jvp: the rule is what every transformation sees."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax
from weft.custom_derivatives import SymbolicZero

X = np.array([0.5, -1.0, 2.0], np.float32)


def ruled():
    """x ↦ sin x with three times its derivative, so that the rule shows."""

    @weft.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 3.0 * jnp.cos(x) * t

    return f


f = ruled()

# What f's value and derivative are under stacks of transformations, as functions of x.
FIRST = {
    "grad": lambda f: weft.grad(lambda x: jnp.sum(f(x))),
    "jit of grad": lambda f: weft.jit(weft.grad(lambda x: jnp.sum(f(x)))),
    "grad of jit": lambda f: weft.grad(weft.jit(lambda x: jnp.sum(f(x)))),
    "vmap of grad": lambda f: weft.vmap(weft.grad(f)),
    "grad of vmap": lambda f: weft.grad(lambda x: jnp.sum(weft.vmap(f)(x))),
    "jit of grad of vmap of jit": lambda f: weft.jit(
        weft.grad(lambda x: jnp.sum(weft.vmap(weft.jit(f))(x)))
    ),
    "jvp": lambda f: lambda x: weft.jvp(f, (x,), (np.ones(3, np.float32),))[1],
    "jit of jvp of jit": lambda f: weft.jit(
        lambda x: weft.jvp(weft.jit(f), (x,), (np.ones(3, np.float32),))[1]
    ),
    "linearize": lambda f: lambda x: weft.linearize(f, x)[1](np.ones(3, np.float32)),
    "vjp": lambda f: lambda x: weft.vjp(f, x)[1](np.ones(3, np.float32))[0],
    "jacfwd": lambda f: lambda x: jnp.diagonal(weft.jacfwd(f)(x)),
    "jacrev": lambda f: lambda x: jnp.diagonal(weft.jacrev(f)(x)),
    "grad of checkpoint": lambda f: weft.grad(weft.checkpoint(lambda x: jnp.sum(f(x)))),
    "grad of scan": lambda f: weft.grad(
        lambda x: lax.scan(lambda c, a: (c + f(a), None), 0.0, x)[0]
    ),
    "grad of cond": lambda f: weft.grad(
        lambda x: jnp.sum(lax.cond(jnp.sum(x) > 0, f, lambda x: x, x))
    ),
    "jvp of while_loop": lambda f: (
        lambda x: weft.jvp(
            lambda x: lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, f(s[1])), (0, x))[1],
            (x,),
            (np.ones(3, np.float32),),
        )[1]
    ),
}


@pytest.mark.parametrize("stack", FIRST)
def test_the_rule_is_the_derivative_under(stack):
    close(FIRST[stack](f)(X), 3 * np.cos(X))


@pytest.mark.parametrize("wrap", [lambda g: g, weft.jit, weft.vmap, weft.checkpoint])
def test_the_value_is_the_function_s(wrap):
    close(wrap(f)(X), np.sin(X))


def test_the_rule_itself_is_differentiated_for_higher_orders():
    # The rule's own f is f again: each order brings a factor of three.
    close(weft.grad(weft.grad(f))(0.5), -3 * np.sin(0.5))
    close(weft.jit(weft.grad(weft.grad(weft.grad(f))))(0.5), -3 * np.cos(0.5))
    second = lambda x: weft.jvp(lambda y: weft.jvp(f, (y,), (1.0,))[1], (x,), (1.0,))[1]
    close(second(0.5), -3 * np.sin(0.5))


def test_nondiff_arguments_are_handed_to_the_rule_first():
    @weft.custom_jvp
    def base(g, x, n):
        return g(x) ** n

    power = weft.custom_jvp(base.fun, nondiff_argnums=(0, 2))

    @power.defjvp
    def rule(g, n, primals, tangents):
        assert callable(g) and isinstance(n, int)
        (x,), (t,) = primals, tangents
        return power(g, x, n), 10.0 * n * t

    for wrap in (lambda h: h, weft.jit):
        close(wrap(lambda x: power(jnp.sin, x, 3))(0.5), np.sin(0.5) ** 3)
        close(wrap(weft.grad(lambda x: power(jnp.sin, x, 3)))(0.5), 30.0)
    by_name = weft.custom_jvp(base.fun, nondiff_argnames=("g", "n"))
    by_name.defjvp(rule)
    power = by_name
    close(weft.grad(lambda x: by_name(jnp.sin, x, n=2))(0.5), 20.0)


def test_defjvps_adds_up_a_rule_for_each_argument():
    @weft.custom_jvp
    def g(x, y, z):
        return jnp.sin(x) * y + z

    g.defjvps(lambda t, out, x, y, z: 2.0 * t, None, lambda t, out, x, y, z: t * out)
    out = np.sin(0.5) * 2 + 3
    close(weft.grad(g, argnums=(0, 1, 2))(0.5, 2.0, 3.0), (2.0, 0.0, out))
    close(weft.jvp(g, (0.5, 2.0, 3.0), (1.0, 1.0, 1.0))[1], 2.0 + out)


@pytest.mark.parametrize("wrap", [lambda g: g, weft.jit], ids=["eager", "jit"])
def test_symbolic_zeros_mark_arguments_that_are_not_differentiated(wrap):
    seen = []

    @weft.custom_jvp
    def g(x, y):
        return x * y

    def rule(primals, tangents):
        x, y = primals
        seen.append([type(t) is SymbolicZero for t in tangents])
        tx, ty = tangents
        assert ty.shape == () and ty.dtype == np.float32
        return g(x, y), tx * y

    g.defjvp(rule, symbolic_zeros=True)
    close(wrap(weft.grad(lambda x: g(x, 3.0)))(2.0), 3.0)
    assert [False, True] in seen and [True, True] not in seen


def test_trees_pass_through_rules():
    @weft.custom_jvp
    def g(p, q):
        return {"sum": p["a"] + q[0], "prod": p["a"] * q[0]}

    @g.defjvp
    def rule(primals, tangents):
        (p, q), (tp, tq) = primals, tangents
        return g(p, q), {"sum": tp["a"] + tq[0], "prod": 100.0 * tp["a"]}

    total = lambda p, q: sum(weft.tree.leaves(g(p, q)))
    got = weft.jit(weft.grad(total, argnums=(0, 1)))({"a": 2.0}, [3.0])
    close(got, ({"a": 101.0}, [1.0]))


def test_integer_arguments_and_results_need_no_tangent():
    @weft.custom_jvp
    def g(x, n):
        return x * n, n + 1

    @g.defjvp
    def rule(primals, tangents):
        (x, n), (t, _) = primals, tangents
        return g(x, n), (2.0 * t * n, np.zeros((), weft.dtypes.float0))

    for wrap in (lambda h: h, weft.jit):
        close(wrap(weft.grad(lambda x: g(x, 3)[0]))(1.0), 6.0)


def test_scalars_and_weak_types_of_a_rule_s_tangent_take_the_primal_s_type():
    @weft.custom_jvp
    def g(x):
        return x * 2

    g.defjvp(lambda primals, tangents: (g(primals[0]), 5.0 * tangents[0]))
    assert weft.grad(lambda x: g(x).astype("float32"))(jnp.ones((), "bfloat16")).dtype == "bfloat16"
    h = weft.custom_jvp(lambda x: x * 2)
    h.defjvp(lambda primals, tangents: (h(primals[0]), 0.0))
    close(weft.grad(h)(1.0), 0.0)


def test_methods_bind_their_instance():
    class Layer:
        scale = 4.0

        @weft.custom_jvp
        def call(self, x):
            return self.scale * x

        call = weft.custom_jvp(call.fun, nondiff_argnums=(0,))

        @call.defjvp
        def rule(self, primals, tangents):
            return self.call(*primals), self.scale * 10.0 * tangents[0]

    close(Layer().call(2.0), 8.0)
    close(weft.grad(Layer().call)(2.0), 40.0)


def test_closing_over_values_of_outer_transformations_that_are_not_differentiated():
    def outer(scale, x):
        @weft.custom_jvp
        def g(x):
            return scale * x

        g.defjvp(lambda primals, tangents: (g(primals[0]), 7.0 * scale * tangents[0]))
        return weft.grad(g)(x)

    scales = np.array([1.0, 2.0], np.float32)
    close(weft.vmap(outer, in_axes=(0, None))(scales, 3.0), 7 * scales)
    close(weft.jit(outer)(2.0, 3.0), 14.0)
    close(weft.jit(weft.vmap(outer, in_axes=(0, None)))(scales, 3.0), 7 * scales)


def test_batched_and_unbatched_arguments_mix():
    @weft.custom_jvp
    def g(x, y):
        return x * jnp.sum(y)

    g.defjvp(lambda p, t: (g(*p), 2.0 * (t[0] * jnp.sum(p[1]) + p[0] * jnp.sum(t[1]))))
    ys = np.stack([X, 2 * X])
    got = weft.vmap(weft.grad(g, argnums=(0, 1)), in_axes=(None, 0))(3.0, ys)
    close(got, (2 * ys.sum(1), np.full((2, 3), 6.0)))
    total = lambda x, ys: jnp.sum(weft.vmap(g, in_axes=(None, 0))(x, ys))
    close(weft.jit(weft.grad(total))(3.0, ys), 2 * ys.sum())


def _jitted_rule(f):
    return weft.jit(
        lambda primals, tangents: (f(*primals), 3.0 * jnp.cos(primals[0]) * tangents[0])
    )


def _rule_by_jvp(f):
    # A loop in the function, so that its own jvp carries values and tangents together.
    fun = lambda x: lax.fori_loop(0, 1, lambda i, c: jnp.sin(c), x)

    def rule(primals, tangents):
        out, tangent = weft.jvp(fun, primals, tangents)
        return out, 3.0 * tangent

    return rule


def _rule_by_scan(f):
    def rule(primals, tangents):
        step = lambda c, _: ((jnp.sin(c[0]), jnp.cos(c[0]) * c[1]), None)
        (out, tangent), _ = lax.scan(step, (primals[0], tangents[0]), None, length=1)
        return out, 3.0 * tangent

    return rule


def _rule_by_cond(f):
    def rule(primals, tangents):
        x, t = primals[0], tangents[0]
        true = lambda x, t: (jnp.sin(x), 3.0 * jnp.cos(x) * t)
        return lax.cond(jnp.sum(x) < 100.0, true, lambda x, t: (x, t), x, t)

    return rule


def _rule_by_while(f):
    def rule(primals, tangents):
        step = lambda s: (s[0] + 1, jnp.sin(s[1]), 3.0 * jnp.cos(s[1]) * s[2])
        out = lax.while_loop(lambda s: s[0] < 1, step, (0, primals[0], tangents[0]))
        return out[1], out[2]

    return rule


def _rule_by_another_function_with_a_rule(f):
    both = weft.custom_jvp(lambda x, t: (jnp.sin(x), 3.0 * jnp.cos(x) * t))

    @both.defjvp
    def _(primals, tangents):
        return both(*primals), weft.jvp(both.fun, primals, tangents)[1]

    return lambda primals, tangents: both(primals[0], tangents[0])


def _rule_by_vmap(f):
    return lambda primals, tangents: weft.vmap(
        lambda x, t: weft.checkpoint(lambda x, t: (jnp.sin(x), 3.0 * jnp.cos(x) * t))(x, t)
    )(primals[0], tangents[0])


MIXING = [_jitted_rule, _rule_by_jvp, _rule_by_scan, _rule_by_cond, _rule_by_while,
          _rule_by_another_function_with_a_rule, _rule_by_vmap]  # fmt: skip


@pytest.mark.parametrize("make", MIXING, ids=lambda m: m.__name__.strip("_").replace("_", " "))
def test_rules_may_compute_values_and_tangents_in_one_op(make):
    g = weft.custom_jvp(lambda x: jnp.sin(x))
    g.defjvp(make(g))
    loss = lambda x: jnp.sum(g(x) ** 2)
    want = 6 * np.sin(X) * np.cos(X)
    close(weft.jvp(g, (X,), (X,)), (np.sin(X), 3 * np.cos(X) * X))
    if make is not _rule_by_while:
        close(weft.grad(loss)(X), want)
        close(weft.jit(weft.grad(weft.jit(loss)))(X), want)
        close(weft.jit(weft.vmap(weft.grad(loss)))(np.stack([X, X])), np.stack([want, want]))
    out, push = weft.linearize(g, X)
    close((out, push(X)), (np.sin(X), 3 * np.cos(X) * X))


def test_library_functions_use_rules_that_stay_finite():
    # Naively, the derivative of log(1 + exp x) at 100 is inf / inf.
    close(weft.grad(lambda x: jnp.logaddexp(x, 0.0))(100.0), 1.0)
    close(weft.grad(weft.nn.softplus)(100.0), 1.0)
    close(weft.grad(weft.nn.relu)(0.0), 0.0)
    close(weft.grad(lambda x: weft.nn.silu(x))(-1000.0), 0.0)


NOT_LINEAR = {
    "mul": lambda t: t * t,
    "sin": jnp.sin,
    "select_n": lambda t: jnp.where(t > 0, t, 2 * t),
    "div": lambda t: 1 / t,
}


@pytest.mark.parametrize("op", NOT_LINEAR)
@pytest.mark.parametrize("around", [lambda f: f, weft.jit, weft.checkpoint])
def test_rules_that_are_not_linear_in_tangents_have_no_reverse_mode(op, around):
    @weft.custom_jvp
    def f(x):
        return 2 * x

    f.defjvp(lambda primals, tangents: (2 * primals[0], NOT_LINEAR[op](tangents[0])))
    close(weft.jvp(f, (3.0,), (2.0,))[1], NOT_LINEAR[op](2.0))
    message = f"reached {op}, which is not linear .*test_custom_jvp.*custom_jvp must be linear"
    with pytest.raises(TypeError, match=message):
        weft.grad(around(f))(3.0)

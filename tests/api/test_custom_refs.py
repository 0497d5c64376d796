"""Refs as arguments of functions with custom rules."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax


def doubled(bwd, fwd=None, fun=None):
    """x * 2 as a function of (x, ref), whose derivative is said to be 3."""
    f = weft.custom_vjp(fun or (lambda x, r: x * 2))
    f.defvjp(fwd or (lambda x, r: (x * 2, r)), bwd)
    return f


def _log(r, g):
    r[...] = g
    return g * 3, None


def _count(r, g):
    weft.ref.addupdate(r, ..., g)
    return g * 3, None


logged, counted = doubled(_log), doubled(_count)


def test_a_function_with_rules_reads_and_writes_the_refs_it_is_given():
    def fun(x, r):
        r[...] += x
        return x * r[...]

    f = weft.custom_vjp(fun)
    f.defvjp(lambda x, r: (fun(x, r), None), lambda _, g: (g, None))
    g = weft.custom_jvp(fun)
    g.defjvp(lambda p, t: (fun(*p), t[0]))
    for call in (f, g, weft.jit(f), weft.jit(g)):
        ref = weft.new_ref(1.0)
        assert call(2.0, ref) == 6.0
        assert ref[...] == 3.0
        assert isinstance(ref[...], weft.Array)


TRANSFORMED = {
    "grad": lambda x, r: weft.grad(lambda x: logged(x, r) ** 2)(x),
    "grad of both": lambda x, r: weft.grad(lambda x, r: logged(x, r) ** 2)(x, r),
    "jit of grad": lambda x, r: weft.jit(weft.grad(lambda x, r: logged(x, r) ** 2))(x, r),
    "grad of jit": lambda x, r: weft.grad(weft.jit(lambda x: logged(x, r) ** 2))(x),
    "jit, grad, jit": lambda x, r: weft.jit(
        lambda x, r: weft.grad(weft.jit(lambda x, r: logged(x, r) ** 2))(x, r)
    )(x, r),
    "checkpoint": lambda x, r: weft.grad(weft.checkpoint(lambda x: logged(x, r) ** 2))(x),
    "branch": lambda x, r: weft.grad(
        lambda x: lax.cond(x > 0, lambda x: logged(x, r) ** 2, lambda x: x, x)
    )(x),
    "vjp": lambda x, r: weft.vjp(lambda x: logged(x, r) ** 2, x)[1](1.0)[0],
}


@pytest.mark.parametrize("case", TRANSFORMED)
def test_a_backward_rule_writes_the_cotangent_to_a_ref(case):
    ref = weft.new_ref(0.0)
    assert TRANSFORMED[case](2.0, ref) == 2 * 4.0 * 3
    assert ref[...] == 2 * 4.0


@pytest.mark.parametrize("jit", [lambda f: f, weft.jit])
def test_backward_rules_in_a_loop_add_up_in_a_ref(jit):
    def run(x, r):
        return weft.grad(lambda x: lax.scan(lambda c, _: (counted(c, r), None), x, None, 3)[0])(x)

    ref = weft.new_ref(0.0)
    assert jit(run)(2.0, ref) == 27.0
    assert ref[...] == 1.0 + 3.0 + 9.0


def test_a_loop_run_in_place_gives_what_it_stacks():
    def run(x):
        def body(c, v):
            return counted(c, ref) * v, c + v

        c, ys = lax.scan(body, x, jnp.array([1.0, 2.0, 5.0]), reverse=True)
        return c + ys @ jnp.array([1.0, 10.0, 100.0])

    ref = weft.new_ref(0.0)
    value, gradient = weft.value_and_grad(run)(1.0)
    # The carries are 1, 10, 40 and 80; by the rule, their slopes are 1, 15, 90 and 270.
    assert value == 80.0 + (40 + 1) + 10 * (10 + 2) + 100 * (1 + 5)
    assert gradient == 270 + 90 + 10 * 15 + 100
    # What reaches the three calls: of the last carry 1, of the others v * (3 * later + weight).
    assert ref[...] == 1 + 2 * (3 * 1 + 1) + 5 * (3 * 2 * (3 * 1 + 1) + 10)


def test_examples_of_a_batch_each_have_their_part_of_a_ref():
    refs = weft.new_ref(jnp.zeros(3))
    x = np.arange(3.0, dtype=np.float32)

    def total(x, r):
        return weft.vmap(lambda x, r: logged(x, r) ** 2)(x, r).sum()

    for run in (weft.grad(total), weft.vmap(weft.grad(lambda x, r: logged(x, r) ** 2))):
        refs[...] = 0.0
        np.testing.assert_array_equal(run(x, refs), 2 * 2 * x * 3)
        np.testing.assert_array_equal(refs[...], 4 * x)


def test_the_derivative_of_what_a_ref_holds_passes_by_the_call():
    def run(x):
        r = weft.new_ref(jnp.sin(x))
        return counted(x, r) + r[...] ** 2

    for f in (run, weft.jit(run)):
        np.testing.assert_allclose(weft.grad(f)(2.0), 3 + 2 * np.sin(2.0) * np.cos(2.0), rtol=1e-6)


def test_a_forward_rule_of_custom_jvp_reads_a_ref():
    f = weft.custom_jvp(lambda x, r: x * r[...])
    f.defjvp(lambda p, t: (p[0] * p[1][...], t[0] * p[1][...] * 10))
    ref = weft.new_ref(3.0)

    def local(x):
        return f(x, weft.new_ref(3.0))

    for run in (lambda x: f(x, ref), local, weft.jit(local)):
        assert weft.jvp(run, (2.0,), (1.0,)) == (6.0, 30.0)
        assert weft.grad(run)(2.0) == 30.0


def test_refs_in_trees_and_among_nondiff_arguments_reach_the_backward_rule():
    f = weft.custom_vjp(lambda x, d: x * d["s"])

    def bwd(d, g):
        d["r"][...] = g
        return g * d["s"], None

    f.defvjp(lambda x, d: (x * d["s"], d), bwd)
    ref = weft.new_ref(0.0)
    assert weft.grad(lambda x: f(x, {"s": 3.0, "r": ref}))(2.0) == 3.0
    assert ref[...] == 1.0

    g = weft.custom_vjp(lambda x, r: x * 2, nondiff_argnums=1)
    g.defvjp(lambda x, r: (x * 2, None), lambda r, _, ct: (_log(r, ct)[0],))
    ref = weft.new_ref(0.0)
    assert weft.grad(lambda x: 5.0 * g(x, ref))(2.0) == 15.0
    assert ref[...] == 5.0


def test_one_ref_given_twice_is_refused():
    f = weft.custom_vjp(lambda x, a, b: x)
    f.defvjp(lambda x, a, b: (x, None), lambda _, g: (g, None, None))
    ref = weft.new_ref(0.0)
    with pytest.raises(ValueError, match="twice"):
        f(1.0, ref, ref)


def test_a_branch_that_is_not_known_cannot_take_a_ref_under_differentiation():
    def run(x):
        ref = weft.new_ref(0.0)
        weft.grad(lambda x: lax.cond(x > 0, lambda x: logged(x, ref), lambda x: x, x))(x)
        return ref[...]

    with pytest.raises(TypeError, match="cond.*weft.numpy.where"):
        weft.jit(run)(1.0)


def through_ref(call):
    """x -> w * x * x + w * x, of which the rule of the first factor says ten times the truth."""

    def f(x, w):
        ref = weft.new_ref(x)
        ref[...] = call(ref, w) * x
        return ref[...] + call(weft.new_ref(x), w)

    return f


@weft.custom_vjp
def weighted(ref, w):
    return ref[...] * w


weighted.defvjp(
    lambda ref, w: (ref[...] * w, (ref[...], w)), lambda res, ct: (ct * res[1] * 10, ct * res[0])
)

CALLS = {
    "here": weighted,
    "jit": weft.jit(weighted),
    "cond": lambda ref, w: lax.cond(w > 0, lambda: weighted(ref, w), lambda: w),
    "scan": lambda ref, w: lax.scan(lambda c, _: (c + weighted(ref, w), None), w * 0, None, 1)[0],
    "checkpoint": lambda ref, w: weft.checkpoint(lambda w: weighted(ref, w))(w),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_ref_made_inside_has_the_cotangent_that_the_rule_returns_for_it(name):
    grad = weft.grad(through_ref(CALLS[name]), (0, 1))
    x, w = 1.5, 2.0
    want = (10 * w * x + w * x + 10 * w, x * x + x)
    for run in (grad, weft.jit(grad)):
        np.testing.assert_allclose(run(x, w), want, rtol=1e-6)
    xs = np.array([x, x], np.float32)
    batched = weft.vmap(grad)(xs, np.float32([w, w]))
    np.testing.assert_allclose(batched, np.transpose([want, want]), rtol=1e-6)


def test_what_a_ref_holds_afterwards_keeps_its_own_cotangent():
    @weft.custom_vjp
    def scale(ref):
        ref[...] = ref[...] * 2
        return ref[...]

    scale.defvjp(lambda ref: (scale(ref), None), lambda _, ct: (7 * ct,))

    def f(x):
        ref = weft.new_ref(x)
        return scale(ref) + 100 * ref[...]

    assert weft.grad(f)(1.0) == 107.0


def test_rules_with_symbolic_zeros_get_refs_as_values_too():
    @weft.custom_vjp
    def f(ref, x):
        return ref[...] * x

    def forward(ref, x):
        assert not ref.perturbed and x.perturbed
        return ref.value[...] * x.value, ref.value[...]

    f.defvjp(forward, lambda held, ct: (None, ct * held), symbolic_zeros=True)
    ref = weft.new_ref(jnp.float32(3))
    assert weft.grad(lambda x: f(ref, x))(2.0) == 3

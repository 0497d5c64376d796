"""scan, loops, conditionals, map, associative_scan: arguments, structures, types, cost."""

import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax
from weft.core.jaxpr import walk_eqns

X = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
EAGER_AND_JIT = pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])


def primitives(f, *args):
    return [e.primitive.name for e in walk_eqns(weft.make_jaxpr(f)(*args))]


# scan ----------------------------------------------------------------------------------------


@EAGER_AND_JIT
def test_scan_carries_and_stacks_trees(wrap):
    def body(carry, x):
        n, total = carry["n"], carry["total"]
        new = {"n": n + 1, "total": total + x["a"] * x["b"][0]}
        return new, ({"before": total}, x["a"] * n)

    xs = {"a": X, "b": (2 * X,)}
    last, ys = wrap(lambda xs: lax.scan(body, {"n": 0, "total": 0.0}, xs))(xs)
    sums = np.cumsum(2 * X**2)
    close(last, {"n": 4, "total": sums[-1]})
    close(ys, ({"before": np.concatenate([[0], sums[:-1]])}, X * np.arange(4)))


@pytest.mark.parametrize("unroll", [0, 1, 2, 3, 4, 7, True, False, np.int64(3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolling_does_not_change_the_result(unroll, reverse):
    last, ys = lax.scan(lambda c, x: (c * 0.5 + x, c), 1.0, X, reverse=reverse, unroll=unroll)
    c, want = 1.0, []
    for x in X[::-1] if reverse else X:
        want.append(c)
        c = c * 0.5 + x
    close((last, ys), (c, want[::-1] if reverse else want))


def test_scan_without_arrays_counts_by_length():
    last, ys = lax.scan(lambda c, _: (c + 1, c), 0, None, length=5)
    close((last, ys), (5, np.arange(5)))
    last, ys = lax.scan(lambda c, x: (c, (x, None)), (), {"x": X, "none": None}, length=4)
    assert last == () and ys[1] is None
    close(ys[0], {"x": X, "none": None})


@EAGER_AND_JIT
def test_scan_of_length_zero_keeps_the_carry_and_gives_empty_results(wrap):
    f = lambda: lax.scan(
        lambda c, x: (c + x.sum(), {"y": 2 * x}), 3.0, np.zeros((0, 2), np.float32)
    )
    last, ys = wrap(f)()
    close(last, 3.0)
    assert ys["y"].shape == (0, 2) and ys["y"].dtype == np.float32
    last, ys = lax.scan(lambda c, _: (c, c), X, None, length=0)
    assert ys.shape == (0, 4)
    grad = weft.grad(lambda x: lax.scan(lambda c, _: (c * x, None), x, None, length=0)[0])
    close(grad(3.0), 1.0)


def test_weakly_typed_carries_take_the_type_the_body_gives_them():
    last, _ = lax.scan(lambda c, x: (c + x, None), 0, X)
    assert last.dtype == np.float32
    last, _ = lax.scan(lambda c, x: (c + x, None), 0.0, X.astype("float16"))
    assert last.dtype == np.float16
    last, _ = lax.scan(lambda c, x: ((c[1], c[0] + x), None), (0, 1.0), X)
    assert {leaf.dtype for leaf in last} == {np.dtype("float32")}
    assert lax.scan(lambda c, _: (c + 1, None), 0, None, length=2)[0].weak_type
    changed = lax.fori_loop(0, 2, lambda i, c: c + 0.5, 0)
    assert changed == 1.0 and changed.dtype == np.float32 and not changed.weak_type


def test_results_are_as_weakly_typed_as_what_the_body_or_the_first_branch_returns():
    weak, strong, p = jnp.array(3), jnp.int32(3), jnp.array(True)
    of_loops = {(0, 0): True, (0, 1): False, (1, 0): True, (1, 1): False}
    for (i, j), expected in of_loops.items():
        a, b = (weak, strong)[i], (weak, strong)[j]
        scanned = lax.scan(lambda c, _, b=b: (b, None), a, length=2)[0]
        looped = lax.while_loop(lambda c: c < 5, lambda c, b=b: b + 5, a)
        # the first branch is the one of a false predicate
        chosen = lax.cond(p, lambda a=a: a, lambda b=b: b)
        switched = lax.switch(jnp.int32(1), [lambda b=b: b, lambda a=a: a])
        types = [x.weak_type for x in (scanned, looped, chosen, switched)]
        assert types == [expected] * 4


def test_random_keys_may_be_carried_and_stacked():
    key = weft.random.key(0)

    def body(k, _):
        k, sub = weft.random.split(k)
        return k, (sub, weft.random.uniform(sub))

    _, (subs, values) = weft.jit(lambda k: lax.scan(body, k, None, length=3))(key)
    want = []
    for i in range(3):
        key, sub = weft.random.split(key)
        want.append(float(weft.random.uniform(sub)))
        assert bool(jnp.all(weft.random.key_data(subs[i]) == weft.random.key_data(sub)))
    close(values, want)


def test_the_body_is_traced_once_whatever_the_length():
    calls = []

    def body(c, x):
        calls.append(1)
        return c + x, None

    for xs in (X, X, np.tile(X, 100)):
        lax.scan(body, np.float32(0.0), xs)
    assert len(calls) == 1


def test_one_equation_whatever_the_length():
    loop = lambda x, n: lax.scan(lambda c, _: (jnp.sin(c) * x, None), x, None, length=n)[0]
    assert len(primitives(lambda x: loop(x, 3), 1.0)) == len(
        primitives(lambda x: loop(x, 300), 1.0)
    )


def test_gradients_of_scan_compute_what_does_not_change_once():
    # exp(p) is the same in every iteration, so neither loop of the gradient computes it.
    def loss(p, x):
        return lax.scan(lambda c, a: (c * jnp.exp(p) + a, None), 0.0, x)[0]

    scans = [e for e in weft.make_jaxpr(weft.grad(loss))(0.1, X).eqns if e.primitive.name == "scan"]
    inside = [[e.primitive.name for e in s.params["jaxpr"].eqns] for s in scans]
    assert len(scans) == 2 and not any("exp" in names for names in inside)


def test_gradients_of_unused_results_cost_nothing():
    def loss(x):
        last, _ = lax.scan(lambda c, a: (c + a, jnp.exp(a)), 0.0, x)
        return last

    text = weft.jit(weft.grad(loss)).lower(X).as_text()
    assert "exponential" not in text


def test_integer_carries_pass_through_gradients():
    def loss(x):
        step = lambda c, a: ((c[0] + 1, c[1] + a * c[0].astype("float32")), c[0])
        return lax.scan(step, (0, 0.0), x)[0][1]

    for wrap in (lambda f: f, weft.jit):
        close(wrap(weft.grad(loss))(X), [0.0, 1.0, 2.0, 3.0])


# while_loop and fori_loop --------------------------------------------------------------------


@EAGER_AND_JIT
def test_while_loop_runs_while_its_condition_holds(wrap):
    step = lambda s: {"x": s["x"] * 2, "n": s["n"] + 1}
    f = lambda x: lax.while_loop(lambda s: s["x"] < 100, step, {"x": x, "n": 0})
    close(wrap(f)(3.0), {"x": 192.0, "n": 6})
    close(wrap(f)(300.0), {"x": 300.0, "n": 0})


def test_while_loop_under_vmap_runs_each_example_as_often_as_it_needs():
    f = lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] * 2, s[1] + 1), (x, 0))
    xs = np.array([1.0, 3.0, 20.0], np.float32)
    for wrap in (lambda g: g, weft.jit):
        close(wrap(weft.vmap(f))(xs), ([16.0, 12.0, 20.0], [4, 2, 0]))
    g = lambda x, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * x), (0, 1.0))[1]
    close(weft.vmap(g, in_axes=(0, None))(xs, 2), xs**2)
    close(weft.vmap(g, in_axes=(None, 0))(2.0, np.arange(3)), [1.0, 2.0, 4.0])


def test_iterations_a_finished_example_does_not_take_raise_no_nan():
    # 1 / (3 - n) would be inf at n = 3; the examples that are done do not see it.
    f = lambda n, stop: lax.while_loop(
        lambda s: s[0] < stop, lambda s: (s[0] + 1, s[1] + 1.0 / (3 - s[0])), (n, 0.0)
    )[1]
    got = weft.vmap(f, in_axes=(None, 0))(0, np.array([1, 3]))
    close(got, [1 / 3, 1 / 3 + 1 / 2 + 1])
    _, tangent = weft.jvp(
        lambda x: weft.vmap(lambda s: lax.while_loop(lambda c: c < s, lambda c: c * x, x))(
            np.array([1.5, 9.0], np.float32)
        ),
        (2.0,),
        (1.0,),
    )
    close(tangent, [1.0, 4 * 2.0**3])


@EAGER_AND_JIT
def test_fori_loop_counts_from_lower_to_upper(wrap):
    body = lambda i, c: (c[0] + i, c[1].at[i].set(2 * i))
    close(wrap(lambda: lax.fori_loop(1, 4, body, (0, jnp.zeros(5))))(), (6, [0, 2, 4, 6, 0]))
    close(wrap(lambda: lax.fori_loop(4, 1, body, (0, jnp.zeros(5))))(), (0, np.zeros(5)))
    close(wrap(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0))(5), 10)
    close(lax.fori_loop(-2, 2, lambda i, c: c + i, 0), -2)
    close(lax.fori_loop(np.int64(0), np.int32(3), lambda i, c: c + 1, 0), 3)


@EAGER_AND_JIT
@pytest.mark.parametrize("bounds", [(0.0, 2.5), (0.5, 3.0), (-0.5, 0.6), (3.0, 1.0), (0.0, 0.0)])
def test_fori_loop_counts_in_floats(wrap, bounds):
    want = [100.0 * i + 1 for i in np.arange(*bounds)]
    loop = lambda lo, hi: lax.fori_loop(lo, hi, lambda i, c: c + 100 * i + 1, 0.0)
    close(wrap(loop)(*bounds), sum(want))


def test_fori_loop_with_static_bounds_differentiates_in_reverse():
    f = lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x)
    close(weft.grad(f)(2.0), 32.0)
    close(weft.grad(lambda x: lax.fori_loop(0.0, 3.0, lambda i, c: c * x, x))(2.0), 32.0)
    close(weft.jit(weft.grad(weft.grad(f)))(2.0), 48.0)
    for unroll in (True, 2):
        close(lax.fori_loop(0, 5, lambda i, c: c + i, 0, unroll=unroll), 10)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit, weft.checkpoint])
def test_a_scan_hoists_what_a_branch_makes_of_constants_alone(wrap):
    @wrap
    def body(p, c):
        return lax.cond(p > 0, lambda: c * jnp.sin(p), lambda: p * 1.0)

    f = lambda p, x: lax.scan(lambda c, _: (body(p, c), None), x, None, length=2)[0]
    want = 3 * 2 * np.sin(2) * np.cos(2), np.sin(2) ** 2
    close(weft.grad(f, (0, 1))(2.0, 3.0), want)


def test_loops_in_loops():
    def outer(i, c):
        return lax.fori_loop(0, i, lambda j, d: d + j, c)

    close(lax.fori_loop(0, 5, outer, 0), sum(j for i in range(5) for j in range(i)))
    f = lambda x: lax.scan(lambda c, a: (lax.fori_loop(0, 2, lambda i, d: d * a, c), None), 1.0, x)[
        0
    ]
    close(weft.grad(f)(X), 2 * np.prod(X**2) / X)


# cond and switch -----------------------------------------------------------------------------


@EAGER_AND_JIT
def test_cond_takes_booleans_and_numbers(wrap):
    f = wrap(lambda p: lax.cond(p, lambda x: x + 1, lambda x: x - 1, 10))
    assert [int(f(p)) for p in (True, False, 3, 0, 2.5, 0.0, np.bool_(True))] == [
        11, 9, 11, 9, 11, 9, 11]  # fmt: skip


def test_operands_of_cond_are_positional_or_by_name():
    assert int(lax.cond(True, lambda: 1, lambda: 2)) == 1
    assert int(lax.cond(False, lambda x, y: x, lambda x, y: y["z"], 1, {"z": 2})) == 2
    assert int(lax.cond(True, lambda x: 1, lambda x: 2, operand=None)) == 1
    with pytest.raises(TypeError, match="by position or operand=, not both"):
        lax.cond(True, lambda x: 1, lambda x: 2, 3, operand=4)


def test_only_the_chosen_branch_runs():
    ran = []

    def branch(name):
        def f(x):
            weft.debug.callback(lambda: ran.append(name))
            return x

        return f

    f = weft.jit(lambda p: lax.cond(p, branch("yes"), branch("no"), 1.0))
    f(True), f(False), f(False)
    weft.effects_barrier()
    assert ran == ["yes", "no", "no"]


def test_a_branch_that_is_not_chosen_does_not_poison_the_gradient():
    f = lambda x: lax.cond(x > 0, lambda x: jnp.log(x), lambda x: x * 2, x)
    for wrap in (lambda g: g, weft.jit):
        close(wrap(weft.grad(f))(-1.0), 2.0)
        close(wrap(weft.grad(f))(4.0), 0.25)


@EAGER_AND_JIT
def test_switch_clamps_its_index(wrap):
    f = wrap(lambda i: lax.switch(i, [lambda: 10, lambda: 20, lambda: 30]))
    assert [int(f(i)) for i in (-5, 0, 1, 2, 7)] == [10, 10, 20, 30, 30]
    for dtype in ("uint8", "int8", "int16", "uint32"):
        assert int(f(np.ones((), dtype))) == 20
    assert int(lax.switch(0, [lambda x: x * 2], 4)) == 8


def test_a_batched_predicate_selects_for_each_example():
    f = lambda p, x: lax.cond(p, lambda x: {"y": jnp.sin(x)}, lambda x: {"y": x * 2}, x)
    p = np.array([True, False, True, False])
    want = {"y": np.where(p, np.sin(X), 2 * X)}
    close(weft.jit(weft.vmap(f))(p, X), want)
    close(weft.vmap(f, in_axes=(None, 0))(True, X), {"y": np.sin(X)})
    assert "cond" in primitives(weft.vmap(f, in_axes=(None, 0)), True, X)
    assert "cond" not in primitives(weft.vmap(f), p, X)
    rows = np.stack([X, X + 1])
    close(
        weft.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x], x))(
            np.array([1, 2]), rows
        ),
        np.stack([np.cos(rows[0]), rows[1]]),
    )


# What each does to x may differ between examples; y it only passes on.
PASSING = {
    "cond": lambda f, x, y: lax.cond(x < 3, f, lambda x, y: (x, y), x, y),
    "closed over": lambda f, x, y: lax.cond(x < 3, lambda: f(x, y), lambda: (x, y)),
    "switch": lambda f, x, y: lax.switch(jnp.int32(x < 3), [lambda x, y: (x, y), f], x, y),
    "while": lambda f, x, y: lax.while_loop(lambda c: c[0] < 3, lambda c: f(*c), (x, y)),
    "fori": lambda f, x, y: lax.fori_loop(0, jnp.int32(3 - x), lambda i, c: f(*c), (x, y)),
    "scan": lambda f, x, y: lax.scan(lambda c, _: (f(*c), None), (x, y), None, length=2)[0],
    "jit": lambda f, x, y: weft.jit(f)(x, y),
}


@pytest.mark.parametrize("inner", PASSING)
@pytest.mark.parametrize("outer", PASSING)
def test_vmap_leaves_alone_what_control_flow_only_passes_on(outer, inner):
    def f(x, y):
        return PASSING[outer](lambda x, y: PASSING[inner](lambda x, y: (x + 1, y), x, y), x, y)

    x, y = jnp.arange(5.0), jnp.array([7.0, 8.0])
    got = weft.jit(weft.vmap(f, (0, None), (0, None)))(x, y)
    close(got, (np.array([_one_by_one(outer, inner, v) for v in range(5)]), y))


def _one_by_one(outer, inner, v):
    """What `f` makes of one number."""

    def apply(kind, step, v):
        if kind in ("cond", "closed over", "switch"):
            return step(v) if v < 3 else v
        if kind == "while":
            while v < 3:
                v = step(v)
            return v
        times = {"fori": max(0, int(3 - v)), "scan": 2, "jit": 1}[kind]
        for _ in range(times):
            v = step(v)
        return v

    return apply(outer, lambda v: apply(inner, lambda v: v + 1, v), v)


def test_what_only_one_branch_passes_on_is_batched():
    f = lambda x, y: lax.cond(x < 3, lambda: (x, y), lambda: (x, y + 1))
    with pytest.raises(ValueError, match="result\\[1\\]"):
        weft.vmap(f, (0, None), (0, None))(X, X)
    got = weft.vmap(f, (0, None))(np.array([1.0, 5.0], np.float32), X)[1]
    close(got, np.stack([X, X + 1]))


def test_branches_share_what_they_close_over():
    def f(x, y):
        return lax.cond(x > 0, lambda: x * y, lambda: y)

    for wrap in (lambda g: g, weft.jit):
        close(wrap(weft.grad(f, argnums=(0, 1)))(2.0, 3.0), (3.0, 2.0))
        close(wrap(weft.grad(f, argnums=(0, 1)))(-2.0, 3.0), (0.0, 1.0))


def test_platform_dependent_compiles_the_platform_s_own_function():
    f = lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=jnp.tan, default=jnp.cos)
    close(weft.jit(f)(1.0), 2.0)
    close(weft.grad(lambda x: f(x) ** 2)(1.0), 4.0)
    elsewhere = weft.ffi.ffi_call("of_another_platform", weft.ShapeDtypeStruct((), "float32"))
    g = lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=lambda x: elsewhere(x))
    close(g(1.0), 2.0)
    close(weft.vmap(g)(np.arange(2.0)), [1.0, 2.0])
    text = weft.jit(f).lower(1.0).as_text()
    assert "stablehlo.tan" not in text and "stablehlo.cosine" not in text


# map and associative_scan --------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, np.int64(3), 4, 10])
def test_map_applies_a_function_to_each_slice(batch_size):
    f = lambda x: {"sin": jnp.sin(x["a"]), "sum": x["a"] + x["b"][0]}
    xs = {"a": X, "b": (2 * X,)}
    close(lax.map(f, xs, batch_size=batch_size), {"sin": np.sin(X), "sum": 3 * X})


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_gives_all_prefixes_or_suffixes(n, reverse):
    x = np.arange(1, n + 1, dtype=np.float32)
    flip = (lambda v: v[..., ::-1]) if reverse else (lambda v: v)
    close(lax.associative_scan(jnp.multiply, x, reverse=reverse), flip(np.cumprod(flip(x))), 1e-3)
    rows = np.stack([x, -x])
    got = lax.associative_scan(jnp.add, rows, reverse=reverse, axis=-1)
    close(got, flip(np.cumsum(flip(rows), 1)))


def test_associative_scan_of_trees_solves_recurrences():
    # c_i = a_i c_{i-1} + b_i, as a scan over maps c ↦ a c + b.
    a, b = X, np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    combine = lambda f, g: {"a": f["a"] * g["a"], "b": g["a"] * f["b"] + g["b"]}
    got = weft.jit(lambda a, b: lax.associative_scan(combine, {"a": a, "b": b}))(a, b)["b"]
    c, want = 0.0, []
    for p, q in zip(a, b, strict=True):
        c = p * c + q
        want.append(c)
    close(got, want)


def test_associative_scan_of_a_ref_is_refused():
    with pytest.raises(TypeError, match=r"elems\['a'\].* is a Ref; scan its value, ref\[...\]"):
        lax.associative_scan(lax.add, {"a": weft.new_ref(np.arange(4.0))})


def test_associative_scan_has_logarithmic_depth():
    f = lambda x: lax.associative_scan(jnp.add, x)
    adds = primitives(f, np.zeros(1024, np.float32)).count("add")
    assert adds <= 2 * 10


def test_empty_inputs_are_mapped_to_empty_results():
    for batch_size in (None, 0, 2):
        out = lax.map(lambda x: {"s": x.sum()}, np.zeros((0, 2), np.float32), batch_size=batch_size)
        assert out["s"].shape == (0,) and out["s"].dtype == np.float32


def test_scan_bodies_may_return_a_list_and_weakly_typed_results():
    last, ys = lax.scan(lambda c, x: [c + x, 1.0], 0.0, X)
    close((last, ys), (X.sum(), np.ones(4)))
    assert ys.weak_type
    assert lax.scan(lambda c, x: (c, x), 0.0, X)[1].weak_type is False


def test_effects_in_differentiated_loops_happen_beside_work_that_does_not_change():
    seen = []

    def loss(p, x):
        def body(c, a):
            weft.debug.callback(lambda v: seen.append(float(v)), a)
            return c * jnp.exp(p) + a, None

        return lax.scan(body, 0.0, x)[0]

    value, grad = weft.jit(weft.value_and_grad(loss))(0.0, X)
    weft.effects_barrier()
    close(value, X.sum())
    close(grad, 3 * X[0] + 2 * X[1] + X[2])
    assert sorted(seen) == sorted(X.tolist())


def test_inner_loops_that_hoist_some_of_their_results_are_well_formed():
    def f(x):
        inner = lambda c: lax.fori_loop(0, 0, lambda i, d: d * 2.0, x) * c @ x
        return lax.fori_loop(0, 2, lambda i, c: c * inner(c), x).sum()

    with weft.enable_checks(True):
        hessian = weft.jit(weft.hessian(f))(X)
    assert np.isfinite(np.asarray(hessian)).all()


def test_ordered_effects_take_place_in_a_loop_with_a_batched_condition(capsys):
    def body(c):
        weft.debug.print("at {}", c, ordered=True)
        return c + 1

    out = weft.vmap(lambda x: lax.while_loop(lambda c: c < 3, body, x))(np.arange(2))
    weft.effects_barrier()
    np.testing.assert_array_equal(out, [3, 3])
    assert capsys.readouterr().out.split("\n")[:2] == ["at 0", "at 1"]


@EAGER_AND_JIT
@pytest.mark.parametrize("pred", [True, False])
def test_cond_takes_an_operand_for_each_branch_in_jaxs_older_order(wrap, pred):
    f = wrap(lambda p, x, y: lax.cond(p, x, lambda a: a[0] + 1, y, lambda b: b * 2))
    np.testing.assert_allclose(f(pred, (3.0,), 5.0), 4.0 if pred else 10.0)


@pytest.mark.parametrize(
    "call",
    [
        "fori_loop(0, 5, lambda i, x: x + i, 1.0)",
        "while_loop(lambda x: x < 11, lambda x: x + 1, 8.0)",
        "cond(True, lambda x: x + 1, lambda x: x, 10.0)",
    ],
)
def test_control_flow_of_numbers_may_be_what_a_process_does_first(call):
    code = f"import weft; print(float(weft.lax.{call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "11.0\n", done.stderr


def _reads_parts(xs, rows):
    """Add what each step reads: a row at a traced place, or several at once."""

    def step(total, i):
        return total + jnp.sum(jnp.sin(xs[i]) * xs[(i + 2) % 6][rows]), None

    return lax.scan(step, 0.0, jnp.arange(6))[0]


def _reads_a_ref(xs, rows):
    """Read and write a ref's rows in a loop."""
    ref = weft.new_ref(xs)

    def step(total, i):
        total = total + jnp.sum(jnp.sin(ref[i]) * ref[(i + 2) % 6][rows])
        ref[i] = ref[i]
        return total, None

    return lax.scan(step, 0.0, jnp.arange(6))[0]


@pytest.mark.parametrize("f", [_reads_parts, _reads_a_ref])
def test_cotangents_of_parts_are_added_in_place(f):
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    rows = np.array([0, 0, 3, 1])
    got = weft.grad(f)(x, rows)
    expected = np.cos(x) * np.roll(x, -2, 0)[:, rows]
    for i in range(6):
        np.add.at(expected[(i + 2) % 6], rows, np.sin(x[i]))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_loop_that_reads_parts_sums_no_whole_arrays_in_its_derivative():
    jaxpr = weft.make_jaxpr(weft.grad(_reads_parts))(jnp.ones((6, 4)), np.array([0, 0, 3, 1]))
    backward = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"][-1]
    made = [
        eqn.primitive.name
        for eqn in backward.params["jaxpr"].eqns
        if any(v.aval.shape == (6, 4) for v in eqn.outvars)
    ]
    assert made == ["dynamic_update_slice", "dynamic_update_slice"]

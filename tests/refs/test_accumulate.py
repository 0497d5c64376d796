"""Cotangents added up in refs."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp


def test_cotangents_are_added_to_refs_or_returned_or_left_out():
    _, f_vjp = weft.vjp(lambda a, b: a * b["x"] + b["y"], 2.0, {"x": 3.0, "y": 4.0})
    total, other = weft.new_ref(1.0), weft.new_ref(5.0)
    out = f_vjp.with_refs(total, {"x": weft.ad.GradValue(), "y": other})(10.0)
    assert out == (weft.ad.GradRef(), {"x": 20.0, "y": weft.ad.GradRef()})
    assert (total[...], other[...]) == (31.0, 15.0)
    out = f_vjp.with_refs(weft.ad.DontWant(), {"x": other, "y": weft.ad.DontWant()})(1.0)
    assert out == (weft.ad.DidntWant(), {"x": weft.ad.GradRef(), "y": weft.ad.DidntWant()})
    assert other[...] == 17.0
    assert f_vjp.with_refs()(1.0) == f_vjp(1.0)


def test_gradients_of_steps_add_up_under_jit():
    @weft.jit
    def step(ref, x):
        _, f_vjp = weft.vjp(jnp.sin, x)
        return f_vjp.with_refs(ref)(jnp.ones_like(x))

    ref = weft.new_ref(jnp.zeros(3))
    x = np.array([0.1, 0.2, 0.3], np.float32)
    assert step(ref, x) == step(ref, 2 * x) == (weft.ad.GradRef(),)
    np.testing.assert_allclose(ref[...], np.cos(x) + np.cos(2 * x), rtol=1e-6)


BAD = {
    "structure": (lambda f: f.with_refs(weft.new_ref(0.0)), ValueError, "structure.*GradValue"),
    "shape": (
        lambda f: f.with_refs(weft.new_ref(jnp.zeros(2)), weft.ad.GradValue()),
        TypeError,
        r"refs\[0\] must hold f32\[\].*f32\[2\]",
    ),
    "no ref": (
        lambda f: f.with_refs(weft.ad.GradValue(), 3.0),
        TypeError,
        r"refs\[1\] must be a Ref.*float",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_refs_are_refused_with_the_remedy(case):
    call, error, match = BAD[case]
    _, f_vjp = weft.vjp(lambda a, b: a * b, 2.0, 3.0)
    with pytest.raises(error, match=match):
        call(f_vjp)


def test_the_gradient_of_what_a_ref_held_is_added_to_a_ref():
    def f(ref, scale):
        ref[...] = jnp.sin(ref[...])
        return scale * ref[...] ** 2

    for run in (lambda g: g(), lambda g: weft.jit(g)()):
        ref, total = weft.new_ref(2.0), weft.new_ref(100.0)

        def both(ref=ref, total=total):
            _, f_vjp = weft.vjp(f, ref, 3.0)
            return f_vjp.with_refs(total, weft.ad.GradValue())(1.0)

        assert run(both) == (weft.ad.GradRef(), pytest.approx(np.sin(2.0) ** 2))
        assert ref[...] == pytest.approx(np.sin(2.0))
        assert total[...] == pytest.approx(100 + 6 * np.sin(2.0) * np.cos(2.0))


def test_a_ref_needs_a_ref_for_its_gradient_and_comes_once():
    ref = weft.new_ref(2.0)
    _, f_vjp = weft.vjp(lambda r: r[...] ** 2, ref)
    for call in (lambda: f_vjp(1.0), lambda: f_vjp.with_refs(weft.ad.GradValue())):
        with pytest.raises(ValueError, match=r"primals\[0\] is a Ref.*with_refs"):
            call()
    with pytest.raises(ValueError, match="the same Ref is given twice"):
        weft.vjp(lambda a, b: a[...] + b[...], ref, ref)


def test_what_is_not_wanted_is_not_computed():
    f = weft.jit(lambda w, x: jnp.tanh(w @ x) @ w)
    w, x = np.eye(3, dtype=np.float32), np.ones(3, np.float32)
    y, f_vjp = weft.vjp(f, w, x)

    def products(*refs):
        return str(weft.make_jaxpr(f_vjp.with_refs(*refs))(y)).count("= dot_general")

    want, not_wanted = weft.ad.GradValue(), weft.ad.DontWant()
    assert [products(want, want), products(want, not_wanted), products(not_wanted, want)] == [
        4,
        3,
        2,
    ]
    assert products(not_wanted, not_wanted) == 0
    whole, part = f_vjp(y), f_vjp.with_refs(want, not_wanted)(y)
    np.testing.assert_array_equal(whole[0], part[0])
    assert part[1] == weft.ad.DidntWant()


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_of_slices_are_added_to_their_part_of_a_ref(jit):
    def f(x, i):
        return 2 * x[i] + jnp.sum(x[1:3] ** 2)

    f = weft.jit(f) if jit else f
    x = np.arange(6, dtype=np.float32)
    total = weft.new_ref(jnp.zeros(6))

    def back(i):
        _, f_vjp = weft.vjp(f, x, i)
        f_vjp.with_refs(total, weft.ad.DontWant())(1.0)

    assert "f32[6] = broadcast_in_dim" not in str(weft.make_jaxpr(back)(4))
    for i in (4, 0, -1):
        back(i)
    np.testing.assert_array_equal(total[...], [2, 6, 12, 0, 2, 2])

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

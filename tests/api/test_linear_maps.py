"""What vjp gives as a value: what it keeps, and what is left out and put back."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp

W = np.arange(6, dtype=np.float32).reshape(3, 2) / 10
X = np.array([[1, -2, 3]], np.float32)


def layer(w, x):
    return jnp.tanh(x @ w)


def gradients(ct):
    inner = ct * (1 - np.tanh(X @ W) ** 2)
    return X.T @ inner, inner @ W.T


def check(got):
    for a, b in zip(got, gradients(np.ones((1, 2), np.float32)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_vjp_shows_what_it_keeps_of_its_arguments_and_what_it_computed():
    w, x = jnp.array(W), jnp.array(X)
    _, f_vjp = weft.vjp(layer, w, x)
    assert f_vjp.args_res[0] is w and f_vjp.args_res[1] is x
    [slope] = f_vjp.opaque_residuals
    np.testing.assert_allclose(slope, 1 - np.tanh(X @ W) ** 2, rtol=1e-5)
    leaves = weft.tree.leaves(f_vjp)
    assert leaves[0] is w and leaves[1] is x and leaves[2] is slope
    _, sin_vjp = weft.vjp(jnp.sin, x)
    assert repr(sin_vjp.args_res) == "[NotNeeded()]"


def test_arguments_that_are_not_saved_are_put_back_before_the_call():
    w, x = jnp.array(W), jnp.array(X)
    y, f_vjp = weft.vjp(layer, w, x, saveable_args=(False, True))
    assert repr(f_vjp.args_res[0]) == "NotSaveable()"
    assert len(weft.tree.leaves(f_vjp)) == 2
    one = jnp.ones_like(y)
    check(f_vjp.replace(args_res=[w, f_vjp.args_res[1]])(one))
    with pytest.raises(ValueError, match=r"args_res\[0\] was not saved"):
        f_vjp(one)
    f_vjp.args_res[0] = w
    check(f_vjp(one))
    check(weft.tree.map(lambda leaf: leaf, f_vjp)(one))


def test_a_jitted_backward_pass_takes_the_weights_that_the_forward_pass_did_not_return():
    forward = weft.jit(lambda w, x: weft.vjp(layer, w, x, saveable_args=(False, True)))

    @weft.jit
    def backward(f_vjp, w, ct):
        f_vjp.args_res[0] = w
        return f_vjp(ct)

    y, f_vjp = forward(W, X)
    assert len(weft.tree.leaves(f_vjp)) == 2
    check(backward(f_vjp, W, jnp.ones_like(y)))


def test_one_bool_covers_a_subtree_and_tuples_match_containers_by_their_children():
    def product(d, x):
        return d["right"] * d["left"] * x + 0 * d["unused"]

    d = {"left": jnp.array(2.0), "right": jnp.array(3.0), "unused": jnp.array(1.0)}
    _, f_vjp = weft.vjp(product, d, jnp.array(5.0), saveable_args=((True, False, False), True))
    held = f_vjp.args_res[0]
    assert held["left"] == 2 and list(map(repr, (held["right"], held["unused"]))) == [
        "NotSaveable()",
        "NotNeeded()",
    ]
    f_vjp.args_res = [d, f_vjp.args_res[1]]
    assert f_vjp(1.0)[0] == {"left": 15, "right": 10, "unused": 0}
    _, none = weft.vjp(product, d, jnp.array(5.0), saveable_args=False)
    with pytest.raises(ValueError, match=r"saveable_args\[0\] must be a bool.*3 children"):
        weft.vjp(product, d, jnp.array(5.0), saveable_args=((True,), True))


def test_what_is_put_back_must_fit():
    _, f_vjp = weft.vjp(layer, W, X, saveable_args=(False, True))
    ct = np.ones((1, 2), np.float32)
    f_vjp.args_res[0] = jnp.ones((2, 2))
    with pytest.raises(TypeError, match=r"args_res\[0\].*f32\[3,2\], got f32\[2,2\]"):
        f_vjp(ct)
    f_vjp.args_res = [(W, W), X]
    with pytest.raises(ValueError, match="structure of the primals"):
        f_vjp(ct)


def test_jit_returns_the_transposed_function_with_what_it_closes_over():
    @weft.jit
    def transposed(w, x):
        return weft.linear_transpose(lambda x: x @ w, x)

    back = transposed(W, X)
    np.testing.assert_allclose(back(np.ones((1, 2), np.float32))[0], [W.sum(1)], rtol=1e-6)
    doubled = weft.tree.map(lambda w: 2 * w, back)
    np.testing.assert_allclose(doubled(np.ones((1, 2), np.float32))[0], [2 * W.sum(1)], rtol=1e-6)


class _Slotted:
    """A callable that nothing can refer to weakly."""

    __slots__ = ()

    def __call__(self, x):
        return 2 * x


def test_callables_without_weak_references_are_jitted_again_and_again():
    function = _Slotted()
    for x in (1.0, 2.0, np.ones(3)):
        np.testing.assert_array_equal(weft.jit(function)(x), 2 * np.asarray(x))


def test_a_linearized_function_is_taken_apart_as_a_partial_is():
    _, push = weft.linearize(lambda x: jnp.sin(x) * x, 2.0)
    want = np.cos(2.0) * 2.0 + np.sin(2.0)
    np.testing.assert_allclose(push.func(*push.args, 3.0, **push.keywords), 3 * want, rtol=1e-6)
    doubled = [2 * r for r in push.args[0]]
    np.testing.assert_allclose(push.func(doubled, 3.0), 6 * want, rtol=1e-6)

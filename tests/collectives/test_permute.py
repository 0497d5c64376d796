"""ppermute, pshuffle, psend and precv: who receives what, tokens, derivatives."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 4
X = np.arange(1.0, N + 1, dtype=np.float32)


def over_devices(body):
    mesh = mesh_of(Machine(i=N), ("i",))
    return weft.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def over_examples(body):
    return weft.vmap(body, axis_name="i")


def test_who_is_no_target_receives_zeros():
    for over in (over_devices, over_examples):
        out = over(lambda v: lax.ppermute(v, "i", [(3, 0), (1, 3)]))(X)
        np.testing.assert_array_equal(out, [4, 0, 0, 2])
        out = over(lambda v: lax.ppermute(v, "i", []))(X)
        np.testing.assert_array_equal(out, np.zeros(N))


def test_a_shuffle_lists_sources_a_permutation_pairs():
    for over in (over_devices, over_examples):
        out = over(lambda v: lax.pshuffle(v, "i", [2, 0, 1, 3]))(X)
        np.testing.assert_array_equal(out, X[[2, 0, 1, 3]])


def test_pairs_may_be_given_as_arrays():
    pairs = np.array([[0, 1], [1, 0]])
    out = over_devices(lambda v: lax.ppermute(v, "i", pairs))(X)
    np.testing.assert_array_equal(out, [2, 1, 0, 0])


def test_a_pytree_is_permuted_leaf_by_leaf():
    ring = [(i, (i + 1) % N) for i in range(N)]
    out = over_devices(lambda v: lax.ppermute({"a": v, "b": [2 * v]}, "i", ring))(X)
    np.testing.assert_array_equal(out["a"], np.roll(X, 1))
    np.testing.assert_array_equal(out["b"][0], np.roll(2 * X, 1))


def pipeline(v):
    """Compute stands between sending and receiving."""
    pairs = [(0, 1), (1, 2), (2, 3)]
    token = lax.psend(v * v, "i", pairs)
    w = 10 * v
    return w + lax.precv(token, v, "i", pairs)


def test_a_message_arrives_where_it_is_received():
    want = 10 * X + np.array([0, 1, 4, 9], np.float32)
    np.testing.assert_array_equal(over_devices(pipeline)(X), want)
    np.testing.assert_array_equal(weft.vmap(pipeline, axis_name="i")(X), want)


def test_the_token_has_a_type_that_shows_the_message():
    text = str(weft.make_jaxpr(over_devices(pipeline))(X))
    assert "sent[f32[1]{V:i} over i] = psend[" in text


@pytest.mark.parametrize("over", [over_devices, over_examples])
def test_the_derivative_of_a_message_runs_the_other_way(over):
    f = lambda x: over(pipeline)(x).sum()
    np.testing.assert_array_equal(weft.grad(f)(X), 10 + 2 * X * [1, 1, 1, 0])
    np.testing.assert_array_equal(weft.hessian(f)(X), np.diag([2, 2, 2, 0]))


def test_a_pytree_is_sent_and_received():
    def body(v):
        token = lax.psend({"a": v, "b": 2 * v}, "i", [(0, 3)])
        like = weft.ShapeDtypeStruct((1,), np.float32)
        out = lax.precv(token, {"a": like, "b": like}, "i", [(0, 3)])
        return out["a"] + out["b"]

    np.testing.assert_array_equal(over_devices(body)(X), [0, 0, 0, 3])


def test_a_token_may_be_carried_by_a_loop():
    ring = [(i, (i + 1) % N) for i in range(N)]

    def body(v):
        def step(_, token):
            return lax.psend(2 * lax.precv(token, v, "i", ring), "i", ring)

        return lax.precv(lax.fori_loop(0, 3, step, lax.psend(v, "i", ring)), v, "i", ring)

    np.testing.assert_array_equal(over_devices(body)(X), 8 * X)


@pytest.mark.parametrize("over", [over_devices, over_examples])
def test_a_token_carried_by_a_loop_has_derivatives_and_is_batched(over):
    ring = [(i, (i + 1) % N) for i in range(N)]

    def body(v):
        def step(state, _):
            token, total = state
            arrived = lax.precv(token, v, "i", ring)
            return (lax.psend(2 * arrived, "i", ring), total + arrived), None

        (token, total), _ = lax.scan(step, (lax.psend(v, "i", ring), 0 * v), None, length=2)
        return total + lax.precv(token, v, "i", ring)

    factors = [1, 2, 4]  # of what came from one, two and three places away
    want = sum(f * np.roll(X, k) for k, f in enumerate(factors, 1))
    back = sum(f * np.roll(X, -k) for k, f in enumerate(factors, 1))
    loss = lambda x, w: (over(body)(x) * w).sum()
    np.testing.assert_array_equal(over(body)(X), want)
    np.testing.assert_array_equal(weft.grad(loss)(X, X), back)
    both = weft.vmap(weft.grad(loss), (None, 0))(X, np.stack([X, 3 * X]))
    np.testing.assert_array_equal(both, [back, 3 * back])


def test_a_token_may_come_out_of_a_branch():
    pairs = [(0, 1)]

    def body(v):
        send = lambda w: lambda: lax.psend(w, "i", pairs)
        first = lax.psum(v, "i")[0] > 3
        return lax.precv(lax.cond(first, send(v), send(2 * v)), v, "i", pairs)

    np.testing.assert_array_equal(over_devices(body)(X), [0, 1, 0, 0])
    gradient = weft.grad(lambda x: over_devices(body)(x).sum())(X)
    np.testing.assert_array_equal(gradient, [1, 0, 0, 0])


@pytest.mark.parametrize("over", [over_devices, over_examples])
def test_pairs_may_come_from_an_iterator(over):
    body = lambda v: lax.ppermute(v, "i", zip(range(N), [1, 2, 3, 0], strict=True))
    np.testing.assert_array_equal(over(body)(X), np.roll(X, 1))
    body = lambda v: lax.ppermute(v, "i", {0: 1, 1: 0}.items())
    np.testing.assert_array_equal(over(body)(X), [2, 1, 0, 0])

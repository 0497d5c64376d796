"""pmap against what each device computes, on the host."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_each_device_has_its_element_and_collectives_go_along_the_axis():
    f = weft.pmap(lambda x: (x / lax.psum(x, "i"), lax.axis_index("i")), axis_name="i")
    share, place = f(1 + X)
    np.testing.assert_allclose(share, (1 + X) / (1 + X).sum(0), rtol=1e-6)
    assert np.asarray(place).tolist() == [0, 1, 2, 3]
    assert [s.device.id for s in share.addressable_shards] == [0, 1, 2, 3]
    assert share.addressable_shards[1].data.shape == (1, 6)


@pytest.mark.parametrize("out", [0, 1, -1, 2])
def test_axes_go_in_and_out_where_they_are_asked_to(out):
    tree = {"a": X.T, "b": X}
    f = weft.pmap(
        lambda t, y: np.float32(2) * t["a"][:, None] + t["b"][:, None] + y,
        in_axes=({"a": 1, "b": 0}, None),
        out_axes=out,
    )
    want = np.moveaxis(3 * X[:, :, None] + 1, 0, out)
    np.testing.assert_array_equal(f(tree, np.float32(1)), want)


def test_results_that_are_equal_on_all_devices_can_be_given_once():
    f = weft.pmap(lambda x: (lax.pmean(x, "i"), x), "i", out_axes=(None, 0))
    mean, same = f(X)
    np.testing.assert_allclose(mean, X.mean(0))
    np.testing.assert_array_equal(same, X)


def test_static_arguments_are_python_values_and_keywords_are_mapped():
    def f(x, n, y=0):
        assert isinstance(n, int)
        return x * n + y

    g = weft.pmap(f, static_broadcasted_argnums=1)
    np.testing.assert_array_equal(g(X, 3, y=X), 4 * X)
    np.testing.assert_array_equal(g(X, 2), 2 * X)
    h = weft.pmap(f, in_axes=(0, None), static_broadcasted_argnums=(1,))
    np.testing.assert_array_equal(h(X, 5), 5 * X)


def test_a_program_is_traced_once_for_each_type():
    traces = []

    def f(x):
        traces.append(x.shape)
        return x + 1

    g = weft.pmap(f)
    y = g(X)
    for _ in range(3):
        y = g(y)
    g(X[:2])
    np.testing.assert_array_equal(y, X + 4)
    assert traces == [(6,), (6,)]
    g.clear_cache()
    g(X)
    assert len(traces) == 3


def test_a_training_step_is_that_of_the_whole_batch():
    def loss(w, x):
        return wnp.mean((x @ w - 1) ** 2)

    @weft.pmap
    def replicate(i):
        return wnp.ones(6) + 0 * i

    step = weft.pmap(
        lambda w, x: w - 0.1 * lax.pmean(weft.grad(loss)(w, x), "batch"),
        axis_name="batch",
        donate_argnums=0,
    )
    x = np.random.default_rng(0).standard_normal((4, 5, 6)).astype(np.float32)
    w = step(replicate(np.arange(4.0)), x)
    flat = x.reshape(-1, 6).astype(float)
    want = 1 - 0.1 * 2 / 20 * flat.T @ (flat.sum(1) - 1)
    for row in np.asarray(w):
        np.testing.assert_allclose(row, want, rtol=1e-5)


def test_it_differentiates_batches_and_nests():
    f = weft.pmap(lambda x: wnp.sin(x) * lax.psum(1, "i"), axis_name="i")
    slope = weft.grad(lambda x: f(x).sum())(X)
    np.testing.assert_allclose(slope, 4 * np.cos(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weft.jvp(f, (X,), (X,))[1], 4 * X * np.cos(X), rtol=1e-5, atol=1e-5)
    both = weft.vmap(f)(np.stack([X, 2 * X]))
    np.testing.assert_allclose(both, 4 * np.sin(np.stack([X, 2 * X])), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(weft.jit(f)(X), 4 * np.sin(X), rtol=1e-5, atol=1e-5)
    inner = weft.pmap(lambda y: lax.psum(y, ("i", "j")), axis_name="j")
    total = weft.pmap(inner, axis_name="i")(X)
    np.testing.assert_allclose(total, np.full((4, 6), X.sum()))


def test_devices_are_taken_in_the_order_given():
    chosen = weft.devices()[:4][::-1]
    y = weft.pmap(lambda x: x, devices=chosen)(X)
    rows = {s.device: np.asarray(s.data)[0] for s in y.addressable_shards}
    for d, row in zip(chosen, X, strict=True):
        np.testing.assert_array_equal(rows[d], row)


def test_arrays_on_one_device_are_spread():
    x = weft.device_put(X, weft.devices()[2])
    np.testing.assert_array_equal(weft.pmap(lambda v: v + 1)(x), X + 1)


def test_it_lowers():
    text = weft.pmap(lambda x: lax.psum(x, "i"), "i").lower(X).as_text()
    assert "all_reduce" in text or "all-reduce" in text


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: weft.pmap(lambda x: x)(np.ones((99, 2))), ValueError, "requires 99 logical"),
        (lambda: weft.pmap(lambda x, y: x)(X, X[:2]), ValueError, "inconsistent sizes"),
        (lambda: weft.pmap(lambda x: x)(np.float32(1)), ValueError, "out of bounds"),
        (lambda: weft.pmap(lambda x: x, in_axes=None)(X), ValueError, "no argument is mapped"),
        (lambda: weft.pmap(lambda x: x, in_axes=(0, 0))(X), ValueError, "2 entries"),
        (lambda: weft.pmap(lambda x: x, out_axes=3)(X), ValueError, "out_axes 3"),
        (lambda: weft.pmap(lambda x: x, devices=weft.devices()[:2])(X), ValueError, "one for each"),
        (lambda: weft.pmap(lambda x, n: x, static_broadcasted_argnums=1)(X, []), ValueError,
         "hashable"),
        (lambda: weft.pmap(3), TypeError, "pmap"),
        (lambda: weft.pmap(lambda x: x, donate_argnums=-1), ValueError, "donate_argnums"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()

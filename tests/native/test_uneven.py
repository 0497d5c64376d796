"""Elementwise programs on vectors that threads do not divide, against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.native import engine, uneven

N = 200_003
CASES = {
    "maximum": (lambda x: wnp.maximum(x, 0.5), lambda x: np.maximum(x, 0.5)),
    "polynomial": (lambda x: (x * x + 1) * x - 2, lambda x: (x * x + 1) * x - 2),
    "choice": (lambda x: wnp.where(x > 0, x, -2 * x), lambda x: np.where(x > 0, x, -2 * x)),
    "positions": (lambda x: 3 * wnp.arange(N) + x, lambda x: 3 * np.arange(N) + x),
    "a scalar": (lambda x: x * x[3] + 1, lambda x: x * x[3] + 1),
    "truth": (lambda x: x * 2 > 1, lambda x: x * 2 > 1),
    "integers": (lambda x: (x * 100).astype("int32") * 7, lambda x: (x * 100).astype("i4") * 7),
    "float16": (lambda x: x.astype("float16") + 1, lambda x: x.astype("float16") + 1),
    "a gather": (
        lambda x: x[::-1] * 2 + wnp.tanh(x),
        lambda x: x[::-1] * 2 + np.tanh(x),
    ),
    "soft": (lambda x: weft.nn.softplus(x), lambda x: np.logaddexp(x, 0)),
}


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """As XLA has on the machine that runs the tests, however many that has."""
    monkeypatch.setattr(uneven, "threads", lambda: 2)


@pytest.mark.parametrize("name", CASES)
def test_vectors_of_odd_lengths(name, rng):
    x = rng.standard_normal(N).astype(np.float32)
    ours, reference = CASES[name]
    compiled = weft.jit(lambda x: ours(wnp.tanh(x))).lower(x).compile()
    assert "weft_native_join" in compiled.as_text()
    out = compiled(x)
    expected = reference(np.tanh(x))
    assert out.shape == expected.shape
    tolerance = 2e-6 if name != "float16" else 1e-3
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("a gather", "soft")])
def test_loops_that_are_vectors_with_masks_stay_whole(name, rng):
    x = rng.standard_normal(N).astype(np.float32)
    ours, reference = CASES[name]
    compiled = weft.jit(ours).lower(x).compile()
    masks = "avx512bw" in engine.host().able
    assert ("weft_native_join" in compiled.as_text()) is not masks
    rtol = 2e-6 if name != "float16" else 1e-3
    np.testing.assert_allclose(compiled(x), reference(x), rtol=rtol, atol=1e-6)


def test_several_results_share_what_they_need(rng):
    x, g = (rng.standard_normal(N).astype(np.float32) for _ in range(2))

    def update(x, m, v, g):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return x - 0.1 * m / (wnp.sqrt(v) + 1e-8), m, v

    outs = weft.jit(update, donate_argnums=(1, 2))(x, wnp.zeros(N), wnp.zeros(N), g)
    m, v = 0.1 * g.astype(np.float64), 0.01 * g.astype(np.float64) ** 2
    for out, expected in zip(outs, (x - 0.1 * m / (np.sqrt(v) + 1e-8), m, v), strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_derivatives_and_random_numbers(rng):
    x = rng.standard_normal(N).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: (wnp.maximum(x, 0.5) ** 2).sum()))(x)
    np.testing.assert_allclose(grad, np.where(x > 0.5, 2 * x, 0), rtol=1e-5)
    draw = weft.jit(lambda key: weft.random.normal(key, (N,)))
    out = np.asarray(draw(weft.random.key(0)))
    assert abs(out.mean()) < 0.02 and abs(out.std() - 1) < 0.02
    with options["native_ops"](False):
        plain = weft.jit(lambda key: weft.random.bits(key, (N,)))(weft.random.key(1))
    bits = weft.jit(lambda key: weft.random.bits(key, (N,)))(weft.random.key(1))
    assert len(np.unique(np.asarray(bits))) > 0.99 * N
    np.testing.assert_array_equal(bits, plain)


def test_what_kernels_and_scatters_read(rng):
    x = rng.standard_normal(N).astype(np.float32)
    programs = {
        "sort": (lambda x: wnp.sort(wnp.sinh(x)), lambda x: np.sort(np.sinh(x))),
        "bincount": (
            lambda x: wnp.bincount((wnp.tanh(x) * 9 + 50).astype("int32"), length=100),
            lambda x: np.bincount((np.tanh(x) * 9 + 50).astype("i4"), minlength=100),
        ),
        "histogram": (
            lambda x: wnp.histogram(wnp.tanh(x), 50, (-3, 3))[0],
            lambda x: np.histogram(np.tanh(x), 50, (-3, 3))[0],
        ),
    }
    for name, (ours, reference) in programs.items():
        compiled = weft.jit(ours).lower(x).compile()
        assert "weft_native_join" in compiled.as_text(), name
        np.testing.assert_allclose(compiled(x), reference(x), rtol=2e-6, atol=2 * (name != "sort"))
    table = np.sort(rng.standard_normal(999).astype(np.float32))
    out = weft.jit(wnp.searchsorted)(table, x)
    np.testing.assert_array_equal(out, np.searchsorted(table, x))
    draw = weft.jit(lambda key: weft.random.permutation(key, N)).lower(weft.random.key(0)).compile()
    np.testing.assert_array_equal(np.sort(draw(weft.random.key(0))), np.arange(N))


@pytest.mark.parametrize("n", [1 << 18, 99_999, 200_002])
def test_vectors_that_threads_divide_and_short_ones_are_left_alone(n):
    x = np.zeros(n, np.float32)
    assert "weft_native" not in weft.jit(lambda x: x * 2 + 1).lower(x).compile().as_text()

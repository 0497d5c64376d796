"""The example kernels against NumPy, on the default backend of the CPU."""

import numpy as np
import pytest

import weft
from examples.kernels.all_gather_matmul import sharded_product
from examples.kernels.flash_attention import flash_attention
from examples.kernels.histogram import histogram
from examples.kernels.layer_norm import layer_norm
from examples.kernels.matmul import matmul
from examples.kernels.pipeline import one_after_the_other, two_layers
from examples.kernels.softmax import softmax
from examples.kernels.stencil import diffuse


def normal(rng, *shape):
    return rng.standard_normal(shape).astype("f4")


@pytest.mark.parametrize(("m", "k", "n"), [(256, 96, 128), (200, 64, 150)])
def test_matmul_multiplies_also_what_its_tiles_do_not_divide(rng, m, k, n):
    a, b = normal(rng, m, k), normal(rng, k, n)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_softmax_of_rows(rng):
    x = normal(rng, 61, 300) * 5
    weights = np.exp(x - x.max(1, keepdims=True))
    want = weights / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(softmax(x), want, rtol=1e-5, atol=1e-7)


def reference_layer_norm(x, scale, bias):
    """The result and the cotangents for a cotangent, in float64."""
    x = x.astype("f8")
    mean = x.mean(1, keepdims=True)
    factor = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    unit = (x - mean) * factor

    def pull(ct):
        scaled = ct * scale
        along = (scaled * unit).mean(1, keepdims=True)
        d_x = (scaled - scaled.mean(1, keepdims=True) - unit * along) * factor
        return d_x, (ct * unit).sum(0), ct.sum(0)

    return unit * scale + bias, pull


def test_layer_norm_forward_and_backward(rng):
    x, scale, bias, ct = normal(rng, 37, 120), *normal(rng, 2, 120), normal(rng, 37, 120)
    out, pull = weft.vjp(layer_norm, x, scale, bias)
    want, want_pull = reference_layer_norm(x, scale, bias)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    for got, expected in zip(pull(weft.numpy.asarray(ct)), want_pull(ct), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_equals_attention(rng, causal):
    q, k, v = normal(rng, 3, 2, 256, 32)
    scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(32)
    if causal:
        scores = np.where(np.tri(256, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    got = flash_attention(q, k, v, causal=causal, block_q=64, block_k=32)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_heat_flows_to_the_neighbours(rng):
    field = normal(rng, 64, 50)
    padded = np.pad(field, 1)
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    want = field + 0.1 * (around - 4 * field)
    np.testing.assert_allclose(diffuse(field, rows=16), want, rtol=1e-5, atol=1e-5)


def test_histogram_counts_every_value(rng):
    values = rng.integers(0, 20, 4000).astype("i4")
    np.testing.assert_array_equal(histogram(values, 20), np.bincount(values, minlength=20))


@pytest.mark.parametrize("layers", [two_layers, one_after_the_other])
def test_the_pipeline_applies_both_layers(rng, layers):
    x, w1, w2 = normal(rng, 320, 48), normal(rng, 48, 64) / 7, normal(rng, 64, 32) / 8
    want = np.tanh(np.tanh(x @ w1) @ w2)
    np.testing.assert_allclose(layers(x, w1, w2), want, rtol=1e-4, atol=1e-5)


def test_rows_go_round_the_ring_of_devices(rng):
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    x, w = normal(rng, 128, 40), normal(rng, 40, 64)
    got = weft.jit(sharded_product(mesh, "d"))(x, w)
    np.testing.assert_allclose(np.asarray(got), x @ w, rtol=1e-4, atol=1e-4)

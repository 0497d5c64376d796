"""Functions of arrays inside kernels, interpreted and compiled for the CPU, against NumPy."""

import math

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl

f32, i32 = np.float32, np.int32


def blocks(x, rows, columns):
    return x.reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns)


def decayed(x):
    total, every = np.zeros(x.shape[1], f32), []
    for row in x:
        total = total * f32(0.5) + row
        every.append(total)
    return np.stack(every)


def largest(x):
    places = np.argsort(-x, axis=1, kind="stable")[:, :4]
    return np.take_along_axis(x, places, 1)


def windows(x, fill, rows, columns, reduce):
    """Windows of 3 × 5 with 1 and 2 around, every `rows`-th and `columns`-th of them."""
    around = np.pad(x, ((1, 1), (2, 2)), constant_values=fill)
    every = np.lib.stride_tricks.sliding_window_view(around, (3, 5))
    return reduce(every[::rows, ::columns], axis=(2, 3))


SAME = ((1, 1), (2, 2))
FUNCTIONS = {
    "log of sums": (lambda x: weft.nn.logsumexp(x, axis=1), lambda x: np.log(np.exp(x).sum(1))),
    "spread": (lambda x: x.std(axis=0) + x.var(axis=0), lambda x: x.std(0) + x.var(0)),
    "triangle": (lambda x: wnp.tril(x, 3), lambda x: np.tril(x, 3)),
    "einsum": (lambda x: wnp.einsum("ij,kj->ik", x, x), lambda x: x @ x.T),
    "largest": (lambda x: lax.top_k(x, 4)[0], largest),
    "one hot": (
        lambda x: weft.nn.one_hot(wnp.argmax(x, axis=1), 32),
        lambda x: np.eye(32, dtype=f32)[x.argmax(1)],
    ),
    "special functions": (
        lambda x: weft.nn.softplus(x) + lax.erf(x) + wnp.sinc(x) + wnp.hypot(x, 2.0),
        lambda x: np.log1p(np.exp(x)) + np.vectorize(math.erf)(x) + np.sinc(x) + np.hypot(x, 2),
    ),
    "remainders": (
        lambda x: wnp.mod(x, 0.7) + wnp.floor_divide(x, 0.3) + wnp.arctan2(x, 2.0),
        lambda x: np.mod(x, f32(0.7)) + np.floor_divide(x, f32(0.3)) + np.arctan2(x, f32(2)),
    ),
    "sorted by places": (
        lambda x: wnp.take_along_axis(x, wnp.argsort(x, axis=1), axis=1),
        lambda x: np.sort(x, 1),
    ),
    "joined, reshaped, turned": (
        lambda x: wnp.concatenate([x[:8], x[8:] * 2]).reshape(32, 16).T.reshape(16, 32),
        lambda x: np.concatenate([x[:8], x[8:] * 2]).reshape(32, 16).T.reshape(16, 32),
    ),
    "padded and rolled": (
        lambda x: wnp.roll(wnp.pad(x, ((1, 2), (0, 3)), constant_values=7.0), 3, axis=1),
        lambda x: np.roll(np.pad(x, ((1, 2), (0, 3)), constant_values=7), 3, axis=1),
    ),
    "scan": (
        lambda x: lax.scan(lambda c, r: (c * 0.5 + r,) * 2, wnp.zeros(32), x)[1],
        decayed,
    ),
    "associative scan": (
        lambda x: lax.associative_scan(wnp.maximum, x, axis=0),
        lambda x: np.maximum.accumulate(x, 0),
    ),
    "norms": (
        lambda x: wnp.linalg.norm(x, axis=1) + wnp.prod(x[:, :4], axis=1),
        lambda x: np.linalg.norm(x, axis=1) + x[:, :4].prod(1),
    ),
    "map": (lambda x: lax.map(lambda r: wnp.sort(r)[::-1], x), lambda x: np.sort(x, 1)[:, ::-1]),
    "vmap": (lambda x: weft.vmap(lambda r: r @ r)(x), lambda x: (x * x).sum(1)),
    "gradient": (
        lambda x: weft.grad(lambda v: (wnp.sin(v) ** 2).sum())(x),
        lambda x: np.sin(2 * x),
    ),
    "histogram": (
        lambda x: wnp.histogram(x, bins=4, range=(-2, 2))[0].astype(f32),
        lambda x: np.histogram(x, bins=4, range=(-2, 2))[0].astype(f32),
    ),
    "search": (
        lambda x: wnp.searchsorted(wnp.sort(x[0]), x[1]).astype(f32),
        lambda x: np.searchsorted(np.sort(x[0]), x[1]).astype(f32),
    ),
    "quantiles": (
        lambda x: wnp.median(x, axis=1) + wnp.percentile(x, 30, axis=1),
        lambda x: np.median(x, 1) + np.percentile(x, 30, axis=1).astype(f32),
    ),
    "maxima of blocks": (
        lambda x: lax.reduce_window(x, -wnp.inf, lax.max, (2, 4), (2, 4), "VALID"),
        lambda x: blocks(x, 2, 4).max((1, 3)),
    ),
    "minima of windows": (
        lambda x: lax.reduce_window(x, wnp.inf, lax.min, (3, 5), (2, 3), SAME),
        lambda x: windows(x, np.inf, 2, 3, np.min),
    ),
    "sums of windows": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 5), (1, 1), SAME),
        lambda x: windows(x, 0, 1, 1, np.sum),
    ),
    "windows of any function": (
        lambda x: lax.reduce_window(
            x, 0.0, lambda a, b: wnp.maximum(wnp.abs(a), wnp.abs(b)), (3, 5), (1, 2), SAME
        ),
        lambda x: windows(abs(x), 0, 1, 2, np.max),
    ),
    "dilated windows": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID", (1, 1), (3, 4)),
        lambda x: x[:-3, :-4] + x[3:, :-4] + x[:-3, 4:] + x[3:, 4:],
    ),
}


@pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "native"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_arrays_follow_numpy(rng, name, interpret):
    function, reference = FUNCTIONS[name]
    x = rng.standard_normal((16, 32)).astype(f32)
    want = reference(x)

    def kernel(x, out):
        out[...] = function(x[...])

    out = weft.ShapeDtypeStruct(want.shape, f32)
    got = np.asarray(pl.pallas_call(kernel, out, interpret=interpret)(x))
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "native"])
def test_random_numbers_are_those_of_their_key(interpret):
    def kernel(out):
        a, b = weft.random.split(weft.random.key(3))
        out[...] = weft.random.uniform(a, (16, 32)) + weft.random.bernoulli(b, 0.5, (32,))

    got = pl.pallas_call(kernel, weft.ShapeDtypeStruct((16, 32), f32), interpret=interpret)()
    a, b = weft.random.split(weft.random.key(3))
    want = np.asarray(weft.random.uniform(a, (16, 32))) + np.asarray(
        weft.random.bernoulli(b, 0.5, (32,))
    )
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "native"])
def test_products_of_bytes_are_summed_in_int32(rng, interpret):
    a = rng.integers(-100, 100, (16, 64)).astype(np.int8)
    b = rng.integers(-100, 100, (64, 8)).astype(np.int8)

    def kernel(a, b, out):
        out[...] = lax.dot(a[...], b[...], preferred_element_type=i32)

    got = pl.pallas_call(kernel, weft.ShapeDtypeStruct((16, 8), i32), interpret=interpret)(a, b)
    np.testing.assert_array_equal(got, a.astype(i32) @ b.astype(i32))

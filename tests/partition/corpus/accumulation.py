"""Loops over parts of a batch, which add up gradients, means and statistics."""

from __future__ import annotations

import numpy as np

from tests.partition.corpus import transformers
from tests.partition.corpus.entry import program

PARTS = 4
MESH = {"data": 4, "model": 2}


def _all_parts(t, y, *params):
    joined = (x.reshape(-1, x.shape[-1]) for x in (t, y))
    return transformers._step(*joined, *params)


@program(
    *[(PARTS, *transformers.BATCH)] * 2,
    *transformers.SHAPES[2:],
    ints=(0, 1),
    reference=_all_parts,
    layouts=(
        transformers.layout(
            MESH, (None, "data"), transformers.WHOLE, (None, "model"), ("model", None)
        ),
        transformers.layout(MESH, (None, "data"), ("model",), (None, "model"), ("model", None)),
        transformers.layout({"data": 4}, (None, "data"), *[transformers.WHOLE] * 3),
    ),
)
def microbatched_step(np, lib):
    """A transformer's training step, the gradient added up over parts of the batch."""
    loss = transformers._model(np, lib)

    def run(t, y, *params):
        def part(total, batch):
            more = lib.value_and_grad(loss)(params, *batch)
            return lib.tree.map(lambda a, b: a + b / PARTS, total, more), None

        start = (np.float32(0), tuple(np.zeros_like(w) for w in params))
        (value, gradients), _ = lib.lax.scan(part, start, (t, y))
        return value, *(w - g for w, g in zip(params, gradients, strict=True))

    return run


def _loss(np, w, x, n):
    h = np.tanh(x @ w)
    return ((h * h).sum(-1) * n).sum(), h


def _gradient(w, x, n):
    value, h = _loss(np, w, x, n)
    return value, x.T @ (2 * h * (1 - h * h) * n[:, None])


ROWS = ((8, 6), (5, 16, 8), (5, 16))
SPLIT = (
    (MESH, ((), (None, "data"), (None, "data"))),
    (MESH, ((None, "model"), (None, "data"), (None, "data"))),
    (MESH, (("model",), (None, "data", "model"), (None, "data"))),
)


def _by_weight(w, x, n):
    parts = [_gradient(w, a, b) for a, b in zip(x, n, strict=True)]
    weights = [b.sum() for b in n]
    total = sum(k * g for k, (_, g) in zip(weights, parts, strict=True))
    return total / sum(weights), np.stack([value for value, _ in parts])


@program(*ROWS, positive=True, reference=_by_weight, layouts=SPLIT)
def weighted_parts(np, lib):
    """Gradients weighted by a sum over the part, and the history of the loss."""

    def run(w, x, n):
        def part(carry, batch):
            value, g = lib.value_and_grad(lambda w: _loss(np, w, *batch)[0])(w)
            k = batch[1].sum()
            return (carry[0] + k * g, carry[1] + k), value

        (total, weight), values = lib.lax.scan(part, (np.zeros_like(w), np.float32(0)), (x, n))
        return total / weight, values

    return run


def _averages(w, x, n):
    mean, slow = np.zeros_like(w), w
    for i, (a, b) in enumerate(zip(x, n, strict=True)):
        g = _gradient(w, a, b)[1]
        mean = mean + (g - mean) / (i + 1)
        slow = 0.9 * slow + 0.1 * (_gradient(2 * w, a, b)[1] + 0.01 * w)
    return mean, slow


@program(*ROWS, reference=_averages, layouts=SPLIT)
def gradient_averages(np, lib):
    """A running mean and a decaying average that starts from values and has a term of its own."""

    def run(w, x, n):
        def part(carry, batch):
            a, b, i = batch
            gradient = lib.grad(lambda w: _loss(np, w, a, b)[0])
            mean, slow = carry
            mean = mean + (gradient(w) - mean) / (i + 1)
            return (mean, 0.9 * slow + 0.1 * (gradient(2 * w) + 0.01 * w)), None

        steps = np.arange(len(x), dtype=np.float32)
        return lib.lax.scan(part, (np.zeros_like(w), w), (x, n, steps))[0]

    return run


def _moments(w, x, n):
    z = x @ w
    flat = z.reshape(-1, z.shape[-1])
    return flat.sum(0), flat.T @ flat, flat.max(0), (n > 0).sum().astype(np.int32)


@program(*ROWS, reference=_moments, layouts=SPLIT)
def streamed_moments(np, lib):
    """Sums, products, maxima and counts of parts."""

    def run(w, x, n):
        def part(carry, batch):
            a, b = batch
            z = a @ w
            total, square, most, count = carry
            most = np.maximum(most, z.max(0))
            return (total + z.sum(0), square + z.T @ z, most, count + (b > 0).sum()), None

        k = w.shape[1]
        start = (np.zeros(k), np.zeros((k, k)), np.full(k, -np.inf), np.int32(0))
        return lib.lax.scan(part, start, (x, n))[0]

    return run

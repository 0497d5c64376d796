"""Lookups, scatters, sorting, ragged data."""

from __future__ import annotations

import numpy as np

from tests.partition.corpus.entry import program


def _scatter_reference(a, i, u):
    out = a.copy()
    np.add.at(out, i, u)
    return out


@program((8, 4), (12,), (12, 4), ints=(1,), reference=_scatter_reference)
def scatter_add(np, lib):
    return lambda a, i, u: a.at[i].add(u)


def _masked_update(a, i, u):
    out = a.copy()
    out[2:6] = u
    out[i] = 7
    return out


@program((8, 4), (3,), (4, 4), ints=(1,), reference=_masked_update)
def scatter_set(np, lib):
    return lambda a, i, u: a.at[2:6].set(u).at[i].set(7)


def _extremes_reference(a, i, u):
    low, high = a.copy(), a.copy()
    np.minimum.at(low, i, u)
    np.maximum.at(high, i, u)
    return low, high


@program((8, 4), (16,), (16, 4), ints=(1,), reference=_extremes_reference)
def scatter_extremes(np, lib):
    return lambda a, i, u: (a.at[i].min(u), a.at[i].max(u))


def _histogram_reference(i, j):
    out = np.zeros((8, 8), np.float32)
    np.add.at(out, (i, j), 1)
    return out


@program((24,), (24,), ints=(0, 1), reference=_histogram_reference)
def histogram_2d(np, lib):
    return lambda i, j: np.zeros((8, 8), np.float32).at[i, j].add(1)


@program((8, 8), (16,), (16,), ints=(1, 2))
def points(np, lib):
    return lambda a, i, j: a[i, j] * 2


@program((8, 8, 4), (6,), ints=(1,))
def rows_of_planes(np, lib):
    return lambda a, i: (a[:, i], a[i], np.take(a, i % 4, axis=2))


@program((16, 8))
def fancy_slices(np, lib):
    return lambda a: (a[2:14:3, ::-1], a[-5:, 1:7], a[None, 3], a[..., 2])


@program((16, 8), (), ints=(1,))
def dynamic_window(np, lib):
    return lambda a, i: lib.lax.dynamic_slice(a, (i, 2), (6, 4)) * 2


@program((16, 8), (4, 8), (), ints=(2,))
def dynamic_write(np, lib):
    return lambda a, u, i: lib.lax.dynamic_update_slice(a, u, (i, 0)) + 1


@program((16, 8), (16,))
def ordered_by_key(np, lib):
    return lambda a, k: np.take(a, np.argsort(k), axis=0)


@program((8, 16))
def best_four(np, lib):
    return lambda a: lib.lax.top_k(a, 4)


@program((16, 6))
def ranks(np, lib):
    return lambda a: np.argsort(np.argsort(a, axis=0), axis=0)


@program((32,), (12,))
def searched(np, lib):
    return lambda a, x: np.searchsorted(np.sort(a), x)


@program((24,))
def median_filter(np, lib):
    def run(a):
        windows = np.stack([np.pad(a, 1, mode="edge")[i : i + 24] for i in range(3)])
        return np.sort(windows, 0)[1]

    return run


def _segments_reference(a, i):
    out = np.zeros((8, 4), np.float32)
    np.add.at(out, i, a)
    return out / np.maximum(np.bincount(i, minlength=8), 1)[:, None]


@program((32, 4), (32,), ints=(1,), reference=_segments_reference)
def segment_means(np, lib):
    def run(a, i):
        total = np.zeros((8, 4), np.float32).at[i].add(a)
        return total / np.maximum(np.zeros(8, np.float32).at[i].add(1), 1)[:, None]

    return run


@program((24, 8), (16,), (4, 4), ints=(1, 2))
def embedding_bag(np, lib):
    def run(e, i, bag):
        rows = np.take(e, i, axis=0).reshape(4, 4, 8)
        weight = (bag > 2).astype(np.float32)
        return np.einsum("bld,bl->bd", rows, weight)

    return run


VOCABULARY = (
    ({"data": 2, "vocab": 4}, (("vocab", None), ("data", None))),
    ({"vocab": 8}, (("vocab", None), (None, None))),
)


@program((32, 8), (4, 6), ints=(1,), layouts=VOCABULARY)
def vocabulary_sharded_embedding(np, lib):
    return lambda e, i: np.take(e, i * 4 + 1, axis=0)


@program((32, 8), (12, 8), layouts=(({"data": 2, "vocab": 4}, (("vocab", None), ("data", None))),))
def vocabulary_sharded_loss(np, lib):
    """Logits split over the vocabulary: maxima and sums travel, logits do not."""

    def run(e, x):
        z = x @ e.T
        m = z.max(-1, keepdims=True)
        label = np.arange(12) * 2
        picked = (z * (label[:, None] == np.arange(32))).sum(-1)
        return np.log(np.exp(z - m).sum(-1)) + m[:, 0] - picked

    return run


@program((8, 12, 4), (8,), ints=(1,))
def ragged_mean(np, lib):
    """Sequences of unequal length in one padded array."""

    def run(x, length):
        inside = (np.arange(12)[None] < length[:, None]).astype(np.float32)
        total = (x * inside[..., None]).sum(1)
        return total / np.maximum(inside.sum(1), 1)[:, None]

    return run


@program((4, 8, 4), (4,), ints=(1,))
def ragged_attention(np, lib):
    def run(x, length):
        inside = np.arange(8)[None] <= length[:, None]
        s = np.where(inside[:, None], np.einsum("btd,bsd->bts", x, x), -1e9)
        e = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("bts,bsd->btd", e / e.sum(-1, keepdims=True), x)

    return run


@program((24, 4), (24,), ints=(1,))
def packed_sequences(np, lib):
    """Rows of several sequences in one; a row sees those of its own sequence."""

    def run(x, owner):
        same = owner[:, None] == owner[None]
        s = np.where(same, x @ x.T, -1e9)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ x

    return run


def _ragged_product(x, w):
    return np.concatenate([x[:5] @ w[0], x[5:9] @ w[1], x[9:] @ w[2]])


@program((16, 8), (3, 8, 4), reference=_ragged_product)
def ragged_product(np, lib):
    return lambda x, w: lib.lax.ragged_dot(x, w, np.array([5, 4, 7], np.int32))


@program((16, 4), (16,), ints=(1,))
def permutation(np, lib):
    def run(a, i):
        order = np.argsort(i * 16 + np.arange(16))
        back = np.argsort(order)
        return np.take(a, order, 0), np.take(np.take(a, order, 0), back, 0)

    return run


@program((16, 8), (4, 8))
def nearest_centre(np, lib):
    """One step of k-means."""

    def run(x, c):
        d = ((x[:, None] - c[None]) ** 2).sum(-1)
        hot = (np.argmin(d, 1)[:, None] == np.arange(4)).astype(np.float32)
        return (hot.T @ x) / np.maximum(hot.sum(0), 1)[:, None]

    return run

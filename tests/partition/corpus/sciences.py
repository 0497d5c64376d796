"""Dynamic programs, graphs, particles, integrators, number formats: kinds of their own."""

from __future__ import annotations

import numpy as onp

from tests.partition.corpus.entry import program


@program((8, 8), positive=True)
def shortest_paths(np, lib):
    """Floyd and Warshall: each step reads a row and a column of what it writes."""

    def run(d):
        def step(k, d):
            column = np.take(d, k, axis=1)
            row = np.take(d, k, axis=0)
            return np.minimum(d, column[:, None] + row[None])

        return lib.lax.fori_loop(0, 8, step, d)

    return run


@program((6, 6), (12, 6))
def viterbi(np, lib):
    """Best paths through a chain of states, and their last state."""

    def run(transitions, scores):
        def step(best, score):
            ways = best[:, None] + transitions
            return ways.max(0) + score, np.argmax(ways, axis=0).astype(np.int32)

        best, back = lib.lax.scan(step, scores[0], scores[1:])
        return best, back

    return run


@program((16, 8), (8, 8))
def forward_probabilities(np, lib):
    """Hidden Markov model: log of sums of exponentials in a scan."""

    def run(emissions, transitions):
        def step(alpha, emission):
            ways = alpha[:, None] + transitions
            top = ways.max(0)
            alpha = np.log(np.exp(ways - top).sum(0)) + top + emission
            return alpha, None

        alpha, _ = lib.lax.scan(step, emissions[0], emissions[1:])
        return alpha

    return run


@program((10,), (12,), ints=(0, 1))
def edit_distance(np, lib):
    """Rows of the table from the row before; within a row, a running minimum."""

    def run(a, b):
        places = np.arange(13)

        def step(row, letter):
            swap = row[:-1] + (b != letter)
            fresh = np.concatenate([row[:1] + 1, np.minimum(swap, row[1:] + 1)])
            row = np.minimum.accumulate(fresh - places) + places
            return row, row[-1]

        return lib.lax.scan(step, places, a)[1]

    return run


@program((24, 3), (24, 3))
def bodies(np, lib):
    """Particles that attract each other, two leapfrog steps."""

    def run(x, v):
        for _ in range(2):
            apart = x[None] - x[:, None]
            force = (apart / ((apart**2).sum(-1) + 0.5)[..., None] ** 1.5).sum(1)
            v = v + 0.1 * force
            x = x + 0.1 * v
        return x, (v * v).sum() / 2

    return run


@program((16, 4))
def runge_kutta(np, lib):
    """Coupled oscillators, four stages a step, in a loop."""

    def run(x):
        def slope(x):
            return np.roll(x, 1, 0) - 2 * x + np.roll(x, -1, 0) - 0.1 * x**3

        def step(i, x):
            a = slope(x)
            b = slope(x + 0.05 * a)
            c = slope(x + 0.05 * b)
            d = slope(x + 0.1 * c)
            return x + 0.1 / 6 * (a + 2 * b + 2 * c + d)

        return lib.lax.fori_loop(0, 3, step, x)

    return run


@program((12, 8), (12, 8), (12, 8), (12, 8), positive=True)
def tridiagonal(np, lib):
    """Thomas' algorithm for a batch: a scan forwards, a scan backwards."""

    def run(a, b, c, d):
        b = b + 4

        def down(carry, row):
            p, q = carry
            a, b, c, d = row
            w = b - a * p
            out = c / w, (d - a * q) / w
            return out, out

        zero = np.zeros(8, np.float32)
        _, (p, q) = lib.lax.scan(down, (zero, zero), (a, b, c, d))

        def up(x, row):
            p, q = row
            x = q - p * x
            return x, x

        return lib.lax.scan(up, zero, (p, q), reverse=True)[1]

    return run


@program((16, 8), (24,), (24,), ints=(1, 2))
def graph_layer(np, lib):
    """Messages along edges, added up where they arrive, by one-hot sums."""

    def run(nodes, source, target):
        hot = (target[:, None] == np.arange(16)).astype(np.float32)
        degree = hot.sum(0) + 1
        return np.maximum((nodes + hot.T @ np.take(nodes, source, axis=0)) / degree[:, None], 0)

    return run


@program((16, 16), positive=True)
def page_rank(np, lib):
    def run(links):
        weights = links / links.sum(0)
        rank = lib.lax.fori_loop(
            0, 4, lambda i, r: 0.15 / 16 + 0.85 * weights @ r, np.full(16, 1 / 16, np.float32)
        )
        return rank, np.argsort(-rank)

    return run


@program((32, 4), (4, 4))
def cluster_step(np, lib):
    """Points to their nearest centre, centres to the means of their points, twice."""

    def run(x, centres):
        for _ in range(2):
            nearest = ((x[:, None] - centres) ** 2).sum(-1).argmin(1)
            hot = (nearest[:, None] == np.arange(4)).astype(np.float32)
            centres = (hot.T @ x + centres) / (hot.sum(0)[:, None] + 1)
        return centres, nearest

    return run


@program((24, 3), (4, 3))
def mixture_of_gaussians(np, lib):
    """One step of expectation and maximization."""

    def run(x, means):
        log = -((x[:, None] - means) ** 2).sum(-1) / 2
        share = lib.nn.softmax(log, axis=1)
        weight = share.sum(0)
        means = share.T @ x / weight[:, None]
        spread = np.einsum("nk,nd,ne->kde", share, x, x) / weight[:, None, None]
        return means, spread - means[:, :, None] * means[:, None]

    return run


@program((16, 3), (16,), (6, 3))
def gaussian_process(np, lib):
    """Means at new points by conjugate gradients, so that no factorization is needed."""

    def run(x, y, new):
        def kernel(a, b):
            return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 2)

        k = kernel(x, x) + np.eye(16, dtype=np.float32)
        w = np.zeros(16, np.float32)
        r = p = y
        for _ in range(4):
            q = k @ p
            step = (r @ r) / (p @ q)
            w, s = w + step * p, r - step * q
            p, r = s + (s @ s) / (r @ r) * p, s
        return kernel(new, x) @ w

    return run


@program((16, 16), (16, 16))
def eight_bit_product(np, lib):
    """Rows and columns rounded to 8 bits with scales of their own, multiplied as integers."""

    def run(a, b):
        rows = np.abs(a).max(1, keepdims=True) / 127
        columns = np.abs(b).max(0, keepdims=True) / 127
        x = np.round(a / rows).astype(np.int8).astype(np.int32)
        y = np.round(b / columns).astype(np.int8).astype(np.int32)
        return (x @ y).astype(np.float32) * rows * columns

    return run


@program((16, 8), ints=(0,))
def packed_bits(np, lib):
    """Eight truth values a byte, and how many are set."""

    def run(a):
        bits = (a % 2).astype(np.uint8)
        packed = (bits << np.arange(8, dtype=np.uint8)).sum(1).astype(np.uint8)
        back = (packed[:, None] >> np.arange(8, dtype=np.uint8)) & 1
        return packed, back.sum(0).astype(np.int32), (packed ^ (packed >> 1)).astype(np.uint8)

    return run


@program((4, 8, 8, 8))
def pixel_shuffle(np, lib):
    """Channels become pixels, and back by averages."""

    def run(x):
        up = x.reshape(4, 8, 8, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(4, 16, 16, 2)
        return up, up.reshape(4, 8, 2, 8, 2, 2).mean((2, 4))

    return run


@program((8, 8, 4))
def bilinear_resize(np, lib):
    """Twice as many rows and columns, each between two."""

    def run(x):
        for axis in (0, 1):
            after = np.take(x, onp.minimum(onp.arange(8) + 1, 7), axis=axis)
            y = np.stack([x, (x + after) / 2], axis + 1)
            x = y.reshape(*(s * 2 if i == axis else s for i, s in enumerate(x.shape)))
        return x

    return run


@program((16, 16))
def newton_schulz(np, lib):
    """The orthogonal factor by a polynomial iteration, as some optimizers use it."""

    def run(g):
        x = g / (np.sqrt((g * g).sum()) + 1e-6)

        def step(i, x):
            a = x @ x.T
            return 1.5 * x - 0.5 * a @ x

        return lib.lax.fori_loop(0, 3, step, x)

    return run


@program((8, 4), (16, 8), (16, 4))
def norms_of_examples(np, lib):
    """Gradients of each example by itself, cut to a norm, then their mean."""

    def run(w, x, y):
        def gradient(x, y):
            return np.outer(x, x @ w - y)

        each = lib.vmap(gradient)(x, y)
        norms = np.sqrt((each**2).sum((1, 2)))
        return (each / np.maximum(norms, 1)[:, None, None]).mean(0), norms

    return run


@program((12,), (16, 4))
def polynomial(np, lib):
    """Horner's scheme over coefficients, in a scan."""

    def run(coefficients, x):
        return lib.lax.scan(
            lambda total, c: (total * x * 0.5 + c, None),
            np.zeros((16, 4), np.float32),
            coefficients,
        )[0]

    return run


@program((16, 6), (16, 6))
def waiting_in_line(np, lib):
    """Ends of jobs from their arrivals and lengths: an associative pair of sum and maximum."""

    def run(arrive, length):
        length = np.abs(length)

        def join(a, b):
            return a[0] + b[0], np.maximum(a[1] + b[0], b[1])

        return lib.lax.associative_scan(join, (length, arrive + length))[1]

    return run


@program((16, 12))
def running_products(np, lib):
    return lambda a: (np.cumprod(a / 2, axis=0), np.cumprod(1 + np.abs(a[:, ::-1]) / 8, axis=1))


@program((4, 16, 8), (4, 16, 8), (4, 16, 8))
def sloped_attention(np, lib):
    """Causal attention with a slope for each head instead of positions."""

    def run(q, k, v):
        places = np.arange(16)
        apart = (places[None] - places[:, None]).astype(np.float32)
        slopes = 2.0 ** -np.arange(1, 5).astype(np.float32)
        s = np.einsum("htd,hsd->hts", q, k) / 8**0.5 + slopes[:, None, None] * apart
        s = np.where(apart <= 0, s, -1e9)
        return np.einsum("hts,hsd->htd", lib.nn.softmax(s), v)

    return run


@program((4, 12), (3, 12, 12), (12, 6))
def tokens_by_greedy_choice(np, lib):
    """A loop whose next input is looked up by what came out of it."""

    def run(start, layers, out):
        def step(h, layer):
            h = np.tanh(h @ layer)
            choice = np.argmax(h @ out, axis=1)
            hot = (choice[:, None] == np.arange(6)).astype(np.float32)
            return h + hot @ out.T, choice

        return lib.lax.scan(step, start, layers)

    return run


@program((16, 16), (16, 16))
def coupled_reactions(np, lib):
    """Gray and Scott: two fields, periodic, in a loop."""

    def run(u, v):
        def spread(a):
            around = np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1)
            return around - 4 * a

        def step(i, state):
            u, v = state
            r = u * v * v * 0.01
            return u + 0.1 * spread(u) - r, v + 0.05 * spread(v) + r - 0.05 * v

        return lib.lax.fori_loop(0, 3, step, (u, v))

    return run


@program((8, 4, 6), (6, 5), (5,), (4, 5, 3))
def four_factors(np, lib):
    return lambda a, b, c, d: np.einsum("ijk,kl,l,jlm->im", a, b, c, d)

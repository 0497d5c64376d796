"""Methods and models written when the partitioner was done, and first measured unrepaired."""

from __future__ import annotations

from tests.partition.corpus.entry import program

# -- sequences -------------------------------------------------------------------------------------


@program((2, 16, 8), (8, 8), (8, 8), tolerance=1e-3)
def gates_by_scan(np, lib):
    """minGRU: gates of the input alone, so that states are a scan (Feng, 2024)."""

    def run(x, wz, wh):
        z = lib.nn.sigmoid(x @ wz)

        def combine(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]

        return lib.lax.associative_scan(combine, (1 - z, z * np.tanh(x @ wh)), axis=1)[1]

    return run


@program((8, 4, 8), (8, 24), (8,), tolerance=1e-3)
def simple_recurrent_unit(np, lib):
    """SRU, whose products come before its loop (Lei, 2017), and the gradient."""

    def loss(w, bias, x):
        u, f, r = np.split(x @ w, 3, -1)
        f = lib.nn.sigmoid(f + bias)

        def step(c, now):
            u, f, r, x = now
            c = f * c + (1 - f) * u
            return c, lib.nn.sigmoid(r) * np.tanh(c) + (1 - lib.nn.sigmoid(r)) * x

        return (lib.lax.scan(step, x[0] * 0, (u, f, r, x))[1] ** 2).sum()

    return lambda x, w, bias: lib.grad(loss, (0, 1))(w, bias, x)


@program((8, 4), (4, 4), (4, 4), (4,))
def smoothed_states(np, lib):
    """Forward and backward through a hidden Markov model (Baum, 1970)."""

    def run(emissions, transitions, other, start):
        t = lib.nn.softmax(transitions)
        e = lib.nn.softmax(emissions @ other)

        def forward(a, e):
            a = (a @ t) * e
            a = a / a.sum()
            return a, a

        def backward(b, e):
            out = b
            b = t @ (e * b)
            return b / b.sum(), out

        a = lib.lax.scan(forward, lib.nn.softmax(start), e)[1]
        b = lib.lax.scan(backward, start * 0 + 1, e, reverse=True)[1]
        return a * b / (a * b).sum(-1, keepdims=True)

    return run


@program((8, 16), (8, 16), (8, 16), (16,), tolerance=1e-3)
def corrected_returns(np, lib):
    """V-trace from behind (Espeholt, IMPALA, 2018)."""

    def run(rewards, values, ratios, last):
        rho = np.minimum(1.0, np.exp(ratios))
        after = np.concatenate([values[1:], last[None]])
        delta = rho * (rewards + 0.9 * after - values)

        def step(total, now):
            d, c = now
            total = d + 0.9 * c * total
            return total, total

        total = lib.lax.scan(step, last * 0, (delta, rho), reverse=True)[1]
        return values + total

    return run


@program((4, 32))
def nucleus(np, lib):
    """Probabilities of the fewest tokens that hold nine tenths (Holtzman, 2019)."""

    def run(z):
        p = lib.nn.softmax(z)
        order = np.argsort(-p, -1)
        ranked = np.take_along_axis(p, order, -1)
        kept = np.cumsum(ranked, -1) - ranked < 0.9
        least = np.where(kept, ranked, 2.0).min(-1, keepdims=True)
        p = np.where(p >= least, p, 0)
        return p / p.sum(-1, keepdims=True)

    return run


@program((4, 8, 8), (4, 8, 8), (4, 8), (4, 8), (4, 8), tolerance=2e-3)
def eight_bit_cache(np, lib):
    """Decoding from keys and values of eight bits with scales by token."""

    def run(keys, values, key_scale, value_scale, q):
        k, v = (np.clip(np.round(20 * a), -127, 127).astype(np.int8) for a in (keys, values))
        s = np.einsum("bd,bkd->bk", q, k.astype(np.float32)) * abs(key_scale) / 50
        p = lib.nn.softmax(s) * value_scale
        return np.einsum("bk,bkd->bd", p, v.astype(np.float32)) / 20

    return run


# -- graphs and recommendations --------------------------------------------------------------------


@program((12, 8), (24,), (24,), (8, 16), (16, 8), ints=(1, 2), tolerance=1e-3)
def sums_of_neighbours(np, lib):
    """GIN: a network over a node and the sum of its neighbours (Xu, 2018)."""

    def run(x, senders, receivers, up, down):
        there = (receivers[:, None] == np.arange(12)).astype(np.float32)
        total = 1.1 * x + there.T @ x[senders]
        return lib.nn.relu(total @ up) @ down

    return run


@program((8, 3), (8, 4), (9, 8), (8, 1), (8, 4), tolerance=1e-3)
def equivariant_layer(np, lib):
    """Messages by distance that move coordinates along differences (Satorras, EGNN, 2021)."""

    def run(at, h, message, weight, update):
        apart = at[:, None] - at
        d = (apart**2).sum(-1, keepdims=True)
        pair = np.concatenate(
            [np.broadcast_to(h[:, None], (8, 8, 4)), np.broadcast_to(h, (8, 8, 4)), d], -1
        )
        m = np.tanh(pair @ message)
        return at + (apart * (m @ weight)).mean(1), h + m.sum(1) @ update

    return run


@program((4, 8, 8), (8, 4), (4, 2), tolerance=1e-3)
def sets(np, lib):
    """A function of a set: sums of features (Zaheer, 2017), and the gradient."""

    def loss(a, b, x):
        return (np.tanh(np.tanh(x @ a).sum(1) @ b) ** 2).sum()

    return lambda x, a, b: lib.grad(loss, (0, 1))(a, b, x)


@program((8, 8), (8, 8), (16,), (16,), (16,), ints=(2, 3, 4), tolerance=1e-3)
def ranked_pairs(np, lib):
    """What was bought ranks above what was not (Rendle, BPR, 2009), and the gradient."""

    def loss(users, items, u, i, j):
        d = (users[u] * (items[i] - items[j])).sum(-1)
        return np.log1p(np.exp(-d)).sum() + 0.01 * (users**2).sum()

    return lambda *a: lib.grad(loss, (0, 1))(*a)


@program((8, 8), (8, 8), (16, 4), (16, 4), (4, 8), ints=(2, 3), tolerance=1e-3)
def crossed_features(np, lib):
    """DLRM: dense features and bags of sparse ones, multiplied in pairs (Naumov, 2019)."""

    def run(first, second, a, b, dense):
        at = np.stack([first[a].sum(1), second[b].sum(1), np.tile(dense, (4, 1))], 1)
        pairs = np.einsum("nfd,ngd->nfg", at, at)
        return np.concatenate([pairs[:, i, :i] for i in (1, 2)], -1)

    return run


@program((16, 8), (8,), (8, 4), (16,), tolerance=1e-3)
def factorization_machine(np, lib):
    """Pairs of features in linear time (Rendle, 2010), and the gradient."""

    def loss(w, v, x, y):
        pairs = ((x @ v) ** 2 - (x**2) @ (v**2)).sum(-1) / 2
        return ((x @ w + pairs - y) ** 2).mean()

    return lambda x, w, v, y: lib.grad(loss, (0, 1))(w, v, x, y)


# -- statistics and solvers ------------------------------------------------------------------------


@program((8, 12), (8, 4), (12, 4))
def alternating_squares(np, lib):
    """Each user's ridge regression on the items (Hu, 2008)."""

    def run(ratings, users, items):
        weights = 1 + abs(ratings)
        gram = np.einsum("ui,ik,il->ukl", weights, items, items) + np.eye(4, dtype=np.float32)
        right = np.einsum("ui,ui,ik->uk", weights, ratings, items)
        return np.linalg.solve(gram, right[..., None])[..., 0] - users

    return run


@program((16, 4), (4, 8), (8,), (16,), tolerance=1e-3)
def random_features(np, lib):
    """Ridge regression on random cosines (Rahimi, 2007)."""

    def run(x, w, phase, y):
        z = np.cos(x @ w + phase) / 2
        return np.linalg.solve(z.T @ z + np.eye(8, dtype=np.float32), z.T @ y)

    return run


@program((16, 4), (4,), (16,), tolerance=1e-3)
def reweighted_squares(np, lib):
    """Three of Newton's steps of a Poisson regression (Nelder, 1972)."""

    def run(x, w, y):
        for _ in range(3):
            rate = np.exp(np.clip(x @ w, -2, 2))
            hessian = (x * rate[:, None]).T @ x + np.eye(4, dtype=np.float32)
            w = w + np.linalg.solve(hessian, x.T @ (abs(y) - rate) - w)
        return w

    return run


@program((16, 8), (8, 4), tolerance=1e-3)
def factor_analysis(np, lib):
    """A step of expectation and maximization (Rubin, 1982)."""

    def run(x, loadings):
        x = x - x.mean(0)
        eye = np.eye(4, dtype=np.float32)
        inside = np.linalg.inv(eye + loadings.T @ loadings)
        z = x @ loadings @ inside
        second = 16 * inside + z.T @ z
        return np.linalg.solve(second, z.T @ x).T

    return run


@program((32,), (32,), (32,), positive=True)
def resampled(np, lib):
    """A particle filter's systematic resampling (Kitagawa, 1996)."""

    def run(at, seen, weights):
        w = weights * np.exp(-((at - seen) ** 2))
        total = np.cumsum(w / w.sum())
        steps = ((np.arange(32) + 0.4) / 32).astype(np.float32)
        chosen = np.minimum(np.searchsorted(total, steps), 31)
        return at[chosen], 1 / (w**2).sum()

    return run


@program((12, 4), (12, 12), (12,), ints=(2,))
def spread_labels(np, lib):
    """Labels spread over a graph of distances (Zhou, 2003)."""

    def run(x, links, labels):
        w = np.exp(-((x[:, None] - x) ** 2).sum(-1)) * (1 - np.eye(12, dtype=np.float32))
        root = 1 / np.sqrt(w.sum(1) + 1e-3)
        w = root[:, None] * w * root + 0.01 * links
        start = (labels[:, None] % 4 == np.arange(4)).astype(np.float32)
        return lib.lax.fori_loop(0, 4, lambda _, f: 0.9 * w @ f + 0.1 * start, start)

    return run


# -- physics and finance ---------------------------------------------------------------------------


@program((16, 16), (16, 16), (16, 16), tolerance=1e-3)
def maxwell(np, lib):
    """Yee's scheme in two dimensions (1966)."""

    def run(ez, hx, hy):
        def step(_, fields):
            ez, hx, hy = fields
            hx = hx - 0.5 * (np.roll(ez, -1, 1) - ez)
            hy = hy + 0.5 * (np.roll(ez, -1, 0) - ez)
            ez = ez + 0.5 * (hy - np.roll(hy, 1, 0) - hx + np.roll(hx, 1, 1))
            return ez, hx, hy

        return lib.lax.fori_loop(0, 3, step, (ez, hx, hy))

    return run


@program((16, 16), tolerance=1e-3)
def separating_phases(np, lib):
    """Cahn and Hilliard (1958): a Laplacian of a Laplacian."""

    def run(c):
        def laplacian(a):
            return sum(np.roll(a, s, d) for s in (1, -1) for d in (0, 1)) - 4 * a

        def step(_, c):
            return c + 0.01 * laplacian(c**3 - c - 0.5 * laplacian(c))

        return lib.lax.fori_loop(0, 2, step, np.tanh(c))

    return run


@program((16, 8), (16, 8), (16, 8), positive=True, tolerance=1e-3)
def shallow_water(np, lib):
    """Heights and momenta, by Lax and Friedrichs' scheme (1954)."""

    def run(h, u, v):
        def step(state, _):
            h, hu, hv = state
            fx = (hu, hu**2 / h + h**2 / 2, hu * hv / h)
            fy = (hv, hu * hv / h, hv**2 / h + h**2 / 2)
            new = tuple(
                sum(np.roll(q, s, d) for s in (1, -1) for d in (0, 1)) / 4
                - 0.05 * (np.roll(f, -1, 0) - np.roll(f, 1, 0))
                - 0.05 * (np.roll(g, -1, 1) - np.roll(g, 1, 1))
                for q, f, g in zip(state, fx, fy, strict=True)
            )
            return new, new[0].mean()

        return lib.lax.scan(step, (h + 2, u, v), None, length=2)

    return run


@program((12, 3), tolerance=2e-3)
def pair_forces(np, lib):
    """Lennard-Jones in a periodic box (1924)."""

    def run(x):
        d = x[:, None] - x
        d = d - 6 * np.round(d / 6)
        r2 = (d**2).sum(-1) + 4 * np.eye(12, dtype=np.float32) + 0.5
        inverse = 1 / r2**3
        force = (24 * inverse * (2 * inverse - 1) / r2)[..., None] * d
        return force.sum(1), (inverse * (inverse - 1)).sum() * 2

    return run


@program((8, 32), (4,), positive=True)
def paths(np, lib):
    """Payoffs of an average over simulated prices (Boyle, 1977)."""

    def run(normals, strikes):
        def step(price, z):
            price = price * np.exp(0.01 + 0.1 * (z - 1))
            return price, price

        _, prices = lib.lax.scan(step, normals[0] * 0 + 1, normals)
        payoff = np.maximum(prices.mean(0)[:, None] - strikes, 0)
        return payoff.mean(0), payoff.std(0)

    return run


@program((16,), (8,), positive=True)
def early_exercise(np, lib):
    """American options on a binomial tree (Cox, 1979), many strikes."""

    def run(prices, strikes):
        value = np.maximum(strikes[:, None] - prices, 0)

        def step(_, value):
            after = np.concatenate([value[:, 1:], value[:, -1:]], 1)
            return np.maximum(0.49 * (value + after), np.maximum(strikes[:, None] - prices, 0))

        return lib.lax.fori_loop(0, 6, step, value)

    return run


# -- optimizers ------------------------------------------------------------------------------------


@program((8, 16), (8, 16), (16, 8), (16, 16), tolerance=1e-3)
def signs_of_momentum(np, lib):
    """Lion's step on a linear model (Chen, 2023)."""

    def run(w, m, x, y):
        g = x.T @ (x @ w - y) / 16
        step = np.sign(np.round(0.9 * m + 0.1 * g, 3))
        return w - 0.01 * (step + 0.1 * w), 0.99 * m + 0.01 * g

    return run


@program((8, 16), (16, 4), (16, 8), (16, 4), tolerance=2e-3)
def sharpness_aware(np, lib):
    """The gradient where the loss is worst nearby (Foret, 2020)."""

    def slope(a, b, x, y):
        h = np.tanh(x @ a)
        error = h @ b - y
        return x.T @ ((error @ b.T) * (1 - h**2)), h.T @ error

    def run(a, b, x, y):
        da, db = slope(a, b, x, y)
        scale = 0.1 / np.sqrt((da**2).sum() + (db**2).sum() + 1e-6)
        return slope(a + scale * da, b + scale * db, x, y)

    return run


@program((8, 16), (8, 16), (8, 16), (16, 8), (16, 16), tolerance=1e-3)
def averaged_iterates(np, lib):
    """Schedule-free: a gradient between a base and its average (Defazio, 2024)."""

    def run(z, average, v, x, y):
        w = 0.1 * z + 0.9 * average
        g = x.T @ (x @ w - y) / 16
        v = 0.99 * v + 0.01 * g**2
        z = z - 0.01 * g / (np.sqrt(abs(v)) + 1e-3)
        return z, 0.95 * average + 0.05 * z, v

    return run

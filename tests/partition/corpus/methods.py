"""Optimizers, reinforcement learning, filters and simulations from papers."""

from __future__ import annotations

from tests.partition.corpus.entry import program

# -- steps of optimizers ---------------------------------------------------------------------------


@program((8, 4), (16, 8), (16, 4))
def followed_average(np, lib):
    """BYOL: a slow copy of the weights follows (Grill, 2020)."""

    def run(w, x, y):
        def loss(w, slow):
            a, b = x @ w, x @ slow
            a = a / np.sqrt((a**2).sum(-1, keepdims=True) + 1e-3)
            b = b / np.sqrt((b**2).sum(-1, keepdims=True) + 1e-3)
            return ((a - b) ** 2).mean() + ((x @ w - y) ** 2).mean()

        def step(state, _):
            w, slow = state
            w = w - 0.1 * lib.grad(loss)(w, slow)
            return (w, 0.9 * slow + 0.1 * w), None

        return lib.lax.scan(step, (w, w), None, length=2)[0]

    return run


@program((8, 4), (8, 8), (4, 4), (8, 4))
def preconditioned(np, lib):
    """Shampoo with roots by Newton's iteration (Gupta, 2018)."""

    def run(w, left, right, g):
        def root(a):
            size = a.shape[0]
            a = a @ a.T / size + np.eye(size, dtype=np.float32)
            a = a / np.sqrt((a**2).sum())
            x = np.eye(size, dtype=np.float32)
            for _ in range(3):
                x = 1.5 * x - 0.5 * x @ x @ x @ a
            return x

        left, right = 0.9 * left + 0.1 * g @ g.T, 0.9 * right + 0.1 * g.T @ g
        return w - 0.1 * root(left) @ g @ root(right), left, right

    return run


@program((16, 8), (16,), (8,), (16, 8), positive=True)
def factored_moments(np, lib):
    """Adafactor: second moments by rows and columns, clipped (Shazeer, 2018)."""

    def run(w, rows, columns, g):
        rows = 0.9 * rows + 0.1 * (g**2).mean(1)
        columns = 0.9 * columns + 0.1 * (g**2).mean(0)
        v = rows[:, None] * columns[None] / rows.mean()
        u = g / np.sqrt(v)
        u = u / np.maximum(1.0, np.sqrt((u**2).mean()))
        return w - 0.01 * np.maximum(np.sqrt((w**2).mean()), 1e-3) * u, rows, columns

    return run


@program((2, 8, 8), (2, 8, 8), (2, 8, 8), (2, 8, 8), positive=True)
def trust_ratios(np, lib):
    """LAMB: each layer's step as long as its weights say (You, 2020)."""

    def run(w, m, v, g):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
        u = m / (np.sqrt(v) + 1e-3) + 0.01 * w
        ratio = np.sqrt((w**2).sum((1, 2))) / np.sqrt((u**2).sum((1, 2)))
        return w - 0.01 * ratio[:, None, None] * u, m, v

    return run


@program((8, 4), (16, 8), (16, 4), (8, 4), tolerance=2e-3)
def curvature_estimate(np, lib):
    """Hutchinson's diagonal of the Hessian, as Sophia clips by (Liu, 2023)."""

    def run(w, x, y, signs):
        z = np.sign(signs)
        gradient = lambda w: x.T @ (np.tanh(x @ w) - y)
        slope = 1 - np.tanh(x @ w) ** 2
        product = x.T @ (slope * (x @ z))
        h = np.maximum(z * product, 1e-2)
        return w - 0.1 * np.clip(gradient(w) / h, -1, 1)

    return run


# -- reinforcement learning ------------------------------------------------------------------------


@program((8, 16), (8, 16), (8, 16), (8, 16), tolerance=1e-3)
def clipped_policy(np, lib):
    """PPO: advantages from behind, and the clipped loss (Schulman, 2017)."""

    def run(rewards, values, now, old):
        after = np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], 1)
        delta = rewards + 0.9 * after - values

        def step(total, d):
            total = d + 0.8 * total
            return total, total

        start = np.zeros_like(delta[:, 0])
        advantage = np.moveaxis(
            lib.lax.scan(step, start, np.moveaxis(delta, 1, 0), reverse=True)[1], 0, 1
        )
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-3)
        ratio = np.exp(0.1 * (now - old))
        clipped = np.clip(ratio, 0.8, 1.2)
        return -np.minimum(ratio * advantage, clipped * advantage).mean()

    return run


@program((16, 4), (4, 8), (8, 4), (16,), (16,), ints=(3,), tolerance=1e-3)
def double_q(np, lib):
    """One network picks, the other one values (van Hasselt, 2016); the gradient."""

    def run(x, up, down, action, reward):
        value = lambda up, down: np.tanh(x @ up) @ down
        slow = value(0.9 * up, 0.9 * down)
        best = value(up, down).argmax(-1)
        target = reward + 0.9 * np.take_along_axis(slow, best[:, None], -1)[:, 0]

        def loss(up, down):
            taken = np.take_along_axis(value(up, down), action[:, None] % 4, -1)[:, 0]
            return (np.sqrt(1 + (taken - target) ** 2) - 1).mean()

        return lib.grad(loss, (0, 1))(up, down)

    return run


@program((8, 16), (8,))
def projected_returns(np, lib):
    """C51: a distribution of returns, moved and spread on its atoms (Bellemare, 2017)."""

    def run(logits, reward):
        e = np.exp(logits - logits.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        atoms = np.linspace(-2, 2, 16).astype(np.float32)
        moved = np.clip(reward[:, None] + 0.9 * atoms, -2, 2)
        share = np.maximum(1 - np.abs(moved[:, None] - atoms[:, None]) / (4 / 15), 0)
        return (share * p[:, None]).sum(-1)

    return run


# -- filters, orders, transport --------------------------------------------------------------------


@program((16, 8))
def transport(np, lib):
    """Sinkhorn's scalings (Cuturi, 2013)."""

    def run(cost):
        k = np.exp(-(cost**2))

        def step(_, state):
            u, v = state
            u = (1 / 16) / (k @ v + 1e-3)
            return u, (1 / 8) / (k.T @ u + 1e-3)

        start = (np.ones(16, np.float32), np.ones(8, np.float32))
        u, v = lib.lax.fori_loop(0, 4, step, start)
        return u[:, None] * k * v[None]

    return run


@program((4, 8, 2), (4, 2), tolerance=1e-3)
def kalman(np, lib):
    """A filter forwards and a smoother backwards, for a batch of tracks (1960, 1965)."""

    def run(seen, start):
        turn = np.array([[1.0, 0.1], [0.0, 0.9]], np.float32)
        one = np.eye(2, dtype=np.float32)

        def forward(state, z):
            m, p = state
            m, p = m @ turn.T, turn @ p @ turn.T + 0.1 * one
            s = p + 0.5 * one
            gain = p @ np.linalg.inv(s)
            m, p = m + (z - m) @ np.swapaxes(gain, -1, -2), (one - gain) @ p
            return (m, p), (m, p)

        def backward(later, now):
            m, p = now
            ahead = turn @ p @ turn.T + 0.1 * one
            gain = p @ turn.T @ np.linalg.inv(ahead)
            m = m + (later - m @ turn.T) @ np.swapaxes(gain, -1, -2)
            return m, m

        _, (ms, ps) = lib.lax.scan(forward, (start, one), np.moveaxis(seen, 1, 0))
        return ms, lib.lax.scan(backward, ms[-1], (ms, ps), reverse=True)[1]

    return run


@program((2, 6), (2, 6), tolerance=2e-3)
def soft_warping(np, lib):
    """Soft dynamic time warping row by row, and its gradient (Cuturi, 2017)."""

    def loss(a, b):
        cost = (a[:, :, None] - b[:, None, :]) ** 2

        def soft_min(x, y, z):
            s = np.stack([-x, -y, -z])
            top = s.max(0)
            return -(top + np.log(np.exp(s - top).sum(0)))

        def row(above, cost):
            def cell(left, now):
                up, corner, c = now
                here = c + soft_min(left, up, corner)
                return here, here

            far = np.full_like(above[:, 0], 1e3)
            corner = above[:, :-1]
            now = tuple(np.moveaxis(x, 1, 0) for x in (above[:, 1:], corner, cost))
            cells = np.moveaxis(lib.lax.scan(cell, far, now)[1], 0, 1)
            return np.concatenate([far[:, None], cells], 1), None

        start = np.concatenate([np.zeros_like(a[:, :1]), np.full_like(b, 1e3)], 1)
        return lib.lax.scan(row, start, np.moveaxis(cost, 1, 0))[0][:, -1].sum()

    return lib.grad(loss, (0, 1))


@program((8, 4, 6), (4, 3), ints=(1,), tolerance=1e-3)
def temporal_classes(np, lib):
    """CTC's forward sums over alignments (Graves, 2006)."""

    def run(logits, labels):
        z = logits - logits.max(-1, keepdims=True)
        logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
        labels = 1 + labels % 5
        blanks = np.zeros_like(labels)
        told = np.concatenate([np.stack([blanks, labels], 2).reshape(4, 6), blanks[:, :1]], 1)
        scores = np.take_along_axis(logp, np.broadcast_to(told[None], (8, 4, 7)), -1)
        skips = np.concatenate(
            [np.zeros((4, 2), bool), (told[:, 2:] != told[:, :-2]) & (told[:, 2:] > 0)], 1
        )

        def later(alpha, by):
            return np.concatenate([np.full_like(alpha[:, :by], -1e9), alpha[:, :-by]], 1)

        def step(alpha, s):
            ways = np.stack([alpha, later(alpha, 1), np.where(skips, later(alpha, 2), -1e9)])
            top = ways.max(0)
            return s + top + np.log(np.exp(ways - top).sum(0)), None

        start = np.where(np.arange(7) < 2, scores[0], -1e9)
        alpha, _ = lib.lax.scan(step, start, scores[1:])
        return -np.log(np.exp(alpha[:, -2:]).sum(-1) + 1e-30)

    return run


# -- simulations -----------------------------------------------------------------------------------


@program((16, 16), (16, 16))
def red_and_black(np, lib):
    """Over-relaxed Gauss-Seidel in two colours (Young, 1954)."""

    def run(u, f):
        at = np.arange(16)
        red = (at[:, None] + at[None]) % 2

        def step(_, u):
            for colour in (0, 1):
                p = np.pad(u, 1)
                near = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
                u = np.where(red == colour, u + 1.5 * ((near + f) / 4 - u), u)
            return u

        return lib.lax.fori_loop(0, 2, step, u)

    return run


@program((9, 8, 8), positive=True)
def lattice_gas(np, lib):
    """Lattice Boltzmann: collide and stream in nine directions (McNamara, 1988)."""

    def run(f):
        ways = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
        weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)
        c = np.array(ways, np.float32)
        rho = f.sum(0)
        u = np.einsum("qd,qxy->dxy", c, f) / rho
        cu = np.einsum("qd,dxy->qxy", c, u)
        equal = weights[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (u**2).sum(0))
        f = f + 0.6 * (equal - f)
        return np.stack([np.roll(f[i], way, (0, 1)) for i, way in enumerate(ways)])

    return run


@program((32,), (16,), positive=True)
def clouds_in_cells(np, lib):
    """Charges shared by the two nearest cells, the field solved and read back (Hockney, 1988)."""

    def run(at, charge):
        x = at * 3 % 16
        low = np.floor(x).astype(np.int32) % 16
        share = x - np.floor(x)
        hot = lambda i: (i[:, None] == np.arange(16)).astype(np.float32)
        spread = hot(low) * (1 - share)[:, None] + hot((low + 1) % 16) * share[:, None]
        rho = charge + spread.sum(0)
        rho = rho - rho.mean()
        k = 2 * np.sin(np.pi * np.arange(9) / 16).astype(np.float32)
        spectrum = np.fft.rfft(rho) / np.maximum(k**2, 1e-2)
        potential = np.fft.irfft(spectrum)
        field = (np.roll(potential, 1) - np.roll(potential, -1)) / 2
        return spread @ field, rho

    return run

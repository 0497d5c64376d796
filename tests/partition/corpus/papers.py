"""Layers, losses and steps from papers, and their gradients."""

from __future__ import annotations

from tests.partition.corpus.entry import program

X4Y2 = {"x": 4, "y": 2}


def _layouts(*specs, mesh=X4Y2):
    return tuple((mesh, tuple(s)) for s in specs)


def _log_softmax(np, z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


# -- convolutions by channels ----------------------------------------------------------------------

_SAME = ((1, 1), (1, 1))


def _depthwise(lib, x, w):
    return lib.lax.conv_general_dilated(x, w, (1, 1), _SAME, feature_group_count=x.shape[1])


@program(
    (2, 8, 4, 4),
    (8, 1, 3, 3),
    layouts=_layouts(
        ((None, "x"), ("x",)),
        (("y", "x"), ("x",)),
        ((None, ("x", "y")), (("x", "y"),)),
        ((None, "x", "y"), ("x",)),
        (("y",), ("x",)),
    ),
    tolerance=1e-3,
)
def depthwise_gradients(np, lib):
    """The middle of MobileNet's blocks (Howard, 2017)."""
    return lib.grad(lambda x, w: (_depthwise(lib, x, w) ** 2).sum(), (0, 1))


@program(
    (2, 4, 4, 4),
    (16, 4, 1, 1),
    (16, 1, 3, 3),
    (4, 16, 1, 1),
    layouts=_layouts(
        ((), ("x",), ("x",), (None, "x")),
        (("y",), ("x",), ("x",), (None, "x")),
        ((None, None, "y"), ("x",), ("x",), (None, "x")),
        ((None, "x"), ("x",), ("x",), ("x",)),
    ),
    tolerance=1e-3,
)
def inverted_bottleneck(np, lib):
    """Expanded, filtered by channel, projected (Sandler, MobileNetV2, 2018)."""

    def loss(x, up, w, down):
        h = np.maximum(lib.lax.conv_general_dilated(x, up, (1, 1), ((0, 0), (0, 0))), 0)
        h = np.tanh(_depthwise(lib, h, w))
        return ((x + lib.lax.conv_general_dilated(h, down, (1, 1), ((0, 0), (0, 0)))) ** 2).sum()

    return lib.grad(loss, (1, 2, 3))


# -- recurrences -----------------------------------------------------------------------------------


@program(
    (16, 4),
    (4,),
    (4,),
    layouts=(
        *_layouts((("x",), (), ()), (("x", "y"), ("y",), ("y",)), ((("x", "y"),), (), ())),
        ({"data": 8}, (("data",), (), ())),
    ),
)
def complex_states(np, lib):
    """A diagonal state space with complex poles (Gu, S4D, 2022; Orvieto, LRU, 2023)."""

    def run(u, size, angle):
        pole = np.exp(-np.exp(size)) * (np.cos(angle) + 1j * np.sin(angle))
        poles = np.broadcast_to(pole, u.shape)
        combine = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])
        return lib.lax.associative_scan(combine, (poles, u * (1 + 0j)))[1].real

    return run


@program(
    (16, 4),
    (16, 4),
    (16, 2),
    (16, 2),
    (4, 2),
    layouts=(
        *_layouts(
            (("x",), ("x",), ("x",), ("x",), ()),
            (("x", "y"), ("x", "y"), ("x",), ("x",), ("y",)),
            (("y", "x"), ("y", "x"), ("y",), ("y",), ("x",)),
        ),
        ({"data": 8}, (("data",),) * 4 + ((),)),
    ),
)
def selective_scan(np, lib):
    """States whose decay and input depend on the token (Gu and Dao, Mamba, 2023)."""

    def run(u, step, b, c, a):
        step = np.log1p(np.exp(step))
        decay = np.exp(-step[..., None] * np.exp(a))
        terms = (step * u)[..., None] * b[:, None]
        combine = lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1])
        states = lib.lax.associative_scan(combine, (decay, terms))[1]
        return np.einsum("tdn,tn->td", states, c)

    return run


@program((8, 4), (8, 4), (8, 2), (8, 2), (4, 2), tolerance=1e-3)
def selective_scan_gradient(np, lib):
    forward = selective_scan(np, lib)
    return lib.grad(lambda *args: (forward(*args) ** 2).sum(), (0, 1, 4))


@program((8, 4), (4,), (4,), tolerance=1e-3)
def complex_states_gradient(np, lib):
    forward = complex_states(np, lib)
    return lib.grad(lambda *args: (forward(*args) ** 2).sum(), (0, 1, 2))


# -- losses ----------------------------------------------------------------------------------------

VOCABULARY = _layouts(
    ((None, "x"), ()),
    (("y", "x"), ("y",)),
    ((None, ("x", "y")), ()),
    (("x", "y"), ("x",)),
)


@program((8, 16), (8,), ints=(1,), layouts=VOCABULARY)
def smoothed_loss(np, lib):
    """Targets with a share on every label (Szegedy, 2016)."""

    def run(z, y):
        logp = _log_softmax(np, z)
        target = 0.9 * (np.arange(z.shape[1]) == y[:, None]) + 0.1 / z.shape[1]
        return -(target * logp).sum(-1).mean()

    return run


@program((8, 16), (8,), ints=(1,), layouts=VOCABULARY)
def picked_smoothed_loss(np, lib):
    """The same by the picked label and the mean of all."""

    def run(z, y):
        logp = _log_softmax(np, z)
        picked = np.take_along_axis(logp, y[:, None], -1)[:, 0]
        return -(0.9 * picked + 0.1 * logp.mean(-1)).mean()

    return run


@program((8, 16), (8,), ints=(1,), layouts=VOCABULARY, tolerance=1e-3)
def smoothed_loss_gradient(np, lib):
    return lib.value_and_grad(smoothed_loss(np, lib))


@program((8, 16), (8,), ints=(1,), layouts=VOCABULARY, tolerance=1e-3)
def picked_smoothed_loss_gradient(np, lib):
    return lib.value_and_grad(picked_smoothed_loss(np, lib))


@program((4, 8, 4), (4, 4), (4, 8), ints=(2,))
def crf(np, lib):
    """The likelihood of tags in a conditional random field (Lafferty, 2001)."""

    def run(scores, turns, tags):
        tags = tags % 4

        def forward(alpha, s):
            all_ways = alpha[:, :, None] + turns[None] + s[:, None, :]
            top = all_ways.max(1)
            return top + np.log(np.exp(all_ways - top[:, None]).sum(1)), None

        by_time = np.moveaxis(scores, 1, 0)
        alpha, _ = lib.lax.scan(forward, by_time[0], by_time[1:])
        top = alpha.max(-1)
        total = top + np.log(np.exp(alpha - top[:, None]).sum(-1))
        path = np.take_along_axis(scores, tags[..., None], -1)[..., 0].sum(1)
        path = path + turns[tags[:, :-1], tags[:, 1:]].sum(1)
        return (total - path).mean()

    return run


@program((4, 4, 4), (4, 4), (4, 4), ints=(2,), tolerance=1e-3)
def crf_gradient(np, lib):
    return lib.grad(crf(np, lib), (0, 1))


# -- attention -------------------------------------------------------------------------------------


def _chunked(np, q, k, v, size=4):
    """Queries attend to their own chunk and the one before."""
    b, t, d = q.shape
    q, k, v = (x.reshape(b, t // size, size, d) for x in (q, k, v))
    before = lambda x: np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    keys = np.concatenate([before(k), k], axis=2)
    values = np.concatenate([before(v), v], axis=2)
    s = np.einsum("bntd,bnsd->bnts", q, keys) / d**0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    out = np.einsum("bnts,bnsd->bntd", e / e.sum(-1, keepdims=True), values)
    return out.reshape(b, t, d)


BY_CHUNKS = _layouts(
    ((None, "x"),) * 3, (("y", "x"),) * 3, ((None, ("x", "y")),) * 3, ((None, "x", "y"),) * 3
)


@program((2, 32, 4), (2, 32, 4), (2, 32, 4), layouts=BY_CHUNKS)
def chunked_attention(np, lib):
    """Local attention in blocks (Beltagy, Longformer, 2020)."""
    return lambda q, k, v: _chunked(np, q, k, v)


@program((2, 32, 4), (2, 32, 4), (2, 32, 4), layouts=BY_CHUNKS, tolerance=1e-3)
def chunked_attention_gradient(np, lib):
    return lib.grad(lambda q, k, v: (_chunked(np, q, k, v) ** 2).sum(), (0, 1, 2))


@program((2, 2, 8, 8), (32, 2), tolerance=1e-3)
def relative_bias(np, lib):
    """Scores with a learnt bias by bucketed distance (Raffel, T5, 2020)."""

    def run(scores, table):
        t = scores.shape[-1]
        distance = np.arange(t)[None] - np.arange(t)[:, None]
        side, far = 16 * (distance > 0), np.abs(distance)
        large = 8 + (np.log(np.maximum(far, 1) / 8) / np.log(16.0) * 8).astype(np.int32)
        bucket = side + np.where(far < 8, far, np.minimum(large, 15))
        s = scores + np.moveaxis(table[bucket], -1, 0)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return run


@program((2, 2, 4, 4), (32, 2), (2, 2, 4, 4), tolerance=1e-3)
def relative_bias_gradient(np, lib):
    forward = relative_bias(np, lib)
    return lib.grad(lambda s, t, w: (forward(s, t) * w).sum(), (0, 1))


@program((4, 8, 2, 4), (4, 3, 2, 4), (4, 3), ints=(2,))
def paged_write(np, lib):
    """Rows of new tokens into pages of a cache (Kwon, vLLM, 2023)."""

    def run(pages, rows, slots):
        hot = (slots[..., None] == np.arange(pages.shape[1])).astype(np.float32)
        last = hot * (1 - np.minimum(np.cumsum(hot[:, ::-1], 1)[:, ::-1] - hot, 1))
        kept = 1 - last.sum(1)
        return pages * kept[:, :, None, None] + np.einsum("bnp,bnhd->bphd", last, rows)

    return run


# -- fields and rays -------------------------------------------------------------------------------


@program((8, 8), (8, 6), positive=True)
def samples_along_rays(np, lib):
    """Finer samples where the coarse ones weigh most (Mildenhall, NeRF, 2020)."""

    def run(weights, at):
        total = np.cumsum(weights / weights.sum(-1, keepdims=True), -1)
        total = np.concatenate([np.zeros_like(total[:, :1]), total], -1)
        u = at / (at.max(-1, keepdims=True) * 1.01)
        above = (total[:, None, :] <= u[..., None]).sum(-1)
        low, high = np.maximum(above - 1, 0), np.minimum(above, weights.shape[1])
        start = np.take_along_axis(total, low, -1)
        end = np.take_along_axis(total, high, -1)
        share = (u - start) / np.maximum(end - start, 1e-5)
        return (low + share) / weights.shape[1]

    return run


@program((16,), (8, 16), (16, 8))
def time_embedding(np, lib):
    """Sines of many rates through two layers (Ho, DDPM, 2020)."""

    def run(t, up, down):
        rates = np.exp(-np.arange(4) / 4 * np.log(1e4)).astype(np.float32)
        angles = t[:, None] * rates
        h = np.concatenate([np.sin(angles), np.cos(angles)], -1) @ up
        return (h * lib.nn.sigmoid(h)) @ down

    return run


# -- steps -----------------------------------------------------------------------------------------


@program((8, 4), (16, 8), (16, 4))
def fisher(np, lib):
    """The diagonal of the empirical Fisher information, by example."""

    def run(w, x, y):
        each = lib.vmap(lib.grad(lambda w, x, y: ((x @ w - y) ** 2).sum()), (None, 0, 0))
        return (each(w, x, y) ** 2).mean(0)

    return run


@program((16, 4), (16, 2))
def qr_solve(np, lib):
    """Least squares by an orthogonal factor (Householder, 1958)."""

    def run(a, b):
        q, r = np.linalg.qr(a + 3 * np.eye(16, 4).astype(np.float32))
        return np.linalg.solve(r, q.T @ b)

    return run


@program((8, 16), (8, 16), (8, 16), (8, 16), positive=True)
def adam_step(np, lib):
    """Clipped by the norm of all, then Adam (Kingma, 2015)."""

    def run(w, m, v, g):
        g = g * np.minimum(1.0, 1.0 / np.sqrt((g**2).sum()))
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
        return w - 0.01 * (m / 0.1) / (np.sqrt(v / 0.01) + 1e-8), m, v

    return run

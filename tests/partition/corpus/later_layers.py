"""Layers and losses written when the partitioner was done, and first measured unrepaired."""

from __future__ import annotations

from tests.partition.corpus.entry import program

_SAME = ((1, 1), (1, 1))


def _log_softmax(np, z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def _unit(np, x):
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)


# -- attention -------------------------------------------------------------------------------------


@program((2, 2, 8, 4), (2, 2, 8, 4), (2, 2, 8, 4), (2,), tolerance=1e-3)
def normalized_queries(np, lib):
    """Attention over unit queries and keys, with a scale for each head (Henry, 2020)."""

    def run(q, k, v, scale):
        s = np.einsum("bhqd,bhkd->bhqk", _unit(np, q), _unit(np, k)) * scale[:, None, None]
        s = np.where(np.tril(np.ones((8, 8), bool)), s, -1e9)
        return np.einsum("bhqk,bhkd->bhqd", lib.nn.softmax(s), v)

    return run


@program((2, 8, 8), (8, 16), (8, 16), (8, 8), (2,), tolerance=1e-3)
def differential_attention(np, lib):
    """The difference of two attention maps, normalized by head (Ye, 2024)."""

    def run(x, wq, wk, wv, balance):
        q, k = ((x @ w).reshape(2, 8, 2, 2, 4) for w in (wq, wk))
        v = (x @ wv).reshape(2, 8, 2, 4)
        maps = lib.nn.softmax(np.einsum("bqhcd,bkhcd->bhcqk", q, k) / 2)
        difference = maps[:, :, 0] - balance[:, None, None] * maps[:, :, 1]
        out = np.einsum("bhqk,bkhd->bqhd", difference, v)
        out = out / np.sqrt((out**2).mean(-1, keepdims=True) + 1e-5)
        return out.reshape(2, 8, 8)

    return run


@program((2, 4, 8, 4), (2, 4, 8, 4), (2, 4, 8, 4), (4, 4), (4, 4), tolerance=1e-3)
def talking_heads(np, lib):
    """Heads are mixed before and after the softmax (Shazeer, 2020)."""

    def run(q, k, v, before, after):
        s = np.einsum("bhqd,bhkd,hg->bgqk", q, k, before) / 2
        return np.einsum("bgqk,gh,bhkd->bhqd", lib.nn.softmax(s), after, v)

    return run


@program((2, 12, 4), (2, 12, 4), (2, 12, 4), tolerance=1e-3)
def sinks(np, lib):
    """The first two tokens and the last four (Xiao, 2023)."""

    def run(q, k, v):
        at = np.arange(12)
        seen = (at[:, None] >= at) & ((at < 2) | (at[:, None] - at < 4))
        s = np.where(seen, np.einsum("bqd,bkd->bqk", q, k), -1e9)
        return np.einsum("bqk,bkd->bqd", lib.nn.softmax(s), v)

    return run


@program((2, 8, 8), (8,), (8, 16), (8, 16), (16, 8), tolerance=1e-3)
def gated_block(np, lib):
    """RMS norm and a gated layer (Shazeer, 2020; Touvron, 2023), and the gradient."""

    def loss(x, scale, gate, up, down):
        y = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale
        h = y @ gate
        return ((x + (h * lib.nn.sigmoid(h) * (y @ up)) @ down) ** 2).mean()

    return lib.grad(loss, (1, 2, 3, 4))


@program((8, 8), (8, 16), (8, 2), (2, 16), (8, 16), tolerance=1e-3)
def low_rank_adapter(np, lib):
    """The gradient of LoRA's two factors (Hu, 2021)."""

    def loss(x, w, a, b, y):
        return ((x @ w + (x @ a) @ b - y) ** 2).sum()

    return lib.grad(loss, (2, 3))


@program((16, 8), (8, 8), (8,), (8, 8, 4))
def sigmoid_router(np, lib):
    """Two experts by biased scores, weighted by unbiased ones (DeepSeek-V3, 2024)."""

    def run(x, router, bias, experts):
        scores = lib.nn.sigmoid(x @ router)
        _, best = lib.lax.top_k(scores + bias, 2)
        chosen = np.take_along_axis(scores, best, -1)
        weights = chosen / chosen.sum(-1, keepdims=True)
        mask = (best[..., None] == np.arange(8)).astype(np.float32)
        return np.einsum("tke,tk,td,edf->tf", mask, weights, x, experts)

    return run


@program((16, 8), (8, 8), tolerance=1e-3)
def balance_loss(np, lib):
    """The router's gradient from the balance of experts (Fedus, 2021)."""

    def loss(w, x):
        p = lib.nn.softmax(x @ w)
        routed = (p == p.max(-1, keepdims=True)).astype(np.float32).mean(0)
        return 8 * (routed * p.mean(0)).sum() + 1e-3 * (np.log(np.exp(x @ w).sum(-1)) ** 2).mean()

    return lambda x, w: lib.grad(loss)(w, x)


# -- losses ----------------------------------------------------------------------------------------


@program((16, 8), (8, 4), (16,), ints=(2,), tolerance=1e-3)
def focal_loss(np, lib):
    """Easy examples count less (Lin, 2017); the gradient of a linear classifier."""

    def loss(w, x, y):
        logp = _log_softmax(np, x @ w)
        right = (logp * (y[:, None] % 4 == np.arange(4))).sum(-1)
        return -((1 - np.exp(right)) ** 2 * right).mean()

    return lambda x, w, y: lib.grad(loss)(w, x, y)


@program((2, 8, 8), (2, 8, 8), tolerance=1e-3)
def dice(np, lib):
    """Overlap of masks (Milletari, 2016), and its gradient."""

    def loss(z, y):
        p, y = lib.nn.sigmoid(z), lib.nn.sigmoid(4 * y)
        both = (p * y).sum((1, 2))
        return (1 - 2 * both / ((p**2).sum((1, 2)) + (y**2).sum((1, 2)))).mean()

    return lib.value_and_grad(loss)


@program((16, 8), (16,), ints=(1,))
def hardest_triplets(np, lib):
    """The farthest of the same class, the nearest of others (Hermans, 2017)."""

    def run(x, y):
        squares = (x**2).sum(-1)
        d = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0) + 1e-6)
        same = y[:, None] % 3 == y % 3
        far = np.where(same, d, 0).max(1)
        near = np.where(same, 1e9, d).min(1)
        return np.maximum(far - near + 0.3, 0).mean()

    return run


@program((8, 16), (8, 16), (1,), (1,), tolerance=1e-3)
def pairwise_sigmoids(np, lib):
    """SigLIP's loss over all pairs of images and texts (Zhai, 2023), and the gradient."""

    def loss(a, b, scale, bias):
        s = _unit(np, a) @ _unit(np, b).T * np.exp(scale) + bias
        signs = 2 * np.eye(8, dtype=np.float32) - 1
        return np.log1p(np.exp(-signs * s)).sum() / 8

    return lib.grad(loss, (0, 1, 2, 3))


@program((16, 8), (16, 8), tolerance=1e-3)
def variance_and_covariance(np, lib):
    """VICReg's three terms (Bardes, 2021), and the gradient."""

    def loss(a, b):
        total = ((a - b) ** 2).mean()
        for z in (a, b):
            z = z - z.mean(0)
            total = total + np.maximum(1 - np.sqrt((z**2).sum(0) / 15 + 1e-4), 0).mean()
            c = z.T @ z / 15
            total = total + ((c * (1 - np.eye(8, dtype=np.float32))) ** 2).sum() / 8
        return total

    return lib.grad(loss, (0, 1))


@program((16, 4), (8, 4), tolerance=1e-3)
def codebook(np, lib):
    """Codes move to the vectors they stand for (van den Oord, 2017)."""

    def loss(codes, x):
        d = ((x[:, None] - codes) ** 2).sum(-1)
        nearest = (d == d.min(-1, keepdims=True)).astype(np.float32)
        return ((x - nearest @ codes) ** 2).mean()

    return lambda x, codes: lib.grad(loss)(codes, x)


@program((16, 8), (8, 12), (16,), tolerance=1e-3)
def mixture_density(np, lib):
    """A mixture of Gaussians whose parameters a layer gives (Bishop, 1994), and the gradient."""

    def loss(w, x, y):
        share, mean, spread = np.split(x @ w, 3, -1)
        spread = np.clip(spread, -1, 1)
        z = _log_softmax(np, share) - spread - ((y[:, None] - mean) / np.exp(spread)) ** 2 / 2
        top = z.max(-1, keepdims=True)
        return -(top[:, 0] + np.log(np.exp(z - top).sum(-1))).mean()

    return lambda x, w, y: lib.grad(loss)(w, x, y)


@program((16, 8), (8, 4), (16,), tolerance=1e-3)
def quantile_loss(np, lib):
    """Pinball losses of four quantiles (Koenker, 1978), and the gradient."""

    def loss(w, x, y):
        over = y[:, None] - x @ w
        levels = (np.arange(4) + 0.5).astype(np.float32) / 4
        return np.maximum(levels * over, (levels - 1) * over).sum()

    return lambda x, w, y: lib.grad(loss)(w, x, y)


@program((8, 4), (4, 16), (16, 1), tolerance=2e-3)
def gradient_penalty(np, lib):
    """How far a critic's slope is from one (Gulrajani, 2017)."""

    def run(x, up, down):
        h = np.tanh(x @ up)
        slope = ((1 - h**2) * down[:, 0]) @ up.T
        return ((np.sqrt((slope**2).sum(-1) + 1e-6) - 1) ** 2).mean()

    return lambda *a: lib.grad(run, (1, 2))(*a)


@program((16, 4), (16, 2), (4, 2), tolerance=2e-3)
def inner_step(np, lib):
    """The gradient through one step of adaptation (Finn, MAML, 2017)."""

    def loss(w, x, y):
        adapted = w - 0.1 * (x[:8].T @ (x[:8] @ w - y[:8]))
        return ((x[8:] @ adapted - y[8:]) ** 2).mean()

    return lambda x, y, w: lib.grad(loss)(w, x, y)


# -- images ----------------------------------------------------------------------------------------


@program((2, 4, 8, 8), (1, 2, 3, 3), tolerance=1e-3)
def spatial_gate(np, lib):
    """Where to look, from maxima and means over channels (Woo, CBAM, 2018)."""

    def run(x, w):
        pooled = np.stack([x.max(1), x.mean(1)], 1)
        return x * lib.nn.sigmoid(lib.lax.conv_general_dilated(pooled, w, (1, 1), _SAME))

    return run


@program((2, 8, 8, 2), (2, 2, 3), tolerance=1e-3)
def spatial_transformer(np, lib):
    """An affine map, sampled bilinearly (Jaderberg, 2015)."""

    def run(image, affine):
        at = (np.arange(8).astype(np.float32) - 3.5) / 4
        y, x = np.meshgrid(at, at, indexing="ij")
        grid = np.stack([y, x, np.ones_like(y)], -1)
        where = np.einsum("hwk,bjk->bhwj", grid, np.tanh(affine)) * 4 + 3.5
        where = np.clip(where, 0, 6.99)
        low = np.floor(where).astype(np.int32)
        part = where - low
        batch = np.arange(2)[:, None, None]
        total = 0
        for dy in (0, 1):
            for dx in (0, 1):
                wy = part[..., 0] if dy else 1 - part[..., 0]
                wx = part[..., 1] if dx else 1 - part[..., 1]
                total = (
                    total + image[batch, low[..., 0] + dy, low[..., 1] + dx] * (wy * wx)[..., None]
                )
        return total

    return run


@program((4, 2, 4, 8, 8), (8, 2, 3, 3), (8, 2, 3, 3), tolerance=1e-3)
def convolutional_memory(np, lib):
    """ConvLSTM over a few frames (Shi, 2015)."""

    def run(frames, wx, wh):
        def step(state, frame):
            h, c = state
            gates = lib.lax.conv_general_dilated(frame[:, :2], wx, (1, 1), _SAME)
            gates = gates + lib.lax.conv_general_dilated(h, wh, (1, 1), _SAME)
            i, f, o, g = np.split(gates, 4, 1)
            c = lib.nn.sigmoid(f) * c + lib.nn.sigmoid(i) * np.tanh(g)
            h = lib.nn.sigmoid(o) * np.tanh(c)
            return (h, c), h.mean((2, 3))

        zero = frames[0, :, :2] * 0
        return lib.lax.scan(step, (zero, zero), frames)[1]

    return run


@program((16, 2), (2, 16), (16, 16), (16, 3), (16, 3), tolerance=2e-3)
def sine_layers(np, lib):
    """An image as a network of sines (Sitzmann, 2020), and the gradient."""

    def loss(first, second, last, at, colour):
        h = np.sin(3 * (at @ first))
        return ((np.sin(h @ second) @ last - colour) ** 2).mean()

    return lambda at, a, b, c, colour: lib.grad(loss, (0, 1, 2))(a, b, c, at, colour)


@program((8, 2), (8, 3), (8,), (8, 8), tolerance=1e-3)
def splatted(np, lib):
    """Gaussians in front of each other, composed by pixel (Kerbl, 2023)."""

    def run(centres, colours, opacity, image):
        at = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"), -1) / 4 - 1
        d = ((at[:, :, None].astype(np.float32) - centres) ** 2).sum(-1)
        alpha = lib.nn.sigmoid(opacity) * np.exp(-d)
        clear = np.cumprod(1 - alpha, -1)
        before = np.concatenate([np.ones_like(clear[..., :1]), clear[..., :-1]], -1)
        shown = np.einsum("hwn,nc->hwc", before * alpha, lib.nn.sigmoid(colours))
        return shown, ((shown.mean(-1) - image) ** 2).mean()

    return run


@program((4, 8, 3), (3, 8), (8, 16), (16, 4), tolerance=1e-3)
def point_sets(np, lib):
    """PointNet: a layer for each point, then maxima (Qi, 2017), and the gradient."""

    def loss(a, b, c, x):
        h = lib.nn.relu(lib.nn.relu(x @ a) @ b).max(1)
        return (_log_softmax(np, h @ c)[:, 0]).sum()

    return lambda x, a, b, c: lib.grad(loss, (0, 1, 2))(a, b, c, x)


@program((2, 8, 3), (2, 12, 3), tolerance=1e-3)
def chamfer(np, lib):
    """The distance of two clouds of points (Fan, 2017), and the gradient."""

    def loss(a, b):
        d = ((a[:, :, None] - b[:, None]) ** 2).sum(-1)
        return d.min(2).mean() + d.min(1).mean()

    return lib.value_and_grad(loss)


@program((2, 8, 8), (2, 2))
def haar(np, lib):
    """Two levels of wavelets (Haar, 1910), and what is large of them."""

    def run(x, w):
        out = []
        for _ in range(2):
            a, b = x[:, ::2], x[:, 1::2]
            x, rows = (a + b) / 2, (a - b) / 2
            a, b = x[:, :, ::2], x[:, :, 1::2]
            x, columns = (a + b) / 2, (a - b) / 2
            out += [np.where(abs(d) > 0.1, d, 0) for d in (rows, columns)]
        return (x @ w, *out)

    return run


@program((4, 32), (9, 4))
def mel_features(np, lib):
    """Frames, their power spectra, and logarithms of bands."""

    def run(x, bands):
        frames = np.stack([x[:, 8 * i : 8 * i + 16] for i in range(3)], 1)
        window = np.hanning(16).astype(np.float32)
        power = abs(np.fft.rfft(frames * window)) ** 2
        return np.log(power @ abs(bands) + 1e-3)

    return run

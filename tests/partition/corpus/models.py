"""Networks and their losses from papers, mostly with gradients by central differences."""

from __future__ import annotations

from tests.partition.corpus.entry import program


def _softmax(np, s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _normalized(np, x):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-3)


def _convolve(lib, x, w, pad=1, stride=1, groups=1):
    return lib.lax.conv_general_dilated(
        x, w, (stride, stride), ((pad, pad), (pad, pad)), feature_group_count=groups
    )


# -- attention without a softmax over everything ---------------------------------------------------


@program((2, 8, 2, 4), (2, 8, 2, 4), (2, 8, 2, 4), (2, 8, 2, 4))
def matrix_valued_states(np, lib):
    """RWKV-5 and -6: a state of keys by values, with a decay by token (Peng, 2024)."""

    def run(r, k, v, w):
        decay = np.exp(-np.exp(w))

        def step(state, now):
            r, k, v, d = now
            pair = k[..., :, None] * v[..., None, :]
            out = np.einsum("bhk,bhkv->bhv", r, state + 0.5 * pair)
            return state * d[..., None] + pair, out

        by_time = tuple(np.moveaxis(a, 1, 0) for a in (r, k, v, decay))
        return np.moveaxis(
            lib.lax.scan(
                step, np.zeros_like(by_time[0][0][..., None] * by_time[1][0][..., None, :]), by_time
            )[1],
            0,
            1,
        )

    return run


@program((2, 16, 2, 4), (2, 16, 2, 4), (2, 16, 2, 4))
def retention(np, lib):
    """RetNet's chunks: parallel inside, recurrent between (Sun, 2023)."""

    def run(q, k, v):
        size = 4
        rate = 1 - 2.0 ** (-3 - np.arange(2, dtype=np.float32))
        at = np.arange(size, dtype=np.float32)
        distance = at[:, None] - at[None]
        inner = np.where(distance >= 0, rate[:, None, None] ** np.maximum(distance, 0), 0)
        chunks = tuple(np.moveaxis(a.reshape(2, 4, size, 2, 4), 1, 0) for a in (q, k, v))

        def step(state, now):
            q, k, v = now
            s = np.einsum("bthd,bshd->bhts", q, k) * inner
            near = np.einsum("bhts,bshd->bthd", s, v)
            far = np.einsum("bthd,bhde->bthe", q, state) * (rate ** (at[:, None] + 1))[..., None]
            kept = k * (rate ** (size - 1 - at[:, None]))[..., None]
            state = state * (rate**size)[:, None, None] + np.einsum("bshd,bshe->bhde", kept, v)
            return state, near + far

        start = np.zeros((2, 2, 4, 4), np.float32)
        return np.moveaxis(lib.lax.scan(step, start, chunks)[1], 0, 1).reshape(2, 16, 2, 4)

    return run


@program((2, 8, 4), (2, 8, 4), (2, 8, 4), (2, 8, 4), tolerance=1e-3)
def gated_linear_attention(np, lib):
    """Chunks with gates by token, and the gradient (Yang, 2024)."""

    def loss(q, k, v, g):
        gate = -np.log1p(np.exp(-g))
        total = np.cumsum(gate.reshape(2, 2, 4, 4), 2)
        q, k, v = (a.reshape(2, 2, 4, 4) for a in (q, k, v))
        scores = np.einsum("bntd,bnsd->bnts", q * np.exp(total), k * np.exp(-total))
        near = np.einsum("bnts,bnsd->bntd", scores * np.tril(np.ones((4, 4), np.float32)), v)
        last = total[:, :, -1:]
        sums = np.einsum("bnsd,bnse->bnde", k * np.exp(last - total), v)
        far = np.einsum("btd,bde->bte", q[:, 1] * np.exp(total[:, 1]), sums[:, 0])
        return (near**2).sum() + (far * near[:, 1]).sum() + (far**2).sum()

    return lib.grad(loss, (0, 1, 2, 3))


@program((2, 8, 4), (2, 8, 4), (2, 8, 4), (2, 8))
def delta_rule(np, lib):
    """A memory that overwrites what a key had (Schlag, 2021; Yang, 2024)."""

    def run(q, k, v, b):
        k = k / np.sqrt((k**2).sum(-1, keepdims=True) + 1e-3)
        b = 1 / (1 + np.exp(-b))

        def step(memory, now):
            q, k, v, b = now
            wrong = v - np.einsum("bkv,bk->bv", memory, k)
            memory = memory + b[:, None, None] * k[:, :, None] * wrong[:, None]
            return memory, np.einsum("bkv,bk->bv", memory, q)

        by_time = tuple(np.moveaxis(a, 1, 0) for a in (q, k, v, b))
        return lib.lax.scan(step, np.zeros((2, 4, 4), np.float32), by_time)[1]

    return run


@program((2, 16, 4), (2, 16, 4), (16, 4))
def long_convolution(np, lib):
    """Hyena: a filter as long as the sequence, by Fourier transforms (Poli, 2023)."""

    def run(x, gate, h):
        spectrum = np.fft.rfft(np.concatenate([gate * x, np.zeros_like(x)], 1), axis=1)
        filters = np.fft.rfft(np.concatenate([h, np.zeros_like(h)], 0), axis=0)
        return gate * np.fft.irfft(spectrum * filters, axis=1)[:, :16] + x

    return run


@program((2, 16, 4), (4, 4), (4, 4), (4, 4), tolerance=1e-3)
def latents(np, lib):
    """Perceiver: a few latents read a long input; the gradient (Jaegle, 2021)."""

    def loss(x, z, wk, wv):
        for _ in range(2):
            s = (
                np.einsum("ld,btd->blt", z, x @ wk)
                if z.ndim == 2
                else np.einsum("bld,btd->blt", z, x @ wk)
            )
            z = z + np.einsum("blt,btd->bld", _softmax(np, s), x @ wv)
            z = _normalized(np, z)
        return (z * np.arange(16, dtype=np.float32).reshape(4, 4)).sum()

    return lib.grad(loss, (1, 2, 3))


@program((2, 8, 8, 4), (4, 12))
def shifted_windows(np, lib):
    """Swin: attention in windows of a shifted picture (Liu, 2021)."""

    def run(x, w):
        b, h, wide, c = x.shape
        y = np.roll(x, (-2, -2), (1, 2))
        y = y.reshape(b, 2, 4, 2, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, 4, 16, c)
        q, k, v = np.split(y @ w, 3, -1)
        y = np.einsum("bwts,bwsd->bwtd", _softmax(np, np.einsum("bwtd,bwsd->bwts", q, k)), v)
        y = y.reshape(b, 2, 2, 4, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, h, wide, c)
        return x + np.roll(y, (2, 2), (1, 2))

    return run


@program((2, 8, 8, 4), (4, 4))
def grid_attention(np, lib):
    """MaxViT: each window's elements far apart (Tu, 2022)."""

    def run(x, w):
        b, h, wide, c = x.shape
        y = x.reshape(b, 4, 2, 4, 2, c).transpose(0, 2, 4, 1, 3, 5).reshape(b, 4, 16, c)
        s = np.einsum("bwtd,bwsd->bwts", y @ w, y) / 2
        y = np.einsum("bwts,bwsd->bwtd", _softmax(np, s), y)
        return x + y.reshape(b, 2, 2, 4, 4, c).transpose(0, 3, 1, 4, 2, 5).reshape(b, h, wide, c)

    return run


@program((2, 16, 4), (2, 16, 4), (2, 16, 4), (4, 8), (16, 4))
def cheap_attention(np, lib):
    """Positive features (Performer, 2020), projected keys (Linformer), landmarks (Nyström)."""

    def run(q, k, v, features, project):
        phi = lambda x: np.exp(x @ features - (x**2).sum(-1, keepdims=True) / 2)
        fq, fk = phi(q / 2), phi(k / 2)
        top = np.einsum("btf,bfd->btd", fq, np.einsum("bsf,bsd->bfd", fk, v))
        performer = top / (np.einsum("btf,bf->bt", fq, fk.sum(1))[..., None] + 1e-2)
        short_k, short_v = (np.einsum("sl,bsd->bld", project, a) for a in (k, v))
        linformer = _softmax(np, q @ np.swapaxes(short_k, 1, 2)) @ short_v
        mark_q, mark_k = (a.reshape(2, 4, 4, 4).mean(2) for a in (q, k))
        first = _softmax(np, q @ np.swapaxes(mark_k, 1, 2))
        last = _softmax(np, mark_q @ np.swapaxes(k, 1, 2))
        return performer, linformer, first @ (last @ v)

    return run


# -- pictures --------------------------------------------------------------------------------------


@program((2, 4, 4, 4), (4, 1, 3, 3), (4, 8), (8, 4), tolerance=1e-3)
def modern_block(np, lib):
    """ConvNeXt: depthwise, normalized by pixel, expanded (Liu, 2022); the gradient."""

    def loss(x, w, up, down):
        y = np.moveaxis(_convolve(lib, x, w, groups=4), 1, -1)
        h = _normalized(np, y) @ up
        y = (h * lib.nn.sigmoid(1.7 * h)) @ down
        return ((x + np.moveaxis(y, -1, 1)) ** 2).sum()

    return lib.grad(loss, (1, 2, 3))


@program((2, 8, 4, 4), (8, 8, 1, 1), (8, 2), (2, 8), tolerance=1e-3)
def squeezed(np, lib):
    """A residual block whose channels are weighed by their means (Hu, 2018); the gradient."""

    def loss(x, w, down, up):
        y = _convolve(lib, x, w, pad=0)
        s = lib.nn.sigmoid(np.maximum(y.mean((2, 3)) @ down, 0) @ up)
        return (np.tanh(x + y * s[:, :, None, None]) ** 2).sum()

    return lib.grad(loss, (1, 2, 3))


@program((2, 8, 8, 2), (2, 4, 4, 2), tolerance=1e-3)
def sampled_picture(np, lib):
    """A picture read between its pixels (Jaderberg, 2015), and the gradient by its pixels."""

    def sample(picture, at):
        at = 3.5 + 3.4 * np.tanh(at)
        low = np.floor(at).astype(np.int32)
        share = at - low
        rows, columns = low[..., 0], low[..., 1]
        out = 0
        for i in range(2):
            for j in range(2):
                weight = np.abs(1 - i - share[..., 0]) * np.abs(1 - j - share[..., 1])
                one = lambda p, r, c: p[r, c]
                out = out + weight[..., None] * lib.vmap(one)(picture, rows + i, columns + j)
        return out

    def run(picture, at):
        value = sample(picture, at)
        return value, lib.grad(lambda p: (sample(p, at) ** 2).sum())(picture)

    return run


@program((2, 2, 8, 8), (4, 2, 3, 3), (4, 4, 3, 3), (2, 6, 3, 3), (2, 4), tolerance=1e-3)
def u_net(np, lib):
    """Down, up, and joined with what was before; channels scaled by a condition (FiLM)."""

    def loss(x, first, low, last, film):
        a = np.tanh(_convolve(lib, x, first))
        b = _convolve(lib, a, low, stride=2)
        b = np.tanh(b * film[:, :, None, None])
        up = np.repeat(np.repeat(b, 2, 2), 2, 3)
        joined = np.concatenate([up, x], 1)
        return ((_convolve(lib, joined, last) - x) ** 2).mean()

    return lib.grad(loss, (1, 2, 3, 4))


@program((2, 2, 8, 8), (4, 2, 3, 3))
def masked_convolution(np, lib):
    """PixelCNN: a filter that sees what is above and to the left (van den Oord, 2016)."""

    def run(x, w):
        at = np.arange(9).reshape(3, 3)
        y = _convolve(lib, x, w * (at < 4))
        return np.tanh(y[:, :2]) * lib.nn.sigmoid(y[:, 2:])

    return run


@program((2, 4, 1, 16), (3, 8, 4, 1, 2), tolerance=1e-3)
def dilated_stack(np, lib):
    """WaveNet's causal layers, each twice as wide, with gates (2016); the gradient."""

    def loss(x, w):
        total = 0
        for i in range(3):
            padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (2**i, 0)))
            y = lib.lax.conv_general_dilated(
                padded, w[i], (1, 1), ((0, 0), (0, 0)), rhs_dilation=(1, 2**i)
            )
            y = np.tanh(y[:, :4]) * lib.nn.sigmoid(y[:, 4:])
            x, total = x + y, total + y
        return (total**2).sum()

    return lib.grad(loss, 1)


@program((16, 4), (8, 4), tolerance=2e-3)
def quantized(np, lib):
    """VQ-VAE: the nearest code, and the losses that move codes and inputs (2017)."""

    def run(x, codes):
        near = ((x[:, None] - codes[None]) ** 2).sum(-1).argmin(-1)
        used = (near[:, None] == np.arange(8)).astype(np.float32)
        counts = used.sum(0)
        moved = codes + 0.1 * (used.T @ x - counts[:, None] * codes)
        share = used.mean(0)
        return codes[near], moved, np.exp(-(share * np.log(share + 1e-6)).sum())

    return run


# -- contrast, experts, graphs, flows --------------------------------------------------------------


@program((16, 8), (16, 8), tolerance=1e-3)
def barlow_twins(np, lib):
    """The correlations of two views are to be the identity (Zbontar, 2021); the gradient."""

    def loss(a, b):
        a, b = ((v - v.mean(0)) / np.sqrt(v.var(0) + 1e-3) for v in (a, b))
        c = a.T @ b / 16
        same = np.eye(8, dtype=np.float32)
        return (((c - 1) * same) ** 2).sum() + 0.1 * ((c * (1 - same)) ** 2).sum()

    return lib.grad(loss, (0, 1))


@program((8, 4), (8, 4), tolerance=1e-3)
def two_views(np, lib):
    """SimCLR: each view finds the other among all (Chen, 2020); the gradient."""

    def loss(a, b):
        z = np.concatenate([a, b], 0)
        z = z / np.sqrt((z**2).sum(-1, keepdims=True))
        s = z @ z.T / 0.5 - 1e4 * np.eye(16, dtype=np.float32)
        top = s.max(-1, keepdims=True)
        logp = s - top - np.log(np.exp(s - top).sum(-1, keepdims=True))
        partner = (np.arange(16) + 8) % 16
        return -np.take_along_axis(logp, partner[:, None], -1).mean()

    return lib.grad(loss, (0, 1))


@program((16, 4), (4, 4, 2), (4, 4, 8), (4, 8, 4), tolerance=1e-3)
def soft_experts(np, lib):
    """Slots are mixtures of tokens, tokens are mixtures of slots (Puigcerver, 2023)."""

    def loss(x, slots, up, down):
        s = np.einsum("td,des->tes", x, slots)
        dispatch = _softmax(np, s, 0)
        combine = _softmax(np, s.reshape(16, 8)).reshape(16, 4, 2)
        h = np.maximum(np.einsum("td,tes,edf->esf", x, dispatch, up), 0)
        return (np.einsum("esf,efd,tes->td", h, down, combine) ** 2).sum()

    return lib.grad(loss, (1, 2, 3))


@program((16, 4), (4, 4), (4, 4, 4), tolerance=2e-3)
def switched(np, lib):
    """One expert a token, with the loss that spreads tokens (Fedus, 2021); the gradient."""

    def loss(x, router, experts):
        gate = _softmax(np, x @ router)
        top = gate == gate.max(-1, keepdims=True)
        hot = top.astype(np.float32)
        balance = 4 * (hot.mean(0) * gate.mean(0)).sum()
        out = np.einsum("te,td,edf->tf", hot * gate, x, experts)
        return (out**2).mean() + 0.1 * balance

    return lib.grad(loss, (1, 2))


@program((8, 4), (24,), (24,), (4, 4), (8,), ints=(1, 2), tolerance=1e-3)
def graph_attention(np, lib):
    """Edges weighed by a softmax at each node (Veličković, 2018); the gradient."""

    def loss(x, source, target, w, a):
        h = x @ w
        hot_s, hot_t = ((i[:, None] == np.arange(8)).astype(np.float32) for i in (source, target))
        s = np.tanh(hot_s @ (h @ a[:4]) + hot_t @ (h @ a[4:]))
        e = np.exp(s)
        total = hot_t.T @ e
        share = e / (hot_t @ total)
        return ((hot_t.T @ (share[:, None] * h[source])) ** 2).sum()

    return lib.grad(loss, (3, 4))


@program((8, 3), (8, 4), (24,), (24,), (6, 4), ints=(2, 3))
def radial_messages(np, lib):
    """SchNet: filters by distance along edges (Schütt, 2017)."""

    def run(at, x, source, target, w):
        d = np.sqrt(((at[source] - at[target]) ** 2).sum(-1) + 1e-3)
        radial = np.exp(-((d[:, None] - np.arange(6, dtype=np.float32) / 2) ** 2))
        messages = x[source] * np.tanh(radial @ w)
        hot = (target[:, None] == np.arange(8)).astype(np.float32)
        return x + hot.T @ messages

    return run


@program((16, 4), (2, 2, 8), (2, 8, 4), tolerance=1e-3)
def coupling_flow(np, lib):
    """RealNVP's likelihood and its gradient (Dinh, 2017)."""

    def loss(x, up, down):
        logdet = 0
        for i in range(2):
            a, b = x[:, :2], x[:, 2:]
            out = np.tanh(a @ up[i]) @ down[i]
            scale = np.tanh(out[:, :2])
            b = b * np.exp(scale) + out[:, 2:]
            x, logdet = np.concatenate([b, a], 1), logdet + scale.sum(-1)
        return ((x**2).sum(-1) / 2 - logdet).mean()

    return lib.grad(loss, (1, 2))


@program((8, 2), (2, 8), (8, 2), tolerance=1e-3)
def neural_equation(np, lib):
    """Four Runge-Kutta steps of a network, and the gradient through them (Chen, 2018)."""

    def loss(x, up, down):
        f = lambda x: np.tanh(x @ up) @ down

        def step(x, _):
            a = f(x)
            b = f(x + 0.05 * a)
            c = f(x + 0.05 * b)
            d = f(x + 0.1 * c)
            return x + 0.1 / 6 * (a + 2 * b + 2 * c + d), (x**2).sum()

        x, sums = lib.lax.scan(step, x, None, length=4)
        return (x**2).sum() + 0.1 * sums.sum()

    return lib.grad(loss, (1, 2))


@program((8, 4), (8, 4), (8,), (8, 8), (8, 4), positive=True, tolerance=1e-3)
def denoising(np, lib):
    """DDPM: the noise is to be found again, at a time told by sines (Ho, 2020); the gradient."""

    def loss(x, noise, t, up, down):
        rates = np.exp(-np.arange(2, dtype=np.float32))
        told = np.concatenate([np.sin(t[:, None] * rates), np.cos(t[:, None] * rates)], -1)
        kept = np.exp(-t)[:, None]
        seen = np.sqrt(kept) * x + np.sqrt(1 - kept) * noise
        h = np.concatenate([seen, told], -1) @ up
        return (((h * lib.nn.sigmoid(h)) @ down - noise) ** 2).mean()

    return lib.grad(loss, (3, 4))


@program((8, 8), (8, 8, 3), (64, 2), (8, 8, 2), ints=(3,), tolerance=1e-3)
def rendered_rays(np, lib):
    """NeRF's compositing and features by hash (Mildenhall, 2020; Müller, 2022)."""

    def run(density, colour, table, cell):
        def pixels(density, colour):
            alpha = 1 - np.exp(-np.log1p(np.exp(density)))
            left = np.cumprod(1 - alpha + 1e-6, -1)
            before = np.concatenate([np.ones_like(left[:, :1]), left[:, :-1]], -1)
            return ((alpha * before)[..., None] * colour).sum(1)

        place = (cell[..., 0] * 17 + cell[..., 1] * 5) % 64
        gradient = lib.grad(lambda d: (pixels(d, colour) ** 2).sum())(density)
        return pixels(density, colour), gradient, table[place].sum(1)

    return run

"""Layers of networks: attention, normalization, mixtures, recurrences."""

from __future__ import annotations

from tests.partition.corpus.entry import program


def _softmax(np, s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@program((32, 16), (32, 16), (32, 16))
def attention(np, lib):
    return lambda q, k, v: _softmax(np, q @ k.T) @ v


@program((4, 16, 8), (8, 8), (8, 8), (8, 8), (8, 8))
def multi_head_attention(np, lib):
    def run(x, wq, wk, wv, wo):
        b, t, d = x.shape
        q, k, v = ((x @ w).reshape(b, t, 2, d // 2) for w in (wq, wk, wv))
        s = np.einsum("bthd,bshd->bhts", q, k)
        s = np.where(np.arange(t)[:, None] >= np.arange(t)[None], s, -1e9)
        o = np.einsum("bhts,bshd->bthd", _softmax(np, s), v)
        return o.reshape(b, t, d) @ wo

    return run


@program((4, 8, 16), (16,), (16,))
def layer_norm(np, lib):
    def run(x, g, b):
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) / np.sqrt(v + 1e-5) * g + b

    return run


@program((8, 16), (8,), ints=(1,))
def cross_entropy(np, lib):
    def run(x, y):
        z = x - x.max(-1, keepdims=True)
        logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
        return -(logp * (np.arange(16)[None] == y[:, None])).sum(-1)

    return run


@program((8, 16), (4, 8), ints=(1,))
def embedding(np, lib):
    return lambda e, i: np.take(e, i, axis=0) * 2


@program((8, 16), (24,), ints=(1,))
def one_hot_embedding(np, lib):
    def run(e, i):
        hot = (i[:, None] == np.arange(8)[None]).astype(np.float32)
        return hot @ e

    return run


@program((16, 8), (8, 4), (4, 8, 8))
def mixture_of_experts(np, lib):
    def run(x, g, w):
        gate = _softmax(np, x @ g)
        h = np.maximum(np.einsum("td,edf->tef", x, w), 0)
        return np.einsum("te,tef->tf", gate, h)

    return run


@program((8, 4, 16))
def group_norm(np, lib):
    def run(x):
        g = x.reshape(8, 2, 2 * 16)
        g = (g - g.mean(-1, keepdims=True)) / (g.std(-1, keepdims=True) + 1e-3)
        return g.reshape(8, 4, 16)

    return run


SEQUENCE = (
    ({"seq": 8}, ((None, "seq", None),) * 3),
    ({"data": 2, "seq": 4}, (("data", "seq", None),) * 3),
    ({"heads": 2, "seq": 4}, ((None, "seq", "heads"),) * 3),
)


@program((2, 16, 8), (2, 16, 8), (2, 16, 8), layouts=SEQUENCE)
def sequence_sharded_attention(np, lib):
    def run(q, k, v):
        s = np.einsum("btd,bsd->bts", q, k) / 8**0.5
        s = np.where(np.tril(np.ones((16, 16), bool)), s, -1e9)
        return np.einsum("bts,bsd->btd", _softmax(np, s), v)

    return run


@program((16, 8), (16, 8), (16, 8), layouts=(({"seq": 8}, (("seq", None),) * 3),))
def blockwise_attention(np, lib):
    """Online softmax over blocks of keys: the queries stay where they are."""

    def run(q, k, v):
        def step(state, block):
            m, total, out = state
            keys, values = block
            s = q @ keys.T
            top = np.maximum(m, s.max(-1))
            e = np.exp(s - top[:, None])
            scale = np.exp(m - top)
            return (top, total * scale + e.sum(-1), out * scale[:, None] + e @ values), None

        start = (np.full(16, -1e9, np.float32), np.zeros(16, np.float32), np.zeros_like(q))
        blocks = (k.reshape(4, 4, 8), v.reshape(4, 4, 8))
        (_, total, out), _ = lib.lax.scan(step, start, blocks)
        return out / total[:, None]

    return run


@program((2, 8, 4, 8), (2, 8, 8), (2, 8, 8))
def multi_query_attention(np, lib):
    def run(q, k, v):
        s = np.einsum("bthd,bsd->bhts", q, k)
        return np.einsum("bhts,bsd->bthd", _softmax(np, s), v)

    return run


@program((4, 8, 16))
def rotary_embedding(np, lib):
    def run(x):
        t = x.shape[1]
        rate = np.exp(-np.arange(8, dtype=np.float32) / 4)
        angle = np.arange(t, dtype=np.float32)[:, None] * rate[None]
        a, b = x[..., :8], x[..., 8:]
        c, s = np.cos(angle), np.sin(angle)
        return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)

    return run


FEATURES = (
    ({"data": 4, "model": 2}, ((("data",), None, ("model",)), (("model",), None, None))),
    ({"data": 4, "model": 2}, ((("data",), ("model",), None), (("data",), None, ("model",)))),
    ({"data": 8}, ((None, ("data",), None), (None, None, ("data",)))),
)


@program((4, 16, 8), (4, 16, 8), layouts=FEATURES)
def rotary_scores(np, lib):
    """Scores of turned queries and keys, whose features are split; all devices want them."""

    def turn(x):
        rate = np.exp(-np.arange(4, dtype=np.float32) / 2)
        angle = np.arange(16, dtype=np.float32)[:, None] * rate[None]
        a, b = x[..., :4], x[..., 4:]
        c, s = np.cos(angle), np.sin(angle)
        return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)

    return lambda q, k: np.einsum("bqd,bkd->bqk", turn(q), turn(k))


@program((32, 8), (32, 8), (32, 8))
def sliding_window_attention(np, lib):
    def run(q, k, v):
        near = [np.pad(k, ((3, 0), (0, 0)))[i : i + 32] for i in range(4)]
        values = [np.pad(v, ((3, 0), (0, 0)))[i : i + 32] for i in range(4)]
        s = np.stack([(q * n).sum(-1) for n in near], axis=-1)
        return np.einsum("ti,itd->td", _softmax(np, s), np.stack(values))

    return run


@program((16, 8), (16, 8), (16, 8))
def linear_attention(np, lib):
    def run(q, k, v):
        state = np.cumsum(k[:, :, None] * v[:, None, :], axis=0)
        return np.einsum("td,tde->te", q, state) / (1 + np.arange(16)[:, None])

    return run


@program((4, 16, 8), (4, 8), (4, 8))
def decoding_step(np, lib):
    """One token is put into a cache of keys and looked up among them."""

    def run(cache, q, k):
        cache = lib.lax.dynamic_update_slice(cache, k[:, None], (0, 5, 0))
        s = np.einsum("btd,bd->bt", cache, q)
        s = np.where(np.arange(16) <= 5, s, -1e9)
        return cache, np.einsum("bt,btd->bd", _softmax(np, s), cache)

    return run


@program((8, 16), (16, 24), (24, 16))
def gated_layer(np, lib):
    def run(x, w, v):
        h = x @ w
        return (h * lib.nn.sigmoid(h)) @ v + x

    return run


@program((16, 8, 4))
def batch_norm(np, lib):
    def run(x):
        m, v = x.mean((0, 1)), x.var((0, 1))
        return (x - m) / np.sqrt(v + 1e-3), m, v

    return run


@program((16, 8), (8, 16), layouts=(({"data": 8}, (("data", None), (None, "data"))),))
def contrastive(np, lib):
    """Every row against every other, with rows on all devices."""

    def run(x, w):
        h = x @ w
        h = h / np.sqrt((h * h).sum(-1, keepdims=True))
        s = h @ h.T * 4
        return np.log(np.exp(s).sum(-1)) - np.diagonal(s)

    return run


EXPERTS = (
    ({"expert": 4, "data": 2}, (("data", None), (None, "expert"), ("expert", None, None))),
    ({"expert": 8}, (("expert", None), (None, None), ("expert", None, None))),
)


@program((16, 8), (8, 8), (8, 8, 8), layouts=EXPERTS)
def top_one_experts(np, lib):
    """Each token goes to its best expert; the experts are on different devices."""

    def run(x, g, w):
        gate = _softmax(np, x @ g)
        best = (gate >= gate.max(-1, keepdims=True)).astype(np.float32)
        sent = np.einsum("te,td->etd", best, x)
        h = np.maximum(np.einsum("etd,edf->etf", sent, w), 0)
        return np.einsum("te,etf->tf", gate * best, h)

    return run


@program((16, 8), (16,), (8, 4), ints=(1,))
def capacity_experts(np, lib):
    """Tokens take a place in their expert's buffer by a running count."""

    def run(x, e, w):
        hot = (e[:, None] == np.arange(8)).astype(np.float32)
        place = (np.cumsum(hot, 0) - 1) * hot
        slot = (place.sum(1)[:, None] == np.arange(6)).astype(np.float32)
        dispatch = hot[:, :, None] * slot[:, None, :]
        buffers = np.einsum("tec,td->ecd", dispatch, x)
        return np.einsum("tec,ecf->tf", dispatch, buffers @ w)

    return run


@program((8, 12), (12, 32), (8, 32), (6, 4, 12))
def lstm(np, lib):
    def run(w, u, v, xs):
        def step(state, x):
            h, c = state
            i, f, g, o = np.split(x @ u + h @ v, 4, axis=-1)
            s = lib.nn.sigmoid
            c = s(f) * c + s(i) * np.tanh(g)
            h = s(o) * np.tanh(c)
            return (h, c), (h @ w).mean(-1)

        zero = np.zeros((4, 8), np.float32)
        (h, _), out = lib.lax.scan(step, (zero, zero), xs)
        return h, out

    return run


@program((12, 24), (8, 24), (5, 4, 12))
def gru_backwards(np, lib):
    def run(u, v, xs):
        def step(h, x):
            a, b = x @ u, h @ v
            z, r = (lib.nn.sigmoid(a[:, i : i + 8] + b[:, i : i + 8]) for i in (0, 8))
            h = (1 - z) * np.tanh(a[:, 16:] + r * b[:, 16:]) + z * h
            return h, h

        return lib.lax.scan(step, np.zeros((4, 8), np.float32), xs, reverse=True)

    return run


@program((16, 8), (16, 8))
def state_space(np, lib):
    """A diagonal linear recurrence by an associative scan."""

    def run(a, b):
        a = lib.nn.sigmoid(a)

        def combine(left, right):
            return left[0] * right[0], left[1] * right[0] + right[1]

        return lib.lax.associative_scan(combine, (a, b))[1]

    return run

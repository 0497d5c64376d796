"""Training steps of a transformer: data, tensor, sequence, fully sharded, vocabulary, experts."""

from __future__ import annotations

import numpy as np

from tests.partition.corpus.entry import program

SCALE = 0.3  # arguments are standard normal; weights are this much smaller
WIDTH, HEADS, HIDDEN, TOKENS = 16, 2, 32, 8
MATRIX = (WIDTH, WIDTH)
BATCH = (4, TOKENS)
SHAPES = (BATCH, BATCH, (8, WIDTH), *[MATRIX] * 4, (WIDTH, HIDDEN), (HIDDEN, WIDTH))


def _rms(x):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3)
    return x * r, r


def _rms_gradient(up, n, r):
    return r * (up - n * (up * n).mean(-1, keepdims=True))


def _softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _step(t, y, *params):
    """Loss and updated parameters, the gradient written out by hand."""
    e, wq, wk, wv, wo, up, down = (SCALE * p for p in params)
    b, n = t.shape
    split = lambda z: z.reshape(b, n, HEADS, -1)
    join = lambda z: z.reshape(b, n, WIDTH)
    x0 = e[t]
    n1, r1 = _rms(x0)
    q, k, v = split(n1 @ wq), split(n1 @ wk), split(n1 @ wv)
    scale = (WIDTH // HEADS) ** -0.5
    s = np.einsum("bthd,bshd->bhts", q, k) * scale
    p = _softmax(np.where(np.tril(np.ones((n, n), bool)), s, -1e9))
    o = join(np.einsum("bhts,bshd->bthd", p, v))
    x1 = x0 + o @ wo
    n2, r2 = _rms(x1)
    h = np.maximum(n2 @ up, 0)
    x2 = x1 + h @ down
    prob = _softmax(x2 @ e.T)
    hot = y[..., None] == np.arange(8)
    loss = -np.log(prob[hot]).mean()

    flat = lambda z: z.reshape(b * n, -1)
    dz = (prob - hot) / (b * n)
    de = flat(dz).T @ flat(x2)
    dx2 = dz @ e
    ddown = flat(h).T @ flat(dx2)
    dh = (dx2 @ down.T) * (h > 0)
    dup = flat(n2).T @ flat(dh)
    dx1 = dx2 + _rms_gradient(dh @ up.T, n2, r2)
    dwo = flat(o).T @ flat(dx1)
    do = split(dx1 @ wo.T)
    dv = np.einsum("bhts,bthd->bshd", p, do)
    dp = np.einsum("bthd,bshd->bhts", do, v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    dq = np.einsum("bhts,bshd->bthd", ds, k)
    dk = np.einsum("bhts,bthd->bshd", ds, q)
    dq, dk, dv = join(dq), join(dk), join(dv)
    dx0 = dx1 + _rms_gradient(dq @ wq.T + dk @ wk.T + dv @ wv.T, n1, r1)
    np.add.at(de, t, dx0)
    products = (flat(n1).T @ flat(d) for d in (dq, dk, dv))
    gradients = (de, *products, dwo, dup, ddown)
    return loss, *(w - SCALE * g for w, g in zip(params, gradients, strict=True))


def _model(np, lib, keep=lambda x: x):
    """The loss; `keep` is applied to activations between blocks."""

    def normal(x):
        return x * lib.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-3)

    def loss(params, t, y):
        e, wq, wk, wv, wo, up, down = (SCALE * p for p in params)
        b, n = t.shape
        x = keep(np.take(e, t, axis=0))
        h = normal(x)
        q, k, v = ((h @ w).reshape(b, n, HEADS, WIDTH // HEADS) for w in (wq, wk, wv))
        s = np.einsum("bthd,bshd->bhts", q, k) * (WIDTH // HEADS) ** -0.5
        s = np.where(np.tril(np.ones((n, n), bool)), s, -1e9)
        o = np.einsum("bhts,bshd->bthd", lib.nn.softmax(s, axis=-1), v).reshape(b, n, WIDTH)
        x = keep(x + o @ wo)
        x = keep(x + lib.nn.relu(normal(x) @ up) @ down)
        z = x @ e.T
        logp = z - lib.nn.logsumexp(z, axis=-1, keepdims=True)
        return -(logp * (y[..., None] == np.arange(8))).sum(-1).mean()

    return loss


def _training(np, lib, keep=lambda x: x, keep_weights=lambda params: params):
    loss = _model(np, lib, keep)

    def run(t, y, *params):
        value, gradients = lib.value_and_grad(loss)(params, t, y)
        return value, *keep_weights(tuple(w - g for w, g in zip(params, gradients, strict=True)))

    return run


def layout(mesh, batch, table, column, row):
    """Shardings of the step's arguments: of the batch, the table, and both kinds of weights."""
    return mesh, (batch, batch, table, column, column, column, row, column, row)


WHOLE = (None, None)
LAYOUTS = (
    layout({"data": 4}, ("data",), WHOLE, WHOLE, WHOLE),
    layout({"model": 2}, (None,), WHOLE, (None, "model"), ("model", None)),
    layout({"data": 4, "model": 2}, ("data",), WHOLE, (None, "model"), ("model", None)),
    layout({"data": 4}, ("data",), ("data",), ("data", None), ("data", None)),
    layout({"data": 4, "model": 2}, ("data",), ("data",), ("data", "model"), ("model", "data")),
    layout({"data": 2, "model": 4}, ("data",), ("model", None), (None, "model"), ("model", None)),
)


@program(*SHAPES, ints=(0, 1), reference=_step, layouts=LAYOUTS)
def transformer_step(np, lib):
    """Data, tensor, data × tensor, fully sharded, fully sharded × tensor, vocabulary."""
    return _training(np, lib)


@program(
    *SHAPES,
    ints=(0, 1),
    reference=_step,
    layouts=(
        layout({"data": 2, "seq": 4}, ("data", "seq"), WHOLE, WHOLE, WHOLE),
        layout({"seq": 8}, (None, "seq"), WHOLE, WHOLE, WHOLE),
    ),
)
def sequence_parallel_step(np, lib):
    return _training(np, lib, lambda x: lib.pin(x, None, "seq", None))


@program(
    *SHAPES,
    ints=(0, 1),
    reference=_step,
    layouts=(layout({"data": 2, "model": 4}, ("data",), WHOLE, (None, "model"), ("model", None)),),
)
def megatron_sequence_step(np, lib):
    """Tensor parallel blocks with activations split over the sequence between them."""
    return _training(np, lib, lambda x: lib.pin(x, "data", "model", None))


@program(
    *SHAPES,
    ints=(0, 1),
    reference=_step,
    layouts=(layout({"data": 8}, (None, "data"), ("data",), ("data", None), ("data", None)),),
)
def zero_sharded_step(np, lib):
    """Weights and their updates split over the devices that share the batch (ZeRO)."""
    return _training(
        np, lib, keep_weights=lambda params: tuple(lib.pin(p, "data", None) for p in params)
    )


def _experts_step(x, y, g, up, down):
    gate = _softmax(x @ g)
    h = np.maximum(np.einsum("td,edf->tef", x, up), 0)
    z = np.einsum("tef,efd->ted", h, down)
    error = x + np.einsum("te,ted->td", gate, z) - y
    d = 2 * error / error.size
    dgate = np.einsum("td,ted->te", d, z)
    dz = gate[..., None] * d[:, None]
    dh = np.einsum("ted,efd->tef", dz, down) * (h > 0)
    dlogit = gate * (dgate - (gate * dgate).sum(-1, keepdims=True))
    gradients = (x.T @ dlogit, np.einsum("td,tef->edf", x, dh), np.einsum("tef,ted->efd", h, dz))
    return (error**2).mean(), *(w - e for w, e in zip((g, up, down), gradients, strict=True))


EXPERTS = (
    ({"expert": 4}, (("expert",), ("expert",), WHOLE, ("expert",), ("expert",))),
    ({"data": 2, "expert": 4}, (("data",), ("data",), WHOLE, ("expert",), ("expert",))),
    (
        {"data": 2, "expert": 2, "model": 2},
        (("data",), ("data",), WHOLE, ("expert", None, "model"), ("expert", "model", None)),
    ),
)


@program((16, 8), (16, 8), (8, 4), (4, 8, 16), (4, 16, 8), reference=_experts_step, layouts=EXPERTS)
def experts_step(np, lib):
    """A mixture of experts, its experts on different devices."""

    def run(x, y, *params):
        def loss(params):
            g, up, down = params
            gate = lib.nn.softmax(x @ g, axis=-1)
            h = lib.nn.relu(np.einsum("td,edf->tef", x, up))
            z = np.einsum("tef,efd->ted", h, down)
            return ((x + np.einsum("te,ted->td", gate, z) - y) ** 2).mean()

        value, gradients = lib.value_and_grad(loss)(params)
        return value, *(w - g for w, g in zip(params, gradients, strict=True))

    return run


def _layers(x, up, down):
    for a, b in zip(up, down, strict=True):
        x = x + np.maximum(x @ a, 0) @ b * 0.1
    return x


@program(
    (8, 16),
    (3, 16, 32),
    (3, 32, 16),
    reference=_layers,
    layouts=(
        ({"data": 4, "model": 2}, (("data",), (None, None, "model"), (None, "model"))),
        ({"data": 8}, (("data",), (None, "data"), (None, "data"))),
    ),
)
def scanned_layers(np, lib):
    """Tensor parallel, or weights gathered layer by layer inside the loop."""

    def run(x, up, down):
        def layer(x, w):
            return x + lib.nn.relu(x @ w[0]) @ w[1] * 0.1, None

        return lib.lax.scan(layer, x, (up, down))[0]

    return run

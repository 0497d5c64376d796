"""Gradients and training steps; references are written out by hand."""

from __future__ import annotations

import numpy as np

from tests.partition.corpus.entry import program


def _mlp_step(w, v, x, y):
    h = np.tanh(x @ w)
    e = h @ v - y
    loss = (e**2).mean()
    de = 2 * e / e.size
    dv = h.T @ de
    dw = x.T @ ((de @ v.T) * (1 - h**2))
    return loss, w - 0.1 * dw, v - 0.1 * dv


@program((16, 32), (32, 8), (64, 16), (64, 8), reference=_mlp_step)
def mlp_training_step(np, lib):
    def run(w, v, x, y):
        def loss(p):
            return ((np.tanh(x @ p[0]) @ p[1] - y) ** 2).mean()

        value, (dw, dv) = lib.value_and_grad(loss)((w, v))
        return value, w - 0.1 * dw, v - 0.1 * dv

    return run


@program((16, 32), (32, 8), (64, 16), (64, 8), reference=_mlp_step)
def rematerialized_step(np, lib):
    def run(w, v, x, y):
        def loss(p):
            layer = lib.checkpoint(lambda x: np.tanh(x @ p[0]) @ p[1])
            return ((layer(x) - y) ** 2).mean()

        value, (dw, dv) = lib.value_and_grad(loss)((w, v))
        return value, w - 0.1 * dw, v - 0.1 * dv

    return run


FSDP = (
    ({"data": 8}, (("data", None), ("data", None), ("data", None), ("data", None))),
    ({"data": 4, "model": 2}, (("data", "model"), ("model", "data"), ("data",), ("data",))),
)


@program((16, 32), (32, 8), (64, 16), (64, 8), reference=_mlp_step, layouts=FSDP)
def fully_sharded_step(np, lib):
    build = mlp_training_step(np, lib)

    def run(w, v, x, y):
        loss, w, v = build(w, v, x, y)
        return loss, lib.pin(w, "data", None), lib.pin(v, "data", None)

    return run


def _accumulated(w, x):
    out = np.zeros_like(w)
    for part in x:
        out += 2 * part.T @ (part @ w)
    return out / len(x)


@program((8, 6), (4, 8, 8), reference=_accumulated)
def accumulated_gradients(np, lib):
    def run(w, x):
        def step(total, part):
            return total + lib.grad(lambda w: ((part @ w) ** 2).sum())(w), None

        return lib.lax.scan(step, np.zeros_like(w), x)[0] / 4

    return run


def _embedding_gradient(e, i):
    out = np.zeros_like(e)
    np.add.at(out, i, 2 * e[i])
    return out


@program((8, 16), (32,), ints=(1,), reference=_embedding_gradient)
def embedding_gradient(np, lib):
    return lambda e, i: lib.grad(lambda e: (np.take(e, i, axis=0) ** 2).sum())(e)


def _logistic(w, x, t):
    for _ in range(3):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - 0.5 * x.T @ (p - (t > 0)) / len(x)
    return w


@program((8,), (32, 8), (32,), reference=_logistic)
def logistic_regression(np, lib):
    def run(w, x, t):
        def loss(w):
            z = x @ w
            return (np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0) - z * (t > 0)).mean()

        return lib.lax.fori_loop(0, 3, lambda _, w: w - 0.5 * lib.grad(loss)(w), w)

    return run


def _softmax_gradient(z, y):
    e = np.exp(z - z.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return (p - (y[:, None] == np.arange(z.shape[1]))) / len(z)


@program((16, 8), (16,), ints=(1,), reference=_softmax_gradient)
def softmax_gradient(np, lib):
    def run(z, y):
        def loss(z):
            s = z - z.max(-1, keepdims=True)
            logp = s - np.log(np.exp(s).sum(-1, keepdims=True))
            return -np.take_along_axis(logp, y[:, None], -1).mean()

        return lib.grad(loss)(z)

    return run


def _norm_gradients(x, g):
    n = x.shape[-1]
    m = x.mean(-1, keepdims=True)
    s = 1 / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-3)
    h = (x - m) * s
    up = 2 * h * g
    dh = up * g
    dx = s * (dh - dh.sum(-1, keepdims=True) / n - h * (dh * h).sum(-1, keepdims=True) / n)
    return dx, (up * h).sum((0, 1))


@program((4, 8, 16), (16,), reference=_norm_gradients)
def norm_gradients(np, lib):
    def loss(x, g):
        m = x.mean(-1, keepdims=True)
        s = lib.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-3)
        return (((x - m) * s * g) ** 2).sum()

    return lib.grad(loss, (0, 1))


def _factorization(u, v, m):
    e = u @ v.T - m
    return 2 * e @ v / e.size, 2 * e.T @ u / e.size


@program((16, 4), (24, 4), (16, 24), reference=_factorization)
def matrix_factorization(np, lib):
    return lambda u, v, m: lib.grad(lambda p: ((p[0] @ p[1].T - m) ** 2).mean())((u, v))


@program((16, 8), (16, 8), (16, 8), (16, 8))
def adam_update(np, lib):
    def run(w, m, v, g):
        norm = np.sqrt((g * g).sum())
        g = g * np.minimum(1, 1 / norm)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v * v + 0.01 * g * g
        return w - 1e-2 * (m / 0.1) / (np.sqrt(v / 0.01) + 1e-6), m, v

    return run


def _hessian_product(w, x, d):
    y = np.tanh(x @ w)
    dy = (1 - y**2) * (x @ d)
    up = 2 * y * (1 - y**2)
    return x.T @ (dy * (2 * (1 - y**2) - 4 * y**2)), x.T @ up


@program((8, 4), (32, 8), (8, 4), reference=_hessian_product)
def hessian_vector_product(np, lib):
    def run(w, x, d):
        gradient = lib.grad(lambda w: (np.tanh(x @ w) ** 2).sum())
        value, product = lib.jvp(gradient, (w,), (d,))
        return product, value

    return run


def _rnn_gradient(w, xs):
    hs = [np.zeros(8, np.float32)]
    for x in xs:
        hs.append(np.tanh(hs[-1] @ w + x))
    dw, dh = np.zeros_like(w), 2 * hs[-1]
    for before, after in zip(hs[-2::-1], hs[:0:-1], strict=True):
        dz = dh * (1 - after**2)
        dw += np.outer(before, dz)
        dh = w @ dz
    return dw


@program((8, 8), (5, 8), reference=_rnn_gradient)
def rnn_gradient(np, lib):
    def run(w, xs):
        def loss(w):
            step = lambda h, x: (np.tanh(h @ w + x), None)
            return (lib.lax.scan(step, np.zeros(8, np.float32), xs)[0] ** 2).sum()

        return lib.grad(loss)(w)

    return run


def _stencil_gradient(a):
    up = 2 * (np.roll(a, 1, 0) - a)
    return np.roll(up, -1, 0) - up


@program((16, 8), reference=_stencil_gradient)
def stencil_gradient(np, lib):
    return lambda a: lib.grad(lambda a: ((np.roll(a, 1, 0) - a) ** 2).sum())(a)


def _gram_gradient(x):
    g = x.T @ x
    return 4 * x @ g


@program((32, 8), reference=_gram_gradient)
def gram_gradient(np, lib):
    return lambda x: lib.grad(lambda x: ((x.T @ x) ** 2).sum())(x)


def _low_rank(x, w, a, b):
    z = x @ w + x @ a @ b
    up = 2 * z / z.size
    return x.T @ (up @ b.T), (x @ a).T @ up


@program((16, 16), (16, 8), (16, 4), (4, 8), reference=_low_rank)
def low_rank_gradient(np, lib):
    """A frozen product beside a learned one of low rank: sums of sums over devices."""

    def run(x, w, a, b):
        return lib.grad(lambda p: ((x @ w + x @ p[0] @ p[1]) ** 2).mean())((a, b))

    return run


def _low_rank_step(x, w, a, b, y):
    z = x @ w + x @ a @ b - y
    up = 2 * z / z.size
    return (z * z).mean(), a - 0.1 * x.T @ (up @ b.T), b - 0.1 * (x @ a).T @ up


CROSSED = (
    ({"x": 2, "y": 2, "z": 2}, (("z", "xy"), ("z", "yx"), (None, "x"), ("xz", "y"), (None, "yz"))),
    ({"x": 2, "y": 2, "z": 2}, (("z", "yx"), ("xy", "z"), ("y", "x"), (None, "zy"), ("x", "z"))),
    ({"x": 2, "y": 2, "z": 2}, (("yz", "x"), (None, "yz"), ("z", "y"), ("x", None), ("xy", None))),
)


@program(
    *((8, 16), (16, 16), (16, 4), (4, 16), (8, 16)),
    reference=_low_rank_step,
    layouts=[(m, tuple(tuple(d and tuple(d) for d in s) for s in specs)) for m, specs in CROSSED],
)
def low_rank_step(np, lib):
    """Products that sum over other axes than propagation said, then split along these."""

    def run(x, w, a, b, y):
        loss = lambda p: ((x @ w + x @ p[0] @ p[1] - y) ** 2).mean()
        value, slopes = lib.value_and_grad(loss)((a, b))
        return value, a - 0.1 * slopes[0], b - 0.1 * slopes[1]

    return run


def _three_projections(x, q, k, v):
    hidden = [np.tanh(x @ w) for w in (q, k, v)]
    ups = [2 * h * (1 - h * h) for h in hidden]
    return sum(up @ w.T for up, w in zip(ups, (q, k, v), strict=True))


COLUMNS = (None, "model")
PROJECTIONS = (
    ({"data": 4, "model": 2}, (("data",), COLUMNS, COLUMNS, COLUMNS)),
    ({"data": 2, "model": 4}, (("data",), COLUMNS, COLUMNS, COLUMNS)),
    ({"model": 8}, ((), COLUMNS, COLUMNS, COLUMNS)),
)


@program((16, 8), (8, 16), (8, 16), (8, 16), reference=_three_projections, layouts=PROJECTIONS)
def gradient_of_three_projections(np, lib):
    """What flows back to the input of attention's projections."""

    def run(x, *weights):
        def loss(x):
            return sum((np.tanh(x @ w) ** 2).sum() for w in weights)

        return lib.grad(loss)(x)

    return run


def _newton_steps(x, w, y):
    t = np.tanh(x @ w)
    up = 2 * (t - y) * (1 - t * t)
    curve = (1 - t * t) * (2 * (1 - t * t) - 4 * (t - y) * t)
    product = lambda v: x.T @ (curve * (x @ v)) + 20 * v
    p, r = np.zeros_like(w), -(x.T @ up)
    d = r
    for _ in range(3):
        q = product(d)
        a = (r * r).sum() / (d * q).sum()
        p, rest = p + a * d, r - a * q
        d, r = rest + (rest * rest).sum() / (r * r).sum() * d, rest
    return p


@program((16, 8), (8, 4), (16, 4), reference=_newton_steps, tolerance=1e-3)
def newton_by_conjugate_gradients(np, lib):
    """Hessian-vector products in a loop whose weights do not change."""

    def run(x, w, y):
        gradient = lib.grad(lambda w: ((np.tanh(x @ w) - y) ** 2).sum())
        product = lambda v: lib.jvp(gradient, (w,), (v,))[1] + 20 * v

        def step(carry, _):
            p, r, d = carry
            q = product(d)
            a = (r * r).sum() / (d * q).sum()
            p, rest = p + a * d, r - a * q
            d = rest + (rest * rest).sum() / (r * r).sum() * d
            return (p, rest, d), None

        r = -gradient(w)
        return lib.lax.scan(step, (np.zeros_like(w), r, r), None, length=3)[0][0]

    return run

"""Programs as people write them, once for weft and once for NumPy, with random shardings.

Most are written against a NumPy-like namespace and run unchanged by both; the rest come with a
NumPy reference of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Entry:
    """One program: `run(np)` makes the function for weft's namespace, `reference` is NumPy's."""

    name: str
    run: Callable
    arguments: Callable[[np.random.Generator], tuple]
    reference: Callable | None = None

    def expected(self, *args):
        function = self.reference or self.run(np)
        out = function(*args)
        return out if isinstance(out, tuple) else (out,)


CORPUS: dict[str, Entry] = {}


def program(*shapes, reference=None, ints=(), positive=False):
    """Adds a program; `shapes` are of its arguments, `ints` says which hold indices below 8."""

    def arguments(rng: np.random.Generator) -> tuple:
        out = []
        for i, shape in enumerate(shapes):
            if i in ints:
                out.append(rng.integers(0, 8, shape).astype(np.int32))
            else:
                value = rng.normal(size=shape).astype(np.float32)
                out.append(np.abs(value) + 0.5 if positive else value)
        return tuple(out)

    def add(run):
        CORPUS[run.__name__] = Entry(run.__name__, run, arguments, reference)
        return run

    return add


def shardings(rng: np.random.Generator, mesh: dict[str, int], shape: tuple[int, ...]) -> tuple:
    """A random placement of mesh axes on dimensions that they divide, as the entries of a `P`."""
    entries: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for axis in rng.permutation(list(mesh)):
        choices = [d for d in range(len(shape)) if left[d] % mesh[axis] == 0]
        if choices and rng.random() < 0.75:
            d = int(rng.choice(choices))
            entries[d].append(str(axis))
            left[d] //= mesh[axis]
    return tuple(tuple(e) if e else None for e in entries)


# -- linear algebra --------------------------------------------------------------------------------


@program((16, 32), (32, 16), (16, 8))
def matmul_chain(np):
    return lambda a, b, c: (a @ b) @ c


@program((8, 16), (16, 32), (32, 8))
def mlp(np):
    return lambda x, w, v: np.tanh(x @ w) @ v + x.mean(1, keepdims=True)


@program((4, 8, 6), (4, 6, 8))
def batched_matmul(np):
    return lambda a, b: np.einsum("bij,bjk->bik", a, b)


@program((8, 4, 6), (6, 8, 3))
def tensor_contraction(np):
    return lambda a, b: np.tensordot(a, b, axes=((0, 2), (1, 0)))


@program((16,), (8,))
def outer(np):
    return lambda a, b: np.outer(a, b) + a[:, None] * b


@program((16, 4), (8, 4))
def pairwise_distance(np):
    return lambda a, b: np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1) + 1e-3)


@program((16, 16), (16,))
def power_iteration(np):
    def run(a, v):
        s = a @ a.T / 16
        for _ in range(4):
            v = s @ v
            v = v / np.sqrt((v * v).sum())
        return v, v @ (s @ v)

    return run


@program((16, 4))
def gram_schmidt(np):
    def run(a):
        columns = []
        for j in range(4):
            v = a[:, j]
            for q in columns:
                v = v - (q @ v) * q
            columns.append(v / np.sqrt(v @ v))
        return np.stack(columns, axis=1)

    return run


@program((4, 4), (4, 2))
def kronecker(np):
    return lambda a, b: (a[:, None, :, None] * b[None, :, None, :]).reshape(16, 8)


# -- networks ------------------------------------------------------------------------------------


def _softmax(np, s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@program((32, 16), (32, 16), (32, 16))
def attention(np):
    return lambda q, k, v: _softmax(np, q @ k.T) @ v


@program((4, 16, 8), (8, 8), (8, 8), (8, 8), (8, 8))
def multi_head_attention(np):
    def run(x, wq, wk, wv, wo):
        b, t, d = x.shape
        q, k, v = ((x @ w).reshape(b, t, 2, d // 2) for w in (wq, wk, wv))
        s = np.einsum("bthd,bshd->bhts", q, k)
        s = np.where(np.arange(t)[:, None] >= np.arange(t)[None], s, -1e9)
        o = np.einsum("bhts,bshd->bthd", _softmax(np, s), v)
        return o.reshape(b, t, d) @ wo

    return run


@program((4, 8, 16), (16,), (16,))
def layer_norm(np):
    def run(x, g, b):
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) / np.sqrt(v + 1e-5) * g + b

    return run


@program((8, 16), (8,), ints=(1,))
def cross_entropy(np):
    def run(x, y):
        z = x - x.max(-1, keepdims=True)
        logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
        return -(logp * (np.arange(16)[None] == y[:, None])).sum(-1)

    return run


@program((8, 16), (4, 8), ints=(1,))
def embedding(np):
    return lambda e, i: np.take(e, i, axis=0) * 2


@program((8, 16), (24,), ints=(1,))
def one_hot_embedding(np):
    def run(e, i):
        hot = (i[:, None] == np.arange(8)[None]).astype(np.float32)
        return hot @ e

    return run


@program((16, 8), (8, 4), (4, 8, 8))
def mixture_of_experts(np):
    def run(x, g, w):
        gate = _softmax(np, x @ g)
        h = np.maximum(np.einsum("td,edf->tef", x, w), 0)
        return np.einsum("te,tef->tf", gate, h)

    return run


@program((8, 4, 16))
def group_norm(np):
    def run(x):
        g = x.reshape(8, 2, 2 * 16)
        g = (g - g.mean(-1, keepdims=True)) / (g.std(-1, keepdims=True) + 1e-3)
        return g.reshape(8, 4, 16)

    return run


# -- grids ---------------------------------------------------------------------------------------


@program((16, 16))
def periodic_stencil(np):
    def run(a):
        for _ in range(2):
            a = (np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1)) / 4
        return a

    return run


@program((16, 16))
def laplacian(np):
    def run(a):
        inner = a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2] - 4 * a[1:-1, 1:-1]
        return np.pad(inner, 1)

    return run


@program((16, 8))
def shifted_difference(np):
    return lambda a: a[3:] - a[:-3]


@program((16, 8))
def strided(np):
    return lambda a: a[1::3, ::2] + a[:-1:3, 1::2]


@program((8, 12))
def padded(np):
    return lambda a: np.pad(a, ((1, 3), (2, 0)), constant_values=1.5) * 2


@program((8, 6), (4, 6), (3, 6))
def concatenated(np):
    return lambda a, b, c: np.concatenate([a, b, c, a], axis=0) * 2


@program((8, 6), (8, 6))
def stacked(np):
    return lambda a, b: np.stack([a, b, a - b], axis=1)


@program((8, 12))
def flipped(np):
    return lambda a: np.flip(a, (0, 1)) + a[::-1]


@program((16, 8))
def cumulative(np):
    return lambda a: (np.cumsum(a, 0), np.cumsum(a[::-1], 0)[::-1], np.cumprod(a * 0.5, 1))


@program((32,))
def moving_average(np):
    def run(a):
        c = np.cumsum(a)
        return (c[4:] - c[:-4]) / 4

    return run


@program((16, 8))
def sorted_rows(np):
    return lambda a: (np.sort(a, 0), np.sort(a, 1))


@program((16, 8))
def argsorted(np):
    return lambda a: np.argsort(a, 0)


@program((16, 8))
def extremes(np):
    return lambda a: (np.argmax(a, 0), np.argmin(a, 1), a.max(), a.min(0))


@program((16, 8))
def statistics(np):
    return lambda a: (a.mean(), a.var(0), a.std(1), np.sqrt((a**2).sum()), np.median(a, axis=0))


@program((8, 16))
def heads(np):
    return lambda a: a.reshape(8, 4, 4).transpose(1, 0, 2).reshape(4, 32)


@program((4, 8, 6))
def merged(np):
    return lambda a: (a.reshape(32, 6).sum(1), a.reshape(4, 48).max(1))


@program((16, 16))
def triangles(np):
    return lambda a: (np.tril(a), np.triu(a, 2), np.trace(a), np.diagonal(a))


@program((16, 8), (16,), ints=(1,))
def picked(np):
    return lambda a, i: np.take_along_axis(a, i[:, None], axis=1)


@program((16,), (12,), positive=True)
def interpolated(np):
    def run(a, x):
        x = np.minimum(x * 4, 14.0)
        i = np.floor(x).astype(np.int32)
        return np.take(a, i) * (1 - (x - i)) + np.take(a, i + 1) * (x - i)

    return run


@program((24, 6), (24,), ints=(1,))
def histogram(np):
    return lambda a, i: (i[None] == np.arange(8)[:, None]).astype(np.float32) @ a


# -- with control flow, scatters, convolutions, gradients ----------------------------------------


def _scatter_reference(a, i, u):
    out = a.copy()
    np.add.at(out, i, u)
    return out


@program((8, 4), (12,), (12, 4), ints=(1,), reference=_scatter_reference)
def scatter_add(np):
    return lambda a, i, u: a.at[i].add(u)


def _masked_update(a, i, u):
    out = a.copy()
    out[2:6] = u
    out[i] = 7
    return out


@program((8, 4), (3,), (4, 4), ints=(1,), reference=_masked_update)
def scatter_set(np):
    return lambda a, i, u: a.at[2:6].set(u).at[i].set(7)


def _rnn(w, u, xs):
    h, out = np.zeros((8, 16), np.float32), []
    for x in xs:
        h = np.tanh(h @ w + x @ u)
        out.append(h.sum(1))
    return h, np.stack(out)


@program((16, 16), (12, 16), (6, 8, 12), reference=_rnn)
def rnn(np):
    import weft

    def run(w, u, xs):
        def step(h, x):
            h = np.tanh(h @ w + x @ u)
            return h, h.sum(1)

        return weft.lax.scan(step, np.zeros((8, 16), np.float32), xs)

    return run


def _jacobi(a, b):
    x = np.zeros_like(b)
    for _ in range(5):
        x = (b - a @ x) / 8
    return x


@program((16, 16), (16, 4), reference=_jacobi)
def jacobi(np):
    import weft

    return lambda a, b: weft.lax.fori_loop(
        0, 5, lambda i, x: (b - a @ x) / 8, np.zeros(b.shape, np.float32)
    )


def _mlp_step(w, v, x, y):
    h = np.tanh(x @ w)
    e = h @ v - y
    loss = (e**2).mean()
    de = 2 * e / e.size
    dv = h.T @ de
    dw = x.T @ ((de @ v.T) * (1 - h**2))
    return loss, w - 0.1 * dw, v - 0.1 * dv


@program((16, 32), (32, 8), (64, 16), (64, 8), reference=_mlp_step)
def mlp_training_step(np):
    import weft

    def run(w, v, x, y):
        def loss(p):
            return ((np.tanh(x @ p[0]) @ p[1] - y) ** 2).mean()

        value, (dw, dv) = weft.value_and_grad(loss)((w, v))
        return value, w - 0.1 * dw, v - 0.1 * dv

    return run


def _embedding_gradient(e, i):
    out = np.zeros_like(e)
    np.add.at(out, i, 2 * e[i])
    return out


@program((8, 16), (32,), ints=(1,), reference=_embedding_gradient)
def embedding_gradient(np):
    import weft

    return lambda e, i: weft.grad(lambda e: (np.take(e, i, axis=0) ** 2).sum())(e)

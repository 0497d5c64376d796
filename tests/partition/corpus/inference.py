"""Inference of language models: prefill, decoding with caches, paged caches, speculation, beams."""

from __future__ import annotations

from tests.partition.corpus.entry import program

BATCH, TOKENS, HEADS, WIDTH = 4, 16, 2, 8
ROW = (BATCH, HEADS, WIDTH)
CACHE = (BATCH, TOKENS, HEADS, WIDTH)
BY_SEQUENCE = (None, "x")
BY_BATCH_AND_SEQUENCE = ("y", "x")
BY_SEQUENCE_AND_HEADS = (None, "x", "y")


def caches(rows: int, *others):
    """Layouts with caches split by sequence, batch and heads; rows follow batch and heads."""
    mesh = {"x": 4, "y": 2}
    out = []
    for cache in (BY_SEQUENCE, BY_BATCH_AND_SEQUENCE, BY_SEQUENCE_AND_HEADS):
        row = (cache[0], *cache[2:])
        out.append((mesh, (*[row] * rows, cache, cache, *((cache[0], *o) for o in others))))
    return out


def _attend(np, lib, q, k, v, last):
    """Attention of one token each to the positions up to its last one."""
    scores = np.einsum("bhd,bthd->bht", q, k) / WIDTH**0.5
    scores = np.where(np.arange(k.shape[1]) <= last[:, None, None], scores, -1e9)
    return np.einsum("bht,bthd->bhd", lib.nn.softmax(scores, axis=-1), v)


def _write(lib, cache, rows, at):
    """Each sequence's row at its own position of the cache."""
    one = lambda c, row, p: lib.lax.dynamic_update_slice(c, row[None], (p, 0, 0))
    return lib.vmap(one)(cache, rows, at)


@program(ROW, ROW, ROW, CACHE, CACHE, (BATCH,), ints=(5,), layouts=caches(3, ()))
def decoding_from_a_cache(np, lib):
    def f(q, k, v, keys, values, at):
        keys, values = _write(lib, keys, k, at), _write(lib, values, v, at)
        return _attend(np, lib, q, keys, values, at), keys, values

    return f


@program(ROW, (3, *ROW), CACHE, CACHE, (BATCH,), ints=(4,))
def decoding_some_tokens(np, lib):
    def f(q, steps, keys, values, at):
        def step(carry, row):
            q, keys, values, at = carry
            keys, values = _write(lib, keys, row, at), _write(lib, values, row + q, at)
            out = _attend(np, lib, q, keys, values, at)
            return (q + out, keys, values, at + 1), out

        carry, outs = lib.lax.scan(step, (q, keys, values, at), steps)
        return outs, carry[1], carry[2]

    return f


@program((BATCH, 8, HEADS, WIDTH), CACHE, CACHE)
def prefill(np, lib):
    def f(x, keys, values):
        start = (0, 0, 0, 0)
        keys = lib.lax.dynamic_update_slice(keys, x, start)
        values = lib.lax.dynamic_update_slice(values, 2 * x, start)
        scores = np.einsum("bshd,bthd->bhst", x, keys) / WIDTH**0.5
        seen = np.arange(TOKENS)[None] <= np.arange(8)[:, None]
        p = lib.nn.softmax(np.where(seen, scores, -1e9), axis=-1)
        return np.einsum("bhst,bthd->bshd", p, values), keys, values

    return f


@program((BATCH, 4, HEADS, WIDTH), CACHE, CACHE, (BATCH,), ints=(3,))
def speculation(np, lib):
    """Four proposed tokens are checked at once, and written behind what each sequence has."""

    def f(x, keys, values, at):
        write = lambda c, rows, p: lib.lax.dynamic_update_slice(c, rows, (p, 0, 0))
        keys, values = lib.vmap(write)(keys, x, at), lib.vmap(write)(values, x + 1, at)
        scores = np.einsum("bshd,bthd->bhst", x, keys) / WIDTH**0.5
        last = at[:, None] + np.arange(4)
        seen = np.arange(TOKENS) <= last[:, :, None]
        p = lib.nn.softmax(np.where(seen[:, None], scores, -1e9), axis=-1)
        out = np.einsum("bhst,bthd->bshd", p, values)
        return out, (out.sum((2, 3)) > 0).cumsum(1), keys, values

    return f


@program(ROW, (8, 4, HEADS, WIDTH), (8, 4, HEADS, WIDTH), (BATCH, 4), (BATCH,), ints=(3, 4))
def pages(np, lib):
    """The cache is a pool of pages of four tokens, and a table says which ones a sequence has."""

    def f(q, keys, values, table, last):
        k, v = (pool[table].reshape(CACHE) for pool in (keys, values))
        return _attend(np, lib, q, k, v, last)

    return f


@program((BATCH, 8), CACHE, CACHE, (BATCH,))
def beams(np, lib):
    """The best continuations go on, each with the cache of the beam that it came from."""

    def f(logits, keys, values, scores):
        total = scores[:, None] + np.log(lib.nn.softmax(logits, axis=-1))
        best, place = lib.lax.top_k(total.reshape(-1), BATCH)
        beam = place // logits.shape[1]
        return best, place % logits.shape[1], keys[beam], values[beam]

    return f


@program((BATCH, 4, WIDTH), CACHE, CACHE, (BATCH,), ints=(3,), layouts=caches(1, ()))
def grouped_queries(np, lib):
    """Several heads of queries share one head of keys and values."""

    def f(q, keys, values, last):
        q = q.reshape(BATCH, HEADS, 2, WIDTH)
        scores = np.einsum("bhgd,bthd->bhgt", q, keys) / WIDTH**0.5
        seen = np.arange(TOKENS) <= last[:, None, None, None]
        p = lib.nn.softmax(np.where(seen, scores, -1e9), axis=-1)
        return np.einsum("bhgt,bthd->bhgd", p, values).reshape(BATCH, 4 * WIDTH)

    return f


@program(ROW, ROW, (2, *CACHE), (BATCH,), ints=(3,))
def one_row_of_each(np, lib):
    """A row of the cache is read and one is written at positions of their own."""

    def f(k, v, cache, at):
        read = lambda c, p: lib.lax.dynamic_slice(c, (p, 0, 0), (1, HEADS, WIDTH))[0]
        old = lib.vmap(read)(cache[0], at)
        return _write(lib, cache[1], old * k + v, at), old

    return f

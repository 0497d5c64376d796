"""Kernels of users: products of matrices and attention, with inputs and what NumPy says."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax

F32 = np.float32


def struct(*shape, dtype="float32"):
    return weft.ShapeDtypeStruct(shape, dtype)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(F32)


# Products ---------------------------------------------------------------------------------------


def fused_matmul(x, w, b, *, block=8, **options):
    """silu(x w + b), accumulated over blocks of the contracted dimension."""
    (m, k), n = x.shape, w.shape[1]

    def kernel(x, w, b, out, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            out[...] = weft.nn.silu(acc[...] + b[...])

    return pl.pallas_call(
        kernel,
        struct(m, n),
        grid=(m // block, n // block, k // block),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, block), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.LOCAL((block, block), "float32")],
        **options,
    )(x, w, b)


def fused_matmul_inputs(rng, scale=1):
    n = 16 * scale
    return normal(rng, n, n) / 4, normal(rng, n, n), normal(rng, 1, n)


def silu(x):
    return x / (1 + np.exp(-x))


def block_sparse_matmul(rows, columns, blocks, x, *, height=4, width=8, **options):
    """A sparse matrix of square blocks, sorted by rows, times a dense one."""
    count, size, _ = blocks.shape
    n = x.shape[1]

    def kernel(rows, columns, block, x, out):
        k = pl.program_id(1)
        new_row = (k == 0) | (rows[k] != rows[jnp.maximum(k - 1, 0)])
        part = jnp.dot(block[...], x[...])

        @pl.when(new_row)
        def _():
            out[...] = part

        @pl.when(~new_row)
        def _():
            out[...] += part

    return pl.pallas_call(
        kernel,
        struct(height * size, n),
        grid_spec=pl.GridSpec(
            num_scalar_prefetch=2,
            grid=(n // width, count),
            in_specs=[
                pl.BlockSpec((None, size, size), lambda j, k, r, c: (k, 0, 0)),
                pl.BlockSpec((size, width), lambda j, k, r, c: (c[k], j)),
            ],
            out_specs=pl.BlockSpec((size, width), lambda j, k, r, c: (r[k], j)),
        ),
        **options,
    )(rows, columns, blocks, x)


def block_sparse_inputs(rng, scale=1):
    size, height = 4 * scale, 4
    rows = np.sort(np.concatenate([np.arange(height), rng.integers(0, height, 3)])).astype("i4")
    columns = rng.integers(0, height, len(rows)).astype("i4")
    return rows, columns, normal(rng, len(rows), size, size), normal(rng, height * size, 16 * scale)


def block_sparse_reference(rows, columns, blocks, x):
    size = blocks.shape[1]
    dense = np.zeros((4 * size, 4 * size), F32)
    for r, c, b in zip(rows, columns, blocks, strict=True):
        dense[r * size : (r + 1) * size, c * size : (c + 1) * size] += b
    return dense @ x


def grouped_matmul(offsets, groups, tiles, x, w, *, block=4, **options):
    """Rows of each group times the group's matrix; a tile of rows is visited by all its groups."""
    m, n = x.shape[0], w.shape[2]

    def kernel(offsets, groups, tiles, x, w, out):
        t = pl.program_id(0)
        g = groups[t]
        row = tiles[t] * block + lax.broadcasted_iota(jnp.int32, (block, n), 0)
        mine = (row >= offsets[g]) & (row < offsets[g + 1])
        pl.store(out, (slice(None), slice(None)), jnp.dot(x[...], w[...]), mask=mine)

    return pl.pallas_call(
        kernel,
        struct(m, n),
        grid_spec=pl.GridSpec(
            num_scalar_prefetch=3,
            grid=groups.shape[0],
            in_specs=[
                pl.BlockSpec((block, x.shape[1]), lambda t, o, g, i: (i[t], 0)),
                pl.BlockSpec((None, x.shape[1], n), lambda t, o, g, i: (g[t], 0, 0)),
            ],
            out_specs=pl.BlockSpec((block, n), lambda t, o, g, i: (i[t], 0)),
        ),
        **options,
    )(offsets, groups, tiles, x, w)


def grouped_inputs(rng, scale=1):
    block, m, e = 4, 16 * scale, 3
    cuts = np.sort(rng.integers(0, m + 1, e - 1))
    offsets = np.concatenate([[0], cuts, [m]]).astype("i4")
    visits = [
        (g, t)
        for g in range(e)
        for t in range(offsets[g] // block, -(-offsets[g + 1] // block))
        if offsets[g] < offsets[g + 1]
    ]
    visits += [visits[-1]] * (m // block + e - len(visits))  # the same number in all draws
    groups, tiles = np.array(visits, "i4").T.copy()
    return offsets, groups, tiles, normal(rng, m, 8 * scale), normal(rng, e, 8 * scale, 8 * scale)


def grouped_reference(offsets, groups, tiles, x, w):
    return np.einsum("mk,mkn->mn", x, w[np.repeat(np.arange(3), np.diff(offsets))])


def quantized_matmul(x, w, row_scale, column_scale, *, block=8, **options):
    """int8 times int8 in int32, scaled by row and column."""
    (m, k), n = x.shape, w.shape[1]

    def kernel(x, w, row_scale, column_scale, out, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += lax.dot_general(
            x[...], w[...], (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32
        )

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            out[...] = acc[...].astype(jnp.float32) * row_scale[...] * column_scale[...]

    return pl.pallas_call(
        kernel,
        struct(m, n),
        grid=(m // block, n // block, k // block),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
            pl.BlockSpec((block, 1), lambda i, j, k: (i, 0)),
            pl.BlockSpec((1, block), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.LOCAL((block, block), "int32")],
        **options,
    )(x, w, row_scale, column_scale)


def quantized_inputs(rng, scale=1):
    n = 16 * scale
    x, w = rng.integers(-128, 128, (2, n, n)).astype("i1")
    return (
        x,
        w,
        rng.uniform(0.01, 0.1, (n, 1)).astype(F32),
        rng.uniform(0.01, 0.1, (1, n)).astype(F32),
    )


# Attention --------------------------------------------------------------------------------------


def _scores(q, k, q_segments, k_segments, first_q, first_k):
    """Masked scores of a block: causal, within a segment."""
    s = jnp.dot(q, k.T) / np.sqrt(q.shape[-1])
    row = first_q + lax.broadcasted_iota(jnp.int32, s.shape, 0)
    column = first_k + lax.broadcasted_iota(jnp.int32, s.shape, 1)
    seen = (row >= column) & (q_segments[:, None] == k_segments[None, :])
    return jnp.where(seen, s, -1e30), seen


def _attention_forward(q, k, v, segments, block, options):
    length, width = q.shape

    def kernel(q, k, v, sq, sk, out, lse):
        i = pl.program_id(0)

        def step(j, carry):
            top, total, mean = carry
            part = pl.ds(j * block, block)
            s, seen = _scores(q[...], k[part], sq[...], sk[part], i * block, j * block)
            new = jnp.maximum(top, s.max(axis=1))
            p = jnp.where(seen, jnp.exp(s - new[:, None]), 0)
            old = jnp.exp(top - new)
            return new, total * old + p.sum(axis=1), mean * old[:, None] + jnp.dot(p, v[part])

        start = (jnp.full(block, -1e30), jnp.zeros(block), jnp.zeros((block, width)))
        top, total, mean = lax.fori_loop(0, i + 1, step, start)
        out[...] = mean / total[:, None]
        lse[...] = top + jnp.log(total)

    tile, row = pl.BlockSpec((block, width), lambda i: (i, 0)), pl.BlockSpec((block,), lambda i: i)
    return pl.pallas_call(
        kernel,
        (struct(length, width), struct(length)),
        grid=length // block,
        in_specs=[tile, pl.BlockSpec(), pl.BlockSpec(), row, pl.BlockSpec()],
        out_specs=(tile, row),
        **options,
    )(q, k, v, segments, segments)


def _attention_backward(q, k, v, segments, out, lse, d_out, block, options):
    length, width = q.shape
    delta = (out * d_out).sum(-1)

    def for_q(q, k, v, sq, sk, lse, delta, d_out, dq):
        i = pl.program_id(0)

        def step(j, total):
            part = pl.ds(j * block, block)
            s, seen = _scores(q[...], k[part], sq[...], sk[part], i * block, j * block)
            p = jnp.where(seen, jnp.exp(s - lse[...][:, None]), 0)
            ds = p * (jnp.dot(d_out[...], v[part].T) - delta[...][:, None])
            return total + jnp.dot(ds, k[part])

        total = lax.fori_loop(0, i + 1, step, jnp.zeros((block, width)))
        dq[...] = total / np.sqrt(width)

    def for_kv(q, k, v, sq, sk, lse, delta, d_out, dk, dv):
        j = pl.program_id(0)

        def step(i, carry):
            dk, dv = carry
            part = pl.ds(i * block, block)
            s, seen = _scores(q[part], k[...], sq[part], sk[...], i * block, j * block)
            p = jnp.where(seen, jnp.exp(s - lse[part][:, None]), 0)
            ds = p * (jnp.dot(d_out[part], v[...].T) - delta[part][:, None])
            return dk + jnp.dot(ds.T, q[part]), dv + jnp.dot(p.T, d_out[part])

        zeros = jnp.zeros((block, width))
        total, dv[...] = lax.fori_loop(j, pl.cdiv(length, block), step, (zeros, zeros))
        dk[...] = total / np.sqrt(width)

    tile, row = pl.BlockSpec((block, width), lambda i: (i, 0)), pl.BlockSpec((block,), lambda i: i)
    whole = pl.BlockSpec()
    dq = pl.pallas_call(
        for_q,
        struct(length, width),
        grid=length // block,
        in_specs=[tile, whole, whole, row, whole, row, row, tile],
        out_specs=tile,
        **options,
    )(q, k, v, segments, segments, lse, delta, d_out)
    dk, dv = pl.pallas_call(
        for_kv,
        (struct(length, width), struct(length, width)),
        grid=length // block,
        in_specs=[whole, tile, tile, whole, row, whole, whole, whole],
        out_specs=(tile, tile),
        **options,
    )(q, k, v, segments, segments, lse, delta, d_out)
    return dq, dk, dv


def flash_attention(q, k, v, segments, *, block=8, **options):
    """Causal attention within segments, by blocks, forward and backward."""

    @weft.custom_vjp
    def attention(q, k, v):
        return _attention_forward(q, k, v, segments, block, options)[0]

    def forward(q, k, v):
        out, lse = _attention_forward(q, k, v, segments, block, options)
        return out, (q, k, v, out, lse)

    def backward(saved, d_out):
        q, k, v, out, lse = saved
        return _attention_backward(q, k, v, segments, out, lse, d_out, block, options)

    attention.defvjp(forward, backward)
    return attention(q, k, v)


def flash_inputs(rng, scale=1):
    n = 32 * scale
    segments = np.sort(rng.integers(0, 3, n)).astype("i4")
    return *(normal(rng, n, 16 * min(scale, 4)) for _ in range(3)), segments


def attention_weights(q, k, segments):
    s = q.astype("f8") @ k.T / np.sqrt(q.shape[1])
    s = np.where(np.tri(len(q), dtype=bool) & (segments[:, None] == segments), s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def flash_reference(q, k, v, segments):
    return attention_weights(q, k, segments) @ v


def flash_gradient(q, k, v, segments):
    """Of the sum of squares / 2 of the output, by q, k and v."""
    p = attention_weights(q, k, segments)
    d_out = p @ v
    dp = d_out @ v.T
    ds = p * (dp - (dp * p).sum(1, keepdims=True)) / np.sqrt(q.shape[1])
    return ds @ k, ds.T @ q, p.T @ d_out


def paged_attention(lengths, table, q, keys, values, **options):
    """Groups of query heads share a head of keys and values, which lie in pages."""
    sequences, heads, width = q.shape
    page, kv_heads = keys.shape[1], keys.shape[2]
    group = heads // kv_heads

    def kernel(lengths, table, q, keys, values, out):
        b, h = pl.program_id(0), pl.program_id(1)
        length = lengths[b]

        def step(p, carry):
            top, total, mean = carry
            where = table[b, p]
            place = p * page + lax.broadcasted_iota(jnp.int32, (group, page), 1)
            s = jnp.where(place < length, jnp.dot(q[0], keys[where, :, h].T), -jnp.inf)
            new = jnp.maximum(top, s.max(axis=1, keepdims=True))
            weights, old = jnp.exp(s - new), jnp.exp(top - new)
            total = total * old + weights.sum(axis=1, keepdims=True)
            return new, total, mean * old + jnp.dot(weights, values[where, :, h])

        start = (jnp.full((group, 1), -jnp.inf), jnp.zeros((group, 1)), jnp.zeros((group, width)))
        _, total, mean = lax.fori_loop(0, pl.cdiv(length, page), step, start)
        out[0] = mean / total

    tile = pl.BlockSpec((1, group, width), lambda b, h, *_: (b, h, 0))
    return pl.pallas_call(
        kernel,
        struct(*q.shape),
        grid_spec=pl.GridSpec(
            num_scalar_prefetch=2,
            grid=(sequences, kv_heads),
            in_specs=[tile, pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=tile,
        ),
        **options,
    )(lengths, table, q, keys, values)


def paged_inputs(rng, scale=1):
    page, pages, width = 4 * scale, 9, 8 * scale
    lengths = rng.integers(1, 3 * page + 1, 3).astype("i4")
    table = rng.permutation(pages).reshape(3, 3).astype("i4")
    keys, values = normal(rng, 2, pages, page, 2, width)
    return lengths, table, normal(rng, 3, 4, width), keys, values


def paged_reference(lengths, table, q, keys, values):
    out = np.empty_like(q)
    for b, n in enumerate(lengths):
        for h in range(q.shape[1]):
            k, v = (a[table[b]][:, :, h // 2].reshape(-1, q.shape[2])[:n] for a in (keys, values))
            p = np.exp(k @ q[b, h] - (k @ q[b, h]).max())
            out[b, h] = p @ v / p.sum()
    return out

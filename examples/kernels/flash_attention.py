"""Attention that never holds a whole matrix of scores.

Source: T. Dao, D. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: fast and memory-efficient exact
attention with IO-awareness", NeurIPS 2022, algorithm 1, with queries in the outer loop.
"""

import math

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl

Carry = tuple[weft.Array, weft.Array, weft.Array]


def flash_attention(
    q: weft.Array,
    k: weft.Array,
    v: weft.Array,
    causal: bool = False,
    block_q: int = 128,
    block_k: int = 128,
) -> weft.Array:
    """softmax(q kᵀ / sqrt(d)) v for arrays [heads, length, d].

    causal: position i sees positions up to i. The blocks must divide the length.
    """
    heads, length, d = q.shape
    scale = 1 / math.sqrt(d)

    def kernel(q: weft.Ref, k: weft.Ref, v: weft.Ref, out: weft.Ref) -> None:
        first = pl.program_id(1) * block_q
        query = q[...] * scale

        def step(j: weft.Array, carry: Carry) -> Carry:
            top, total, mixed = carry
            keys, values = (r[pl.ds(j * block_k, block_k), :] for r in (k, v))
            scores = wnp.dot(query, keys.T)
            if causal:
                row = first + lax.broadcasted_iota("int32", scores.shape, 0)
                column = j * block_k + lax.broadcasted_iota("int32", scores.shape, 1)
                scores = wnp.where(row >= column, scores, -1e30)
            new_top = wnp.maximum(top, scores.max(axis=1))
            weights = wnp.exp(scores - new_top[:, None])
            fade = wnp.exp(top - new_top)
            total = total * fade + weights.sum(axis=1)
            return new_top, total, mixed * fade[:, None] + wnp.dot(weights, values)

        start = (
            wnp.full((block_q,), -1e30, q.dtype),
            wnp.zeros((block_q,), q.dtype),
            wnp.zeros((block_q, d), q.dtype),
        )
        last = pl.cdiv(first + block_q, block_k) if causal else length // block_k
        _, total, mixed = lax.fori_loop(0, last, step, start)
        out[...] = mixed / total[:, None]

    rows = pl.BlockSpec((None, block_q, d), lambda h, i: (h, i, 0))
    whole = pl.BlockSpec((None, length, d), lambda h, i: (h, 0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=weft.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(heads, length // block_q),
        in_specs=[rows, whole, whole],
        out_specs=rows,
        name="flash_attention",
    )(q, k, v)

"""Dot-product attention with masks, biases, windows and grouped heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.autodiff.shape import broadcasted_iota, expand_dims, reshape, transpose
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.nn.exponential_sums import logsumexp, softmax_p
from weft.ops import elementwise_api as ew
from weft.ops.promote import broadcast_to

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: object = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(scale query key^T + bias) value, for each head.

    query: `[B, T, N, H]` or `[T, N, H]`. key, value: `[B, S, K, H]` or `[S, K, H]`; N must be a
    multiple of K, whose heads then serve N / K query heads each. bias: added to the logits
    `[B, N, T, S]`, to which it broadcasts; so does mask, True where attention may go.
    scale: 1 / sqrt(H) by default. is_causal: a query sees no later key. query_seq_lengths,
    key_value_seq_lengths: int32 `[B]`, positions beyond them are ignored. local_window_size: how
    many keys to the left and right of its position a query sees. implementation: None or "xla".
    return_residual: also give the logsumexp of the logits, `[B, T, N]`.

    Source: Vaswani et al., "Attention is all you need"; Ainslie et al., "GQA".

    >>> import weft, numpy as np
    >>> x = np.ones((2, 5, 4, 8), "float32")
    >>> weft.nn.dot_product_attention(x, x, x, is_causal=True).shape
    (2, 5, 4, 8)
    """
    from weft.lax import dot_general

    if implementation not in (None, "xla"):
        raise ArgumentError(
            f"dot_product_attention: implementation must be None or 'xla', got {implementation!r}"
        )
    shape = typeof(query).shape
    query, key, value = (_with_batch(n, x) for n, x in _named(query, key, value))
    group = _check(query, key, value)
    batch, t, n, h = typeof(query).shape
    s, heads = typeof(key).shape[1:3]
    limits = (query_seq_lengths, key_value_seq_lengths)
    for name, x in zip(("query_seq_lengths", "key_value_seq_lengths"), limits, strict=True):
        if x is not None and typeof(x).shape != (batch,):
            raise ArgumentError(
                f"dot_product_attention: {name} must have shape ({batch},), got {typeof(x).shape}"
            )
    dtype, _ = dtypes.join_types([(typeof(query).dtype, False), (dtypes.float32, False)])
    # With fewer heads of keys than of queries, each serves a group of them.
    if group == 1:
        dims = (((3,), (3,)), ((0, 2), (0, 2)))
    else:
        query = reshape(query, (batch, t, heads, group, h))
        dims = (((4,), (3,)), ((0, 2), (0, 2)))
    logits = dot_general(query, key, dims, preferred_element_type=dtype)
    if group > 1:  # [B, K, T, G, S], put in the order of heads
        logits = reshape(transpose(logits, (0, 1, 3, 2, 4)), (batch, n, t, s))
    logits = ew.mul(logits, dtype.type(1 / math.sqrt(h) if scale is None else scale))
    if bias is not None:
        logits = ew.convert(wnp.add(logits, _four_dims("bias", bias)), dtype)
    visible = _visible(mask, is_causal, limits, local_window_size, (batch, n, t, s))
    if visible is not None:
        # Not minus infinity: rows without anything visible would be NaN.
        hidden = dtype.type(-0.7 * float(np.finfo(np.float32).max))
        logits = ew.select(
            broadcast_to(visible, (batch, n, t, s)),
            logits,
            broadcast_to(hidden, (batch, n, t, s)),
        )
    probs = ew.convert(softmax_p.bind(logits, axes=(3,)), typeof(key).dtype)
    if group == 1:
        out = dot_general(probs, value, (((3,), (1,)), ((0, 1), (0, 2))))
    else:
        probs = reshape(probs, (batch, heads, group, t, s))
        out = dot_general(probs, value, (((4,), (1,)), ((0, 1), (0, 2))))
        out = reshape(out, (batch, n, t, h))
    out = transpose(out, (0, 2, 1, 3))
    # Rows of padding are zeros, not averages of what is hidden.
    if query_seq_lengths is not None:
        row = broadcasted_iota(np.int32, (batch, t), 1)
        inside = ew.lt(row, broadcast_to(wnp.expand_dims(query_seq_lengths, 1), (batch, t)))
        out = wnp.where(expand_dims(inside, (2, 3)), out, typeof(out).dtype.type(0))
    out = reshape(out, shape)
    if not return_residual:
        return out
    residual = ew.convert(logsumexp(logits, axis=-1), typeof(key).dtype)
    residual = reshape(transpose(residual, (0, 2, 1)), shape[:-1])
    return out, stop_gradient(residual)


def _named(query: object, key: object, value: object) -> tuple:
    return ("query", query), ("key", key), ("value", value)


def _with_batch(name: str, x: ArrayLike) -> Any:
    ndim = typeof(x).ndim
    if ndim not in (3, 4):
        raise ArgumentError(
            f"dot_product_attention: {name} must have 3 or 4 dimensions (batch, length, heads, "
            f"head size), got shape {typeof(x).shape}"
        )
    return x if ndim == 4 else expand_dims(x, (0,))


def _four_dims(name: str, x: np.ndarray) -> Any:
    ndim = typeof(x).ndim
    if ndim > 4:
        raise ArgumentError(
            f"dot_product_attention: {name} must broadcast to (batch, heads, queries, keys), got "
            f"shape {typeof(x).shape}"
        )
    return expand_dims(x, tuple(range(4 - ndim)))


def _check(query: ArrayLike, key: ArrayLike, value: ArrayLike) -> int:
    """Raise for operands that do not fit; return how many query heads share a key head."""
    q, k, v = typeof(query), typeof(key), typeof(value)
    if k.shape != v.shape or k.dtype != v.dtype:
        raise ArgumentError(
            f"dot_product_attention: key {k.str_short()} and value {v.str_short()} must have the "
            "same type"
        )
    if q.dtype != k.dtype or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ArgumentError(
            f"dot_product_attention: query {q.str_short()} and key {k.str_short()} must agree in "
            "dtype, batch and head size"
        )
    group, rest = divmod(q.shape[2], k.shape[2])
    if rest:
        raise ArgumentError(
            f"dot_product_attention: query has {q.shape[2]} heads, which must be a multiple of the "
            f"{k.shape[2]} heads of key and value"
        )
    return group


def _visible(
    mask: np.ndarray | None,
    is_causal: bool,
    limits: tuple,
    window: int | tuple | None,
    shape: tuple,
) -> Any:
    """Return which keys each query sees, `[B or 1, N or 1, T, S]`; None for all."""
    batch, _, t, s = shape
    parts = []
    if mask is not None:
        if not dtypes.is_bool(typeof(mask).dtype):
            raise ArgumentError(
                f"dot_product_attention: mask must be boolean, got {typeof(mask).str_short()}; "
                "numbers to add to the logits go into bias"
            )
        parts.append(_four_dims("mask", mask))
    if is_causal or window is not None:
        row, column = (broadcasted_iota(np.int32, (t, s), d) for d in (0, 1))
        if is_causal:
            parts.append(expand_dims(ew.ge(row, column), (0, 1)))
        if window is not None:
            left, right = (window, window) if isinstance(window, int) else window
            near = ew.bitwise_and(
                ew.le(row, ew.add(column, np.int32(left))),
                ew.ge(row, ew.sub(column, np.int32(right))),
            )
            parts.append(expand_dims(near, (0, 1)))
    for limit, dim in zip(limits, (1, 2), strict=True):
        if limit is not None:
            position = broadcasted_iota(np.int32, (batch, t, s), dim)
            ends = broadcast_to(wnp.expand_dims(limit, (1, 2)), (batch, t, s))
            parts.append(expand_dims(ew.lt(position, ends), (1,)))
    if not parts:
        return None
    visible = parts[0]
    for part in parts[1:]:
        visible = wnp.logical_and(visible, part)
    return visible

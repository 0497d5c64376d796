# Tests: tests/compat/test_splash_attention.py
"""Splash attention, for keras: attention under a mask that is known when the kernel is made.

Here it is the formula, which computes all of the products: block sizes and interpret= change no
value. Source: Dao et al., FlashAttention, 2022, for what is saved of a row of the softmax.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft.numpy as wnp
from weft import P, vmap
from weft.ad_checkpoint import checkpoint_name
from weft.compat.jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask import (
    Mask,
    MultiHeadMask,
)
from weft.tree_util import register_pytree_node_class

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.sharding import NamedSharding

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)


class SegmentIds(NamedTuple):
    """The segment of each position: queries attend to keys of their own segment."""

    q: Array
    kv: Array


class QKVLayout(enum.IntEnum):
    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Tiles of a kernel for TPUs."""

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    def __post_init__(self) -> None:
        for name in ("block_kv", "block_kv_dkv"):  # a tile is computed whole, unless it says how
            if getattr(self, f"{name}_compute") is None:
                object.__setattr__(self, f"{name}_compute", getattr(self, name))
        if self.use_fused_bwd_kernel and (self.block_q_dq or self.block_kv_dq):
            raise ValueError("use_fused_bwd_kernel takes no block_q_dq and block_kv_dq")

    @property
    def has_backward_blocks(self) -> bool:
        sizes = [self.block_q_dkv, self.block_kv_dkv, self.block_kv_dkv_compute]
        if not self.use_fused_bwd_kernel:
            sizes += [self.block_q_dq, self.block_kv_dq]
        return None not in sizes

    @classmethod
    def get_default(cls) -> BlockSizes:
        return cls(*(128,) * 8)


def _attend(
    mask: Array,
    q: Array,
    k: Array,
    v: Array,
    sinks: Array | None,
    *,
    mask_value: float,
    soft_cap: float | None,
) -> tuple[Array, Array]:
    """Return one head's attention, and the logarithm of the sum of exponentials of each row."""
    q, k, v = (x.astype("float32") for x in (q, k, v))
    logits = q @ k.T
    if soft_cap is not None:
        logits = soft_cap * wnp.tanh(logits / soft_cap)
    logits = wnp.where(mask, logits, mask_value)
    largest = logits.max(axis=-1, keepdims=True)
    if sinks is not None:  # an exponential of the sum that no value belongs to
        largest = wnp.maximum(largest, sinks.astype("float32"))
    weights = wnp.exp(logits - largest)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + wnp.exp(sinks.astype("float32") - largest)
    return (weights / total) @ v, (largest + wnp.log(total))[:, 0]


@register_pytree_node_class
class SplashAttentionKernel:
    """Attention of q (heads, queries, features) to k and v; the mask is its only leaf."""

    def __init__(self, mask: Array | P, **options: Any) -> None:
        self.mask: Any = mask  # (heads, queries, keys), or of one head for all
        self.kwargs = options

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        segment_ids: SegmentIds | None = None,
        sinks: Array | None = None,
    ) -> Array | tuple:
        options = self.kwargs
        mask = self.mask
        if segment_ids is not None:
            mask = mask & (segment_ids.q[:, None] == segment_ids.kv[None, :])
        mask = wnp.broadcast_to(mask, (q.shape[0], *mask.shape[1:]))
        attend = partial(
            _attend, mask_value=options["mask_value"], soft_cap=options["attn_logits_soft_cap"]
        )
        if options["is_mqa"]:
            out, logsumexp = vmap(attend, (0, 0, None, None, 0))(mask, q, k, v, sinks)
        else:
            # A head of k and v serves neighbouring heads of q.
            groups = k.shape[0]
            if q.shape[0] % groups or k.shape[0] != v.shape[0]:
                raise ValueError(
                    f"k and v must have the same number of heads, which divides that of q: got "
                    f"{q.shape[0]} of q, {k.shape[0]} of k, {v.shape[0]} of v"
                )
            split = [
                None if x is None else x.reshape(groups, -1, *x.shape[1:]) for x in (mask, q, sinks)
            ]
            inner = vmap(attend, (0, 0, None, None, 0))
            out, logsumexp = vmap(inner)(split[0], split[1], k, v, split[2])
            out, logsumexp = (x.reshape(-1, *x.shape[2:]) for x in (out, logsumexp))
        out = out.astype(q.dtype)
        name = options["residual_checkpoint_name"]
        if name is not None:
            out, logsumexp = checkpoint_name(out, name), checkpoint_name(logsumexp, name)
        return (out, (logsumexp,)) if options["save_residuals"] else out

    def manual_sharding_spec(self, sharding: NamedSharding) -> SplashAttentionKernel:
        """Return the spec of the kernel for shard_map, of a sharding over heads and queries."""
        heads, queries = sharding.spec
        return SplashAttentionKernel(
            P(None if self.mask.shape[0] == 1 else heads, queries), **self.kwargs
        )

    def tree_flatten(self) -> tuple:
        return (self.mask,), self.kwargs

    @classmethod
    def tree_unflatten(cls, options: dict, leaves: tuple) -> SplashAttentionKernel:
        return cls(*leaves, **options)


def _make(
    mask: MultiHeadMask | Array | np.ndarray,
    *,
    block_sizes: BlockSizes | None = None,
    is_mqa: bool,
    save_residuals: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
    downcast_smem_data: bool = True,
    head_shards: int,
    q_seq_shards: int,
    residual_checkpoint_name: str | None = None,
    interpret: bool = False,
) -> SplashAttentionKernel:
    """Return the kernel with a mask of shape (heads, queries, keys)."""
    if len(mask.shape) != 3:
        raise ValueError(f"mask must have the shape (heads, queries, keys), got {mask.shape}")
    if isinstance(mask, MultiHeadMask):
        one = all(m == mask.masks[0] for m in mask.masks[1:])
        mask = mask[: 1 if one else None, :, :]
    return SplashAttentionKernel(
        wnp.asarray(mask),
        block_sizes=block_sizes or BlockSizes.get_default(),
        is_mqa=is_mqa,
        save_residuals=save_residuals,
        mask_value=mask_value,
        attn_logits_soft_cap=attn_logits_soft_cap,
        residual_checkpoint_name=residual_checkpoint_name,
        interpret=interpret,
    )


make_splash_mha = partial(_make, is_mqa=False)
make_splash_mqa = partial(_make, is_mqa=True)
make_splash_mha_single_device = partial(make_splash_mha, head_shards=1, q_seq_shards=1)
make_splash_mqa_single_device = partial(make_splash_mqa, head_shards=1, q_seq_shards=1)


def _make_reference(
    mask: Mask | Array | np.ndarray, is_mqa: bool, backward_impl: str = "vanilla"
) -> Callable:
    """Return attention with a mask, whose options are arguments of the call."""

    def attention(
        q: Array,
        k: Array,
        v: Array,
        segment_ids: SegmentIds | None = None,
        sinks: Array | None = None,
        *,
        mask_value: float = DEFAULT_MASK_VALUE,
        save_residuals: bool = False,
        attn_logits_soft_cap: float | None = None,
    ) -> Array | tuple:
        kernel = _make(
            mask[:, :, :],
            is_mqa=is_mqa,
            save_residuals=save_residuals,
            mask_value=mask_value,
            attn_logits_soft_cap=attn_logits_soft_cap,
            head_shards=1,
            q_seq_shards=1,
        )
        return kernel(q, k, v, segment_ids, sinks)

    return attention


make_masked_mha_reference = partial(_make_reference, is_mqa=False)
make_masked_mqa_reference = partial(_make_reference, is_mqa=True)

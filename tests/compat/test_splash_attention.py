"""Attention under masks that are known before, and the masks, against NumPy."""

import re
from itertools import product

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.compat.jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as kernels,
)
from weft.compat.jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_mask as masks,
)

SHAPE = (6, 8)
ROWS, COLUMNS = np.arange(6)[:, None], np.arange(8)[None, :]
RANDOM = masks.make_random_mask(SHAPE, 0.5, seed=3)

MASKS = {
    "causal": (masks.CausalMask(SHAPE, offset=2), ROWS + 2 >= COLUMNS),
    "chunks": (masks.ChunkedCausalMask(SHAPE, 3), (ROWS // 3 == COLUMNS // 3) & (ROWS >= COLUMNS)),
    "window": (masks.LocalMask(SHAPE, (1, 2), 0), (COLUMNS >= ROWS - 1) & (COLUMNS <= ROWS + 2)),
    "left": (masks.LocalMask(SHAPE, (1, None), 1), COLUMNS >= ROWS),
    "no window": (masks.LocalMask(SHAPE, (None, None), 0), np.ones(SHAPE, bool)),
    "full": (masks.FullMask(SHAPE), np.ones(SHAPE, bool)),
    "array": (masks.NumpyMask(RANDOM), RANDOM),
    "and": (masks.CausalMask(SHAPE) & masks.NumpyMask(RANDOM), (ROWS >= COLUMNS) & RANDOM),
    "or": (masks.CausalMask(SHAPE) | masks.NumpyMask(RANDOM), (ROWS >= COLUMNS) | RANDOM),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_tells_which_keys_a_query_attends_to(name):
    mask, expected = MASKS[name]
    assert mask.shape == SHAPE
    np.testing.assert_array_equal(mask[:, :], expected)
    np.testing.assert_array_equal(mask[1:5, 2:7], expected[1:5, 2:7])
    heads = masks.MultiHeadMask([mask, masks.FullMask(SHAPE)])
    assert heads.shape == (2, *SHAPE)
    np.testing.assert_array_equal(heads[:, :, :], [expected, np.ones(SHAPE)])
    np.testing.assert_array_equal(heads[0, :, 1:], expected[:, 1:])


def test_masks_made_alike_are_equal_and_others_are_not():
    made = [*(m for m, _ in MASKS.values()), masks.MultiHeadMask([masks.FullMask(SHAPE)])]
    again = [masks.CausalMask(SHAPE, offset=2), masks.NumpyMask(RANDOM.copy())]
    for a, b in product(made, [*made, *again]):
        if a == b:
            assert hash(a) == hash(b)
    assert [sum(a == b for a in made) for b in made] == [1] * len(made)
    assert again[0] == made[0] and again[1] in made


def test_functions_make_masks_as_arrays():
    np.testing.assert_array_equal(masks.make_causal_mask(SHAPE, 1), ROWS + 1 >= COLUMNS)
    window = masks.make_local_attention_mask(SHAPE, (None, 1))
    np.testing.assert_array_equal(window, COLUMNS <= ROWS + 1)
    np.testing.assert_array_equal(masks.make_chunk_attention_mask(SHAPE, 3), MASKS["chunks"][1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: masks.MultiHeadMask([]), "masks is empty"),
        (lambda: masks.MultiHeadMask([RANDOM]), "a Mask of two dimensions"),
        (lambda: masks.MultiHeadMask([masks.FullMask((2, 2)), masks.FullMask(SHAPE)]), "different"),
        (lambda: masks.FullMask((2, 2)) & masks.FullMask(SHAPE), "different shapes"),
        (lambda: masks.ChunkedCausalMask(SHAPE, 0), "chunk_size=0 must be positive"),
        (lambda: masks.CausalMask(SHAPE, shard_count=4), "shard_count=4"),
        (lambda: masks.NumpyMask(np.ones(3, bool)), "two dimensions"),
        (lambda: kernels.make_splash_mha_single_device(RANDOM), "(heads, queries, keys)"),
        (
            lambda: kernels.BlockSizes(8, 8, block_q_dq=8, use_fused_bwd_kernel=True),
            "no block_q_dq",
        ),
    ],
)
def test_wrong_masks_say_what_is_wrong(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def reference(mask, q, k, v, segments=None, sinks=None, cap=None):
    """Return attention of q (heads, queries, features) and the logarithm of its sums."""
    k, v = (np.repeat(x, len(q) // len(x), 0) for x in (k, v))
    logits = np.einsum("hqd,hkd->hqk", q, k).astype(np.float64)
    if cap is not None:
        logits = cap * np.tanh(logits / cap)
    if segments is not None:
        mask = mask & (segments[0][:, None] == segments[1][None, :])
    weights = np.exp(logits) * mask
    total = weights.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks)[:, None, None]
    return np.einsum("hqk,hkd->hqd", weights / total, v), np.log(total[..., 0])


CASES = [
    *(dict(kv_heads=h) for h in (1, 2, 4)),
    dict(kv_heads=4, cap=2.0),
    dict(kv_heads=2, sinks=True),
    dict(kv_heads=4, segments=True),
    dict(kv_heads=1, mqa=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_is_that_of_the_formula(case, rng):
    one_mask = masks.CausalMask(SHAPE, offset=2)
    q, k, v = (
        rng.standard_normal((h, n, 5)).astype(np.float32)
        for h, n in ((4, 6), (case["kv_heads"], 8), (case["kv_heads"], 8))
    )
    segments = (np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 1, 1, 1]))
    segments = segments if case.get("segments") else None
    sinks = rng.standard_normal(4).astype(np.float32) if case.get("sinks") else None
    make = kernels.make_splash_mqa if case.get("mqa") else kernels.make_splash_mha
    plain = kernels.make_masked_mqa_reference
    plain = plain if case.get("mqa") else kernels.make_masked_mha_reference
    other = masks.LocalMask(SHAPE, (2, 2), 0)
    for heads in ([one_mask] * 4, [one_mask, other, one_mask, other]):
        mask = masks.MultiHeadMask(heads)
        kernel = make(
            mask,
            head_shards=1,
            q_seq_shards=1,
            attn_logits_soft_cap=case.get("cap"),
            save_residuals=True,
        )
        args = (q, k[0], v[0]) if case.get("mqa") else (q, k, v)
        ids = None if segments is None else kernels.SegmentIds(*segments)

        @weft.jit
        def run(kernel, *args, mask=mask):
            return kernel(*args), plain(mask)(*args, attn_logits_soft_cap=case.get("cap"))

        (out, (sums,)), again = run(kernel, *args, ids, sinks)
        expected = reference(mask[:, :, :], q, k, v, segments, sinks, case.get("cap"))
        np.testing.assert_allclose(out, expected[0], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(again, expected[0], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(sums, expected[1], rtol=2e-5, atol=2e-5)


def test_attention_is_differentiated_and_mapped_over_a_batch(rng):
    mask = masks.MultiHeadMask([masks.CausalMask(SHAPE, 2)] * 2)
    kernel = kernels.make_splash_mha_single_device(mask)
    q, k, v = (rng.standard_normal((3, 2, n, 4)).astype(np.float32) for n in (6, 8, 8))
    out = weft.vmap(kernel)(q, k, v)
    expected = [reference(mask[:, :, :], *one)[0] for one in zip(q, k, v, strict=True)]
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5)
    direction = rng.standard_normal(q[0].shape).astype(np.float32)
    _, slope = weft.jvp(lambda q: (kernel(q, k[0], v[0]) ** 2).sum(), (q[0],), (direction,))
    grad = weft.grad(lambda q: (kernel(q, k[0], v[0]) ** 2).sum())(q[0])
    step = 1e-5
    at = [
        (
            reference(mask[:, :, :], q[0] + s * direction.astype(np.float64), k[0], v[0])[0] ** 2
        ).sum()
        for s in (-step, step)
    ]
    np.testing.assert_allclose(slope, (at[1] - at[0]) / (2 * step), rtol=1e-3)
    np.testing.assert_allclose((grad * direction).sum(), slope, rtol=1e-4)


def test_a_kernel_is_split_over_heads_and_queries(rng):
    mask = masks.MultiHeadMask([masks.CausalMask((8, 8)), masks.FullMask((8, 8))])
    q, k, v = (rng.standard_normal((2, 8, 4)).astype(np.float32) for _ in range(3))
    mesh = weft.make_mesh((2, 4), ("heads", "queries"), axis_types=(weft.AxisType.Auto,) * 2)
    kernel = kernels.make_splash_mha(mask, head_shards=2, q_seq_shards=4)
    spec = kernel.manual_sharding_spec(weft.NamedSharding(mesh, weft.P("heads", "queries")))
    whole = weft.P("heads")
    split = weft.shard_map(
        lambda kernel, *args: kernel(*args),
        mesh=mesh,
        in_specs=(spec, weft.P("heads", "queries"), whole, whole),
        out_specs=weft.P("heads", "queries"),
    )(kernel, wnp.asarray(q), wnp.asarray(k), wnp.asarray(v))
    np.testing.assert_allclose(split, reference(mask[:, :, :], q, k, v)[0], rtol=2e-5, atol=2e-5)


def test_block_sizes_have_the_defaults_of_tiles():
    sizes = kernels.BlockSizes.get_default()
    assert sizes.has_backward_blocks and sizes.block_kv_dkv_compute == sizes.block_kv_dkv == 128
    assert not kernels.BlockSizes(8, 16).has_backward_blocks
    assert kernels.BlockSizes(8, 16).block_kv_compute == 16

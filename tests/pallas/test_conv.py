"""Convolutions in compiled kernels, against sums over windows in NumPy."""

import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft import pallas as pl


def reference(x, w, strides, padding, base=None, dilation=None, groups=1, batch_groups=1):
    """NCHW, OIHW: every result is a sum over its window."""
    rank = x.ndim - 2
    base, dilation = base or (1,) * rank, dilation or (1,) * rank
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    spread = np.zeros(
        (*x.shape[:2], *((n - 1) * b + 1 for n, b in zip(x.shape[2:], base, strict=True)))
    )
    spread[(..., *(slice(None, None, b) for b in base))] = x
    x = np.pad(spread, [(0, 0), (0, 0), *(tuple(max(p, 0) for p in pair) for pair in padding)])
    cut = [
        slice(max(-low, 0), n - max(-high, 0))
        for n, (low, high) in zip(x.shape[2:], padding, strict=True)
    ]
    x = x[(..., *cut)]
    out = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilation, strides, strict=True)
    ]
    batch, outs = x.shape[0] // batch_groups, w.shape[0]
    result = np.zeros((batch, outs, *out))
    for o in range(outs):
        g, b = o * groups // outs, o * batch_groups // outs
        features = x[b * batch : (b + 1) * batch, g * w.shape[1] : (g + 1) * w.shape[1]]
        for place in itertools.product(*map(range, w.shape[2:])):
            part = features[
                (
                    ...,
                    *(
                        slice(p * d, p * d + (n - 1) * s + 1, s)
                        for p, d, n, s in zip(place, dilation, out, strides, strict=True)
                    ),
                )
            ]
            result[:, o] += np.einsum("nc...,c->n...", part, w[(o, slice(None), *place)])
    return result


def native(x, w, *args, interpret=False, out_dtype=None, **options):
    def kernel(x, w, out):
        out[...] = lax.conv_general_dilated(x[...], w[...], *args, **options)

    like = weft.eval_shape(lambda x, w: lax.conv_general_dilated(x, w, *args, **options), x, w)
    return np.asarray(
        pl.pallas_call(kernel, weft.ShapeDtypeStruct(like.shape, like.dtype), interpret=interpret)(
            x, w
        )
    )


CASES = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), (1, 1), [(0, 0), (0, 0)], {}),
    "one by one": ((2, 8, 5, 7), (4, 8, 1, 1), (1, 1), [(0, 0), (0, 0)], {}),
    "padded and strided": ((1, 3, 9, 11), (5, 3, 3, 2), (2, 3), [(1, 1), (0, 2)], {}),
    "negative padding": ((1, 2, 9, 9), (3, 2, 2, 2), (1, 1), [(-1, 1), (2, -2)], {}),
    "dilated window": (
        (1, 2, 12, 12),
        (3, 2, 3, 3),
        (1, 1),
        [(2, 2), (0, 0)],
        {"rhs_dilation": (2, 3)},
    ),
    "dilated operand": (
        (1, 2, 5, 4),
        (3, 2, 3, 3),
        (1, 2),
        [(2, 2), (1, 1)],
        {"lhs_dilation": (2, 3)},
    ),
    "groups of features": (
        (2, 6, 7, 7),
        (9, 2, 3, 3),
        (1, 1),
        [(1, 1), (1, 1)],
        {"feature_group_count": 3},
    ),
    "depthwise": (
        (2, 5, 8, 8),
        (10, 1, 3, 3),
        (1, 1),
        [(1, 1), (1, 1)],
        {"feature_group_count": 5},
    ),
    "groups of batches": (
        (6, 2, 5, 5),
        (9, 2, 2, 2),
        (1, 1),
        [(0, 0), (0, 0)],
        {"batch_group_count": 3},
    ),
    "large window": ((1, 2, 16, 15), (3, 2, 5, 7), (1, 2), [(2, 2), (3, 3)], {}),
    "large window, strided and dilated": (
        (1, 4, 30, 31),
        (2, 2, 5, 5),
        (2, 3),
        [(0, 1), (2, 0)],
        {"rhs_dilation": (3, 2), "feature_group_count": 2},
    ),
    "a signal": ((3, 1, 40), (1, 1, 5), (1,), [(2, 2)], {}),
    "a volume": ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), (1, 1, 2), [(0, 1), (1, 0), (1, 1)], {}),
}
NAMES = {
    "lhs_dilation": "base",
    "rhs_dilation": "dilation",
    "feature_group_count": "groups",
    "batch_group_count": "batch_groups",
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_sums_over_windows(rng, name):
    shape, window, strides, padding, options = CASES[name]
    x, w = rng.normal(size=shape).astype("f4"), rng.normal(size=window).astype("f4")
    want = reference(x, w, strides, padding, **{NAMES[k]: v for k, v in options.items()})
    got = native(x, w, strides, padding, **options)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("bfloat16", None), ("int8", "int32"), ("float16", None), ("int4", "int32")],
)
def test_narrow_operands_are_summed_in_wide_ones(rng, dtype, result):
    x, w = (rng.integers(-4, 5, s) for s in ((1, 4, 9, 9), (3, 4, 3, 3)))
    options = {"preferred_element_type": np.dtype(result)} if result else {}
    got = native(jnp.asarray(x, dtype), jnp.asarray(w, dtype), (1, 1), [(1, 1), (1, 1)], **options)
    want = reference(x, w, (1, 1), [(1, 1), (1, 1)])
    np.testing.assert_allclose(got.astype("f8"), want, rtol=0 if result else 1e-2)


def test_layouts_with_features_last_and_the_derivative_run_natively(rng):
    x, w = rng.normal(size=(2, 9, 8, 3)).astype("f4"), rng.normal(size=(3, 3, 3, 4)).astype("f4")
    got = native(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    want = reference(
        x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), [(1, 1), (1, 1)]
    ).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)

    def kernel(x, w, out):
        out[...] = weft.grad(lambda w: lax.conv_general_dilated(x[...], w, (1, 1), "VALID").sum())(
            w[...]
        )

    x, w = rng.normal(size=(1, 2, 5, 5)).astype("f4"), rng.normal(size=(3, 2, 2, 2)).astype("f4")
    got = pl.pallas_call(kernel, weft.ShapeDtypeStruct(w.shape, "float32"))(x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (4, 4), (1, 2)).sum((-1, -2))
    np.testing.assert_allclose(got, np.broadcast_to(windows, w.shape), rtol=1e-4, atol=1e-4)


def test_signals_are_convolved_as_numpy_does(rng):
    x, w = rng.normal(size=50).astype("f4"), rng.normal(size=7).astype("f4")

    def kernel(x, w, out):
        out[...] = jnp.convolve(x[...], w[...], mode="same")

    got = pl.pallas_call(kernel, weft.ShapeDtypeStruct((50,), "float32"))(x, w)
    np.testing.assert_allclose(got, np.convolve(x, w, "same"), rtol=1e-4, atol=1e-5)

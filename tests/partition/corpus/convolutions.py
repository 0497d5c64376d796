"""Convolutions and windows, batch, feature and spatial dimensions sharded."""

from __future__ import annotations

import itertools

import numpy as np

from tests.partition.corpus.entry import program

SPATIAL = (
    ({"data": 2, "h": 4}, (("data", None, "h", None), (None,) * 4)),
    ({"h": 4, "w": 2}, ((None, None, "h", "w"), (None,) * 4)),
    ({"data": 2, "out": 2, "in": 2}, (("data", "in", None, None), ("out", "in", None, None))),
)


def _convolve(x, w, stride=1, pad=1, dilation=1, groups=1):
    """NCHW × OIHW by loops over the filter's elements."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    reach = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    high, wide = ((n - r) // stride + 1 for n, r in zip(x.shape[2:], reach, strict=True))
    out = np.zeros((x.shape[0], w.shape[0], high, wide), np.float32)
    per, made = x.shape[1] // groups, w.shape[0] // groups
    for i, j in itertools.product(*(range(k) for k in w.shape[2:])):
        rows = slice(i * dilation, i * dilation + stride * (high - 1) + 1, stride)
        columns = slice(j * dilation, j * dilation + stride * (wide - 1) + 1, stride)
        part = x[:, :, rows, columns]
        for g in range(groups):
            o, c = slice(g * made, (g + 1) * made), slice(g * per, (g + 1) * per)
            out[:, o] += np.einsum("nchw,oc->nohw", part[:, c], w[o, :, i, j])
    return out


def _strided(x, w):
    return _convolve(x, w, stride=2)


def _dilated(x, w):
    return _convolve(x, w, pad=2, dilation=2)


def _depthwise(x, w):
    return _convolve(x, w, groups=4)


@program((2, 4, 8, 8), (4, 4, 3, 3), reference=_convolve, layouts=SPATIAL)
def convolution(np, lib):
    return lambda x, w: lib.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))


@program((2, 4, 8, 8), (4, 4, 3, 3), reference=_strided, layouts=SPATIAL)
def strided_convolution(np, lib):
    return lambda x, w: lib.lax.conv_general_dilated(x, w, (2, 2), ((1, 1), (1, 1)))


@program((2, 4, 8, 8), (4, 4, 3, 3), reference=_dilated, layouts=SPATIAL)
def dilated_convolution(np, lib):
    return lambda x, w: lib.lax.conv_general_dilated(
        x, w, (1, 1), ((2, 2), (2, 2)), rhs_dilation=(2, 2)
    )


@program((2, 4, 8, 8), (4, 1, 3, 3), reference=_depthwise, layouts=SPATIAL[:2])
def depthwise_convolution(np, lib):
    return lambda x, w: lib.lax.conv_general_dilated(
        x, w, (1, 1), ((1, 1), (1, 1)), feature_group_count=4
    )


@program((2, 4, 8, 8), (4, 4, 3, 3), layouts=SPATIAL[:2], reference=lambda x, w: _pools(x))
def pools(np, lib):
    def run(x, w):
        window, stride = (1, 1, 2, 2), (1, 1, 2, 2)
        high = lib.lax.reduce_window(x, -np.inf, lib.lax.max, window, stride, "VALID")
        total = lib.lax.reduce_window(x, 0.0, lib.lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME")
        return high, total / 9

    return run


def _pools(x):
    high = x.reshape(2, 4, 4, 2, 4, 2).max((3, 5))
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return high, sum(p[:, :, i : i + 8, j : j + 8] for i in range(3) for j in range(3)) / 9


def _gradients(x, w):
    """Of the sum of squares of a padded 3×3 convolution."""
    y = 2 * _convolve(x, w)
    flipped = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    dx = _convolve(y, flipped)
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    dw = np.zeros_like(w)
    for i, j in itertools.product(range(3), range(3)):
        dw[:, :, i, j] = np.einsum("nohw,nchw->oc", y, p[:, :, i : i + 8, j : j + 8])
    return dx, dw


@program((2, 4, 8, 8), (4, 4, 3, 3), reference=_gradients, layouts=SPATIAL, tolerance=1e-3)
def convolution_gradients(np, lib):
    def loss(x, w):
        return (lib.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1))) ** 2).sum()

    return lib.grad(loss, (0, 1))


def _network(x, w):
    h = np.maximum(_convolve(x, w), 0)
    h = np.maximum(_convolve(h, w, stride=2), 0)
    return h.mean((2, 3))


@program((2, 4, 8, 8), (4, 4, 3, 3), reference=_network, layouts=SPATIAL)
def convolution_network(np, lib):
    def run(x, w):
        pad = ((1, 1), (1, 1))
        h = lib.nn.relu(lib.lax.conv_general_dilated(x, w, (1, 1), pad))
        h = lib.nn.relu(lib.lax.conv_general_dilated(h, w, (2, 2), pad))
        return h.mean((2, 3))

    return run


def _filter_reference(a, k):
    return np.stack([np.convolve(row, k[::-1], "valid") for row in a])


@program((4, 32), (5,), reference=_filter_reference)
def signal_filter(np, lib):
    def run(a, k):
        return lib.lax.conv_general_dilated(a[:, None], k[None, None], (1,), "VALID")[:, 0]

    return run


def _transposed_reference(x, w):
    wide = np.zeros((x.shape[0], x.shape[1], 2 * x.shape[2] - 1), np.float32)
    wide[:, :, ::2] = x
    wide = np.pad(wide, ((0, 0), (0, 0), (1, 2)))
    count = wide.shape[2] - w.shape[2] + 1
    return sum(
        np.einsum("nct,oc->not", wide[:, :, i : i + count], w[:, :, i]) for i in range(w.shape[2])
    )


@program((2, 4, 16), (6, 4, 3), reference=_transposed_reference)
def upsampling_convolution(np, lib):
    return lambda x, w: lib.lax.conv_general_dilated(x, w, (1,), ((1, 2),), lhs_dilation=(2,))


def _pool_gradient(x):
    wide = np.pad(x, ((0, 1), (0, 1), (0, 0)), constant_values=-np.inf)
    out = np.zeros_like(wide)
    for i, j, c in np.ndindex(x.shape[0] // 2, x.shape[1] // 2, x.shape[2]):
        part = wide[2 * i : 2 * i + 3, 2 * j : 2 * j + 3, c]
        k = np.unravel_index(np.argmax(part), part.shape)
        out[2 * i + k[0], 2 * j + k[1], c] += 2 * part[k]
    return out[:-1, :-1]


@program((16, 16, 4), reference=_pool_gradient)
def max_pool_gradient(np, lib):
    """Windows that overlap, with padding at their ends."""

    def run(x):
        def loss(x):
            sizes = ((3, 3, 1), (2, 2, 1))
            pooled = lib.lax.reduce_window(x, -np.inf, lib.lax.max, *sizes, "SAME")
            return (pooled**2).sum()

        return lib.grad(loss)(x)

    return run

"""Orders, shifts and edges along split dimensions; batches and features that do not divide."""

from __future__ import annotations

import numpy as onp

from tests.partition.corpus.entry import program


@program((13, 9))
def shifted_and_turned(np, lib):
    def run(x):
        x = lib.pin(x)
        return np.roll(x, 4, 0), np.roll(x, (-2, 3), (0, 1)), np.flip(x), np.rot90(x)

    return run


@program((13, 9))
def edges(np, lib):
    def run(x):
        x = lib.pin(x)
        return (
            np.pad(x, ((3, 2), (1, 4)), mode="reflect"),
            np.pad(x, 2, mode="symmetric"),
            np.pad(x, ((1, 0), (0, 2)), mode="edge"),
            np.pad(x, 1, mode="wrap"),
        )

    return run


@program((13, 10))
def sums_from_behind(np, lib):
    def run(x):
        x = lib.pin(x)
        return np.cumsum(x[::-1], 0)[::-1], np.cumprod(x[:, ::-1], 1)[:, ::-1]

    return run


@program((10, 12), (10, 12))
def ordered_alike(np, lib):
    def run(a, b):
        a = lib.pin(a)
        i, j = np.argsort(a, axis=1), np.argsort(b, axis=0)
        return np.take_along_axis(b, i, 1), np.take_along_axis(a, j, 0)

    return run


@program((16, 4), (16, 4))
def neighbours(np, lib):
    def run(a, b):
        d = ((a[:, None] - b[None]) ** 2).sum(-1)
        near = b[np.argsort(d, axis=1)[:, :3]]
        return near.mean(1), np.median(d, axis=1), np.argmin(d, 0).astype(np.int32)

    return run


@program((4, 12, 10))
def fourier_planes(np, lib):
    def run(x):
        f = np.fft.fft2(x)
        g = np.fft.rfft2(lib.pin(x))
        return np.abs(f).astype(np.float32), np.fft.irfft2(g * 0.5, s=(12, 10)).astype(np.float32)

    return run


@program((8, 12), (12,))
def eight_bit_rows(np, lib):
    def run(x, y):
        scale = np.abs(x).max(-1, keepdims=True) / 127
        q = np.round(x / scale).astype(np.int8)
        kept = lib.pin(q.astype(np.float32) * scale)
        return (q.astype(np.int32) * np.round(y * 10).astype(np.int32)).sum(-1), kept

    return run


def _triangular(a, b):
    a = onp.tril(a) + 4 * onp.eye(5, dtype=onp.float32)
    return onp.linalg.solve(a, b), onp.linalg.solve(onp.swapaxes(a, -1, -2), b)


@program((6, 5, 5), (6, 5, 3), reference=_triangular)
def triangular_solves(np, lib):
    def run(a, b):
        a = np.tril(a) + 4 * np.eye(5, dtype=np.float32)
        solve = lib.lax.linalg.triangular_solve
        x = solve(a, b, left_side=True, lower=True)
        return lib.pin(x), solve(np.swapaxes(a, -1, -2), b, left_side=True, lower=False)

    return run


def _enlarged(x, w):
    spread = onp.zeros((2, 13 + 4, 25 + 4, 4), onp.float32)
    spread[:, 2:-2:2, 2:-2:3] = x
    out = onp.zeros((2, 14, 27, 6), onp.float32)
    for i in range(4):
        for j in range(3):
            out += onp.einsum("bhwi,io->bhwo", spread[:, i : i + 14, j : j + 27], w[i, j])
    return out


@program((2, 7, 9, 4), (4, 3, 4, 6), reference=_enlarged)
def enlarging_convolution(np, lib):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: lib.lax.conv_transpose(x, w, (2, 3), "SAME", dimension_numbers=numbers)

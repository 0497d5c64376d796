"""Grids: stencils, shifts, slices, windows, scans along an axis."""

from __future__ import annotations

from tests.partition.corpus.entry import program


@program((16, 16))
def periodic_stencil(np, lib):
    def run(a):
        for _ in range(2):
            a = (np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1)) / 4
        return a

    return run


@program((16, 16))
def laplacian(np, lib):
    def run(a):
        inner = a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2] - 4 * a[1:-1, 1:-1]
        return np.pad(inner, 1)

    return run


@program((16, 8))
def shifted_difference(np, lib):
    return lambda a: a[3:] - a[:-3]


@program((16, 8))
def strided(np, lib):
    return lambda a: a[1::3, ::2] + a[:-1:3, 1::2]


@program((8, 12))
def padded(np, lib):
    return lambda a: np.pad(a, ((1, 3), (2, 0)), constant_values=1.5) * 2


@program((8, 6), (4, 6), (3, 6))
def concatenated(np, lib):
    return lambda a, b, c: np.concatenate([a, b, c, a], axis=0) * 2


@program((8, 6), (8, 6))
def stacked(np, lib):
    return lambda a, b: np.stack([a, b, a - b], axis=1)


@program((8, 12))
def flipped(np, lib):
    return lambda a: np.flip(a, (0, 1)) + a[::-1]


@program((16, 8))
def cumulative(np, lib):
    return lambda a: (np.cumsum(a, 0), np.cumsum(a[::-1], 0)[::-1], np.cumprod(a * 0.5, 1))


@program((32,))
def moving_average(np, lib):
    def run(a):
        c = np.cumsum(a)
        return (c[4:] - c[:-4]) / 4

    return run


@program((16, 8))
def sorted_rows(np, lib):
    return lambda a: (np.sort(a, 0), np.sort(a, 1))


@program((16, 8))
def argsorted(np, lib):
    return lambda a: np.argsort(a, 0)


@program((16, 8))
def extremes(np, lib):
    return lambda a: (np.argmax(a, 0), np.argmin(a, 1), a.max(), a.min(0))


@program((16, 8))
def statistics(np, lib):
    return lambda a: (a.mean(), a.var(0), a.std(1), np.sqrt((a**2).sum()), np.median(a, axis=0))


@program((8, 16))
def heads(np, lib):
    return lambda a: a.reshape(8, 4, 4).transpose(1, 0, 2).reshape(4, 32)


@program((4, 8, 6))
def merged(np, lib):
    return lambda a: (a.reshape(32, 6).sum(1), a.reshape(4, 48).max(1))


@program((16, 16))
def triangles(np, lib):
    return lambda a: (np.tril(a), np.triu(a, 2), np.trace(a), np.diagonal(a))


@program((16, 8), (16,), ints=(1,))
def picked(np, lib):
    return lambda a, i: np.take_along_axis(a, i[:, None], axis=1)


@program((16,), (12,), positive=True)
def interpolated(np, lib):
    def run(a, x):
        x = np.minimum(x * 4, 14.0)
        i = np.floor(x).astype(np.int32)
        return np.take(a, i) * (1 - (x - i)) + np.take(a, i + 1) * (x - i)

    return run


@program((24, 6), (24,), ints=(1,))
def histogram(np, lib):
    return lambda a, i: (i[None] == np.arange(8)[:, None]).astype(np.float32) @ a


@program((8, 8, 8))
def heat_3d(np, lib):
    def run(a):
        for _ in range(2):
            p = np.pad(a, 1)
            around = p[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1]
            around = around + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, 2:] + p[1:-1, 1:-1, :-2]
            a = a + 0.1 * (around - 6 * a)
        return a

    return run


@program((16, 16))
def wave_equation(np, lib):
    def run(a):
        def step(state, _):
            now, before = state
            p = np.pad(now, 1)
            lap = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * now
            after = 2 * now - before + 0.1 * lap
            return (after, now), (after**2).mean()

        return lib.lax.scan(step, (a, a), None, length=3)

    return run


@program((16, 16))
def game_of_life(np, lib):
    def run(a):
        alive = (a > 0).astype(np.int32)
        for _ in range(2):
            rows = alive + np.roll(alive, 1, 0) + np.roll(alive, -1, 0)
            count = rows + np.roll(rows, 1, 1) + np.roll(rows, -1, 1) - alive
            alive = ((count == 3) | ((count == 2) & (alive == 1))).astype(np.int32)
        return alive

    return run


@program((16, 16))
def sobel(np, lib):
    def run(a):
        p = np.pad(a, 1, mode="edge")
        x = p[:, 2:] - p[:, :-2]
        y = p[2:] - p[:-2]
        x = x[:-2] + 2 * x[1:-1] + x[2:]
        y = y[:, :-2] + 2 * y[:, 1:-1] + y[:, 2:]
        return np.sqrt(x * x + y * y + 1e-6)

    return run


@program((16, 16))
def integral_image(np, lib):
    def run(a):
        c = np.pad(np.cumsum(np.cumsum(a, 0), 1), ((1, 0), (1, 0)))
        return (c[4:, 4:] - c[:-4, 4:] - c[4:, :-4] + c[:-4, :-4]) / 16

    return run


@program((32,), (32,))
def upwind(np, lib):
    def run(a, v):
        for _ in range(3):
            flux = np.where(v > 0, v * np.roll(a, 1), v * a)
            a = a + 0.1 * (flux - np.roll(flux, -1))
        return a

    return run


@program((16, 12))
def reflected(np, lib):
    return lambda a: np.pad(a, ((2, 1), (1, 3)), mode="reflect") * 2


@program((8, 8))
def wrapped(np, lib):
    return lambda a: np.pad(a, ((3, 2), (0, 1)), mode="wrap") + 1


@program((16, 8))
def interleaved(np, lib):
    return lambda a: np.stack([a[::2], a[1::2]], axis=1).reshape(16, 8)[::-1] - a


@program((4, 8))
def upsampled(np, lib):
    return lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=1)


@program((8, 8))
def tiled(np, lib):
    return lambda a: np.tile(a, (2, 3)) * np.arange(24, dtype=np.float32)


@program((16, 12))
def downsampled(np, lib):
    return lambda a: (a.reshape(8, 2, 6, 2).mean((1, 3)), a.reshape(4, 4, 12).max(1))


@program((24, 4))
def running_extremes(np, lib):
    return lambda a: (np.maximum.accumulate(a, 0), np.minimum.accumulate(a[:, ::-1], 1))


@program((16, 8))
def split_and_swapped(np, lib):
    def run(a):
        b, c = np.split(a, 2, axis=0)
        d, e, f = np.split(a, [3, 5], axis=1)
        return np.concatenate([c, b], 0), np.concatenate([f, d], 1), e.sum()

    return run


@program((16, 8), (16, 8))
def compared(np, lib):
    def run(a, b):
        return (a > b).sum(0), np.where(a > b, a, b).mean(1), (a > 0).any(0), (b < 5).all(1)

    return run


@program((32, 4))
def differences(np, lib):
    return lambda a: (np.diff(a, axis=0), np.diff(a, n=2, axis=0), np.diff(a, axis=1))


@program((8, 6, 4))
def permuted(np, lib):
    return lambda a: (a.transpose(2, 0, 1).reshape(8, 24), np.moveaxis(a, 0, 2).sum(1))


@program((16, 16))
def multigrid(np, lib):
    """A step of Poisson's equation on two grids, both from zeros."""

    def smooth(u, f):
        return (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - f) / 4

    def run(f):
        u = smooth(np.zeros((16, 16), np.float32), f)
        rest = (f - 4 * (smooth(u, f) - u)).reshape(8, 2, 8, 2).mean((1, 3))
        return u + smooth(np.zeros((8, 8), np.float32), rest).repeat(2, 0).repeat(2, 1)

    return run

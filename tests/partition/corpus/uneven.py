"""Sizes that no mesh divides, constrained anyway: shards are padded and padding must not show."""

from __future__ import annotations

from tests.partition.corpus.entry import program


@program((7, 5), (5, 9))
def uneven_product(np, lib):
    return lambda a, b: lib.pin(lib.pin(a) @ lib.pin(b)) + 1


@program((7, 5))
def uneven_reductions(np, lib):
    def run(a):
        b = lib.pin(np.exp(a))
        return b.sum(), b.max(0), b.min(1), b.mean(), np.argmax(lib.pin(a), 0)

    return run


@program((13, 3))
def uneven_softmax(np, lib):
    def run(a):
        e = lib.pin(np.exp(lib.pin(a)))
        return lib.pin(e / e.sum(0)), e / e.sum(1, keepdims=True)

    return run


@program((11, 6), (5, 6))
def uneven_concatenation(np, lib):
    return lambda a, b: lib.pin(np.concatenate([lib.pin(a), lib.pin(b)])) * 2


@program((13, 5))
def uneven_slices(np, lib):
    def run(a):
        b = lib.pin(a * 2)
        return lib.pin(b[2:11]), b[::3], lib.pin(np.pad(b, ((1, 2), (0, 1)))), lib.pin(b[::-1])

    return run


@program((13, 7))
def uneven_stencil(np, lib):
    def run(a):
        a = lib.pin(a)
        for _ in range(2):
            p = np.pad(a, 1)
            a = lib.pin(p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]) / 4
        return a

    return run


@program((9, 5))
def uneven_scans(np, lib):
    return lambda a: (lib.pin(np.cumsum(lib.pin(a), 0)), np.cumsum(lib.pin(a)[::-1], 1))


@program((11, 3))
def uneven_sort(np, lib):
    return lambda a: (lib.pin(np.sort(lib.pin(a), 0)), np.argsort(lib.pin(a), 1))


@program((10, 6))
def uneven_reshapes(np, lib):
    def run(a):
        b = lib.pin(lib.pin(a).reshape(5, 12))
        return b.T.reshape(4, 15) * 2, lib.pin(b.reshape(60))

    return run


@program((9, 4), (7,), ints=(1,))
def uneven_lookup(np, lib):
    return lambda a, i: lib.pin(np.take(lib.pin(a), lib.pin(i), axis=0))


@program((5, 6, 7), (5, 7, 3))
def uneven_batches(np, lib):
    def run(a, b):
        return lib.pin(np.einsum("bij,bjk->bik", lib.pin(a), lib.pin(b)))

    return run


@program((7, 6), (6, 6))
def uneven_loop(np, lib):
    def run(x, w):
        def body(_, h):
            return lib.pin(np.tanh(lib.pin(h) @ w))

        return lib.lax.fori_loop(0, 3, body, x)

    return run


@program((3, 2), (2, 5))
def fewer_elements_than_devices(np, lib):
    def run(a, b):
        c = lib.pin(lib.pin(a) @ lib.pin(b))
        return lib.pin(c.T), c.sum(0), lib.pin(c[1:]), lib.pin(np.cumsum(c, 1))

    return run


@program((1, 5), (7, 1))
def dimensions_of_one(np, lib):
    return lambda a, b: (lib.pin(a) + lib.pin(b), lib.pin(a[0]), (lib.pin(b) @ a).sum(0))

"""Loops, branches, batching, manual regions."""

from __future__ import annotations

import numpy as np

from tests.partition.corpus.entry import program


@program((16, 16), (12, 16), (6, 8, 12))
def rnn(np, lib):
    def run(w, u, xs):
        def step(h, x):
            h = np.tanh(h @ w + x @ u)
            return h, h.sum(1)

        return lib.lax.scan(step, np.zeros((8, 16), np.float32), xs)

    return run


@program(
    (8, 4, 16),
    (16, 16),
    layouts=(
        ({"data": 4, "model": 2}, ((None, "data"), ())),
        ({"data": 4, "model": 2}, ((None, "data"), (None, "model"))),
        ({"data": 8}, (("data",), ())),
    ),
)
def states_by_time(np, lib):
    """The states of a loop, handed on split along its steps."""

    def run(xs, w):
        def step(h, x):
            h = np.tanh(h @ w / 4 + x)
            return h, h

        return lib.pin(lib.lax.scan(step, xs[0] * 0, xs)[1], "data")

    return run


@program((16, 16), (16, 4))
def jacobi(np, lib):
    return lambda a, b: lib.lax.fori_loop(
        0, 5, lambda i, x: (b - a @ x) / 8, np.zeros(b.shape, np.float32)
    )


@program((16, 8), positive=True)
def newton(np, lib):
    """Square roots until the largest residual is small."""

    def run(a):
        def condition(state):
            return (state[1] > 1e-3) & (state[2] < 20)

        def body(state):
            x, _, n = state
            x = (x + a / x) / 2
            return x, np.abs(x * x - a).max(), n + 1

        x, _, n = lib.lax.while_loop(condition, body, (a, np.float32(1), np.int32(0)))
        return x, n

    return run


@program((16, 8), (16, 8))
def branch(np, lib):
    def run(a, b):
        return lib.lax.cond(a.sum() > 0, lambda x, y: x @ y.T, lambda x, y: y @ x.T - 1, a, b)

    return run


@program((8, 12), (), ints=(1,))
def three_ways(np, lib):
    branches = (
        lambda x: x - x.mean(0),
        lambda x: x[::-1],
        lambda x: x / (1 + np.abs(x).max(1, keepdims=True)),
    )
    return lambda a, i: lib.lax.switch(i % 3, branches, a)


@program((4, 8, 8), (8, 8))
def layers_in_a_scan(np, lib):
    def run(w, x):
        return lib.lax.scan(lambda h, layer: (np.tanh(h @ layer) + h, None), x, w)[0]

    return run


@program((3, 4, 8), (8, 8))
def scan_in_a_scan(np, lib):
    def run(xs, w):
        def inner(h, x):
            return np.tanh(h @ w + x), h.sum()

        def outer(h, block):
            h, sums = lib.lax.scan(inner, h, block)
            return h * 0.5, sums.sum()

        return lib.lax.scan(outer, np.ones(8, np.float32), xs)

    return run


@program((8, 16), (16, 16))
def rows_by_number(np, lib):
    """A loop that reads and writes one row of sharded carries each time."""

    def run(a, w):
        def body(i, out):
            row = lib.lax.dynamic_slice(a, (i, 0), (1, 16))
            return lib.lax.dynamic_update_slice(out, np.tanh(row @ w), (i, 0))

        return lib.lax.fori_loop(0, 8, body, np.zeros_like(a))

    return run


@program((6, 8), (8, 8))
def branch_in_a_scan(np, lib):
    def run(xs, w):
        def step(h, x):
            h = lib.lax.cond(x[0] > 0, lambda v: v @ w * 0.5, lambda v: v - 1, h + x)
            return h, h.max()

        return lib.lax.scan(step, np.zeros(8, np.float32), xs)

    return run


@program((8, 6, 4), (4, 4))
def batched_function(np, lib):
    def row(x, w):
        s = x @ w
        return (s @ x.T).sum(1), np.sort(x, 0)[-1]

    return lambda a, w: lib.vmap(row, in_axes=(0, None))(a, w)


@program((6, 4, 8), (8, 4))
def batched_scan(np, lib):
    def row(x, w):
        return lib.lax.scan(lambda h, v: (h * 0.5 + v @ w, h.sum()), np.zeros(4, np.float32), x)

    return lambda a, w: lib.vmap(row, in_axes=(0, None))(a, w)


@program((16, 16))
def power_method_until(np, lib):
    def run(a):
        s = a @ a.T

        def body(_, v):
            v = s @ v
            return v / np.sqrt((v * v).sum())

        return np.abs(lib.lax.fori_loop(0, 5, body, np.ones(16, np.float32)))

    return run


MANUAL = (
    ({"x": 4, "y": 2}, (("x", None), (None, "y"))),
    ({"x": 8, "y": 1}, (("x", None), (None, "y"))),
)


@program((16, 8), (8, 6), reference=lambda a, b: np.tanh(a) @ b / 2, layouts=MANUAL)
def manual_sum(np, lib):
    """A manual region inside a partitioned program."""

    def run(a, b):
        def body(a, b):
            return lib.lax.psum(a @ b, "y")

        mesh = lib._mesh
        inner = lib.shard_map(
            body,
            mesh=mesh,
            in_specs=(lib.P("x", "y"), lib.P("y", None)),
            out_specs=lib.P("x", None),
        )
        return inner(np.tanh(a), b) / 2

    return run


def _ring_reference(a):
    return np.roll(a, 4, 0) + a.sum(0)


@program((16, 4), reference=_ring_reference, layouts=(({"x": 4, "y": 2}, (("x", "y"),)),))
def manual_ring(np, lib):
    """Manual along one axis, partitioned along the other."""

    def run(a):
        def body(a):
            moved = lib.lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)])
            return moved + lib.lax.psum(a.sum(0), "x")

        return lib.shard_map(
            body, mesh=lib._mesh, in_specs=lib.P("x"), out_specs=lib.P("x"), axis_names={"x"}
        )(a)

    return run


def _manual_scan_reference(a):
    total = a.reshape(4, 4, 4).sum(0)
    out = np.zeros_like(total)
    for _ in range(3):
        out = out + total
    return out


@program((16, 4), reference=_manual_scan_reference, layouts=(({"x": 4, "y": 2}, (("x", None),)),))
def manual_scan(np, lib):
    """Collectives in a loop of a manual region."""

    def run(a):
        def body(a):
            def step(h, _):
                return h + lib.lax.psum(a, "x"), None

            return lib.lax.scan(step, np.zeros((4, 4), np.float32), None, length=3)[0]

        return lib.shard_map(body, mesh=lib._mesh, in_specs=lib.P("x"), out_specs=lib.P())(a)

    return run

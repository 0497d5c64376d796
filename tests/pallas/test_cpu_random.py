"""Random kernels on the CPU against the same steps in NumPy: what is read, kept and overwritten."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl

SHAPE = (6, 6)


class Plain:
    """The steps on NumPy arrays."""

    xp = np

    def loop(self, count, body, carry):
        for i in range(count):
            carry = body(i, carry)
        return carry

    def branch(self, flag, yes, no):
        return yes() if flag else no()


class Compiled:
    """The steps on values of a kernel."""

    xp = wnp

    def loop(self, count, body, carry):
        return lax.fori_loop(0, count, body, carry)

    def branch(self, flag, yes, no):
        return lax.cond(flag, lambda: yes(), lambda: no())


class Cell:
    """A NumPy array that is read by copying, as a ref is."""

    def __init__(self, value):
        self.value = value

    def __getitem__(self, index):
        return self.value[index].copy()

    def __setitem__(self, index, value):
        self.value[index] = value


def make_steps(rng, depth=0):
    """A list of steps; each is (kind, choices)."""
    kinds = ["read", "write", "rows", "sum", "mean", "tanh", "turn", "dot", "grow", "flip", "both"]
    if depth < 2:
        kinds += ["loop", "branch", "writes"]
    steps = []
    for _ in range(rng.integers(3, 8)):
        kind = str(rng.choice(kinds))
        inner = make_steps(rng, depth + 1) if kind in ("loop", "branch", "writes") else None
        steps.append((kind, rng.integers(0, 1000, 4).tolist(), inner))
    return steps


def follow(engine, steps, refs, values):
    """Runs the steps; `values` are arrays of SHAPE, bounded by tanh where they would grow."""
    xp = engine.xp
    values = list(values)

    def pick(n):
        return values[n % len(values)]

    for kind, (a, b, c, d), inner in steps:
        ref = refs[a % len(refs)]
        out = refs[1 + a % (len(refs) - 1)]
        x, y = pick(b), pick(c)
        if kind == "read":
            values.append(ref[...])
        elif kind == "write":
            out[...] = x + y * 0.5
        elif kind == "rows":
            first, second = d % 4, c % 4
            out[first : first + 3, :] = out[second : second + 3, :] + x[0:3, :]
        elif kind == "sum":
            values.append(xp.tanh(x.sum(1, keepdims=True) - y.max(0)))
        elif kind == "mean":
            values.append(x - x.mean(d % 2, keepdims=True))
        elif kind == "tanh":
            values.append(xp.tanh(x) * y)
        elif kind == "turn":
            values.append(x.T + y[::-1, :])
        elif kind == "dot":
            values.append(xp.tanh(xp.dot(x, y)))
        elif kind == "grow":
            out[...] = xp.tanh(out[...]) + xp.dot(xp.tanh(x), y) * 0.25
        elif kind == "flip":
            out[...] = out[...][::-1, :] * 0.5 + x.T
        elif kind == "both":
            e = xp.exp(-xp.abs(x))
            values.append(e / e.sum(1, keepdims=True) + y * 0)
        elif kind == "loop":

            def body(i, carry, inner=inner, values=values):
                first, second = carry
                got = follow(engine, inner, refs, [first, second, *values[:2]])
                return xp.tanh(got[-1]) + second * 0.5, xp.tanh(first) - got[-2] * 0.25

            values.extend(engine.loop(1 + d % 3, body, (x, y)))
        elif kind == "branch":

            def yes(inner=inner, x=x, y=y):
                return follow(engine, inner, refs, [x, y])[-1]

            flag = x[0, 0] > y[0, 0]
            values.append(engine.branch(flag, yes, lambda x=x: xp.tanh(x)))
        elif kind == "writes":

            def write(inner=inner, x=x, y=y):
                follow(engine, inner, refs, [x, y])
                return x * 0

            engine.branch(y[1, 1] > 0, write, lambda x=x: x * 0)
        values[-1] = xp.clip(values[-1], -4, 4)
    return values


@pytest.mark.parametrize("seed", range(12))
def test_random_steps_give_what_numpy_gives(seed):
    rng = np.random.default_rng(seed)
    steps = make_steps(rng)
    inputs = rng.standard_normal((2, *SHAPE)).astype("f4")

    def kernel(x, y, *outs):
        for out in outs:
            out[...] = x[...]
        values = follow(Compiled(), steps, (x, *outs), [x[...], y[...]])
        outs[0][...] = outs[0][...] + values[-1]

    kinds = [weft.ShapeDtypeStruct(SHAPE, "float32")] * 3
    got = pl.pallas_call(kernel, kinds)(*inputs)
    x, y = (Cell(v.astype("f8")) for v in inputs)
    outs = [Cell(inputs[0].astype("f8")) for _ in range(3)]
    values = follow(Plain(), steps, (x, *outs), [x[...], y[...]])
    outs[0][...] = outs[0][...] + values[-1]
    for g, w in zip(got, outs, strict=True):
        np.testing.assert_allclose(np.asarray(g), w.value, rtol=1e-3, atol=1e-3)

"""Positions that intervals prove to be in bounds need no check; all others are checked."""

import itertools

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl
from weft.core.trace import trace_to_jaxpr
from weft.pallas.cpu import ranges
from weft.pallas.cpu.lower import kernel_text
from weft.pallas.ir import backends

OPS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": wnp.maximum,
    "min": wnp.minimum,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "rem": lax.rem,
    "div": lax.div,
    "shift": lambda x, y: lax.shift_right_arithmetic(x, wnp.clip(y, 0, 7)),
    "remainder": lambda x, y: x % 5 + y,
    "floor": lambda x, y: x // 3 - y,
    "where": lambda x, y: wnp.where(x < y, x, y),
    "turned": lambda x, y: wnp.where(x < 0, x + 9, x) * y,
    "clip": lambda x, y: wnp.clip(x, -3, 2) - abs(y),
    "negated": lambda x, y: -x + (y >= 2).astype("int8"),
}
BOUNDS = [(-128, 127), (-128, -126), (-9, -2), (-3, 4), (0, 0), (0, 6), (1, 5), (100, 127)]


@pytest.mark.parametrize("name", OPS)
def test_every_value_is_in_the_range_that_is_told(name):
    aval = weft.core.aval.ShapedArray((), np.dtype("int8"))
    jaxpr, _ = trace_to_jaxpr(lambda x, y: [OPS[name](x, y)], [aval, aval])
    told = 0
    for x, y in itertools.product(BOUNDS, BOUNDS):
        known = {}
        for variable, bounds in zip(jaxpr.invars, (x, y), strict=True):
            known[variable] = bounds

        def read(v, known=known):
            return ranges.of_values(v.val) if hasattr(v, "val") else known.get(v)

        for eqn in jaxpr.eqns:
            known[eqn.outvars[0]] = ranges.of_result(eqn, [read(v) for v in eqn.invars])
        answer = read(jaxpr.outvars[0])
        a, b = np.meshgrid(*(np.arange(low, high + 1) for low, high in (x, y)))
        if name in ("rem", "div"):
            a, b = a[b != 0], b[b != 0]
        if answer is None or not a.size:
            continue
        told += 1
        values = np.asarray(OPS[name](a.astype(np.int8), b.astype(np.int8)))
        assert answer[0] <= values.min() and values.max() <= answer[1], (x, y, answer)
    assert told


def checks(kernel, *shapes, out=(8,), **options):
    """How many messages of failed checks the machine code of a kernel has."""
    texts = []
    plain = backends["cpu"]

    def lower(ctx, call, *operands):
        texts.append(kernel_text(call))
        return plain(ctx, call, *operands)

    backends["cpu"] = lower
    try:
        call = pl.pallas_call(kernel, weft.ShapeDtypeStruct(out, "float32"), **options)
        operands = [np.zeros(s, d) for s, d in shapes]
        weft.jit(call).lower(*operands)
    finally:
        backends["cpu"] = plain
    (text,) = texts
    return text.count("out of bounds")


X, INDEX = ((8,), "float32"), ((8,), "int32")


def loop(position):
    def kernel(x, index, out):
        def body(i, _):
            out[i] = x[position(i, index[i])]
            return _

        lax.fori_loop(0, 8, body, 0)

    return kernel


def growing(x, index, out):
    lax.while_loop(lambda i: i < 8, lambda i: (out.__setitem__(i, x[7 - i]), i + 1)[1], 0)


PROVED = {
    "a counter": loop(lambda i, k: i),
    "from the other end": loop(lambda i, k: 7 - i),
    "clipped": loop(lambda i, k: wnp.clip(k, 0, 7)),
    "a remainder": loop(lambda i, k: (3 * i) % 8),
    "a mask": loop(lambda i, k: k & 7),
    "chosen": loop(lambda i, k: wnp.where(k > 3, i, 0)),
    "a while loop": growing,
    "lanes": lambda x, index, out: out.__setitem__(..., x[wnp.clip(index[...], 0, 7)]),
    "lanes of a range": lambda x, index, out: out.__setitem__(..., x[7 - wnp.arange(8)]),
}
UNPROVED = {
    "read": loop(lambda i, k: k),
    "past the end": loop(lambda i, k: i + 1),
    "clipped too far": loop(lambda i, k: wnp.clip(k, 0, 8)),
    "a product that wraps around": loop(lambda i, k: (i + 2) * 2**30),
    "lanes that are read": lambda x, index, out: out.__setitem__(..., x[index[...]]),
}


@pytest.mark.parametrize("name", PROVED)
def test_positions_that_are_proved_are_not_checked(name):
    assert checks(PROVED[name], X, INDEX) == 0


@pytest.mark.parametrize("name", UNPROVED)
def test_positions_that_are_not_proved_are_checked(name):
    assert checks(UNPROVED[name], X, INDEX) > 0
    assert checks(UNPROVED[name], X, INDEX, debug=False) == 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint32"])
@pytest.mark.parametrize("lanes", [False, True])
def test_numpys_indices_are_read_and_all_others_fail(rng, dtype, lanes):
    kernel = UNPROVED["lanes that are read"] if lanes else UNPROVED["read"]
    call = weft.jit(pl.pallas_call(kernel, weft.ShapeDtypeStruct((8,), "float32")))
    x = rng.standard_normal(8).astype("float32")
    low, high = (0, 8) if dtype[0] == "u" else (-8, 8)
    for _ in range(3):
        index = rng.integers(low, high, 8).astype(dtype)
        np.testing.assert_array_equal(np.asarray(call(x, index)), x[index])
        for bad in {8, 100, 127, np.iinfo(dtype).max, low - 9 if low else 9, np.iinfo(dtype).min}:
            if low <= bad < high:
                continue
            damaged = index.copy()
            damaged[rng.integers(8)] = bad
            with pytest.raises(Exception, match="get .*out of bounds"):
                np.asarray(call(x, damaged))

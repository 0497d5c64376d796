"""Indices of refs mean what NumPy's do, interpreted, natively, on GPUs and outside of kernels."""

import numpy as np
import pytest

import weft
from tests.pallas.triton_machine import run as run_triton
from weft import lax
from weft import pallas as pl
from weft.core.jaxpr import walk_eqns

X = np.arange(24, dtype=np.float32).reshape(4, 6) + 1
I, J = np.array([0, -1, 2, -4], np.int32), np.array([-6, 5, -1, 0], np.int32)
S = np.array([-1, 2], np.int32)
VIEW = pl.ds(1, 3)

READS = {
    "known numbers": (lambda x, i, j, s: x[-1, -2], lambda x, i, j, s: x[-1, -2]),
    "known arrays": (lambda x, i, j, s: x[np.array([0, -1])], lambda x, i, j, s: x[[0, -1]]),
    "known bytes": (
        lambda x, i, j, s: x[np.array([-1, 3], np.int8)],
        lambda x, i, j, s: x[[-1, 3]],
    ),
    "a scalar": (lambda x, i, j, s: x[s[0]], lambda x, i, j, s: x[s[0]]),
    "two scalars": (lambda x, i, j, s: x[s[0], s[1]], lambda x, i, j, s: x[s[0], s[1]]),
    "a window": (lambda x, i, j, s: x[s[0], pl.ds(s[1], 3)], lambda x, i, j, s: x[s[0], 2:5]),
    "an array": (lambda x, i, j, s: x[i[...]], lambda x, i, j, s: x[i]),
    "two arrays": (lambda x, i, j, s: x[i[...], j[...]], lambda x, i, j, s: x[i, j]),
    "both kinds": (lambda x, i, j, s: x[i[...], s[0]], lambda x, i, j, s: x[i, s[0]]),
    "last dimension": (lambda x, i, j, s: x[:, j[...]], lambda x, i, j, s: x[:, j]),
    "a view": (lambda x, i, j, s: x.at[VIEW][s[0]], lambda x, i, j, s: x[1:4][s[0]]),
    "a view of columns": (
        lambda x, i, j, s: x.at[:, pl.ds(2, 4)][i[...], s[0]],
        lambda x, i, j, s: x[:, 2:6][i, s[0]],
    ),
}


def interpreted(kernel, out, *args, **options):
    return pl.pallas_call(kernel, out, interpret=True)(*args)


def native(kernel, out, *args, **options):
    return pl.pallas_call(kernel, out, **options)(*args)


def unchecked(kernel, out, *args):
    return pl.pallas_call(kernel, out, debug=False)(*args)


def triton(kernel, out, *args, **options):
    closed = weft.make_jaxpr(pl.pallas_call(kernel, out))(*args)
    (eqn,) = [e for e in walk_eqns(closed) if e.primitive.name == "pallas_call"]
    values = dict(zip(closed.jaxpr.invars, args, strict=True))
    values |= zip(closed.jaxpr.constvars, map(np.asarray, closed.consts), strict=True)
    return run_triton(eqn.params["call"], *(values[v] for v in eqn.invars))[0]


def outside(kernel, out, *args):
    refs = [weft.new_ref(weft.numpy.asarray(a)) for a in args]
    last = weft.new_ref(weft.numpy.zeros(out.shape, out.dtype))
    kernel(*refs, last)
    return last[...]


BACKENDS = {f.__name__: f for f in (interpreted, native, unchecked, triton, outside)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", READS)
def test_what_is_read(name, backend):
    read, reference = READS[name]
    want = np.asarray(reference(X, I, J, S))

    def kernel(x, i, j, s, out):
        out[...] = read(x, i, j, s)

    got = BACKENDS[backend](kernel, weft.ShapeDtypeStruct(want.shape, X.dtype), X, I, J, S)
    np.testing.assert_array_equal(got, want)


WRITES = {
    "known arrays": (
        lambda o, i, j, s: o.__setitem__(np.array([0, -1]), 9.0),
        lambda o, i, j, s: o.__setitem__([0, -1], 9.0),
    ),
    "a scalar": (
        lambda o, i, j, s: o.__setitem__((s[0], s[1]), 9.0),
        lambda o, i, j, s: o.__setitem__((s[0], s[1]), 9.0),
    ),
    "an array": (
        lambda o, i, j, s: o.__setitem__((i[...], j[...]), 9.0),
        lambda o, i, j, s: o.__setitem__((i, j), 9.0),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written(name, backend):
    write, reference = WRITES[name]
    want = X.copy()
    reference(want, I, J, S)

    def kernel(x, i, j, s, out):
        out[...] = x[...]
        write(out, i, j, s)

    got = BACKENDS[backend](kernel, weft.ShapeDtypeStruct(X.shape, X.dtype), X, I, J, S)
    np.testing.assert_array_equal(got, want)


OUTSIDE = {
    "a scalar past the end": (lambda x, i: x[i[0], 0], [4]),
    "a scalar before the start": (lambda x, i: x[i[0], 0], [-5]),
    "an array past the end": (lambda x, i: x[i[...], 0].sum(), [0, 9]),
    "an array before the start": (lambda x, i: x[0, i[...]].sum(), [0, -7]),
    "a window past the end": (lambda x, i: x[0, pl.ds(i[0], 4)].sum(), [3]),
    "a window before the start": (lambda x, i: x[0, pl.ds(i[0], 4)].sum(), [-1]),
    "a loop": (
        lambda x, i: weft.lax.fori_loop(0, i[0], lambda k, t: t + x[k, 0], 0.0),
        [5],
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("options", [{}, {"debug": True}, {"interpret": True}], ids=str)
def test_reading_outside_is_an_error_unless_the_program_promises_not_to(name, options):
    read, indices = OUTSIDE[name]

    def kernel(x, i, out):
        out[0] = read(x, i)

    run = pl.pallas_call(kernel, weft.ShapeDtypeStruct((1,), np.float32), **options)
    with pytest.raises(Exception, match=r"get .*out(side)? of (bounds|dimension)"):
        weft.block_until_ready(run(X, np.array(indices, np.int32)))
    inside = np.zeros(len(indices), np.int32)
    assert np.isfinite(run(X, inside)).all()


@pytest.mark.parametrize("options", [{}, {"interpret": True}], ids=str)
def test_writing_outside_is_an_error_and_changes_nothing_else(options):
    def kernel(i, out, seen):
        out[...] = weft.numpy.zeros(4)
        seen[...] = weft.numpy.ones(4)
        weft.lax.fori_loop(0, 4, lambda k, c: out.__setitem__(i[k], 1.0) or c, 0)

    shapes = (weft.ShapeDtypeStruct((4,), np.float32),) * 2
    run = pl.pallas_call(kernel, shapes, **options)
    with pytest.raises(Exception, match=r"set .*out(side)? of (bounds|dimension)"):
        weft.block_until_ready(run(np.array([0, 1, 1 << 30, 2], np.int32)))
    out, seen = run(np.array([0, 1, -1, 1], np.int32))
    np.testing.assert_array_equal(out, [1, 1, 0, 1])
    np.testing.assert_array_equal(seen, np.ones(4))


def test_blocks_outside_of_their_array_are_an_error():
    spec = pl.BlockSpec((2,), lambda i: (i + 1,))
    run = pl.pallas_call(
        lambda x, out: out.__setitem__(..., x[...]),
        weft.ShapeDtypeStruct((4,), np.float32),
        grid=(2,),
        in_specs=[spec],
        out_specs=pl.BlockSpec((2,), lambda i: (i,)),
    )
    with pytest.raises(Exception, match="index map .* out of bounds"):
        weft.block_until_ready(run(np.ones(4, np.float32)))


def test_known_indices_outside_are_errors_while_tracing():
    for index in (np.array([0, 4]), np.array([-5]), 4, -5):
        with pytest.raises(IndexError, match="out of bounds for dimension 0 of size 4"):
            pl.pallas_call(
                lambda x, out, index=index: out.__setitem__(0, x[index, 0].sum()),
                weft.ShapeDtypeStruct((1,), np.float32),
            )(X)


def _element_by_element(x, index, out):
    def body(i, carry):
        out[i] = x[index[i]]
        return carry

    lax.fori_loop(0, 8, body, 0)


def _all_at_once(x, index, out):
    out[...] = x[index[...]]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint32"])
@pytest.mark.parametrize("kernel", [_element_by_element, _all_at_once])
def test_numpys_indices_are_read_and_all_others_fail(rng, dtype, kernel):
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

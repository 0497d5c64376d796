"""Random indices of refs against NumPy, traced and static, also through views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft.core.ref import At, Indexer, Pick, Window
from weft.refs.indexing import compose, parse_index

SHAPE = (4, 5, 3)
X = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


@st.composite
def basic_items(draw, n):
    """One item for a dimension of size n: an int (if there are any) or a slice."""
    if n and draw(st.booleans()):
        return draw(st.integers(-n, n - 1))
    return draw(st.slices(n))


@st.composite
def basic_indices(draw, shape):
    rank = draw(st.integers(0, len(shape)))
    items = [draw(basic_items(n)) for n in shape[:rank]]
    if draw(st.booleans()):
        cut = draw(st.integers(0, rank))
        tail = [draw(basic_items(n)) for n in shape[len(shape) - (rank - cut) :]] if rank else []
        items = [*items[:cut], Ellipsis, *tail]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@st.composite
def fancy_indices(draw):
    """Ints, slices and index arrays that broadcast together."""
    items = []
    for n in SHAPE[: draw(st.integers(1, 3))]:
        if draw(st.booleans()):
            lead = draw(st.sampled_from([(2,), (1,), (3, 1), (3, 2)]))
            values = st.integers(-n, n - 1)
            flat = draw(st.lists(values, min_size=6, max_size=6))
            items.append(np.array(flat[: int(np.prod(lead))]).reshape(lead))
        else:
            items.append(draw(basic_items(n)))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


def wrapped(index):
    """Index arrays of refs are in bounds: negative positions counted from the start."""
    arrays = []
    used = [i for i in index if i is not None]
    for dim, item in enumerate(used):
        if isinstance(item, np.ndarray):
            item = np.where(item < 0, item + SHAPE[dim], item)
        arrays.append(item)
    it = iter(arrays)
    return tuple(None if i is None else next(it) for i in index)


def check(index):
    index = index if any(i is Ellipsis for i in index) else wrapped(index)
    expected = X[index]

    def kernel(x, start, got, out):
        del start
        got[...] = x[index]
        out[index] = -x[index] - 1

    types = [weft.ShapeDtypeStruct(s, "float32") for s in (expected.shape, SHAPE)]
    call = pl.pallas_call(kernel, types, interpret=True, input_output_aliases={1: 1})
    got, out = call(X, X)
    after = X.copy()
    after[index] = -X[index] - 1
    assert_array_equal(got, expected)
    assert_array_equal(out, after)


@given(basic_indices(SHAPE))
def test_basic_indices_follow_numpy(index):
    check(index)


@given(fancy_indices())
def test_index_arrays_follow_numpy(index):
    check(index)


@given(basic_indices(SHAPE).filter(lambda i: None not in i), st.data())
def test_views_of_views_follow_numpy(first, data):
    first = tuple(i if not isinstance(i, slice) else forwards(i) for i in first)
    part = X[first]
    second = data.draw(basic_indices(part.shape))

    def kernel(x, got):
        got[...] = x.at[first][second]

    expected = part[second]
    call = pl.pallas_call(kernel, weft.ShapeDtypeStruct(expected.shape, "float32"), interpret=True)
    assert_array_equal(call(X), expected)


def forwards(s):
    return slice(s.start, s.stop, abs(s.step)) if s.step else s


@pytest.mark.parametrize(
    ("index", "starts"),
    [
        (lambda i: np.s_[i], (0, 3)),
        (lambda i: (slice(None), i), (0, 4)),
        (lambda i: (pl.ds(i, 2), slice(1, 3)), (0, 2)),
        (lambda i: (pl.ds(i, 2, 2), pl.ds(i + 1, 2)), (0, 1)),
        (lambda i: (i, pl.ds(i, 2), None, i), (0, 2)),
        (lambda i: (jnp.array([0, 1]) + i, i), (0, 2)),
        (lambda i: (i, slice(None), jnp.array([[0], [1]]) + i), (0, 1)),
    ],
)
def test_traced_positions_follow_numpy(index, starts):
    for i in starts:
        ref = np.array(X)
        plain = index(i)
        plain = plain if isinstance(plain, tuple) else (plain,)
        host = tuple(
            slice(int(p.start), int(p.start) + (p.size - 1) * p.stride + 1, p.stride)
            if isinstance(p, pl.Slice)
            else np.asarray(p)
            if hasattr(p, "dtype")
            else p
            for p in plain
        )

        def both(x, i):
            r = weft.new_ref(x)
            value = r[index(i)]
            r[index(i)] = value + 100
            return value, r[...]

        def kernel(x, i, got, out):
            got[...] = x[index(i[...])]
            out[...] = x[...]
            out[index(i[...])] = x[index(i[...])] + 100

        expected = ref[host].copy()
        ref[host] += 100
        types = [weft.ShapeDtypeStruct(s, "float32") for s in (expected.shape, SHAPE)]
        interpreted = pl.pallas_call(kernel, types, interpret=True)(X, np.int32(i))
        for got, out in (weft.jit(both)(X, i), interpreted):
            assert_array_equal(got, expected)
            assert_array_equal(out, ref)


def test_an_index_is_parsed_to_what_is_static_and_what_is_not():
    parsed = parse_index((4, 5, 3), (1, pl.ds(2, 2), np.array([0, 2])))
    assert parsed.indexer == Indexer((At(1), Window(2, 2), Pick()), (2,), 0)
    assert parsed.shape == (2, 2)
    assert str(parsed.indexer) == "[1, 2+2, []]"
    outer = Indexer((Window(1, 3), At(2), Window(0, 2, 2)))
    inner = Indexer((At(1), Window(0, 2)))
    assert compose(outer, [], inner, [])[0] == Indexer((At(2), At(2), Window(0, 2, 2)))


def test_windows_beyond_a_ref_are_masked():
    ref = weft.new_ref(jnp.asarray(X[:, :, 0]))
    rows, columns = np.arange(1, 9), np.arange(0, 12, 2)
    inside = (rows < 4)[:, None] & (columns < 5)
    window = ref.at[pl.ds(1, 8), pl.ds(0, 6, 2)]
    expected = np.full((8, 6), -1, np.float32)
    expected[:3, :3] = X[1:, ::2, 0]
    assert_array_equal(pl.load(window, mask=inside, other=-1.0), expected)
    one = pl.load(ref, (2, pl.ds(jnp.int32(3), 8)), mask=jnp.arange(8) < 2)
    assert_array_equal(one[:2], X[2, 3:5, 0])
    pl.store(window, ..., 7.0, mask=inside)
    expected = X[:, :, 0].copy()
    expected[1:, ::2] = 7
    assert_array_equal(ref[...], expected)
    for read in (lambda: window[...], lambda: ref[pl.ds(1, 8)], lambda: pl.load(window)):
        with pytest.raises(IndexError, match="reaches outside of dimension 0 of size 4"):
            read()


@pytest.mark.parametrize("interpret", [True, False])
def test_a_kernel_reads_and_writes_masked_windows_beyond(interpret):
    def kernel(x, o):
        inside = (jnp.arange(8) < 4)[:, None] & (jnp.arange(8) < 5)
        value = pl.load(x.at[pl.ds(0, 8), pl.ds(0, 8)], mask=inside, other=0.0)
        o[...] = value.sum(0)[:5]

    out = weft.ShapeDtypeStruct((5,), np.float32)
    result = pl.pallas_call(kernel, out, interpret=interpret)(X[:, :, 0])
    assert_array_equal(result, X[:, :, 0].sum(0))

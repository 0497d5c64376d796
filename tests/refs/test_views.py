"""Refs seen in another shape, order or dtype: read, written and updated as NumPy's views."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.pallas as pl
from tests.pallas import triton_machine

S = np.s_
VIEWS = {
    "transposed": lambda a: a.T,
    "merged": lambda a: a.reshape(-1),
    "split": lambda a: a.reshape(2, 2, 6),
    "cut anew": lambda a: a.reshape(8, 3),
    "with sizes of one": lambda a: a.reshape(1, 4, 1, 6),
    "split and turned": lambda a: a.reshape(2, 2, 6).transpose(2, 0, 1),
}
INDICES = {
    1: (S[...], S[3], S[1:7], S[::2], S[::-1], np.array([0, 5, 2])),
    2: (S[...], S[1], S[:, 1], S[1, 2], S[::2, 1:], S[:, np.array([1, 0])], S[1:2, None]),
    3: (S[...], S[1], S[:, 1], S[1, 0, 1], S[1, :, 0:2], S[np.array([1, 0]), :, np.array([0, 1])]),
    4: (S[0, 1], S[0, :, 0, 2], S[:, 1:3, :, ::2]),
}
CASES = [
    (name, index) for name, view in VIEWS.items() for index in INDICES[view(np.zeros((4, 6))).ndim]
]
X = np.arange(24, dtype="float32").reshape(4, 6)


def shape(*dims, dtype="float32"):
    return weft.ShapeDtypeStruct(dims, dtype)


@pytest.mark.parametrize(("name", "index"), CASES, ids=[f"{n}-{i!s:.40}" for n, i in CASES])
def test_a_view_is_read_and_written_as_numpys(name, index):
    view = VIEWS[name]
    want = view(X)[index]
    value = 100 + np.arange(want.size, dtype="float32").reshape(want.shape)
    places = view(np.arange(24).reshape(4, 6))[index]
    written = X.ravel().copy()
    written[places] = value
    ref = weft.new_ref(jnp.asarray(X))
    assert view(ref).shape == view(X).shape
    np.testing.assert_array_equal(view(ref)[index], want)
    view(ref)[index] = value
    np.testing.assert_array_equal(ref[...], written.reshape(4, 6))


@pytest.mark.parametrize("executor", ["interpreted", "native", "triton"])
def test_kernels_see_blocks_in_other_shapes_and_orders(executor):
    def kernel(x, out, sums):
        out.T[...] = x[...].T * 2
        sums.reshape(-1)[...] = x.reshape(2, 2, 8)[1, 0] + x.T.at[2:4].T[1, 1]
        sums.reshape(4, 2)[2, 1] = x.reshape(-1)[17]

    x = np.arange(32, dtype="float32").reshape(4, 8)
    outs = (shape(4, 8), shape(2, 4))
    if executor == "triton":
        (eqn,) = weft.make_jaxpr(pl.pallas_call(kernel, outs))(x).eqns
        out, sums = triton_machine.run(eqn.params["call"], x)
    else:
        out, sums = pl.pallas_call(kernel, outs, interpret=executor == "interpreted")(x)
    want = x[2] + x[1, 3]
    want[5] = x[2, 1]
    np.testing.assert_array_equal(out, x * 2)
    np.testing.assert_array_equal(np.ravel(sums), want)


@pytest.mark.parametrize("interpret", [True, False])
def test_views_at_traced_positions_in_a_loop(interpret):
    def kernel(x, out):
        @pl.loop(0, 2)
        def _(i):
            out[i] = x.reshape(2, 2, 6)[i, 1] + x.reshape(-1)[pl.ds(i * 6, 6)] + x.T[i, 3]

    got = pl.pallas_call(kernel, shape(2, 6), interpret=interpret)(X)
    want = [X.reshape(2, 2, 6)[i, 1] + X[i] + X[3, i] for i in range(2)]
    np.testing.assert_array_equal(got, want)


def regrouped(x, dtype):
    """NumPy's view with what a number becomes lying in rows below each other."""
    dtype = np.dtype(dtype)
    if dtype.itemsize <= x.itemsize:
        many = x.itemsize // dtype.itemsize
        parts = np.ascontiguousarray(x).view(dtype).reshape(*x.shape, many)
        return parts.swapaxes(1, 2).reshape(-1, x.shape[1])
    many = dtype.itemsize // x.itemsize
    rows = x.reshape(-1, many, x.shape[1]).swapaxes(1, 2)
    return np.ascontiguousarray(rows).view(dtype)[..., 0]


@pytest.mark.parametrize("interpret", [True, False])
@pytest.mark.parametrize(
    ("dtype", "new"), [("f4", "i4"), ("f4", "i2"), ("f4", "u1"), ("f2", "i4"), ("i1", "f4")]
)
def test_the_bits_of_a_ref_are_seen_as_other_numbers(interpret, dtype, new, rng):
    x = rng.integers(0, 100, (8, 6)).astype(dtype)
    want = regrouped(x, new)

    def kernel(x, out, back, row):
        out[...] = x.bitcast(new)[...]
        back.bitcast(new)[...] = out[...]
        row[...] = x.bitcast(new)[4:8, 2] if want.shape[0] >= 8 else x.bitcast(new)[1:2, 2]

    rows = S[4:8] if want.shape[0] >= 8 else S[1:2]
    outs = (
        shape(*want.shape, dtype=new),
        shape(8, 6, dtype=dtype),
        shape(len(want[rows]), dtype=new),
    )
    out, back, row = pl.pallas_call(kernel, outs, interpret=interpret)(x)
    np.testing.assert_array_equal(np.asarray(out).view("u1"), want.view("u1"))
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(np.asarray(row), want[rows, 2])


def test_views_are_updated_swapped_masked_and_differentiated():
    ref = weft.new_ref(jnp.asarray(X))
    np.testing.assert_array_equal(ref.T.swap(jnp.zeros(4), 1), X[:, 1])
    ref.T.addupdate(1.0, S[1:3])
    want = X.copy()
    want[:, 1] = 1
    want[:, 2] += 1
    np.testing.assert_array_equal(ref.get(S[:, 1:3]), want[:, 1:3])
    mask = np.arange(4) < 2
    np.testing.assert_array_equal(
        pl.load(ref.T, 5, mask=mask, other=-1.0), np.where(mask, X[:, 5], -1)
    )
    pl.atomic_add(ref.reshape(-1), np.array([23, 23]), jnp.ones(2))
    assert ref[3, 5] == 25

    @weft.jit
    def loss(x):
        r = weft.new_ref(x)
        r.T.at[0].set(r.reshape(-1)[0:4] ** 2)
        return r[...].sum()

    x = np.ones((4, 6), "f4")
    want = np.ones((4, 6))
    want[:, 0] = 0
    want[0, :4] += 2
    np.testing.assert_array_equal(weft.grad(loss)(x), want)
    np.testing.assert_array_equal(weft.vmap(loss)(np.stack([x, 2 * x])), [24, 40 + 16])


def test_a_part_of_a_part_of_a_view_is_copied_where_it_has_a_place():
    def kernel(x, out, sem):
        copy = pl.async_copy(x.at[1:3].at[1], out.at[0], sem)
        copy.start()
        copy.wait()

    call = pl.pallas_call(
        kernel, shape(1, 6), scratch_shapes=[pl.SemaphoreType.DMA], interpret=True
    )
    np.testing.assert_array_equal(call(X), X[2:3])


def wrong_rows(ref):
    ref.bitcast("int16")[1:3]


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda r: r.reshape(5, 5), ValueError, "24 elements"),
        (lambda r: r.transpose(0, 0), ValueError, "not a permutation"),
        (lambda r: r.transpose(0, 5), ValueError, "not a permutation"),
        (lambda r: r.bitcast("bool"), TypeError, "whole bytes"),
        (lambda r: r.at[0].bitcast("int16"), ValueError, "last dimension but one"),
        (wrong_rows, ValueError, "multiples of 2"),
        (lambda r: r.bitcast("int32").addupdate(1), TypeError, "read it, compute, and write it"),
        (lambda r: pl.atomic_add(r.bitcast("int32"), 0, 1), TypeError, "seen as i32"),
        (lambda r: pl.load(r.bitcast("int16"), ..., mask=True), ValueError, "no mask"),
        (lambda r: r.T.pointer(), TypeError, "no place of its own"),
        (lambda r: r.T[7], IndexError, "out of bounds"),
    ],
)
def test_wrong_views_say_what_is_wrong(use, error, words):
    with pytest.raises(error, match=words):
        use(weft.new_ref(jnp.asarray(X)))

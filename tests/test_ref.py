"""weft.ref: functions that read and write refs, and refs that are given up."""

import numpy as np
import pytest

import weft
from weft import ref as refs


def test_parts_and_wholes_are_read_written_swapped_and_added_to():
    @weft.jit
    def f(x):
        r = refs.new_ref(x)
        refs.set(r, 0, 5.0)
        refs.addupdate(r, slice(1, None), 1.0)
        before = refs.swap(r, 2, 9.0)
        whole = refs.swap(r, None, 0.0)
        refs.set(r, None, whole * 2)
        return before, refs.get(r, 0), refs.get(r)

    before, first, rest = f(np.arange(3, dtype=np.float32))
    assert (float(before), float(first)) == (3, 10)
    np.testing.assert_array_equal(rest, [10, 4, 18])


@pytest.mark.parametrize("ty", [np.ones((2, 3), np.int8), weft.ShapeDtypeStruct((2, 3), np.int8)])
def test_an_empty_ref_has_the_type_of_what_describes_it(ty):
    r = weft.empty_ref(ty)
    assert (r.shape, r.dtype) == ((2, 3), np.int8)
    r[...] = 4
    assert int(r[1, 2]) == 4


def test_a_freed_ref_cannot_be_used():
    r = weft.new_ref(np.ones(3))
    assert weft.free_ref(r) is None
    with pytest.raises(ValueError, match=r"used after .*free_ref"):
        r[0]
    with pytest.raises(TypeError, match="expected a Ref"):
        weft.free_ref(np.ones(3))


def scaled(v, reverse=False, index=...):
    """The carry that a scan over a ref's rows ends with, and what it leaves there."""
    r = weft.new_ref(v)

    def body(carry, x):
        x[...] = x[...] * carry
        return carry + x[...].sum(), None

    carry, _ = weft.lax.scan(body, 1.0, r if index is ... else r.at[index], reverse=reverse)
    return carry, r[...]


def scaled_by_numpy(v, reverse=False, index=slice(None)):
    carry, out = 1.0, np.array(v)
    for row in list(out[index])[:: -1 if reverse else 1]:
        row *= carry
        carry += row.sum()
    return carry, out


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_over_a_ref_gives_the_body_a_ref_to_each_row(jitted, reverse):
    v = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2) / 4
    f = weft.jit(scaled, static_argnums=1) if jitted else scaled
    for got, expected in zip(f(v, reverse), scaled_by_numpy(v, reverse), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_scan_over_refs_is_transformed_like_one_over_arrays():
    v = np.arange(1.0, 17.0, dtype=np.float32).reshape(2, 4, 2) / 8
    carries, left = weft.vmap(scaled)(v)
    for i in range(2):
        carry, out = scaled_by_numpy(v[i])
        np.testing.assert_allclose(carries[i], carry, rtol=1e-5)
        np.testing.assert_allclose(left[i], out, rtol=1e-5)
    gradient = weft.grad(lambda v: scaled(v)[0])(v[0])
    for i in np.ndindex(4, 2):
        step = np.zeros((4, 2))
        step[i] = 1e-4
        high, low = (scaled_by_numpy(v[0].astype(float) + s * step)[0] for s in (1, -1))
        np.testing.assert_allclose(gradient[i], (high - low) / 2e-4, rtol=1e-3)


def test_a_scan_takes_parts_of_refs_beside_arrays_and_checks_their_sizes():
    v = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2)
    carry, left = scaled(v, index=slice(1, 3))
    expected = scaled_by_numpy(v, index=slice(1, 3))
    np.testing.assert_allclose(carry, expected[0])
    np.testing.assert_allclose(left, expected[1])
    total, _ = weft.lax.scan(
        lambda c, x: (c + x[0][...] @ x[1]["w"], None), 0.0, (weft.new_ref(v), {"w": v})
    )
    np.testing.assert_allclose(total, (v * v).sum())
    with pytest.raises(ValueError, match=r"leading axes .*xs\[0\] has 4, xs\[1\] has 3"):
        weft.lax.scan(lambda c, x: (c, None), 0.0, (weft.new_ref(v), v[:3]))
    with pytest.raises(TypeError, match=r"Ref\{f32\[4,2\]\} is part of the carry"):
        weft.lax.scan(lambda c, x: (c, None), weft.new_ref(v), v)


def test_the_type_of_a_ref_is_that_of_its_array_in_a_ref():
    ref = weft.new_ref(np.ones((2, 3), np.float32))
    assert str(weft.typeof(ref)) == "Ref{f32[2,3]}"
    assert str(weft.typeof(ref.at[0])) == "Ref{f32[3]}"
    assert weft.typeof(weft.ShapeDtypeStruct((2,), np.int8)).str_short() == "i8[2]"
    with pytest.raises(TypeError, match=r"str is not an array|'x'"):
        weft.typeof("x")

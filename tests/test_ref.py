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

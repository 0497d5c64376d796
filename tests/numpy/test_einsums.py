"""einsum where NumPy's own refuses the subscripts: against the same sums written out."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp


@pytest.mark.parametrize(
    ("subscripts", "written", "shapes"),
    [
        ("a...d,ej...f->adef", "axd,ejxf->adef", [(2, 3, 4), (5, 6, 3, 7)]),
        ("a...d->a", "axd->a", [(2, 3, 4)]),
        ("...a->", "xya->", [(2, 3, 4)]),
        ("d...ab,bc...->adc", "dxab,bcx->adc", [(2, 3, 4, 5), (5, 6, 3)]),
        ("...qd,...k1d->...qk", "xqd,xkzd->xqk", [(2, 3, 4), (2, 5, 1, 4)]),
    ],
)
def test_an_ellipsis_that_the_result_lacks_is_summed_and_digits_name_dimensions(
    subscripts, written, shapes, rng
):
    operands = [rng.normal(size=s).astype(np.float32) for s in shapes]
    got = wnp.einsum(subscripts, *operands)
    np.testing.assert_allclose(got, np.einsum(written, *operands), rtol=1e-5, atol=1e-5)


def test_signs_name_no_dimension():
    with pytest.raises(ValueError, match="letter or digit"):
        wnp.einsum("i+->i", np.ones((2, 3)))


def test_a_product_of_another_library_is_told_the_type_of_the_result():
    asked = []

    def product(x, y, numbers, precision, preferred_element_type):
        asked.append(preferred_element_type)
        low = [v.astype(weft.numpy.float8_e4m3fn) for v in (x, y)]
        return weft.lax.dot_general(*low, numbers, preferred_element_type=preferred_element_type)

    x = np.eye(4, dtype=np.float32) * 2
    y = weft.numpy.einsum("ij,jk->ik", x, x, _dot_general=product)
    assert asked == [np.float32] and y.dtype == np.float32
    np.testing.assert_array_equal(y, np.eye(4) * 4)

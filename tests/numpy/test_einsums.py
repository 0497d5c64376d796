"""einsum where NumPy's own refuses the subscripts: against the same sums written out."""

import numpy as np
import pytest

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

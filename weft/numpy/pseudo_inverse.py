"""The Moore-Penrose inverse, with a derivative that needs no distinct singular values."""

from __future__ import annotations

import builtins
from functools import cache
from typing import TYPE_CHECKING, Any

import weft.numpy.ufuncs as u
from weft import custom_jvp
from weft.core import dtypes
from weft.core.trace import typeof
from weft.numpy.common import cast, to_array
from weft.numpy.decompositions import adjoint, as_matrices, svd
from weft.numpy.filled import zeros
from weft.numpy.linear import matmul
from weft.numpy.selection import where
from weft.ops import elementwise_api as ew

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def pinv(
    a: ArrayLike,
    rtol: object = None,
    hermitian: builtins.bool = False,
    *,
    rcond: object = None,
) -> Any:
    """Return the Moore-Penrose inverse; singular values below rtol times the largest count as zero.

    Its derivative is that of Golub and Pereyra, "The differentiation of pseudo-inverses and
    nonlinear least squares problems whose variables separate", for a rank that stays.
    Source: numpy.linalg.pinv.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.pinv(wnp.array([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    a = as_matrices("pinv", a)
    m, n = typeof(a).shape[-2:]
    rtol = rcond if rtol is None else rtol
    real = ew.real_dtype(typeof(a).dtype)
    if rtol is None:
        rtol = 10.0 * max(m, n) * float(dtypes.finfo(real).eps)
    if min(m, n) == 0:
        return zeros((*typeof(a).shape[:-2], n, m), typeof(a).dtype)
    return _inverse(builtins.bool(hermitian))(a, to_array(cast(rtol, real)))


@cache
def _inverse(hermitian: builtins.bool) -> Any:
    def times(x: ArrayLike, y: ArrayLike, z: Array | None = None) -> Any:
        """Multiply in the order with the smaller intermediate: never long side by long side."""
        if z is None:
            return matmul(x, y, precision="highest")
        (rows, inner), (_, columns) = (typeof(v).shape[-2:] for v in (x, y))
        if rows * columns <= inner * typeof(z).shape[-1]:
            return times(times(x, y), z)
        return times(x, times(y, z))

    @custom_jvp
    def inverse(a: ArrayLike, rtol: Array) -> Any:
        left, s, right = svd(a, full_matrices=False, hermitian=hermitian)
        kept = u.greater(s, u.multiply(rtol[..., None], s[..., :1]))
        scale = where(kept, u.true_divide(1, where(kept, s, 1)), cast(0, typeof(s).dtype))
        v = u.multiply(adjoint(right), cast(scale, typeof(a).dtype)[..., None, :])
        return times(v, adjoint(left))

    @inverse.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        a, rtol = primals
        t = tangents[0]
        p = inverse(a, rtol)
        adjoint_p, adjoint_t = adjoint(p), adjoint(t)
        outside_rows = u.subtract(adjoint_t, times(adjoint_t, a, p))
        outside_columns = u.subtract(adjoint_t, times(p, a, adjoint_t))
        out = u.subtract(times(p, adjoint_p, outside_rows), times(p, t, p))
        return p, u.add(out, times(outside_columns, adjoint_p, p))

    return inverse

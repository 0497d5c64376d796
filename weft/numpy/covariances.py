# Tests: tests/numpy/test_calculus.py, tests/numpy/test_functions.py
"""Covariances and correlation coefficients of observations."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import weft.numpy.formulas as formulas
import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.core import dtypes
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.trace import typeof
from weft.numpy.common import aval_of, canonical, cast
from weft.numpy.eager import as_one_program
from weft.numpy.filled import zeros
from weft.numpy.joining import concatenate
from weft.numpy.linear import dot
from weft.numpy.matrices import diag
from weft.numpy.shaping import atleast_2d, squeeze, transpose
from weft.ops import elementwise_api as ew
from weft.ops.promote import promote_inexact

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: builtins.bool = True,
    bias: builtins.bool = False,
    ddof: int | None = None,
    fweights: object = None,
    aweights: object = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """Return the covariance of variables in rows (columns: rowvar=False). Source: numpy.cov.

    >>> import weft.numpy as wnp
    >>> wnp.cov(wnp.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    return (
        _cov(m, y, rowvar, bias, ddof, dtype, fweights, aweights)  # whose values are looked at
        if fweights is not None or aweights is not None
        else as_one_program(_cov, m, y, rowvar=rowvar, bias=bias, ddof=ddof, dtype=dtype)
    )


def _cov(
    m: Any,
    y: Any,
    rowvar: builtins.bool,
    bias: builtins.bool,
    ddof: int | None,
    dtype: DTypeLike | None,
    fweights: Any = None,
    aweights: Any = None,
) -> Any:
    from weft.numpy.reductions import average, mean, sum

    operands = [v for v in (m, y) if v is not None]
    # Variables in rows, observations in columns.
    for v in operands:
        if aval_of("cov", v).ndim > 2:
            raise ArgumentError(
                f"weft.numpy.cov: m and y have at most two dimensions, got {typeof(v).str_short()}"
            )
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError(f"weft.numpy.cov: ddof must be an integer, got {ddof}")
    operands = list(promote_inexact(*operands))
    if dtype is not None:
        operands = [cast(v, canonical(dtype, "cov")) for v in operands]
    parts = []
    for v in operands:
        v = atleast_2d(v)
        if not rowvar and typeof(v).shape[0] != 1:
            v = transpose(v)
        parts.append(v)
    if typeof(parts[0]).shape[0] == 0:  # as in NumPy, whatever y is
        return zeros((0, 0), typeof(parts[0]).dtype)
    x = concatenate(parts, 0) if len(parts) > 1 else parts[0]
    if ddof is None:
        ddof = 0 if bias else 1
    n = typeof(x).shape[1]
    w = None
    # Counts and weights of observations multiply.
    for name, weights, whole in (("fweights", fweights, True), ("aweights", aweights, False)):
        if weights is None:
            continue
        wval = aval_of("cov", weights)
        if wval.shape != (n,):
            raise UnsupportedArgumentError(
                f"weft.numpy.cov: {name} must be a vector with one entry for each of the {n} "
                f"observations, got {wval.str_short()}"
            )
        if whole and not dtypes.is_integer(wval.dtype):
            raise ArgumentError(
                f"weft.numpy.cov: fweights must be integers (how often each observation counts), "
                f"got {wval.str_short()}; use aweights for other weights"
            )
        weights = u.absolute(weights)
        w = weights if w is None else u.multiply(w, weights)
    if w is None:
        center = mean(x, axis=1, keepdims=True)
        norm: Any = builtins.max(n - ddof, 0)
        scaled = x = u.subtract(x, center)
    else:
        w = cast(w, typeof(x).dtype)
        center, total = average(x, axis=1, weights=w, returned=True)
        total = total[0]
        # What a sum of weights is reduced by so that the estimate has no bias.
        if ddof == 0:
            norm = total
        elif aweights is None:
            norm = u.subtract(total, ddof)
        else:
            share = u.true_divide(sum(u.multiply(w, u.absolute(aweights))), total)
            norm = u.subtract(total, u.multiply(ddof, share))
        x = u.subtract(x, ops.reshape(center, (-1, 1)))
        scaled = u.multiply(x, w[None])
    out = u.true_divide(dot(scaled, u.conjugate(transpose(x))), norm)
    return squeeze(out) if 1 in typeof(out).shape else out


def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: builtins.bool = True,
    dtype: DTypeLike | None = None,
) -> Any:
    """Return the matrix of correlation coefficients, within [-1, 1]. Source: numpy.corrcoef.

    >>> import weft.numpy as wnp
    >>> wnp.corrcoef(wnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).round(4)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    return as_one_program(_corrcoef, x, y, rowvar=rowvar, dtype=dtype)


def _corrcoef(x: ArrayLike, y: ArrayLike, rowvar: builtins.bool, dtype: DTypeLike | None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if typeof(c).ndim == 0:
        return u.true_divide(c, c)
    root = cast(u.sqrt(u.real(diag(c))), typeof(c).dtype)
    c = u.true_divide(u.true_divide(c, root[:, None]), root[None, :])
    if dtypes.is_complex(typeof(c).dtype):
        return ew.complex_p.bind(formulas.clip(u.real(c), -1, 1), formulas.clip(u.imag(c), -1, 1))
    return formulas.clip(c, -1, 1)

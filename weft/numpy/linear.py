# Tests: tests/numpy/test_functions.py
"""Products of arrays: dot, matmul, tensordot, outer, kron, cross. Each is one dot_general."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axes, canonical_axis
from weft.core import dtypes
from weft.core.errors import ArgumentError, ShapeError, mark_dimensions
from weft.core.trace import typeof
from weft.numpy.common import aval_of, canonical, cast, check_array, refuse_out, to_array
from weft.numpy.einsums import einsum, einsum_path
from weft.numpy.joining import stack
from weft.numpy.shaping import broadcast_arrays, moveaxis, ravel
from weft.numpy.ufuncs import conjugate, multiply, subtract
from weft.ops.dot import dot_general
from weft.ops.elementwise_api import mul_p
from weft.ops.promote import promote
from weft.sharding.explicit import in_parts, placed

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.typing import ArrayLike, DTypeLike

__all__ = [
    "cross",
    "dot",
    "einsum",
    "einsum_path",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]


def _operands(name: str, a: Any, b: Any, preferred: DTypeLike | None) -> tuple[Any, Any, Any]:
    """Return operands in their common dtype, and the dtype asked for. Floats of 8 bits, which have
    no common dtype with others, stay as they are where one is asked for."""
    try:
        x, y = a.aval, b.aval
        if x.dtype is y.dtype and not (x.weak_type or y.weak_type):
            return a, b, canonical(preferred, name)
    except AttributeError:
        check_array(name, a, b)
    preferred = canonical(preferred, name)
    x, y = typeof(a).dtype, typeof(b).dtype
    short = dtypes.is_float(x) and dtypes.is_float(y) and 1 in (x.itemsize, y.itemsize)
    if preferred is not None and short:
        return a, b, preferred
    return *promote(a, b), preferred


def _no_scalar(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Any, Any]:
    x, y = typeof(a), typeof(b)
    if not x.shape or not y.shape:
        raise ArgumentError(
            f"weft.numpy.{name}: operands must have a dimension, got {x.str_short()} and "
            f"{y.str_short()}; multiply scalars with *"
        )
    return x, y


def _mismatch(name: str, x: ShapedArray, y: ShapedArray, i: int, j: int) -> ShapeError:
    return ShapeError(
        f"weft.numpy.{name}: the summed dimensions differ: dimension {i} of the first operand has "
        f"size {x.shape[i]}, dimension {j} of the second has size {y.shape[j]}; transpose or "
        "reshape one of them:\n"
        + mark_dimensions(("first", x, [i % x.ndim]), ("second", y, [j % y.ndim]))
    )


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Return the sum over the last axis of a and the last but one of b; a product for scalars.

    Source: numpy.dot.

    >>> import weft
    >>> weft.numpy.dot(weft.numpy.array([1, 2]), weft.numpy.array([3, 4]))
    Array(11, dtype=int32)
    """
    a, b, preferred = _operands("dot", a, b, preferred_element_type)
    x, y = typeof(a), typeof(b)
    if not x.shape or not y.shape:
        out = mul_p.bind(a, b)
        return out if preferred is None else cast(out, preferred)
    i, j = x.ndim - 1, max(y.ndim - 2, 0)
    if x.shape[i] != y.shape[j]:
        raise _mismatch("dot", x, y, i, j)
    numbers = (((i,), (j,)), ((), ()))
    return dot_general(a, b, numbers, precision, preferred, out_sharding=out_sharding)


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Multiply matrices; leading dimensions are batches and broadcast. Vectors gain a dimension.

    Raises ValueError for scalars, `weft.errors.ShapeError` where the summed dimensions differ.
    Source: numpy.matmul.

    >>> import weft
    >>> weft.numpy.matmul(weft.numpy.ones((2, 3)), weft.numpy.ones((3, 1)))
    Array([[3.],
           [3.]], dtype=float32)
    """
    a, b, preferred = _operands("matmul", a, b, preferred_element_type)
    x, y = _no_scalar("matmul", a, b)
    i, j = x.ndim - 1, max(y.ndim - 2, 0)
    if x.shape[i] != y.shape[j]:
        raise _mismatch("matmul", x, y, i, j)
    if y.ndim <= 2 or x.ndim == 1:
        # The batch dimensions of one operand alone are free dimensions of the product.
        numbers = (((i,), (j,)), ((), ()))
        return dot_general(a, b, numbers, precision, preferred, out_sharding=out_sharding)
    return _batched(a, b, precision, preferred, out_sharding)


def _batched(
    a: ArrayLike, b: ArrayLike, precision: object, preferred: DTypeLike | None, out_sharding: object
) -> Any:
    """Batch dimensions that both have are batched; those of size 1 or missing stay free."""
    if out_sharding is not None:
        if in_parts(out_sharding, a, b) is not None:
            return einsum(
                "...ij,...jk->...ik",
                a,
                b,
                precision=precision,
                preferred_element_type=preferred,
                out_sharding=out_sharding,
            )
        return placed(lambda x, y: _batched(x, y, precision, preferred, None), out_sharding, a, b)
    x, y = typeof(a), typeof(b)
    lead = max(x.ndim, y.ndim) - 2
    sizes_a = (1,) * (lead + 2 - x.ndim) + x.shape[:-2]
    sizes_b = (1,) * (lead + 2 - y.ndim) + y.shape[:-2]
    # Equal batch dimensions, the common case, are those of one dot_general.
    if sizes_a == sizes_b and x.ndim == y.ndim:
        batch = tuple(range(lead))
        numbers = (((x.ndim - 1,), (y.ndim - 2,)), (batch, batch))
        return dot_general(a, b, numbers, precision, preferred, out_sharding=out_sharding)
    both, only_a, only_b = [], [], []
    for i, (p, q) in enumerate(zip(sizes_a, sizes_b, strict=True)):
        if p == q:
            both.append(i)
        elif q == 1:
            only_a.append(i)
        elif p == 1:
            only_b.append(i)
        else:
            raise ArgumentError(
                f"weft.numpy.matmul: batch dimensions of {x.str_short()} and {y.str_short()} "
                f"do not broadcast: sizes {p} and {q}"
            )
    # A dimension of size 1 is left out of its operand, not spread to the other's size.
    in_a, in_b = sorted(both + only_a), sorted(both + only_b)
    a = ops.reshape(a, (*(sizes_a[i] for i in in_a), *x.shape[-2:]))
    b = ops.reshape(b, (*(sizes_b[i] for i in in_b), *y.shape[-2:]))
    batch_a = tuple(in_a.index(i) for i in both)
    batch_b = tuple(in_b.index(i) for i in both)
    numbers = (((len(in_a) + 1,), (len(in_b),)), (batch_a, batch_b))
    out = dot_general(a, b, numbers, precision, preferred)
    # The product has dimensions: both, only in a, rows, only in b, columns.
    have = [*both, *only_a, "m", *only_b, "n"]
    order = tuple(have.index(label) for label in [*range(lead), "m", "n"])
    out = ops.transpose(out, order)
    return ops._place(out, out_sharding)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Multiply matrices by vectors, batched over leading dimensions. Source: numpy.matvec.

    >>> import weft.numpy as wnp
    >>> wnp.matvec(wnp.array([[1, 2], [3, 4]]), wnp.array([1, 10]))
    Array([21, 43], dtype=int32)
    """
    x, y = aval_of("matvec", x1), aval_of("matvec", x2)
    if x.ndim < 2 or y.ndim < 1:
        raise ArgumentError(
            f"weft.numpy.matvec: takes matrices and vectors, got {x.str_short()}, {y.str_short()}"
        )
    return einsum("...mn,...n->...m", x1, x2)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Conjugated vectors times matrices, batched over leading dimensions. Source: numpy.vecmat.

    >>> import weft.numpy as wnp
    >>> wnp.vecmat(wnp.array([1, 10]), wnp.array([[1, 2], [3, 4]]))
    Array([31, 42], dtype=int32)
    """
    x, y = aval_of("vecmat", x1), aval_of("vecmat", x2)
    if x.ndim < 1 or y.ndim < 2:
        raise ArgumentError(
            f"weft.numpy.vecmat: takes vectors and matrices, got {x.str_short()}, {y.str_short()}"
        )
    return einsum("...n,...nm->...m", conjugate(x1), x2)


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the product of the flattened arrays, a conjugated. Source: numpy.vdot.

    >>> import weft.numpy as wnp
    >>> wnp.vdot(wnp.array([1j, 2]), wnp.array([1j, 3]))
    Array(7.+0.j, dtype=complex64)
    """
    check_array("vdot", a, b)
    return dot(
        ravel(conjugate(a)),
        ravel(b),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the product of conjugated vectors along an axis, batched over the others.

    >>> import weft.numpy as wnp
    >>> wnp.vecdot(wnp.array([[1j, 0], [0, 2]]), wnp.array([1j, 1]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x, y = aval_of("vecdot", x1), aval_of("vecdot", x2)
    _no_scalar("vecdot", x1, x2)
    if x.shape[canonical_axis(axis, x.ndim)] != y.shape[canonical_axis(axis, y.ndim)]:
        raise _mismatch("vecdot", x, y, axis, axis)
    x1, x2 = moveaxis(conjugate(x1), axis, -1), moveaxis(x2, axis, -1)
    return einsum(
        "...n,...n->...",
        x1,
        x2,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the sum over the last axes of both; a product for scalars. Source: numpy.inner.

    >>> import weft.numpy as wnp
    >>> wnp.inner(wnp.array([[1, 2], [3, 4]]), wnp.array([10, 1]))
    Array([12, 34], dtype=int32)
    """
    x, y = aval_of("inner", a), aval_of("inner", b)
    if not x.shape or not y.shape:
        return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
    if x.shape[-1] != y.shape[-1]:
        raise _mismatch("inner", x, y, x.ndim - 1, y.ndim - 1)
    a, b, preferred = _operands("inner", a, b, preferred_element_type)
    return dot_general(a, b, (((x.ndim - 1,), (y.ndim - 1,)), ((), ())), precision, preferred)


def outer(a: ArrayLike, b: ArrayLike, out: object = None) -> Any:
    """Return the products of all pairs of elements, as a matrix. Source: numpy.outer.

    >>> import weft.numpy as wnp
    >>> wnp.outer(wnp.array([1, 2]), wnp.array([10, 20, 30]))
    Array([[10, 20, 30],
           [20, 40, 60]], dtype=int32)
    """
    refuse_out("outer", out)
    x, y = aval_of("outer", a), aval_of("outer", b)
    shape = (x.size, y.size)
    rows, columns = (
        ops.broadcast_in_dim(ops.reshape(to_array(v), (shape[d],)), shape, (d,))
        for d, v in enumerate((a, b))
    )
    return multiply(rows, columns)


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | None = 2,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Return the sum over pairs of axes: the last of a with the first of b, or those named.

    axes: a number, or (axes of a, axes of b). Source: numpy.tensordot.

    >>> import weft
    >>> x = weft.numpy.ones((2, 3))
    >>> weft.numpy.tensordot(x, x, 2)
    Array(6., dtype=float32)
    """
    a, b, preferred = _operands("tensordot", a, b, preferred_element_type)
    x, y = typeof(a), typeof(b)
    if isinstance(axes, Sequence | np.ndarray):
        if len(axes) != 2:
            raise ArgumentError(
                "weft.numpy.tensordot: axes must be a number or a pair (axes of a, axes of b), got "
                f"{axes!r}"
            )
        left, right = (tuple(v) if isinstance(v, Sequence | np.ndarray) else (v,) for v in axes)
        if len(left) != len(right):
            raise ArgumentError(
                f"weft.numpy.tensordot: {len(left)} axes of a are paired with {len(right)} of "
                f"b, {axes!r}; both lists name the summed axes in one order"
            )
        left = canonical_axes(left, x.ndim, "axes of a")
        right = canonical_axes(right, y.ndim, "axes of b")
    else:
        if axes is None:
            raise ArgumentError("weft.numpy.tensordot: axes must be a number or a pair, got None")
        n = operator.index(axes)
        if not 0 <= n <= min(x.ndim, y.ndim):
            raise ArgumentError(
                f"weft.numpy.tensordot: axes {n} exceeds the rank of {x.str_short()} or "
                f"{y.str_short()}; at most {min(x.ndim, y.ndim)} axes can be summed"
            )
        left, right = tuple(range(x.ndim - n, x.ndim)), tuple(range(n))
    for i, j in zip(left, right, strict=True):
        if x.shape[i] != y.shape[j]:
            raise _mismatch("tensordot", x, y, i, j)
    numbers = ((left, right), ((), ()))
    return dot_general(a, b, numbers, precision, preferred, out_sharding=out_sharding)


def kron(a: ArrayLike, b: ArrayLike) -> Any:
    """Return the Kronecker product: every element of a times the whole of b. Source: numpy.kron.

    >>> import weft.numpy as wnp
    >>> wnp.kron(wnp.array([1, 10]), wnp.array([1, 2, 3]))
    Array([ 1,  2,  3, 10, 20, 30], dtype=int32)
    """
    x, y = aval_of("kron", a), aval_of("kron", b)
    n = max(x.ndim, y.ndim)
    s, t = (1,) * (n - x.ndim) + x.shape, (1,) * (n - y.ndim) + y.shape
    pairs = tuple(d for pair in zip(s, t, strict=True) for d in pair)
    a = ops.broadcast_in_dim(ops.reshape(to_array(a), s), pairs, tuple(range(0, 2 * n, 2)))
    b = ops.broadcast_in_dim(ops.reshape(to_array(b), t), pairs, tuple(range(1, 2 * n, 2)))
    return ops.reshape(multiply(a, b), tuple(p * q for p, q in zip(s, t, strict=True)))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Return the cross product of vectors of 3 (or 2) components. Source: numpy.cross.

    >>> import weft.numpy as wnp
    >>> wnp.cross(wnp.array([1, 0, 0]), wnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = aval_of("cross", a), aval_of("cross", b)
    axisa, axisb = canonical_axis(axisa, x.ndim, "axisa"), canonical_axis(axisb, y.ndim, "axisb")
    sizes = x.shape[axisa], y.shape[axisb]
    if any(n not in (2, 3) for n in sizes):
        raise ArgumentError(
            f"weft.numpy.cross: vectors have 2 or 3 components, got {x.str_short()} along "
            f"{axisa} and {y.str_short()} along {axisb}"
        )
    a, b = moveaxis(a, axisa, 0), moveaxis(b, axisb, 0)
    u = [a[i] for i in range(sizes[0])]
    v = [b[i] for i in range(sizes[1])]
    z = subtract(multiply(u[0], v[1]), multiply(u[1], v[0]))
    if sizes == (2, 2):
        return z

    def part(i: int, j: int) -> Any:
        """u_i v_j, or None where a vector of two components has a zero."""
        return multiply(u[i], v[j]) if i < len(u) and j < len(v) else None

    def difference(p: object, q: object) -> Any:
        if p is None:
            return multiply(q, -1)
        return p if q is None else subtract(p, q)

    out = [difference(part(1, 2), part(2, 1)), difference(part(2, 0), part(0, 2)), z]
    return stack(broadcast_arrays(*out), axis=axisc)

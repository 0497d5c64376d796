"""Softmax, its logarithm, and sums of exponentials: stable, with short derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.autodiff.op_families import canonical_axes
from weft.autodiff.shape import broadcast_in_dim_p, expand_dims
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.lowering.context import in_memory
from weft.lowering.limits import LARGE_SUMS
from weft.numpy.common import check_array
from weft.numpy.named_axes import apart, count, has_names
from weft.ops import elementwise_api as ew
from weft.ops.promote import promote_inexact
from weft.ops.reduce import reduce_max_p, reduce_sum_p

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

Axes = tuple[int, ...]


def _spread(x: object, like: object, axes: Axes) -> Any:
    """Return a reduced value broadcast back over the reduced axes."""
    shape = typeof(like).shape
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=kept)


def _total(x: Array, axes: Axes) -> Any:
    """Return the sum over axes; narrow floats are added up in float32 and rounded once."""
    dtype = typeof(x).dtype
    if not dtypes.is_float(dtype) or dtype.itemsize >= 4:
        return reduce_sum_p.bind(x, axes=axes)
    wide = ew.convert(x, dtypes.float32)
    return ew.convert(reduce_sum_p.bind(wide, axes=axes), dtype)


def _sum(x: Array, axes: Axes) -> Any:
    return _spread(_total(x, axes), x, axes)


def _shifted(x: Array, axes: Axes) -> Any:
    return ew.sub_p.bind(x, _spread(reduce_max_p.bind(x, axes=axes), x, axes))


def _softmax_formula(x: Array, axes: Axes) -> Any:
    e = ew.exp_p.bind(_shifted(x, axes))
    return ew.div_p.bind(e, _sum(e, axes))


def _log_softmax_formula(x: Array, axes: Axes) -> Any:
    x = _shifted(x, axes)
    total = _total(ew.exp_p.bind(x), axes)
    return ew.sub_p.bind(x, _spread(ew.log_p.bind(total), x, axes))


def _softmax_jvp(primals: list, tangents: list, *, axes: Axes) -> tuple:
    y = softmax_p.bind(*primals, axes=axes)
    weighted = ew.mul_p.bind(y, tangents[0])
    return y, ew.sub_p.bind(weighted, ew.mul_p.bind(y, _sum(weighted, axes)))


def _log_softmax_jvp(primals: list, tangents: list, *, axes: Axes) -> tuple:
    y = log_softmax_p.bind(*primals, axes=axes)
    weighted = ew.mul_p.bind(ew.exp_p.bind(y), tangents[0])
    return y, ew.sub_p.bind(tangents[0], _sum(weighted, axes))


def _op(name: str, formula: Callable, jvp: Callable) -> Primitive:
    def abstract(x: ShapedArray, *, axes: Axes) -> ShapedArray:
        if not dtypes.is_inexact(x.dtype):
            raise ArgumentError(f"{name} takes a float operand, got {x.str_short()}")
        return x.strip_weak_type()

    def batch(axis: AxisData, args: list, dims: list, *, axes: Axes) -> tuple:
        (d,) = dims
        return prim.bind(*args, axes=tuple(a + (a >= d) for a in axes)), d

    def lower(ctx: RuleContext, x: ir.Value, *, axes: Axes) -> Any:
        aval = ctx.avals_in[0]
        avals = [ShapedArray(aval.shape, aval.dtype)]
        out = ctx.lower_fun(lambda v: formula(v, axes), x, avals=avals)[0]
        rows = axes == (aval.ndim - 1,) and aval.dtype == np.float32 and aval.size >= LARGE_SUMS
        if name == "softmax" and rows and in_memory(x):
            ctx.mark(out.owner, "softmax")
        return out

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=jvp,
        batch=batch,
        lower=lower,
        sharding="elementwise",
    )
    prim.formula = lambda x, axes: formula(x, axes)
    return prim


softmax_p = _op("softmax", _softmax_formula, _softmax_jvp)
log_softmax_p = _op("log_softmax", _log_softmax_formula, _log_softmax_jvp)


def _prepare(name: str, x: Array, axis: object) -> tuple[Any, Axes]:
    try:
        aval = x.aval
    except AttributeError:
        check_array(name, x)
        x = wnp.asarray(x)
        aval = typeof(x)
    if not dtypes.is_inexact(aval.dtype):
        (x,) = promote_inexact(x)
    if axis == -1 and aval.ndim:
        return x, (aval.ndim - 1,)
    return x, canonical_axes(axis, aval.ndim, f"{name}: axis")


def _masked(prim: Primitive, x: Array, axes: Axes, where: ArrayLike, fill: float) -> Any:
    """Return the op over the elements where the mask holds, `fill` at the others."""
    _check_mask(prim.name, where)
    where = wnp.broadcast_to(where, typeof(x).shape)
    some = _spread(wnp.any(where, axis=axes), x, axes)
    # A row without any element is computed as a row of zeros, so that no NaN enters a derivative.
    x = wnp.where(where, x, wnp.where(some, -np.inf, 0.0).astype(typeof(x).dtype))
    return wnp.where(where, prim.bind(x, axes=axes), fill)


def _check_mask(name: str, where: ArrayLike) -> None:
    aval = typeof(where)
    if not dtypes.is_bool(aval.dtype):
        raise ArgumentError(
            f"weft.nn.{name}: where must be booleans, got {aval.str_short()}; compare first, for "
            "example where != 0"
        )


def softmax(
    x: ArrayLike, axis: int | str | Sequence[int | str] | None = -1, where: ArrayLike | None = None
) -> Any:
    """exp(x) / sum(exp(x)) along `axis` (or axes), computed after subtracting the maximum.

    axis: numbers of dimensions, and names of axes of `vmap` and `shard_map`. where: elements to
    include; the others give 0.

    >>> import weft, numpy as np
    >>> weft.nn.softmax(np.zeros(4, "float32"))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    if has_names(axis):
        return ew.exp_p.bind(log_softmax(x, axis, where))
    x, axes = _prepare("softmax", x, axis)
    if where is not None:
        return _masked(softmax_p, x, axes, where, 0.0)
    return softmax_p.bind(x, axes=axes)


def log_softmax(
    x: ArrayLike, axis: int | str | Sequence[int | str] | None = -1, where: ArrayLike | None = None
) -> Any:
    """log(softmax(x)), exact also where softmax underflows; -inf where the mask is False.

    axis: numbers of dimensions, and names of axes of `vmap` and `shard_map`.

    >>> import weft, numpy as np
    >>> weft.nn.log_softmax(np.zeros(1, "float32"))
    Array([0.], dtype=float32)
    """
    if has_names(axis):
        (x,) = promote_inexact(x)
        logs = wnp.subtract(x, logsumexp(x, axis, keepdims=True, where=where))
        return logs if where is None else wnp.where(where, logs, -np.inf)
    x, axes = _prepare("log_softmax", x, axis)
    if where is not None:
        return _masked(log_softmax_p, x, axes, where, -np.inf)
    return log_softmax_p.bind(x, axes=axes)


def logsumexp(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b exp(a))) along axes, without overflow.

    axis: numbers of dimensions, and names of axes of `vmap` and `shard_map`. b: factors, 1 by
    default. return_sign: also give the sign of the sum, whose absolute value is
    then taken; otherwise a negative sum of real numbers gives NaN. where: elements to include.

    >>> import weft, numpy as np
    >>> float(weft.nn.logsumexp(np.array([1000.0, -1000.0], "float32")))
    1000.0
    """
    if has_names(axis):
        positions, names = apart(axis)
        if not return_sign and (b is None or dtypes.is_complex(wnp.result_type(a, b))):
            return _over_names(names, logsumexp(a, positions, b, keepdims, where=where))[0]
        out, sign = _over_names(names, *logsumexp(a, positions, b, keepdims, True, where))
        return (out, sign) if return_sign else wnp.where(wnp.less(sign, 0), np.nan, out)
    if where is not None:
        _check_mask("logsumexp", where)
        a = wnp.where(where, a, 0)
    if b is None:
        (a,) = promote_inexact(a)
    else:
        a, b = wnp.broadcast_arrays(*promote_inexact(a, b))
        a = wnp.where(ew.ne(b, scalar_of(b, 0)), a, -np.inf)
    aval = typeof(a)
    axes = canonical_axes(axis, aval.ndim, "logsumexp: axis")
    is_complex = dtypes.is_complex(aval.dtype)
    real = ew.real_p.bind(a) if is_complex else a
    if where is not None:
        where = wnp.broadcast_to(where, aval.shape)
        real = wnp.where(where, real, -np.inf)
    top = reduce_max_p.bind(stop_gradient(real), axes=axes) if aval.size else None
    if top is None:
        shape = tuple(d for i, d in enumerate(aval.shape) if i not in axes)
        top = wnp.full(shape, -np.inf, typeof(real).dtype)
    # An infinite maximum would give inf - inf; the sum itself is then right.
    top = wnp.where(ew.is_finite_p.bind(top), top, scalar_of(top, 0))
    e = ew.exp_p.bind(ew.sub_p.bind(a, _spread(ew.convert(top, aval.dtype), a, axes)))
    if b is not None:
        e = ew.mul_p.bind(e, b)
    if where is not None:
        e = wnp.where(where, e, scalar_of(e, 0))
    total = _total(e, axes)
    sign = None
    if return_sign or (b is not None and not is_complex):
        sign = ew.sign_p.bind(total)
    if sign is not None:
        total = ew.abs_p.bind(total)
    out = ew.add_p.bind(ew.log_p.bind(total), ew.convert(top, typeof(total).dtype))
    if sign is not None and not return_sign:
        out = wnp.where(ew.lt(sign, scalar_of(sign, 0)), np.nan, out)
    if keepdims:
        out = expand_dims(out, axes)
        sign = None if sign is None else expand_dims(sign, axes)
    return (out, sign) if return_sign else out


def scalar_of(x: ArrayLike, value: float) -> Any:
    return typeof(x).dtype.type(value)


def _over_names(names: tuple[str, ...], part: Array, sign: Array | None = None) -> tuple:
    """Return the logarithm of the sum over named axes of sign * exp(part); also its sign."""
    top = wnp.max(stop_gradient(wnp.real(part)), names)
    top = wnp.where(wnp.isfinite(top), top, 0)
    e = wnp.exp(wnp.subtract(part, top))
    total = wnp.sum(e if sign is None else wnp.multiply(sign, e), names)
    if sign is not None:
        total, sign = wnp.abs(total), wnp.sign(total)
    return wnp.add(wnp.log(total), top), sign


def logmeanexp(
    x: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Any:
    """log(mean(exp(x))) along axes, without overflow.

    >>> import weft, numpy as np
    >>> float(weft.nn.logmeanexp(np.full(3, 500.0, "float32")))
    500.0
    """
    out = logsumexp(x, axis, keepdims=keepdims, where=where)
    dtype = typeof(out).dtype
    if where is None:
        with np.errstate(divide="ignore"):  # of nothing
            return ew.sub_p.bind(out, dtype.type(np.log(count(x, axis))))
    mask = wnp.broadcast_to(where, typeof(x).shape)
    counts = wnp.sum(mask, axis=axis, keepdims=keepdims, dtype=dtype)
    return ew.sub_p.bind(out, ew.log_p.bind(counts))

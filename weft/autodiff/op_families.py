# Tests: tests/ops/test_table.py
"""Constructors for families of ops whose rules are mechanical."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from weft.autodiff.vmap import in_front
from weft.core import dtypes, provided
from weft.core.aval import NO_MAT, ShapedArray
from weft.core.errors import ArgumentError, AxisError, AxisKindError, JAXTypeError, ShapeError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.lowering.marks import FORMULAS, mark_formula

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Kinds of dtypes an op accepts.
ANY = "any"
NUMBER = "number"  # ints, floats, complex
INEXACT = "inexact"  # floats, complex
FLOAT = "float"
REAL = "real"  # ints, floats
INTEGER = "integer"
BITS = "bits"  # ints, bool
COMPLEX = "complex"
BOOL = "bool"
ORDERED = "ordered"  # bool, ints, floats

_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    ANY: lambda d: True,
    NUMBER: lambda d: not dtypes.is_bool(d) and not dtypes.is_extended(d),
    INEXACT: dtypes.is_inexact,
    FLOAT: dtypes.is_float,
    REAL: lambda d: dtypes.is_float(d) or dtypes.is_integer(d),
    INTEGER: dtypes.is_integer,
    BITS: lambda d: dtypes.is_integer(d) or dtypes.is_bool(d),
    COMPLEX: dtypes.is_complex,
    BOOL: dtypes.is_bool,
    ORDERED: lambda d: not dtypes.is_complex(d) and not dtypes.is_extended(d),
}


# What messages call a kind, and how an operand becomes one.
_SAID = {
    INEXACT: "float or complex",
    BITS: "integer or boolean",
    REAL: "integer or float",
    ORDERED: "real",
}
_TO_FLOAT = "x.astype('float32')"
_CONVERTS = {
    INTEGER: "x.astype('int32')",
    BITS: "x.astype('int32'), or compare it first: (x > 0) & (x < 1), with the parentheses",
    COMPLEX: "x.astype('complex64')",
    BOOL: "x != 0",
    ORDERED: "abs(x) or x.real, as complex numbers have no order (weft.numpy compares their real "
    "parts first)",
}


def check_kind(name: str, dtype: np.dtype, kind: str) -> None:
    if not _ACCEPTS[kind](dtype):
        raise ArgumentError(
            f"{name} takes {_SAID.get(kind, kind)} operands, got dtype "
            f"{dtypes.short_name(dtype)}; convert it first, for example with "
            f"{_CONVERTS.get(kind, _TO_FLOAT)}"
        )


def scalar(value: float | int, like: Any) -> np.generic:
    """Return a constant of the dtype of `like` (an array, a tracer, a scalar or a dtype)."""
    if isinstance(like, np.dtype):
        return like.type(value)
    try:
        return like.dtype.type(value)
    except AttributeError:  # a Python scalar
        return typeof(like).dtype.type(value)


# Python's number types, and the kind of dtype that holds their values.
PYTHON_NUMBERS = {bool: ANY, int: NUMBER, float: INEXACT, complex: COMPLEX}


def scalar_for(label: str, value: object, aval: ShapedArray) -> np.generic:
    """Make a Python number a constant of an array's dtype, which must hold its kind of number."""
    if not _ACCEPTS[PYTHON_NUMBERS[value.__class__]](aval.dtype):
        raise TypeError(
            f"{label} {value!r} does not fit {aval.str_short()}; give a number of its kind"
        )
    return aval.dtype.type(value)


def common_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """Return the shape of operands that must agree; rank-0 operands stand for any shape."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape:
            if not shape:
                shape = a.shape
            elif a.shape != shape:
                listing = ", ".join(x.str_short() for x in avals)
                raise ShapeError(
                    f"{name} takes operands of equal shapes (or scalars), got {listing}; "
                    "broadcast first (weft.numpy functions do it for you)"
                )
    return shape


def common_dtype(name: str, avals: Sequence[ShapedArray]) -> tuple[Any, bool]:
    """Return the dtype that operands must share, and whether all are weak."""
    dtype, weak = avals[0].dtype, True
    for a in avals:
        if a.dtype != dtype:
            listing = ", ".join(x.str_short() for x in avals)
            raise ArgumentError(
                f"{name} takes operands of equal dtypes, got {listing}; convert with "
                "lax.convert_element_type, or use weft.numpy, which promotes"
            )
        weak = weak and a.weak_type
    return dtype, weak


def elementwise(
    name: str,
    hlo: str | Callable,
    *,
    accepts: str = NUMBER,
    result: Callable[[Any], Any] | Any = None,
    jvps: Sequence[Callable | None] | None = None,
    transpose: Callable | None = None,
    operand_kinds: Sequence[str] | None = None,
    linear: tuple = (),
    bilinear: tuple[int, ...] = (),
) -> Primitive:
    """Return an op applied element by element.

    hlo: the StableHLO or CHLO op's name, or a lowering rule (ctx, *operands, **params).
    result: result dtype, a function of the operands' dtype giving it, or None for the same.
    jvps: per operand f(tangent, out, *primals, **params), or None where the derivative is zero.
    operand_kinds: set where operands have different dtypes; then only shapes must agree.
    linear, bilinear: as `Primitive` has them.
    """

    def abstract(*avals: ShapedArray, **params: object) -> ShapedArray:
        if operand_kinds is None:
            dtype, weak = common_dtype(name, avals)
            check_kind(name, dtype, accepts)
        else:
            for a, kind in zip(avals, operand_kinds, strict=True):
                check_kind(name, a.dtype, kind)
            dtype, weak = avals[-1].dtype, all(a.weak_type for a in avals)
        out = dtype if result is None else result(dtype) if callable(result) else result
        # The real parts of weak complex numbers are weak floats.
        weak = weak and (out == dtype or dtypes.is_inexact(out))
        shape = common_shape(name, avals)
        for aval in avals:  # the result is mostly of an operand's type
            if (
                aval.shape == shape
                and aval.dtype is out
                and aval.sharding is None
                and aval.mat is NO_MAT
                and weak is aval.weak_type
            ):
                return aval
        return ShapedArray(shape, out, weak)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
        out = prim.bind(*primals, **params)
        total = None
        for t, rule in zip(tangents, jvps or (), strict=False):
            if t is not None and rule is not None:
                term = rule(t, out, *primals, **params)
                total = term if total is None else _add_any(total, term)
        # A scalar operand's tangent has not the result's shape yet.
        if total is not None:
            aval = typeof(out)
            if typeof(total).shape != aval.shape:
                total = _broadcast(total, aval.shape)
        return out, total

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=jvp,
        transpose=transpose,
        batch=lambda axis, args, dims, **params: batch_elementwise(prim, axis, args, dims, params),
        lower=_lower_elementwise(hlo) if isinstance(hlo, str) else hlo,
        sharding="elementwise",
        linear=linear,
        bilinear=bilinear,
    )
    prim.hlo = hlo if isinstance(hlo, str) and hlo not in FORMULAS else None
    return prim


def batch_elementwise(
    prim: Primitive, axis: AxisData, args: Sequence[Any], dims: Sequence[Any], params: dict
) -> tuple[Any, int]:
    """Align batch dimensions and apply the op once; scalars stay scalars."""
    ranks = [typeof(a).ndim for a in args]
    first = next(i for i, d in enumerate(dims) if d is not None)
    dim, rank = dims[first], ranks[first]
    if all(
        (d == dim and r == rank) if d is not None else r == 0
        for d, r in zip(dims, ranks, strict=True)
    ):
        return prim.bind(*args, **params), dim
    from weft.autodiff.shape import moveaxis

    rank = max(r - (d is not None) for d, r in zip(dims, ranks, strict=True))
    shape = next(
        tuple(s for i, s in enumerate(typeof(a).shape) if i != d)
        for a, d, r in zip(args, dims, ranks, strict=True)
        if r - (d is not None) == rank
    )
    aligned = []
    for a, d, r in zip(args, dims, ranks, strict=True):
        if d is not None:
            a = moveaxis(a, d, 0)
            if r - 1 < rank:  # a scalar per example
                a = _broadcast(a, (axis.size, *shape), (0,))
        elif r:
            a = _broadcast(a, (axis.size, *shape), tuple(range(1, rank + 1)))
        aligned.append(a)
    return prim.bind(*aligned, **params), 0


def _lower_elementwise(hlo: str) -> Callable:
    def lower(ctx: RuleContext, *operands: ir.Value | None, **params: object) -> Any:
        operation = ctx.operation(hlo, ctx.spread(operands), ctx.out_types())
        if hlo in FORMULAS:
            mark_formula(ctx, operation)
        return operation.results[0]

    return lower


def _add_any(x: object, y: object) -> Any:
    from weft.autodiff.zeros import add_any

    return add_any(x, y)


def bilinear_jvp(prim: Callable[[], Primitive]) -> Callable:
    """Return the rule of an op that is linear in each of two operands: the product rule."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
        (x, y), (tx, ty) = primals, tangents
        op = prim()
        out = op.bind(x, y, **params)
        if ty is None:
            return out, op.bind(tx, y, **params)
        right = op.bind(x, ty, **params)
        if tx is None:
            return out, right
        return out, _add_any(op.bind(tx, y, **params), right)

    return jvp


def _broadcast(x: ArrayLike, shape: tuple[int, ...], dims: tuple[int, ...] = ()) -> Any:
    from weft.autodiff.shape import broadcast_in_dim

    return broadcast_in_dim(x, shape, dims)


def unbroadcast(ct: ArrayLike, operand: UndefinedPrimal) -> Any:
    """Return an operand's cotangent; elementwise lowering may have broadcast it from rank 0."""
    aval = operand.aval if is_undefined(operand) else typeof(operand)
    ct_aval = typeof(ct)
    if aval.ndim == ct_aval.ndim:
        return ct
    return provided.reduce_sum(ct, tuple(range(ct_aval.ndim)))


def linear_unary(
    name: str,
    *,
    abstract: Callable,
    transpose: Callable,
    batch: Callable,
    lower: Callable,
    sharding: str | None = None,
    structural: bool = False,
) -> Primitive:
    """Return an op linear in its one operand: the derivative is the op itself.

    transpose(ct, aval, **params) gives the operand's cotangent from the operand's type.
    batch(axis, x, dim, **params) gives the result and its batch dimension.
    """

    return Primitive(
        name,
        abstract=abstract,
        jvp="linear",
        transpose=lambda ct, x, **params: [transpose(ct, x.aval, **params)],
        batch=lambda axis, args, dims, **params: batch(axis, args[0], dims[0], **params),
        lower=lower,
        sharding=sharding,
        linear=(0,),
        structural=structural,
    )


def batch_in_front(prim: Callable[[], Primitive], shifted: Callable | None = None) -> Callable:
    """Make the batching rule of an op over leading dimensions, or over dimensions it names.

    shifted(params) gives the params for one more dimension in front.
    """

    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: object) -> tuple:
        batched_params = params if shifted is None else shifted(params)
        out = prim().bind(*in_front(axis, args, dims), **batched_params)
        return out, [0] * len(out) if prim().multiple_results else 0

    return batch


def static_ints(name: str, label: str, values: Iterable[SupportsIndex]) -> tuple[int, ...]:
    """Return the ints of an argument that shapes depend on; floats are refused, whole ones too."""
    try:
        return tuple([v.__index__() for v in values])
    except JAXTypeError:  # of a traced value
        raise
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: {label} must consist of static ints, got {values!r}") from None


def canonical_axis(axis: Any, ndim: int, label: str = "axis") -> int:
    """Return a Python int in [0, ndim) from an axis in [-ndim, ndim)."""
    try:
        axis = axis.__index__()
    except JAXTypeError:  # of a traced axis
        raise
    except (AttributeError, TypeError):
        raise AxisKindError(f"{label} must be an integer, got {axis!r:.60}") from None
    if not -ndim <= axis < ndim:
        raise AxisError(f"{label} {axis} is out of bounds for an array of rank {ndim}")
    return axis + ndim if axis < 0 else axis


def canonical_axes(axes: object, ndim: int, label: str = "axes") -> tuple[int, ...]:
    """Distinct axes in [0, ndim), in the order given; an int or a sequence of them."""
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, Sequence | set | frozenset):
        axes = axes.tolist() if isinstance(axes, np.ndarray) and axes.ndim == 1 else (axes,)
    result = tuple(canonical_axis(a, ndim, label) for a in axes)
    if len(set(result)) != len(result):
        raise ArgumentError(f"{label} {tuple(axes)} names a dimension twice")
    return result

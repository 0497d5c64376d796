"""Operands of binary functions: Python scalars adapt, dtypes promote, shapes broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_in_dim, broadcast_shapes, reshape
from weft.core import dtypes
from weft.core.aval import Mat
from weft.core.config import config
from weft.core.source import warn
from weft.core.trace import typeof

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_SCALARS = frozenset((bool, int, float, complex))
_FITS: dict[type, Callable[[Any], bool]] = {
    # Python scalar type -> dtype kinds whose arrays keep their dtype against it.
    bool: lambda d: True,
    int: lambda d: not dtypes.is_bool(d),
    float: dtypes.is_inexact,
    complex: dtypes.is_complex,
}
_PYTHON_TYPE = {"i": int, "f": float, "c": complex}


def adapts(value: object, dtype: np.dtype) -> bool:
    """Return whether the value is a Python scalar that takes this dtype beside an array of it."""
    fits = _FITS.get(value.__class__)
    return fits is not None and not dtypes.is_extended(dtype) and fits(dtype)


def adapt(value: Any, aval: Any) -> Any:
    """Make a Python scalar an operand beside an array: of its dtype, weak if it is weak.

    A Python float is of the default float type already, and costs less than a NumPy scalar.
    """
    dtype = aval.dtype
    if (
        dtype is dtypes.float32
        and not aval.weak_type
        and value.__class__ in (float, int)
        and dtypes.scalar_dtype(1.0) is dtype
    ):
        return float(value)
    if aval.weak_type:
        python_type = _PYTHON_TYPE.get(dtype.kind)
        if python_type is not None and dtypes.scalar_dtype(python_type()) == dtype:
            return python_type(value)
    return host_scalar(value, dtype)


def host_scalar(value: complex | float | int, dtype: np.dtype) -> np.generic:
    """Return a Python scalar of a dtype; an int that only default integers hold wraps around."""
    try:
        return dtype.type(value)
    except OverflowError:
        within: np.generic = dtypes.scalar_dtype(0).type(value)
        return dtype.type(np.asarray(within).astype(dtype)[()])


def promote_lax(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Let a Python scalar take the other operand's dtype, and stretch dimensions of size 1."""
    if x.__class__ in _SCALARS:
        if y.__class__ not in _SCALARS:
            aval = typeof(y)
            if adapts(x, aval.dtype):
                return adapt(x, aval), y
        elif x.__class__ is y.__class__:
            return promote(x, y)
    elif y.__class__ in _SCALARS:
        aval = typeof(x)
        if adapts(y, aval.dtype):
            return x, adapt(y, aval)
    else:
        return stretch(x, y)
    return x, y


def stretch(*xs: ArrayLike) -> tuple:
    """Repeat the dimensions of size 1 of operands of equal rank to the others' sizes.

    Rank-0 operands stay scalars. What does not fit stays as it is: the op names it.
    """
    shapes = [typeof(x).shape for x in xs]
    ranked = [s for s in shapes if s]
    if all(s == ranked[0] for s in ranked[1:]) or len({len(s) for s in ranked}) != 1:
        return xs
    if any(len(set(sizes) - {1}) > 1 for sizes in zip(*ranked, strict=True)):
        return xs
    return broadcast_args(*xs)


def promote(*xs: ArrayLike) -> tuple:
    """Convert operands to their common dtype."""
    from weft.ops.elementwise_api import convert

    avals = [typeof(x) for x in xs]
    first = avals[0].dtype
    if all(a.dtype is first for a in avals) and not any(a.weak_type for a in avals):
        return xs
    dtype, weak = dtypes.promote_types([(a.dtype, a.weak_type) for a in avals])
    return tuple(
        _convert_scalar(x, dtype, weak)
        if x.__class__ in _SCALARS
        else x
        if a.dtype == dtype and (a.weak_type == weak or not a.weak_type)
        else convert(x, dtype, weak)
        for x, a in zip(xs, avals, strict=True)
    )


def _convert_scalar(x: Any, dtype: Any, weak: bool) -> Any:
    if weak and typeof(x).dtype == dtype:
        return x
    return _PYTHON_TYPE[dtype.kind](x) if weak else host_scalar(x, dtype)


def promote_inexact(*xs: ArrayLike) -> tuple:
    """Act as `promote`, with integers and booleans made floats."""
    from weft.ops.elementwise_api import convert

    avals = [typeof(x) for x in xs]
    dtype, weak = dtypes.promote_types([(a.dtype, a.weak_type) for a in avals])
    if not dtypes.is_inexact(dtype):
        dtype, weak = dtypes.to_inexact(dtype), weak
    return tuple(
        _convert_scalar(x, dtype, weak) if x.__class__ in _SCALARS else convert(x, dtype, weak)
        for x in xs
    )


def broadcast_args(*xs: ArrayLike) -> tuple:
    """Broadcast operands to one shape by NumPy's rules; rank-0 operands stay scalars."""
    shapes = [typeof(x).shape for x in xs]
    ranked = [s for s in shapes if s]
    if all(s == ranked[0] for s in ranked[1:]):
        return xs
    if config.numpy_rank_promotion != "allow":
        check_ranks(ranked)
    shape = broadcast_shapes(*shapes)
    mats = [typeof(x).mat for x in xs]
    if any(mat is not mats[0] for mat in mats):
        xs = tuple(
            x if s == shape or not s else _cast_before(x, mats)
            for x, s in zip(xs, shapes, strict=True)
        )
    return tuple(
        x if s == shape or not s else broadcast_to(x, shape)
        for x, s in zip(xs, shapes, strict=True)
    )


def _cast_before(x: ArrayLike, mats: list[Mat]) -> Any:
    """Cast an operand to be broadcast beside others of these types as an op of them would.

    A cast to varying is a sum in the backward pass: of the operand's size, if it stands here.
    """
    from weft.autodiff.manual_casts import as_state

    aval = typeof(x)
    if dtypes.is_extended(aval.dtype):
        return x
    unreduced = frozenset().union(*(m.unreduced for m in mats))
    varying = frozenset().union(*(m.varying for m in mats)) - unreduced
    reduced = frozenset().union(*(m.reduced for m in mats)) - unreduced - varying
    x = as_state(x, tuple(sorted(varying, key=str)), "varying")
    return as_state(x, tuple(sorted(reduced, key=str)), "reduced")


def check_ranks(shapes: list) -> None:
    """Warn or raise, as `numpy_rank_promotion` says, if arrays of unequal rank meet."""
    if len({len(s) for s in shapes}) == 1:
        return
    raises = config.numpy_rank_promotion == "raise"
    text = (
        f"operands of shapes {', '.join(map(str, shapes))} "
        f"{'could not be' if raises else 'are'} broadcast together: they have unequal ranks, which "
        f"the setting numpy_rank_promotion={config.numpy_rank_promotion!r} asks to be told; give "
        "them equal ranks with reshape or x[None], or set it to 'allow'"
    )
    if raises:
        raise ValueError(text)
    warn(text)


def broadcast_to(x: ArrayLike, shape: tuple[int, ...]) -> Any:
    """Return one operand broadcast by NumPy's rules."""
    old = typeof(x).shape
    if old == shape:
        return x
    lead = len(shape) - len(old)
    kept = tuple(i for i, d in enumerate(old) if d != 1 or shape[lead + i] == 1)
    if len(kept) < len(old):
        x = reshape(x, tuple(old[i] for i in kept))
    return broadcast_in_dim(x, shape, tuple(lead + i for i in kept))


def promote_numpy(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands of a NumPy-style binary function, promoted and broadcast."""
    try:
        ax, ay = x.aval, y.aval
        if ax.dtype is ay.dtype and ax.weak_type is ay.weak_type:
            if ax.shape == ay.shape or not ax.shape or not ay.shape:
                return x, y
            return broadcast_args(x, y)
    except AttributeError:
        if y.__class__ in _SCALARS or x.__class__ in _SCALARS:
            x, y = promote_lax(x, y)
            ax, ay = typeof(x), typeof(y)
            if ax.dtype == ay.dtype:
                return x, y
    return broadcast_args(*promote(x, y))

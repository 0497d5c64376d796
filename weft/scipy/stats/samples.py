# Tests: tests/scipy/test_stats.py
"""Statistics of samples: the commonest value, ranks, the standard error of the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.scipy.special.factorials import as_float

if TYPE_CHECKING:
    from weft.typing import ArrayLike


class ModeResult(NamedTuple):
    """The commonest values and how often they occur."""

    mode: Any
    count: Any


def _check_policy(name: str, policy: str, allowed: tuple = ("propagate", "omit")) -> None:
    if policy not in allowed:
        raise ArgumentError(f"{name}: nan_policy must be one of {allowed}, got {policy!r}")


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Return the commonest value along an axis, the least of several, and its count.

    axis: None for the whole array. nan_policy: 'propagate'. Source: scipy.stats.mode.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import stats
    >>> most, count = stats.mode(wnp.array([1, 2, 2, 3]))
    >>> int(most), int(count)
    (2, 2)
    """
    _check_policy("mode", nan_policy, ("propagate",))
    x = wnp.asarray(a)
    shape = x.shape
    if axis is None:
        x, axis = x.reshape(-1), 0
        kept: tuple = (1,) * len(shape) if keepdims else ()
    else:
        axis = axis % max(x.ndim, 1)
        kept = (*shape[:axis], *([1] if keepdims else []), *shape[axis + 1 :])
    x = wnp.moveaxis(x, axis, -1)
    if not x.shape[-1]:
        nothing = wnp.full(kept, wnp.nan)
        return ModeResult(nothing, wnp.zeros(kept, int))
    x = wnp.sort(x, axis=-1)
    n = x.shape[-1]
    # In sorted order a run's length stands at its last element.
    new = wnp.concatenate([wnp.ones((*x.shape[:-1], 1), bool), x[..., 1:] != x[..., :-1]], -1)
    index = wnp.arange(n)
    starts = lax.cummax(wnp.where(new, index, 0), axis=new.ndim - 1)
    lengths = index - starts + 1
    best = wnp.argmax(lengths, axis=-1)[..., None]
    count = wnp.take_along_axis(lengths, best, -1).reshape(kept)
    return ModeResult(wnp.take_along_axis(x, best, -1).reshape(kept), count)


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Any:
    """Rank the elements from 1, along an axis or of the whole array, in its order.

    method: 'average', 'min', 'max', 'dense' or 'ordinal', the rank of equal elements.
    nan_policy: 'propagate': NaN where the axis has a NaN. Source: scipy.stats.rankdata.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import stats
    >>> stats.rankdata(wnp.array([3.0, 1.0, 3.0]))
    Array([2.5, 1. , 2.5], dtype=float32)
    """
    methods = ("average", "min", "max", "dense", "ordinal")
    if method not in methods:
        raise ArgumentError(f"rankdata: method must be one of {methods}, got {method!r}")
    _check_policy("rankdata", nan_policy, ("propagate",))
    x = wnp.asarray(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    x = wnp.moveaxis(x, axis, -1)
    n = x.shape[-1]
    order = wnp.argsort(x, axis=-1, stable=True)
    back = wnp.argsort(order, axis=-1)
    ranks = back + 1
    if method != "ordinal":
        s = wnp.take_along_axis(x, order, -1)
        new = wnp.concatenate([wnp.ones((*s.shape[:-1], 1), bool), s[..., 1:] != s[..., :-1]], -1)
        index = wnp.arange(n)
        first = lax.cummax(wnp.where(new, index, 0), axis=new.ndim - 1)
        ends = wnp.concatenate([new[..., 1:], wnp.ones((*s.shape[:-1], 1), bool)], -1)
        last = wnp.flip(lax.cummin(wnp.flip(wnp.where(ends, index, n), -1), axis=ends.ndim - 1), -1)
        ranked = {
            "min": first + 1,
            "max": last + 1,
            "average": (first + last + 2) / 2,
            "dense": wnp.cumsum(new, axis=-1),
        }[method]
        ranks = wnp.take_along_axis(ranked, back, -1)
    ranks = as_float(ranks) if method == "average" else ranks
    if wnp.issubdtype(x.dtype, wnp.floating):
        ranks = wnp.where(wnp.any(wnp.isnan(x), -1, keepdims=True), wnp.nan, ranks)
    return wnp.moveaxis(ranks, -1, axis)


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the standard error of the mean: the standard deviation over the root of the count.

    axis: None for the whole array. nan_policy: 'propagate' or 'omit'. Source: scipy.stats.sem.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import stats
    >>> round(float(stats.sem(wnp.array([1.0, 2.0, 3.0]))), 3)
    0.577
    """
    _check_policy("sem", nan_policy)
    x = as_float(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if nan_policy == "omit":
        count = wnp.sum(~wnp.isnan(x), axis, keepdims=keepdims)
        return wnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / wnp.sqrt(count.astype(x.dtype))
    return wnp.std(x, axis, ddof=ddof, keepdims=keepdims) / wnp.sqrt(
        wnp.asarray(x.shape[axis], x.dtype)
    )

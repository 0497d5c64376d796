# Tests: tests/test_checkify.py
"""check and check_error, and the op that they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

import weft.numpy as wnp
from weft import random
from weft.autodiff.vmap import AxisData, move_dim
from weft.checkify.errors import Error, FailedCheckError, JaxRuntimeError, OOBError, Site
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.effects import CHECK
from weft.core.primitive import Primitive
from weft.core.source import capture
from weft.core.state import state
from weft.core.trace import EVAL, typeof
from weft.core.tree import arg_names, flatten
from weft.ops.control.common import avals_of

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Operands: whether all is well, and the values for the message. `ndim` dimensions are in front of
# all of them, for the examples that vmap maps over.


def _impl(ok: ArrayLike, *payload: ArrayLike, site: Site, debug: bool, ndim: int) -> list:
    failing = np.argwhere(~np.asarray(ok))
    if not debug and len(failing):
        first = tuple(failing[0].tolist())
        raise JaxRuntimeError(site.message([wnp.asarray(x)[first] for x in payload]))
    return []


def _lower(ctx: RuleContext, *operands: ir.Value, site: Site, debug: bool, ndim: int) -> list:
    if debug:
        return []
    raise ValueError(
        f"checkify.check at {site.source} was not functionalized: a compiled program raises "
        "nothing by itself. Apply weft.checkify.checkify to the function, inside or outside of "
        "jit, and throw the error that it returns; or use weft.checkify.debug_check"
    )


def _batch(axis: AxisData, args: list, dims: list, *, ndim: int, **params: object) -> tuple:
    moved = [move_dim(x, d, 0, axis) for x, d in zip(args, dims, strict=True)]
    return check_p.bind(*moved, ndim=ndim + 1, **params), []


check_p = Primitive(
    "check",
    abstract=lambda *avals, **params: [],
    effects=lambda avals, params: frozenset((CHECK,)),
    impl=_impl,
    jvp=lambda primals, tangents, **params: (check_p.bind(*primals, **params), []),
    transpose=lambda cts, *args, **params: [None] * len(args),
    batch=_batch,
    lower=_lower,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


@api_boundary
def check(
    pred: ArrayLike, msg: str, *fmt_args: object, debug: bool = False, **fmt_kwargs: object
) -> None:
    """Check that a scalar is true, in a function that `checkify` is applied to.

    Args:
      pred: a boolean scalar.
      msg: the message, with fields for the other arguments as in `str.format`.
      fmt_args, fmt_kwargs: arrays, keys or pytrees of them, whose values the message tells.
      debug: do nothing where `checkify` is not applied.

    Outside of traced functions it raises JaxRuntimeError at once. A program that is compiled
    without `checkify` is refused with ValueError.

    >>> from weft import checkify
    >>> checkify.check(1 > 2, "{a} is small", a=1)
    Traceback (most recent call last):
    weft.checkify.JaxRuntimeError: 1 is small (`check` failed), at ...
    """
    if not isinstance(msg, str):
        raise TypeError(f"check: msg must be a string, got {type(msg).__name__}")
    (aval,) = avals_of("check", [pred], lambda: ["pred"])
    if aval.shape or not dtypes.is_bool(aval.dtype):
        raise TypeError(
            f"check: pred must be a boolean scalar, got {aval.str_short()}; reduce it with "
            "weft.numpy.all"
        )
    payload, tree = flatten((fmt_args, fmt_kwargs))
    keys = []
    for k, told in enumerate(avals_of("check", payload, lambda: arg_names(check, tree))):
        if dtypes.is_extended(told.dtype):
            keys.append((k, random.key_impl(payload[k])))
            payload[k] = random.key_data(payload[k])
    site = Site(FailedCheckError, msg, str(capture()), tree, len(payload), keys=tuple(keys))
    check_p.bind(pred, *payload, site=site, debug=bool(debug), ndim=0)


@contextmanager
def static_indices_reported(wanted: bool) -> Iterator[None]:
    """While functions are traced: whether static indices out of bounds become checks that fail."""
    before, state.report_index = state.report_index, _report_index if wanted else None
    try:
        yield
    finally:
        state.report_index = before


def _report_index(index: int, axis: int, shape: tuple[int, ...]) -> None:
    site = Site(OOBError, "", str(capture()), None, 2, (axis,), shape)
    payload = np.int32(np.clip(index, -(2**31), 2**31 - 1)), np.int32(0)
    check_p.bind(np.False_, *payload, site=site, debug=True, ndim=0)


def debug_check(pred: ArrayLike, msg: str, *fmt_args: object, **fmt_kwargs: object) -> None:
    """Act as `check`, but without effect where `checkify` is not applied.

    >>> from weft import checkify
    >>> checkify.debug_check(1 > 2, "never told")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


@api_boundary
def check_error(error: Error) -> None:
    """Raise JaxRuntimeError if the error tells of a failure; in a traced function, as `check`.

    >>> from weft import checkify
    >>> error, y = checkify.checkify(lambda x: 1 / x, errors=checkify.float_checks)(2.0)
    >>> checkify.check_error(error)
    """
    if not isinstance(error, Error):
        raise TypeError(
            f"check_error: expected what a checkified function returns first, got {error!r:.100}"
        )
    if state.trace is EVAL and (text := error.get()) is not None:
        raise JaxRuntimeError(text)
    ndim = typeof(error._code).ndim
    for k, site in enumerate(error._sites):
        ok = wnp.not_equal(error._code, np.int32(k + 1))
        check_p.bind(ok, *error._payload(k), site=site, debug=False, ndim=ndim)

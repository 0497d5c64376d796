# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""while_loop and fori_loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.config import config
from weft.core.provided import key_uses, use_in_condition
from weft.core.trace import Tracer, typeof
from weft.core.tree import flatten
from weft.ops.control.common import (
    args_tree,
    check_function,
    derived,
    trace_body,
    value_in_python,
)
from weft.ops.control.divergence import check_reached_by_all, ending_varying, vary
from weft.ops.control.scan import check_unroll, scan_p, trace_with_carry
from weft.ops.control.while_op import while_p
from weft.ops.elementwise_api import add_p, convert, lt_p

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


def _whole(tree: PyTreeDef, avals: Sequence) -> tuple[Any, None]:
    return tree, None


@api_boundary
def while_loop(cond_fun: Callable, body_fun: Callable, init_val: object) -> Any:
    """Apply `body_fun` to the value while `cond_fun` of it holds.

    Args:
      cond_fun: from the value to a boolean scalar.
      body_fun: from the value to a value of the same structure and types.
      init_val: a pytree.

    Raises TypeError if the condition gives no boolean scalar, or the body changes a type (both
    are shown). Has forward derivatives only. Under vmap with a batched condition it runs until
    all examples have ended, and keeps what ended ones have.

    >>> import weft
    >>> weft.lax.while_loop(lambda x: x < 10, lambda x: x * 2, 1)
    Array(16, dtype=int32, weak_type=True)
    """
    check_function("while_loop", "cond_fun", cond_fun)
    check_function("while_loop", "body_fun", body_fun)
    return _while_loop("while_loop", cond_fun, body_fun, init_val)


def _while_loop(
    api: str, cond_fun: Callable, body_fun: Callable, init_val: Any, user_at: int | None = None
) -> Any:
    """while_loop, also for fori_loop; user_at: as in `trace_with_carry`."""
    if config.disable_jit:
        while goes_on := value_in_python(cond_fun(init_val)):
            init_val = body_fun(init_val)
        if goes_on is not None:
            return init_val
    leaves, tree = flatten(init_val)
    call_tree = args_tree(init_val)
    uses = key_uses() if config.debug_key_reuse else None
    carry, body, _ = trace_with_carry(api, body_fun, leaves, tree, [], call_tree, _whole, user_at)
    pred = trace_body(cond_fun, call_tree, [typeof(x) for x in carry])
    outs = pred.jaxpr.out_avals
    ok = len(outs) == 1 and pred.out_tree == flatten(0)[1]
    if not ok or outs[0].shape or not dtypes.is_bool(outs[0].dtype):
        got = ", ".join(a.str_short() for a in outs)
        raise TypeError(
            f"while_loop: cond_fun must return one boolean scalar, got {got} in the structure "
            f"{pred.out_tree}; compare (x > 0) and reduce arrays with weft.numpy.any or all"
        )
    axes = outs[0].mat.varying
    start = [vary(x, axes) for x in carry]
    if any(x is not y for x, y in zip(start, carry, strict=True)):
        # Devices go on for different numbers of iterations, so that what they carry differs.
        if uses is not None:
            uses.restore()
        varying = ending_varying(body_fun, axes)
        return _while_loop(api, cond_fun, varying, tree.unflatten(start), user_at)
    check_reached_by_all(api, "the condition", outs[0], pred.jaxpr, body.jaxpr)
    if uses is not None:
        use_in_condition(api, pred, body, carry)
    result = while_p.bind(
        *pred.consts,
        *body.consts,
        *carry,
        cond_jaxpr=pred.jaxpr,
        body_jaxpr=body.jaxpr,
        cond_nconsts=len(pred.consts),
        body_nconsts=len(body.consts),
    )
    return tree.unflatten(result)


class _CountedStep:
    """The body of a fori_loop with its counter; equal for equal functions, so traced once."""

    __slots__ = ("__weakref__", "fun", "pair")

    def __init__(self, fun: Callable, pair: bool) -> None:
        self.fun = fun
        self.pair = pair  # for scan: also returns no ys

    @property
    def __name__(self) -> str:
        return getattr(self.fun, "__name__", "body")

    def __call__(self, carry: tuple, _: object = None) -> Any:
        i, x = carry
        aval = typeof(i)
        one = (1.0 if dtypes.is_float(aval.dtype) else 1) if aval.weak_type else aval.dtype.type(1)
        out = (add_p.bind(i, one), self.fun(i, x))
        return (out, None) if self.pair else out


class _CountedBound(_CountedStep):
    """As above, for a while loop that also carries the upper bound."""

    __slots__ = ()

    def __call__(self, carry: tuple, _: object = None) -> Any:
        i, upper, x = carry
        (following, value) = _CountedStep.__call__(self, (i, x))
        return following, upper, value


def _below(carry: tuple) -> Any:
    return lt_p.bind(carry[0], carry[1])


def _bound(name: str, x: ArrayLike) -> Any:
    aval = typeof(x)
    if not isinstance(aval, ShapedArray) or aval.ndim or not _counts(aval.dtype):
        raise TypeError(
            f"fori_loop: {name} must be an integer or a float scalar, got {aval.str_short()}"
        )
    return aval


def _counts(dtype: np.dtype) -> bool:
    return dtypes.is_integer(dtype) or dtypes.is_float(dtype)


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Apply `value = body_fun(i, value)` for i from `lower` up to, not including, `upper`.

    lower, upper: integer scalars, or both floats, from which i goes up by 1; with Python numbers
    the number of iterations is static, which reverse-mode differentiation and `unroll` need.
    body_fun keeps the value's structure and types.

    >>> import weft
    >>> weft.lax.fori_loop(0, 4, lambda i, x: x + i, 10)
    Array(16, dtype=int32, weak_type=True)
    """
    check_function("fori_loop", "body_fun", body_fun)
    lo, hi = _bound("lower", lower), _bound("upper", upper)
    dtype, weak = dtypes.promote_types([(lo.dtype, lo.weak_type), (hi.dtype, hi.weak_type)])
    if dtypes.is_float(lo.dtype) != dtypes.is_float(hi.dtype):
        raise TypeError(
            f"fori_loop: lower and upper must both be integers or both floats, got "
            f"{lo.str_short()} and {hi.str_short()}; convert one, for example with int(upper)"
        )
    first, stop = _static(lower), _static(upper)
    # A known number of steps is a scan, which can be differentiated backwards.
    if first is not None and stop is not None:
        trips = _trips(first, stop)
        if config.disable_jit:
            value = init_val
            for i in range(trips):
                value = body_fun(_typed(first + i, dtype, weak), value)
            return value
        unroll = check_unroll(1 if unroll is None else unroll, trips, "fori_loop")
        init = (_typed(lower, dtype, weak), init_val)
        leaves, tree = flatten(init)
        carry, body, _ = trace_with_carry(
            "fori_loop",
            derived(body_fun, "counted", lambda f: _CountedStep(f, True)),
            leaves,
            tree,
            [],
            args_tree(init, None),
            lambda out, avals: (out.children()[0], None),
            1,
        )
        outs = scan_p.bind(
            *body.consts,
            *carry,
            jaxpr=body.jaxpr,
            length=trips,
            reverse=False,
            unroll=unroll,
            num_consts=len(body.consts),
            num_carry=len(carry),
        )
        return tree.unflatten(outs)[1]
    if unroll is not None and unroll not in (1, False):
        raise ValueError("fori_loop: unroll needs static bounds; make lower and upper Python ints")
    # Else the bounds are carried by a while loop.
    bounded = (_typed(lower, dtype, weak), _typed(upper, dtype, weak), init_val)
    step = derived(body_fun, "bounded", lambda f: _CountedBound(f, False))
    return _while_loop("fori_loop", _below, step, bounded, 2)[2]


def _static(x: Any) -> int | float | None:
    """Return the bound as a Python number where its value is known."""
    if isinstance(x, Tracer):
        x = x.concrete()
        if x is None:
            return None
    return float(x) if dtypes.is_float(typeof(x).dtype) else int(x)


def _trips(first: float, stop: float) -> int:
    """Return how many of first, first + 1, first + 2 … are below stop."""
    return max(math.ceil(stop - first), 0) if stop > first else 0


def _typed(x: ArrayLike, dtype: np.dtype, weak: bool) -> Any:
    if isinstance(x, int | float):
        return x if weak else dtype.type(x)
    return convert(x, dtype, weak)


__all__ = ["fori_loop", "while_loop"]

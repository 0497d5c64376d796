# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.partial_eval: tracing and dead code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.jvp import DualTrace
from weft.compat.equations import shown
from weft.compat.linear_util import WrappedFun
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.state import current_trace, state
from weft.core.trace import StagedTracer as DynamicJaxprTracer
from weft.core.trace import StagedTracer as JaxprTracer
from weft.core.trace import StagingTrace, trace_to_jaxpr

if TYPE_CHECKING:
    pass

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "close_jaxpr",
    "convert_constvars_jaxpr",
    "custom_partial_eval_rules",
    "dce_jaxpr",
    "dce_rules",
    "partial_eval_jaxpr_custom_rules",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]


# Rules by primitive, which programs may register. weft needs none: an equation is kept or dropped
# whole, and what remat saves is decided by its policy.
dce_rules: dict[Any, Any] = {}
partial_eval_jaxpr_custom_rules: dict[Any, Any] = {}
custom_partial_eval_rules: dict[Any, Any] = {}


class PartialVal(tuple):
    """Either a known value or the type of an unknown one."""

    def __new__(cls, pair: tuple) -> PartialVal:
        return tuple.__new__(cls, pair)

    @classmethod
    def known(cls, value: object) -> PartialVal:
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: object) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[Any], **_: object
) -> tuple[Jaxpr, list, list]:
    """Return the jaxpr of a flat function, the types of its results, and its constants."""
    jaxpr, consts = trace_to_jaxpr(fun.call_wrapped, list(in_avals), fun.__name__)
    return shown(jaxpr), jaxpr.out_avals, consts


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list, list]:
    """Return the jaxpr of what depends on the unknown arguments, the results, and the constants."""
    frame = StagingTrace(fun.__name__)
    args = [v if aval is None else frame.new_arg(aval) for aval, v in pvals]
    with current_trace(DualTrace(state.trace, frame)):
        outs = fun.call_wrapped(*args)
    forced = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
    unknown = [
        f or (isinstance(o, JaxprTracer) and o._trace is frame)
        for o, f in zip(outs, forced, strict=True)
    ]
    inputs = [x for x, (aval, _) in zip(args, pvals, strict=True) if aval is not None]
    jaxpr = frame.to_jaxpr(inputs, [o for o, u in zip(outs, unknown, strict=True) if u])
    types = iter(jaxpr.out_avals)
    results = [
        PartialVal.unknown(next(types)) if u else PartialVal.known(o)
        for o, u in zip(outs, unknown, strict=True)
    ]
    return shown(jaxpr), results, frame.consts


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Return the jaxpr with its constants as arguments in front of the others."""
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """Return the closed jaxpr of one without constants, the same each time."""
    return jaxpr.memo("closed", lambda: ClosedJaxpr(jaxpr))


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """Return the jaxpr without what only serves unused results, and which inputs it still reads.

    instantiate: inputs to keep although nothing reads them.
    """
    from weft.autodiff.dce import dce_jaxpr as remove_dead

    kept, used = remove_dead(jaxpr, list(used_outputs))
    n = len(jaxpr.invars)
    forced = [instantiate] * n if isinstance(instantiate, bool) else list(instantiate)
    mask = [u or f for u, f in zip(used, forced, strict=True)]
    invars = [v for v, m in zip(jaxpr.invars, mask, strict=True) if m]
    return kept.replace(invars=invars), mask

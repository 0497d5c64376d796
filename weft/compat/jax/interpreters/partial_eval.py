# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.partial_eval: tracing and dead code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autodiff.jvp import DualTrace
from weft.compat.equations import shown
from weft.compat.linear_util import WrappedFun, wrap_init
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, eval_closed
from weft.core.state import current_trace, state
from weft.core.trace import StagedTracer as DynamicJaxprTracer
from weft.core.trace import StagedTracer as JaxprTracer
from weft.core.trace import StagingTrace, trace_to_jaxpr

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "close_jaxpr",
    "convert_constvars_jaxpr",
    "custom_partial_eval_rules",
    "dce_jaxpr",
    "dce_rules",
    "move_binders_to_back",
    "move_binders_to_front",
    "partial_eval_jaxpr_custom_rules",
    "partial_eval_jaxpr_nounits",
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


def partial_eval_jaxpr_nounits(
    jaxpr: ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list]:
    """Split a jaxpr in what its known inputs decide, and the rest.

    Return (known, rest, whether each result is of the rest, types of the residuals). Residuals are
    the last results of `known` and the last inputs of `rest`. instantiate: results that are of the
    rest in any case.
    """
    rest: Any = None
    outs: list = []

    def run(*known: object) -> list:
        nonlocal rest, outs
        values = iter(known)
        pvals = [
            PartialVal.unknown(aval) if unknown else PartialVal.known(next(values))
            for aval, unknown in zip(jaxpr.in_avals, unknowns, strict=True)
        ]
        fun = wrap_init(lambda *xs: eval_closed(jaxpr, *xs))
        rest, outs, residuals = trace_to_jaxpr_nounits(fun, pvals, instantiate)
        return [*(out[1] for out in outs if out.is_known()), *residuals]

    avals = [a for a, unknown in zip(jaxpr.in_avals, unknowns, strict=True) if not unknown]
    known, consts = trace_to_jaxpr(run, avals, "known")
    rest = rest.replace(constvars=[], invars=[*rest.invars, *rest.constvars])
    out_unknowns = [not out.is_known() for out in outs]
    residual_avals = known.out_avals[out_unknowns.count(False) :]
    return ClosedJaxpr(shown(known), consts), ClosedJaxpr(rest), out_unknowns, residual_avals


def move_binders_to_front(jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """Return the jaxpr with some inputs before the others."""
    inner = jaxpr.jaxpr
    pairs = list(zip(inner.invars, to_move, strict=True))
    invars = [v for v, first in pairs if first] + [v for v, first in pairs if not first]
    return ClosedJaxpr(inner.replace(invars=invars), jaxpr.consts)


def move_binders_to_back(jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """Return the jaxpr with some inputs after the others."""
    return move_binders_to_front(jaxpr, [not last for last in to_move])


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


def inline_jaxpr_into_trace(
    trace: Any, src: object, jaxpr: Jaxpr, consts: Sequence[Any], *args: Any
) -> list:
    """Apply the equations of a jaxpr to operands under a trace."""
    with current_trace(trace):
        return list(eval_closed(ClosedJaxpr(jaxpr, list(consts)), *args))

"""jax.interpreters.partial_eval: tracing and dead code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.compat.linear_util import WrappedFun
from weft.core.jaxpr import Jaxpr
from weft.core.trace import StagedTracer as DynamicJaxprTracer
from weft.core.trace import StagedTracer as JaxprTracer
from weft.core.trace import trace_to_jaxpr

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "dce_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]


class PartialVal(tuple):
    """Either a known value or the type of an unknown one."""

    def __new__(cls, pair: tuple) -> PartialVal:
        return tuple.__new__(cls, pair)

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[Any], **_: Any
) -> tuple[Jaxpr, list, list]:
    """The jaxpr of a flat function, the types of its results, and its constants."""
    jaxpr, consts = trace_to_jaxpr(fun.call_wrapped, list(in_avals), fun.__name__)
    return jaxpr, jaxpr.out_avals, consts


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list, list]:
    """The jaxpr of what depends on the unknown arguments, the results, and the constants."""
    known: list[Any] = []
    n_out = 0

    def flat(*unknown: Any) -> list:
        nonlocal n_out
        rest = iter(unknown)
        outs = fun.call_wrapped(*(v if a is None else next(rest) for a, v in pvals))
        n_out = len(outs)
        kept = []
        for o in outs:
            if instantiate is True or isinstance(o, JaxprTracer):
                known.append(None)
                kept.append(o)
            else:
                known.append(o)
        return kept

    jaxpr, consts = trace_to_jaxpr(flat, [a for a, _ in pvals if a is not None], fun.__name__)
    types = iter(jaxpr.out_avals)
    return (
        jaxpr,
        [PartialVal.unknown(next(types)) if k is None else PartialVal.known(k) for k in known],
        consts,
    )


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr without what only serves unused results, and which inputs it still reads.

    instantiate: inputs to keep although nothing reads them.
    """
    from weft.autodiff.dce import dce_jaxpr as remove_dead

    kept, used = remove_dead(jaxpr, list(used_outputs))
    n = len(jaxpr.invars)
    forced = [instantiate] * n if isinstance(instantiate, bool) else list(instantiate)
    mask = [u or f for u, f in zip(used, forced, strict=True)]
    invars = [v for v, m in zip(jaxpr.invars, mask, strict=True) if m]
    return kept.replace(invars=invars), mask

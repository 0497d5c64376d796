"""Refs as arguments of functions with custom rules.

Where a ref is at hand, which is eagerly and under differentiation, the function and its rules read
and write it as they run: a backward rule that logs or adds up gradients does so when the backward
pass runs. Where a program is recorded or batched, the call becomes one on the arrays the refs hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_jvp import custom_jvp_p
from weft.api.custom_vjp import custom_vjp_linear_p, custom_vjp_p
from weft.autodiff.jvp import DualTrace, JVPTrace
from weft.autodiff.vmap import BatchTrace
from weft.autodiff.zeros import add_any
from weft.core.cell import DISCHARGE, Cell, split_open
from weft.core.jaxpr import ClosedJaxpr, eval_closed, open_jaxpr, subjaxprs
from weft.core.ref import AbstractRef
from weft.core.state import state
from weft.core.trace import EVAL, StagingTrace, trace_to_jaxpr

if TYPE_CHECKING:
    from weft.core.primitive import Primitive


class CallOnValues:
    """A call whose operands are arrays where `call` takes refs; their last values are results.

    The cotangent of a ref is that of its last value, which passes by the call, and what the
    backward rule returns for the ref. Tangents pass by the call from the refs' values to their
    last ones.
    """

    __slots__ = ("call", "name", "num_outs", "owner", "refs", "traces")

    def __init__(self, call: Any, refs: Sequence[AbstractRef | None]) -> None:
        self.call = call
        self.name = call.name
        self.owner = getattr(call, "owner", None)
        self.refs = list(refs)  # of consts and arguments: the type of a ref, None for others
        self.traces = None
        self.num_outs = 0

    def _cells(self, values: Sequence[Any]) -> tuple[list, list]:
        operands = [
            v if aval is None else Cell(v, aval, state.trace, fixed=True)
            for v, aval in zip(values, self.refs, strict=True)
        ]
        return operands, [
            c for c, aval in zip(operands, self.refs, strict=True) if aval is not None
        ]

    def fun(self, *values: object) -> list:
        operands, cells = self._cells(values)
        outs = self.call.fun(*operands)
        self.num_outs = len(outs)
        return [*outs, *(c.value for c in cells)]

    def forward(self, consts: Sequence[Any], primals: Sequence[Any], nonzero: object) -> tuple:
        operands, cells = self._cells([*consts, *primals])
        n = len(consts)
        outs, residuals, context = self.call.forward(operands[:n], operands[n:], nonzero)
        kept = [r.aval if r.__class__ is Cell else None for r in residuals]
        residuals = [r.get() if r.__class__ is Cell else r for r in residuals]
        return [*outs, *(c.value for c in cells)], residuals, (context, kept)

    def backward(self, context: Any, residuals: Sequence[Any], cts: list, primals: list) -> list:
        inner, kept, out_avals = context
        opened = [
            r if aval is None else Cell(r, aval, state.trace, fixed=True)
            for r, aval in zip(residuals, kept, strict=True)
        ]
        refs = self.refs[len(self.refs) - len(primals) :]
        n = len(out_avals) - sum(aval is not None for aval in self.refs)
        cotangents = self.call.backward((*inner, out_avals[:n]), opened, cts[:n], primals)
        through = iter(cts[len(cts) - sum(r is not None for r in refs) :])
        return [
            ct if r is None else _sum(ct, next(through))
            for ct, r in zip(cotangents, refs, strict=True)
        ]

    def rule(self, consts: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
        operands, cells = self._cells([*consts, *primals])
        n = len(consts)
        refs = self.refs[n:]
        outs, out_tangents = self.call.rule(operands[:n], operands[n:], tangents)
        through = [t for t, r in zip(tangents, refs, strict=True) if r is not None]
        closed_over = [None] * (len(cells) - len(through))
        return [*outs, *(c.value for c in cells)], [*out_tangents, *closed_over, *through]


def _sum(ct: object, other: object) -> Any:
    """Return the sum of two cotangents, of which None is zero."""
    if ct is None or other is None:
        return ct if other is None else other

    return add_any(ct, other)


def _call(prim: Primitive) -> Any:
    """Return the rule of calls of which some operands are open refs."""

    def apply(args: Sequence[Any], **params: Any) -> list:
        trace: Any = state.trace
        values, is_open = split_open(args)
        local = any(o and a.home is trace for a, o in zip(args, is_open, strict=True))
        if trace is EVAL or not (local or isinstance(trace, StagingTrace | BatchTrace)):
            return trace.process(prim, tuple(args), params)
        refs = [a.aval if o else None for a, o in zip(args, is_open, strict=True)]
        cells = [a for a, o in zip(args, is_open, strict=True) if o]
        call = CallOnValues(params["call"], refs)
        jaxpr = params["jaxpr"]
        if jaxpr is not None:
            call.num_outs = len(jaxpr.out_avals)
            jaxpr = jaxpr.memo(("values of refs", tuple(refs)), lambda: _on_values(jaxpr, refs))
        outs = prim.bind(*values, **{**params, "call": call, "jaxpr": jaxpr})
        n = len(outs) - len(cells)
        for cell, value in zip(cells, outs[n:], strict=True):
            cell.put(value)
        return outs[:n]

    return apply


def _on_values(jaxpr: ClosedJaxpr, refs: Sequence[AbstractRef | None]) -> ClosedJaxpr:
    def flat(*values: Any) -> list:
        operands = [
            v if aval is None else Cell(v, aval, state.trace, fixed=True)
            for v, aval in zip(values, refs, strict=True)
        ]
        outs = eval_closed(jaxpr, *operands)
        return [
            *outs,
            *(c.value for c, aval in zip(operands, refs, strict=True) if aval is not None),
        ]

    avals = [a if r is None else r.inner for a, r in zip(jaxpr.in_avals, refs, strict=True)]
    traced, consts = trace_to_jaxpr(flat, avals, jaxpr.jaxpr.debug)
    return ClosedJaxpr(traced, consts)


def runs_in_place(args: Sequence[Any], *jaxprs: ClosedJaxpr) -> bool:
    """Tell whether an op must run its programs here, where refs are at hand, not as one op.

    So it is under differentiation where a function with a backward rule of its own takes a ref:
    the rule reads and writes the ref when the backward pass runs.
    """
    if not any(map(_rules_take_refs, jaxprs)):
        return False
    homes = [a.home for a in args if a.__class__ is Cell and a.is_open()]
    trace: Any = state.trace
    while trace is not EVAL and trace is not None and any(trace is not h for h in homes):
        if isinstance(trace, JVPTrace | DualTrace):
            return True
        trace = getattr(trace, "parent", None)
    return False


def _rules_take_refs(closed: ClosedJaxpr) -> bool:
    def find() -> bool:
        return any(
            (e.primitive is custom_vjp_p and any(type(v.aval) is AbstractRef for v in e.invars))
            or any(
                _rules_take_refs(j if isinstance(j, ClosedJaxpr) else ClosedJaxpr(j))
                for _, j in subjaxprs(e.rule_params)
            )
            for e in open_jaxpr(closed).eqns
        )

    return closed.memo("rules take refs", find)


def _record(args: Sequence[Any], **params: object) -> Any:
    """Record a linear equation unchanged: refs among its residuals stay refs."""
    return state.trace.process(custom_vjp_linear_p, args, params)


DISCHARGE[custom_vjp_linear_p] = _record
DISCHARGE[custom_jvp_p] = _call(custom_jvp_p)
DISCHARGE[custom_vjp_p] = _call(custom_vjp_p)

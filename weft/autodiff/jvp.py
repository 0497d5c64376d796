# Tests: tests/api/test_jvp_vjp.py
"""Forward derivatives and linearization, by one trace.

`JVPTrace` pushes tangents forward by each op's jvp rule. Linearization is the same trace with
tangents that live in a second, linear program: while a rule runs, an op with a tangent among its
operands is staged there and any other runs in the parent trace. So every jvp rule is a direct
linearize rule, and no partial evaluation follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.dependence import depends
from weft.autodiff.zeros import instantiate_zero, zeros_like
from weft.core import dtypes
from weft.core.aval import NO_MAT, Mat, ShapedArray
from weft.core.config import config
from weft.core.errors import MissingRuleError
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Var, eval_closed
from weft.core.primitive import Primitive
from weft.core.source import Source, capture
from weft.core.state import current_trace, state
from weft.core.trace import (
    EVAL,
    StagedTracer,
    StagingTrace,
    Tracer,
    check_nothing_leaked,
    gc_paused,
    stands_for_array,
    trace_to_jaxpr,
    typeof,
    with_arrays,
)
from weft.core.typing import linear_operands

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def tangent_aval(aval: ShapedArray) -> Any:
    """Return the type of tangents of a value: float0 for what has no derivative."""
    if not isinstance(aval, ShapedArray):
        return aval.to_tangent() if hasattr(aval, "to_tangent") else aval
    if dtypes.is_inexact(aval.dtype):
        return aval.strip_weak_type()
    return ShapedArray(aval.shape, dtypes.float0, False, None, aval.mat)


def cotangent_aval(aval: Any) -> Any:
    """Return the type of cotangents: as tangents, with reduced and unreduced exchanged."""
    if hasattr(aval, "to_cotangent"):
        return aval.to_cotangent()
    aval = tangent_aval(aval)
    spec = getattr(getattr(aval, "sharding", None), "spec", None)
    if spec is not None and (spec.unreduced or spec.reduced):
        aval = aval.update(sharding=aval.sharding.with_spec(spec.to_ct_spec()))
    mat = getattr(aval, "mat", None)
    if mat and (mat.reduced or mat.unreduced):
        return aval.update(mat=Mat(mat.varying, unreduced=mat.reduced, reduced=mat.unreduced))
    return aval


def filled_tangents(primals: Sequence[Any], tangents: Sequence[Any]) -> list:
    """Return the tangents of the values, zeros where there are none."""
    return [
        instantiate_zero(tangent_aval(typeof(p))) if t is None else t
        for p, t in zip(primals, tangents, strict=True)
    ]


def filled_cotangents(avals: Sequence[Any], cts: Sequence[Any]) -> list:
    """Return the cotangents of values of the types, zeros where there are none."""
    return [
        instantiate_zero(cotangent_aval(a)) if ct is None else ct
        for a, ct in zip(avals, cts, strict=True)
    ]


def has_tangent(aval: object) -> bool:
    """Return whether values of the type have nonzero tangents."""
    if isinstance(aval, ShapedArray):
        return dtypes.is_inexact(aval.dtype)
    return hasattr(aval, "to_tangent")


OWN_DERIVATIVE = frozenset(("custom_jvp_call", "custom_vjp_call"))
"""Ops whose functions bring a rule, which only tells the derivative in their arguments."""


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("origin", "primal", "tangent")

    differentiated = True

    def __init__(self, trace: JVPTrace, primal: ArrayLike, tangent: ArrayLike) -> None:
        self._trace = trace
        self.aval = typeof(primal)
        self.primal = primal
        self.tangent = tangent
        self.origin: Source | None = None

    def concrete(self) -> Any:
        p = self.primal
        return p.concrete() if isinstance(p, Tracer) else p

    def source(self) -> Source | None:
        return self.primal.source() if isinstance(self.primal, Tracer) else self.origin


class JVPTrace:
    """Applies jvp rules; ops without own tracers go to the parent."""

    __slots__ = ("finished", "frame", "parent", "rule_trace")

    def __init__(self, parent: Any, frame: StagingTrace | None = None) -> None:
        self.parent = parent
        self.frame = frame
        self.rule_trace = parent if frame is None else DualTrace(parent, frame)
        self.finished = False

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals = []
        tangents: list[Any] = []
        nonzero = False
        for a in args:
            if a.__class__ is JVPTracer and a._trace is self:
                primals.append(a.primal)
                t = a.tangent
                tangents.append(t)
                if t is not None:
                    nonzero = True
            elif stands_for_array(a):
                return self.process(prim, with_arrays(args), params)
            else:
                primals.append(a)
                tangents.append(None)
        if not nonzero:
            if prim.name not in OWN_DERIVATIVE:
                return self.parent.process(prim, primals, params)
            # What the function closes over is none of its arguments: it must not be differentiated
            # here behind the rule's back, and is reported as out of its place.
            with current_trace(self.parent):
                return prim.bind(*primals, **params)
        rule = prim.jvp
        if self.frame is not None and prim.linearize is not None:
            rule = prim.linearize
        if rule is None:
            raise MissingRuleError(
                f"{prim.name} has no derivative: give one with weft.custom_jvp or "
                "weft.custom_vjp around the function that calls it"
            )
        before, source = state.trace, state.source
        state.trace = self.rule_trace
        if source is None and not prim.higher_order:
            # All that the rule does stands for this line; a user's rule has lines of its own.
            state.source = capture()
        try:
            if isinstance(rule, str):
                out, out_tangent = _linear_rule(prim, primals, tangents, params)
            else:
                out, out_tangent = rule(primals, tangents, **params)
            if prim.multiple_results:
                return [self.wrap_typed(p, t) for p, t in zip(out, out_tangent, strict=True)]
            if out_tangent is None:
                return out
            tracer = self.wrap_typed(out, out_tangent)
            if self.parent is EVAL:  # no equation says where the value was made
                tracer.origin = state.source
            return tracer
        finally:
            state.trace, state.source = before, source

    def wrap_typed(self, primal: ArrayLike, tangent: ArrayLike) -> Any:
        """Act as `wrap`, with the tangent promoted to the manual-axis type of its primal.

        A tangent may depend on fewer operands than its primal, and so vary over fewer axes.
        """
        if tangent is None:
            return primal
        tracer = JVPTracer(self, primal, tangent)
        mat = tracer.aval.mat
        if mat is not NO_MAT and typeof(tangent).mat is not mat:
            from weft.autodiff.manual_casts import cast_to

            with current_trace(self.rule_trace):
                tracer.tangent = cast_to(tangent, mat)
        return tracer

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if tangent is None else JVPTracer(self, primal, tangent)

    def unwrap(self, x: object) -> tuple[Any, Any]:
        if x.__class__ is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, None


def _linear_rule(
    prim: Primitive, primals: list, tangents: list, params: dict[str, Any]
) -> tuple[Any, Any]:
    """Apply an op to the tangents where it is linear, with as many zeros as primals elsewhere."""
    out = prim.bind(*primals, **params)
    if len(primals) == 1:
        return out, prim.bind(*tangents, **params)
    linear = linear_operands(prim, primals, params)
    if all(tangents[i] is None for i in linear):
        return out, [None] * len(out) if prim.multiple_results else None

    operands = list(primals)
    for i in linear:
        operands[i] = zeros_like(primals[i]) if tangents[i] is None else tangents[i]
    return out, prim.bind(*operands, **params)


class DualTrace:
    """While a rule runs under linearization: tangent ops to the linear program, others on."""

    __slots__ = ("finished", "frame", "parent")

    def __init__(self, parent: Any, frame: StagingTrace) -> None:
        self.parent = parent
        self.frame = frame
        self.finished = False

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        frame = self.frame
        for a in args:
            if a.__class__ is StagedTracer and a._trace is frame:
                return frame.process(prim, args, params)
        return self.parent.process(prim, args, params)


class RuleTrace(DualTrace):
    """The same for a user's rule, whose ops may compute primals and tangents together.

    A jitted rule does, or a loop that carries both. Such an op is recorded for its tangents; the
    primals are those of the op applied to zero tangents, on which they do not depend.
    """

    __slots__ = ()

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        frame = self.frame
        tangent = [a.__class__ is StagedTracer and a._trace is frame for a in args]
        if not any(tangent):
            return self.parent.process(prim, args, params)
        outs = frame.process(prim, args, params)
        if not prim.multiple_results:
            return outs
        eqn = frame.eqns[-1]
        if [getattr(o, "variable", None) for o in outs] != eqn.outvars:
            return outs  # it was inlined, op by op
        linear = {a.variable for a, t in zip(args, tangent, strict=True) if t}
        mask = depends(eqn, [v.__class__ is Var and v in linear for v in eqn.invars])
        if all(mask):
            return outs
        with current_trace(self.parent):
            zeros = [
                instantiate_zero(a.aval) if t else a for a, t in zip(args, tangent, strict=True)
            ]
        primals = self.parent.process(prim, zeros, params)
        return [o if m else p for o, p, m in zip(outs, primals, mask, strict=True)]


def forward_trace() -> JVPTrace:
    """Make a trace for pushing tangents forward here: inside a rule under linearization, these are
    recorded apart from the primals."""
    t = state.trace
    return JVPTrace(t, t.frame) if isinstance(t, DualTrace) else JVPTrace(t)


def jvp_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    extra: list | None = None,
) -> tuple[list, list]:
    """Return values and tangents of a flat function; tangents are None where zero.

    extra: what else the function leaves there; its tracers are replaced by their values.
    """
    trace = forward_trace()
    args = [trace.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]
    with current_trace(trace):
        outs = fun(*args)
    trace.finished = True
    if extra:
        extra[:] = [trace.unwrap(x)[0] for x in extra]
    pairs = [trace.unwrap(o) for o in outs]
    if config.check_tracer_leaks:
        del args, outs
        check_nothing_leaked(trace, "a function under jvp")
    return [p for p, _ in pairs], [t for _, t in pairs]


class Linearized:
    """A linear program: `jaxpr` maps nonzero input tangents to nonzero output tangents.

    `consts` are the residuals; `nonzero_in` and `nonzero_out` say for every flat input and
    output whether it has a tangent.
    """

    __slots__ = ("consts", "jaxpr", "nonzero_in", "nonzero_out", "out_avals")

    def __init__(
        self,
        jaxpr: Jaxpr,
        consts: list,
        nonzero_in: list[bool],
        nonzero_out: list[bool],
        out_avals: list,
    ) -> None:
        self.jaxpr = jaxpr
        self.consts = consts
        self.nonzero_in = nonzero_in
        self.nonzero_out = nonzero_out
        self.out_avals = out_avals


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    nonzero: Sequence[bool] | None = None,
    extra: list | None = None,
) -> tuple[list, Linearized]:
    """Evaluate a flat function and record its derivative as a linear program.

    extra: what else the function leaves there; its tracers are replaced by their values.
    """
    frame = StagingTrace("linear")
    trace = JVPTrace(state.trace, frame)
    if nonzero is None:
        nonzero = [has_tangent(typeof(p)) for p in primals]
    args, linear_args = [], []
    for p, nz in zip(primals, nonzero, strict=True):
        t = frame.new_arg(tangent_aval(typeof(p))) if nz else None
        if t is not None:
            linear_args.append(t)
        args.append(trace.wrap(p, t))
    with gc_paused():
        with current_trace(trace):
            outs = fun(*args)
        trace.finished = True
        if extra:
            extra[:] = [trace.unwrap(x)[0] for x in extra]
        pairs = [trace.unwrap(o) for o in outs]
        out_tangents = [t for _, t in pairs if t is not None]
        jaxpr = frame.to_jaxpr(linear_args, out_tangents)
    if config.check_tracer_leaks:
        del args, outs
        check_nothing_leaked(trace, "a differentiated function")
    out_primals = [p for p, _ in pairs]
    return out_primals, Linearized(
        jaxpr,
        frame.consts,
        list(nonzero),
        [t is not None for _, t in pairs],
        [typeof(p) for p in out_primals],
    )


# The same on jaxprs, for ops that have inner ones; memoized on the jaxpr ------------------------


def jvp_jaxpr(
    jaxpr: ClosedJaxpr, nonzero: Sequence[bool], instantiate: Sequence[bool] | bool = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """Return a jaxpr from (primals, nonzero tangents) to (outs, nonzero out tangents).

    instantiate: which output tangents to give even where they are zero. Returns it with the
    list saying which outputs have a tangent.
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.jaxpr.outvars)
    key = ("jvp", tuple(nonzero), tuple(instantiate))
    return jaxpr.memo(key, lambda: _jvp_jaxpr(jaxpr, nonzero, instantiate))


def _jvp_jaxpr(
    jaxpr: ClosedJaxpr, nonzero: Sequence[bool], instantiate: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    out_nonzero: list[bool] = []
    n = len(jaxpr.in_avals)

    def flat(*args: object) -> list:
        primals, nonzero_tangents = args[:n], iter(args[n:])
        tangents = [next(nonzero_tangents) if nz else None for nz in nonzero]
        outs, out_tangents = jvp_flat(lambda *xs: eval_closed(jaxpr, *xs), primals, tangents)
        for i, (o, t) in enumerate(zip(outs, out_tangents, strict=True)):
            if t is None and instantiate[i]:
                out_tangents[i] = instantiate_zero(tangent_aval(typeof(o)))
        out_nonzero[:] = [t is not None for t in out_tangents]
        return outs + [t for t in out_tangents if t is not None]

    avals = list(jaxpr.in_avals)
    avals += [tangent_aval(a) for a, nz in zip(jaxpr.in_avals, nonzero, strict=True) if nz]
    traced, consts = trace_to_jaxpr(flat, avals, f"jvp({jaxpr.jaxpr.debug})")
    return ClosedJaxpr(traced, consts), list(out_nonzero)


class LinearizedJaxpr:
    """A jaxpr split by linearization.

    primal: inputs -> outputs + residuals. tangent: residuals + nonzero input tangents -> nonzero
    output tangents. residual_inputs: for each residual the input of the primal that it is, or None
    where it is one of the primal's extra outputs.
    """

    __slots__ = ("nonzero_out", "num_residuals", "primal", "residual_inputs", "tangent")

    def __init__(
        self,
        primal: ClosedJaxpr,
        tangent: ClosedJaxpr,
        nonzero_out: list[bool],
        residual_inputs: list[int | None],
    ) -> None:
        self.primal = primal
        self.tangent = tangent
        self.nonzero_out = nonzero_out
        self.num_residuals = sum(i is None for i in residual_inputs)
        self.residual_inputs = residual_inputs

    def residuals(self, inputs: Sequence[Any], extra: Sequence[Any]) -> list:
        """Return the tangent jaxpr's leading arguments, from primal inputs and extra outputs."""
        rest = iter(extra)
        return [next(rest) if i is None else inputs[i] for i in self.residual_inputs]


def linearize_jaxpr(
    jaxpr: ClosedJaxpr, nonzero: Sequence[bool], instantiate: Sequence[bool] | bool = False
) -> LinearizedJaxpr:
    """Split a jaxpr into its primal part with residuals and a linear tangent part."""
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.jaxpr.outvars)
    key = ("linearize", tuple(nonzero), tuple(instantiate))
    return jaxpr.memo(key, lambda: _linearize_jaxpr(jaxpr, nonzero, instantiate))


def _linearize_jaxpr(
    jaxpr: ClosedJaxpr, nonzero: Sequence[bool], instantiate: Sequence[bool]
) -> LinearizedJaxpr:
    primal_trace = StagingTrace(jaxpr.jaxpr.debug)
    frame = StagingTrace(f"linear({jaxpr.jaxpr.debug})")
    trace = JVPTrace(primal_trace, frame)
    with gc_paused():
        # Values are recorded in one program and tangents in another, both from one evaluation.
        primals = [primal_trace.new_arg(a) for a in jaxpr.in_avals]
        args, linear_args = [], []
        for p, nz in zip(primals, nonzero, strict=True):
            t = frame.new_arg(tangent_aval(p.aval)) if nz else None
            if t is not None:
                linear_args.append(t)
            args.append(trace.wrap(p, t))
        with current_trace(trace):
            outs = eval_closed(jaxpr, *args)
        pairs = [trace.unwrap(o) for o in outs]
        tangents = []
        # The caller needs some tangents even where they are zero, as those of a loop's carry.
        for (p, t), inst in zip(pairs, instantiate, strict=True):
            if t is None and inst:
                with current_trace(frame):
                    t = instantiate_zero(tangent_aval(typeof(p)))
            tangents.append(t)
        trace.finished = True
        linear = frame.to_jaxpr(linear_args, [t for t in tangents if t is not None])
        # Residuals: constants of the linear program that the primal program computes.
        # A residual that is an input needs no result of its own.
        by_var = {p.variable: i for i, p in enumerate(primals)}
        residual_vars, residual_inputs, extra = [], [], []
        kept_vars, kept_consts = [], []
        for var, value in zip(linear.constvars, frame.consts, strict=True):
            if isinstance(value, StagedTracer) and value._trace is primal_trace:
                position = by_var.get(value.variable)
                residual_vars.append(var)
                residual_inputs.append(position)
                if position is None:
                    extra.append(value)
            else:
                kept_vars.append(var)
                kept_consts.append(value)
        primal = primal_trace.to_jaxpr(primals, [*(p for p, _ in pairs), *extra])
    tangent = linear.replace(constvars=kept_vars, invars=[*residual_vars, *linear.invars])
    return LinearizedJaxpr(
        ClosedJaxpr(primal, primal_trace.consts),
        ClosedJaxpr(tangent, kept_consts),
        [t is not None for t in tangents],
        residual_inputs,
    )

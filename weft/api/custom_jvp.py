"""custom_jvp: functions that bring their own forward derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_common import (
    BatchedCall,
    FlatCall,
    FunctionWithRules,
    SymbolicZero,
    batch_call,
    call_primitive,
    check_type,
    fitted,
    instantiate,
    numbers_as_arrays,
    trace_call,
    tracing_rules,
)
from weft.autodiff.jvp import DualTrace, RuleTrace, filled_tangents, has_tangent, tangent_aval
from weft.autodiff.vmap import EqualDim, batch_flat, move_dim
from weft.autodiff.zeros import add_any
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, Var, eval_closed
from weft.core.masks import pick
from weft.core.state import current_trace, state
from weft.core.trace import StagingTrace, closed_call_jaxpr, typeof
from weft.core.tree import flatten, names_in, tree_map

if TYPE_CHECKING:
    from weft.typing import ArrayLike

# The op. It takes `call`, which knows the function and its rule on flat arguments. Recorded, it has
# a jaxpr of the function too, and in front of its operands what the function closes over.


class Call(FlatCall):
    """One call: the function and its rule on flat arguments."""

    __slots__ = ()

    def rule(self, consts: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
        """Return outputs and their tangents, from tangents; either are None where zero."""
        owner, primals = self.owner, numbers_as_arrays(primals)
        zero = SymbolicZero if owner._symbolic_zeros else instantiate
        in_tangents = [
            zero(tangent_aval(typeof(p))) if t is None else t
            for p, t in zip(primals, tangents, strict=True)
        ]
        result = owner.jvp(
            *self.static, self.in_tree.unflatten(primals), self.in_tree.unflatten(in_tangents)
        )
        api = f"the jvp rule of {self.name}"
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise TypeError(
                f"{api} must return a pair (output, output tangent), got {type(result).__name__}"
            )
        outs, out_tree = flatten(result[0])
        out_tangents, tangent_tree = flatten(result[1])
        if self.out_tree is not None and out_tree != self.out_tree:
            raise TypeError(
                f"{api} must return outputs of the structure the function has, {self.out_tree}, "
                f"got {out_tree}"
            )
        if tangent_tree != out_tree:
            raise TypeError(
                f"{api} must return tangents of the outputs' structure {out_tree}, "
                f"got {tangent_tree}"
            )
        self.out_tree = out_tree
        return outs, [
            self._tangent(api, i, o, t)
            for i, (o, t) in enumerate(zip(outs, out_tangents, strict=True))
        ]

    def _tangent(self, api: str, i: int, out: object, tangent: Any) -> Any:
        if tangent.__class__ is SymbolicZero:
            return None
        want = tangent_aval(typeof(out))
        got = typeof(tangent)
        if got is want:
            return tangent
        if not has_tangent(typeof(out)):
            return None
        check_type(api, "the tangent of", want, got, names_in(self.out_tree, "output")[i])
        return fitted(
            tangent,
            want,
            got,
            lambda axes: (
                f"{api}: the tangent of {names_in(self.out_tree, 'output')[i]} has type "
                f"{got.str_short()} and varies over {axes}, but the output "
                f"({typeof(out).str_short()}) is equal there, and so must be its tangent: add "
                f"it up with weft.lax.psum(t, {axes})"
            ),
        )


class ClosedCall:
    """A call whose function and rule close over tracers: both are jaxprs of those values too."""

    __slots__ = ("name", "rule_jaxpr", "start")

    def __init__(self, name: str, start: int, rule_jaxpr: ClosedJaxpr) -> None:
        self.name = name
        self.start = start  # where the rule's values begin among the operands in front
        self.rule_jaxpr = rule_jaxpr

    def rule(self, consts: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
        mask = [has_tangent(typeof(p)) for p in primals]
        in_tangents = filled_tangents(pick(primals, mask), pick(tangents, mask))
        outs = eval_closed(self.rule_jaxpr, *consts[self.start :], *primals, *in_tangents)
        n = len(outs) // 2
        return outs[:n], [
            t if has_tangent(typeof(o)) else None for o, t in zip(outs, outs[n:], strict=False)
        ]


class BatchedJVP(BatchedCall):
    """A call over a batch."""

    __slots__ = ()

    def rule(self, consts: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
        consts = self.own(consts, primals)
        n, m = len(consts), len(primals)
        t_dims = [d for d, t in zip(self.dims[n:], tangents, strict=True) if t is not None]
        has_tangents: list[bool] = []

        def flat(*xs: ArrayLike) -> list:
            rest = iter(xs[n + m :])
            ts = [None if t is None else next(rest) for t in tangents]
            outs, out_ts = self.call.rule(xs[:n], xs[n : n + m], ts)
            has_tangents[:] = [t is not None for t in out_ts]
            return [*outs, *(t for t in out_ts if t is not None)]

        vals = [*consts, *primals, *(t for t in tangents if t is not None)]
        flat_outs, dims = batch_flat(flat, self.axis, vals, [*self.dims, *t_dims])
        k = len(has_tangents)
        it = iter(zip(flat_outs[k:], dims[k:], strict=True))
        pairs = [next(it) if g else (None, None) for g in has_tangents]
        outs, out_tangents, out_dims = [], [], []
        for i, ((t, td), o, d) in enumerate(zip(pairs, flat_outs, dims, strict=False)):
            target = self.out_dims[i] if self.out_dims is not None else d if d is not None else td
            out_dims.append(EqualDim(target) if d is None and target is not None else target)
            if target is not None:
                o = move_dim(o, d, target, self.axis)
                t = None if t is None else move_dim(t, td, target, self.axis)
            outs.append(o)
            out_tangents.append(t)
        self.out_dims = out_dims
        return outs, out_tangents


def _jvp(
    primals: list,
    tangents: list,
    *,
    call: BatchedJVP | Call,
    jaxpr: ClosedJaxpr | None,
    num_consts: int,
) -> tuple:
    if any(t is not None for t in tangents[:num_consts]):
        raise TypeError(closed_over_text("custom_jvp", call.name))
    t = state.trace
    with current_trace(RuleTrace(t.parent, t.frame) if isinstance(t, DualTrace) else t):
        return call.rule(primals[:num_consts], primals[num_consts:], tangents[num_consts:])


def closed_over_text(api: str, name: str) -> str:
    return (
        f"{api} function {name} closes over a value that is being differentiated, but its rule "
        "only tells the derivative with respect to its arguments; pass the value as an argument"
    )


def _stage(trace: StagingTrace, args: Sequence[Any], params: dict) -> list | None:
    call = params["call"]
    if params["jaxpr"] is not None:
        return None
    owner = getattr(call, "owner", None)
    avals = [typeof(a) for a in args]
    functions = () if owner is None else (owner.jvp, owner.fun)
    if owner is not None and owner._tracing_rules:
        # A rule that is being traced calls its own function: there the body stands for it.
        return call.fun(*args)
    # Without traced values that the rule closes over, it can stay a Python function.
    traced, closes = trace_call(call, avals, functions)
    if not closes:
        new = {"call": call, "jaxpr": traced.jaxpr, "num_consts": len(traced.consts)}
        return trace.process(custom_jvp_p, [*traced.consts, *args], new)
    with_tangents = [a for a in avals if has_tangent(a)]
    n = len(avals)

    def rule(*xs: object) -> list:
        traced_tangents = iter(xs[n:])
        tangents = [next(traced_tangents) if has_tangent(a) else None for a in avals]
        outs, out_tangents = call.rule((), xs[:n], tangents)
        return [
            *outs,
            *filled_tangents(outs, out_tangents),
        ]

    # It closes over values of this trace: the rule becomes a jaxpr that is given them.
    with tracing_rules(owner):
        rule_jaxpr, rule_consts = closed_call_jaxpr(
            rule, [*avals, *map(tangent_aval, with_tangents)], f"jvp rule of {call.name}"
        )
    # The body takes the rule's constants too, and reads none of them.
    j = traced.jaxpr.jaxpr
    start = len(traced.consts)
    unread = [Var(typeof(c)) for c in rule_consts]
    widened = ClosedJaxpr(
        j.replace(invars=[*j.invars[:start], *unread, *j.invars[start:]]), traced.jaxpr.consts
    )
    # The values may belong to a trace above the one that records: bind at the top.
    return custom_jvp_p.bind(
        *traced.consts,
        *rule_consts,
        *args,
        call=ClosedCall(call.name, start, rule_jaxpr),
        jaxpr=widened,
        num_consts=start + len(rule_consts),
    )


custom_jvp_p = call_primitive(
    "custom_jvp_call",
    jvp=_jvp,
    batch=batch_call(lambda: custom_jvp_p, BatchedJVP),
    stage=_stage,
)


class custom_jvp(FunctionWithRules):  # noqa: N801  (the public name is JAX's)
    """A function with a forward derivative of its own; use as a decorator.

    The rule, given by `defjvp`, has the signature
    `f_jvp(*nondiff_args, primals, tangents) -> (output, output tangent)` and must be linear in the
    tangents; reverse mode follows by transposition. `defjvps` takes one rule for each argument.

    Args:
      fun: the function.
      nondiff_argnums, nondiff_argnames: arguments that are handed to the rule as they are, first.

    Raises TypeError when differentiated with respect to a value it closes over.

    >>> import weft
    >>> @weft.custom_jvp
    ... def log1pexp(x):
    ...     return weft.numpy.log(1 + weft.numpy.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + weft.numpy.exp(x)))
    >>> weft.grad(log1pexp)(100.0)
    Array(1., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Any = None

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Set the rule; return it, so it serves as a decorator.

        symbolic_zeros: zero tangents arrive as `SymbolicZero` instead of arrays, and may be
        returned as such.
        """
        if not callable(jvp):
            raise TypeError(f"defjvp: the rule must be a function, got {type(jvp).__name__}")
        self.jvp = jvp
        self._symbolic_zeros = bool(symbolic_zeros)
        self._traces = {}
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Set one rule for each argument: `jvp(tangent, output, *primals)`, None for a zero."""
        if self._signature.nondiff:
            raise TypeError("defjvps does not take nondiff_argnums; use defjvp")

        def is_zero(tangent: ArrayLike) -> bool:
            return all(t.__class__ is SymbolicZero for t in flatten(tangent)[0])

        def rule(primals: tuple, tangents: tuple) -> tuple:
            out = self(*primals)
            total = None
            for jvp, t in zip(jvps, tangents, strict=True):
                if jvp is None or is_zero(t):
                    continue
                t = tree_map(lambda x: x.instantiate() if x.__class__ is SymbolicZero else x, t)
                term = jvp(t, out, *primals)
                total = term if total is None else tree_map(add_any, total, term)
            if total is None:
                total = tree_map(lambda o: SymbolicZero(tangent_aval(typeof(o))), out)
            return out, total

        self.defjvp(rule, symbolic_zeros=True)

    @api_boundary
    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self.jvp is None:
            raise AttributeError(
                f"custom_jvp function {self._signature.name} has no rule; give one with "
                f"{self._signature.name}.defjvp"
            )
        return self._apply(custom_jvp_p, Call, args, kwargs)

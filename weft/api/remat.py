"""checkpoint: derivatives that compute intermediate values again instead of keeping them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api import checkpoint_policies as checkpoint_policies
from weft.api.checkpoint_policies import Offload
from weft.api.remat_inside import Inside, look_inside
from weft.autodiff.dce import dce_closed, dce_jaxpr
from weft.autodiff.jvp import jvp_jaxpr, linearize_flat, linearize_jaxpr
from weft.autodiff.transpose import transpose_jaxpr
from weft.autodiff.vmap import AxisData, batch_jaxpr, dims_in_front, to_front
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.jaxpr import (
    NO_EFFECTS,
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    eval_closed,
    jaxpr_axes,
)
from weft.core.masks import unpick
from weft.core.primitive import Primitive
from weft.core.source import UNKNOWN, wraps
from weft.core.state import state
from weft.core.trace import StagedTracer, check_unchangeable, is_array_like, trace_to_jaxpr, typeof
from weft.core.trace_body import trace_body
from weft.core.tree import arg_names, flatten, flatten_fun, tree_map
from weft.core.undefined import is_undefined
from weft.driver.jit_op import jit_p
from weft.driver.staging import aval_of_spec, check_callable

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.tree import PyTreeDef
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Names and memories ----------------------------------------------------------------------------

name_p = Primitive(
    "name",
    abstract=lambda x, *, name: x,
    jvp=lambda primals, tangents, *, name: (name_p.bind(primals[0], name=name), tangents[0]),
    transpose=lambda ct, x, *, name: [ct],
    batch=lambda axis, args, dims, *, name: (name_p.bind(args[0], name=name), dims[0]),
    lower=lambda ctx, x, *, name: x,
    sharding="elementwise",
    structural=True,
)


def checkpoint_name(x: ArrayLike, name: str) -> Any:
    """Return the value, named for the policies of `checkpoint`; pytrees leaf by leaf.

    >>> import weft
    >>> from weft.ad_checkpoint import checkpoint_name
    >>> checkpoint_name(2.0, "activations")
    Array(2., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: name must be a string, got {name!r}")
    return tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


def _move_lower(ctx: RuleContext, x: ir.Value, *, memory: str) -> Any:
    if ctx.module.platforms[0] == "cpu":
        return x  # the host's memory is the device's
    return ctx.in_memory(x, memory)


move_p = Primitive(
    "to_memory",
    abstract=lambda x, *, memory: x,
    jvp=lambda primals, tangents, *, memory: (
        move_p.bind(primals[0], memory=memory),
        tangents[0],
    ),
    transpose=lambda ct, x, *, memory: [ct],
    batch=lambda axis, args, dims, *, memory: (move_p.bind(args[0], memory=memory), dims[0]),
    lower=_move_lower,
    sharding="elementwise",
    structural=True,
)


# The op ----------------------------------------------------------------------------------------


def _jvp(primals: list, tangents: list, *, jaxpr: ClosedJaxpr, **params: object) -> tuple:
    pushed, nonzero = jvp_jaxpr(jaxpr, [t is not None for t in tangents])
    nonzero_tangents = [t for t in tangents if t is not None]
    outs = remat_p.bind(*primals, *nonzero_tangents, jaxpr=pushed, **params)
    n = len(nonzero)
    return outs[:n], unpick(outs[n:], nonzero)


class _Plan:
    """A checkpointed function split for differentiation.

    forward: inputs -> outputs + kept values. tangent: inputs (those numbered) + kept values +
    nonzero tangents -> nonzero output tangents, computing again what it needs.
    """

    __slots__ = ("forward", "inputs", "nonzero_out", "tangent")

    forward: ClosedJaxpr
    inputs: list[int]
    nonzero_out: list[bool]
    tangent: ClosedJaxpr


def _plan(jaxpr: ClosedJaxpr, nonzero: tuple[bool, ...], policy: object) -> _Plan:
    if policy is not None:
        jaxpr = inline_calls(jaxpr)
    lin = linearize_jaxpr(jaxpr, nonzero)
    p, n_out = lin.primal.jaxpr, len(jaxpr.out_avals)
    linear, read = dce_closed(lin.tangent)
    t = linear.jaxpr
    num = len(lin.residual_inputs)
    extra = iter(p.outvars[n_out:])
    renamed: dict[Any, Any] = {}  # residual in the tangent program -> variable of the primal one
    needed = []
    for var, position, used in zip(t.invars[:num], lin.residual_inputs, read, strict=False):
        v = next(extra) if position is None else p.invars[position]
        renamed[var] = v
        if used:
            needed.append(v)
    kept, again, inside = choose_kept(p, needed, policy)
    eqns = [inside[e].again if e in inside else e for e in p.eqns if e in again]
    primal_eqns = [inside[e].forward if e in inside else e for e in p.eqns]
    # Named values stand for what they name: in the tangent program, the kept name is that value.
    inputs_read = {v for e in eqns for v in e.invars} | set(needed)
    inputs = [i for i, v in enumerate(p.invars) if v in inputs_read]
    call_site = state.source or UNKNOWN
    sources = {v: e.source for e in p.eqns for v in e.outvars}
    forward_eqns, kept_outs, kept_ins, back_eqns = [], [], [], []
    for v, (value, how) in kept.items():
        if isinstance(how, Offload):
            away = Var(value.aval)
            home = Var(value.aval)
            source = sources.get(value, call_site)
            forward_eqns.append(
                Eqn(move_p, [value], [away], {"memory": how.dst}, NO_EFFECTS, source)
            )
            back_eqns.append(Eqn(move_p, [home], [v], {"memory": how.src}, NO_EFFECTS, source))
            kept_outs.append(away)
            kept_ins.append(home)
        else:
            kept_outs.append(value)
            kept_ins.append(v)
    plan = _Plan()
    forward = p.replace(
        outvars=[*p.outvars[:n_out], *kept_outs], eqns=[*primal_eqns, *forward_eqns]
    )
    tangent_eqns = [
        e.replace(invars=[renamed.get(v, v) for v in e.invars])
        if any(v in renamed for v in e.invars)
        else e
        for e in t.eqns
    ]
    body = Jaxpr(
        [*p.constvars, *t.constvars],
        [*(p.invars[i] for i in inputs), *kept_ins, *t.invars[num:]],
        [renamed.get(v, v) for v in t.outvars],
        [*back_eqns, *eqns, *tangent_eqns],
        NO_EFFECTS.union(*(e.effects for e in eqns)),
        p.debug,
    )
    tangent, read = dce_closed(ClosedJaxpr(body, [*lin.primal.consts, *linear.consts]))
    # What a policy keeps inside of loops and branches may be read by nothing that is left.
    unread = {i for i in range(len(inputs), len(inputs) + len(kept_ins)) if not read[i]}
    plan.tangent = _without_inputs(tangent, unread)
    kept_outs = [v for i, v in enumerate(kept_outs, len(inputs)) if i not in unread]
    forward = forward.replace(outvars=[*p.outvars[:n_out], *kept_outs])
    plan.forward = dce_closed(ClosedJaxpr(forward, lin.primal.consts))[0]
    plan.inputs = inputs
    plan.nonzero_out = lin.nonzero_out
    return plan


def _without_inputs(closed: ClosedJaxpr, positions: set[int]) -> ClosedJaxpr:
    j = closed.jaxpr
    invars = [v for i, v in enumerate(j.invars) if i not in positions]
    return ClosedJaxpr(j.replace(invars=invars), closed.consts)


def choose_kept(
    jaxpr: Jaxpr, needed: Sequence[Any], policy: Any
) -> tuple[dict, set, dict[Eqn, Inside]]:
    """Return which values the policy keeps of those that `needed` is computed from.

    Returns kept: variable -> (the variable that holds its value, True or an Offload), the
    equations to be computed again, and the forms of those with values to keep inside. Nothing is
    kept that is not needed.
    """
    makers = {v: e for e in jaxpr.eqns for v in e.outvars}
    inputs = {*jaxpr.invars, *jaxpr.constvars}
    verdicts: dict[int, Any] = {}

    def verdict(eqn: Eqn) -> Any:
        if policy is None:
            return False
        cached = verdicts.get(id(eqn))
        if cached is None:
            avals = [v.aval for v in eqn.invars]
            cached = verdicts[id(eqn)] = policy(eqn.primitive, *avals, **eqn.rule_params)
        return cached

    named: dict[Any, Any] = {}
    # A value with a name may be saved under it, whatever made it.
    if policy is not None:
        for e in jaxpr.eqns:
            if e.primitive is name_p and verdict(e):
                named[e.invars[0]] = (e.outvars[0], verdict(e))
    kept: dict = {}
    again: set = set()
    inside: dict[Eqn, Inside] = {}
    pending = [v for v in needed if v.__class__ is Var]
    # From what the backward pass reads, back to what is kept or given.
    while pending:
        v = pending.pop()
        if v in inputs or v in kept:
            continue
        if v in named:
            kept[v] = named[v]
            continue
        eqn = makers[v]
        how = verdict(eqn)
        if how:
            kept[v] = (v, how)
        elif eqn not in again:
            again.add(eqn)
            forms = None if policy is None else look_inside(eqn, verdict, inline_calls)
            if forms is not None:
                inside[eqn] = forms
                kept.update({x: (x, word) for x, word in forms.kept.items()})
            pending += [x for x in eqn.invars if x.__class__ is Var]
    return kept, again, inside


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr with jitted calls replaced by their equations, which policies look at."""
    if not any(e.primitive is jit_p for e in closed.eqns):
        return closed

    def run(jaxpr: ClosedJaxpr, args: Sequence[Any]) -> list:
        env: dict[Any, Any] = dict(zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True))
        env.update(zip(jaxpr.jaxpr.invars, args, strict=True))
        before = state.source
        try:
            for e in jaxpr.eqns:
                state.source = e.source
                ins = [v.val if isinstance(v, Literal) else env[v] for v in e.invars]
                if e.primitive is jit_p:
                    outs = run(e.rule_params["jaxpr"], ins)
                else:
                    outs = e.primitive.bind(*ins, **e.rule_params)
                    outs = outs if e.primitive.multiple_results else [outs]
                env.update(zip(e.outvars, outs, strict=True))
        finally:
            state.source = before
        return [v.val if isinstance(v, Literal) else env[v] for v in jaxpr.jaxpr.outvars]

    def make() -> ClosedJaxpr:
        jaxpr, consts = trace_to_jaxpr(
            lambda *xs: run(closed, xs), closed.in_avals, closed.jaxpr.debug
        )
        return ClosedJaxpr(jaxpr, consts)

    return closed.memo("inline_calls", make)


def _linearize(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    policy: object,
    prevent_cse: bool,
    differentiated: bool,
) -> tuple:
    nonzero = tuple(t is not None for t in tangents)
    plan = jaxpr.memo(("checkpoint", nonzero, policy), lambda: _plan(jaxpr, nonzero, policy))
    outs = eval_closed(plan.forward, *primals)
    n = len(plan.nonzero_out)
    if not any(plan.nonzero_out):
        return outs[:n], [None] * n
    out_t = iter(
        remat_p.bind(
            *(primals[i] for i in plan.inputs),
            *outs[n:],
            *(t for t in tangents if t is not None),
            jaxpr=plan.tangent,
            policy=policy,
            prevent_cse=prevent_cse,
            differentiated=True,
        )
    )
    return outs[:n], [next(out_t) if nz else None for nz in plan.nonzero_out]


def _transpose(
    cts: list,
    *args: ArrayLike | UndefinedPrimal,
    jaxpr: ClosedJaxpr,
    differentiated: bool,
    **params: object,
) -> list:
    linear = [is_undefined(a) for a in args]
    nonzero = [ct is not None for ct in cts]
    back, ct_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
    back = back.memo("dce", lambda: dce_closed(back)[0])
    outs = remat_p.bind(
        *(a for a in args if not is_undefined(a)),
        *(ct for ct in cts if ct is not None),
        jaxpr=back,
        differentiated=True,
        **params,
    )
    return unpick(unpick(outs, ct_nonzero), linear)


def _batch(
    axis: AxisData, args: list, dims: list, *, jaxpr: ClosedJaxpr, **params: object
) -> tuple:
    moved, batched = to_front(args, dims)
    inner, out_batched = batch_jaxpr(jaxpr, axis, batched)
    outs = remat_p.bind(*moved, jaxpr=inner, **params)
    return outs, dims_in_front(out_batched)


def _dce(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    jaxpr = eqn.rule_params["jaxpr"]
    body, read = dce_jaxpr(jaxpr.jaxpr, used)
    if all(used) and all(read):
        return eqn
    invars = [v for v, r in zip(body.invars, read, strict=True) if r]
    return eqn.replace(
        invars=[v for v, r in zip(eqn.invars, read, strict=True) if r],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        rule_params={
            **eqn.rule_params,
            "jaxpr": ClosedJaxpr(body.replace(invars=invars), jaxpr.consts),
        },
    )


def _lower(
    ctx: RuleContext,
    *operands: ir.Value,
    jaxpr: ClosedJaxpr,
    prevent_cse: bool,
    differentiated: bool,
    policy: object,
) -> list:
    if differentiated and prevent_cse and operands:
        # Without a barrier XLA finds that the values were computed before, and keeps them.
        operands = ctx.op(
            "stablehlo.optimization_barrier", list(operands), [x.type for x in operands]
        )
    return ctx.inline(jaxpr, *operands)


remat_p = Primitive(
    "remat2",
    abstract=lambda *avals, jaxpr, **params: list(jaxpr.out_avals),
    effects=lambda avals, params: params["jaxpr"].effects,
    impl=lambda *args, jaxpr, **params: eval_closed(jaxpr, *args),
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    named_axes=lambda params: jaxpr_axes(params["jaxpr"]),
    calls=True,
    dce=_dce,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


# The function ----------------------------------------------------------------------------------


@api_boundary
def checkpoint(
    fun: Callable | None = None,
    *,
    concrete: bool = False,
    prevent_cse: bool = True,
    policy: Callable | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable:
    """Return the function with a derivative that keeps little and computes the rest again.

    Args:
      fun: the function; left out, `checkpoint(policy=...)` is a decorator.
      concrete: must be False; a function that branches on values takes them by static_argnums.
      prevent_cse: keep the compiler from undoing it; not needed in the body of a scan.
      policy: which intermediate values to keep, one of `weft.checkpoint_policies`; by default only
        the inputs are kept.
      static_argnums, static_argnames: arguments that are not traced.

    Source: Griewank and Walther, "Algorithm 799: revolve" (2000), for the idea.

    >>> import weft
    >>> f = weft.checkpoint(lambda x: weft.numpy.sin(weft.numpy.sin(x)))
    >>> weft.grad(f)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    if concrete:
        raise NotImplementedError(
            "checkpoint: concrete=True is a thing of the past; name the arguments whose values the "
            "function branches on in static_argnums, or compute the branches' conditions under "
            "weft.ensure_compile_time_eval()"
        )
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    check_callable(fun, "checkpoint")
    if policy is not None and not callable(policy):
        raise TypeError(
            f"checkpoint: policy must be a function such as those of weft.checkpoint_policies, got "
            f"{policy!r:.100}"
        )
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    with_options: dict[Hashable, Callable] = {}

    # Traces are kept by function, so that equal static values must give the same one.
    def with_static(count: int, values: tuple, fixed: tuple) -> Callable:
        """Return the function of the other arguments: one for equal values, to be traced once."""
        if not values and not fixed:
            return fun
        key = (count, values, fixed, *(type(v) for _, v in (*values, *fixed)))
        try:
            cached = with_options.get(key)
        except TypeError:  # a value without a hash
            return _with_values(fun, count, values, fixed)
        if cached is None:
            if len(with_options) >= _STATIC_VALUES:
                with_options.clear()
            cached = with_options[key] = _with_values(fun, count, values, fixed)
        return cached

    @wraps(fun)
    @api_boundary
    def checkpointed(*args: ArrayLike, **kwargs: object) -> Any:
        for i in static:
            if not -len(args) <= i < len(args):
                raise ValueError(
                    f"checkpoint: static_argnums {i} is out of range for {len(args)} arguments"
                )
        # Negative positions count from the last argument of this call.
        places = sorted(i % len(args) for i in static)
        fixed = tuple((k, v) for k, v in sorted(kwargs.items()) if k in names)
        inner = with_static(len(args), tuple((i, args[i]) for i in places), fixed)
        dynamic = [a for i, a in enumerate(args) if i not in places]
        kwargs = {k: v for k, v in kwargs.items() if k not in names}
        leaves, tree = flatten((tuple(dynamic), kwargs))
        check_unchangeable(leaves)
        try:
            avals = [typeof(x) for x in leaves]
        except TypeError:
            _check_leaves(fun, leaves, tree)
            raise
        body = trace_body(inner, tree, avals)
        outs = remat_p.bind(
            *body.consts,
            *leaves,
            jaxpr=body.jaxpr,
            policy=policy,
            prevent_cse=bool(prevent_cse),
            differentiated=False,
        )
        return body.out_tree.unflatten(outs)

    return checkpointed


_STATIC_VALUES = 64
"""Static values for which a checkpointed function keeps its traces."""


def _with_values(fun: Callable, count: int, values: tuple, fixed: tuple) -> Callable:
    """Return the function with values of some positions, out of `count`, and keywords bound."""
    positional, keywords = dict(values), dict(fixed)

    def inner(*dynamic: object, **kwargs: object) -> Any:
        rest = iter(dynamic)
        full = [positional[i] if i in positional else next(rest) for i in range(count)]
        return fun(*full, **keywords, **kwargs)

    return wraps(fun)(inner) if hasattr(fun, "__name__") else inner


def _check_leaves(fun: Callable, leaves: Sequence[Any], tree: PyTreeDef) -> None:
    for x, name in zip(leaves, arg_names(fun, tree), strict=True):
        if not is_array_like(x):
            raise TypeError(
                f"checkpoint: argument {name} is not an array or a number but "
                f"{type(x).__name__}: {x!r:.100}; name it in static_argnums or static_argnames"
            )


remat = checkpoint


# Looking at residuals --------------------------------------------------------------------------


@api_boundary
def saved_residuals(fun: Callable, *args: object, **kwargs: object) -> list[tuple[Any, str]]:
    """Return the residuals of reverse-mode differentiation of `fun`: types and origins.

    >>> import weft
    >>> def f(x):
    ...     return weft.numpy.sin(weft.numpy.sin(x))
    >>> [len(weft.ad_checkpoint.saved_residuals(g, 1.0)) for g in (f, weft.checkpoint(f))]
    [2, 1]
    """
    leaves, tree = flatten((args, kwargs))
    flat_fun, _ = flatten_fun(fun, tree)
    names = arg_names(fun, tree)
    residuals: list[tuple[Any, str]] = []

    def run(*xs: Any) -> list:
        outs, lin = linearize_flat(flat_fun, xs)
        by_var = {x.variable: n for x, n in zip(xs, names, strict=True)}
        for c in lin.consts:
            aval = typeof(c)
            if isinstance(c, StagedTracer):
                if c.variable in by_var:
                    source = f"the argument {by_var[c.variable]}"
                elif c.eqn is None:
                    source = "a constant"
                elif c.eqn.primitive is move_p:
                    source = f"in {c.eqn.rule_params['memory']}, from {c.eqn.source.short()}"
                elif c.eqn.primitive is name_p:
                    source = f"named {c.eqn.rule_params['name']!r}, from {c.eqn.source.short()}"
                else:
                    source = f"output of {c.eqn.primitive.name}, from {c.eqn.source.short()}"
            else:
                source = "a constant"
            if isinstance(aval, ShapedArray):
                residuals.append((aval, source))
        return outs

    trace_to_jaxpr(run, [aval_of_spec(x) for x in leaves])
    return residuals


def print_saved_residuals(f: Callable, *args: object, **kwargs: object) -> None:
    """Print what reverse-mode differentiation of `f` keeps, one value a line.

    >>> import weft
    >>> weft.ad_checkpoint.print_saved_residuals(lambda x: weft.numpy.sin(x) * 2.0, 1.0)
    f32[] output of cos, from ...
    """
    for aval, source in saved_residuals(f, *args, **kwargs):
        print(aval.str_short(), source)

"""Transposition of linear programs: the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.dependence import depends
from weft.autodiff.jvp import cotangent_aval
from weft.autodiff.zeros import add_any, instantiate_zero
from weft.core import provided
from weft.core.errors import MissingRuleError, ShardingTypeError
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, assign
from weft.core.state import state
from weft.core.trace import trace_to_jaxpr, typeof
from weft.core.undefined import NotLinear, UndefinedPrimal, Unwanted, is_undefined

if TYPE_CHECKING:
    from weft.core.primitive import Primitive


def backward_pass(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cts: Sequence[Any],
    refs: Mapping[Var, Any] | None = None,
) -> list:
    """Return cotangents of the arguments that are `UndefinedPrimal` (None elsewhere or where zero).

    refs: for inputs of the jaxpr refs that their cotangents are added to; the result is None there.

    Equations without linear operands are evaluated first, so jaxprs that mix nonlinear and
    linear work, such as rematerialized bodies, transpose too.
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Any] = set()
    unwanted: set[Any] = set()
    refs = refs or {}
    # What does not depend on the linear arguments is computed forwards; the rest is only noted.
    for var, arg in zip(jaxpr.invars, args, strict=True):
        if isinstance(arg, UndefinedPrimal):
            linear.add(var)
            if arg.__class__ is Unwanted:
                unwanted.add(var)
        else:
            env[var] = arg
    before = state.source
    try:
        eqns = _evaluate(jaxpr, linear, env, unwanted)
        ct_env: dict[Var, Any] = {}
        # One result may be returned twice: its cotangents add up.
        for out, ct in zip(jaxpr.outvars, cts, strict=True):
            if ct is not None and isinstance(out, Var) and out in linear:
                if out in refs:
                    refs[out].addupdate(ct)
                    continue
                old = ct_env.get(out)
                ct_env[out] = ct if old is None else add_any(old, ct)
        # The cotangent of a broadcast is summed where it is: the sum is what moves.
        spread = {e.outvars[0] for e in eqns if _is_broadcast(e)}
        read: set[int] | None = None
        # An equation's cotangents are complete when all equations that read its results are done.
        for eqn in reversed(eqns):
            out_cts = [ct_env.pop(v, None) for v in eqn.outvars]
            if all(ct is None for ct in out_cts):
                if not eqn.primitive.transposes_zeros:
                    continue
                read = _read_by_results(jaxpr, eqns) if read is None else read
                if id(eqn) not in read:
                    continue
            state.source = eqn.source
            special = (refs or unwanted) and _transpose_special(
                eqn, out_cts, linear, env, refs, unwanted
            )
            in_cts = special or _transpose_eqn(eqn, out_cts, linear, env)
            for v, ct in zip(eqn.invars, in_cts, strict=True):
                if ct is not None and v.__class__ is Var and v in linear and v not in unwanted:
                    if v in refs:
                        refs[v].addupdate(ct)
                        continue
                    old = ct_env.get(v)
                    # Sums of differently placed cotangents would be moved at each addition.
                    if getattr(v.aval, "sharding", None) is not None and (
                        old is not None or v not in spread
                    ):
                        ct = _placed_like(ct, v.aval)
                        old = _placed_like(old, v.aval) if v in spread else old
                    ct_env[v] = ct if old is None else add_any(old, ct)
    finally:
        state.source = before
    needed = linear - unwanted
    return [ct_env.get(v) if v in needed else None for v in jaxpr.invars]


def _read_by_results(jaxpr: Jaxpr, eqns: list[Eqn]) -> set[int]:
    """Return the ids of the equations that results are computed from."""
    live: set[Any] = {v for v in jaxpr.outvars if isinstance(v, Var)}
    read = set()
    for eqn in reversed(eqns):
        if not live.isdisjoint(eqn.outvars):
            read.add(id(eqn))
            live.update(v for v in eqn.invars if isinstance(v, Var))
    return read


def _is_broadcast(eqn: Eqn) -> bool:
    """Return whether the equation broadcasts a value that has no partial sums in its cotangent."""
    if eqn.primitive.name != "broadcast_in_dim":
        return False
    sharding = getattr(eqn.outvars[0].aval, "sharding", None)
    return sharding is None or not (sharding.spec.reduced or sharding.spec.unreduced)


def _evaluate(jaxpr: Jaxpr, linear: set[Any], env: dict[Any, Any], unwanted: set[Any]) -> list[Eqn]:
    """Evaluate what is not linear into `env`; the other equations, their results in `linear`.

    Those that are linear in unwanted values alone are left out, their results unwanted, too.
    """
    eqns = []
    for eqn in jaxpr.eqns:
        inputs = [v for v in eqn.invars if v.__class__ is Var and v in linear]
        if inputs:
            if unwanted.issuperset(inputs):
                unwanted.update(eqn.outvars)
            else:
                eqns.append(eqn)
            if eqn.primitive.higher_order:
                _evaluate_nonlinear(eqn, linear, env)
            else:
                linear.update(eqn.outvars)
        else:
            state.source = eqn.source
            ins = [v.val if v.__class__ is Literal else env[v] for v in eqn.invars]
            assign(env, eqn, eqn.primitive.bind(*ins, **eqn.rule_params))
    return eqns


def _transpose_eqn(eqn: Eqn, cts: list, linear: set[Any], env: dict[Any, Any]) -> list:
    """Return cotangents of an equation's operands from those of its results; None where zero."""
    prim = eqn.primitive
    if prim.transpose is None:
        raise MissingRuleError(_not_linear(eqn))
    ins = [
        v.val if v.__class__ is Literal else UndefinedPrimal(v.aval) if v in linear else env[v]
        for v in eqn.invars
    ]
    out_cts = cts if prim.multiple_results else cts[0]
    try:
        return prim.transpose(out_cts, *ins, **eqn.rule_params)
    except NotLinear:
        raise MissingRuleError(_not_linear(eqn)) from None
    except ShardingTypeError:
        if prim.higher_order:  # an inner program has its own types
            raise
        return _transpose_untyped(prim, out_cts, ins, eqn.rule_params)


def _transpose_special(
    eqn: Eqn,
    cts: list,
    linear: set[Any],
    env: dict[Any, Any],
    refs: Mapping[Var, Any],
    unwanted: set[Any],
) -> list | None:
    """Transpose where a part of a ref is enough, or less than all cotangents; else return None.

    A slice adds to its part of the ref. A call is transposed in place.
    """
    name, params = eqn.primitive.name, eqn.rule_params
    first = eqn.invars[0]
    if name in ("slice", "dynamic_slice") and isinstance(first, Var) and first in refs:
        if name == "slice":
            ends = zip(params["start_indices"], params["limit_indices"], strict=True)
            at: list[Any] = [slice(a, b) for a, b in ends]
            if any(s != 1 for s in params["strides"] or ()):
                return None
        else:
            starts = [v.val if v.__class__ is Literal else env[v] for v in eqn.invars[1:]]
            at = [
                provided.ref_slice(i, n) for i, n in zip(starts, params["slice_sizes"], strict=True)
            ]
        refs[first].addupdate(cts[0], tuple(at))
        return [None] * len(eqn.invars)
    if name != "jit" or any(params["in_shardings"]) or any(params["out_shardings"]):
        return None
    if not any(v.__class__ is Var and (v in refs or v in unwanted) for v in eqn.invars):
        return None
    inner = params["jaxpr"]
    args = [
        v.val
        if v.__class__ is Literal
        else (Unwanted if v in unwanted else UndefinedPrimal)(v.aval)
        if v in linear
        else env[v]
        for v in eqn.invars
    ]
    pairs = zip(inner.jaxpr.invars, eqn.invars, strict=True)
    accumulators = {i: refs[v] for i, v in pairs if v.__class__ is Var and v in refs}
    return backward_pass(inner.jaxpr, inner.consts, args, cts, accumulators)


def _not_linear(eqn: Eqn) -> str:
    return (
        f"reverse-mode differentiation reached {eqn.primitive.name}, which is not linear in its "
        f"operands or has no transpose ({eqn.source}); a rule of weft.custom_jvp must be linear in "
        "its tangents. Use forward mode (weft.jvp, weft.jacfwd) or give a rule with weft.custom_vjp"
    )


def _transpose_untyped(
    prim: Primitive, cts: Any, ins: Sequence[Any], params: dict[str, Any]
) -> list:
    """Return the transpose where explicit shardings leave its results open.

    Cotangents are placed as their primals are, so nothing is ambiguous: the rule runs without
    explicit types, and the partitioner finds the way.
    """
    from weft.sharding.explicit import drop_type

    def drop(x: object) -> Any:
        if x is None:
            return None
        if x.__class__ is UndefinedPrimal:
            return UndefinedPrimal(x.aval.update(sharding=None))
        return drop_type(x)

    cts = [drop(ct) for ct in cts] if prim.multiple_results else drop(cts)
    return prim.transpose(cts, *(drop(x) for x in ins), **params)


def _placed_like(ct: object, aval: object) -> Any:
    """Return a cotangent with the explicit sharding that its primal's type asks for."""
    from weft.sharding.explicit import reshard

    return reshard(ct, cotangent_aval(aval).sharding)


def _evaluate_nonlinear(eqn: Eqn, linear: set[Any], env: dict[Any, Any]) -> None:
    """Add to `linear` the results that are linear, and to `env` the others.

    An inner program may compute both, as the derivative of a checkpoint does. The others do not
    depend on linear operands, for which zeros do.
    """
    marked = [v.__class__ is Var and v in linear for v in eqn.invars]
    outs = depends(eqn, marked)
    linear.update(v for v, m in zip(eqn.outvars, outs, strict=True) if m)
    if all(outs):
        return
    state.source = eqn.source
    ins = [
        instantiate_zero(v.aval) if m else v.val if v.__class__ is Literal else env[v]
        for v, m in zip(eqn.invars, marked, strict=True)
    ]
    results = eqn.primitive.bind(*ins, **eqn.rule_params)
    env.update((v, x) for v, x, m in zip(eqn.outvars, results, outs, strict=True) if not m)


def transpose_jaxpr(
    jaxpr: ClosedJaxpr,
    linear: Sequence[bool],
    nonzero_cts: Sequence[bool],
    instantiate: Sequence[bool] | bool = False,
) -> tuple[ClosedJaxpr, list[bool]]:
    """Return the transpose of a jaxpr in its linear inputs.

    Maps (nonlinear inputs, nonzero output cotangents) to the cotangents of the linear inputs;
    the list says which of these are nonzero (all that `instantiate` names are given).
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.in_avals)
    key = ("transpose", tuple(linear), tuple(nonzero_cts), tuple(instantiate))
    return jaxpr.memo(key, lambda: _transpose_jaxpr(jaxpr, linear, nonzero_cts, instantiate))


def _transpose_jaxpr(
    jaxpr: ClosedJaxpr,
    linear: Sequence[bool],
    nonzero_cts: Sequence[bool],
    instantiate: Sequence[bool],
) -> tuple[ClosedJaxpr, list[bool]]:
    avals = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if not lin]
    avals += [cotangent_aval(a) for a, nz in zip(jaxpr.out_avals, nonzero_cts, strict=True) if nz]
    nonzero: list[bool] = []

    def flat(*flat_args: object) -> list:
        it = iter(flat_args)
        args = [
            UndefinedPrimal(a) if lin else next(it)
            for a, lin in zip(jaxpr.in_avals, linear, strict=True)
        ]
        cts = [next(it) if nz else None for nz in nonzero_cts]
        result = backward_pass(jaxpr.jaxpr, jaxpr.consts, args, cts)
        wanted = []
        for aval, ct, lin, inst in zip(jaxpr.in_avals, result, linear, instantiate, strict=True):
            if lin:
                if ct is None and inst:
                    ct = instantiate_zero(cotangent_aval(aval))
                wanted.append(ct)
        nonzero[:] = [ct is not None for ct in wanted]
        return [ct for ct in wanted if ct is not None]

    traced, consts = trace_to_jaxpr(flat, avals, f"transpose({jaxpr.jaxpr.debug})")
    return ClosedJaxpr(traced, consts), list(nonzero)


def linear_transpose_flat(
    fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any]
) -> Callable[[Sequence[Any]], list]:
    """Return the transpose of a linear flat function, on cotangents of its outputs."""
    jaxpr, consts = trace_to_jaxpr(fun, in_avals, "linear")

    def transposed(cts: Sequence[Any]) -> list:
        args = [UndefinedPrimal(a) for a in in_avals]
        return backward_pass(jaxpr, consts, args, cts)

    return transposed


def ct_aval_of(x: UndefinedPrimal) -> Any:
    """Return the type a cotangent of this linear operand must have."""
    return cotangent_aval(x.aval if is_undefined(x) else typeof(x))

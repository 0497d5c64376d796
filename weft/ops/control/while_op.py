# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""The op of loops that run while a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.dce import dce_jaxpr
from weft.autodiff.dependence import program_depends
from weft.autodiff.jvp import filled_tangents, jvp_jaxpr
from weft.autodiff.vmap import AxisData, batch_jaxpr, move_dim
from weft.core.aval import ShapedArray
from weft.core.effects import CHECK, WRITES
from weft.core.jaxpr import ClosedJaxpr, Eqn, Var, eval_closed
from weft.core.masks import closed_under, pick, unpick
from weft.core.primitive import Primitive
from weft.core.provided import run_checked_branch
from weft.core.source import capture
from weft.core.trace import closed_call_jaxpr, typeof
from weft.ops.control.common import (
    carry_fixpoint,
    eager,
    join_axes,
    ordered_effects_of,
    select_rows,
)
from weft.ops.control.passing import passed_by_body
from weft.ops.control.scan_lower import whole
from weft.ops.reduce import reduce_or_p

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.collectives.async_ import InFlight
    from weft.core.ref import AbstractRef
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# The operands of `while` are the condition's constants, the body's constants, and the carry.


def _abstract(
    *avals: InFlight | ShapedArray | AbstractRef, body_jaxpr: ClosedJaxpr, **params: object
) -> list:
    return list(body_jaxpr.out_avals)


def _inner(avals: list, outs: list, params: dict) -> Iterator[tuple]:
    n_cond = params["cond_nconsts"]
    start = n_cond + params["body_nconsts"]
    carry = avals[start:]
    yield "the condition", params["cond_jaxpr"].in_avals, [*avals[:n_cond], *carry]
    yield "the body", params["body_jaxpr"].in_avals, [*avals[n_cond:start], *carry]
    yield "the results of the body", params["body_jaxpr"].out_avals, carry


def _effects(avals: list, params: dict) -> frozenset:
    return params["cond_jaxpr"].effects | params["body_jaxpr"].effects


def _split(xs: Sequence[Any], cond_nconsts: int, body_nconsts: int) -> tuple[list, list, list]:
    n = cond_nconsts + body_nconsts
    return list(xs[:cond_nconsts]), list(xs[cond_nconsts:n]), list(xs[n:])


# Derivatives -----------------------------------------------------------------------------------


def _pushed(primals: list, tangents: list, params: dict) -> tuple[list, dict, list[bool]]:
    """Return operands and params of the loop with tangents, and which carries have one."""
    cn, bn = params["cond_nconsts"], params["body_nconsts"]
    cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, carry = _split(primals, cn, bn)
    _, t_consts, t_carry = _split(tangents, cn, bn)
    nz_consts = [t is not None for t in t_consts]
    nz_carry = carry_fixpoint(
        body_jaxpr.jaxpr,
        [t is not None for t in t_carry],
        lambda marked: [*nz_consts, *marked],
        differentiable=True,
    )
    body, _ = jvp_jaxpr(body_jaxpr, [*nz_consts, *nz_carry], nz_carry)
    k, m, n_carry = sum(nz_consts), sum(nz_carry), len(carry)
    # (consts, carry, t_consts, t_carry) -> (consts, t_consts, carry, t_carry)
    j = body.jaxpr
    start = bn + n_carry
    invars = [*j.invars[:bn], *j.invars[start : start + k], *j.invars[bn:start]]
    body = body.memo(
        ("while order", bn, k),
        lambda: ClosedJaxpr(j.replace(invars=[*invars, *j.invars[start + k :]]), body.consts),
    )
    # The condition does not read tangents.
    pred = cond_jaxpr.memo(
        ("while tangents", m, *_key(body, m)), lambda: _widen(cond_jaxpr, body, m)
    )
    filled = filled_tangents(pick(carry, nz_carry), pick(t_carry, nz_carry))
    operands = [*cond_consts, *body_consts, *pick(t_consts, nz_consts), *carry, *filled]
    new = {**params, "cond_jaxpr": pred, "body_jaxpr": body, "body_nconsts": bn + k}
    return operands, new, nz_carry


def _key(body: ClosedJaxpr, m: int) -> tuple:
    return tuple(body.in_avals[len(body.in_avals) - m :])


def _widen(cond_jaxpr: ClosedJaxpr, body: ClosedJaxpr, m: int) -> ClosedJaxpr:
    """Return the condition with m more carries, which it does not read."""
    j = cond_jaxpr.jaxpr
    return ClosedJaxpr(
        j.replace(invars=[*j.invars, *(Var(a) for a in _key(body, m))]), cond_jaxpr.consts
    )


def _jvp(primals: list, tangents: list, **params: object) -> tuple:
    operands, pushed, nonzero = _pushed(primals, tangents, params)
    outs = while_p.bind(*operands, **pushed)
    return outs[: len(nonzero)], unpick(outs[len(nonzero) :], nonzero)


def _linearize(primals: list, tangents: list, **params: object) -> tuple:
    """Run the loop again in the linear program: its number of residuals is unknown."""
    outs = while_p.bind(*primals, **params)
    operands, pushed, nonzero = _pushed(primals, tangents, params)
    if not any(nonzero):
        return outs, [None] * len(nonzero)
    return outs, unpick(while_p.bind(*operands, **pushed)[len(nonzero) :], nonzero)


def _transpose(cts: list, *args: ArrayLike | UndefinedPrimal, **params: object) -> list:
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop, nor for lax.fori_loop with "
        f"bounds that are not Python ints (here at {capture()}): the number of iterations, hence "
        "of the values to keep, is unknown. Use fori_loop with static bounds or scan, forward mode "
        "(weft.jvp, weft.jacfwd), or a rule of your own (weft.custom_vjp)"
    )


# Batching --------------------------------------------------------------------------------------


def _batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> tuple:
    args = [a if d is None else move_dim(a, d, 0, axis) for a, d in zip(args, dims, strict=True)]
    batched = [d is not None for d in dims]
    cond_consts, body_consts, carry = _split(args, cond_nconsts, body_nconsts)
    b_cond, b_body, b_carry = _split(batched, cond_nconsts, body_nconsts)
    same = passed_by_body(body_jaxpr, body_nconsts, len(carry))

    def grown(carry: list[bool]) -> list[bool]:
        _, (pred_batched,) = batch_jaxpr(cond_jaxpr, axis, [*b_cond, *carry])
        if pred_batched:
            return [not s for s in same]
        return batch_jaxpr(body_jaxpr, axis, [*b_body, *carry], carry)[1]

    # A carry is batched if the body makes it so from those that are: grown until none is added.
    b_carry = closed_under(b_carry, grown)
    carry = [
        move_dim(x, 0 if was else None, 0, axis) if b and not was else x
        for x, b, was in zip(carry, b_carry, batched[cond_nconsts + body_nconsts :], strict=True)
    ]
    body, _ = batch_jaxpr(body_jaxpr, axis, [*b_body, *b_carry], b_carry)
    pred, (pred_batched,) = batch_jaxpr(cond_jaxpr, axis, [*b_cond, *b_carry])
    out_dims = [0 if b else None for b in b_carry]
    # All examples go on alike: one loop over the whole batch.
    if not pred_batched:
        outs = while_p.bind(
            *cond_consts,
            *body_consts,
            *carry,
            cond_jaxpr=pred,
            body_jaxpr=body,
            cond_nconsts=cond_nconsts,
            body_nconsts=body_nconsts,
        )
        return outs, out_dims
    run: Callable[..., list] = _run_plain
    if any(CHECK in j.effects for j in (cond_jaxpr, body_jaxpr)):
        # Checks hold for the examples that go on, which only the programs of one example can say.
        originals = {
            body: (body_jaxpr, [*b_body, *b_carry]),
            pred: (cond_jaxpr, [*b_cond, *b_carry]),
        }

        def run_checked(jaxpr: ClosedJaxpr, active: ArrayLike, operands: Sequence[Any]) -> list:
            original, batched = originals[jaxpr]
            return run_checked_branch(axis, original, active, list(operands), batched)

        run = run_checked

    # Each goes on for itself: the loop runs while any does, and keeps what the others have.
    every = np.ones(axis.size, bool)
    return _masked(cond_consts, body_consts, carry, pred, body, same, run, every), out_dims


def _run_plain(jaxpr: ClosedJaxpr, active: ArrayLike, operands: Sequence[Any]) -> list:
    return eval_closed(jaxpr, *operands)


def _masked(
    cond_consts: list,
    body_consts: list,
    carry: list,
    pred: ClosedJaxpr,
    body: ClosedJaxpr,
    same: list[bool],
    run: Callable[..., list],
    every: np.ndarray,
) -> list:
    """Return the loop over a batch: it runs while any example goes on, and finished ones stay put.

    Effects of the body take place for finished examples too, as long as any example goes on;
    checks are of those alone that do.

    Which examples go on is carried in front. same: the carries that the body leaves as they are.
    run(jaxpr, active, operands): the condition or the body for all examples. every: true for each.
    """
    if any(WRITES in b.effects for b in (pred, body)):
        raise TypeError(
            "while_loop: the condition is batched by vmap, and what runs for some examples only "
            "writes to a Ref of a kernel; use a mask instead: pl.store(ref, i, x, mask=...)"
        )
    nc, nb = len(cond_consts), len(body_consts)
    avals = [typeof(x) for x in (*cond_consts, *body_consts, *carry)]

    def step(*args: object) -> list:
        cond_consts, body_consts, active, old = (
            args[:nc],
            args[nc : nc + nb],
            args[nc + nb],
            args[nc + nb + 1 :],
        )
        new = run(body, active, (*body_consts, *old))
        kept = []
        # Carries that no example changes need no selection.
        for a, b, unchanged in zip(old, new, same, strict=True):
            kept.append(a if unchanged else select_rows(active, a, b))
        (following,) = run(pred, active, (*cond_consts, *kept))
        return [following, *kept]

    # Which examples go on is carried; the loop ends when none does.
    (active,) = run(pred, every, (*cond_consts, *carry))
    mask = typeof(active)
    new_body, extra = body.memo(
        ("masked", pred, tuple(avals), nc),
        lambda: closed_call_jaxpr(
            step, [*avals[: nc + nb], mask, *avals[nc + nb :]], body.jaxpr.debug
        ),
    )
    new_cond, _ = body.memo(
        ("masked condition", tuple(avals), nc, nb),
        lambda: closed_call_jaxpr(
            lambda active, *rest: [reduce_or_p.bind(active, axes=(0,))],
            [mask, *avals[nc + nb :]],
            "any",
        ),
    )
    outs = while_p.bind(
        *extra,
        *cond_consts,
        *body_consts,
        active,
        *carry,
        cond_jaxpr=new_cond,
        body_jaxpr=new_body,
        cond_nconsts=0,
        body_nconsts=len(extra) + nc + nb,
    )
    return outs[1:]


# Dead code -------------------------------------------------------------------------------------


def _dce(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    """Drop carries that neither the results nor the condition depend on."""
    p = eqn.rule_params
    cn, bn = p["cond_nconsts"], p["body_nconsts"]
    pred, cond_read = dce_jaxpr(p["cond_jaxpr"].jaxpr, [True])
    keep = [a or b for a, b in zip(used, cond_read[cn:], strict=True)]
    while True:
        body, read = dce_jaxpr(p["body_jaxpr"].jaxpr, keep)
        joined = [a or b for a, b in zip(keep, read[bn:], strict=True)]
        if joined == keep:
            break
        keep = joined
    keep_cond, keep_body = cond_read[:cn], read[:bn]
    if all(keep) and all(keep_cond) and all(keep_body):
        return eqn
    params = {
        "cond_jaxpr": ClosedJaxpr(
            pred.replace(invars=pick(pred.invars, [*keep_cond, *keep])), p["cond_jaxpr"].consts
        ),
        "body_jaxpr": ClosedJaxpr(
            body.replace(invars=pick(body.invars, [*keep_body, *keep])), p["body_jaxpr"].consts
        ),
        "cond_nconsts": sum(keep_cond),
        "body_nconsts": sum(keep_body),
    }
    return eqn.replace(
        invars=pick(eqn.invars, [*keep_cond, *keep_body, *keep]),
        outvars=pick(eqn.outvars, keep),
        params=params,
    )


# Lowering --------------------------------------------------------------------------------------


def _lower(
    ctx: RuleContext,
    *operands: ir.Value,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list:
    cn, bn = cond_nconsts, cond_nconsts + body_nconsts
    n = len(operands)
    tokens = ctx.function.tokens
    effects = ordered_effects_of(cond_jaxpr, body_jaxpr)
    # A condition with ordered effects cannot thread tokens out of its region: it runs before the
    # loop and at the end of the body, and the loop carries its result.
    carried = bool(ordered_effects_of(cond_jaxpr))

    def holds(operands: Sequence[Any]) -> Any:
        return ctx.inline(cond_jaxpr, *operands[:cn], *operands[bn:n])[0]

    lead = [holds(operands)] if carried else []
    k = len(lead)
    carry_avals = body_jaxpr.in_avals[body_nconsts:]
    operands = (*operands[:bn], *whole(ctx, operands[bn:], carry_avals))
    values = [*lead, *operands, *(tokens[e] for e in effects)]
    types = [v.type for v in values]
    loop = ctx.operation("stablehlo.while", values, types, regions=2)

    def condition(*v: ir.Value) -> list:
        return [v[0]] if carried else [holds(v)]

    def body(*v: ir.Value) -> list:
        v = v[k:]
        tokens.update(zip(effects, v[n:], strict=True))
        carry = whole(ctx, v[bn:n], carry_avals, parts=True)
        outs = whole(ctx, ctx.inline(body_jaxpr, *v[cn:bn], *carry), carry_avals)
        following = [*v[:bn], *outs]
        first = [holds(following)] if carried else []
        return [*first, *following, *(tokens[e] for e in effects)]

    with ctx.module.decided_by(cond_jaxpr.out_avals[0]):
        ctx.region(loop, 0, types, condition)
        ctx.region(loop, 1, types, body)
    results = list(loop.results)[k:]
    tokens.update(zip(effects, results[n:], strict=True))
    return whole(ctx, results[bn:n], carry_avals, parts=True)


def _depends(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    consts = list(marked[n_cond : n_cond + n_body])
    carry = closed_under(
        marked[n_cond + n_body :],
        lambda carry: program_depends(params["body_jaxpr"], [*consts, *carry]),
    )
    decides = program_depends(params["cond_jaxpr"], [*marked[:n_cond], *carry])[0]
    if not decides:
        return carry
    same = passed_by_body(params["body_jaxpr"], n_body, len(carry))
    return [marked or not s for marked, s in zip(carry, same, strict=True)]


while_p = Primitive(
    "while",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    impl=eager(lambda params: params["body_jaxpr"], lambda: while_p),
    named_axes=lambda params: join_axes(params["cond_jaxpr"], params["body_jaxpr"]),
    inner=_inner,
    depends=_depends,
    dce=_dce,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)

# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""Bodies of a scan's derivatives: split into primal and tangent, and transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autodiff.dce import dce_closed
from weft.autodiff.jvp import LinearizedJaxpr, linearize_jaxpr
from weft.autodiff.transpose import transpose_jaxpr
from weft.core.jaxpr import NO_EFFECTS, ClosedJaxpr, Eqn, Jaxpr, Var
from weft.core.masks import pick
from weft.ops.control.common import carry_fixpoint, dependents, needed_eqns
from weft.ops.control.scan_products import StackedProducts
from weft.ops.control.scan_sums import Sums


def carry_nonzero(
    jaxpr: ClosedJaxpr, nonzero: Sequence[bool], num_consts: int, num_carry: int
) -> list[bool]:
    """Return the nonzero mask of all inputs, with the carries that become nonzero in the loop."""
    end = num_consts + num_carry
    consts, xs = list(nonzero[:num_consts]), list(nonzero[end:])
    carry = carry_fixpoint(
        jaxpr.jaxpr, nonzero[num_consts:end], lambda m: [*consts, *m, *xs], differentiable=True
    )
    return [*consts, *carry, *xs]


class SplitBody:
    """A scan's body split by linearization into a primal and a tangent body.

    `hoist` computes the residuals that do not change from one iteration to the next. Residuals
    are (kind, index): a "const" or "xs" input, a "hoisted" value, or an output "ys".
    """

    __slots__ = ("hoist", "hoisted_read", "out_nonzero", "primal", "residuals", "tangent")

    hoist: tuple[Jaxpr, list] | None
    hoisted_read: list[bool]
    out_nonzero: list[bool]
    primal: ClosedJaxpr
    residuals: tuple[list[tuple[str, int]], list[tuple[str, int]]]
    tangent: ClosedJaxpr


def _made_of(v: object, jaxpr: Jaxpr, num_consts: int) -> bool:
    """Return whether the equations for v read nothing but the first inputs.

    A call may read more than a result of it depends on, where it cannot be cut.
    """
    changing = set(jaxpr.invars[num_consts:])
    return not any(changing.intersection(eqn.invars) for eqn in needed_eqns(jaxpr.eqns, [v]))


def _without(eqn: Eqn, replaced: set[Any]) -> Eqn:
    """Replace the equation's results that come from elsewhere by ones that nobody reads."""
    if replaced.isdisjoint(eqn.outvars):
        return eqn
    return eqn.replace(outvars=[Var(v.aval) if v in replaced else v for v in eqn.outvars])


def split_body(
    jaxpr: ClosedJaxpr, nonzero: tuple[bool, ...], num_consts: int, num_carry: int
) -> SplitBody:
    n_out = len(jaxpr.out_avals)
    carry_mask = nonzero[num_consts : num_consts + num_carry]
    lin = linearize_jaxpr(jaxpr, nonzero, [*carry_mask, *(False,) * (n_out - num_carry)])
    tangent = dce_closed(lin.tangent)[0]
    t = tangent.jaxpr
    residuals, stacked, hoisted = _residual_slots(lin, t, num_consts, num_carry, n_out)
    split = SplitBody()
    _split_primal(split, lin.primal, num_consts, n_out, stacked, hoisted)
    kept = {i: r for i, r in enumerate(residuals) if r is not None}
    invariant = [i for i, (kind, _) in kept.items() if kind in ("const", "hoisted")]
    changing = [i for i, (kind, _) in kept.items() if kind in ("xs", "ys")]
    a, b = sum(nonzero[:num_consts]), sum(carry_mask)
    first = len(residuals)
    order = [
        *invariant,
        *range(first, first + a),
        *range(first + a, first + a + b),
        *changing,
        *range(first + a + b, len(t.invars)),
    ]
    split.tangent = ClosedJaxpr(t.replace(invars=[t.invars[i] for i in order]), tangent.consts)
    split.residuals = ([kept[i] for i in invariant], [kept[i] for i in changing])
    split.out_nonzero = lin.nonzero_out
    return split


def _residual_slots(
    lin: LinearizedJaxpr, t: Jaxpr, num_consts: int, num_carry: int, n_out: int
) -> tuple[list, list, list]:
    """Return where the tangent body finds each residual, None for one it does not read.

    Also the values that the primal body stacks for it, and those that are made before the loop.
    """
    p, end = lin.primal.jaxpr, num_consts + num_carry
    read = {v for eqn in t.eqns for v in eqn.invars if v.__class__ is Var}
    read.update(v for v in t.outvars if v.__class__ is Var)
    varying = dependents(p, p.invars[num_consts:])
    varying.update(v for eqn in p.eqns if eqn.effects for v in eqn.outvars)
    varying = dependents(p, varying)
    ys = {v: i for i, v in enumerate(p.outvars[num_carry:n_out]) if v.__class__ is Var}
    stacked: list[Any] = []
    hoisted: list[Any] = []
    slots: dict[Any, tuple[str, int]] = {}
    extra = iter(p.outvars[n_out:])
    residuals: list[tuple[str, int] | None] = []
    for var, position in zip(t.invars, lin.residual_inputs, strict=False):
        v = next(extra) if position is None else p.invars[position]
        if var not in read:
            residuals.append(None)
            continue
        slot = slots.get(v)
        if slot is None:
            if position is not None and position < num_consts:
                slot = ("const", position)
            elif position is not None and position >= end:
                slot = ("xs", position)
            elif v in varying or not _made_of(v, p, num_consts):
                if v in ys:
                    slot = ("ys", ys[v])
                else:
                    slot = ("ys", n_out - num_carry + len(stacked))
                    stacked.append(v)
            else:
                slot = ("hoisted", len(hoisted))
                hoisted.append(v)
            slots[v] = slot
        residuals.append(slot)
    return residuals, stacked, hoisted


def _split_primal(
    split: SplitBody,
    primal: ClosedJaxpr,
    num_consts: int,
    n_out: int,
    stacked: list[Any],
    hoisted: list[Any],
) -> None:
    """Set the body that stacks residuals, and the program of what is made before the loop."""
    p, consts = primal.jaxpr, primal.consts
    split.hoist = None
    body = p.replace(outvars=[*p.outvars[:n_out], *stacked])
    if hoisted:
        eqns = needed_eqns(p.eqns, hoisted)
        split.hoist = (
            Jaxpr(p.constvars, p.invars[:num_consts], hoisted, eqns, NO_EFFECTS, p.debug),
            consts,
        )
        available = set(hoisted)
        constvars = [v for v in p.constvars if v not in available]
        body = body.replace(
            invars=[*p.invars[:num_consts], *hoisted, *p.invars[num_consts:]],
            eqns=[
                _without(e, available)
                for e in p.eqns
                if not e.outvars or not available.issuperset(e.outvars)
            ],
            constvars=constvars,
        )
        consts = [c for v, c in zip(p.constvars, consts, strict=True) if v not in available]
    split.primal, read_inputs = dce_closed(ClosedJaxpr(body, consts))
    # Hoisted values that only the tangent body reads are no operands of the primal one.
    split.hoisted_read = read_inputs[num_consts : num_consts + len(hoisted)]
    unread = {v for v, r in zip(hoisted, split.hoisted_read, strict=True) if not r}
    if unread:
        pj = split.primal.jaxpr
        split.primal = ClosedJaxpr(
            pj.replace(invars=[v for v in pj.invars if v not in unread]), split.primal.consts
        )


class BackwardBody:
    """The body of a transposed scan; see the transposition in scan_op.py."""

    __slots__ = ("ct_consts", "ct_xs", "jaxpr", "late", "products", "sources")

    ct_consts: list[bool]
    ct_xs: list[bool]
    jaxpr: ClosedJaxpr
    products: StackedProducts
    late: list[Any]  # of the constants' cotangents, those that are products behind the loop
    sources: dict[Any, int]  # for their operands, which of the stacked operands and results


def backward_body(
    jaxpr: ClosedJaxpr,
    linear: tuple[bool, ...],
    nonzero_ys: tuple[bool, ...],
    num_consts: int,
    num_carry: int,
) -> BackwardBody:
    """Carry accumulators of the constants' cotangents, then cotangents of the carry."""
    end = num_consts + num_carry
    lin_consts, lin_carry, lin_xs = linear[:num_consts], linear[num_consts:end], linear[end:]
    back, nonzero = transpose_jaxpr(
        jaxpr,
        linear,
        [*lin_carry, *nonzero_ys],
        [*(False,) * num_consts, *lin_carry, *(False,) * len(lin_xs)],
    )
    j = back.jaxpr
    # The transposed body takes what is known first, then cotangents of carry and of ys.
    is_constant = [not m for m in linear]
    a, b, c = (
        sum(is_constant[:num_consts]),
        sum(is_constant[num_consts:end]),
        sum(is_constant[end:]),
    )
    k = sum(lin_carry)
    start = a + b + c
    n_consts = sum(lin_consts)
    flags = iter(nonzero)
    ct_consts = [next(flags) for _ in range(n_consts)]
    for _ in range(k):
        next(flags)
    ct_xs = list(flags)
    m = sum(ct_consts)
    accumulators, totals, eqns = [], [], list(j.eqns)
    ins = j.invars
    slices = [*ins[start + k :], *ins[a:start]]
    result = BackwardBody()
    result.products = StackedProducts(eqns, j.outvars[:m], slices, [*j.constvars, *ins[:a]])
    stacked = [v for v in result.products.operands if v not in slices]
    result.sources = {v: i for i, v in enumerate([*slices, *stacked])}
    result.late = pick(j.outvars[:m], result.products.taken)
    # Constants are read in every step: their cotangents are summed in the carry, or in a product.
    sums = Sums(eqns, j.outvars)
    for v in pick(j.outvars[:m], [not t for t in result.products.taken]):
        accumulators.append(Var(v.aval.strip_weak_type()))
        totals.append(sums.add(accumulators[-1], v))
    carried = [
        sums.continued(ct, v)
        for ct, v in zip(ins[start : start + k], j.outvars[m : m + k], strict=True)
    ]
    outvars = [*totals, *carried, *j.outvars[m + k :], *stacked]
    # Put into scan's order: constants, carry, slices.
    result.jaxpr = ClosedJaxpr(
        j.replace(
            invars=[
                *ins[:a],
                *accumulators,
                *ins[start : start + k],
                *slices,
            ],
            outvars=outvars,
            eqns=eqns if j.effects else needed_eqns(eqns, outvars),
        ),
        back.consts,
    )
    result.ct_consts, result.ct_xs = ct_consts, ct_xs
    return result

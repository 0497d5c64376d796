# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""The scan op: types, derivatives, transposition, batching, dead code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.dce import dce_closed, dce_jaxpr
from weft.autodiff.dependence import program_depends
from weft.autodiff.jvp import (
    LinearizedJaxpr,
    filled_cotangents,
    filled_tangents,
    jvp_jaxpr,
    linearize_jaxpr,
)
from weft.autodiff.transpose import transpose_jaxpr
from weft.autodiff.vmap import AxisData, add_dim, batch_jaxpr, move_dim, remove_dim
from weft.autodiff.zeros import add_any_p, instantiate_zero
from weft.core.jaxpr import NO_EFFECTS, ClosedJaxpr, Eqn, Jaxpr, Var, eval_jaxpr
from weft.core.masks import closed_under, pick, unpick
from weft.core.primitive import Primitive
from weft.core.source import UNKNOWN
from weft.core.state import state
from weft.core.undefined import is_undefined
from weft.ops.control.common import (
    carry_fixpoint,
    dependents,
    eager,
    join_axes,
    needed_eqns,
    reorder,
)
from weft.ops.control.scan_lower import lower_scan
from weft.ops.control.scan_products import StackedProducts

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.ref import AbstractRef
    from weft.core.undefined import UndefinedPrimal
    from weft.typing import ArrayLike

# Types -----------------------------------------------------------------------------------------


def _abstract(
    *avals: ShapedArray | AbstractRef,
    jaxpr: ClosedJaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    **params: object,
) -> list:
    ys = [_stacked(a, length) for a in jaxpr.out_avals[num_carry:]]
    return [*jaxpr.out_avals[:num_carry], *ys]


def _stacked(aval: ShapedArray, length: int) -> Any:
    return add_dim(aval, 0, AxisData(None, length))


def _inner(avals: list, outs: list, params: dict) -> Iterator[tuple]:
    start = params["num_consts"] + params["num_carry"]
    jaxpr, n = params["jaxpr"], params["num_carry"]
    xs, ys = avals[start:], outs[n:]
    yield "the body", jaxpr.in_avals, [*avals[:start], *(remove_dim(a, 0) for a in xs)]
    yield (
        "the results of the body",
        jaxpr.out_avals,
        [*avals[start - n : start], *(remove_dim(a, 0) for a in ys)],
    )
    for what, stacked in (("xs", xs), ("ys", ys)):
        lengths = [a.shape[0] for a in stacked]
        yield f"the lengths of {what}", lengths, [params["length"]] * len(lengths)


# Derivatives -----------------------------------------------------------------------------------


def _carry_nonzero(
    jaxpr: ClosedJaxpr, nonzero: Sequence[bool], num_consts: int, num_carry: int
) -> list[bool]:
    """The nonzero mask of all inputs, with the carries that become nonzero in the loop."""
    end = num_consts + num_carry
    consts, xs = list(nonzero[:num_consts]), list(nonzero[end:])
    carry = carry_fixpoint(
        jaxpr.jaxpr,
        nonzero[num_consts:end],
        lambda marked: [*consts, *marked, *xs],
        differentiable=True,
    )
    return [*consts, *carry, *xs]


def _jvp(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: object,
) -> tuple:
    n, n_out, end = len(primals), len(jaxpr.out_avals), num_consts + num_carry
    nonzero = _carry_nonzero(jaxpr, [t is not None for t in tangents], num_consts, num_carry)
    carry_mask = nonzero[num_consts:end]
    pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero, [*carry_mask, *(False,) * (n_out - num_carry)])
    counts = [sum(nonzero[:num_consts]), sum(carry_mask), sum(nonzero[end:])]
    t0 = list(range(n, n + counts[0]))
    t1 = list(range(n + counts[0], n + counts[0] + counts[1]))
    t2 = list(range(n + counts[0] + counts[1], n + sum(counts)))
    inputs = [*range(num_consts), *t0, *range(num_consts, end), *t1, *range(end, n), *t2]
    first_ys = n_out + counts[1]
    outputs = [
        *range(num_carry),
        *range(n_out, first_ys),
        *range(num_carry, n_out),
        *range(first_ys, len(pushed.out_avals)),
    ]
    filled = filled_tangents(pick(primals, nonzero), pick(tangents, nonzero))
    t_of = dict(zip(range(n, n + len(filled)), filled, strict=True))
    outs = scan_p.bind(
        *(primals[i] if i < n else t_of[i] for i in inputs),
        jaxpr=reorder(pushed, inputs, outputs),
        num_consts=num_consts + counts[0],
        num_carry=num_carry + counts[1],
        **params,
    )
    by_output = dict(zip(outputs, outs, strict=True))
    in_order = [by_output[i] for i in range(len(outputs))]
    return in_order[:n_out], unpick(in_order[n_out:], out_nonzero)


class _Split:
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
    """The equation with results nobody reads in the place of those that come from elsewhere."""
    if replaced.isdisjoint(eqn.outvars):
        return eqn
    return eqn.replace(outvars=[Var(v.aval) if v in replaced else v for v in eqn.outvars])


def _split_body(
    jaxpr: ClosedJaxpr, nonzero: tuple[bool, ...], num_consts: int, num_carry: int
) -> _Split:
    n_out = len(jaxpr.out_avals)
    carry_mask = nonzero[num_consts : num_consts + num_carry]
    lin = linearize_jaxpr(jaxpr, nonzero, [*carry_mask, *(False,) * (n_out - num_carry)])
    tangent = dce_closed(lin.tangent)[0]
    t = tangent.jaxpr
    residuals, stacked, hoisted = _residual_slots(lin, t, num_consts, num_carry, n_out)
    split = _Split()
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
    split: _Split,
    primal: ClosedJaxpr,
    num_consts: int,
    n_out: int,
    stacked: list[Any],
    hoisted: list[Any],
) -> None:
    """Sets the body that stacks residuals, and the program of what is made before the loop."""
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


def _linearize(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: object,
) -> tuple:
    n_out, end = len(jaxpr.out_avals), num_consts + num_carry
    nonzero = tuple(_carry_nonzero(jaxpr, [t is not None for t in tangents], num_consts, num_carry))
    split = jaxpr.memo(
        ("scan split", nonzero, num_consts, num_carry),
        lambda: _split_body(jaxpr, nonzero, num_consts, num_carry),
    )
    # What depends on constants only is computed once, in front of the loop.
    hoisted: list = []
    if split.hoist is not None:
        hoist, consts = split.hoist
        hoisted = eval_jaxpr(hoist, consts, *primals[:num_consts])
    outs = scan_p.bind(
        *primals[:num_consts],
        *pick(hoisted, split.hoisted_read),
        *primals[num_consts:],
        jaxpr=split.primal,
        num_consts=num_consts + sum(split.hoisted_read),
        num_carry=num_carry,
        **params,
    )
    if not any(split.out_nonzero):
        return outs[:n_out], [None] * n_out
    # Residuals that change from step to step are stacked results; others are operands.
    ys = outs[num_carry:]
    sources = {"const": primals, "hoisted": hoisted, "xs": primals, "ys": ys}
    invariant, changing = ([sources[k][i] for k, i in part] for part in split.residuals)
    t_consts = pick(tangents[:num_consts], nonzero[:num_consts])
    carried = [i for i in range(num_consts, end) if nonzero[i]]
    t_carry = filled_tangents([primals[i] for i in carried], [tangents[i] for i in carried])
    t_xs = pick(tangents[end:], nonzero[end:])
    tangent_outs = scan_p.bind(
        *invariant,
        *t_consts,
        *t_carry,
        *changing,
        *t_xs,
        jaxpr=split.tangent,
        num_consts=len(invariant) + len(t_consts),
        num_carry=len(t_carry),
        **params,
    )
    return outs[:n_out], unpick(tangent_outs, split.out_nonzero)


class _Backward:
    """The body of a transposed scan; see `_transpose`."""

    __slots__ = ("ct_consts", "ct_xs", "jaxpr", "late", "products", "sources")

    ct_consts: list[bool]
    ct_xs: list[bool]
    jaxpr: ClosedJaxpr
    products: StackedProducts
    late: list[Any]  # of the constants' cotangents, those that are products behind the loop
    sources: dict[Any, int]  # for their operands, which of the stacked operands and results


def _backward_body(
    jaxpr: ClosedJaxpr,
    linear: tuple[bool, ...],
    nonzero_ys: tuple[bool, ...],
    num_consts: int,
    num_carry: int,
) -> _Backward:
    """Accumulators of the constants' cotangents, then cotangents of the carry, are carried."""
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
    result = _Backward()
    result.products = StackedProducts(eqns, j.outvars[:m], slices, [*j.constvars, *ins[:a]])
    stacked = [v for v in result.products.operands if v not in slices]
    result.sources = {v: i for i, v in enumerate([*slices, *stacked])}
    result.late = pick(j.outvars[:m], result.products.taken)
    # Constants are read in every step: their cotangents are summed in the carry, or in a product.
    for v in pick(j.outvars[:m], [not t for t in result.products.taken]):
        aval = v.aval.strip_weak_type()
        acc, total = Var(aval), Var(aval)
        eqns.append(Eqn(add_any_p, [acc, v], [total], {}, NO_EFFECTS, state.source or UNKNOWN))
        accumulators.append(acc)
        totals.append(total)
    outvars = [*totals, *j.outvars[m:], *stacked]
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


def _transpose(
    cts: list,
    *args: ArrayLike | UndefinedPrimal,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list:
    end = num_consts + num_carry
    undefined = [is_undefined(x) for x in args]
    consts, xs = undefined[:num_consts], undefined[end:]
    # A carry is linear if it starts so, or a step makes it so.
    lin_carry = carry_fixpoint(
        jaxpr.jaxpr,
        undefined[num_consts:end],
        lambda marked: [*consts, *marked, *xs],
        differentiable=False,
    )
    linear = (*consts, *lin_carry, *xs)
    counters: list = []
    # Carries that are not, such as counters, are computed again for each step, forwards.
    if not all(lin_carry):
        counters = _known_carries(
            args, jaxpr, linear, length, reverse, unroll, num_consts, num_carry
        )
    nonzero_ys = tuple(ct is not None for ct in cts[num_carry:])
    back = jaxpr.memo(
        ("scan transpose", linear, nonzero_ys, num_consts, num_carry),
        lambda: _backward_body(jaxpr, linear, nonzero_ys, num_consts, num_carry),
    )
    taken = back.products.taken
    n_acc = len(taken) - sum(taken)
    avals = back.jaxpr.in_avals
    known_consts = [x for x in args[:num_consts] if not is_undefined(x)]
    start = len(known_consts)
    accumulators = [instantiate_zero(a) for a in avals[start : start + n_acc]]
    carry_avals = jaxpr.in_avals[num_consts:end]
    ct_carry = filled_cotangents(pick(carry_avals, lin_carry), pick(cts[:num_carry], lin_carry))
    slices = [
        *(ct for ct in cts[num_carry:] if ct is not None),
        *counters,
        *(x for x in args[end:] if not is_undefined(x)),
    ]
    # The same number of steps, in the other direction.
    outs = scan_p.bind(
        *known_consts,
        *accumulators,
        *ct_carry,
        *slices,
        jaxpr=back.jaxpr,
        length=length,
        reverse=not reverse,
        unroll=unroll,
        num_consts=start,
        num_carry=n_acc + len(ct_carry),
    )
    cotangents = iter(outs)
    sums = unpick(cotangents, [not t for t in taken])
    carries = unpick(cotangents, lin_carry)
    ct_xs = unpick(unpick(cotangents, back.ct_xs), xs)
    stacked = [*slices, *cotangents]
    sources = {v: stacked[i] for v, i in back.sources.items()}
    late = [back.products.total(v, sources) for v in back.late]
    sums = unpick(late, taken, sums)
    wanted = zip(carries, undefined[num_consts:end], strict=True)
    totals = unpick(unpick(sums, back.ct_consts), consts)
    return [*totals, *(ct if undef else None for ct, undef in wanted), *ct_xs]


def _known_carries(
    args: Sequence[Any],
    jaxpr: ClosedJaxpr,
    linear: Sequence[bool],
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list:
    """Return the values in each iteration of nonlinear carries, such as counters."""
    end = num_consts + num_carry
    is_constant = [not m for m in linear]
    j = jaxpr.jaxpr
    carried = [
        v for v, k in zip(j.invars[num_consts:end], is_constant[num_consts:end], strict=True) if k
    ]
    outs = pick(j.outvars[:num_carry], is_constant[num_consts:end])
    body = ClosedJaxpr(
        j.replace(
            invars=pick(j.invars, is_constant),
            outvars=[*outs, *carried],
            eqns=needed_eqns(j.eqns, outs),
            effects=NO_EFFECTS,
        ),
        jaxpr.consts,
    )
    result = scan_p.bind(
        *pick(args, is_constant),
        jaxpr=dce_closed(body)[0],
        length=length,
        reverse=reverse,
        unroll=unroll,
        num_consts=sum(is_constant[:num_consts]),
        num_carry=len(carried),
    )
    return result[len(carried) :]


# Batching --------------------------------------------------------------------------------------


def _batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: object,
) -> tuple:
    end = num_consts + num_carry
    batched = [d is not None for d in dims]
    consts, carry, xs = batched[:num_consts], batched[num_consts:end], batched[end:]
    n_ys = len(jaxpr.out_avals) - num_carry
    if not join_axes(jaxpr):
        # Without collectives what depends on a batched value is batched.
        carry = carry_fixpoint(
            jaxpr.jaxpr, carry, lambda m: [*consts, *m, *xs], differentiable=False
        )

    def body(carry: list[bool]) -> tuple[ClosedJaxpr, list[bool]]:
        return batch_jaxpr(jaxpr, axis, [*consts, *carry, *xs], [*carry, *(False,) * n_ys])

    carry = closed_under(carry, lambda carry: body(carry)[1])
    inner, out_batched = body(carry)
    moved = []
    for i, (x, d) in enumerate(zip(args, dims, strict=True)):
        if i < num_consts or i >= end:
            moved.append(x if d is None else move_dim(x, d, int(i >= end), axis))
        else:
            moved.append(move_dim(x, d, 0, axis) if carry[i - num_consts] else x)
    outs = scan_p.bind(*moved, jaxpr=inner, num_consts=num_consts, num_carry=num_carry, **params)
    out_dims = [0 if b else None for b in carry]
    return outs, out_dims + [1 if b else None for b in out_batched[num_carry:]]


# Dead code -------------------------------------------------------------------------------------


def _dce(eqn: Eqn, used: Sequence[bool]) -> Eqn | None:
    """Drops carries, stacked results and operands that nothing reads."""
    jaxpr: ClosedJaxpr = eqn.params["jaxpr"]
    num_consts, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    end = num_consts + num_carry
    used_carry, used_ys = list(used[:num_carry]), list(used[num_carry:])
    while True:
        body, read = dce_jaxpr(jaxpr.jaxpr, [*used_carry, *used_ys])
        joined = [a or b for a, b in zip(used_carry, read[num_consts:end], strict=True)]
        if joined == used_carry:
            break
        used_carry = joined
    keep = [*read[:num_consts], *used_carry, *read[end:]]
    used = [*used_carry, *used_ys]
    if all(keep) and all(used):
        return eqn
    closed = ClosedJaxpr(body.replace(invars=pick(body.invars, keep)), jaxpr.consts)
    params = {
        **eqn.params,
        "jaxpr": closed,
        "num_consts": sum(keep[:num_consts]),
        "num_carry": sum(used_carry),
    }
    return eqn.replace(
        invars=pick(eqn.invars, keep), outvars=pick(eqn.outvars, used), params=params
    )


def _depends(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    end = num_consts + num_carry

    def outs(carry: list[bool]) -> list[bool]:
        return program_depends(params["jaxpr"], [*marked[:num_consts], *carry, *marked[end:]])

    carry = closed_under(marked[num_consts:end], outs)
    return [*carry, *outs(carry)[num_carry:]]


scan_p = Primitive(
    "scan",
    abstract=_abstract,
    effects=lambda avals, params: params["jaxpr"].effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=lower_scan,
    impl=eager(lambda params: params["jaxpr"], lambda: scan_p),
    named_axes=lambda params: join_axes(params["jaxpr"]),
    inner=_inner,
    depends=_depends,
    dce=_dce,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


__all__ = ["scan_p"]

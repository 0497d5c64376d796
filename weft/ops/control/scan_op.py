# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""The scan op: types, derivatives, transposition, batching, dead code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.dce import dce_closed, dce_jaxpr
from weft.autodiff.dependence import program_depends
from weft.autodiff.jvp import filled_cotangents, filled_tangents, jvp_jaxpr
from weft.autodiff.vmap import AxisData, add_dim, batch_jaxpr, move_dim, remove_dim
from weft.autodiff.zeros import instantiate_zero
from weft.core.jaxpr import NO_EFFECTS, ClosedJaxpr, Eqn, eval_jaxpr
from weft.core.masks import closed_under, pick, unpick
from weft.core.primitive import Primitive
from weft.core.undefined import is_undefined
from weft.ops.control.common import carry_fixpoint, eager, join_axes, needed_eqns, reorder
from weft.ops.control.scan_bodies import backward_body, carry_nonzero, split_body
from weft.ops.control.scan_lower import lower_scan

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
    for kind, stacked in (("xs", xs), ("ys", ys)):
        lengths = [a.shape[0] for a in stacked]
        yield f"the lengths of {kind}", lengths, [params["length"]] * len(lengths)


# Derivatives -----------------------------------------------------------------------------------


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
    nonzero = carry_nonzero(jaxpr, [t is not None for t in tangents], num_consts, num_carry)
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
    nonzero = tuple(carry_nonzero(jaxpr, [t is not None for t in tangents], num_consts, num_carry))
    split = jaxpr.memo(
        ("scan split", nonzero, num_consts, num_carry),
        lambda: split_body(jaxpr, nonzero, num_consts, num_carry),
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
        lambda: backward_body(jaxpr, linear, nonzero_ys, num_consts, num_carry),
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
    """Drop carries, stacked results and operands that nothing reads."""
    jaxpr: ClosedJaxpr = eqn.rule_params["jaxpr"]
    num_consts, num_carry = eqn.rule_params["num_consts"], eqn.rule_params["num_carry"]
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
        **eqn.rule_params,
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

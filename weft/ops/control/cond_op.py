# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""The cond op: one of several branches by an index, with all its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.dce import dce_jaxpr
from weft.autodiff.dependence import program_depends
from weft.autodiff.jvp import jvp_jaxpr, linearize_jaxpr
from weft.autodiff.transpose import transpose_jaxpr
from weft.autodiff.vmap import AxisData, batch_jaxpr, dims_in_front, move_dim, to_front
from weft.autodiff.zeros import instantiate_zero, stop_gradient
from weft.core import dtypes
from weft.core.aval import Mat, ShapedArray
from weft.core.effects import CHECK, WRITES
from weft.core.jaxpr import ClosedJaxpr, Eqn, Var, eval_closed
from weft.core.masks import pick, unpick
from weft.core.primitive import Primitive
from weft.core.provided import run_checked_branch
from weft.core.trace import trace_to_jaxpr, typeof
from weft.core.undefined import is_undefined
from weft.ops.control.common import eager, join_axes, ordered_effects_of, select_rows
from weft.ops.control.divergence import check_derivative
from weft.ops.control.passing import passed_by_all
from weft.ops.elementwise_api import convert, eq

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import EqualDim
    from weft.core.ref import AbstractRef
    from weft.lowering.context import RuleContext

Branches = tuple[ClosedJaxpr, ...]


def _abstract(index: ShapedArray, *avals: ShapedArray | AbstractRef, branches: Branches) -> list:
    outs = list(branches[0].out_avals)
    if index.mat.varying:
        # Devices may take different branches, so the results vary where the index does. A partial
        # sum stays one.
        axes = index.mat.varying
        outs = [
            o.update(
                mat=o.mat.replace(
                    varying=o.mat.varying | (axes - o.mat.unreduced), reduced=o.mat.reduced - axes
                )
            )
            for o in outs
        ]
    return outs


def _inner(avals: list, outs: list, params: dict) -> Iterator[tuple]:
    # Along axes by which devices choose their branches differently, types say nothing: what is
    # equal on the devices that take a branch differs from what the others have.
    axes = avals[0].mat.varying
    for i, branch in enumerate(params["branches"]):
        for label, has, must in (
            (f"branch {i}", branch.in_avals, avals[1:]),
            (f"the results of branch {i}", branch.out_avals, outs),
        ):
            yield label, [_outside(a, axes) for a in has], [_outside(a, axes) for a in must]


def _outside(aval: ShapedArray, axes: frozenset) -> Any:
    """Drop the manual-axis states along these axes from a type."""
    if not axes or not isinstance(aval, ShapedArray):
        return aval
    m = aval.mat
    return aval.update(mat=Mat(m.varying - axes, m.unreduced - axes, m.reduced - axes))


def _effects(avals: list, params: dict) -> frozenset:
    return frozenset().union(*(b.effects for b in params["branches"]))


def _any(masks: Sequence[Sequence[bool]]) -> list[bool]:
    return [any(column) for column in zip(*masks, strict=True)]


# Derivatives -----------------------------------------------------------------------------------


def _jvp(primals: list, tangents: list, *, branches: Branches) -> tuple:
    index, *operands = primals
    nonzero = [t is not None for t in tangents[1:]]
    out_nonzero = _any([jvp_jaxpr(b, nonzero)[1] for b in branches])
    pushed = tuple(jvp_jaxpr(b, nonzero, out_nonzero)[0] for b in branches)
    nonzero_tangents = [t for t in tangents[1:] if t is not None]
    outs = cond_p.bind(index, *operands, *nonzero_tangents, branches=pushed)
    n = len(out_nonzero)
    return outs[:n], unpick(outs[n:], out_nonzero)


class _Split:
    """Branches split by linearization, with one list of residuals for all of them.

    A residual is an operand (`operands`) or one of the slots that the primal branches give after
    their results; a branch gives zeros in the slots it does not use.
    """

    __slots__ = ("operands", "out_nonzero", "primal", "tangent")

    operands: list[int]
    out_nonzero: list[bool]
    primal: Branches
    tangent: Branches


def _split_branches(branches: Branches, nonzero: tuple[bool, ...]) -> _Split:
    out_nonzero = _any([linearize_jaxpr(b, nonzero).nonzero_out for b in branches])
    lins = [linearize_jaxpr(b, nonzero, out_nonzero) for b in branches]
    n_out = len(out_nonzero)
    operands = sorted({p for lin in lins for p in lin.residual_inputs if p is not None})
    # Residuals of one type share a slot: only one branch runs.
    needs = [Counter(lin.primal.out_avals[n_out:]) for lin in lins]
    slots: list[Any] = []
    for aval in dict.fromkeys(a for need in needs for a in need):
        slots += [aval] * max(need[aval] for need in needs)
    primal, tangent = [], []
    for lin in lins:
        free: dict[Any, list[int]] = {}
        for i, aval in enumerate(slots):
            free.setdefault(aval, []).append(i)
        p, t = lin.primal.jaxpr, lin.tangent.jaxpr
        at = [free[v.aval].pop(0) for v in p.outvars[n_out:]]
        primal.append(_with_slots(lin.primal, n_out, slots, at))
        num_residuals = len(lin.residual_inputs)
        invars: list[Any] = [Var(branches[0].in_avals[i]) for i in operands]
        invars += [Var(a) for a in slots]
        extra = iter(at)
        for var, position in zip(t.invars[:num_residuals], lin.residual_inputs, strict=True):
            where = len(operands) + next(extra) if position is None else operands.index(position)
            invars[where] = var
        invars += t.invars[num_residuals:]
        tangent.append(ClosedJaxpr(t.replace(invars=invars), lin.tangent.consts))
    split = _Split()
    split.primal, split.tangent = tuple(primal), tuple(tangent)
    split.operands, split.out_nonzero = operands, out_nonzero
    return split


def _with_slots(closed: ClosedJaxpr, n_out: int, slots: list, at: list[int]) -> ClosedJaxpr:
    """Return the branch giving its residuals at slots `at`, zeros in the others."""
    unused = [i for i in range(len(slots)) if i not in at]
    j = closed.jaxpr
    outs: list[Any] = [None] * len(slots)
    for i, v in zip(at, j.outvars[n_out:], strict=True):
        outs[i] = v
    eqns, constvars, consts = list(j.eqns), list(j.constvars), list(closed.consts)
    if unused:
        zeros, values = trace_to_jaxpr(lambda: [instantiate_zero(slots[i]) for i in unused], [])
        eqns += zeros.eqns
        constvars += zeros.constvars
        consts += values
        for i, v in zip(unused, zeros.outvars, strict=True):
            outs[i] = v
    new = j.replace(constvars=constvars, eqns=eqns, outvars=[*j.outvars[:n_out], *outs])
    return ClosedJaxpr(new, consts)


def _linearize(primals: list, tangents: list, *, branches: Branches) -> tuple:
    index, *operands = primals
    nonzero = tuple(t is not None for t in tangents[1:])
    split = branches[0].memo(
        ("cond split", branches, nonzero), lambda: _split_branches(branches, nonzero)
    )
    outs = cond_p.bind(index, *operands, branches=split.primal)
    n = len(split.out_nonzero)
    if not any(split.out_nonzero):
        return outs[:n], [None] * n
    nonzero_tangents = [t for t in tangents[1:] if t is not None]
    residuals = [operands[i] for i in split.operands]
    out_ts = cond_p.bind(index, *residuals, *outs[n:], *nonzero_tangents, branches=split.tangent)
    return outs[:n], unpick(out_ts, split.out_nonzero)


def _transpose(cts: Any, index: object, *operands: Any, branches: Branches) -> list:
    linear = [is_undefined(x) for x in operands]
    nonzero = [ct is not None for ct in cts]
    has_cotangent = _any([transpose_jaxpr(b, linear, nonzero)[1] for b in branches])
    instantiate = [bool(has_ct) for has_ct in unpick(has_cotangent, linear)]
    back = tuple(transpose_jaxpr(b, linear, nonzero, instantiate)[0] for b in branches)
    check_derivative(index, branches, back)
    constants = [x for x in operands if not is_undefined(x)]
    outs = cond_p.bind(index, *constants, *(c for c in cts if c is not None), branches=back)
    return [None, *unpick(unpick(outs, has_cotangent), linear)]


# Batching --------------------------------------------------------------------------------------


def _batch(axis: AxisData, args: list, dims: list, *, branches: Branches) -> tuple:
    index, *operands = args
    operands, batched = to_front(operands, dims[1:])
    if dims[0] is None:
        masks = [batch_jaxpr(b, axis, batched)[1] for b in branches]
        out_batched = [max(column, key=_differing) for column in zip(*masks, strict=True)]
        inner = tuple(batch_jaxpr(b, axis, batched, out_batched)[0] for b in branches)
        return cond_p.bind(index, *operands, branches=inner), dims_in_front(out_batched)
    return _select(axis, index, dims[0], operands, batched, branches)


def _differing(batched: bool | EqualDim) -> int:
    """0 for a result that is not batched, 1 for one equal in all examples, 2 for others."""
    return 2 if batched is True else int(bool(batched))


def _select(
    axis: AxisData, index: object, dim: int, operands: list, batched: list[bool], branches: Branches
) -> tuple:
    """With a batched index, all branches run and each example takes its own one's results.

    What all branches pass on stays as it is, batched or not.
    """
    if any(WRITES in b.effects for b in branches):
        raise TypeError(
            "cond: the predicate is batched by vmap, and what runs for some examples only "
            "writes to a Ref of a kernel; use a mask instead: pl.store(ref, i, x, mask=...)"
        )
    if ordered_effects_of(*branches):
        raise ValueError(
            "cond: the branches have ordered effects and the predicate is batched by vmap, so "
            "that both branches would run; make the predicate unbatched, or the effects unordered"
        )
    index = move_dim(index, dim, 0, axis)
    results = []
    for i, b in enumerate(branches):
        taken = eq(index, typeof(index).dtype.type(i))
        # Derivatives of a branch that an example does not take must not reach its operands.
        example_operands = [
            _differentiated_where(taken, x) if mapped else x
            for x, mapped in zip(operands, batched, strict=True)
        ]
        if CHECK in b.effects:
            results.append(run_checked_branch(axis, b, taken, example_operands, batched))
        else:
            inner, _ = batch_jaxpr(b, axis, batched, True)
            results.append(eval_closed(inner, *example_operands))
    if len(branches) == 2:
        index = convert(index, dtypes.bool_)
    varying = typeof(index).mat.varying
    outs: list[Any] = []
    out_dims: list[Any] = []
    for i, *cases in zip(passed_by_all(branches), *results, strict=True):
        if i is not None and varying <= typeof(operands[i]).mat.varying:
            outs.append(operands[i])
            out_dims.append(0 if batched[i] else None)
        else:
            outs.append(select_rows(index, *cases))
            out_dims.append(0)
    return outs, out_dims


def _differentiated_where(taken: object, x: Any) -> Any:
    """Return the operand of a branch, without a derivative in examples that do not take the branch.

    There the branch may have none, and its cotangent, 0, times infinity would be NaN.
    """
    aval = typeof(x)
    if hasattr(aval, "finish") or aval.dtype not in dtypes.FLOATS | dtypes.COMPLEX:
        return x
    return select_rows(taken, stop_gradient(x), x)


# Dead code -------------------------------------------------------------------------------------


def _dce(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    branches: Branches = eqn.rule_params["branches"]
    cut = [dce_jaxpr(b.jaxpr, used) for b in branches]
    keep = _any([read for _, read in cut])
    if all(keep) and all(used):
        return eqn
    new = tuple(
        ClosedJaxpr(j.replace(invars=pick(j.invars, keep)), b.consts)
        for (j, _), b in zip(cut, branches, strict=True)
    )
    return eqn.replace(
        invars=[eqn.invars[0], *pick(eqn.invars[1:], keep)],
        outvars=pick(eqn.outvars, used),
        params={"branches": new},
    )


# Lowering --------------------------------------------------------------------------------------


def _lower(ctx: RuleContext, index: ir.Value, *operands: ir.Value, branches: Branches) -> list:
    if len(branches) == 1:
        return ctx.inline(branches[0], *operands)
    chosen = _static_index(index)
    if chosen is not None:
        return ctx.inline(branches[min(max(chosen, 0), len(branches) - 1)], *operands)
    tokens = ctx.function.tokens
    effects = ordered_effects_of(*branches)
    before = {e: tokens[e] for e in effects}
    types = [*ctx.out_types(), *(t.type for t in before.values())]
    case = ctx.operation("stablehlo.case", [index], types, regions=len(branches))

    for i, b in enumerate(branches):

        def body(b: ClosedJaxpr = b) -> list:
            tokens.update(before)
            outs = ctx.inline(b, *operands)
            return [*outs, *(tokens[e] for e in effects)]

        with ctx.module.decided_by(ctx.avals_in[0]):
            ctx.region(case, i, [], body)
    n = len(ctx.avals_out)
    results = list(case.results)
    tokens.update(zip(effects, results[n:], strict=True))
    return results[:n]


def _static_index(index: ir.Value) -> int | None:
    """Return the index where it is a constant of the program, such as the platform's."""
    import numpy as np

    owner = index.owner
    if getattr(owner, "name", None) != "stablehlo.constant":
        return None
    return int(np.asarray(owner.attributes["value"]).reshape(()))


def _depends(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    branches: Sequence[ClosedJaxpr] = params["branches"]
    columns = zip(*(program_depends(b, marked[1:]) for b in branches), strict=True)
    if not marked[0]:
        return [any(column) for column in columns]
    return [i is None or marked[i + 1] for i in passed_by_all(tuple(branches))]


cond_p = Primitive(
    "cond",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    impl=eager(lambda params: params["branches"][0], lambda: cond_p),
    named_axes=lambda params: join_axes(*params["branches"]),
    inner=_inner,
    depends=_depends,
    dce=_dce,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)

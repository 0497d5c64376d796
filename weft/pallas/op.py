# Tests: tests/pallas/api/test_call.py
"""The op behind pallas_call and mpmd_map: a kernel call under every transformation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import has_tangent, jvp_jaxpr, tangent_aval
from weft.autodiff.vmap import AxisData, move_dim
from weft.autodiff.zeros import instantiate_zero
from weft.core.aval import ShapedArray
from weft.core.cell import DISCHARGE, put_back, split_open
from weft.core.effects import DEBUG, WRITES
from weft.core.errors import MissingRuleError
from weft.core.jaxpr import NO_EFFECTS, ClosedJaxpr, Var, eval_closed
from weft.core.masks import unpick
from weft.core.primitive import Primitive
from weft.core.ref import AbstractRef
from weft.core.trace import trace_to_jaxpr, typeof
from weft.ffi.rule import ShardingRule, batch_rule
from weft.ops.control.scan import scan_rows
from weft.pallas.ir import BlockMapping, KernelCall, Program

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Types -----------------------------------------------------------------------------------------


def _abstract(*avals: ShapedArray, call: KernelCall) -> list:
    return list(call.outputs)


def rule_of(call: KernelCall, avals: Sequence[Any], outs: Sequence[Any]) -> ShardingRule:
    """Return the rule along which a call may be split; without one, a rule that splits nothing."""
    return call.sharding_rule or batch_rule(avals, outs, call.num_batch_dims)


def _factors(avals: list, outs: list, *, call: KernelCall) -> str:
    """Return the call's dimensions as factors of explicit sharding types."""
    return rule_of(call, avals, outs).factor_text()


def _effects(avals: Sequence[Any], params: dict) -> frozenset:
    effects = _PRINTS if params["call"].prints else NO_EFFECTS
    return effects | _WRITES if any(isinstance(a, AbstractRef) for a in avals) else effects


_PRINTS, _WRITES = frozenset((DEBUG,)), frozenset((WRITES,))


# Derivatives -----------------------------------------------------------------------------------


def _differentiated(call: KernelCall, nonzero: Sequence[bool]) -> KernelCall:
    """Return the kernel of primals and tangents: for each ref that has one, the ref of its tangent.

    nonzero: which inputs have tangents. Operands: scalars, inputs, their tangents; results:
    outputs, tangents of those that hold floats.
    """
    return call.memo(("jvp", tuple(nonzero)), lambda: _differentiate(call, nonzero))


def _differentiate(call: KernelCall, nonzero: Sequence[bool]) -> KernelCall:
    program = call.programs[0]
    refs = program.jaxpr.in_avals
    n_s, n_i, n_o = call.num_scalars, call.num_inputs, len(call.outputs)
    outs, scratch = refs[n_s + n_i : n_s + n_i + n_o], refs[n_s + n_i + n_o :]
    out_nz = [has_tangent(r.inner) for r in outs]
    scratch_nz = [has_tangent(r.inner) and not r.holds_semaphores for r in scratch]
    pushed, _ = jvp_jaxpr(program.jaxpr, [*(False,) * n_s, *nonzero, *out_nz, *scratch_nz])
    # jvp puts all tangents last; a call wants them among inputs, outputs and scratch.
    j = pushed.jaxpr
    primals, tangents = j.invars[: len(refs)], j.invars[len(refs) :]
    k_i, k_o = sum(nonzero), sum(out_nz)
    invars = [
        *primals[: n_s + n_i],
        *tangents[:k_i],
        *primals[n_s + n_i : n_s + n_i + n_o],
        *tangents[k_i : k_i + k_o],
        *primals[n_s + n_i + n_o :],
        *tangents[k_i + k_o :],
    ]
    input_at = {i: k for k, i in enumerate(i for i, nz in enumerate(nonzero) if nz)}
    output_at = {o: k for k, o in enumerate(o for o, nz in enumerate(out_nz) if nz)}
    aliases = [(i, o) for i, o in call.aliases]
    # A tangent shares memory where its primal does.
    for i, o in call.aliases:
        if i - n_s in input_at and o in output_at:
            aliases.append((n_s + n_i + input_at[i - n_s], n_o + output_at[o]))
    jaxpr = ClosedJaxpr(j.replace(invars=invars), pushed.consts)
    ins, out_blocks = call.input_blocks, call.output_blocks
    return call.replace(
        ref_names=(),
        programs=(Program(jaxpr, None, program.name),),
        num_inputs=n_i + k_i,
        outputs=(*call.outputs, *(tangent_aval(call.outputs[o]) for o in output_at)),
        scratch=(*call.scratch, *(v.aval for v in tangents[k_i + k_o :])),
        blocks=(
            *ins,
            *(ins[i] for i in input_at),
            *out_blocks,
            *(out_blocks[o] for o in output_at),
        ),
        aliases=tuple(aliases),
        sharding_rule=_differentiated_rule(call, input_at, output_at),
    )


def _differentiated_rule(call: KernelCall, inputs: dict, outputs: dict) -> ShardingRule | None:
    rule = call.sharding_rule
    if rule is None:
        return None
    ins, outs, n = rule.operands, rule.results, call.num_scalars
    return rule.regrouped(
        (*ins, *(ins[n + i] for i in inputs)), (*outs, *(outs[o] for o in outputs))
    )


def _push(primals: list, tangents: list, call: KernelCall) -> tuple[list, KernelCall, list[bool]]:
    """Return operands and kernel of the derivative, and which outputs have tangents."""
    if call.is_mpmd:
        raise MissingRuleError(
            f"mpmd_map {call.name} has no derivative: what its cores send each other has no order "
            "to differentiate; give one with weft.custom_jvp or weft.custom_vjp"
        )
    n_s = call.num_scalars
    tangents = list(tangents)
    for i, _ in call.aliases:
        if tangents[i] is None and has_tangent(typeof(primals[i])):
            tangents[i] = instantiate_zero(tangent_aval(typeof(primals[i])))
    nonzero = [t is not None for t in tangents[n_s:]]
    pushed = _differentiated(call, nonzero)
    nonzero_tangents = [t for t in tangents[n_s:] if t is not None]
    return [*primals, *nonzero_tangents], pushed, [has_tangent(o) for o in call.outputs]


def _jvp(primals: list, tangents: list, *, call: KernelCall) -> tuple:
    operands, pushed, out_nz = _push(primals, tangents, call)
    outs = pallas_call_p.bind(*operands, call=pushed)
    n = len(call.outputs)
    return outs[:n], unpick(outs[n:], out_nz)


def _linearize(primals: list, tangents: list, *, call: KernelCall) -> tuple:
    """Run the kernel of primals and tangents again in the linear program."""
    outs = pallas_call_p.bind(*primals, call=call)
    operands, pushed, out_nz = _push(primals, tangents, call)
    return outs, unpick(pallas_call_p.bind(*operands, call=pushed)[len(outs) :], out_nz)


def _transpose(cts: list, *args: np.ndarray | UndefinedPrimal, call: KernelCall) -> list:
    raise TypeError(
        f"kernel {call.name}: reverse-mode differentiation does not reach through a kernel, which "
        "works in place; write a kernel for the backward pass and join the two with "
        "weft.custom_vjp, or use forward mode (weft.jvp)"
    )


# Batching --------------------------------------------------------------------------------------


def _batch(axis: AxisData, args: list, dims: list, *, call: KernelCall) -> tuple:
    """Add a grid dimension in front; loop where a grid cannot express the batch."""
    refs = any(isinstance(typeof(a), AbstractRef) for a in args)
    if call.is_mpmd or any(d is not None for d in dims[: call.num_scalars]) and not refs:
        return scan_rows(partial(pallas_call_p.bind, call=call), axis, args, dims)
    batched = tuple(d is not None for d in dims)
    for i, o in call.aliases:
        del o
        if not batched[i]:
            args, dims = list(args), list(dims)
            args[i], dims[i] = move_dim(args[i], None, 0, axis), 0
            batched = tuple(d is not None for d in dims)
    moved = [a if d is None else move_dim(a, d, 0, axis) for a, d in zip(args, dims, strict=True)]
    new = call.memo(("batch", axis.size, batched), lambda: _batched(call, axis.size, batched))
    outs = pallas_call_p.bind(*moved, call=new)
    return outs, [0] * len(outs)


def _batched(call: KernelCall, size: int, batched: Sequence[bool]) -> KernelCall:
    flags = [*batched[call.num_scalars :], *(True,) * len(call.outputs)]
    return call.replace(
        grid=(size, *call.grid),
        num_batch=call.num_batch + 1,
        outputs=tuple(ShapedArray((size, *o.shape), o.dtype) for o in call.outputs),
        blocks=tuple(
            _batched_block(b, size, flag) for b, flag in zip(call.blocks, flags, strict=True)
        ),
        sharding_rule=call.sharding_rule and call.sharding_rule.batched(batched),
        num_batch_dims=call.num_batch_dims + 1 if call.num_batch_dims and all(batched) else 0,
    )


def _batched_block(b: BlockMapping, size: int, batched: bool) -> BlockMapping:
    """Return the mapping with the new grid index in front; if batched, with a new dimension."""
    old = b.index_map

    def flat(i: object, *args: object) -> list:
        outs = eval_closed(old, *args)
        return [i, *outs] if batched else outs

    int32 = ShapedArray((), np.dtype("int32"))
    traced, consts = trace_to_jaxpr(flat, [int32, *old.in_avals], old.jaxpr.debug)
    index_map = ClosedJaxpr(traced, consts)
    if not batched:
        return replace(b, index_map=index_map)
    a = b.array
    return replace(
        b,
        array=ShapedArray((size, *a.shape), a.dtype, False, None, a.mat),
        block_shape=(1, *b.block_shape),
        squeezed=(True, *b.squeezed),
        by_element=(False, *b.by_element),
        index_map=index_map,
        whole=False,
        padding=((0, 0), *b.padding) if b.padding else (),
    )


# Refs from outside -----------------------------------------------------------------------------


def _discharge(args: tuple, *, call: KernelCall) -> list:
    """Make refs among the operands arrays whose final values are results, too.

    The kernel then works on the output's ref, which starts with the operand's contents.
    """
    values, is_open = split_open(args)
    written = [i for i, o in enumerate(is_open) if o]
    pure = call.memo(("discharge", tuple(written)), lambda: _without_refs(call, written))
    outs = pallas_call_p.bind(*values, call=pure)
    n = len(call.outputs)
    put_back(args, written, outs[n:])
    return outs[:n]


def _without_refs(call: KernelCall, written: Sequence[int]) -> KernelCall:
    end = call.num_scalars + call.num_inputs + len(call.outputs)
    programs = []
    for p in call.programs:
        invars = list(p.jaxpr.jaxpr.invars)
        moved = [invars[i] for i in written]
        for i in written:
            invars[i] = Var(invars[i].aval)
        invars[end:end] = moved
        closed = ClosedJaxpr(p.jaxpr.jaxpr.replace(invars=invars), p.jaxpr.consts)
        programs.append(Program(closed, p.mesh, p.name))
    n = len(call.outputs)
    blocks = [call.blocks[i - call.num_scalars] for i in written]
    rule = call.sharding_rule
    if rule is not None:
        rule = rule.regrouped(rule.operands, (*rule.results, *(rule.operands[i] for i in written)))
    names = call.ref_names
    return call.replace(
        programs=tuple(programs),
        ref_names=(*names[:end], *(names[i] for i in written), *names[end:]) if names else (),
        outputs=(*call.outputs, *(b.array for b in blocks)),
        blocks=(*call.blocks, *blocks),
        sharding_rule=rule,
        aliases=(*call.aliases, *((i, n + k) for k, i in enumerate(written))),
    )


# The op ----------------------------------------------------------------------------------------


def _lower(ctx: RuleContext, *operands: ir.Value, call: KernelCall) -> list:
    from weft.pallas.lower import lower_kernel

    return lower_kernel(ctx, call, operands)


def _impl(*args: ArrayLike, call: KernelCall) -> list:
    from weft.pallas.lower import run_eagerly

    return run_eagerly(args, call)


pallas_call_p = Primitive(
    "pallas_call",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    impl=_impl,
    sharding=_factors,
    multiple_results=True,
    higher_order=True,
)
DISCHARGE[pallas_call_p] = _discharge

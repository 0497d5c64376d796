# Tests: tests/refs/test_api.py
"""Discharge rules of the ops that run jaxprs: jit, scan, while, cond and checkpoint take refs.

Each calls its jaxpr on the arrays that the refs hold and writes their last values back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_refs import runs_in_place
from weft.api.remat import remat_p
from weft.core.cell import DISCHARGE, Cell, put_back, split_open
from weft.core.config import config
from weft.core.errors import ArgumentError
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, trace_to_jaxpr
from weft.driver.jit_op import jit_p
from weft.ops.compound import stack
from weft.ops.control.common import reorder
from weft.ops.control.cond_op import cond_p
from weft.ops.control.scan_op import scan_p
from weft.ops.control.while_op import while_p
from weft.refs.discharge import Discharged, discharge_jaxpr
from weft.runtime.array import ArrayImpl

if TYPE_CHECKING:
    from weft.runtime.array import Array


def _jit(args: tuple, *, jaxpr: ClosedJaxpr, **params: Any) -> list:
    if runs_in_place(args, jaxpr):
        return eval_closed(jaxpr, *args)
    alone = [a.__class__ is Cell and a.alone for a in args]
    values, is_open = split_open(args)
    pure = discharge_jaxpr(jaxpr, is_open)
    n = len(jaxpr.out_avals)
    params["out_shardings"] = (*params["out_shardings"], *(None,) * len(pure.written))
    if state.trace is EVAL and not (config.disable_jit or config.debug_nans or config.debug_infs):
        return _write_in_place(args, values, is_open, alone, pure, n, params)
    outs = jit_p.bind(*values, jaxpr=pure.jaxpr, **params)
    put_back(args, pure.written, outs[n:])
    return outs[:n]


def _write_in_place(
    cells: Sequence[Any],
    values: list,
    is_open: Sequence[bool],
    alone: Sequence[bool],
    pure: Discharged,
    n: int,
    params: dict[str, Any],
) -> list:
    """Run the pure jaxpr, which gives n results, in the memory of the refs that it writes.

    An array that something else has, too, is copied first.
    """
    donated = list(params["donated"])
    for i in pure.written:
        if type(values[i]) is ArrayImpl:
            values[i] = values[i] if alone[i] else values[i].copy()
            donated[i] = True
    outs = jit_p.bind(*values, jaxpr=pure.jaxpr, **{**params, "donated": tuple(donated)})
    put_back(cells, pure.written, outs[n:])
    for i, (cell, is_cell) in enumerate(zip(cells, is_open, strict=True)):
        if is_cell:
            cell.alone = i in pure.written or alone[i]
    return outs[:n]


def _remat(args: tuple, *, jaxpr: ClosedJaxpr, **params: object) -> list:
    if runs_in_place(args, jaxpr):
        return eval_closed(jaxpr, *args)
    values, is_open = split_open(args)
    pure = discharge_jaxpr(jaxpr, is_open)
    outs = remat_p.bind(*values, jaxpr=pure.jaxpr, **params)
    n = len(jaxpr.out_avals)
    put_back(args, pure.written, outs[n:])
    return outs[:n]


def _cond(args: tuple, *, branches: tuple[ClosedJaxpr, ...]) -> list:
    index, *operands = args
    if runs_in_place(operands, *branches):
        if isinstance(index, Tracer):
            raise TypeError(
                "cond: under differentiation, a branch passes a Ref to a custom_vjp function; its "
                "backward rule would use the ref only if that branch was taken, which is not known "
                "while tracing. Use weft.numpy.where, or call the function outside of the branches"
            )
        return eval_closed(branches[int(index)], *operands)
    values, is_open = split_open(operands)
    written = sorted({i for b in branches for i in discharge_jaxpr(b, is_open).written})
    pure = tuple(discharge_jaxpr(b, is_open, written).jaxpr for b in branches)
    outs = cond_p.bind(index, *values, branches=pure)
    n = len(branches[0].out_avals)
    put_back(operands, written, outs[n:])
    return outs[:n]


def _as_carry(
    pure: Discharged, num_consts: int, num_carry: int
) -> tuple[ClosedJaxpr, list[int], list[int]]:
    """Return a loop's body whose written consts are carries, behind the others.

    Returns it with the positions of the consts that stay and of those that became carries.
    """
    moved = pure.written
    stay = [i for i in range(num_consts) if i not in moved]
    n_in, n_out = len(pure.jaxpr.in_avals), len(pure.jaxpr.out_avals) - len(moved)
    end = num_consts + num_carry
    inputs = [*stay, *range(num_consts, end), *moved, *range(end, n_in)]
    outputs = [
        *range(num_carry),
        *range(n_out, n_out + len(moved)),
        *range(num_carry, n_out),
    ]
    return reorder(pure.jaxpr, inputs, outputs), stay, moved


def _check_consts(args: Sequence[Any], num_consts: int) -> None:
    for a in args[num_consts:]:
        if a.__class__ is Cell:
            raise ArgumentError(
                f"a {a.aval.str_short()} is part of the carry of a loop, which is of arrays; "
                "close over it in the body instead"
            )


def _scan(
    args: tuple, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: object
) -> list:
    _check_consts(args, num_consts)
    if runs_in_place(args, jaxpr):
        return _scan_in_place(args, jaxpr, num_consts, num_carry, params)
    values, is_open = split_open(args)
    pure = discharge_jaxpr(jaxpr, is_open)
    body, stay, moved = _as_carry(pure, num_consts, num_carry)
    end = num_consts + num_carry
    outs = scan_p.bind(
        *(values[i] for i in stay),
        *values[num_consts:end],
        *(values[i] for i in moved),
        *values[end:],
        jaxpr=body,
        num_consts=len(stay),
        num_carry=num_carry + len(moved),
        **params,
    )
    k = num_carry + len(moved)
    put_back(args, moved, outs[num_carry:k])
    return [*outs[:num_carry], *outs[k:]]


def _scan_in_place(
    args: tuple, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, params: dict[str, Any]
) -> list:
    """Run the iterations of a scan one by one."""
    end = num_consts + num_carry
    consts, carry, xs = args[:num_consts], list(args[num_consts:end]), args[end:]
    order = range(params["length"])
    ys: list = []
    for i in reversed(order) if params["reverse"] else order:
        outs = eval_closed(jaxpr, *consts, *carry, *(x[i] for x in xs))
        carry = outs[:num_carry]
        ys.append(outs[num_carry:])
    if params["reverse"]:
        ys.reverse()
    return [*carry, *(stack(list(y)) for y in zip(*ys, strict=True))]


def _while(
    args: tuple,
    *,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list:
    """Carry all refs, which the condition and the body both see."""
    start = cond_nconsts + body_nconsts
    _check_consts(args, start)
    is_open = [a.__class__ is Cell and a.is_open() for a in args]
    # A ref that both functions close over, or one of them twice, is one carry.
    cells = list({id(a): a for a, o in zip(args, is_open, strict=True) if o}.values())
    number = {id(c): k for k, c in enumerate(cells)}
    n = len(args) - start
    c_args, b_args, carry = args[:cond_nconsts], args[cond_nconsts:start], args[start:]

    def with_cells(inner: ClosedJaxpr, consts: Sequence[Any], gives_refs: bool) -> ClosedJaxpr:
        """Return the jaxpr on (plain consts, carry, values of all cells)."""
        k = sum(id(a) not in number for a in consts)

        def flat(*operands: Array) -> list:
            fresh = [
                Cell(v, c.aval, state.trace, fixed=True)
                for v, c in zip(operands[k + n :], cells, strict=True)
            ]
            rest = iter(operands[:k])
            full = [fresh[number[id(a)]] if id(a) in number else next(rest) for a in consts]
            outs = eval_closed(inner, *full, *operands[k : k + n])
            return [*outs, *(f.value for f in fresh)] if gives_refs else outs

        avals = [a for a, x in zip(inner.in_avals, consts, strict=False) if id(x) not in number]
        avals += [*inner.in_avals[len(consts) :], *(c.aval.inner for c in cells)]
        traced, trace_consts = trace_to_jaxpr(flat, avals, inner.jaxpr.debug)
        return ClosedJaxpr(traced, trace_consts)

    # Which constants are the same ref decides the jaxprs, not what they hold.
    key = ("discharge while", *(number.get(id(a)) for a in (*c_args, *b_args)))
    types = tuple(c.aval for c in cells)
    pred = cond_jaxpr.memo((*key, types), lambda: with_cells(cond_jaxpr, c_args, False))
    body = body_jaxpr.memo((*key, types), lambda: with_cells(body_jaxpr, b_args, True))
    c_plain = [a for a in c_args if id(a) not in number]
    b_plain = [a for a in b_args if id(a) not in number]
    outs = while_p.bind(
        *c_plain,
        *b_plain,
        *carry,
        *(c.get() for c in cells),
        cond_jaxpr=pred,
        body_jaxpr=body,
        cond_nconsts=len(c_plain),
        body_nconsts=len(b_plain),
    )
    # The refs now hold what the loop left in them.
    for c, value in zip(cells, outs[n:], strict=True):
        c.put(value)
    return outs[:n]


DISCHARGE.update({jit_p: _jit, remat_p: _remat, cond_p: _cond, scan_p: _scan, while_p: _while})

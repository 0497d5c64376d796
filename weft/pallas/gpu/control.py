# Tests: tests/pallas/test_gpu.py
"""Control flow, calls and program ids of kernels in Triton IR."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core.jaxpr import Eqn
from weft.core.ref import AbstractRef
from weft.pallas.gpu.arrays import take
from weft.pallas.gpu.emitter import BOOL, INT, Emitter, i32_attr, rule
from weft.pallas.gpu.memory import LONG, barrier
from weft.pallas.gpu.registers import Cell, held, holds, new_cell, update, values
from weft.pallas.spin_loops import limit_text, polls

if TYPE_CHECKING:
    from weft.pallas.gpu.memory import View

# Programs and calls ------------------------------------------------------------------------------


@rule("program_id")
def _program_id(e: Emitter, eqn: Eqn) -> ir.Value:
    return e.program_ids[e.call.num_batch + eqn.rule_params["axis"]]


@rule("axis_index")
def _axis_index(e: Emitter, eqn: Eqn) -> ir.Value:
    """Return the core's index along axes of its mesh, the last fastest."""
    over = eqn.rule_params["over"]
    index = e.constant(0)
    for axis, size in zip(over.names, over.sizes, strict=True):
        index = e.binary("add", e.binary("mul", index, size), e.core_index[axis])
    return index


@rule("run_scoped")
def _run_scoped(e: Emitter, eqn: Eqn, *consts: View | Cell) -> list:
    jaxpr, n = eqn.rule_params["jaxpr"], eqn.rule_params["num_consts"]
    assert e.scoped is not None
    fresh = [
        new_cell(e, var.aval) if holds(jaxpr, i, var.aval, e.threads) else e.scoped(var)
        for i, var in enumerate(jaxpr.jaxpr.invars[n:], n)
    ]
    return e.run(jaxpr, [*consts, *fresh])


@rule("debug_print")
def _debug_print(e: Emitter, eqn: Eqn, *xs: ir.Value) -> list:
    context = mlir.context()
    pieces = eqn.rule_params["fmt"].split("{")  # Triton prints its operands behind a prefix
    signs = ir.DenseI32ArrayAttr.get([1] * len(xs), context)
    attrs = {
        "prefix": ir.StringAttr.get(f" {pieces[0]}", context),
        "hex": ir.BoolAttr.get(False, context),
        "isSigned": signs,
    }
    e.op("tt.print", xs, [], attrs)
    return []


@rule("debug_check")
def _debug_check(e: Emitter, eqn: Eqn, ok: object) -> list:
    _check(e, ok, eqn.rule_params["message"])
    return []


def _check(e: Emitter, ok: ir.Value, message: str) -> None:
    """End the launch, which prints the message and the program's number, unless all is true."""
    attrs = {"message": ir.StringAttr.get(message, mlir.context())}
    e.op("tt.assert", [e.splat(ok, (1,)) if not e.sizes(ok) else ok], [], attrs)


def clock_check(e: Emitter) -> Callable[[], None]:
    """Before a loop that waits: what each turn is to call, so that it ends after the limit."""
    limit = e.call.wait_limit
    if not limit or e.platform != "cuda":
        return lambda: None
    start, site = _clock(e), e.eqn
    assert site is not None, "loops stand for an equation"
    message = (
        f"kernel {e.call.name}: a wait lasted longer than {limit_text(limit)}: "
        f"{site.primitive.name} ({site.source})"
    )

    def check() -> None:
        passed = e.binary("sub", _clock(e), start, LONG)
        _check(e, e.compare("lt", passed, round(limit * 1e9), LONG), message)

    return check


def _clock(e: Emitter) -> ir.Value:
    """Return nanoseconds of the GPU's clock, the same one for all programs."""
    text = lambda s: ir.StringAttr.get(s, mlir.context())
    return e.value(
        "tt.elementwise_inline_asm",
        [],
        e.type((), LONG),
        asm_string=text("mov.u64 $0, %globaltimer;"),
        constraints=text("=l"),
        pure=ir.BoolAttr.get(False, mlir.context()),
        packed_element=i32_attr(1),
    )


# Branches ----------------------------------------------------------------------------------------


@rule("cond")
def _cond(e: Emitter, eqn: Eqn, index: ir.Value, *xs: ir.Value | View | Cell) -> list:
    branches = eqn.rule_params["branches"]
    kind = eqn.invars[0].aval.dtype
    cells = held(xs)
    types = [e.of(v.aval) for v in eqn.outvars] + [e.cells[c].type for c in cells]
    before = set(e.written), set(e.read), dict(e.cells)
    after: list[tuple[set, set]] = []

    def alternative(emit: Callable[[], list]) -> Callable[[], list]:
        def fill() -> list:
            e.written, e.read, e.cells = set(before[0]), set(before[1]), dict(before[2])
            outs = [*emit(), *values(e, cells)]
            after.append((e.written, e.read))
            return outs

        return fill

    def choose(first: int) -> list:
        """Return the branches from `first` on."""
        if first == len(branches) - 1:
            return e.run(branches[first], xs)
        if kind == BOOL:
            is_first = e.same("arith.xori", index, e.constant(1, (), BOOL))
        else:
            is_first = e.compare("le", index, first, kind)
        this, others = (lambda: e.run(branches[first], xs)), (lambda: choose(first + 1))
        results = e.either(is_first, alternative(this), alternative(others), types)
        e.cells = dict(before[2])
        update(e, cells, results[len(eqn.outvars) :])
        return results[: len(eqn.outvars)]

    outs = choose(0)
    for written, read in after:
        e.written |= written
        e.read |= read
    return outs


# Loops -------------------------------------------------------------------------------------------


def for_loop(
    e: Emitter,
    length: int,
    carry: Sequence[ir.Value],
    body: Callable[..., Sequence[ir.Value]],
    cells: Sequence[Cell] = (),
) -> list:
    """scf.for over int32 0 … length - 1; body(index, *carry) -> carry.

    cells: the refs in registers that the body may write.
    """
    bounds = [e.constant(0), e.constant(length), e.constant(1)]
    start = [*carry, *values(e, cells)]
    settle(e)
    operation = e.op("scf.for", [*bounds, *start], [c.type for c in start], regions=1)

    def fill(index: ir.Value, *state: ir.Value) -> None:
        with in_order(e):
            update(e, cells, state[len(carry) :])
            outs = body(index, *state[: len(carry)])
            e.op("scf.yield", [*outs, *values(e, cells)])

    e.region(operation, 0, [bounds[0].type, *(c.type for c in start)], fill)
    results = list(operation.results)
    update(e, cells, results[len(carry) :])
    return results[: len(carry)]


def settle(e: Emitter) -> None:
    """Before a loop: what was written is in memory, so that the body need not see to it."""
    if e.written:
        barrier(e)


@contextlib.contextmanager
def in_order(e: Emitter) -> Iterator[None]:
    """Around a loop's body: if it writes memory, a barrier begins every iteration."""
    stores, block = e.stores, ir.InsertionPoint.current.block
    yield
    if e.stores != stores:
        with ir.InsertionPoint.at_block_begin(block):
            e.op("gpu.barrier", [])


def _values(e: Emitter, xs: Sequence[Any], avals: Sequence[Any]) -> list:
    """Carried values as whole tensors: literals were made scalars of the right type already."""
    return [
        e.splat(x, a.shape) if a.shape and not e.sizes(x) else x
        for x, a in zip(xs, avals, strict=True)
    ]


@rule("scan")
def _scan(e: Emitter, eqn: Eqn, *operands: ir.Value | View | Cell) -> list:
    p = eqn.rule_params
    jaxpr, n, m, length = p["jaxpr"], p["num_consts"], p["num_carry"], p["length"]
    consts, xs = operands[:n], operands[n + m :]
    if any(isinstance(v.aval, AbstractRef) for v in eqn.invars[n:]):
        raise e.fail("refs are constants of a loop: neither carried nor scanned over")
    carry = _values(e, operands[n : n + m], [v.aval for v in eqn.invars[n : n + m]])
    ys_avals = [v.aval for v in eqn.outvars[m:]]
    ys = [e.constant(0, a.shape, a.dtype) for a in ys_avals]

    def body(index: ir.Value, *state: ir.Value) -> list:
        if p["reverse"]:
            index = e.binary("sub", length - 1, index)
        slices = []
        for x, var in zip(xs, eqn.invars[n + m :], strict=True):
            row = take(e, x, e.splat(index, (1,)), 0)
            slices.append(e.reshape(row, var.aval.shape[1:]))
        outs = e.run(jaxpr, [*consts, *state[:m], *slices])
        stacked = []
        for y, old, aval in zip(outs[m:], state[m:], ys_avals, strict=True):
            y = e.expand(y, 0) if aval.shape[1:] else e.splat(y, (1,))
            is_step = e.compare("eq", e.iota_along(aval.shape, 0), index)
            stacked.append(e.select(is_step, e.broadcast(y, aval.shape), old))
        return [*_values(e, outs[:m], jaxpr.out_avals[:m]), *stacked]

    return for_loop(e, length, [*carry, *ys], body, held(consts))


@rule("while")
def _while(e: Emitter, eqn: Eqn, *operands: ir.Value | View) -> list:
    p = eqn.rule_params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    test, body = p["cond_jaxpr"], p["body_jaxpr"]
    test_consts, body_consts, carry = operands[:a], operands[a : a + b], operands[a + b :]
    avals, cells = [v.aval for v in eqn.invars[a + b :]], held(operands[: a + b])
    start = [*_values(e, carry, avals), *values(e, cells)]
    types, stores = [x.type for x in start], e.stores
    n = len(carry)
    settle(e)
    check = clock_check(e) if e.call.is_mpmd and polls(eqn) else None
    operation = e.op("scf.while", start, types, regions=2)

    def before(*state: ir.Value) -> None:
        update(e, cells, state[n:])
        (go,) = e.run(test, [*test_consts, *state[:n]])
        e.op("scf.condition", [go, *state[:n], *values(e, cells)])

    def after(*state: ir.Value) -> None:
        with in_order(e):
            update(e, cells, state[n:])
            outs = e.run(body, [*body_consts, *state[:n]])
            if check is not None:
                check()
            e.op("scf.yield", [*_values(e, outs, avals), *values(e, cells)])

    e.region(operation, 0, types, before)
    e.region(operation, 1, types, after)
    if e.stores != stores:
        with ir.InsertionPoint.at_block_begin(operation.regions[0].blocks[0]):
            e.op("gpu.barrier", [])
    results = list(operation.results)
    update(e, cells, results[n:])
    return results[:n]


def program_index(e: Emitter) -> ir.Value:
    return e.value("tt.get_program_id", [], e.type((), INT), axis=i32_attr(0))

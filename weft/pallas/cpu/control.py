# Tests: tests/pallas/test_cpu.py
"""Control flow inside kernels: calls, branches, loops with carried values, scoped scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import weft.pallas.cpu.scalar as scalar
import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.pallas.cpu.arrays import selected
from weft.pallas.cpu.interrupt import look_in_loop
from weft.pallas.cpu.llvm import Index
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array, Buffer
from weft.pallas.cpu.waits import Watch

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn


@rule("program_id")
def _program_id(t: Translator, eqn: Eqn) -> Array:
    return t.program_id(t.call.num_batch + eqn.rule_params["axis"])


@rule("debug_check")
def _debug_check(t: Translator, eqn: Eqn, ok: Array) -> None:
    wrong = t.f.op(f"xor i1 {ok.at(t.f, ())}, true")
    t.fail(wrong, f"kernel {t.call.name}: {eqn.rule_params['message']} ({eqn.source})")


@rule("debug_print")
def _debug_print(t: Translator, eqn: Eqn, *values: Array) -> None:
    f, parts = t.f, eqn.rule_params["fmt"].split("{}")
    if any(v.shape for v in values) or len(parts) != len(values) + 1 or "{" in "".join(parts):
        raise t.unsupported(eqn, "formats other than {} and arrays cannot be printed natively")
    text, operands = parts[0].replace("%", "%%"), []
    for v, rest in zip(values, parts[1:], strict=True):
        element = v.at(f, ())
        if dtypes.is_float(v.dtype):
            element = scalar.convert(f, element, v.dtype, dtypes.float64)
            text, operand = text + "%g", f"double {element}"
        else:
            element = scalar.convert(f, element, v.dtype, dtypes.int64)
            text, operand = text + "%ld", f"i64 {element}"
        text += rest.replace("%", "%%")
        operands.append(operand)
    listing = ", ".join([f"ptr {f.module.string(text + chr(10))}", *operands])
    f.module.declare("printf", "i32", "ptr, ...")
    f.op(f"call i32 (ptr, ...) @printf({listing})")
    f.intrinsic("fflush", "i32", ("ptr", "null"))


@rule("run_scoped")
def _run_scoped(t: Translator, eqn: Eqn, *consts: Buffer) -> list:
    jaxpr = eqn.rule_params["jaxpr"]
    scratch = [
        t.scratch(aval, f"scratch {i} of run_scoped at {eqn.source.short()}")
        for i, aval in enumerate(jaxpr.in_avals[eqn.rule_params["num_consts"] :])
    ]
    return t.run(jaxpr, [*consts, *scratch])


# Branches --------------------------------------------------------------------------------------


@rule("cond")
def _cond(t: Translator, eqn: Eqn, index: Array, *operands: Any) -> list:
    f, branches = t.f, eqn.rule_params["branches"]
    # What a branch writes must be in memory before any of them runs.
    writes = set().union(*(t.written(b, operands) for b in branches))
    operands = tuple(t.before_region(operands, writes))
    avals = [v.aval for v in eqn.outvars]
    targets = [t.temporary(a.shape, a.dtype) if a.shape else None for a in avals]
    which = index.at(f, ())
    type_ = types.register(index.dtype)
    after = f.name_of("join")
    labels = [f.name_of("branch") for _ in branches]
    cases = " ".join(
        f"{type_} {k if type_ != 'i1' else ('true' if k else 'false')}, label {name}"
        for k, name in enumerate(labels[:-1])
    )
    f.do(f"switch {type_} {which}, label {labels[-1]} [ {cases} ]")
    # Arrays leave a branch through memory, scalars through phis.
    ends: list[str] = []
    scalars: list[list[str]] = []
    for branch, name in zip(branches, labels, strict=True):
        f.label(name)
        with f.scope(), t.region():
            outs = t.run(branch, operands)
            texts = []
            for target, out in zip(targets, outs, strict=True):
                if target is None:
                    texts.append(out.at(f, ()))
                else:
                    t.store(target, out)
            scalars.append(texts)
        ends.append(f.block)
        f.goto(after)
    f.label(after)
    results, position = [], 0
    for aval, target in zip(avals, targets, strict=True):
        if target is not None:
            results.append(Array(aval.shape, aval.dtype, buffer=target))
            continue
        sources = ", ".join(
            f"[ {texts[position]}, %{end} ]" for texts, end in zip(scalars, ends, strict=True)
        )
        text = f.op(f"phi {types.register(aval.dtype)} {sources}")
        results.append(t.scalar(text, aval.dtype))
        position += 1
    return results


# Loops -----------------------------------------------------------------------------------------


class Carry:
    """The carries of a loop: scalars in registers, arrays in their own memory."""

    def __init__(self, t: Translator, values: Sequence[Array]) -> None:
        self.t = t
        self.values = list(values)
        self.buffers: list[Buffer | None] = []
        for v in values:
            buffer = t.temporary(v.shape, v.dtype) if v.shape else None
            if buffer is not None:
                t.store(buffer, v)
            self.buffers.append(buffer)

    def start(self) -> list[tuple[str, str]]:
        """(type, first value) of the scalars."""
        return [
            (types.register(v.dtype), v.at(self.t.f, ()))
            for v, b in zip(self.values, self.buffers, strict=True)
            if b is None
        ]

    def inside(self, registers: Sequence[str]) -> list[Array]:
        """Return the carried values, given the registers of the scalars."""
        rest = iter(registers)
        return [
            self.t.scalar(next(rest), v.dtype) if b is None else Array(v.shape, v.dtype, buffer=b)
            for v, b in zip(self.values, self.buffers, strict=True)
        ]

    def update(self, outs: Sequence[Array]) -> list[str]:
        """Store the arrays of the next iteration, give the registers of its scalars.

        All are computed from the old ones: a value that needs an old array other than its own,
        element by element, is made before any is stored.
        """
        t = self.t
        scalars = [o.at(t.f, ()) for o, b in zip(outs, self.buffers, strict=True) if b is None]
        pairs = [(b, o) for b, o in zip(self.buffers, outs, strict=True) if b is not None]
        for _, out in pairs:
            for waiting in out.waiting():
                if waiting is not out and waiting.producer is None and waiting.shape != out.shape:
                    t.materialize(waiting)
        groups = {b.group for b, _ in pairs}
        for buffer, out in pairs:
            if out.buffer is not None and out.buffer.same_place(buffer):
                continue
            foreign = out.reads & (groups - {buffer.group})
            if foreign or not out.aligned_with(buffer):
                t.snapshot(out)
        for buffer, out in pairs:
            t.store(buffer, out)
        return scalars


@rule("scan")
def _scan(t: Translator, eqn: Eqn, *operands: Any) -> list:
    f, p = t.f, eqn.rule_params
    jaxpr, length = p["jaxpr"], p["length"]
    n_consts, n_carry = p["num_consts"], p["num_carry"]
    writes = t.written(jaxpr, operands)
    end = n_consts + n_carry
    ready = t.before_region([*operands[:n_consts], *operands[end:]], writes, repeated=True)
    consts, xs = ready[:n_consts], ready[n_consts:]
    carry = Carry(t, operands[n_consts:end])
    stacked = [v.aval for v in eqn.outvars[n_carry:]]
    ys = [t.temporary(a.shape, a.dtype) for a in stacked]
    with f.loop(0, length, carry.start()) as loop, t.region():
        look_in_loop(t, eqn)
        step: Index = f.sub(length - 1, loop.index) if p["reverse"] else loop.index
        rows = [_row(t, x, step) for x in xs]
        outs = t.run(jaxpr, [*consts, *carry.inside(loop.carried), *rows])
        for y, out in zip(ys, outs[n_carry:], strict=True):
            row = y.view(f, f.mul(step, y.strides[0]), y.shape[1:], y.strides[1:])
            t.store(row, out)
        loop.following = carry.update(outs[:n_carry])
    results = carry.inside(loop.results)
    return [*results, *(Array(y.shape, y.dtype, buffer=y) for y in ys)]


def _row(t: Translator, x: Array, step: Index) -> Array:
    if x.kept:
        t.materialize(x)
    rest = x.shape[1:]
    return selected(t, x, rest, [(step, 1, None), *((0, 1, d) for d in range(len(rest)))])


@rule("while")
def _while(t: Translator, eqn: Eqn, *operands: Any) -> list:
    f, p = t.f, eqn.rule_params
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    carried = operands[n_cond + n_body :]
    writes = t.written(p["body_jaxpr"], operands[n_cond:])
    writes |= t.written(p["cond_jaxpr"], [*operands[:n_cond], *carried])
    ready = t.before_region(operands[: n_cond + n_body], writes, repeated=True)
    cond_consts, body_consts = ready[:n_cond], ready[n_cond:]
    carry = Carry(t, carried)
    start = carry.start()
    watch = Watch(t, eqn)
    head, body, out = f.name_of("head"), f.name_of("body"), f.name_of("exit")
    before = f.block
    f.goto(head)
    f.label(head)
    line = len(f.lines)
    registers = [f.name_of("c") for _ in start]
    f.lines.extend("" for _ in start)
    if watch.on:
        f.lines.append("")
    # What the condition computes dominates the body and what follows; its memory does not last.
    with t.region():
        (go,) = t.run(p["cond_jaxpr"], [*cond_consts, *carry.inside(registers)])
        f.do(f"br i1 {go.at(f, ())}, label {body}, label {out}")
    f.label(body)
    with f.scope(), t.region():
        look_in_loop(t, eqn)
        outs = t.run(p["body_jaxpr"], [*body_consts, *carry.inside(registers)])
        following = carry.update(outs)
        if watch.on:
            watch.turn()
    latch = f.block
    f.goto(head)
    for k, ((type_, first), name, then) in enumerate(zip(start, registers, following, strict=True)):
        f.lines[line + k] = f"  {name} = phi {type_} [ {first}, %{before} ], [ {then}, %{latch} ]"
    if watch.on:
        f.lines[line + len(start)] = watch.phi(before, latch)
    f.label(out)
    return carry.inside(registers)

# Tests: tests/pallas/test_cpu.py
"""The entry of the CPU backend: a kernel call becomes a custom call of code made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft.pallas.cpu.arrays as arrays  # noqa: F401  (rules)
import weft.pallas.cpu.control as control  # noqa: F401  (rules)
import weft.pallas.cpu.dot as dot  # noqa: F401  (rules)
import weft.pallas.cpu.refs as refs  # noqa: F401  (rules)
import weft.pallas.cpu.sorting as sorting  # noqa: F401  (rules)
import weft.pallas.cpu.sync as sync  # noqa: F401  (rules)
import weft.pallas.cpu.types as types  # noqa: F401  (rules)
from weft._xla import ffi
from weft.ffi.call import emit_call
from weft.ffi.registry import register_kernel
from weft.native import engine
from weft.pallas.cpu.frame import emit_handler
from weft.pallas.cpu.grid import Grid, emit_chunk
from weft.pallas.cpu.llvm import Function, Module
from weft.pallas.cpu.loops import Memory
from weft.pallas.cpu.nontemporal import emit_fence
from weft.pallas.cpu.threads import emit_grid
from weft.pallas.cpu.translate import LLVM, note
from weft.pallas.legalize import legalize_call
from weft.pallas.narrow_integers import in_bytes

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import ShapedArray
    from weft.lowering.context import RuleContext
    from weft.pallas.ir import KernelCall


def kernel_text(call: KernelCall) -> str:
    """Return the LLVM IR of a kernel call: the function `handler`, called by XLA."""
    return call.memo("cpu text", lambda: _text(call))


def _first_message(f: Function) -> str:
    """Return the number of the first message in `%status`, from 1; 0 if there is none."""
    status = f.load("i64", "%status", parallel=False)
    f.module.declare("llvm.cttz.i64", "i64", "i64, i1")
    number = f.add(f.op(f"call i64 @llvm.cttz.i64(i64 {status}, i1 false)"), 1)
    none = f.op(f"icmp eq i64 {status}, 0")
    return f.op(f"select i1 {none}, i64 0, i64 {number}")


def _text(original: KernelCall) -> str:
    call = legalize_call(original, LLVM)
    shapes = [a.shape for a in original.operand_avals], [a.shape for a in original.outputs]
    if call.is_mpmd:
        from weft.pallas.cpu.mpmd import mpmd_text

        return mpmd_text(call, *shapes)
    module = Module()
    messages: list[str] = []
    grid = Grid(call)
    memory = Memory()
    f = Function(
        module,
        "chunk",
        [("i64", "number"), ("ptr", "buffers"), ("ptr", "arena")],
        "i64",
        "noinline",
    )
    f.entry.append("  %status = alloca i64")
    f.store("i64", "0", "%status", parallel=False)
    emit_chunk(f, grid, memory, messages)
    memory.place_lasting(f)
    f.goto("%leave")
    f.label("%leave")
    emit_fence(f)
    for (number, type_, high), slot in f.greatest.items():
        greatest = f.load(type_, slot, parallel=False)
        note(f, f.op(f"icmp ugt {type_} {greatest}, {high}"), number)
    f.do(f"ret i64 {_first_message(f)}")
    f.finish()

    def one_chunk(f: Function, number: str, buffers: str, arena: str) -> str:
        return f.op(f"call i64 @chunk(i64 {number}, ptr {buffers}, ptr {arena})")

    def body(f: Function, buffers: str) -> tuple[str, None]:
        return emit_grid(f, buffers, grid.chunks, memory.peak, one_chunk, grid.threads), None

    emit_handler(module, "handler", *shapes, body, messages, call.name)
    return module.text()


def target_of(call: KernelCall) -> str:
    """Return the custom-call target of a kernel, compiled and registered."""
    text = kernel_text(call)
    address = engine.compile_text(text, "handler")
    plain = "".join(c if c.isalnum() else "_" for c in call.name)
    name = f"weft_kernel_{plain}_{engine.key_of(text)[:16]}"
    if name not in _registered:
        register_kernel(name, ffi.capsule(address))
        _registered.add(name)
    return name


_registered: set[str] = set()


def lower(ctx: RuleContext, call: KernelCall, *operands: ir.Value) -> list:
    """Emit the custom call of a kernel; its code is made for these shapes (see split.py)."""
    # XLA packs integers of 4 bits.
    ins, outs = [in_bytes(a) for a in ctx.avals_in], [in_bytes(a) for a in ctx.avals_out]
    results = emit_call(
        ctx,
        [_converted(ctx, x, a) for x, a in zip(operands, ins, strict=True)],
        ins,
        outs,
        target=target_of(call),
        has_side_effect=call.prints,
        aliases=call.aliases,
    )
    return [_converted(ctx, x, a) for x, a in zip(results, ctx.avals_out, strict=True)]


def _converted(ctx: RuleContext, x: ir.Value, aval: ShapedArray) -> Any:
    type_ = ctx.type_of(aval)
    return x if x.type == type_ else ctx.op("stablehlo.convert", [x], [type_])[0]

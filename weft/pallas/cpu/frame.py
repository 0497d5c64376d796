# Tests: tests/pallas/test_cpu_engine.py
"""The FFI handler: XLA's call frame → buffer addresses, metadata, errors.

Offsets are those of xla/ffi/api/c_api.h, API version 0.3 (jaxlib 0.10.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.native.parallel import METADATA
from weft.pallas.cpu.llvm import Function, Module

# XLA_FFI_CallFrame
API, ARGUMENTS, RESULTS = 16, 72, 112
# XLA_FFI_Buffer
DATA, DIMENSIONS = 24, 40
# XLA_FFI_Api
ERROR_CREATE = 48

FAILED_PRECONDITION = 9


def field(f: Function, base: str, offset: int, type_: str = "ptr") -> str:
    """Return the member of a struct at a byte offset."""
    return f.load(type_, f.address("i8", base, offset), parallel=False)


def set_field(f: Function, base: str, offset: int, type_: str, value: str | int) -> None:
    f.store(type_, str(value), f.address("i8", base, offset), parallel=False)


def emit_handler(
    module: Module,
    name: str,
    inputs: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...]],
    body: Callable[[Function, str], tuple[str, str | None]],
    messages: Sequence[str],
    label: str,
) -> None:
    """Emit a function XLA calls with a call frame; inputs and outputs are its shapes.

    body(f, buffers) writes the work and gives a status (i64), 0, or n for the n-th
    message (from 1), which becomes the call's error; and None, or the text of the error where it
    is made as the kernel runs (a pointer, null otherwise). `buffers` is an array of the inputs' and
    then the outputs' addresses. Other shapes, which a partitioner that knows nothing of the code
    might pass, are an error: the code would write past the end of them.
    """
    f = Function(module, name, [("ptr", "frame")], "ptr", linkage="")
    f.lines += METADATA
    f.block = "work"
    count = max(1, len(inputs) + len(outputs))
    other: str | None = None
    buffers = f.alloca(f"[{count} x ptr]")
    for offset, shapes, start in ((ARGUMENTS, inputs, 0), (RESULTS, outputs, len(inputs))):
        if not shapes:
            continue
        array = field(f, "%frame", offset)
        for k, shape in enumerate(shapes):
            buffer = field(f, array, 8 * k)
            set_field(f, buffers, 8 * (start + k), "ptr", field(f, buffer, DATA))
            dimensions = field(f, buffer, DIMENSIONS) if shape else ""
            for d, n in enumerate(shape):
                # The differences of all dimensions are one number, for one branch.
                change = f.op(f"xor i64 {field(f, dimensions, 8 * d, 'i64')}, {n}")
                other = change if other is None else f.op(f"or i64 {other}, {change}")
    api = field(f, "%frame", API)
    if other is not None:
        wrong, right = f.name_of("wrong"), f.name_of("right")
        f.do(f"br i1 {f.op(f'icmp ne i64 {other}, 0')}, label {wrong}, label {right}")
        f.label(wrong)
        _emit_error(
            f,
            api,
            "1",
            [
                f"kernel {label} is compiled for other shapes than it is called with: XLA's "
                "partitioner split its arrays. Use weft's (weft.config.partitioner), which "
                "compiles it for the parts, or drop sharding_rule and num_batch_dims"
            ],
        )
        f.label(right)
    # The body's status chooses the message; 0 is success.
    status, text = body(f, buffers)
    if messages:
        failed, fine = f.name_of("failed"), f.name_of("fine")
        bad = f.op(f"icmp ne i64 {status}, 0")
        f.do(f"br i1 {bad}, label {failed}, label {fine}")
        f.label(failed)
        _emit_error(f, api, status, messages, text)
        f.label(fine)
    f.do("ret ptr null")
    f.finish()


def _emit_error(
    f: Function, api: str, status: str, messages: Sequence[str], text: str | None = None
) -> None:
    """Return the error whose message the status numbers, or that of the text if there is one."""
    names = ", ".join(f"ptr {f.module.string(m)}" for m in messages)
    table = f"@messages{len(f.module.globals)}"
    f.module.globals[table] = f"private unnamed_addr constant [{len(messages)} x ptr] [{names}]"
    index = f.op(f"sub i64 {status}, 1")
    message = field(f, f.address("ptr", table, index), 0)
    if text is not None:
        has_text = f.op(f"icmp ne ptr {text}, null")
        message = f.op(f"select i1 {has_text}, ptr {text}, ptr {message}")
    record = f.alloca("[4 x i64]")
    set_field(f, record, 0, "i64", 28)
    set_field(f, record, 8, "ptr", "null")
    set_field(f, record, 16, "ptr", message)
    set_field(f, record, 24, "i32", FAILED_PRECONDITION)
    create = field(f, api, ERROR_CREATE)
    f.do(f"ret ptr {f.op(f'call ptr {create}(ptr {record})')}")

# Tests: tests/native/test_reductions.py
"""Custom calls of kernels: compiled when a program first needs them, for all shapes at once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from weft._xla import ffi
from weft._xla.mlir import ir
from weft.native import engine
from weft.native.parallel import threads
from weft.partition.emit import Emitter

_FOLDER = Path(__file__).parent
_registered: dict[tuple, str] = {}
_lock = threading.Lock()


@cache
def has_compiler() -> bool:
    """Return whether kernels can be compiled here: llvmlite is the extra `kernels`."""
    from importlib.util import find_spec

    return find_spec("llvmlite") is not None


@cache
def _digest() -> str:
    """Return a hash of the kernels and of the language they are written in."""
    state = hashlib.sha256()
    for path in sorted((*_FOLDER.glob("*.py"), *_FOLDER.glob("kernels/*.py"))):
        state.update(path.read_bytes())
    return state.hexdigest()


def target(file: str, entry: str, bindings: dict[str, str | int]) -> str:
    """Return the custom-call target of a kernel, compiled for its bindings and registered."""
    bindings = {**bindings, "THREADS": threads()}
    request = (file, entry, *sorted(bindings.items()))
    with _lock:
        name = _registered.get(request)
        if name is None:
            key = engine.key_of(f"{_digest()} {request}")

            def text() -> str:
                from weft.native.language import Unit  # most programs find machine code on disk

                return Unit(_FOLDER / "kernels", file, bindings).text(entry)

            address = engine.compile_keyed(key, text, "handler")
            name = f"weft_native_{entry}_{key[:16]}"
            ffi.register_target(name, ffi.capsule(address), "cpu", 1)
            _registered[request] = name
    return name


def untouched(e: Emitter, types: Sequence[ir.Type]) -> list[ir.Value]:
    """Emit values that are yet to be written, all of them."""
    return call(e, target("join", "untouched", {}), [], types)


def count_to(
    e: Emitter,
    trips: int,
    start: Sequence[ir.Value],
    step: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Emit a loop: step(index, values) gives the values of the next step."""
    outside = e.ip
    values = [e.const(0), *start]
    types = [x.type for x in values]
    loop = e.op("stablehlo.while", values, types, regions=2)
    condition, body = (
        region.blocks.append(*types, arg_locs=[e.loc] * len(types)) for region in loop.regions
    )
    e.ip = ir.InsertionPoint(condition)
    more = e.compare(condition.arguments[0], e.const(trips), "LT")
    e.op("stablehlo.return", [more], [])
    e.ip = ir.InsertionPoint(body)
    index, *rest = body.arguments
    after = step(index, rest)
    e.op("stablehlo.return", [e.add(index, e.const(1)), *after], [])
    e.ip = outside
    return list(loop.results)[1:]


def call(
    e: Emitter,
    name: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    parameters: Sequence[int] = (0,),
    *,
    in_place: bool = False,
) -> list[ir.Value]:
    """Emit the call of a target; the kernel finds the parameters behind the buffers.

    `in_place`: the first result may be the memory of the first operand.
    """

    def layouts(types: Sequence[ir.Type]) -> ir.Attribute:
        texts = []
        for t in types:
            order = ", ".join(str(d) for d in reversed(range(t.rank)))
            texts.append(f"dense<[{order}]> : tensor<{t.rank}xindex>")
        return e.attr(f"[{', '.join(texts)}]")

    listing = ", ".join(map(str, parameters))
    attributes = {
        "call_target_name": ir.StringAttr.get(name, context=e.context),
        "api_version": e.attr("4 : i32"),
        "backend_config": e.attr(f"{{parameters = array<i64: {listing}>}}"),
        "operand_layouts": layouts([x.type for x in operands]),
        "result_layouts": layouts(results),
    }
    if in_place:
        where = "[0]" if len(results) > 1 else "[]"
        attributes["output_operand_aliases"] = e.attr(
            f"[#stablehlo.output_operand_alias<output_tuple_indices = {where}, "
            "operand_index = 0, operand_tuple_indices = []>]"
        )
    return list(e.op("stablehlo.custom_call", operands, results, attributes).results)

"""Sorts as calls of the radix kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.partition.emit import Emitter
from weft.partition.walk import maker

SMALL = 512
"""Elements up to which XLA's sort is as good."""
LONG = 16384
"""Elements from which a row is sorted by wide digits, and where rows are few by all threads."""

KINDS = {  # name of an element type → how its values are ordered, width, bits of infinity
    **{f"ui{n}": (0, n, 0) for n in (8, 16, 32, 64)},
    **{f"i{n}": (1, n, 0) for n in (8, 16, 32, 64)},
    "i1": (0, 8, 0),
    "f16": (2, 16, 0x7C00),
    "bf16": (2, 16, 0x7F80),
    "f32": (2, 32, 0x7F800000),
    "f64": (2, 64, 0x7FF0000000000000),
}
_WIDTHS = {name: width for name, (_, width, _) in KINDS.items()} | {"complex<f32>": 64}


def sort(e: Emitter, op: ir.Operation, num_keys: int) -> Sequence[ir.Value] | None:
    """Replaces a sort by its first `num_keys` operands."""
    shape = list(op.results[0].type.shape)
    size, rank = math.prod(shape), len(shape)
    dim = op.attributes["dimension"].value % rank
    n = shape[dim]
    names = [str(x.type.element_type) for x in op.operands]
    if size < SMALL or n < 2 or n >= 2**32 or not has_compiler():
        return None
    if any(name not in _WIDTHS for name in names) or any(k not in KINDS for k in names[:num_keys]):
        return None
    order = [d for d in range(rank) if d != dim] + [dim]
    back = [order.index(d) for d in range(rank)]

    def turned(x: ir.Value, permutation: list[int]) -> ir.Value:
        return x if permutation == list(range(rank)) else e.transpose(x, permutation)

    rows, shape = size // n, [shape[d] for d in order]
    if len(names) == 1 and is_narrow(names[0], size // n, n):
        return [_by_network(e, op.operands[0], dim)]
    if len(names) == 1:
        x = turned(op.operands[0], order)
        kernel, counts = _kernel(e, "sort", names[0], rows, n)
        out, _, _ = call(e, kernel, [x], [x.type, x.type, counts], [rows, n])
        return [turned(out, back)]
    indices = e.type(shape, e.i32)
    permutation: ir.Value | None = None
    for k in reversed(range(num_keys)):  # stable sorts, the key that matters most last
        x = turned(op.operands[k], order)
        kernel, counts = _kernel(e, "order", names[k], rows, n)
        given = x if permutation is None else permutation
        results = [indices, indices, x.type, x.type, counts]
        permutation, *_ = call(e, kernel, [x, given], results, [rows, n, int(given is not x)])
    assert permutation is not None
    outs = []
    for x, name in zip(op.operands, names, strict=True):
        if counts_up(x, dim):
            taken = e.convert(permutation, x.type.element_type)
        else:
            kernel = target("sort", "take", {"U": f"u{_WIDTHS[name]}"})
            x = turned(x, order)
            (taken,) = call(e, kernel, [x, permutation], [x.type], [rows, n])
        outs.append(turned(taken, back))
    return outs


def is_narrow(name: str, rows: int, n: int) -> bool:
    """Whether rows are many and short, so that a row for each lane of a vector is fastest."""
    bits = KINDS[name][1]
    return bits >= 16 and rows * bits >= host().vector_bytes * 8 and n < LONG // 2


def _by_network(e: Emitter, x: ir.Value, dim: int) -> ir.Value:
    """Sorts where the elements are, whichever dimension it is."""
    shape = x.type.shape
    outer, n, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    kind, bits, infinity = KINDS[str(x.type.element_type)]
    lanes = host().vector_bytes * 8 // bits
    bindings: dict[str, str | int] = {
        "U": f"u{bits}", "BITS": bits, "KIND": kind, "INFINITY": infinity, "LANES": lanes,
    }  # fmt: skip
    groups = outer * -(-inner // lanes) if inner > 1 else -(-outer // lanes)
    parts = min(groups, 4 * threads())
    scratch = e.type([parts * n * lanes], x.type.element_type)
    parameters = [outer, n, inner, parts]
    out, _ = call(e, target("network", "network", bindings), [x], [x.type, scratch], parameters)
    return out


def _kernel(e: Emitter, entry: str, name: str, rows: int, n: int) -> tuple[str, ir.Type]:
    """The target that sorts such rows, and its memory for each thread's counts of digits."""
    kind, bits, infinity = KINDS[name]
    radix = 11 if n >= LONG and bits >= 32 else 8
    digits = -(-bits // radix)
    bindings = {
        "U": f"u{bits}", "BITS": bits, "KIND": kind, "INFINITY": infinity,
        "RADIX": radix, "DIGITS": digits, "BUCKETS": 2**radix,
    }  # fmt: skip
    whole_row = n >= LONG and rows < threads()
    counts = e.type([threads() * digits * 2**radix], e.i32)
    return target("sort", f"{entry}_long" if whole_row else entry, bindings), counts


def counts_up(x: ir.Value, dim: int) -> bool:
    """Whether an array of integers is 0, 1, 2, … along a dimension."""
    op = maker(x)
    if op is not None and op.name == "stablehlo.broadcast_in_dim":
        if list(op.attributes["broadcast_dimensions"]) != [dim]:
            return False
        op, dim = maker(op.operands[0]), 0
    if (
        op is None
        or op.name != "stablehlo.iota"
        or not isinstance(x.type.element_type, ir.IntegerType)
    ):
        return False
    return op.attributes["iota_dimension"].value == dim

"""Sorts as calls of the radix kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.limits import (
    CARRIED,
    LISTED,
    LONG,
    RANKS,
    SELECTED,
    SHARED_ROW,
    SMALLEST,
    VECTOR_ROW,
)
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.partition.emit import Emitter
from weft.partition.walk import maker

KINDS = {  # name of an element type → how its values are ordered, width, bits of infinity
    **{f"ui{n}": (0, n, 0) for n in (8, 16, 32, 64)},
    **{f"i{n}": (1, n, 0) for n in (8, 16, 32, 64)},
    "i1": (0, 8, 0),
    "f16": (2, 16, 0x7C00),
    "bf16": (2, 16, 0x7F80),
    "f32": (2, 32, 0x7F800000),
    "f64": (2, 64, 0x7FF0000000000000),
}


def bindings_of(name: str, **more: str | int) -> dict[str, str | int]:
    """Return the bindings of `kernels/keys.py` for a type of elements, and a kernel's own."""
    kind, bits, infinity = KINDS[name]
    return {"U": f"u{bits}", "BITS": bits, "KIND": kind, "INFINITY": infinity, **more}


_WIDTHS = {name: width for name, (_, width, _) in KINDS.items()} | {"complex<f32>": 64}


def sort(e: Emitter, op: ir.Operation, num_keys: int) -> Sequence[ir.Value] | None:
    """Replace a sort by its first `num_keys` operands."""
    shape = list(op.results[0].type.shape)
    size, rank = math.prod(shape), len(shape)
    dim = op.attributes["dimension"].value % rank
    n = shape[dim]
    names = [str(x.type.element_type) for x in op.operands]
    if size < SMALLEST or n < 2 or n >= 2**32 or not has_compiler():
        return None
    if any(name not in _WIDTHS for name in names) or any(k not in KINDS for k in names[:num_keys]):
        return None
    order = [d for d in range(rank) if d != dim] + [dim]
    back = [order.index(d) for d in range(rank)]

    def turned(x: ir.Value, permutation: list[int]) -> ir.Value:
        return x if permutation == list(range(rank)) else e.transpose(x, permutation)

    rows, shape = size // n, [shape[d] for d in order]
    if len(names) == 1 and n >= SELECTED and _select(e, op, dim):
        return op.operands
    # Keys alone: no order to keep, so vectors may exchange them.
    if len(names) == 1:
        bits, narrow = _WIDTHS[names[0]], is_narrow(names[0], rows, n)
        if bits in vector_widths() and (n >= VECTOR_ROW or not narrow):
            return [turned(_by_quicksort(e, turned(op.operands[0], order), rows, n), back)]
        if narrow:
            return [_by_network(e, op.operands[0], dim)]
        x = turned(op.operands[0], order)
        kernel, counts = _kernel(e, "sort", names[0], rows, n)
        out, _, _ = call(e, kernel, [x], [x.type, x.type, counts], [rows, n])
        return [turned(out, back)]
    indices = e.type(shape, e.i32)
    # A key and a value of its size are sorted as one wider number.
    if _carries(op, names, num_keys, rows, n):
        x, along = (turned(v, order) for v in op.operands)
        carried = turned(_pairs(e, x, along, along.type, rows, n, 2), back)
        return [op.operands[0], carried]
    permutation: ir.Value | None = None
    for k in reversed(range(num_keys)):  # stable sorts, the key that matters most last
        x = turned(op.operands[k], order)
        previous = x if permutation is None else permutation
        if KINDS[names[k]][1] == 32 and _sorts_words(rows, n):
            permutation = _pairs(e, x, previous, indices, rows, n, int(previous is not x))
            continue
        kernel, counts = _kernel(e, "order", names[k], rows, n)
        results = [indices, indices, x.type, x.type, counts]
        permutation, *_ = call(e, kernel, [x, previous], results, [rows, n, int(previous is not x)])
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


def _select(e: Emitter, op: ir.Operation, dim: int) -> bool:
    """Replace what is sliced from the result, where these are single elements of each row."""
    (x,), (result,) = op.operands, op.results
    shape, name = list(x.type.shape), str(x.type.element_type)
    bits = KINDS[name][1]
    users = [use.owner for use in result.uses]
    if not users or dim != len(shape) - 1 or bits < 16:
        return False
    if any(user.name != "stablehlo.slice" for user in users):
        return False
    starts = [[int(v) for v in user.attributes["start_indices"]] for user in users]
    whole = [[*shape[:-1], 1] == list(user.results[0].type.shape) for user in users]
    ranks = sorted({start[-1] for start in starts})
    if not all(whole) or len(ranks) > RANKS:
        return False
    n, rows = shape[-1], math.prod(shape[:-1])
    radix = 11 if n >= LONG and bits >= 32 else 8
    bindings = bindings_of(name, RADIX=radix, BUCKETS=2**radix, RANKS=len(ranks))
    parts = min(rows, 4 * threads())
    element = x.type.element_type
    types = [e.type([*shape[:-1], len(ranks)], element), e.type([parts * (n + 1)], element)]
    kernel = target("select", "ranks", bindings)
    selected, _ = call(e, kernel, [x], types, [rows, n, parts, *ranks])
    for user, start in zip(users, starts, strict=True):
        at = ranks.index(start[-1])
        attributes = {
            "start_indices": e.i64s([*start[:-1], at]),
            "limit_indices": e.i64s([*shape[:-1], at + 1]),
            "strides": e.i64s([1] * len(shape)),
        }
        (new,) = e.op("stablehlo.slice", [selected], [user.results[0].type], attributes).results
        user.results[0].replace_all_uses_with(new)
        user.erase()
    return True


def top_k(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace the greatest elements of the last dimension, with their indices."""
    (x,), (values, indices) = op.operands, op.results
    shape, name = list(x.type.shape), str(x.type.element_type)
    count = values.type.shape[-1]
    few = math.prod(shape) < SMALLEST or not 0 < count <= LISTED
    if few or name not in KINDS or not has_compiler():
        return None
    kernel = target("topk", "topk", bindings_of(name))
    parameters = [math.prod(shape[:-1]), shape[-1], count]
    return call(e, kernel, [x], [values.type, indices.type], parameters)


def vector_widths() -> set[int]:
    """Find the widths of the keys that the processor can split as vectors."""
    able = host().able
    return {16, 32, 64} if "avx512vbmi2" in able else {32, 64} if "avx2" in able else set()


def has_words() -> bool:
    """Tell whether vectors of a key and an index in each word are faster than radix sorts."""
    return "avx512f" in host().able


def _sorts_words(rows: int, n: int) -> bool:
    """Tell whether 32-bit keys are sorted in one word with what goes along."""
    return has_words() or (n >= LONG and rows < threads())


def _parts(rows: int, n: int) -> int:
    """Return how many threads sort rows by themselves; 0 where all share a long one."""
    if n >= SHARED_ROW and rows < threads():
        return 0
    return 1 if rows * n <= 4096 else min(rows, 4 * threads())


def vector_bindings(bits: int) -> dict[str, str | int]:
    """Return the bindings of `kernels/quick.py` for keys of a width."""
    lanes = min(host().vector_bytes, 64) * 8 // bits
    between = 1 if lanes * bits == 512 else 2
    return {"S": f"i{bits}", "LANES": lanes, "BETWEEN": between, "GREATEST": 2 ** (bits - 1) - 1}


def is_narrow(name: str, rows: int, n: int) -> bool:
    """Tell whether rows are many and short, so that a row for each lane of a vector is fastest."""
    bits = KINDS[name][1]
    return bits >= 16 and rows * bits >= host().vector_bytes * 8 and n < LONG // 2


def _by_network(e: Emitter, x: ir.Value, dim: int) -> ir.Value:
    """Sort where the elements are, whichever dimension it is."""
    shape = x.type.shape
    outer, n, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    name = str(x.type.element_type)
    lanes = host().vector_bytes * 8 // KINDS[name][1]
    bindings = bindings_of(name, LANES=lanes)
    groups = outer * -(-inner // lanes) if inner > 1 else -(-outer // lanes)
    parts = min(groups, 4 * threads())
    scratch = e.type([parts * n * lanes], x.type.element_type)
    parameters = [outer, n, inner, parts]
    out, _ = call(e, target("network", "network", bindings), [x], [x.type, scratch], parameters)
    return out


def _by_quicksort(e: Emitter, x: ir.Value, rows: int, n: int) -> ir.Value:
    """Sort the last dimension by vectors of AVX2 or AVX-512."""
    name = str(x.type.element_type)
    bindings = bindings_of(name, **vector_bindings(KINDS[name][1]))
    parts = _parts(rows, n)
    spare = e.type([max(parts, 1) * n], x.type.element_type)
    kernel = target("quick", "quicksort", bindings)
    return call(e, kernel, [x], [x.type, spare], [rows, n, parts])[0]


def _carries(op: ir.Operation, names: list[str], num_keys: int, rows: int, n: int) -> bool:
    """Return whether only 32-bit values that go along with 32-bit keys of a long row are used."""
    return (
        num_keys == 1
        and [_WIDTHS[name] for name in names] == [32, 32]
        and _sorts_words(rows, n)
        and not any(True for _ in op.results[0].uses)
    )


def _pairs(
    e: Emitter, x: ir.Value, along: ir.Value, out: ir.Type, rows: int, n: int, mode: int
) -> ir.Value:
    """Sort the values that go along with 32-bit keys; `mode` as in `kernels/pairs.py`."""
    bindings = bindings_of(str(x.type.element_type))
    # Where it is large, what goes along is looked up slower than it is carried.
    if has_words() and (mode < 2 or n < CARRIED or rows >= threads()):
        parts = _parts(rows, n)
        words = e.type([2 * max(parts, 1) * n], e.i64)
        kernel = target("words", "words", {**bindings, **vector_bindings(64)})
        return call(e, kernel, [x, along], [out, words], [rows, n, parts, mode])[0]
    words, counts = e.type([n], e.i64), e.type([threads() * 1024], e.i32)
    # Random words fill buckets evenly; each then has a few, of which the index makes none equal.
    drawn = str(x.type.element_type) == "ui32"
    distinct = drawn and 64 in vector_widths() and (mode < 2 or n < CARRIED)
    bindings |= {"DISTINCT": int(distinct), **(vector_bindings(64) if distinct else {})}
    kernel = target("pairs", "pairs", bindings)
    return call(e, kernel, [x, along], [out, words, words, counts], [rows, n, mode])[0]


def _kernel(e: Emitter, entry: str, name: str, rows: int, n: int) -> tuple[str, ir.Type]:
    """Return the target that sorts such rows, and its memory for each thread's counts of digits."""
    bits = KINDS[name][1]
    radix = 11 if n >= LONG and bits >= 32 else 8
    digits = -(-bits // radix)
    bindings = bindings_of(name, RADIX=radix, DIGITS=digits, BUCKETS=2**radix)
    whole_row = n >= LONG and rows < threads()
    counts = e.type([threads() * digits * 2**radix], e.i32)
    return target("sort", f"{entry}_long" if whole_row else entry, bindings), counts


def counts_up(x: ir.Value, dim: int) -> bool:
    """Return whether an array of integers is 0, 1, 2, … along a dimension."""
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

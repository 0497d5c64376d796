"""Carries operations through Shardy as custom calls with sharding rules of our own.

Shardy has no rules for CHLO: an elementwise CHLO operation (erf, lgamma, …) gets a pointwise one
and is itself again in the local program, so XLA sees the operation and not its expansion. Reshapes
whose dimensions do not nest, such as 2×6×3 to 18×2, end the process in Shardy's passes (jaxlib
0.10.2): they get a rule that shares only the major factor. On meshes whose axes have sizes of
different primes, so do reshapes of three and more dimensions at once: they become steps of two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition import walk
from weft.partition.ops import facts
from weft.partition.walk import outer_first

_PREFIX, _ATTRIBUTES = "weft.", "weft.attributes"  # of the calls: a target, and what they had


def wrap_unsupported(module: ir.Module) -> None:
    """Replaces the operations Shardy cannot take by custom calls with sharding rules, in place."""
    meshes = [v.operation for v in module.body.operations if v.operation.name == "sdy.mesh"]
    sizes = [sdy.mesh_axes(mesh.attributes["mesh"]).values() for mesh in meshes]
    stepwise = any(len(axes) > 1 and not _one_prime(axes) for axes in sizes)
    for op in list(outer_first(module.operation)):
        if op.name.startswith("chlo.") and facts(op).pointwise:
            rank = len(op.results[0].type.shape)
            dims = "[" + ", ".join(_letter(i) for i in range(rank)) + "]"
            operands = ", ".join([dims] * len(op.operands))
            _replace(op, f"({operands})->({dims})", op.results[0].type.shape, [])
        elif op.name == "chlo.top_k":
            shape = tuple(op.operands[0].type.shape)
            k = op.results[0].type.shape[-1]
            lead = [_letter(i) for i in range(len(shape) - 1)]
            last, kept = _letter(len(shape) - 1), _letter(len(shape))
            source, out = ", ".join([*lead, last]), ", ".join([*lead, kept])
            _replace(op, f"([{source}])->([{out}], [{out}])", [*shape, k], [last, kept])
        elif op.name == "stablehlo.reshape":
            shape, result = tuple(op.operands[0].type.shape), tuple(op.results[0].type.shape)
            if not nests(shape, result):
                _replace(op, *_reshape_rule(shape, result))
            elif stepwise:
                _reshape_in_steps(op, shape, result)


def _one_prime(sizes: Iterable[int]) -> bool:
    """True where all sizes are powers of one prime."""
    size = math.prod(sizes)
    prime = next((p for p in range(2, size + 1) if size % p == 0), 2)
    while size % prime == 0:
        size //= prime
    return size == 1


def _reshape_in_steps(op: ir.Operation, shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    """Splits one dimension in two, or joins two, at a time, where a dimension has more parts."""
    bounds = sorted({math.prod(s[:i]) for s in (shape, result) for i in range(len(s) + 1)})
    parts = [_parts(s, bounds) for s in (shape, result)]
    if max(map(len, (*parts[0], *parts[1])), default=0) < 3:
        return
    value = op.operands[0]
    for step in (*_splits(parts[0]), *reversed(_splits(parts[1])[:-1]), result):
        if tuple(value.type.shape) != step:
            value = ir.Operation.create(
                "stablehlo.reshape",
                results=[ir.RankedTensorType.get(step, value.type.element_type)],
                operands=[value],
                loc=op.location,
                ip=ir.InsertionPoint(op),
            ).results[0]
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _parts(shape: tuple[int, ...], bounds: list[int]) -> list[list[int]]:
    """The factors of each dimension between the bounds that it shares with another shape."""
    out, start = [], 1
    for size in shape:
        inner = [b for b in bounds if start <= b <= start * size]
        out.append([high // low for low, high in itertools.pairwise(inner)] or [1])
        start *= size
    return out


def _splits(parts: list[list[int]]) -> list[tuple[int, ...]]:
    """The shapes on the way to all parts, each splitting off one more; the last is the finest."""
    shapes: list[tuple[int, ...]] = []
    done: list[int] = []
    for i, dim in enumerate(parts):
        rest = [math.prod(d) for d in parts[i + 1 :]]
        for k in range(len(dim) - 1):
            shapes.append((*done, *dim[: k + 1], math.prod(dim[k + 1 :]), *rest))
        done += dim
    return [*shapes, tuple(done)]


def nests(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """True where the dimensions of two shapes of one size split and merge without crossing.

    >>> nests((8, 3), (2, 12)), nests((2, 6, 3), (18, 2))
    (True, False)
    """
    if 0 in a or 0 in b:
        return False
    bounds = sorted({math.prod(s[:i]) for s in (a, b) for i in range(len(s) + 1)})
    return all(high % low == 0 for low, high in itertools.pairwise(bounds))


def _reshape_rule(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[str, list[int], list[str]]:
    """The mapping, factor sizes, and unsplittable factors of a reshape that does not nest.

    Leading equal dimensions share their factors, the first unequal ones their common major part.
    """
    sizes: list[int] = []
    whole: list[str] = []
    left: list[str] = []
    right: list[str] = []

    def factor(size: int, split: bool) -> str:
        sizes.append(size)
        name = _letter(len(sizes) - 1)
        if not split:
            whole.append(name)
        return name

    first = 0
    while first < min(len(a), len(b)) and a[first] == b[first]:
        name = factor(a[first], True)
        left.append(name)
        right.append(name)
        first += 1
    shared, common = None, 1
    if first < min(len(a), len(b)) and 0 not in a:
        common = math.gcd(a[first], b[first])
        shared = factor(common, True) if common > 1 else None
    for shape, names in ((a, left), (b, right)):
        for i, size in enumerate(shape[first:]):
            parts = ""
            if i == 0 and shared is not None:
                parts, size = shared, size // common
            if size != 1 or not parts:
                parts += factor(size, False)
            names.append(parts)
    return f"([{', '.join(left)}])->([{', '.join(right)}])", sizes, whole


def restore(module: ir.Module) -> None:
    """Puts what `wrap_unsupported` replaced back, in place, with its sharding and its rule."""
    for op in list(outer_first(module.operation)):
        if _ATTRIBUTES not in op.attributes:
            continue
        attributes = {a.name: a.attr for a in ir.DictAttr(op.attributes[_ATTRIBUTES])}
        for name in ("sdy.sharding", "sdy.sharding_origins"):
            if name in op.attributes:
                attributes[name] = op.attributes[name]
        if "sdy.sharding_rule" in op.attributes:  # Shardy allows custom ones on calls only
            text = str(op.attributes["sdy.sharding_rule"]).replace(", custom>", ">")
            attributes["sdy.sharding_rule"] = ir.Attribute.parse(text, op.context)
        _put(op, op.attributes["call_target_name"].value.removeprefix(_PREFIX), attributes)


def _replace(op: ir.Operation, mapping: str, sizes, whole: list[str]) -> None:
    context = op.context
    factors = ", ".join(f"{_letter(i)}={n}" for i, n in enumerate(sizes))
    need = f" need_replication={{{', '.join(whole)}}}" if whole else ""
    # A rule needs at least one factor; rank 0 has none and needs no rule.
    attributes = {
        "call_target_name": ir.StringAttr.get(_PREFIX + op.name, context),
        _ATTRIBUTES: ir.DictAttr.get(walk.attributes_of(op), context),
    }
    if sizes and math.prod(sizes):
        text = f"#sdy.op_sharding_rule<{mapping} {{{factors}}}{need}, custom>"
        attributes["sdy.sharding_rule"] = ir.Attribute.parse(text, context)
    _put(op, "stablehlo.custom_call", attributes)


def _put(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """Puts another operation in the place of one."""
    made = ir.Operation.create(
        name,
        results=[r.type for r in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _letter(index: int) -> str:
    """Factor names as Shardy prints them: i … z, then z_1, z_2, …"""
    return chr(ord("i") + index) if index < 18 else f"z_{index - 17}"

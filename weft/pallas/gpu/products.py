# Tests: tests/pallas/test_gpu.py
"""Products of matrices that are read as a whole but do not fit in registers: read part by part.

`out[...] = a[...] @ b[...]` names all of a row of blocks at once. Where nothing else uses what is
read, the sum runs over parts of the shared dimension, as a kernel that loops itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.jaxpr import Eqn, Jaxpr, Literal
from weft.core.ref import Indexer, Window
from weft.pallas.gpu import arrays, memory
from weft.pallas.gpu.control import for_loop
from weft.pallas.gpu.elementwise import convert
from weft.pallas.gpu.emitter import INT, Emitter, padded
from weft.pallas.gpu.registers import Cell

LARGEST = 256
"""Bytes of the shared dimension up to which factors are read at once."""
PART = 128
"""Bytes of it that are read at a time otherwise."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor as it is read: the `get`, then the transposes and conversions behind it, in order.

    axis: the shared dimension of what is read.
    """

    get: Eqn
    changes: tuple[Eqn, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Product:
    dot: Eqn
    factors: tuple[Factor, Factor]


def streamed(jaxpr: Jaxpr, refs: dict[Any, Any]) -> tuple[dict[int, Product], set[int]]:
    """Products of a body to compute part by part, by the ids of their equations.

    And the ids of the equations that these take the place of. refs: what the body's inputs are.
    """
    products: dict[int, Product] = {}
    replaced: set[int] = set()
    large = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "dot_general" and _is_large(eqn)]
    if not large:
        return products, replaced
    definitions = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    uses: dict[Any, int] = {}
    for atoms in (jaxpr.outvars, *(eqn.invars for eqn in jaxpr.eqns)):
        for v in atoms:
            if not isinstance(v, Literal):
                uses[v] = uses.get(v, 0) + 1
    place = {id(eqn): i for i, eqn in enumerate(jaxpr.eqns)}
    for dot in large:
        (left, right), _ = dot.params["dimension_numbers"]
        factors = [
            _factor(v, axis, definitions, uses)
            for v, (axis,) in zip(dot.invars, (left, right), strict=True)
        ]
        a, b = factors
        if a is None or b is None:
            continue
        if any(isinstance(refs.get(f.get.invars[0]), Cell) for f in (a, b)):
            continue
        start = min(place[id(a.get)], place[id(b.get)])
        between = jaxpr.eqns[start : place[id(dot)]]
        if all(eqn.primitive.name == "get" or not eqn.effects for eqn in between):
            products[id(dot)] = Product(dot, (a, b))
            replaced |= {id(eqn) for f in (a, b) for eqn in (f.get, *f.changes)}
    return products, replaced


def _is_large(dot: Eqn) -> bool:
    (left, _), (batch, _) = dot.params["dimension_numbers"]
    a, b = (v.aval for v in dot.invars)
    if batch or len(left) != 1 or a.ndim != 2 or b.ndim != 2:
        return False
    inner = a.shape[left[0]]
    free = padded((a.size // max(inner, 1), b.size // max(inner, 1)))
    if a.dtype != b.dtype or a.dtype == np.bool_:
        return False
    # Matrix units multiply floats and bytes; other products are unrolled, and long to compile.
    most = LARGEST if dtypes.is_float(a.dtype) or a.dtype == np.int8 else PART
    return min(free) >= 16 and inner * a.dtype.itemsize > most


def _factor(var: object, axis: int, definitions: dict, uses: dict) -> Factor | None:
    changes: list[Eqn] = []
    while not isinstance(var, Literal) and uses[var] == 1 and var in definitions:
        eqn = definitions[var]
        name = eqn.primitive.name
        if name == "get":
            indexer, count = eqn.params["indexer"], len(eqn.invars)
            plain = not indexer.has_picks and count == 1 + indexer.num_operands
            return Factor(eqn, tuple(reversed(changes)), axis) if plain else None
        if name == "transpose":
            axis = eqn.params["permutation"][axis]
        elif name != "convert_element_type":
            return None
        changes.append(eqn)
        var = eqn.invars[0]
    return None


def emit(e: Emitter, product: Product, read: Callable[[Any], Any]) -> ir.Value:
    dot = product.dot
    operands = [[read(v) for v in f.get.invars] for f in product.factors]
    inner = dot.invars[0].aval.shape[dot.params["dimension_numbers"][0][0][0]]
    factor = arrays.factor_dtype(e, dot)
    widest = max(f.get.outvars[0].aval.dtype.itemsize for f in product.factors)
    size = PART // max(widest, factor.itemsize if factor == INT else 1)
    for xs in operands:
        memory.before_read(e, xs[0])
    out = dot.outvars[0].aval
    kind = arrays.accumulator(factor)
    m, n = padded(out.shape)

    def body(index: ir.Value, total: ir.Value) -> list:
        first = e.binary("mul", index, e.constant(size), INT)
        parts = [
            _part(e, f, xs, first, size, inner)
            for f, xs in zip(product.factors, operands, strict=True)
        ]
        parts = [
            convert(e, x, v.aval.dtype, factor) for x, v in zip(parts, dot.invars, strict=True)
        ]
        return [arrays.multiply(e, dot, *arrays.oriented(e, dot, *parts), total)]

    (total,) = for_loop(e, -(-inner // size), [e.constant(0, (m, n), kind)], body)
    return convert(e, total, kind, out.dtype)


def _part(
    e: Emitter, factor: Factor, xs: Sequence[Any], first: ir.Value, size: int, inner: int
) -> ir.Value:
    """Part of a factor: `size` places of the shared dimension, zeros behind its end."""
    view, indexer = xs[0], factor.get.params["indexer"]
    windows = [d for d, dim in enumerate(indexer.dims) if dim.__class__ is Window]
    d = windows[factor.axis]
    dim = indexer.dims[d]
    types = [v.aval.dtype for v in factor.get.invars[1:]]
    positions = iter([convert(e, x, t, INT) for x, t in zip(xs[1:], types, strict=True)])
    operands: list[ir.Value] = []
    for k, this in enumerate(indexer.dims):
        start = next(positions) if this.operands else None
        if k != d:
            operands += [start] if start is not None else []
            continue
        start = e.constant(this.start) if start is None else start
        if inner % size:
            span = (inner - 1) * dim.stride + 1
            end = e.binary("add", start, e.constant(span), INT)
            low, high = view.bounds[d] or (None, None)
            high = end if high is None else e.binary("min", high, end, INT)
            bounds = (*view.bounds[:d], (low, high), *view.bounds[d + 1 :])
            view = replace(view, bounds=bounds)
        moved = first
        if dim.stride != 1:
            moved = e.binary("mul", first, e.constant(dim.stride), INT)
        operands.append(e.binary("add", start, moved, INT))
    dims = (*indexer.dims[:d], Window(None, size, dim.stride), *indexer.dims[d + 1 :])
    part = Indexer(dims)
    pointer, mask = memory.addresses(e, view, part, operands, [INT] * len(operands))
    x = memory.load(e, pointer, mask, None, view.dtype, part.shape)
    for eqn in factor.changes:
        if eqn.primitive.name == "transpose":
            x = arrays.transpose(e, x, eqn.params["permutation"])
        else:
            x = convert(e, x, eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype)
    return x

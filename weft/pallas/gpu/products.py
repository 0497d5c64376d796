# Tests: tests/pallas/test_gpu.py
"""Products of matrices that are read as a whole but do not fit in registers: read part by part.

`out[...] = a[...] @ b[...]` names all of a row of blocks at once. Where nothing else uses what is
read, the sum runs over parts of the shared dimension, as a kernel that loops itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.pallas.gpu.arrays as arrays
from weft._xla.mlir import ir
from weft.autodiff.shape import broadcasted_iota
from weft.autodiff.zeros import full
from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal
from weft.core.ref import Indexer, Window
from weft.core.trace import trace_to_jaxpr
from weft.ops.control.loops import fori_loop
from weft.pallas.gpu.emitter import INT, Emitter, padded, target_of
from weft.pallas.gpu.registers import Cell
from weft.pallas.legalize import legalize
from weft.refs.ops import get_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

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
    """Return products of a body to compute part by part, by the ids of their equations.

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
    position = {id(eqn): i for i, eqn in enumerate(jaxpr.eqns)}
    for dot in large:
        a, b = (_factor(v, k, definitions, uses) for v, k in zip(dot.invars, (1, 0), strict=True))
        if a is None or b is None:
            continue
        if any(isinstance(refs.get(f.get.invars[0]), Cell) for f in (a, b)):
            continue
        start = min(position[id(a.get)], position[id(b.get)])
        between = jaxpr.eqns[start : position[id(dot)]]
        if all(eqn.primitive.name == "get" or not eqn.effects for eqn in between):
            products[id(dot)] = Product(dot, (a, b))
            replaced |= {id(eqn) for f in (a, b) for eqn in (f.get, *f.changes)}
    return products, replaced


def _is_large(dot: Eqn) -> bool:
    a, b = (v.aval for v in dot.invars)
    if a.ndim != 2:
        return False
    inner, free = a.shape[1], padded((a.shape[0], b.shape[1]))
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
            indexer, count = eqn.rule_params["indexer"], len(eqn.invars)
            plain = not indexer.has_picks and count == 1 + indexer.num_operands
            return Factor(eqn, tuple(reversed(changes)), axis) if plain else None
        if name == "transpose":
            axis = eqn.rule_params["permutation"][axis]
        elif name != "convert_element_type":
            return None
        changes.append(eqn)
        var = eqn.invars[0]
    return None


def emit(e: Emitter, product: Product, read: Callable[[Any], Any]) -> ir.Value:
    """Return the sum over parts of the shared dimension."""
    atoms = [v for f in product.factors for v in f.get.invars]
    kind = arrays.factor_dtype(e, product.dot)
    widest = max(f.get.outvars[0].aval.dtype.itemsize for f in product.factors)
    size = PART // max(widest, kind.itemsize if kind == INT else 1)
    total = lambda *xs: [_sum_of_parts(product, size, arrays.accumulator(kind), xs)]
    jaxpr = ClosedJaxpr(*trace_to_jaxpr(total, [v.aval for v in atoms], "product"))
    (out,) = e.run(legalize(jaxpr, target_of(e.platform), e.call), [read(v) for v in atoms])
    return out


def _sum_of_parts(product: Product, size: int, kind: np.dtype, operands: Sequence[Any]) -> Any:
    """Return the product from the operands of its factors' reads, added up in a dtype."""
    dot, count = product.dot, len(product.factors[0].get.invars)
    out, params = dot.outvars[0].aval, dot.rule_params | {"preferred_element_type": kind}
    inner = dot.invars[0].aval.shape[1]

    def add(k: Array, total: Array) -> Array:
        parts = [
            _part(f, xs, k * size, size, inner)
            for f, xs in zip(product.factors, (operands[:count], operands[count:]), strict=True)
        ]
        return total + dot.primitive.bind(*parts, **params)

    steps = np.int32(-(-inner // size))
    return fori_loop(np.int32(0), steps, add, full(out.shape, 0, kind)).astype(out.dtype)


def _part(factor: Factor, operands: Sequence[Any], first: Array, size: int, inner: int) -> Array:
    """Part of a factor: `size` places of the shared dimension, zeros behind its end."""
    ref, *positions = operands
    dims = factor.get.rule_params["indexer"].dims
    d = [k for k, dim in enumerate(dims) if dim.__class__ is Window][factor.axis]
    starts, rest = [], iter(positions)
    for k, dim in enumerate(dims):
        start = next(rest).astype(INT) if dim.operands else None
        if k == d:
            start = (dim.start if start is None else start) + first * dim.stride
        starts += [] if start is None else [start]
    part = Indexer((*dims[:d], Window(None, size, dims[d].stride), *dims[d + 1 :]))
    mask = []
    if inner % size:
        mask = [broadcasted_iota(INT, part.shape, factor.axis) < inner - first, ref.dtype.type(0)]
    has = bool(mask)
    x = get_p.bind(ref, *starts, *mask, indexer=part, masked=has, has_other=has)
    for eqn in factor.changes:
        x = eqn.primitive.bind(x, **eqn.rule_params)
    return x

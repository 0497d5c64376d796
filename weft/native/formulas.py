"""Elementwise functions that XLA:CPU computes one element at a time, as formulas of plain ops.

XLA makes vectors of a formula and fuses it with its neighbours. The formulas are those of kernels
(weft/formulas), which no op of StableHLO rounds as written: XLA computes `a * b + c` with
one rounding where the processor can, else with two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core import dtypes, provided
from weft.core.jaxpr import Jaxpr, Literal
from weft.lowering.context import splat_attr
from weft.lowering.marks import FORMULAS, REPAIRED
from weft.native.rewrite import FEW_ELEMENTS
from weft.partition.emit import Emitter
from weft.partition.walk import maker, splat_of


def formula(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value]:
    """Replace an elementwise operation of floats by its formula."""
    (result,) = op.results
    element, shape = result.type.element_type, list(result.type.shape)
    if op.name in _FEW and str(element) != "f64" and _runs_at_once(op):
        return widened(e, op, 0)
    name = FORMULAS[op.name][0]
    dtype = dtypes.float64 if str(element) == "f64" else dtypes.float32
    wide = mlir.element_type(dtype)
    operands, params = list(op.operands), dict[str, bool]()
    if name == "erfc" and (x := _divided_by_root_2(e, op, dtype)) is not None:
        operands, params = [x], {"of_root_half": True}
    operands = [e.convert(x, wide) for x in operands]
    closed = provided.element_formula(name, (dtype,) * len(operands), dtype, tuple(params.items()))
    (out,) = emit(e, closed.jaxpr, operands, shape)
    return [e.convert(out, element)]


def _divided_by_root_2(e: Emitter, op: ir.Operation, dtype: np.dtype) -> ir.Value | None:
    """Return x where the operand is x √½ or -x √½, as in normal distributions."""
    product = maker(op.operands[0])
    if product is None or product.name != "stablehlo.multiply":
        return None
    for x, y in (product.operands, product.operands[::-1]):
        factor = splat_of(y)
        if factor is not None and abs(factor) == dtype.type(math.sqrt(0.5)):
            return x if factor > 0 else e.make("stablehlo.negate", [x], x.type)
    return None


_FEW = frozenset(
    {
        "chlo.cosh",
        *(f"stablehlo.{n}" for n in ("cbrt", "exponential_minus_one", "log_plus_one", "tanh")),
    }
)
"""Functions that XLA counts as a few operations, however many instructions they are."""


def _runs_at_once(op: ir.Operation) -> bool:
    """Return whether XLA runs the program on the caller's thread: it has few operations.

    From 1000 on elements it moves to another, which takes as long as thousands of elements.
    """
    module, count = op, 0
    while module.parent is not None:
        module = module.parent
    if FEW_ELEMENTS in module.attributes:
        return module.attributes[FEW_ELEMENTS].value

    def look(other: ir.Operation) -> ir.WalkResult:
        nonlocal count
        sizes = [math.prod(r.type.shape) for r in other.results if hasattr(r.type, "shape")]
        count += 1000 if other.name == "stablehlo.while" else sum(sizes)
        return ir.WalkResult.ADVANCE if count < 1000 else ir.WalkResult.INTERRUPT

    module.walk(look)
    module.attributes[FEW_ELEMENTS] = ir.BoolAttr.get(count < 1000, op.context)
    return count < 1000


def widened(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value]:
    """Let XLA compute an operation in float64."""
    (result,) = op.results
    double = mlir.element_type(dtypes.float64)
    operands = [e.convert(x, double) for x in op.operands]
    out = e.make(op.name, operands, e.type(list(result.type.shape), double))
    return [e.convert(out, result.type.element_type)]


def repaired(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value]:
    """Let XLA compute a function of float64, but near its roots, where it has few digits."""
    (x,), (result,) = op.operands, op.results
    far = e.make(op.name, [x], result.type)
    kinds = (dtypes.float64, dtypes.float64)
    closed = provided.element_formula(REPAIRED[op.name], kinds, dtypes.float64)
    return emit(e, closed.jaxpr, [x, far], list(result.type.shape))


_EXACT = {8: dtypes.float32, 16: dtypes.float32, 32: dtypes.float64}
"""Width of integers → the floats whose rounded quotients have the whole part of the exact ones."""


def quotient(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a quotient of integers by that of floats, or a remainder by what it leaves."""
    x, y = op.operands
    element = x.type.element_type
    dtype = _EXACT.get(element.width)
    divisor = maker(y)
    if dtype is None or (divisor is not None and divisor.name == "stablehlo.constant"):
        return None
    ratio = e.binary("divide", *(e.convert(v, mlir.element_type(dtype)) for v in (x, y)))
    whole = e.convert(ratio, element)
    # XLA takes x / 0 for a number of all ones, and -2**31 / -1 for -2**31.
    shape, ones = x.type.shape, (1 << element.width) - 1 if element.is_unsigned else -1
    zero, ones = (e.splat(n, shape, element) for n in (0, ones))
    if not element.is_unsigned:
        whole = e.select(e.compare(y, ones, "EQ"), e.sub(zero, x), whole)
    whole = e.select(e.compare(y, zero, "EQ"), ones, whole)
    if op.name == "stablehlo.divide":
        return [whole]
    return [e.sub(x, e.mul(whole, y))]


def emit(
    e: Emitter, jaxpr: Jaxpr, operands: Sequence[ir.Value], shape: Sequence[int]
) -> list[ir.Value]:
    """Emit the equations of one element for all elements of arrays."""
    env: dict[Any, ir.Value] = dict(zip(jaxpr.invars, operands, strict=True))

    def value(atom: Any) -> ir.Value:
        if not isinstance(atom, Literal):
            return env[atom]
        dtype = atom.aval.dtype
        key = np.asarray(atom.val, dtype).tobytes(), dtype
        if key not in env:
            env[key] = e.constant(splat_attr(key[0], tuple(shape), dtype))
        return env[key]

    uses = Counter(x for eqn in jaxpr.eqns for x in eqn.invars if not isinstance(x, Literal))
    for eqn in jaxpr.eqns:
        xs, name = [value(x) for x in eqn.invars], eqn.primitive.name
        kind = e.type(shape, mlir.element_type(eqn.outvars[0].aval.dtype))
        match name:
            case "fma":
                out = e.add(e.mul(xs[0], xs[1]), xs[2])
            case "lt" | "le" | "eq" | "ne":
                out = e.compare(xs[0], xs[1], name.upper())
            case "select_n":
                out = e.select(xs[0], xs[2], xs[1])
            case "div" | "sqrt" if uses[eqn.outvars[0]] > 1:  # quirks.SHARED_QUOTIENTS
                out = e.make(_NAMES[name], xs, kind)
                out = e.select(e.compare(xs[-1], xs[-1], "NE"), xs[-1], out)
            case "round":
                out = e.make("stablehlo.round_nearest_even", xs, kind)
            case "ldexp":
                number, power = (x.aval.dtype for x in eqn.invars)
                inner = provided.element_formula(name, (number, power), number)
                (out,) = emit(e, inner.jaxpr, xs, shape)
            case _:
                out = e.make(eqn.primitive.hlo or _NAMES[name], xs, kind)
        env[eqn.outvars[0]] = out
    return [value(v) for v in jaxpr.outvars]


_NAMES = {
    "abs": "stablehlo.abs",
    "bitcast_convert_type": "stablehlo.bitcast_convert",
    "convert_element_type": "stablehlo.convert",
    "div": "stablehlo.divide",
    "exp": "stablehlo.exponential",
    "floor": "stablehlo.floor",
    "log": "stablehlo.log",
    "max": "stablehlo.maximum",
    "min": "stablehlo.minimum",
    "sqrt": "stablehlo.sqrt",
}
"""Op of formulas → operation, where neither needs attributes."""

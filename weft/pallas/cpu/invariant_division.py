# Tests: tests/pallas/test_cpu.py
"""Division by a value that stays the same along the innermost dimension.

Vectors are multiplied many times faster than they are divided. With r = 1/y rounded, q = x r and
the remainder e = x - q y (exact by fma), q + e r is the rounded quotient: P. Markstein,
"Computation of elementary functions on the IBM RISC System/6000 processor", 1990, theorem 8.3.
Divisors near the ends of the range are scaled first. Where q + e r is NaN (from 0, inf) or 0 (whose
sign may be wrong), q is right as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.pallas.cpu import types
from weft.pallas.cpu.arrays import pointwise
from weft.pallas.cpu.llvm import Function
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.types import Real
from weft.pallas.cpu.values import COSTLY, Array, Mapping, no_indices

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn

SHORTEST = 64
"""Elements from which on a row of quotients repays the reciprocal."""


def _constant_part(y: Array) -> tuple[Array, Mapping] | None:
    """(z, mapping) where y[i] = z[mapping(i)] does not depend on the last index."""
    if not y.shape:
        return y, no_indices
    if y.buffer is not None:
        return (y, lambda i: (*i[:-1], 0)) if y.buffer.strides[-1] == 0 else None
    if y.pointwise or len(y.inputs) != 1 or y.touched or y.producer is not None:
        return None
    z, mapping = y.inputs[0]
    if mapping is None or None in mapping((*(0,) * (len(y.shape) - 1), None)):
        return None
    return z, mapping


@rule("div")
def _divide(t: Translator, eqn: Eqn, x: Array, y: Array) -> Array:
    shape = tuple(eqn.outvars[0].aval.shape)
    part = _constant_part(y) if shape and shape[-1] >= SHORTEST else None
    if part is None or x.dtype.name not in ("float32", "float64"):
        return t.elementwise(eqn, [x, y])
    z, mapping = part
    scale = pointwise(z.shape, z.dtype, lambda f, i: _scale(_real(f, z), z.at(f, i)), [z], COSTLY)
    scaled = pointwise(z.shape, z.dtype, lambda f, i: _product(f, scale, z, i), [scale, z], 1)
    inverse = pointwise(z.shape, z.dtype, lambda f, i: _inverse(f, scaled, i), [scaled], COSTLY)

    def element(f: Function, i: tuple) -> str:
        m = _real(f, z)
        where = mapping(i)
        s, d, r = (a.at(f, where) for a in (scale, scaled, inverse))
        numerator = m.mul(x.at(f, i if x.shape else ()), s)
        quotient = m.mul(numerator, r)
        rest = m.fma(m.neg(quotient), d, numerator)
        better = m.fma(rest, r, quotient)
        return m.select(m.compare("one", better, m.c(0)), better, quotient)

    out = pointwise(shape, x.dtype, element, [x], COSTLY)
    out.inputs = (*out.inputs, (scale, mapping), (scaled, mapping), (inverse, mapping))
    return out


def _real(f: Function, z: Array) -> Real:
    return Real(f, types.register(z.dtype))


def _scale(m: Real, y: str) -> str:
    """A power of two that takes y to where its reciprocal is normal; mostly 1."""
    edge, step = (2.0**1020, 2.0**200) if m.wide else (2.0**125, 2.0**64)
    size = m.abs(y)
    down = m.select(m.compare("ogt", size, m.c(edge)), m.c(1 / step), m.c(1))
    return m.select(m.compare("olt", size, m.c(1 / edge)), m.c(step), down)


def _product(f: Function, a: Array, b: Array, i: tuple) -> str:
    return _real(f, a).mul(a.at(f, i), b.at(f, i))


def _inverse(f: Function, a: Array, i: tuple) -> str:
    m = _real(f, a)
    return m.div(m.c(1), a.at(f, i))

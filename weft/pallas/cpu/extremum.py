# Tests: tests/pallas/cpu/test_vectors.py
"""The extremum of many floats with NaN and signed zeros, as three extrema of their bits.

One instruction an element each, where a comparison of floats that heeds NaN takes several. As
signed integers the bits of positive floats are in order, and a positive NaN is above them; as
unsigned ones those of negative floats are in reverse order, and a negative NaN is above them.
"""

from __future__ import annotations

from weft.pallas.cpu.types import Real

_KINDS = {"max": ("smax", "umin", "umax"), "min": ("umax", "smin", "smax")}
"""Extrema to keep: of the numbers of the wanted sign, of those of the other sign, of NaNs of the
other sign. Those of the minimum are the same of bits with the sign turned over."""


class Extremum:
    """ "max" or "min" of floats of one type, as values that a loop carries."""

    def __init__(self, m: Real, kind: str) -> None:
        self.m, self.kind = m, kind
        self.sign = 1 << (63 if m.wide else 31)
        mantissa = (1 << m.mantissa) - 1
        self.infinity = (self.sign - 1) & ~mantissa
        """The bits of +inf."""

    def starts(self) -> list[str]:
        """Return the initial carry, the extremum of nothing: an infinity."""
        if self.kind == "max":
            return [str(-self.sign), str(self.infinity - self.sign), "0"]
        return ["0", str(self.infinity), str(-self.sign)]

    def step(self, carried: list[str], value: str) -> list[str]:
        bits, t = self.m.bits(value), self.m.int
        return [
            self.m.f.intrinsic(f"llvm.{name}.{t}", t, (t, before), (t, bits))
            for name, before in zip(_KINDS[self.kind], carried, strict=True)
        ]

    def result(self, carried: list[str]) -> str:
        f, t = self.m.f, self.m.int
        turn = self.kind == "min"
        if turn:
            carried = [self.m.integer("xor", c, -self.sign) for c in carried]
        wanted, other, nan = carried
        is_wanted = f.op(f"icmp sge {t} {wanted}, 0")
        value = f.op(f"select i1 {is_wanted}, {t} {wanted}, {t} {other}")
        broken = f.op(f"icmp ugt {t} {nan}, {self.infinity - self.sign}")
        value = f.op(f"select i1 {broken}, {t} {nan}, {t} {value}")
        return self.m.from_bits(self.m.integer("xor", value, -self.sign) if turn else value)

"""Elementary functions as straight-line code that LLVM vectorizes; no calls of a C library.

Float32 and float64, errors of at most 2 ulp (tests/pallas/test_cpu_math.py), special
values as IEEE 754-2008 asks. Methods and coefficients: S. L. Moshier, Cephes Mathematical
Library (logf, sinf, cosf); fdlibm, Sun Microsystems 1993 (log, log1p, sin, cos, atan);
W. J. Cody, W. Waite, "Software Manual for the Elementary Functions", 1980 (argument reduction).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.native.engine import host
from weft.pallas.cpu import vectors
from weft.pallas.cpu.llvm import Function
from weft.pallas.cpu.types import float_constant

LN2_HI = {"float": 0.693359375, "double": 6.93147180369123816490e-01}
LN2_LO = {"float": -2.12194440e-4, "double": 1.90821492927058770002e-10}


class Real:
    """Short forms of float instructions of one type, written into a function."""

    def __init__(self, f: Function, type_: str) -> None:
        self.f, self.type = f, type_
        self.wide = type_ == "double"
        self.int = "i64" if self.wide else "i32"
        self.suffix = "f64" if self.wide else "f32"
        self.mantissa, self.bias = (52, 1023) if self.wide else (23, 127)

    def c(self, value: float) -> str:
        return float_constant(value, self.type)

    def binary(self, op: str, a: str, b: str) -> str:
        return self.f.op(f"{op} {self.type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.binary("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.binary("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.binary("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        return self.binary("fdiv", a, b)

    def neg(self, a: str) -> str:
        return self.f.op(f"fneg {self.type} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        t = self.type
        return self.f.intrinsic(f"llvm.fma.{self.suffix}", t, (t, a), (t, b), (t, c))

    def call(self, name: str, *operands: str) -> str:
        """An intrinsic on operands of the type."""
        listing = [(self.type, o) for o in operands]
        return self.f.intrinsic(f"llvm.{name}.{self.suffix}", self.type, *listing)

    def abs(self, a: str) -> str:
        return self.call("fabs", a)

    def compare(self, how: str, a: str, b: str) -> str:
        return self.f.op(f"fcmp {how} {self.type} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.f.op(f"select i1 {condition}, {self.type} {a}, {self.type} {b}")

    def clamp(self, a: str, low: float, high: float) -> str:
        """a within the bounds; NaN stays."""
        a = self.select(self.compare("olt", a, self.c(low)), self.c(low), a)
        return self.select(self.compare("ogt", a, self.c(high)), self.c(high), a)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's rule, highest power first."""
        total = self.c(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.c(c))
        return total

    # Bits --------------------------------------------------------------------------------------

    def bits(self, a: str) -> str:
        return self.f.op(f"bitcast {self.type} {a} to {self.int}")

    def from_bits(self, a: str) -> str:
        return self.f.op(f"bitcast {self.int} {a} to {self.type}")

    def integer(self, op: str, a: str, b: str | int) -> str:
        return self.f.op(f"{op} {self.int} {a}, {b}")

    def power_of_two(self, exponent: str) -> str:
        """2**exponent for a normal exponent."""
        biased = self.integer("add", exponent, self.bias)
        return self.from_bits(self.integer("shl", biased, self.mantissa))

    def round_by(self, x: str, factor: float) -> tuple[str, str]:
        """The integer nearest to x * factor, as a float and as an integer; small ones only."""
        magic = 1.5 * 2.0**self.mantissa
        shifted = self.fma(x, self.c(factor), self.c(magic))
        whole = self.sub(shifted, self.c(magic))
        base = 0x4338000000000000 if self.wide else 0x4B400000
        return whole, self.integer("sub", self.bits(shifted), base)

    def scale(self, a: str, exponent: str) -> str:
        """a * 2**exponent, in two steps so that subnormal and overflowing results are right, or by
        the one instruction that AVX-512 has for it."""
        if host().features.get("avx512f"):
            if self.wide:
                exponent = self.f.op(f"trunc i64 {exponent} to i32")
            name = f"llvm.ldexp.{self.suffix}.i32"
            return self.f.intrinsic(name, self.type, (self.type, a), ("i32", exponent))
        half = self.integer("ashr", exponent, 1)
        rest = self.integer("sub", exponent, half)
        return self.mul(self.mul(a, self.power_of_two(half)), self.power_of_two(rest))


_EXP = {
    "float": (
        1.3950478751e-3,
        8.3688823506e-3,
        4.1666205972e-2,
        1.6666519642e-1,
        0.5,
    ),
    "double": tuple(1 / math.factorial(k) for k in range(13, 1, -1)),
}
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2)/2: by Remez' exchange to 0.05 ulp, Taylor's series."""


def exp(m: Real, x: str) -> str:
    if not m.wide and vectors.has_exp():
        return vectors.exp(m.f, x)
    x = m.clamp(x, *((-746.0, 710.0) if m.wide else (-104.0, 89.0)))
    whole, n = m.round_by(x, 1 / math.log(2))
    r = m.fma(whole, m.c(-LN2_HI[m.type]), x)
    r = m.fma(whole, m.c(-LN2_LO[m.type]), r)
    return m.scale(m.polynomial(r, (*_EXP[m.type], 1.0, 1.0)), n)


def exp2(m: Real, x: str) -> str:
    x = m.clamp(x, *((-1076.0, 1025.0) if m.wide else (-151.0, 129.0)))
    whole, n = m.round_by(x, 1.0)
    fraction = m.sub(x, whole)
    # fraction * ln 2 in two parts: the low one is the error of the product.
    high = m.mul(fraction, m.c(math.log(2)))
    low = m.fma(fraction, m.c(math.log(2)), m.neg(high))
    tail = m.fma(m.mul(high, high), m.polynomial(high, _EXP[m.type]), low)
    return m.scale(m.add(m.add(tail, high), m.c(1)), n)


def _careful_exp(m: Real, x: str) -> tuple[str, str, str]:
    """exp(r) - 1 in two parts and n where x = r + n ln 2, with what rounding r lost."""
    whole, n = m.round_by(x, 1 / math.log(2))
    exact = m.fma(whole, m.c(-LN2_HI[m.type]), x)
    r = m.fma(whole, m.c(-LN2_LO[m.type]), exact)
    lost = m.fma(whole, m.c(-LN2_LO[m.type]), m.sub(exact, r))
    rest = m.fma(m.mul(r, r), m.polynomial(r, _EXP[m.type]), m.fma(lost, r, lost))
    high = m.add(r, rest)
    return high, m.add(m.sub(r, high), rest), n


def expm1(m: Real, x: str) -> str:
    small = x
    x = m.clamp(x, *((-40.0, 710.0) if m.wide else (-20.0, 89.0)))
    high, low, n = _careful_exp(m, x)
    # 2**n overflows for the largest n where the result does not: halve, then double.
    half = m.power_of_two(m.integer("sub", n, 1))
    result = m.fma(low, half, m.fma(high, half, m.sub(half, m.c(0.5))))
    result = m.mul(result, m.c(2))
    # Keeps -0 and the smallest numbers as they are.
    tiny = m.compare("olt", m.abs(small), m.c(2.0 ** -(m.mantissa + 2)))
    return m.select(tiny, small, result)


_LOG_FLOAT = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LOG_DOUBLE = (
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)


def split_exponent(m: Real, x: str) -> tuple[str, str]:
    """m, k where x = m 2**k, m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    start = 0x3FE6A09E667F3BCD if m.wide else 0x3F3504F3
    one = m.bias << m.mantissa
    shifted = m.integer("add", m.bits(x), one - start)
    k = m.integer("sub", m.integer("ashr", shifted, m.mantissa), m.bias)
    fraction = m.integer("and", shifted, (1 << m.mantissa) - 1)
    return m.from_bits(m.integer("add", fraction, start)), k


def _log_core(m: Real, z: str, k: str, extra: str | None = None) -> str:
    """log(1 + z) + k ln 2 (+ extra, tiny)."""
    k = m.f.op(f"sitofp {m.int} {k} to {m.type}")
    square = m.mul(z, z)
    low = m.mul(k, m.c(LN2_LO[m.type]))
    if extra is not None:
        low = m.add(low, extra)
    if m.wide:
        s = m.div(z, m.add(z, m.c(2)))
        w = m.mul(s, s)
        r = m.mul(w, m.polynomial(w, _LOG_DOUBLE))
        half = m.mul(square, m.c(0.5))
        inner = m.fma(s, m.add(half, r), low)
        rest = m.sub(half, inner)
        return m.sub(m.mul(k, m.c(LN2_HI["double"])), m.sub(rest, z))
    y = m.fma(m.mul(square, z), m.polynomial(z, _LOG_FLOAT), low)
    y = m.fma(square, m.c(-0.5), y)
    return m.fma(k, m.c(LN2_HI["float"]), m.add(z, y))


def _log_edges(m: Real, x: str, result: str, pole: float) -> str:
    """-inf at the pole, NaN below it, inf at inf, NaN at NaN."""
    result = m.select(m.compare("oeq", x, m.c(math.inf)), x, result)
    result = m.select(m.compare("oeq", x, m.c(pole)), m.c(-math.inf), result)
    return m.select(m.compare("uge", x, m.c(pole)), result, m.c(math.nan))


def log(m: Real, x: str) -> str:
    tiny = m.compare("olt", x, m.c(2.0 ** (1 - m.bias)))
    lift = m.mantissa + 2
    normal = m.select(tiny, m.mul(x, m.c(2.0**lift)), x)
    fraction, k = split_exponent(m, normal)
    k = m.f.op(f"select i1 {tiny}, {m.int} {m.integer('sub', k, lift)}, {m.int} {k}")
    result = _log_core(m, m.sub(fraction, m.c(1)), k)
    result = m.select(m.compare("uno", x, x), x, result)
    return _log_edges(m, x, result, 0.0)


def log1p(m: Real, x: str) -> str:
    u = m.add(x, m.c(1))
    fraction, k = split_exponent(m, u)
    # What rounding 1 + x lost, relative to u.
    big = m.compare("oge", u, m.c(2))
    lost = m.select(big, m.sub(m.c(1), m.sub(u, x)), m.sub(x, m.sub(u, m.c(1))))
    extra = m.div(lost, u)
    near = m.f.op(f"icmp eq {m.int} {k}, 0")
    z = m.select(near, x, m.sub(fraction, m.c(1)))
    extra = m.select(near, m.c(0), extra)
    result = _log_core(m, z, k, extra)
    tiny = m.compare("olt", m.abs(x), m.c(2.0 ** -(m.mantissa + 2)))
    result = m.select(tiny, x, result)
    return _log_edges(m, x, result, -1.0)


def tanh(m: Real, x: str) -> str:
    magnitude = m.clamp(m.abs(x), 0.0, 22.0 if m.wide else 10.0)
    e = expm1(m, m.mul(magnitude, m.c(2)))
    return m.call("copysign", _share(m, e, e, 2.0), x)


def _share(m: Real, above: str, e: str, more: float) -> str:
    """above / (e + more) for positive e, without the error of rounding the sum."""
    total = m.add(e, m.c(more))
    part = m.sub(total, e)
    lost = m.add(m.sub(e, m.sub(total, part)), m.sub(m.c(more), part))
    quotient = m.div(above, total)
    rest = m.fma(m.neg(quotient), lost, m.fma(m.neg(quotient), total, above))
    better = m.add(quotient, m.div(rest, total))
    return m.select(m.compare("olt", e, m.c(2.0**64)), better, quotient)


def logistic(m: Real, x: str) -> str:
    x = m.clamp(m.neg(x), *((-746.0, 710.0) if m.wide else (-104.0, 89.0)))
    high, low, n = _careful_exp(m, x)
    top = m.add(m.c(1), high)
    tail = m.add(m.add(m.sub(m.c(1), top), high), low)
    return _share(m, m.c(1), m.scale(m.add(top, tail), n), 1.0)


# Trigonometry --------------------------------------------------------------------------------

_PI_2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_SIN_FLOAT = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS_FLOAT = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN_DOUBLE = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
    -1.66666666666666324348e-01,
)
_COS_DOUBLE = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)


def _quadrant(m: Real, x: str) -> tuple[str, str, str]:
    """x - n pi/2 in two parts and n, with pi/2 to 160 bits and exact products (fma)."""
    f = m.f
    d = m if m.wide else Real(f, "double")
    wide = x if m.wide else f.op(f"fpext float {x} to double")
    whole, n = d.round_by(wide, 2 / math.pi)
    r = d.fma(whole, d.c(-_PI_2[0]), wide)
    if not m.wide:
        r = d.fma(whole, d.c(-_PI_2[1]), r)
        narrow = f.op(f"fptrunc double {r} to float")
        return narrow, m.c(0), f.op(f"trunc i64 {n} to i32")
    # r - n p1 with its rounding error (two-product, two-sum), then the third part.
    p = d.mul(whole, d.c(_PI_2[1]))
    p_low = d.fma(whole, d.c(_PI_2[1]), d.neg(p))
    high = d.sub(r, p)
    back = d.sub(high, r)
    error = d.sub(d.sub(r, d.sub(high, back)), d.add(p, back))
    low = d.sub(error, d.fma(whole, d.c(_PI_2[2]), p_low))
    return high, low, n


def _sin_cos(m: Real, x: str) -> tuple[str, str, str]:
    """sin and cos of the reduced argument, and the quadrant."""
    r, low, n = _quadrant(m, x)
    z = m.mul(r, r)
    if not m.wide:
        sin = m.fma(m.mul(z, r), m.polynomial(z, _SIN_FLOAT), r)
        square = m.mul(z, z)
        cos = m.fma(square, m.polynomial(z, _COS_FLOAT), m.fma(z, m.c(-0.5), m.c(1)))
        return sin, cos, n
    v = m.mul(z, r)
    p = m.polynomial(z, _SIN_DOUBLE[:-1])
    inner = m.fma(m.c(0.5), low, m.neg(m.mul(v, p)))
    tail = m.sub(m.mul(z, inner), low)
    sin = m.sub(r, m.fma(v, m.c(-_SIN_DOUBLE[-1]), tail))
    q = m.mul(m.mul(z, z), m.polynomial(z, _COS_DOUBLE))
    half = m.mul(z, m.c(0.5))
    w = m.sub(m.c(1), half)
    rest = m.sub(m.sub(m.c(1), w), half)
    cos = m.add(w, m.add(rest, m.sub(q, m.mul(r, low))))
    return sin, cos, n


def _pick(m: Real, sin: str, cos: str, n: str) -> str:
    """sin(r + n pi/2)."""
    odd = m.f.op(f"trunc {m.int} {n} to i1")
    value = m.select(odd, cos, sin)
    sign = m.integer("shl", m.integer("and", n, 2), m.mantissa + m.bias.bit_length())
    return m.from_bits(m.integer("xor", m.bits(value), sign))


def sin(m: Real, x: str) -> str:
    """Accurate for |x| < 2**50 (float32) and |x| < 2**30 (float64)."""
    s, c, n = _sin_cos(m, x)
    result = _pick(m, s, c, n)
    return m.select(m.compare("oeq", x, m.c(0)), x, result)


def cos(m: Real, x: str) -> str:
    """Accurate for |x| < 2**50 (float32) and |x| < 2**30 (float64)."""
    s, c, n = _sin_cos(m, x)
    return _pick(m, s, c, m.integer("add", n, 1))


def tan(m: Real, x: str) -> str:
    if not m.wide:
        return through_double(m, tan, x)
    s, c, n = _sin_cos(m, x)
    odd = m.f.op(f"trunc {m.int} {n} to i1")
    return m.div(m.select(odd, m.neg(c), s), m.select(odd, s, c))


def through_double(m: Real, function: object, *operands: str) -> str:
    """A float32 function by way of float64, where that is the shortest accurate one."""
    d = Real(m.f, "double")
    wide = [m.f.op(f"fpext float {o} to double") for o in operands]
    result = function(d, *wide)  # type: ignore[operator]
    return m.f.op(f"fptrunc double {result} to float")

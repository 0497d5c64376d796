"""The special values of the array API standard (2024.12 and 2025.12), as tables.

A row is a condition of each operand and the result. Of operands `±0` and `±inf` mean either sign,
`finite`, `nonzero`, `pos`, `neg` finite numbers, `>0` and `<0` numbers with infinities, `any` all
values, `not0`, `not1`, `notnan` all but one; `x`, `y`, `-x` in results the operands. In results
`±` leaves the sign open. Where rows of one function overlap, the first holds. Of complex numbers
a row has real and imaginary parts; `∞cos ∞sin` is infinity times cos b + i sin b.

Sources: https://data-apis.org/array-api/latest/API_specification/elementwise_functions.html,
ISO C99, annex G.6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

COMPLEX = """
acos
    ±0 +0 : π/2 -0
    ±0 nan : π/2 nan
    finite inf : π/2 -inf
    nonzero nan : nan nan
    -inf pos : π -inf
    inf pos : +0 -inf
    -inf inf : 3π/4 -inf
    inf inf : π/4 -inf
    ±inf nan : nan ±inf
    nan finite : nan nan
    nan inf : nan -inf
    nan nan : nan nan
acosh
    ±0 +0 : +0 π/2
    finite inf : inf π/2
    +0 nan : nan ±π/2
    nonzero nan : nan nan
    -inf pos : inf π
    inf pos : inf +0
    -inf inf : inf 3π/4
    inf inf : inf π/4
    ±inf nan : inf nan
    nan finite : nan nan
    nan inf : inf nan
    nan nan : nan nan
asinh odd
    +0 +0 : +0 +0
    pos inf : inf π/2
    finite nan : nan nan
    inf pos : inf +0
    inf inf : inf π/4
    inf nan : inf nan
    nan +0 : nan +0
    nan nonzero : nan nan
    nan inf : ±inf nan
    nan nan : nan nan
atanh odd
    +0 +0 : +0 +0
    +0 nan : +0 nan
    1 +0 : inf +0
    pos inf : +0 π/2
    nonzero nan : nan nan
    inf pos : +0 π/2
    inf inf : +0 π/2
    inf nan : +0 nan
    nan finite : nan nan
    nan inf : ±0 π/2
    nan nan : nan nan
cosh even
    +0 +0 : 1 +0
    +0 inf : nan ±0
    +0 nan : nan ±0
    nonzero inf : nan nan
    nonzero nan : nan nan
    inf +0 : inf +0
    inf nonzero : ∞cos ∞sin
    inf inf : ±inf nan
    inf nan : inf nan
    nan ±0 : nan ±0
    nan nonzero : nan nan
    nan nan : nan nan
exp
    ±0 +0 : 1 +0
    finite inf : nan nan
    finite nan : nan nan
    inf +0 : inf +0
    -inf finite : 0cos 0sin
    inf nonzero : ∞cos ∞sin
    -inf inf : ±0 ±0
    inf inf : inf nan
    -inf nan : ±0 ±0
    inf nan : inf nan
    nan +0 : nan +0
    nan not0 : nan nan
expm1
    ±0 +0 : +0 +0
    finite inf : nan nan
    finite nan : nan nan
    inf +0 : inf +0
    -inf finite : -1 0sin
    inf nonzero : ∞cos ∞sin
    -inf inf : -1 ±0
    inf inf : inf nan
    -inf nan : -1 ±0
    inf nan : inf nan
    nan +0 : nan +0
    nan not0 : nan nan
log
    -0 +0 : -inf π
    +0 +0 : -inf +0
    finite inf : inf π/2
    finite nan : nan nan
    -inf pos : inf π
    inf pos : inf +0
    -inf inf : inf 3π/4
    inf inf : inf π/4
    ±inf nan : inf nan
    nan finite : nan nan
    nan inf : inf nan
    nan nan : nan nan
log1p
    -1 +0 : -inf +0
    finite inf : inf π/2
    finite nan : nan nan
    -inf pos : inf π
    inf pos : inf +0
    -inf inf : inf 3π/4
    inf inf : inf π/4
    ±inf nan : inf nan
    nan finite : nan nan
    nan inf : inf nan
    nan nan : nan nan
sign
    ±0 ±0 : +0 +0
    nan any : nan nan
    any nan : nan nan
sinh odd
    +0 +0 : +0 +0
    +0 inf : ±0 nan
    +0 nan : ±0 nan
    pos inf : nan nan
    pos nan : nan nan
    inf +0 : inf +0
    inf nonzero : ∞cos ∞sin
    inf inf : ±inf nan
    inf nan : ±inf nan
    nan +0 : nan +0
    nan nonzero : nan nan
    nan nan : nan nan
sqrt
    ±0 +0 : +0 +0
    any inf : inf inf
    finite nan : nan nan
    -inf pos : +0 inf
    inf pos : inf +0
    -inf nan : nan ±inf
    inf nan : inf nan
    nan finite : nan nan
    nan nan : nan nan
tanh odd
    +0 +0 : +0 +0
    nonzero inf : nan nan
    +0 inf : +0 nan
    nonzero nan : nan nan
    +0 nan : +0 nan
    inf pos : 1 ±0
    inf inf : 1 ±0
    inf nan : 1 ±0
    nan +0 : nan +0
    nan nonzero : nan nan
    nan nan : nan nan
"""
"""Functions of which f(conj z) is conj f(z); `odd` ones have f(-z) = -f(z), `even` ones f(z)."""

OF_PARTS = """
abs
    ±inf any : inf
    any ±inf : inf
    nan finite : nan
    finite nan : nan
    nan nan : nan
isfinite
    nan any : False
    any nan : False
    ±inf any : False
    any ±inf : False
    finite finite : True
isinf
    ±inf any : True
    any ±inf : True
    finite finite : False
isnan
    nan any : True
    any nan : True
    finite finite : False
"""
"""Functions of complex numbers with one real or boolean result."""

REAL = """
abs
    nan : nan
    -0 : +0
    -inf : inf
acos
    nan : nan
    >1 : nan
    <-1 : nan
    1 : +0
acosh
    nan : nan
    <1 : nan
    1 : +0
    inf : inf
asin
    nan : nan
    >1 : nan
    <-1 : nan
    +0 : +0
    -0 : -0
asinh
    nan : nan
    +0 : +0
    -0 : -0
    inf : inf
    -inf : -inf
atan
    nan : nan
    +0 : +0
    -0 : -0
    inf : π/2
    -inf : -π/2
atanh
    nan : nan
    <-1 : nan
    >1 : nan
    -1 : -inf
    1 : inf
    +0 : +0
    -0 : -0
ceil
    whole : x
    inf : inf
    -inf : -inf
    +0 : +0
    -0 : -0
    nan : nan
cos
    nan : nan
    ±0 : 1
    ±inf : nan
cosh
    nan : nan
    ±0 : 1
    ±inf : inf
exp
    nan : nan
    ±0 : 1
    inf : inf
    -inf : +0
expm1
    nan : nan
    +0 : +0
    -0 : -0
    inf : inf
    -inf : -1
floor
    whole : x
    inf : inf
    -inf : -inf
    +0 : +0
    -0 : -0
    nan : nan
isfinite
    ±inf : False
    nan : False
    finite : True
isinf
    ±inf : True
    nan : False
    finite : False
isnan
    nan : True
    notnan : False
log
    nan : nan
    <0 : nan
    ±0 : -inf
    1 : +0
    inf : inf
log1p
    nan : nan
    <-1 : nan
    -1 : -inf
    -0 : -0
    +0 : +0
    inf : inf
log2
    nan : nan
    <0 : nan
    ±0 : -inf
    1 : +0
    inf : inf
log10
    nan : nan
    <0 : nan
    ±0 : -inf
    1 : +0
    inf : inf
reciprocal
    +0 : inf
    -0 : -inf
    inf : +0
    -inf : -0
    nan : nan
round
    whole : x
    inf : inf
    -inf : -inf
    +0 : +0
    -0 : -0
    nan : nan
sign
    <0 : -1
    ±0 : +0
    >0 : 1
    nan : nan
signbit
    +0 : False
    -0 : True
    inf : False
    -inf : True
    pos : False
    neg : True
    nan : False
    -nan : True
sin
    nan : nan
    +0 : +0
    -0 : -0
    ±inf : nan
sinh
    nan : nan
    +0 : +0
    -0 : -0
    inf : inf
    -inf : -inf
sqrt
    nan : nan
    <0 : nan
    +0 : +0
    -0 : -0
    inf : inf
square
    nan : nan
    ±0 : +0
    ±inf : inf
tan
    nan : nan
    +0 : +0
    -0 : -0
    ±inf : nan
tanh
    nan : nan
    +0 : +0
    -0 : -0
    inf : 1
    -inf : -1
trunc
    whole : x
    inf : inf
    -inf : -inf
    +0 : +0
    -0 : -0
    nan : nan
"""

BINARY = """
add
    nan any : nan
    any nan : nan
    inf -inf : nan
    -inf inf : nan
    inf inf : inf
    -inf -inf : -inf
    inf finite : inf
    -inf finite : -inf
    finite inf : inf
    finite -inf : -inf
    -0 -0 : -0
    ±0 ±0 : +0
    ±0 nonzero : y
    nonzero ±0 : x
    nonzero -x : +0
atan2
    nan any : nan
    any nan : nan
    >0 ±0 : π/2
    +0 >0 : +0
    +0 +0 : +0
    +0 -0 : π
    +0 <0 : π
    -0 >0 : -0
    -0 +0 : -0
    -0 -0 : -π
    -0 <0 : -π
    <0 ±0 : -π/2
    pos inf : +0
    pos -inf : π
    neg inf : -0
    neg -inf : -π
    inf finite : π/2
    -inf finite : -π/2
    inf inf : π/4
    inf -inf : 3π/4
    -inf inf : -π/4
    -inf -inf : -3π/4
copysign
    notnan <0 : -|x|
    notnan -0 : -|x|
    notnan +0 : |x|
    notnan >0 : |x|
    notnan nan : |x|
    notnan -nan : -|x|
    nan <0 : -nan
    nan -0 : -nan
    nan +0 : +nan
    nan >0 : +nan
    nan -nan : -nan
    nan nan : +nan
divide
    nan any : nan
    any nan : nan
    ±inf ±inf : nan
    ±0 ±0 : nan
    +0 >0 : +0
    -0 >0 : -0
    +0 <0 : -0
    -0 <0 : +0
    >0 +0 : inf
    >0 -0 : -inf
    <0 +0 : -inf
    <0 -0 : inf
    inf pos : inf
    inf neg : -inf
    -inf pos : -inf
    -inf neg : inf
    pos inf : +0
    pos -inf : -0
    neg inf : -0
    neg -inf : +0
    pos pos : positive
    neg neg : positive
    pos neg : negative
    neg pos : negative
equal
    nan any : False
    any nan : False
    inf inf : True
    -inf -inf : True
    inf -inf : False
    ±0 ±0 : True
floor_divide
    nan any : nan
    any nan : nan
    ±inf ±inf : nan
    ±0 ±0 : nan
    +0 >0 : +0
    -0 >0 : -0
    +0 <0 : -0
    -0 <0 : +0
    >0 +0 : inf
    >0 -0 : -inf
    <0 +0 : -inf
    <0 -0 : inf
    inf pos : inf
    inf neg : -inf
    -inf pos : -inf
    -inf neg : inf
    pos inf : +0
    pos -inf : -0
    neg inf : -0
    neg -inf : +0
    pos pos : positive
    neg neg : positive
    pos neg : negative
    neg pos : negative
hypot
    ±inf any : inf
    any ±inf : inf
    ±0 any : |y|
    any ±0 : |x|
    nan finite : nan
    finite nan : nan
    nan nan : nan
logaddexp
    nan any : nan
    any nan : nan
    inf notnan : inf
    notnan inf : inf
maximum
    nan any : nan
    any nan : nan
minimum
    nan any : nan
    any nan : nan
multiply
    nan any : nan
    any nan : nan
    ±inf ±0 : nan
    ±0 ±inf : nan
    inf >0 : inf
    -inf >0 : -inf
    >0 inf : inf
    <0 inf : -inf
    >0 >0 : positive
    <0 <0 : positive
    >0 <0 : negative
    <0 >0 : negative
nextafter
    nan any : nan
    any nan : nan
    -0 +0 : +0
    +0 -0 : -0
not_equal
    nan any : True
    any nan : True
    inf -inf : True
    -inf inf : True
pow
    not1 nan : nan
    any ±0 : 1
    nan not0 : nan
    |>1| inf : inf
    |>1| -inf : +0
    |1| ±inf : 1
    1 notnan : 1
    |<1| inf : +0
    |<1| -inf : inf
    inf >0 : inf
    inf <0 : +0
    -inf odd>0 : -inf
    -inf >0 : inf
    -inf odd<0 : -0
    -inf <0 : +0
    +0 >0 : +0
    +0 <0 : inf
    -0 odd>0 : -0
    -0 >0 : +0
    -0 odd<0 : -inf
    -0 <0 : inf
    neg fraction : nan
remainder
    nan any : nan
    any nan : nan
    ±inf ±inf : nan
    ±0 ±0 : nan
    ±0 >0 : +0
    ±0 <0 : -0
    >0 ±0 : nan
    <0 ±0 : nan
    ±inf pos : nan
    ±inf neg : nan
    pos inf : x
    pos -inf : y
    neg inf : y
    neg -inf : x
subtract
    nan any : nan
    any nan : nan
    inf inf : nan
    inf finite : inf
    finite inf : -inf
    ±0 nonzero : -y
    +0 -0 : +0
    -0 +0 : -0
    +0 +0 : +0
    -0 -0 : +0
"""

_FRACTIONS = [0.5, -0.5, 2.5, -2.5, 0.1, 1e-30, -1e-30]
_WHOLE = [1.0, -1.0, 2.0, 3.0, -3.0, -4.0, 1e30, -1e30]
_NONZERO = _FRACTIONS + _WHOLE
_ZEROS = [0.0, -0.0]
_INFINITIES = [math.inf, -math.inf]
_ALL = [*_NONZERO, *_ZEROS, *_INFINITIES, math.nan]

_CONDITIONS = {
    "+0": [0.0],
    "-0": [-0.0],
    "±0": _ZEROS,
    "inf": [math.inf],
    "-inf": [-math.inf],
    "±inf": _INFINITIES,
    "nan": [math.nan],
    "-nan": [math.copysign(math.nan, -1)],
    "1": [1.0],
    "-1": [-1.0],
    "|1|": [1.0, -1.0],
    "any": _ALL,
    "notnan": _ALL[:-1],
    "not0": [v for v in _ALL if v != 0],
    "not1": [v for v in _ALL if v != 1],
    "finite": _NONZERO + _ZEROS,
    "nonzero": _NONZERO,
    "pos": [v for v in _NONZERO if v > 0],
    "neg": [v for v in _NONZERO if v < 0],
    ">0": [v for v in _ALL if v > 0],
    "<0": [v for v in _ALL if v < 0],
    ">1": [v for v in _ALL if v > 1],
    "<1": [v for v in _ALL if v < 1],
    "<-1": [v for v in _ALL if v < -1],
    "|>1|": [v for v in _ALL if abs(v) > 1],
    "|<1|": [v for v in _ALL if abs(v) < 1],
    "whole": _WHOLE,
    "fraction": [0.5, -0.5, 2.5, -2.5],
    "odd>0": [1.0, 3.0],
    "odd<0": [-1.0, -3.0],
}


def rows(table: str) -> Iterator[tuple[str, str, list[str], str]]:
    """(function, symmetry, conditions, result) of each row of a table."""
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            name, *symmetry = line.split()
        else:
            left, right = line.split(":")
            yield name, "".join(symmetry), left.split(), right.strip()


def operands(condition: str, first: float = 0.0) -> list[float]:
    """Numbers that meet a condition; first: the operand before it, for `-x`."""
    return [-first] if condition == "-x" else _CONDITIONS[condition]


def meets(expected: str, out: float, x: float, y: float = 0.0) -> bool:
    """Whether out is the expected result of x and y, or of x + iy for `∞cos` and its like."""
    if expected in ("nan", "±nan"):
        return math.isnan(out)
    if expected in ("+nan", "-nan"):
        return math.isnan(out) and math.copysign(1, out) == float(expected[0] + "1")
    if expected in ("True", "False"):
        return out == (expected == "True")
    if expected in ("positive", "negative"):
        return math.isnan(out) or math.copysign(1, out) == (1 if expected == "positive" else -1)
    if expected[0] in "∞0" and expected[1:] in ("cos", "sin"):
        value = getattr(math, expected[1:])(y) * (math.inf if expected[0] == "∞" else 0.0)
    elif "x" in expected or "y" in expected:
        value = x if "x" in expected else y
        value = abs(value) if "|" in expected else value
        value = -value if expected[0] == "-" else value
    elif "π" in expected:
        before, _, below = expected.lstrip("±-").partition("π")
        value = math.pi * int(before or 1) / int(below[1:] or 1)
        value = -value if expected[0] == "-" else value
    else:
        value = float(expected.lstrip("±"))
    if expected[0] == "±":
        value, out = abs(value), abs(out)
    if math.isnan(value):
        return math.isnan(out)
    close = out == value or math.isclose(out, value, rel_tol=1e-5)
    return close and math.copysign(1, out) == math.copysign(1, value)

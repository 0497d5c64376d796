# Tests: tests/test_docstrings.py
"""Examples of the functions that tables of weft.ops make, which their docstrings end with."""

from __future__ import annotations

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import lax, numpy as wnp",
    r"""
acos
>>> lax.acos(wnp.array([1.0, 2.0]))
Array([ 0., nan], dtype=float32)

acosh
>>> lax.acosh(1.0)
Array(0., dtype=float32, weak_type=True)

add
>>> lax.add(wnp.arange(3), 10)
Array([10, 11, 12], dtype=int32)

asin
>>> lax.asin(wnp.array([0.0, 1.5]))
Array([ 0., nan], dtype=float32)

asinh
>>> lax.asinh(0.0)
Array(0., dtype=float32, weak_type=True)

atan
>>> lax.atan(wnp.array([0.0, wnp.inf])) * 2 / wnp.pi
Array([0., 1.], dtype=float32)

atan2
>>> lax.atan2(wnp.array([0.0, 1.0]), wnp.array([-1.0, 0.0])) / wnp.pi
Array([1. , 0.5], dtype=float32)

atanh
>>> lax.atanh(wnp.array([0.0, 1.0]))
Array([ 0., inf], dtype=float32)

bitwise_and
>>> lax.bitwise_and(wnp.array([0b1010, 0b0011]), 0b1100)
Array([8, 0], dtype=int32)

bitwise_not
>>> lax.bitwise_not(wnp.array([True, False]))
Array([False,  True], dtype=bool)

bitwise_or
>>> lax.bitwise_or(wnp.array([0b1010, 0b0011]), 0b1100)
Array([14, 15], dtype=int32)

bitwise_xor
>>> lax.bitwise_xor(wnp.array([0b1010, 0b0011]), 0b1100)
Array([ 6, 15], dtype=int32)

cbrt
>>> lax.cbrt(wnp.array([-8.0, 0.0])).round(5)
Array([-2.,  0.], dtype=float32)

ceil
>>> lax.ceil(wnp.array([-1.5, 0.2]))
Array([-1.,  1.], dtype=float32)

clz
>>> lax.clz(wnp.array([0, 1, 255], "uint8"))
Array([8, 7, 0], dtype=uint8)

complex
>>> lax.complex(wnp.array([1.0, 2.0]), wnp.array([0.0, -1.0]))
Array([1.+0.j, 2.-1.j], dtype=complex64)

cos
>>> lax.cos(wnp.array([0.0, wnp.pi]))
Array([ 1., -1.], dtype=float32)

cosh
>>> lax.cosh(wnp.array([0.0, 100.0]))
Array([ 1., inf], dtype=float32)

cumlogsumexp
>>> lax.cumlogsumexp(wnp.array([1000.0, -wnp.inf, 0.0]))
Array([1000., 1000., 1000.], dtype=float32)

cummax
>>> lax.cummax(wnp.array([3, 1, 4, 1]))
Array([3, 3, 4, 4], dtype=int32)

cummin
>>> lax.cummin(wnp.array([3, 1, 4, 1]), reverse=True)
Array([1, 1, 1, 1], dtype=int32)

cumprod
>>> lax.cumprod(wnp.array([[1, 2], [3, 4]]), axis=1)
Array([[ 1,  2],
       [ 3, 12]], dtype=int32)

cumsum
>>> lax.cumsum(wnp.array([[1, 2], [3, 4]]), axis=0)
Array([[1, 2],
       [4, 6]], dtype=int32)

digamma
>>> lax.digamma(wnp.array([1.0, -1.0])).round(4)
Array([-0.5772,     nan], dtype=float32)

div
>>> lax.div(wnp.array([7, -7]), 2)
Array([ 3, -3], dtype=int32)

eq
>>> lax.eq(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([ True, False], dtype=bool)

erf
>>> lax.erf(wnp.array([0.0, wnp.inf]))
Array([0., 1.], dtype=float32)

erf_inv
>>> lax.erf_inv(wnp.array([0.0, 1.0]))
Array([ 0., inf], dtype=float32)

erfc
>>> lax.erfc(wnp.array([0.0, wnp.inf]))
Array([1., 0.], dtype=float32)

exp
>>> lax.exp(wnp.array([0.0, -wnp.inf]))
Array([1., 0.], dtype=float32)

exp2
>>> lax.exp2(wnp.array([0.0, 3.0]))
Array([1., 8.], dtype=float32)

expm1
>>> lax.expm1(1e-10), lax.exp(1e-10) - 1
(Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))

floor
>>> lax.floor(wnp.array([-1.5, 0.2]))
Array([-2.,  0.], dtype=float32)

ge
>>> lax.ge(wnp.arange(3), 1)
Array([False,  True,  True], dtype=bool)

gt
>>> lax.gt(wnp.arange(3), 1)
Array([False, False,  True], dtype=bool)

imag
>>> lax.imag(wnp.array([1 + 2j, 3j]))
Array([2., 3.], dtype=float32)

is_finite
>>> lax.is_finite(wnp.array([1.0, wnp.nan, wnp.inf]))
Array([ True, False, False], dtype=bool)

le
>>> lax.le(wnp.arange(3), 1)
Array([ True,  True, False], dtype=bool)

lgamma
>>> lax.exp(lax.lgamma(wnp.array([5.0, 0.0]))).round()
Array([24., inf], dtype=float32)

log
>>> lax.log(wnp.array([1.0, 0.0, -1.0]))
Array([  0., -inf,  nan], dtype=float32)

log1p
>>> lax.log1p(1e-10), lax.log(1 + 1e-10)
(Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))

logistic
>>> lax.logistic(wnp.array([0.0, wnp.inf, -wnp.inf]))
Array([0.5, 1. , 0. ], dtype=float32)

lt
>>> lax.lt(wnp.arange(3), 1)
Array([ True, False, False], dtype=bool)

max
>>> lax.max(wnp.array([1.0, wnp.nan, 3.0]), 2.0)
Array([ 2., nan,  3.], dtype=float32)

min
>>> lax.min(wnp.array([1.0, wnp.nan, 3.0]), 2.0)
Array([ 1., nan,  2.], dtype=float32)

ne
>>> lax.ne(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([False,  True], dtype=bool)

neg
>>> lax.neg(wnp.array([1, -128], "int8"))
Array([  -1, -128], dtype=int8)

population_count
>>> lax.population_count(wnp.array([7, 255], "uint8"))
Array([3, 8], dtype=uint8)

real
>>> lax.real(wnp.array([1 + 2j, 3j]))
Array([1., 0.], dtype=float32)

reduce_and
>>> lax.reduce_and(wnp.array([[True, False], [True, True]]), (1,))
Array([False,  True], dtype=bool)

reduce_max
>>> lax.reduce_max(wnp.array([[4, 2], [3, 7]]), (0,))
Array([4, 7], dtype=int32)

reduce_min
>>> lax.reduce_min(wnp.array([[4, 2], [3, 7]]), (0,))
Array([3, 2], dtype=int32)

reduce_or
>>> lax.reduce_or(wnp.array([0b001, 0b100]), (0,))
Array(5, dtype=int32)

reduce_prod
>>> lax.reduce_prod(wnp.array([[1, 2], [3, 4]]), (0, 1))
Array(24, dtype=int32)

reduce_xor
>>> lax.reduce_xor(wnp.array([0b011, 0b110]), (0,))
Array(5, dtype=int32)

rem
>>> lax.rem(wnp.array([7, -7]), 3)
Array([ 1, -1], dtype=int32)

rsqrt
>>> lax.rsqrt(wnp.array([4.0, 0.0]))
Array([0.5, inf], dtype=float32)

shift_left
>>> lax.shift_left(wnp.array([1, 1]), wnp.array([3, 32]))
Array([8, 0], dtype=int32)

shift_right_arithmetic
>>> lax.shift_right_arithmetic(wnp.array([-8, 8]), 1)
Array([-4,  4], dtype=int32)

shift_right_logical
>>> lax.shift_right_logical(wnp.array([-8, 8], "int8"), wnp.array([1, 1], "int8"))
Array([124,   4], dtype=int8)

sign
>>> lax.sign(wnp.array([-2.0, -0.0, 3.0]))
Array([-1., -0.,  1.], dtype=float32)

sin
>>> lax.sin(wnp.array([0.0, wnp.pi / 2]))
Array([0., 1.], dtype=float32)

sinh
>>> lax.sinh(wnp.array([0.0, -100.0]))
Array([  0., -inf], dtype=float32)

sqrt
>>> lax.sqrt(wnp.array([4.0, -1.0]))
Array([ 2., nan], dtype=float32)

sub
>>> lax.sub(wnp.array([1], "uint8"), wnp.array([2], "uint8"))
Array([255], dtype=uint8)

tan
>>> lax.tan(wnp.array([0.0, wnp.pi / 4])).round(4)
Array([0., 1.], dtype=float32)

tanh
>>> lax.tanh(wnp.array([-wnp.inf, 0.0, wnp.inf]))
Array([-1.,  0.,  1.], dtype=float32)
""",
)

# Those of modules of their own are tested there.
__test__ = {name: example for name, example in EXAMPLES.items() if "." not in name}

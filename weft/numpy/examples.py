# Tests: tests/test_docstrings.py
"""Examples of the functions that tables of weft.numpy make, which their docstrings end with."""

from __future__ import annotations

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "import weft.numpy as wnp",
    r"""
add
>>> wnp.add(wnp.arange(3), 0.5)
Array([0.5, 1.5, 2.5], dtype=float32, weak_type=True)

all
>>> wnp.all(wnp.array([[1, 2], [3, 0]]), axis=1)
Array([ True, False], dtype=bool)

any
>>> wnp.any(wnp.array([[0, 2], [0, 0]]), axis=1)
Array([ True, False], dtype=bool)

arccos
>>> wnp.arccos(wnp.array([1.0, 0.0, 2.0]))
Array([0.       , 1.5707964,       nan], dtype=float32)

arccosh
>>> wnp.arccosh(1.0)
Array(0., dtype=float32, weak_type=True)

arcsin
>>> wnp.arcsin(wnp.array([0.0, 1.0, 1.5]))
Array([0.       , 1.5707964,       nan], dtype=float32)

arcsinh
>>> wnp.arcsinh(0.0)
Array(0., dtype=float32, weak_type=True)

arctan
>>> wnp.arctan(wnp.array([0.0, wnp.inf])) * 2 / wnp.pi
Array([0., 1.], dtype=float32)

arctan2
>>> wnp.degrees(wnp.arctan2(wnp.array([1.0, -1.0]), wnp.array([-1.0, -1.0])))
Array([ 135., -135.], dtype=float32)

arctanh
>>> wnp.arctanh(wnp.array([0.0, 1.0]))
Array([ 0., inf], dtype=float32)

bitwise_and
>>> wnp.bitwise_and(0b1100, wnp.array([0b1010, 0b0011]))
Array([8, 0], dtype=int32)

bitwise_not
>>> wnp.bitwise_not(wnp.array([0, 5], "uint8"))
Array([255, 250], dtype=uint8)

bitwise_or
>>> wnp.bitwise_or(0b1100, wnp.array([0b1010, 0b0011]))
Array([14, 15], dtype=int32)

bitwise_xor
>>> wnp.bitwise_xor(wnp.array([True, True]), wnp.array([True, False]))
Array([False,  True], dtype=bool)

cbrt
>>> wnp.cbrt(wnp.array([-8.0, 27.0])).round(5)
Array([-2.,  3.], dtype=float32)

ceil
>>> wnp.ceil(wnp.array([-1.5, 0.2, 3.0]))
Array([-1.,  1.,  3.], dtype=float32)

cos
>>> wnp.cos(wnp.array([0.0, wnp.pi]))
Array([ 1., -1.], dtype=float32)

cosh
>>> wnp.cosh(wnp.array([0.0, 100.0]))
Array([ 1., inf], dtype=float32)

equal
>>> wnp.equal(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([ True, False], dtype=bool)

exp
>>> wnp.exp(wnp.array([0.0, -wnp.inf, 100.0]))
Array([ 1.,  0., inf], dtype=float32)

exp2
>>> wnp.exp2(wnp.array([0, 3, -1]))
Array([1. , 8. , 0.5], dtype=float32)

expm1
>>> wnp.expm1(1e-10), wnp.exp(1e-10) - 1
(Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))

floor
>>> wnp.floor(wnp.array([-1.5, 0.2, 3.0]))
Array([-2.,  0.,  3.], dtype=float32)

fmax
>>> wnp.fmax(wnp.array([1.0, wnp.nan]), wnp.array([0.0, 2.0]))
Array([1., 2.], dtype=float32)

fmin
>>> wnp.fmin(wnp.array([1.0, wnp.nan]), wnp.array([0.0, 2.0]))
Array([0., 2.], dtype=float32)

greater
>>> wnp.greater(wnp.array([1, 2, 3]), 2)
Array([False, False,  True], dtype=bool)

greater_equal
>>> wnp.greater_equal(wnp.array([1, 2, 3]), 2)
Array([False,  True,  True], dtype=bool)

less
>>> wnp.less(wnp.array([1, 2, 3]), 2)
Array([ True, False, False], dtype=bool)

less_equal
>>> wnp.less_equal(wnp.array([1, 2, 3]), 2)
Array([ True,  True, False], dtype=bool)

log
>>> wnp.log(wnp.array([1.0, 0.0, -1.0]))
Array([  0., -inf,  nan], dtype=float32)

log10
>>> wnp.log10(wnp.array([1, 1000, 0])).round(2)
Array([  0.,   3., -inf], dtype=float32)

log1p
>>> wnp.log1p(1e-10), wnp.log(1 + 1e-10)
(Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))

log2
>>> wnp.log2(wnp.array([1, 8]))
Array([0., 3.], dtype=float32)

logaddexp
>>> wnp.logaddexp(-wnp.inf, wnp.array([0.0, 1000.0]))
Array([   0., 1000.], dtype=float32)

logaddexp2
>>> wnp.logaddexp2(wnp.array([3.0, 1000.0]), wnp.array([3.0, 1000.0]))
Array([   4., 1001.], dtype=float32)

logical_and
>>> wnp.logical_and(wnp.array([0, 2]), wnp.array([True, True]))
Array([False,  True], dtype=bool)

logical_or
>>> wnp.logical_or(wnp.array([0, 2]), wnp.array([False, False]))
Array([False,  True], dtype=bool)

logical_xor
>>> wnp.logical_xor(wnp.array([0, 2]), wnp.array([True, True]))
Array([ True, False], dtype=bool)

maximum
>>> wnp.maximum(wnp.array([1.0, wnp.nan, 3.0]), 2.0)
Array([ 2., nan,  3.], dtype=float32)

minimum
>>> wnp.minimum(wnp.array([1.0, wnp.nan, 3.0]), 2.0)
Array([ 1., nan,  2.], dtype=float32)

multiply
>>> wnp.multiply(wnp.array([[1], [2]]), wnp.array([3, 4]))
Array([[3, 4],
       [6, 8]], dtype=int32)

nanargmax
>>> wnp.nanargmax(wnp.array([1.0, wnp.nan, 3.0]))
Array(2, dtype=int32)

nanargmin
>>> wnp.nanargmin(wnp.array([wnp.nan, 2.0, 1.0]))
Array(2, dtype=int32)

nanmax
>>> wnp.nanmax(wnp.array([[1.0, wnp.nan], [3.0, 4.0]]), axis=1)
Array([1., 4.], dtype=float32)

nanmin
>>> wnp.nanmin(wnp.array([[2.0, wnp.nan], [3.0, 4.0]]), axis=1)
Array([2., 3.], dtype=float32)

nanprod
>>> wnp.nanprod(wnp.array([2.0, wnp.nan, 3.0]))
Array(6., dtype=float32)

nanstd
>>> wnp.nanstd(wnp.array([1.0, wnp.nan, 3.0]))
Array(1., dtype=float32)

nansum
>>> wnp.nansum(wnp.array([[2.0, wnp.nan], [wnp.nan, wnp.nan]]), axis=1)
Array([2., 0.], dtype=float32)

nanvar
>>> wnp.nanvar(wnp.array([1.0, wnp.nan, 3.0]), ddof=1)
Array(2., dtype=float32)

negative
>>> wnp.negative(wnp.array([1, 0, -128], "int8"))
Array([  -1,    0, -128], dtype=int8)

nextafter
>>> wnp.nextafter(1.0, wnp.array([2.0, 0.0])) - 1
Array([ 1.1920929e-07, -5.9604645e-08], dtype=float32)

not_equal
>>> wnp.not_equal(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([False,  True], dtype=bool)

sin
>>> wnp.sin(wnp.array([0, wnp.pi / 2]))
Array([0., 1.], dtype=float32)

sinh
>>> wnp.sinh(wnp.array([0.0, -100.0]))
Array([  0., -inf], dtype=float32)

sqrt
>>> wnp.sqrt(wnp.array([4.0, -1.0]))
Array([ 2., nan], dtype=float32)

subtract
>>> wnp.subtract(wnp.array([1, 2], "uint8"), wnp.array([2, 1], "uint8"))
Array([255,   1], dtype=uint8)

tan
>>> wnp.tan(wnp.array([0.0, wnp.pi / 4])).round(4)
Array([0., 1.], dtype=float32)

tanh
>>> wnp.tanh(wnp.array([-wnp.inf, 0.0, wnp.inf]))
Array([-1.,  0.,  1.], dtype=float32)

true_divide
>>> wnp.true_divide(wnp.array([1, -1, 0]), wnp.array([2, 0, 0]))
Array([ 0.5, -inf,  nan], dtype=float32)

trunc
>>> wnp.trunc(wnp.array([-1.5, 0.2, 3.0]))
Array([-1.,  0.,  3.], dtype=float32)

fft.fft
>>> wnp.fft.fft(wnp.array([1.0, 0.0, 0.0, 0.0]))
Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)

fft.fft2
>>> wnp.fft.fft2(wnp.ones((2, 2))).real
Array([[4., 0.],
       [0., 0.]], dtype=float32)

fft.fftn
>>> wnp.fft.fftn(wnp.ones((2, 2)), norm="ortho").real
Array([[2., 0.],
       [0., 0.]], dtype=float32)

fft.ifft
>>> wnp.fft.ifft(wnp.array([4.0, 0.0, 0.0, 0.0])).real
Array([1., 1., 1., 1.], dtype=float32)

fft.ifft2
>>> wnp.fft.ifft2(wnp.ones((2, 2))).real
Array([[1., 0.],
       [0., 0.]], dtype=float32)

fft.ifftn
>>> wnp.fft.ifftn(wnp.ones((2, 2))).real
Array([[1., 0.],
       [0., 0.]], dtype=float32)

fft.irfft
>>> wnp.fft.irfft(wnp.array([3.0, 0.0]), n=3)
Array([1., 1., 1.], dtype=float32)

fft.irfft2
>>> wnp.fft.irfft2(wnp.ones((2, 2)))
Array([[1., 0.],
       [0., 0.]], dtype=float32)

fft.irfftn
>>> wnp.fft.irfftn(wnp.ones((2, 2)))
Array([[1., 0.],
       [0., 0.]], dtype=float32)

fft.rfft
>>> wnp.fft.rfft(wnp.array([1.0, -1.0, 1.0, -1.0]))
Array([0.+0.j, 0.+0.j, 4.+0.j], dtype=complex64)

fft.rfft2
>>> wnp.fft.rfft2(wnp.ones((4, 4))).shape
(4, 3)

fft.rfftn
>>> wnp.fft.rfftn(wnp.ones((4, 6)), axes=(0,)).shape
(3, 6)
""",
)

# Those of modules of their own are tested there.
__test__ = {name: example for name, example in EXAMPLES.items() if "." not in name}

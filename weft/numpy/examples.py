"""Examples of the functions that tables of weft.numpy make, which their docstrings end with."""

from __future__ import annotations

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "import weft.numpy as wnp",
    r"""
absolute
>>> wnp.absolute(wnp.array([-2.0, 3 + 4j]))
Array([2., 5.], dtype=float32)

add
>>> wnp.add(wnp.arange(3), 0.5)
Array([0.5, 1.5, 2.5], dtype=float32, weak_type=True)

all
>>> wnp.all(wnp.array([[1, 2], [3, 0]]), axis=1)
Array([ True, False], dtype=bool)

angle
>>> wnp.angle(wnp.array([1, 1j, -1]), deg=True)
Array([  0.,  90., 180.], dtype=float32)

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

bitwise_count
>>> wnp.bitwise_count(wnp.array([7, -8], "int8"))
Array([3, 1], dtype=uint8)

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

conjugate
>>> wnp.conjugate(wnp.array([1 + 2j, 3]))
Array([1.-2.j, 3.-0.j], dtype=complex64)

cos
>>> wnp.cos(wnp.array([0.0, wnp.pi]))
Array([ 1., -1.], dtype=float32)

cosh
>>> wnp.cosh(wnp.array([0.0, 100.0]))
Array([ 1., inf], dtype=float32)

degrees
>>> wnp.degrees(wnp.array([0.0, wnp.pi]))
Array([  0., 180.], dtype=float32)

empty
>>> wnp.empty((2, 3)).shape
(2, 3)

empty_like
>>> wnp.empty_like(wnp.ones((2, 3), "int8")).dtype
dtype('int8')

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

fabs
>>> wnp.fabs(wnp.array([-2, 3]))
Array([2., 3.], dtype=float32)

floor
>>> wnp.floor(wnp.array([-1.5, 0.2, 3.0]))
Array([-2.,  0.,  3.], dtype=float32)

fmax
>>> wnp.fmax(wnp.array([1.0, wnp.nan]), wnp.array([0.0, 2.0]))
Array([1., 2.], dtype=float32)

fmin
>>> wnp.fmin(wnp.array([1.0, wnp.nan]), wnp.array([0.0, 2.0]))
Array([0., 2.], dtype=float32)

from_dlpack
>>> import numpy
>>> wnp.from_dlpack(numpy.arange(3, dtype="float32"))
Array([0., 1., 2.], dtype=float32)

frombuffer
>>> wnp.frombuffer(b"\x01\x02\x03", dtype="uint8", offset=1)
Array([2, 3], dtype=uint8)

fromfile
>>> import tempfile, numpy
>>> with tempfile.NamedTemporaryFile() as file:
...     numpy.arange(3, dtype="int32").tofile(file.name)
...     wnp.fromfile(file.name, dtype="int32")
Array([0, 1, 2], dtype=int32)

fromiter
>>> wnp.fromiter((i * i for i in range(4)), dtype="int32")
Array([0, 1, 4, 9], dtype=int32)

fromstring
>>> wnp.fromstring("1, 2, 3", dtype="int32", sep=",")
Array([1, 2, 3], dtype=int32)

greater
>>> wnp.greater(wnp.array([1, 2, 3]), 2)
Array([False, False,  True], dtype=bool)

greater_equal
>>> wnp.greater_equal(wnp.array([1, 2, 3]), 2)
Array([False,  True,  True], dtype=bool)

imag
>>> wnp.imag(wnp.array([1 + 2j, 3]))
Array([2., 0.], dtype=float32)

iscomplex
>>> wnp.iscomplex(wnp.array([1 + 2j, 3]))
Array([ True, False], dtype=bool)

isfinite
>>> wnp.isfinite(wnp.array([1.0, wnp.nan, -wnp.inf]))
Array([ True, False, False], dtype=bool)

isinf
>>> wnp.isinf(wnp.array([1.0, wnp.nan, -wnp.inf]))
Array([False, False,  True], dtype=bool)

isnan
>>> wnp.isnan(wnp.array([1.0, wnp.nan, -wnp.inf]))
Array([False,  True, False], dtype=bool)

isneginf
>>> wnp.isneginf(wnp.array([wnp.inf, -wnp.inf]))
Array([False,  True], dtype=bool)

isposinf
>>> wnp.isposinf(wnp.array([wnp.inf, -wnp.inf]))
Array([ True, False], dtype=bool)

isreal
>>> wnp.isreal(wnp.array([1 + 2j, 3]))
Array([False,  True], dtype=bool)

left_shift
>>> wnp.left_shift(1, wnp.arange(4))
Array([1, 2, 4, 8], dtype=int32)

less
>>> wnp.less(wnp.array([1, 2, 3]), 2)
Array([ True, False, False], dtype=bool)

less_equal
>>> wnp.less_equal(wnp.array([1, 2, 3]), 2)
Array([ True,  True, False], dtype=bool)

load
>>> import io
>>> file = io.BytesIO()
>>> wnp.save(file, wnp.arange(3))
>>> _ = file.seek(0)
>>> wnp.load(file)
Array([0, 1, 2], dtype=int32)

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

logical_not
>>> wnp.logical_not(wnp.array([0.0, 0.5]))
Array([ True, False], dtype=bool)

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

nanquantile
>>> wnp.nanquantile(wnp.array([0.0, wnp.nan, 10.0]), 0.5)
Array(5., dtype=float32)

negative
>>> wnp.negative(wnp.array([1, 0, -128], "int8"))
Array([  -1,    0, -128], dtype=int8)

nextafter
>>> wnp.nextafter(1.0, wnp.array([2.0, 0.0])) - 1
Array([ 1.1920929e-07, -5.9604645e-08], dtype=float32)

not_equal
>>> wnp.not_equal(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([False,  True], dtype=bool)

ones_like
>>> wnp.ones_like(wnp.zeros((1, 2)), dtype="int8")
Array([[1, 1]], dtype=int8)

percentile
>>> wnp.percentile(wnp.array([[0.0, 10.0], [4.0, 5.0]]), wnp.array([0, 50]), axis=1)
Array([[0. , 4. ],
       [5. , 4.5]], dtype=float32)

positive
>>> wnp.positive(wnp.array([-1, 2]))
Array([-1,  2], dtype=int32)

radians
>>> wnp.radians(wnp.array([0.0, 180.0])) / wnp.pi
Array([0., 1.], dtype=float32)

real
>>> wnp.real(wnp.array([1 + 2j, 3]))
Array([1., 3.], dtype=float32)

reciprocal
>>> wnp.reciprocal(wnp.array([2, -4, 0]))
Array([ 0.5 , -0.25,   inf], dtype=float32)

right_shift
>>> wnp.right_shift(wnp.array([-8, 8]), 1)
Array([-4,  4], dtype=int32)

rint
>>> wnp.rint(wnp.array([0.5, 1.5, -2.6]))
Array([ 0.,  2., -3.], dtype=float32)

sign
>>> wnp.sign(wnp.array([-2.0, 0.0, wnp.nan, 3.0]))
Array([-1.,  0., nan,  1.], dtype=float32)

signbit
>>> wnp.signbit(wnp.array([-0.0, 0.0, -1.0]))
Array([ True, False,  True], dtype=bool)

sin
>>> wnp.sin(wnp.array([0, wnp.pi / 2]))
Array([0., 1.], dtype=float32)

sinh
>>> wnp.sinh(wnp.array([0.0, -100.0]))
Array([  0., -inf], dtype=float32)

sqrt
>>> wnp.sqrt(wnp.array([4.0, -1.0]))
Array([ 2., nan], dtype=float32)

square
>>> wnp.square(wnp.array([-3, 2j]))
Array([ 9.-0.j, -4.+0.j], dtype=complex64)

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

linalg.cond
>>> wnp.linalg.cond(wnp.diag(wnp.array([4.0, 0.5])))
Array(8., dtype=float32)

linalg.cross
>>> wnp.linalg.cross(wnp.array([1, 0, 0]), wnp.array([0, 1, 0]))
Array([0, 0, 1], dtype=int32)

linalg.diagonal
>>> wnp.linalg.diagonal(wnp.arange(8).reshape(2, 2, 2))
Array([[0, 3],
       [4, 7]], dtype=int32)

linalg.eig
>>> values, vectors = wnp.linalg.eig(wnp.array([[0.0, 1.0], [-1.0, 0.0]]))
>>> wnp.sort_complex(values)
Array([0.-1.j, 0.+1.j], dtype=complex64)

linalg.eigh
>>> values, vectors = wnp.linalg.eigh(wnp.array([[2.0, 1.0], [1.0, 2.0]]))
>>> values.round(4)
Array([1., 3.], dtype=float32)

linalg.eigvals
>>> wnp.linalg.eigvals(wnp.array([[1.0, 5.0], [0.0, 2.0]]))
Array([1.+0.j, 2.+0.j], dtype=complex64)

linalg.eigvalsh
>>> wnp.linalg.eigvalsh(wnp.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
Array([1., 3.], dtype=float32)

linalg.inv
>>> wnp.linalg.inv(wnp.array([[1.0, 2.0], [0.0, 4.0]]))
Array([[ 1.  , -0.5 ],
       [ 0.  ,  0.25]], dtype=float32)

linalg.lstsq
>>> x, residuals, rank, s = wnp.linalg.lstsq(wnp.ones((3, 1)), wnp.array([1.0, 2.0, 6.0]))
>>> x.round(4)
Array([3.], dtype=float32)

linalg.matmul
>>> wnp.linalg.matmul(wnp.ones((5, 2, 3)), wnp.ones((3, 4))).shape
(5, 2, 4)

linalg.matrix_norm
>>> wnp.linalg.matrix_norm(wnp.array([[1.0, -2.0], [3.0, 4.0]]), ord=1)
Array(6., dtype=float32)

linalg.matrix_power
>>> wnp.linalg.matrix_power(wnp.array([[1.0, 1.0], [0.0, 1.0]]), -3)
Array([[ 1., -3.],
       [ 0.,  1.]], dtype=float32)

linalg.matrix_rank
>>> wnp.linalg.matrix_rank(wnp.array([[1.0, 2.0], [2.0, 4.0]]))
Array(1, dtype=int32)

linalg.multi_dot
>>> wnp.linalg.multi_dot([wnp.ones((2, 100)), wnp.ones((100, 3)), wnp.ones(3)])
Array([300., 300.], dtype=float32)

linalg.outer
>>> wnp.linalg.outer(wnp.array([1, 2]), wnp.array([10, 20, 30]))
Array([[10, 20, 30],
       [20, 40, 60]], dtype=int32)

linalg.pinv
>>> wnp.linalg.pinv(wnp.array([[2.0, 0.0], [0.0, 0.0]]))
Array([[0.5, 0. ],
       [0. , 0. ]], dtype=float32)

linalg.qr
>>> q, r = wnp.linalg.qr(wnp.ones((4, 2)))
>>> q.shape, r.shape
((4, 2), (2, 2))

linalg.slogdet
>>> wnp.linalg.slogdet(-1e-20 * wnp.eye(3)).sign
Array(-1., dtype=float32)

linalg.svd
>>> u, s, vh = wnp.linalg.svd(wnp.array([[0.0, 2.0], [3.0, 0.0]]))
>>> s.round(4)
Array([3., 2.], dtype=float32)

linalg.svdvals
>>> wnp.linalg.svdvals(wnp.array([[0.0, 2.0], [3.0, 0.0]])).round(4)
Array([3., 2.], dtype=float32)

linalg.tensordot
>>> wnp.linalg.tensordot(wnp.ones((2, 3, 4)), wnp.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
(2, 5)

linalg.tensorinv
>>> wnp.linalg.tensorinv(2 * wnp.eye(4).reshape(2, 2, 4), ind=2).shape
(4, 2, 2)

linalg.tensorsolve
>>> wnp.linalg.tensorsolve(2 * wnp.eye(4).reshape(2, 2, 4), wnp.ones((2, 2)))
Array([0.5, 0.5, 0.5, 0.5], dtype=float32)

linalg.trace
>>> wnp.linalg.trace(wnp.arange(8).reshape(2, 2, 2))
Array([ 3, 11], dtype=int32)

linalg.vecdot
>>> wnp.linalg.vecdot(wnp.array([[1j, 0], [0, 2]]), wnp.array([1j, 1]))
Array([1.+0.j, 2.+0.j], dtype=complex64)

linalg.vector_norm
>>> wnp.linalg.vector_norm(wnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
Array([ 5., 10.], dtype=float32)

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
